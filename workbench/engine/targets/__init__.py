"""The torch side of a target."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from workbench.engine.quantization.per_tensor_switches import QuantizingToolchain
from workbench.engine.runtime.imports import import_quickly
from workbench.targets import target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import torch

    from workbench.engine.data import Sample
    from workbench.engine.evaluation.arithmetic_models import ReadingTally
    from workbench.engine.runtime.context import StageContext
    from workbench.engine.training.model import QatModel
    from workbench.graph.snapshot import GraphSnapshot
    from workbench.project.model import Project, TargetChoice
    from workbench.project.opened import OpenProject
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

    ``edge`` is the edge program with its delegates, ``tosa`` one flatbuffer per delegate, ``pte``
    the bytes for the runtime, ``device_graph`` the contents of the delegates in the device's
    operators; None if the target has no such form. ``weights`` are the bytes of the separate
    weights file; None if the program contains them. ``files`` are set instead of a program, which
    is then empty, if another compiler creates it. ``record`` is the ETRecord; None without one.
    """

    edge: Any
    tosa: list[bytes]
    pte: bytes
    device_graph: GraphSnapshot | None = None
    weights: bytes | None = None
    record: bytes | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)


class Toolchain(QuantizingToolchain, Protocol):
    """The interface of the module in a target's ``toolchain``."""

    def quantizer(self, opened: OpenProject, /) -> Any:
        """Return a quantizer with the rules of a project, for ``prepare``."""
        ...

    def trial_quantizer(self, opened: OpenProject, /) -> Any:
        """Return a quantizer with the rules of a project that leaves layers as they are written."""
        ...

    def qat_model(self, floating: torch.fx.GraphModule, opened: OpenProject, /) -> QatModel:
        """Return the float program, which is changed, with fake quantization, for training.

        Raises:
            WorkbenchError: the rules quantize nothing.
        """
        ...

    def float_module(self, context: StageContext, /) -> AbstractContextManager[torch.fx.GraphModule]:
        """Yield the float program's module for preparation."""
        ...

    def memory(self, observed: torch.fx.GraphModule, /) -> FormatMemory | None:
        """Return the memory of a prepared module's values; None if the compiler determines it."""
        ...

    def known_differences(self, context: StageContext, converted: torch.fx.GraphModule, /) -> list[str]:
        """Return the known differences between the device and the quantized module, as sentences.

        They are known before compilation; empty if the results are equal.
        """
        ...

    def report(
        self, quantizer: Any, prepared: torch.fx.GraphModule, project: Project, /
    ) -> list[NodeAnnotation]:
        """Return the quantizer's report on every node."""
        ...

    def arithmetic_variants(self, context: StageContext, /) -> list[ReadingTally]:
        """Return the arithmetics of the target that are compared side by side.

        Empty if there is only one.
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

    def preview_placement(
        self, context: StageContext, choice: TargetChoice, /
    ) -> tuple[int, tuple[CpuNode, ...]]:
        """Return the number of operators supported by a device, and the others; without compiling.

        Raises:
            WorkbenchError: the program cannot be lowered for that device.
        """
        ...

    def refusal(
        self,
        context: StageContext,
        cpu_only: Sequence[tuple[str, str]],
        report: Callable[[float, str], None],
        /,
    ) -> str:
        """Return why the quantized program cannot be compiled with this kept off the NPU.

        "" if it can be compiled. ``cpu_only`` are rule kinds and matches; ``report`` takes the
        part of the compilation that is done and what is done next.
        """
        ...

    def integers(
        self, context: StageContext, history: Sequence[Sample], /
    ) -> dict[str, dict[str, torch.Tensor]]:
        """Return the values of the integer programs' tensors, by the quantized graph's names.

        "integer" is the program before the compiler, "compiled" the one behind it, as far as it can
        be executed. They belong to the last sample of ``history``, after the others in order.
        """
        ...

    def simulate(self, context: StageContext, /) -> SimulationResult:
        """Run the compiled program on the target's simulator, and compare its outputs."""
        ...

    def io_quantization(
        self, module: torch.fx.GraphModule, integer_io: bool, /
    ) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
        """Return how each input and each output of the program stands for real numbers."""
        ...

    def runtime_values(
        self,
        module: torch.fx.GraphModule,
        inputs: tuple[torch.Tensor, ...],
        outputs: list[torch.Tensor],
        integer_io: bool,
        /,
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Return inputs and outputs of the module as the compiled program takes and gives them."""
        ...

    def tolerance(self, module: torch.fx.GraphModule, /) -> list[dict[str, float]]:
        """Return for each output the absolute difference that one step of its grid makes."""
        ...


def toolchain_of(context: StageContext) -> Toolchain:
    """Return the torch side of the project's target."""
    toolchain: Toolchain = _module_of(context)
    return toolchain


def compiler_of(context: StageContext) -> CompilingToolchain:
    """Return the torch side of a target that has the stage ``lower``."""
    toolchain: CompilingToolchain = _module_of(context)
    return toolchain


def device_of(context: StageContext) -> DeviceToolchain:
    """Return the torch side of a target whose device can be simulated."""
    toolchain: DeviceToolchain = _module_of(context)
    return toolchain


def _module_of(context: StageContext) -> Any:
    return import_quickly(target_of(context.project.target.id).toolchain)


def known_differences(context: StageContext, converted: torch.fx.GraphModule) -> list[str]:
    """Return none."""
    del context, converted
    return []


def arithmetic_variants(context: StageContext) -> list[ReadingTally]:
    """Return no further arithmetics."""
    del context
    return []
