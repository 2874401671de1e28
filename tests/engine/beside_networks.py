"""Networks beside each other in one program: as right as each alone, in one run of all stages."""

import corrected_networks as corrected
import delegate_networks as delegates
import torch
from torch import nn


class _Beside(nn.Module):
    """Each network has inputs and outputs of its own."""

    def __init__(self, networks):
        super().__init__()
        self.parts = nn.ModuleList(model for model, _ in networks)
        self.inputs = [len(inputs) for _, inputs in networks]

    def forward(self, *values):
        outputs = []
        for part, inputs in zip(self.parts, self.inputs, strict=True):
            made, values = part(*values[:inputs]), values[inputs:]
            outputs += [made] if isinstance(made, torch.Tensor) else made
        return tuple(outputs)


def _beside(*functions):
    networks = [function() for function in functions]
    return _Beside(networks).eval(), tuple(x for _, inputs in networks for x in inputs)


def corrected_images():
    return _beside(
        corrected.least,
        corrected.most_of_one,
        corrected.clamped_and_joined,
        corrected.even_kernel,
        corrected.padded_by_nothing,
    )


def corrected_in_16_bits():
    return _beside(corrected.residual, corrected.transposed, corrected.cumulated, corrected.passed_through)


def corrected_delegates():
    return _beside(delegates.multiplied_and_joined, delegates.negated_largest, delegates.number_minus_value)
