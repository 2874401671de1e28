"""Both answers to a finished program: compiled correctly, and accurate enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from workbench.analysis.accuracy import AccuracyResult, accuracy_figures, accuracy_of
from workbench.analysis.gate import GateResult, figures, verdict
from workbench.project.frozen import Frozen
from workbench.results import EvaluateResult, LowerResult, SimulationResult, VerifyResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.ids import StageId
    from workbench.project.model import Project

_Result = TypeVar("_Result", bound=Frozen)


class Load(Protocol):
    """Returns the result of a stage; None if there is none."""

    def __call__(self, kind: type[_Result], stage: StageId, /) -> _Result | None:
        """Return the result of a stage of this kind."""
        ...


@dataclass(frozen=True)
class Answers:
    """Whether a program is compiled correctly, and whether it is accurate enough."""

    gate: GateResult
    accuracy: AccuracyResult

    @property
    def refused(self) -> bool:
        """Whether one of both answers keeps the program from being delivered."""
        return self.gate.verdict == "differs" or self.accuracy.refused

    @property
    def refusal(self) -> str:
        """Why the program is not delivered, in one line; "" if it is."""
        parts = []
        if self.gate.verdict == "differs":
            parts.append(self.gate.sentence)
        if self.accuracy.refused:
            parts.append(self.accuracy.sentence)
        return "; ".join(parts)


def answers_of(
    project: Project,
    load: Load,
    *,
    fail_if: Sequence[str] = (),
    reason: str = "The stage verify did not run.",
    why_not_measured: str = "The stage evaluate did not run.",
) -> Answers:
    """Return both answers.

    Args:
        project: The limits.
        load: Returns the results of the stages.
        fail_if: Further conditions; they replace the project's limits of the same figures.
        reason: Why the stage verify has no result, if it has none.
        why_not_measured: Why neither evaluate nor verify has a result, if none has.

    Raises:
        WorkbenchError: A condition or a stored result cannot be read.
    """
    evaluated = load(EvaluateResult, "evaluate")
    verified = load(VerifyResult, "verify")
    gate = verdict(
        project.gate,
        evaluated=evaluated,
        lowered=load(LowerResult, "lower"),
        verified=verified,
        simulated=load(SimulationResult, "run"),
        fail_if=fail_if,
        reason=reason,
    )
    accuracy = accuracy_of(
        project.accuracy,
        evaluated=evaluated,
        verified=verified,
        conditions=(*project.gate.fail_if, *fail_if),
        reason=why_not_measured,
    )
    return Answers(gate, accuracy)


def all_figures(load: Load) -> dict[str, float]:
    """Return the figures of ``workbench.project.gate.FIGURES`` that the results have.

    Raises:
        WorkbenchError: A stored result is damaged.
    """
    evaluated = load(EvaluateResult, "evaluate")
    verified = load(VerifyResult, "verify")
    known = figures(evaluated, load(LowerResult, "lower"), verified, load(SimulationResult, "run"))
    return known | accuracy_figures(evaluated, verified)
