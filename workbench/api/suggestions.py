"""Suggestions for a compiled project: list them, and apply some."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from workbench.analysis.answers import answers_of
from workbench.api.jobs import JobFailedError
from workbench.api.runs import RunResult, run
from workbench.api.summary import suggestions_of
from workbench.deploy import fitting
from workbench.errors import Place, failure
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import Plan, plan
from workbench.project.frozen import Frozen
from workbench.results import EvaluateResult, LowerResult, load_result
from workbench.studies.documents import load_study, study_folder, study_key
from workbench.studies.sensitivity import SensitivityResult
from workbench.suggestions import KINDS, Figures, candidates, enough_db, further, is_better, ranked, tried
from workbench.targets import target_of
from workbench.text import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import TypeVar

    from workbench.api.studies import JobOptions
    from workbench.ids import StageId
    from workbench.project.opened import OpenProject
    from workbench.suggestions import Suggestion

    _Result = TypeVar("_Result", bound=Frozen)


def suggestions(opened: OpenProject, **how: Unpack[JobOptions]) -> tuple[Suggestion, ...]:
    """Return what would help the compiled program, the one with the largest gain first.

    The project is compiled where the cache has no program, and with each suggestion that is to be
    tried; those that gain nothing then are left out. Results of *Verify* and of a sensitivity
    study are used where the cache has them. Targets without a compiled program have none.

    Args:
        opened: The project.
        how: Trust, cache, acceleration and events.

    Raises:
        WorkbenchError: The project is invalid.
        JobFailedError: A stage failed.
        TrustRequiredError: The project names code that is not trusted.
        Cancelled: The user pressed Ctrl-C.
    """
    if "lower" not in target_of(opened.project.target.id).stages:
        return ()
    cache = how.get("cache") or Cache(default_root())
    result = _compiled(opened, {**how, "cache": cache})
    if result.errors:
        raise JobFailedError(result.errors)
    folders = result.folders
    lowered = load_result(LowerResult, folders["lower"])
    if lowered.exported is not None:
        return ()
    planned = plan(opened, cache)
    fit = fitting.of_results(opened, folders["lower"])
    sensitivity, departs = _sensitivity(opened, cache, planned), _departs(opened, cache, planned)
    offered = suggestions_of(opened.project, folders, fit, sensitivity, departs=departs)
    until: StageId = "verify" if departs else "lower"
    shown = (_tried(opened, one, folders, until, {**how, "cache": cache}) for one in offered)
    return ranked((one for several in shown for one in several), lowered)


def _tried(
    opened: OpenProject, suggestion: Suggestion, before: Mapping[str, Path], until: StageId, how: JobOptions
) -> list[Suggestion]:
    """Return a suggestion with what it was measured to gain, and those that its trial gives.

    Those that gain nothing are left out; one that is not to be tried is returned as it is. Where
    the program is not the quantized model, ``until`` is the stage that shows whether it is with the
    suggestion, which else gains nothing.
    """
    if not suggestion.improves or suggestion.edit is None:
        return [suggestion]
    best: Suggestion | None = None
    more: list[Suggestion] = []
    limit = enough_db(opened.project)
    for candidate in candidates(suggestion):
        assert candidate.edit is not None
        after = _compiled(opened.edited(candidate.edit), how, until)
        if after.errors or (after.gate is not None and after.gate.departs):
            continue
        figures = _figures(after.folders)
        offered = tried(candidate, _figures(before), figures)
        if offered is not None and (best is None or is_better(offered, best)):
            best = offered
        if (another := further(candidate, _figures(before), figures)) is not None:
            more += _tried(opened, another, before, until, how)
        if figures.worst_db(suggestion.output) >= limit:
            break
    return [best, *more] if best is not None else more


def _figures(folders: Mapping[str, Path]) -> Figures:
    return Figures(
        load_result(EvaluateResult, folders["evaluate"]), load_result(LowerResult, folders["lower"])
    )


def _compiled(opened: OpenProject, how: JobOptions, until: StageId = "lower") -> RunResult:
    """Run the stages up to the compiled program; those that the cache holds are not repeated."""
    return run(
        replace(opened, path=None),
        until,
        trust=how.get("trust", False),
        cache=how.get("cache"),
        accelerate=how.get("accelerate", True),
        on_event=how.get("on_event"),
    )


def _sensitivity(opened: OpenProject, cache: Cache, planned: Plan) -> SensitivityResult | None:
    """Return what the sensitivity study of this project measured so far."""
    key = study_key("sensitivity", opened, cache, {}, planned)
    return load_study(SensitivityResult, study_folder(cache, key))


def _departs(opened: OpenProject, cache: Cache, planned: Plan) -> bool:
    """Return whether the program was verified, and is not the quantized model."""

    def load(kind: type[_Result], stage: StageId) -> _Result | None:
        present = planned.of(stage)
        return load_result(kind, cache.folder(present.key)) if present.state == "cached" else None

    return answers_of(opened.project, load).gate.departs


def apply_suggestions(
    opened: OpenProject, offered: Sequence[Suggestion], chosen: str
) -> tuple[OpenProject, tuple[Suggestion, ...]]:
    """Return the project with one suggestion, or all of a kind, and those that were applied.

    Args:
        opened: The project.
        offered: What ``suggestions`` returned for it.
        chosen: An id, or a kind (``workbench.suggestions.KINDS``), which is all of its suggestions.

    Raises:
        WorkbenchError: There is no such suggestion, or only the model's source can be changed.
    """
    where = Place(kind="option", id="apply")
    named = [one for one in offered if chosen in (one.id, one.kind)]
    if not named:
        known = listed([one.id for one in offered if one.edit is not None])
        is_kind = chosen in {kind.id for kind in KINDS}
        raise failure(
            f"There is no suggestion {'of the kind ' if is_kind else ''}{chosen}.",
            f"Suggestions that can be applied: {known or 'none'}.",
            where,
            code="suggestion-unknown",
        )
    applied = tuple(one for one in named if one.edit is not None)
    if not applied:
        lines = listed([f"{line.place}: {line.instead}" for one in named for line in one.written])
        raise failure(
            f"{named[0].title}: only the model's source can be changed.",
            f"Change {lines or 'the model'}.",
            where,
            code="suggestion-in-source",
        )
    for one in applied:
        assert one.edit is not None
        opened = opened.edited(one.edit)
    return opened, applied
