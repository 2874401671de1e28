"""ONNX files that tests make, by the helpers of ONNX and by both exporters of torch."""

import contextlib
import io
import warnings

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional as F

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
_random = np.random.default_rng(0)


def weight(name, *shape):
    return numpy_helper.from_array((_random.normal(size=shape) * 0.3).astype(np.float32), name)


def constant(name, value, kind=np.int64):
    return numpy_helper.from_array(np.array(value, kind), name)


def model(
    nodes, constants=(), inputs=(("x", FLOAT, [1, 4]),), outputs=("y",), *, opset=17, domains=(), kinds=None
):
    """Return a model; nodes are (operator, inputs, outputs, attributes)."""
    made = []
    for operator, taken, given, *rest in nodes:
        domain, _, name = operator.rpartition(".")
        made.append(helper.make_node(name, taken.split(), given.split(), domain=domain, **dict(*rest)))
        for position, text in enumerate(made[-1].input):
            made[-1].input[position] = "" if text == "-" else text
    types = kinds or {}
    graph = helper.make_graph(
        made,
        "net",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(o, types.get(o, FLOAT), None) for o in outputs],
        list(constants),
    )
    sets = [helper.make_opsetid("", opset), *(helper.make_opsetid(*d) for d in domains)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10 if opset > 21 else 8)


def picture(*shape):
    return (("x", FLOAT, list(shape)),)


def _resize(**attributes):
    scales = constant("s", [1, 1, 2, 1.5], np.float32)
    return model([("Resize", "x - s", "y", attributes)], [scales], picture(1, 2, 5, 6), opset=13)


def _transposed(**attributes):
    return model(
        [("ConvTranspose", "x w", "y", {"strides": [2, 2], **attributes})],
        [weight("w", 3, 4, 3, 3)],
        picture(1, 3, 5, 5),
    )


def _recurrent(kind, gates, **attributes):
    return model(
        [(kind, "x W R B", "a", {"hidden_size": 6, **attributes}), ("Squeeze", "a ax", "y")],
        [
            weight("W", 1, gates * 6, 4),
            weight("R", 1, gates * 6, 6),
            weight("B", 1, 2 * gates * 6),
            constant("ax", [1]),
        ],
        picture(5, 1, 4),
    )


def _activations():
    return model(
        [
            ("HardSigmoid", "x", "a"),
            ("Selu", "a", "b"),
            ("Elu", "b", "c", {"alpha": 0.5}),
            ("PRelu", "c p", "d"),
            ("Softplus", "d", "e"),
            ("Gelu", "e", "f", {"approximate": "tanh"}),
            ("Mish", "f", "g"),
            ("ThresholdedRelu", "g", "y", {"alpha": 0.2}),
        ],
        [weight("p", 3, 1, 1)],
        picture(1, 3, 4, 4),
        opset=20,
    )


