"""Preview of a change: measured figures of a candidate beside those of the open project."""

from __future__ import annotations

from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal

from ui.shared.number_format import accuracy_text, count, size
from ui.state.document import Document
from ui.state.jobs import Purpose
from ui.state.run_history import RunHistory
from ui.state.runner import Runner
from workbench.errors import ErrorInfo
from workbench.history.runs import Run
from workbench.project.edits import DECIDED
from workbench.project.model import Project
from workbench.project.opened import OpenProject
from workbench.protocol import Event, StageFailed
from workbench.targets import target_of
from workbench.text import signed

_STAGES = ["evaluate", "lower"]
# Fields that are equal in a run and the project it was made from.
_ALIKE = (*DECIDED, "target")


@dataclass(frozen=True)
class Candidate:
    """A candidate project, and the name of the undo step that applies it."""

    label: str
    before: Project
    after: Project


class CandidatePreview(QObject):
    """Runs a candidate in the engines and reads both runs from the history.

    Signals:
        changed: the figures or the state changed.
    """

    changed = Signal()

    def __init__(self, document: Document, runner: Runner, history: RunHistory, parent: QObject) -> None:
        super().__init__(parent)
        self._document, self._runner, self._history = document, runner, history
        self.candidate: Candidate | None = None
        self._failure: ErrorInfo | None = None
        runner.received.connect(self._on_event)
        history.changed.connect(self.changed)
        runner.job_changed.connect(lambda _job: self.changed.emit())
        document.project_changed.connect(lambda _project: self.changed.emit())

    def begin(self, label: str, after: Project) -> None:
        """Run a candidate. The open project does not change."""
        opened = self._document.opened_project
        if opened is None:
            return
        self.candidate, self._failure = Candidate(label, opened.project, after), None
        candidate = replace(opened, project=after)
        runs: tuple[tuple[OpenProject, Purpose], ...] = ((opened, ""), (candidate, "preview"))
        for one, purpose in runs:
            offered = target_of(one.project.target.id).stages
            stages = [stage for stage in _STAGES if stage in offered]
            self._runner.run_until(one, stages, set(), purpose)
        self.changed.emit()

    @property
    def is_running(self) -> bool:
        """Whether the candidate's job is running or waits for trust."""
        if self.candidate is None:
            return False
        wanted = (self.candidate.before, self.candidate.after)
        return any(job.project in wanted for job in self._runner.running)

    @property
    def fits(self) -> bool:
        """Whether the open project is still the one the candidate was made from."""
        return self.candidate is not None and self.candidate.before == self._document.project

    def runs(self) -> tuple[Run | None, Run | None]:
        """Return the runs of the open project and of the candidate; None if not measured."""
        if self.candidate is None:
            return None, None
        return self._run_of(self.candidate.before), self._run_of(self.candidate.after)

    def apply(self) -> None:
        """Apply the candidate to the open project as one undo step."""
        if self.fits and self.candidate is not None:
            after = self.candidate.after
            self._document.apply(self.candidate.label, lambda _project: after)

    def sentence(self) -> str:
        """Return the figures of both runs, one per line."""
        if self.candidate is None:
            return ""
        before, after = self.runs()
        if before is None or after is None:
            return "Measuring\u2026" if self.is_running else self._lack()
        outdated = [] if self.fits else ["Outdated: measured before the last edit."]
        lines = _figure("SQNR", before.quality.sqnr_db, after.quality.sqnr_db)
        if after.accuracy_name != "SQNR":
            texts = accuracy_text(before), accuracy_text(after)
            lines.insert(0, f"{after.accuracy_name}: {texts[0]} \u2192 {texts[1]}")
        if before.cost is None or after.cost is None:
            lines.append("Compiling\u2026" if self.is_running else "Cost unknown.")
        else:
            a, b = before.cost, after.cost
            lines.append(f"cycles: {count(a.cycles)} \u2192 {_share(a.cycles, b.cycles)}")
            lines.append(f"SRAM: {size(a.sram_bytes)} \u2192 {size(b.sram_bytes)}")
            lines.append(f"CPU operators: {a.cpu_nodes} \u2192 {b.cpu_nodes}")
            lines.append(f"Cost is estimated (Vela {b.vela_version}).")
        return "\n".join([*outdated, *lines])

    def _lack(self) -> str:
        """Return why there are no figures."""
        if self._failure is None:
            return "Not measured: the jobs were cancelled."
        return f"Preview failed: {self._failure.message} {self._failure.hint}".strip()

    def _on_event(self, event: Event) -> None:
        if not isinstance(event, StageFailed) or self.candidate is None or not event.infos:
            return
        job = self._runner.job(event.job)
        if job is not None and job.project in (self.candidate.before, self.candidate.after):
            self._failure = event.infos[0]
            self.changed.emit()

    def _run_of(self, project: Project) -> Run | None:
        fitting = [
            run
            for run in self._history.runs
            if all(getattr(run, name) == getattr(project, name) for name in _ALIKE)
        ]
        return fitting[-1] if fitting else None


def _figure(name: str, before: float | None, after: float | None) -> list[str]:
    if before is None or after is None:
        return []
    return [f"{name}: {before:.2f} \u2192 {after:.2f} dB ({signed(after - before, 2)} dB)"]


def _share(before: int, after: int) -> str:
    return f"{count(after)} ({signed(100 * (after - before) / before, 1)} %)" if before else count(after)
