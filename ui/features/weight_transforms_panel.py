"""The Weight transforms panel: changes of the float weights before quantization."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker, Qt, QTimer
from PySide6.QtWidgets import QCheckBox, QFrame, QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from ui.shared.candidate_preview import CandidatePreview
from ui.shared.forms import SpinBox
from ui.shared.labels import Label, literal
from ui.shared.panel import Panel
from workbench.project import edits
from workbench.project.configs import (
    FEWEST_SAMPLES,
    IMPROVER_PRESETS,
    IMPROVERS,
    Improver,
    ImproverId,
    ImproverPreset,
    ImproverPresetId,
)

if TYPE_CHECKING:
    from workbench.results import Improvement

_WIDTH_PX = 640

# Title, least and largest value, meaning.
_SETTINGS: dict[str, tuple[str, int, int, str]] = {
    "samples": ("Samples", FEWEST_SAMPLES, 4096, "At most so many calibration samples are used"),
    "seed": ("Seed", 0, 2**31 - 1, "Chooses the samples where there are more"),
    "time_limit_s": (
        "Time limit",
        0,
        7 * 24 * 3600,
        "Transforms stop after this time; layers that were changed by then are kept",
    ),
}
_WITH = "Quantize, evaluate and compile a copy with this transform"
_WITHOUT = "Quantize, evaluate and compile a copy without this transform"


class WeightTransformsPanel(Panel):
    """Shows a switch, a description and a preview for every transform."""

    panel_id = "weight_transforms"

    def build(self) -> None:
        context = self.context
        self.preview = CandidatePreview(context.document, context.runner, context.history, self)
        self.preview.changed.connect(self._show_preview)
        self._previewed: ImproverId | None = None
        self.switches: dict[ImproverId, QCheckBox] = {}
        self.previews: dict[ImproverId, QPushButton] = {}
        self.outcomes: dict[ImproverId, Label] = {}
        body = QWidget(self)
        body.setMaximumWidth(_WIDTH_PX)
        column = QVBoxLayout(body)
        column.setContentsMargins(14, 10, 14, 10)
        column.setSpacing(4)
        self._add_settings(body, column)
        for improver in IMPROVERS:
            self._add(improver, body, column)
        column.addStretch(1)
        scroll = self._scroll = QScrollArea(self)
        # Later, when the text of the outcome has its place.
        self._reveal = QTimer(self, interval=0, singleShot=True)
        self._reveal.timeout.connect(self._reveal_outcome)
        whole = QWidget(self)
        row = QHBoxLayout(whole)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(body, 1)
        row.addStretch(0)
        scroll.setWidget(whole)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        for part in (whole, body):
            part.setAutoFillBackground(False)
            part.setStyleSheet("background: transparent;")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(scroll)

    def refresh(self) -> None:
        project = self.context.document.project
        chosen = project.improvers if project is not None else ()
        for improver, switch in self.switches.items():
            switch.setChecked(improver in chosen)
            switch.setEnabled(project is not None)
        self._show_settings()
        self._show_preview()

    def _add_settings(self, body: QWidget, column: QVBoxLayout) -> None:
        """Add a button for each preset, and a field for each setting."""
        self.presets: dict[ImproverPresetId, QPushButton] = {}
        row = QHBoxLayout()
        for preset in IMPROVER_PRESETS:
            button = QPushButton(f"Use {preset.title.lower()}", body)
            titles = [i.title.lower() for i in IMPROVERS if i.id in preset.improvers]
            words = f"{' and '.join(titles).capitalize()}, not other transforms"
            button.setToolTip(literal(words))
            button.clicked.connect(partial(self._on_preset, preset))
            hint = Label(words, body)
            hint.setObjectName("Hint")
            for part in (button, hint):
                row.addWidget(part)
            self.presets[preset.id] = button
        row.addStretch(1)
        column.addLayout(row)
        self.settings: dict[str, SpinBox] = {}
        form = QHBoxLayout()
        for name, (title, least, most, meaning) in _SETTINGS.items():
            box = SpinBox(body)
            box.setRange(least, most)
            box.setKeyboardTracking(False)
            box.setToolTip(literal(meaning))
            box.setAccessibleName(title)
            box.valueChanged.connect(partial(self._on_setting, name))
            label = Label(title, body)
            label.setBuddy(box)
            form.addWidget(label)
            form.addWidget(box)
            self.settings[name] = box
        self.settings["time_limit_s"].setSuffix(" s")
        self.settings["time_limit_s"].setSpecialValueText("none")
        form.addStretch(1)
        column.addLayout(form)
        column.addSpacing(12)

    def _show_settings(self) -> None:
        project = self.context.document.project
        for button in self.presets.values():
            button.setEnabled(project is not None)
        for name, box in self.settings.items():
            box.setEnabled(project is not None)
            if project is not None:
                with QSignalBlocker(box):
                    box.setValue(getattr(project.improving, name) or 0)

    def _on_preset(self, preset: ImproverPreset) -> None:
        self.context.document.apply(
            f"Use {preset.title.lower()}", lambda project: edits.use_improver_preset(project, preset.id)
        )
        self.refresh()

    def _on_setting(self, name: str, value: int) -> None:
        chosen = None if name == "time_limit_s" and value == 0 else value
        self.context.document.apply(
            f"Set {_SETTINGS[name][0].lower()} of weight transforms",
            lambda project: edits.set_improving(project, **{name: chosen}),
        )

    def _add(self, improver: Improver, body: QWidget, column: QVBoxLayout) -> None:
        switch = QCheckBox(improver.title, body)
        switch.clicked.connect(partial(self._on_switched, improver))
        attempt = QPushButton("Preview", body)
        attempt.setAccessibleName(f"Preview {improver.title}")
        attempt.clicked.connect(partial(self._on_preview, improver))
        about = Label(improver.description, body)
        about.setObjectName("Hint")
        outcome = Label(body)
        outcome.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        for label in (about, outcome):
            label.setWordWrap(True)
        head = QHBoxLayout()
        head.addWidget(switch, 1)
        head.addWidget(attempt)
        column.addLayout(head)
        column.addWidget(about)
        column.addWidget(outcome)
        column.addSpacing(12)
        self.switches[improver.id] = switch
        self.previews[improver.id] = attempt
        self.outcomes[improver.id] = outcome

    def _show_preview(self) -> None:
        project = self.context.document.project
        for name, attempt in self.previews.items():
            is_on = project is not None and name in project.improvers
            attempt.setToolTip(_WITHOUT if is_on else _WITH)
            attempt.setEnabled(project is not None and not self.preview.is_running)
            summary = self.preview.sentence() if name == self._previewed else ""
            done = next((i.sentence for i in self._improvements(name) if i.improver == name), "")
            summary = "\n".join(text for text in (done, summary) if text)
            if name == self._previewed and summary != self.outcomes[name].text():
                self._reveal.start()
            self.outcomes[name].setText(summary)
            self.outcomes[name].setVisible(bool(summary))

    def _reveal_outcome(self) -> None:
        """Scroll to what the preview says: that of the last transform is below the others."""
        if self._previewed is not None:
            self._scroll.ensureWidgetVisible(self.outcomes[self._previewed], 0, 0)

    def _improvements(self, name: ImproverId) -> tuple[Improvement, ...]:
        """Return the changes by the transforms in the project or in the previewed candidate."""
        from workbench.results import PrepareResult

        project = self.context.document.project
        candidate = self.preview.candidate if name == self._previewed else None
        if candidate is not None and name in candidate.after.improvers:
            _, tried = self.preview.runs()
            session, key = self.context.session, tried.digests.get("prepare") if tried else None
            if key is None or not session.cache.has(key):
                return ()
            return session.parsed.load(PrepareResult, session.cache.folder(key)).improvements
        prepared = self.context.load(PrepareResult, "prepare")
        is_on = project is not None and name in project.improvers
        return prepared.improvements if prepared is not None and is_on else ()

    def _on_switched(self, improver: Improver) -> None:
        on = self.switches[improver.id].isChecked()
        self.context.document.apply(
            f"{'Enable' if on else 'Disable'} {improver.title.lower()}",
            lambda project: edits.set_improver(project, improver.id, on=on),
        )
        self.refresh()

    def _on_preview(self, improver: Improver) -> None:
        project = self.context.document.project
        if project is None:
            return
        self._previewed = improver.id
        on = improver.id not in project.improvers
        after = edits.set_improver(project, improver.id, on=on)
        self.preview.begin(improver.title, after)
