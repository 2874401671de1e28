"""The compiled program taken through samples in their order, on the reference model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.engine.toolchains.ethos_u.grids import given_values, meant_values

if TYPE_CHECKING:
    import torch

    from workbench.engine.data import Sample
    from workbench.engine.toolchains.ethos_u.reference import IntegerProgram


class IntegerSteps:
    """Runs the integer program sample after sample; it remembers as it would on the device.

    Outputs that are inputs of the next step go there as real numbers, on the grid of that input:
    firmware that hands integers on must change them from one grid to the other likewise.
    """

    def __init__(
        self, program: IntegerProgram, converted: torch.fx.GraphModule, *, integer_io: bool
    ) -> None:
        self._program, self._converted, self._integer_io = program, converted, integer_io
        self._carried: list[torch.Tensor] = []

    def given(self, sample: Sample) -> list[torch.Tensor]:
        """Return what the program takes for the next sample, and begin anew where that does."""
        if sample.begins:
            self._program.reset()
            self._carried = []
        inputs = sample.inputs
        if self._carried:
            inputs = (*inputs[: -sample.carried], *self._carried)
        return given_values(self._converted, inputs, self._integer_io)

    def __call__(self, sample: Sample) -> list[torch.Tensor]:
        """Return the program's own outputs for the next sample, without what is carried on."""
        outputs = self._program.compute(tuple(self.given(sample)))
        kept = len(outputs) - sample.carried
        if sample.carried:
            self._carried = meant_values(self._converted, outputs, self._integer_io)[kept:]
        return outputs[:kept]
