"""A suggestion, its expected gain, and the gain of an applied one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.text import signed

if TYPE_CHECKING:
    from workbench.project.model import Project
    from workbench.results import LowerResult

    Edit = Callable[[Project], Project]


@dataclass(frozen=True)
class Written:
    """A source line before and after the change; ``place`` is ``file.py:12``.

    ``now`` is empty if the line is unknown.
    """

    place: str
    now: str
    instead: str


@dataclass(frozen=True)
class ExpectedGain:
    """What a suggestion is expected to save or to improve; None is unknown.

    Attributes:
        cpu_operators: Operators fewer on the CPU, including conversions.
        cycles: NPU cycles fewer.
        sqnr_db: Signal to quantization noise ratio gained [dB].
        bytes: Bytes fewer in the program file.
        of_tensors: The number of tensors, if ``sqnr_db`` is that of one tensor alone; else 1, and
            it is that of the outputs.
    """

    cpu_operators: int | None = None
    cycles: int | None = None
    sqnr_db: float | None = None
    bytes: int | None = None
    of_tensors: int = 1

    def share(self, lowered: LowerResult) -> float:
        """Return the largest share that goes away, in [0, 1], of what a program has.

        Compared are operators on the CPU, NPU cycles, and the power of the quantization noise, of
        which a gain of g dB removes 1 - 10^(-g / 10).
        """
        shares = [
            _part(self.cpu_operators, len(lowered.cpu_nodes)),
            _part(self.cycles, sum(report.cycles_total for report in lowered.vela)),
        ]
        if self.sqnr_db is not None and self.sqnr_db > 0:
            shares.append((1.0 - 10.0 ** (-self.sqnr_db / 10.0)) / self.of_tensors)
        return max(shares)


def _part(saved: int | None, total: int) -> float:
    return min(max(saved, 0) / total, 1.0) if saved is not None and total else 0.0


@dataclass(frozen=True)
class Alternative:
    """Another edit that is tried where that of the suggestion is not enough.

    ``title`` is what it does in addition.
    """

    title: str
    edit: Edit


@dataclass(frozen=True)
class ModuleSaving:
    """What a module saves by a suggestion, and loses.

    ``cycles``, ``ms`` and ``bytes`` of its encoded weights are those fewer, estimated. ``sqnr_db``
    [dB] and ``points`` of top-1 are changes of the outputs' quality, None if unknown.
    """

    name: str
    cycles: int
    ms: float
    bytes: int
    sqnr_db: float | None = None
    points: float | None = None


def module_cells(saving: ModuleSaving) -> tuple[str, ...]:
    """Return name, and changes of ms, bytes, dB and points of a module; "" is unknown."""
    db = "" if saving.sqnr_db is None else _signed(saving.sqnr_db, 2)
    points = "" if saving.points is None else _signed(saving.points, 1)
    return saving.name, _signed(-saving.ms, 3), _signed(-saving.bytes, 0), db, points


def _signed(value: float, digits: int) -> str:
    """Return a change with its sign; 0 for one that rounds to it."""
    if not round(value, digits):
        return "0"
    return f"{value:+,.{digits}f}"


@dataclass(frozen=True)
class Suggestion:
    """One suggestion.

    Attributes:
        id: Equal for the same suggestion about another result: its kind, and what it is about
            behind a colon where a kind can have several.
        title: The action, and the name of its undo step.
        evidence: The reason, in one or two sentences.
        expected: The expected effect, and how it is known.
        gain: The expected effect in figures.
        nodes: The CPU operators concerned, as named in the compiled program.
        edit: The edit of the project; None if only the source can be changed.
        written: The source lines to change.
        improves: The figure that must be better when the suggestion is tried: such a suggestion is
            compiled and measured before it is offered; ``size`` is cycles or bytes. "" for those
            that are not tried.
        alternatives: What is tried one after the other while a part stays below its limit.
        output: The output of the model that it concerns; None for all of them.
        modules: What each module saves and loses, where that is known.
        per_module: Returns ``modules`` from the programs without and with the suggestion, when it is
            tried.
        then: Returns a further suggestion from both programs, which is tried too; None for none.
        tried: Whether ``gain`` was measured on the compiled program with the suggestion; else it is
            counted, predicted or estimated, as ``expected`` says.
    """

    id: str
    title: str
    evidence: str
    expected: str
    gain: ExpectedGain = ExpectedGain()
    nodes: tuple[str, ...] = ()
    edit: Edit | None = None
    written: tuple[Written, ...] = ()
    improves: Literal["", "sqnr_db", "cycles", "size"] = ""
    alternatives: tuple[Alternative, ...] = ()
    output: int | None = None
    modules: tuple[ModuleSaving, ...] = ()
    per_module: Callable[[LowerResult, LowerResult], tuple[ModuleSaving, ...]] | None = None
    then: Callable[[LowerResult, LowerResult], Suggestion | None] | None = None
    tried: bool = False

    @property
    def kind(self) -> str:
        """The kind: a row of ``ranking.KINDS``."""
        return self.id.partition(":")[0]


def with_option(project: Project, name: str, value: bool | str) -> Project:
    """Return the project with an option of its target."""
    options = {**project.target.options, name: value}
    return edits.set_target(project, TargetChoice(id=project.target.id, options=options))


@dataclass(frozen=True)
class Gain:
    """Two compiled programs of one model, for one device."""

    before: LowerResult
    after: LowerResult

    @property
    def sentence(self) -> str:
        """Return the change on the CPU, counted, and on the NPU, estimated."""
        before, after = (len(figure.cpu_nodes) for figure in (self.before, self.after))
        cpu = f"Operators on the CPU {before} \u2192 {after}, counted"
        delegates = f"delegates {self.before.delegates} \u2192 {self.after.delegates}"
        old, new = (_cycles(figure) for figure in (self.before, self.after))
        change = f" ({signed(100 * (new - old) / old, 1)} %)" if old else ""
        cycles = f"NPU cycles {old:,} \u2192 {new:,}{change}, estimated ({self._vela()})"
        return f"{cpu}; {delegates}; {cycles}. Cycles do not include the CPU."

    def _vela(self) -> str:
        versions = dict.fromkeys((self.before.vela_version, self.after.vela_version))
        return f"Vela {' and '.join(versions)}"


def _cycles(lowered: LowerResult) -> int:
    return sum(report.cycles_total for report in lowered.vela)