def _same_padding():
    return model(
        [
            ("Conv", "x w", "a", {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
            ("Relu", "a", "b"),
            ("MaxPool", "b", "c", {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
            ("GlobalAveragePool", "c", "d"),
            ("Flatten", "d", "e"),
            ("MatMul", "e w2", "f"),
            ("Add", "f b2", "y"),
        ],
        [weight("w", 8, 3, 3, 3), weight("w2", 8, 5), weight("b2", 5)],
        picture(1, 3, 16, 16),
    )


def _early_operators():
    return model(
        [
            ("Unsqueeze", "x", "a", {"axes": [1]}),
            ("Pad", "a", "b", {"pads": [0, 0, 1, 1, 0, 0, 1, 1], "mode": "edge"}),
            ("Upsample", "b s", "c", {"mode": "nearest"}),
            ("Clip", "c", "d", {"min": -1.0, "max": 1.0}),
            ("Slice", "d", "e", {"starts": [1], "ends": [-1], "axes": [2]}),
            ("Squeeze", "e", "f", {"axes": [1]}),
            ("Softmax", "f", "y", {"axis": 1}),
        ],
        [constant("s", [1, 1, 2, 2], np.float32)],
        picture(1, 4, 4),
        opset=9,
    )


def _slices():
    return model(
        [
            ("Slice", "x s e ax st", "a"),
            ("Gather", "a i", "b", {"axis": 1}),
            ("ReduceMean", "b rax", "y", {"keepdims": 0}),
        ],
        [
            constant("s", [-1, 0]),
            constant("e", [-100, 9]),
            constant("ax", [2, 3]),
            constant("st", [-1, 2]),
            constant("i", [2, 0, -1]),
            constant("rax", [-1]),
        ],
        picture(1, 3, 4, 6),
        opset=18,
    )


def _classifier():
    """A pipeline of scikit-learn as skl2onnx writes it."""
    return model(
        [
            ("ai.onnx.ml.Scaler", "x", "a", {"offset": [0.1, 0.2, 0.3, 0.4], "scale": [1.0, 2.0, 3.0, 4.0]}),
            ("MatMul", "a w", "b"),
            ("Add", "b c", "d"),
            ("Relu", "d", "e"),
            ("MatMul", "e w2", "f"),
            ("Add", "f b2", "g"),
            ("Softmax", "g", "p", {"axis": 1}),
            ("ArgMax", "p", "l", {"axis": 1, "keepdims": 0}),
        ],
        [weight("w", 4, 8), weight("c", 8), weight("w2", 8, 3), weight("b2", 3)],
        (("x", FLOAT, [None, 4]),),
        ("l", "p"),
        domains=[("ai.onnx.ml", 3)],
        kinds={"l": INT64},
    )


def _normalized():
    return model(
        [
            ("LayerNormalization", "x g b", "a", {"axis": 1}),
            ("Split", "a", "p q", {"axis": 2, "num_outputs": 2}),
            ("Mul", "p q", "y"),
        ],
        [weight("g", 6, 8), weight("b", 6, 8)],
        picture(1, 6, 8),
        opset=18,
    )


def _averages():
    return model(
        [
            ("AveragePool", "x", "a", {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
            ("AveragePool", "a", "y", {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1], "count_include_pad": 1}),
        ],
        inputs=picture(1, 3, 8, 8),
    )


def _branch():
    def branch(operator):
        node = helper.make_node(operator, ["x"], ["r"])
        return helper.make_graph([node], operator, [], [helper.make_tensor_value_info("r", FLOAT, None)])

    branches = {"then_branch": branch("Relu"), "else_branch": branch("Neg")}
    return model([("If", "c", "y", branches)], [constant("c", False, bool)])


def _attention():
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    return model([("Attention", "x x x", "y", heads)], inputs=picture(1, 6, 8), opset=23)


def _moved():
    return model(
        [
            ("Einsum", "x w", "a", {"equation": "bij,jk->bik"}),
            ("CumSum", "a ax", "b"),
            ("Expand", "b sh", "c"),
            ("TopK", "c k", "v i"),
            ("Where", "m v z", "y"),
        ],
        [
            weight("w", 4, 5),
            constant("ax", 1),
            constant("sh", [2, 3, 5]),
            constant("k", [3]),
            constant("m", [True, False, True], bool),
            constant("z", 0, np.float32),
        ],
        picture(1, 3, 4),
    )


HAND_MADE = {
    "same padding": _same_padding,
    "early operators": _early_operators,
    "slices": _slices,
    "activations": _activations,
    "classifier": _classifier,
    "normalized": _normalized,
    "averages": _averages,
    "branch": _branch,
    "attention": _attention,
    "moved": _moved,
    "GRU that resets first": lambda: _recurrent("GRU", 3),
    "GRU backwards": lambda: _recurrent("GRU", 3, direction="reverse", linear_before_reset=1),
    "LSTM": lambda: _recurrent("LSTM", 4),
    "RNN": lambda: _recurrent("RNN", 1),
    "transposed, same": lambda: _transposed(auto_pad="SAME_UPPER"),
    "transposed, cut": lambda: _transposed(pads=[0, 0, 1, 1]),
    "transposed to a shape": lambda: _transposed(output_shape=[10, 10]),
    "nearest": lambda: _resize(mode="nearest"),
    "nearest from the corner": lambda: _resize(
        mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    ),
    "linear": lambda: _resize(mode="linear"),
    "linear from the corner": lambda: _resize(mode="linear", coordinate_transformation_mode="asymmetric"),
    "linear to the corners": lambda: _resize(mode="linear", coordinate_transformation_mode="align_corners"),
    "cubic": lambda: _resize(mode="cubic"),
}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).view(1, 10, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-1, -2) * 0.5).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(1, 10, 16))
        return x + self.down(F.gelu(self.up(x)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 6, batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, 4)

    def forward(self, x):
        return self.head(self.gru(x)[0].mean(1))


def convolutional():
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU6(),
        nn.MaxPool2d(2),
        nn.ConvTranspose2d(8, 8, 3, 2, 1, 1),
        nn.Hardswish(),
        nn.Upsample(scale_factor=2),
        nn.AvgPool2d(4),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    return net, torch.randn(1, 3, 8, 8)


EXPORTED = {
    "convolutional": convolutional,
    "attention": lambda: (Attention(), torch.randn(1, 10, 16)),
    "recurrent": lambda: (Recurrent(), torch.randn(1, 6, 8)),
}


def exported(make, path, *, dynamo):
    """Write what one of the exporters of torch makes of a network; return the network."""
    torch.manual_seed(0)
    net, x = make()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        more = {} if dynamo else {"opset_version": 17}
        torch.onnx.export(net.eval(), (x,), str(path), dynamo=dynamo, **more)
    return net.eval()


def save(made, path):
    onnx.save(made, str(path))
    return path
