"""What a run came to, in the form in which it is kept in files and compared with another one."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field, ValidationError

from workbench.analysis.accuracy import AccuracyVerdict
from workbench.analysis.answers import all_figures
from workbench.analysis.gate import Verdict
from workbench.errors import Place, failure
from workbench.files import read_limited
from workbench.history.comparison import Change, changes, facts_of_rules
from workbench.project.frozen import Frozen
from workbench.project.gate import FIGURES
from workbench.results import load_result

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from workbench.history.runs import Run
    from workbench.ids import StageId

_Result = TypeVar("_Result", bound=Frozen)
# Deliverables and the documents of runs have the outcome under this key.
KEY = "outcome"
MANIFEST = "manifest.json"
_MAX_BYTES = 16 << 20


class Outcome(Frozen):
    """The figures of a run, and what they follow from.

    ``figures`` are those of ``workbench.project.gate.FIGURES``; None is an infinite SQNR: both
    sides are equal. ``verdict`` and ``sentence`` say whether the program is compiled correctly,
    ``accuracy`` and ``accuracy_sentence`` whether it is accurate enough. ``rules`` are the configs
    by what they apply to, ``layers`` the SQNR of tensors [dB], ``versions`` those of the tools.
    """

    version: Literal[1] = 1
    project: str
    target: str
    verdict: Verdict = "not verified"
    sentence: str = ""
    accuracy: AccuracyVerdict = "not measured"
    accuracy_sentence: str = ""
    figures: dict[str, float | None] = Field(default_factory=dict)
    rules: dict[str, str] = Field(default_factory=dict)
    layers: dict[str, float] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)

    @property
    def numbers(self) -> dict[str, float]:
        """The figures as numbers; equal sides have an infinite SQNR."""
        return {n: math.inf if value is None else value for n, value in self.figures.items()}

    def document(self) -> dict[str, Any]:
        """Return the outcome as JSON."""
        return self.model_dump(mode="json")


def outcome_of(run: Run, folders: Mapping[str, Path] | None = None) -> Outcome:
    """Return the outcome of a run.

    Args:
        run: A run of the history, or a new one.
        folders: Where the results of its stages lie; without them, the figures are those that the
            history keeps.

    Raises:
        WorkbenchError: A stored result is damaged.
    """
    known = _known_figures(run) if folders is None else _all_figures(folders)
    return Outcome(
        project=run.project,
        target=run.target.id,
        verdict=run.gate.verdict if run.gate else "not verified",
        sentence=run.gate.sentence if run.gate else "",
        accuracy=run.accuracy_result.verdict if run.accuracy_result else "not measured",
        accuracy_sentence=run.accuracy_result.sentence if run.accuracy_result else "",
        figures={name: value if math.isfinite(value) else None for name, value in known.items()},
        rules=facts_of_rules(run),
        layers={layer.tensor: layer.sqnr_db for layer in run.layers if layer.sqnr_db is not None},
        versions=run.versions,
    )


def _all_figures(folders: Mapping[str, Path]) -> dict[str, float]:
    def load(kind: type[_Result], stage: StageId) -> _Result | None:
        return load_result(kind, folders[stage]) if stage in folders else None

    return all_figures(load)


def _known_figures(run: Run) -> dict[str, float]:
    quality, cost = run.quality, run.cost
    known: dict[str, float | None] = {}
    if quality.samples:
        sqnr = math.inf if quality.sqnr_db is None else quality.sqnr_db
        known |= {"quality": sqnr, "cosine": quality.cosine, "top1": quality.top1}
        known |= {"metric": quality.metric, "perplexity": quality.perplexity}
    if cost is not None:
        known |= {"cycles": cost.cycles, "ms": cost.inference_ms, "sram": cost.sram_bytes}
        known |= {"flash": cost.flash_bytes, "cpu_ops": cost.cpu_nodes}
        known |= {"pte_bytes": cost.pte_bytes}
    limits = [*(run.gate.limits if run.gate else ())]
    limits += [*(run.accuracy_result.limits if run.accuracy_result else ())]
    for limit in limits:
        if limit.name not in FIGURES:
            continue
        equal = math.inf if limit.held else None
        known.setdefault(limit.name, equal if limit.value is None else limit.value)
    return {name: float(value) for name, value in known.items() if value is not None}


def read_outcome(path: Path) -> Outcome:
    """Return the outcome in a file: a manifest, or what ``run --json`` printed.

    Args:
        path: The file, or a folder of deliverables.

    Raises:
        WorkbenchError: It cannot be read, or has no outcome.
    """
    path = path / MANIFEST if os.path.isdir(path) else path
    where = Place(kind="file", id=str(path))
    try:
        raw = json.loads(read_limited(path, _MAX_BYTES))
        return Outcome.model_validate(raw[KEY])
    except OSError as error:
        raise failure(
            f"{path.name} cannot be read: {error.strerror or error}.",
            where=where,
            code="file-missing" if isinstance(error, FileNotFoundError) else "file-unreadable",
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
        raise failure(
            f"{path.name} has no figures to compare.",
            "Give a project, the manifest.json of 'workbench run --out', or a file with the output "
            "of 'workbench run --json' of this version.",
            where,
            details=str(error),
            code="outcome-missing",
        ) from error


def outcome_changes(before: Outcome, after: Outcome) -> dict[str, tuple[Change, ...]]:
    """Return what differs between two outcomes, by what it concerns; figures are left out."""
    return {
        "target": tuple(changes({"target": before.target}, {"target": after.target})),
        "rules": tuple(changes(before.rules, after.rules)),
        "versions": tuple(changes(before.versions, after.versions)),
    }
