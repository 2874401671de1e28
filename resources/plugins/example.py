"""A plug-in of the Quantization Workbench with one of each kind: copy it, and change it.

``workbench plugins PROJECT --add example.py`` offers what it adds; then, for instance,
``workbench rules PROJECT add --kind finder --match FirstLayer --config sixbit_weights``. It knows
nothing of the workbench: a script that ``workbench script`` writes imports it as it is.
"""

import torch
from executorch.backends.arm.quantizer import get_symmetric_quantization_config
from executorch.backends.arm.quantizer.arm_quantizer_utils import NodeFinder
from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
)

LINEAR = torch.ops.aten.linear.default
LAYERS = (torch.ops.aten.conv1d.default, torch.ops.aten.conv2d.default, LINEAR)


def sixbit_weights(*, is_qat):
    """8-bit activations, weights on 63 of the 255 codes: they compress better.

    With ``is_qat`` the observers round what they see, for training.
    """
    return get_symmetric_quantization_config(is_qat=is_qat, weight_qmin=-31, weight_qmax=31)


class Headroom(MinMaxObserver):
    """Minimum and maximum, and a quarter more on both sides.

    What an observer has seen must stand in buffers, ``min_val`` and ``max_val`` among them.
    """

    def calculate_qparams(self):
        """Return scale and zero point of the wider range."""
        return self._calculate_qparams(1.25 * self.min_val, 1.25 * self.max_val)


class FirstLayer(NodeFinder):
    """The first convolution or linear of the model."""

    def find_nodes(self, model):
        """Yield nodes of the exported graph; an iterator, not a list."""
        yield from [node for node in model.graph.nodes if node.target in LAYERS][:1]


def _bias_grid(observers):
    """Return the grid of a bias: the scale of input times weight, around zero."""
    input_scale, weight_scale = (observer.calculate_qparams()[0] for observer in observers)
    return input_scale * weight_scale, torch.zeros_like(weight_scale, dtype=torch.int32)


class SymmetricLinears(Quantizer):
    """Linears with symmetric 8-bit activations; all else is left to other rules."""

    activation = QuantizationSpec(
        torch.int8, MinMaxObserver.with_args(eps=2**-16), -127, 127, torch.per_tensor_symmetric
    )
    weight = QuantizationSpec(
        torch.int8, PerChannelMinMaxObserver, -127, 127, torch.per_channel_symmetric, ch_axis=0
    )

    def annotate(self, model):
        """Write specs into nodes that nobody has annotated yet."""
        for node in model.graph.nodes:
            if node.target is LINEAR and "quantization_annotation" not in node.meta:
                value, weight, bias = (*node.args, None)[:3]
                specs = {value: self.activation, weight: self.weight}
                if bias is not None:
                    specs[bias] = DerivedQuantizationSpec(
                        derived_from=[(value, node), (weight, node)],
                        derive_qparams_fn=_bias_grid,
                        dtype=torch.int32,
                        quant_min=-(2**31),
                        quant_max=2**31 - 2,
                        qscheme=torch.per_channel_symmetric,
                        ch_axis=0,
                    )
                node.meta["quantization_annotation"] = QuantizationAnnotation(
                    specs, self.activation, _annotated=True
                )
        return model

    def validate(self, model):
        """Refuse nothing."""


CONFIGS = [sixbit_weights]
OBSERVERS = [Headroom]
FINDERS = [FirstLayer]
QUANTIZERS = [SymmetricLinears]
