"""All suggestions for a compiled program, ranked by gain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from workbench.pipeline.resolution import resolve_graph
from workbench.suggestions import accuracy, cpu_operators, device_cost, granularity, joins, outputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from workbench.deploy.fitting import Fit
    from workbench.graph.snapshot import GraphSnapshot
    from workbench.project.model import Project
    from workbench.results import CalibrateResult, EvaluateResult, ExportResult, LowerResult, PrepareResult
    from workbench.suggestions.accuracy import Spared
    from workbench.suggestions.cpu_operators import Left
    from workbench.suggestions.granularity import CoarserUnit
    from workbench.suggestions.suggestion import Suggestion


@dataclass(frozen=True)
class Measurements:
    """What other stages and studies know about a compiled program; all of it may be unknown.

    Attributes:
        exported: The outputs of the model, and what they join.
        evaluated: The quality of the quantized model.
        prepared: The quantizer's report; with it, operators that the quantizer created are known.
        calibrated: The calibrated ranges.
        arrays: The arrays of the calibrated ranges.
        spared: What a sensitivity study measured with each module in float.
        coarser: What it measured with one scale for each weight of a module.
        fit: How the program fits the board.
        departs: Whether the program was compared with the quantized model, and is not the same.
    """

    exported: ExportResult | None = None
    evaluated: EvaluateResult | None = None
    prepared: PrepareResult | None = None
    calibrated: CalibrateResult | None = None
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    spared: tuple[Spared, ...] = ()
    coarser: tuple[CoarserUnit, ...] = ()
    fit: Fit | None = None
    departs: bool = False


NOTHING = Measurements()


@dataclass(frozen=True)
class CompiledModel:
    """What suggestions are derived from.

    Attributes:
        project: The compiled project.
        lowered: The compiled program.
        program: The exported float program, whose operations rules name.
        edge: The program at the level of partitioning.
        known: What other stages and studies know.
    """

    project: Project
    lowered: LowerResult
    program: GraphSnapshot
    edge: GraphSnapshot
    known: Measurements = NOTHING

    @cached_property
    def left(self) -> Left:
        """The CPU operators."""
        return cpu_operators.left_on_cpu(
            self.project, self.lowered, self.program, self.edge, self.known.prepared
        )

    @cached_property
    def labels(self) -> dict[str, str]:
        """The config of each module and operator, e.g. ``a8w8``."""
        resolution = resolve_graph(self.project, self.program)
        return {
            name: effective.label
            for name, effective in (*resolution.modules.items(), *resolution.nodes.items())
        }


@dataclass(frozen=True)
class Kind:
    """A kind of suggestion; the ids of its suggestions begin with ``id``.

    Attributes:
        id: The kind, as in ``workbench suggest PROJECT --apply ID``.
        title: What suggestions of this kind do.
        find: Returns the suggestions for a compiled model.
        first: Whether they come before all that are ranked by their gain.
    """

    id: str
    title: str
    find: Callable[[CompiledModel], Iterable[Suggestion]]
    first: bool = False


def _mend(model: CompiledModel) -> Iterable[Suggestion]:
    if not model.known.departs:
        return ()
    return accuracy.switched_off_corrections(model.project)


def _clip(model: CompiledModel) -> Iterable[Suggestion]:
    if model.known.calibrated is None:
        return ()
    return accuracy.clipped_outliers(model.project, model.known.calibrated, model.known.arrays)


KINDS: tuple[Kind, ...] = (
    Kind("mend", "Switch on corrections for a program that differs", _mend, first=True),
    Kind(
        "optimise_size",
        "Take less SRAM where the program does not fit the board",
        lambda m: device_cost.fit_memory(m.project, m.lowered, m.known.fit),
        first=True,
    ),
    Kind(
        "split_output",
        "Return what an output joins one by one, each with its own range",
        lambda m: outputs.split_output(m.known.evaluated, m.known.exported),
        first=True,
    ),
    Kind(
        "normalise_output",
        "Divide what an output joins to one size, so that one range holds all of it",
        lambda m: outputs.normalise_output(m.known.evaluated, m.known.exported),
    ),
    Kind(
        "wide_output",
        "Use 16 bits for the operations that make an output, or a part of it",
        lambda m: outputs.wide_output(m.known.evaluated, m.known.exported),
    ),
    Kind(
        "wide_ends",
        "Use 16 bits for inputs and outputs, where what is beside one has them",
        lambda m: outputs.wide_ends(m.project, m.program, m.known.exported, m.labels),
    ),
    Kind(
        "equalize_joins",
        "Equalize the weights around joins inside the network that lose an operand",
        lambda m: joins.equalize_joins(m.project, m.program, m.known.evaluated),
    ),
    Kind(
        "wide_join",
        "Use 16 bits around a join or sum inside the network that loses an operand",
        lambda m: joins.widen_joins(m.program, m.known.evaluated),
    ),
    Kind(
        "off",
        "Remove a rule that keeps a part off the NPU",
        lambda m: cpu_operators.run_on_npu(m.project, m.left),
    ),
    Kind(
        "correction",
        "Switch on a correction that moves operators to the NPU",
        lambda m: cpu_operators.switch_on_corrections(m.project, m.left),
    ),
    Kind(
        "float", "Quantize what is left in float", lambda m: cpu_operators.quantize_floats(m.project, m.left)
    ),
    Kind(
        "int16",
        "Use 8 bits where the device has no 16-bit operator",
        lambda m: cpu_operators.narrow_to_8_bits(m.project, m.left),
    ),
    Kind(
        "magnitudes",
        "Use 16 bits for a spectrum, its magnitude and its inverse transform",
        lambda m: cpu_operators.widen_magnitudes(m.project, m.left, m.program),
    ),
    Kind(
        "integer_io", "Use integer inputs and outputs", lambda m: cpu_operators.integer_io(m.project, m.left)
    ),
    Kind(
        "faster",
        "Write the network in an equal form that takes fewer cycles",
        lambda m: chain(
            device_cost.switch_on_rewrites(m.project, m.lowered, m.program),
            device_cost.switch_off_rewrites(m.lowered),
        ),
    ),
    Kind(
        "per_tensor",
        "Use one scale for each weight tensor: fewer bytes and cycles, less accuracy",
        lambda m: granularity.scales_per_tensor(m.project, m.lowered, m.known.coarser, m.labels),
    ),
    Kind(
        "per_tensor_modules",
        "Use one scale for each weight of the modules that lose least (after a sensitivity study; the "
        "trial of per_tensor gives it)",
        lambda _model: (),
    ),
    Kind(
        "channels_last",
        "Use a channels-last example input (in the source)",
        lambda m: device_cost.channels_last(m.project, m.lowered, m.program),
    ),
    Kind(
        "channels",
        "Use a number of channels that fills the NPU's blocks (in the source)",
        lambda m: device_cost.wasted_channels(m.lowered, m.program),
    ),
    Kind(
        "wider",
        "Use more bits for the modules that add most error to a program that is not accurate enough",
        lambda m: accuracy.wider_sources(m.project, m.known.evaluated, m.labels),
        first=True,
    ),
    Kind(
        "wide",
        "Use 16-bit activations for the modules that lose most quality",
        lambda m: accuracy.wider_modules(m.known.spared, m.labels),
    ),
    Kind("clip", "Clip the outliers of a tensor", _clip),
)


def suggest(
    project: Project,
    lowered: LowerResult,
    program: GraphSnapshot,
    edge: GraphSnapshot,
    known: Measurements = NOTHING,
) -> tuple[Suggestion, ...]:
    """Return suggestions, the one with the largest gain first.

    What mends a program that differs, and what makes it fit the board, comes before.

    Args:
        project: The compiled project.
        lowered: The compiled program.
        program: The exported float program, whose operations rules name.
        edge: The program at the level of partitioning.
        known: What other stages and studies know.
    """
    model = CompiledModel(project, lowered, program, edge, known)
    return ranked([s for kind in KINDS for s in kind.find(model)], lowered)


def ranked(suggestions: Iterable[Suggestion], lowered: LowerResult) -> tuple[Suggestion, ...]:
    """Return suggestions in the order in which they are shown; those that are tried have a gain.

    Args:
        suggestions: In the order of their kinds.
        lowered: The compiled program.
    """
    first = {kind.id for kind in KINDS if kind.first}
    return tuple(sorted(suggestions, key=lambda s: (s.kind not in first, -s.gain.share(lowered))))
