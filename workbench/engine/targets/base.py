"""The torch side of a target, as the stages use it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import torch

    from workbench.engine.context import StageContext
    from workbench.engine.data import Sample
    from workbench.engine.quality.arithmetic_models import ReadingTally
    from workbench.engine.training.model import Student
    from workbench.graph.snapshot import GraphSnapshot
    from workbench.project.model import Project, TargetChoice
    from workbench.results import (
        CpuNode,
        FormatMemory,
        LowerResult,
        NodeAnnotation,
        SimulationResult,
        VerifyResult,
    )


@dataclass
class Lowered:
    """A compiled program.

    ``edge`` is the edge program with its delegates, ``tosa`` one flatbuffer for each of them,
    ``pte`` the bytes for the runtime, ``device_graph`` the program that the delegates hold, in the
    device's own operators; None for a target that has no such form. ``weights`` are the bytes of
    the file that they lie in apart from the program; None where they lie in it. ``files`` are what
    there is instead of a program, then empty, where another compiler makes it.
    """

    edge: Any
    tosa: list[bytes]
    pte: bytes
    device_graph: GraphSnapshot | None = None
    weights: bytes | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)


class Toolchain(Protocol):
    """What the module named in a target's ``toolchain`` offers; every target has it."""

    def quantizer(self, project: Project, folder: Path, /) -> Any:
        """Return a quantizer with the rules of a project in ``folder``, for ``prepare``."""
        ...

    def student(self, floating: torch.fx.GraphModule, project: Project, folder: Path, /) -> Student:
        """Return the float program, which is changed, with its rounding, to be trained.

        Raises:
            WorkbenchError: rules round nothing.
        """
        ...

    def float_module(
        self, context: StageContext, /
    ) -> AbstractContextManager[torch.fx.GraphModule]:
        """Give the float program's module to prepare, while the block runs."""
        ...

    def prepare(self, module: torch.fx.GraphModule, quantizer: Any, /) -> torch.fx.GraphModule:
        """Return the module with observers where the quantizer wants them; it may be changed."""
        ...

    def convert(
        self, module: torch.fx.GraphModule, /, *, fold: bool = True
    ) -> torch.fx.GraphModule:
        """Return the quantized module of one with observers, which is used up.

        Without ``fold`` weights stay float, and are quantized whenever it runs.
        """
        ...

    def memory(self, observed: torch.fx.GraphModule, /) -> FormatMemory | None:
        """Return what the values of a prepared module would take; None where a compiler says."""
        ...

    def departures(self, context: StageContext, converted: torch.fx.GraphModule, /) -> list[str]:
        """Return in sentences where the device will depart from the quantized module.

        They are known before anything is compiled; empty where it computes the same.
        """
        ...

    def report(
        self, quantizer: Any, prepared: torch.fx.GraphModule, project: Project, /
    ) -> list[NodeAnnotation]:
        """Return what the quantizer did with every node."""
        ...

    def readings(self, context: StageContext, /) -> list[ReadingTally]:
        """Return the ways to read the target's arithmetic, to be measured side by side.

        Empty where there is only one.
        """
        ...


class CompilingToolchain(Toolchain, Protocol):
    """What a target with the stages ``lower`` and ``verify`` offers."""

    def lower(self, context: StageContext, /) -> tuple[Lowered, LowerResult]:
        """Compile the quantized program."""
        ...

    def verify(self, context: StageContext, /) -> VerifyResult:
        """Compare the compiled program with the quantized one on the target's reference model."""
        ...


class DeviceToolchain(CompilingToolchain, Protocol):
    """What a target whose device can be simulated here, in the stage ``run``, offers."""

    def foreseen(
        self, context: StageContext, choice: TargetChoice, /
    ) -> tuple[int, tuple[CpuNode, ...]]:
        """Return how many operators would go to a device, and which not; nothing is compiled.

        Raises:
            WorkbenchError: the program cannot be lowered for that device at all.
        """
        ...

    def refusal(self, context: StageContext, kept_off: Sequence[tuple[str, str]], /) -> str:
        """Return why the quantized program cannot be compiled with this kept off the NPU.

        "" when it can be compiled. ``kept_off`` are kinds of rules and what they match.
        """
        ...

    def integers(
        self, context: StageContext, history: Sequence[Sample], /
    ) -> dict[str, torch.Tensor]:
        """Return the values of the compiled program's tensors, by the quantized graph's names.

        They are those for the last sample of ``history``, after the others in their order.
        """
        ...

    def simulate(self, context: StageContext, /) -> SimulationResult:
        """Run the compiled program on the target's simulator, and compare its outputs."""
        ...

    def borders(
        self, module: torch.fx.GraphModule, integer_io: bool, /
    ) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
        """Return how each input and each output of the program stands for real numbers."""
        ...

    def runtime_values(
        self, module: torch.fx.GraphModule, inputs: tuple[torch.Tensor, ...],
        outputs: list[torch.Tensor], integer_io: bool, /
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:  # fmt: skip
        """Return inputs and outputs of the module as the compiled program takes and gives them."""
        ...

    def tolerance(self, module: torch.fx.GraphModule, /) -> list[dict[str, float]]:
        """Return for each output the absolute difference that one step of its grid makes."""
        ...


def departures(context: StageContext, converted: torch.fx.GraphModule) -> list[str]:
    """Return none."""
    del context, converted
    return []


def readings(context: StageContext) -> list[ReadingTally]:
    """Return none to put side by side."""
    del context
    return []
