"""One network twice: as a module of torch, and as TensorFlow Lite writes it with its weights."""

import numpy as np
import torch
from torch import nn

from tests import tflite_models as ops

SIZE, SAMPLES = 15, 12


class Twin(nn.Module):
    """A convolution, a depthwise one, a residual of a pointwise one, a pool and classes."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.depthwise = nn.Conv2d(8, 8, 3, 1, 1, groups=8)
        self.pointwise = nn.Conv2d(8, 8, 1)
        self.classes = nn.Linear(8, 5)

    def layers(self, x):
        """Return the tensor after each layer by its name."""
        stem = torch.relu(self.stem(x))
        depthwise = torch.relu(self.depthwise(stem))
        pointwise = self.pointwise(depthwise)
        added = torch.relu(pointwise + stem)
        pooled = added.mean((2, 3), keepdim=True)
        classes = self.classes(pooled.flatten(1))
        return {
            "input": x,
            "stem": stem,
            "depthwise": depthwise,
            "pointwise": pointwise,
            "added": added,
            "pooled": pooled,
            "classes": classes,
        }

    def forward(self, x):
        return self.layers(x)["classes"]


def twin():
    torch.manual_seed(11)
    return Twin().eval(), (torch.randn(1, 3, SIZE, SIZE),)


def twin_samples():
    random = torch.Generator().manual_seed(12)
    return [(torch.randn(1, 3, SIZE, SIZE, generator=random),) for _ in range(SAMPLES)]


class _Writer(ops.Writer):
    """Writes layers with the weights of modules, and activations with the ranges of samples."""

    def __init__(self, module, samples):
        super().__init__(0)
        with torch.no_grad():
            values = [module.layers(*sample) for sample in samples]
        self.ranges = {
            name: (
                min(0.0, *(float(value[name].min()) for value in values)),
                max(0.0, *(float(value[name].max()) for value in values)),
            )
            for name in values[0]
        }

    def layer(self, name, *shape):
        """Return the activation of a layer with the grid of its range."""
        low, high = self.ranges[name]
        scale = float(np.float32((high - low) / 255))
        return self.tensor(shape, "int8", scale, round(-128 - low / scale))

    def weights(self, x, module, order, axis):
        """Return the weights of a layer with a grid for each channel, and its bias."""
        values = module.weight.detach().numpy()
        largest = np.abs(values).reshape(len(values), -1).max(1)
        scales = (largest / 127).astype(np.float32)
        codes = np.round(values / scales.reshape(-1, *[1] * (values.ndim - 1))).astype(np.int8)
        bias = np.round(module.bias.detach().numpy() / (scales * np.float32(x.scale))).astype(np.int32)
        zeros = np.zeros(len(scales), int)
        return [
            self.constant(codes.transpose(order), scale=scales, zero=zeros, axis=axis),
            self.constant(bias, scale=scales * np.float32(x.scale), zero=zeros),
        ]


def twin_tflite(*, rescaled=False):
    """Return the bytes of the network as TensorFlow Lite, with a superfluous rescale if wanted."""
    module, _ = twin()
    w = _Writer(module, twin_samples())
    side = -(-SIZE // 2)
    strides = {"strideW": 2, "strideH": 2, "dilationWFactor": 1, "dilationHFactor": 1, "padding": ops.SAME}
    one = strides | {"strideW": 1, "strideH": 1}
    x = w.layer("input", 1, SIZE, SIZE, 3)
    w._graph.inputs.append(x.index)
    weights = w.weights(x, module.stem, (0, 2, 3, 1), 0)
    stem = w.layer("stem", 1, side, side, 8)
    fields = strides | {"fusedActivationFunction": 1}
    w.call("CONV_2D", [x, *weights], [stem], "Conv2DOptions", 3, **fields)
    weights = w.weights(stem, module.depthwise, (1, 2, 3, 0), 3)
    depthwise = w.layer("depthwise", 1, side, side, 8)
    fields = one | {"depthMultiplier": 1, "fusedActivationFunction": 1}
    w.call("DEPTHWISE_CONV_2D", [stem, *weights], [depthwise], "DepthwiseConv2DOptions", 3, **fields)
    weights = w.weights(depthwise, module.pointwise, (0, 2, 3, 1), 0)
    pointwise = w.layer("pointwise", 1, side, side, 8)
    w.call("CONV_2D", [depthwise, *weights], [pointwise], "Conv2DOptions", 3, **one)
    if rescaled:
        pointwise = ops.requantized(w, pointwise)
    added = w.layer("added", 1, side, side, 8)
    w.call("ADD", [pointwise, stem], [added], "AddOptions", 2, fusedActivationFunction=1)
    pooled = w.layer("pooled", 1, 1, 1, 8)
    axes = w.constant(np.array([1, 2], np.int32))
    w.call("MEAN", [added, axes], [pooled], "ReducerOptions", 2, keepDims=True)
    flat = ops.reshaped(w, pooled, (1, 8))
    scale = float(module.classes.weight.detach().abs().max() / 127)
    codes = np.round(module.classes.weight.detach().numpy() / scale).astype(np.int8)
    bias = np.round(module.classes.bias.detach().numpy() / (scale * flat.scale)).astype(np.int32)
    classes = w.layer("classes", 1, 5)
    ins = [flat, w.constant(codes, scale=scale, zero=0), w.constant(bias, scale=scale * flat.scale, zero=0)]
    w.call("FULLY_CONNECTED", ins, [classes], "FullyConnectedOptions", 4)
    return w.done(classes)
