"""The Deliverables panel: verdict, board, files and the firmware note."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QTextBrowser,
    QVBoxLayout,
    QWidget,
)

from ui.features.deliver.firmware_check_dialog import FirmwareCheckDialog
from ui.features.deliver.treemap import Area, Treemap
from ui.shared.board_fit import BoardFit, BoardFitReader
from ui.shared.figure_cards import Card, FigureCards
from ui.shared.forms import WrappedLabel
from ui.shared.labels import literal, space_blocks
from ui.shared.number_format import count, percent, size
from ui.shared.result_panel import ResultPanel, Shown, StageFrame
from ui.shared.sortable_table import Column, FigureTableModel, FigureView
from ui.shared.tabs import Tabs
from ui.shared.theme import Theme
from workbench.analysis.accuracy import AccuracyResult, mark_words
from workbench.analysis.answers import Answers
from workbench.analysis.gate import GateResult, limit_words
from workbench.deploy.delivery import stated_files
from workbench.deploy.emulation.proofs import KeptProof, proofs_of_package
from workbench.deploy.firmware_note import PART_KINDS
from workbench.deploy.simulators.discovery import load_settings, save_settings
from workbench.errors import Place, WorkbenchError
from workbench.results import Deliverable, FirmwareStep, PackageResult, PartKind

COUNTED = "computed from the program"
# Names of kernels that differ at their ends only are told apart [characters].
_LONGEST_KERNEL = 90


def part_colours(theme: Theme) -> dict[PartKind, str]:
    """Return the colour of each kind of part."""
    return {
        "weights": theme.accent,
        "commands": theme.good,
        "borders": theme.bad,
        "constants": theme.warning,
        "rest": theme.muted,
    }


FILE_COLUMNS: tuple[Column[Deliverable], ...] = (
    Column("File", lambda r: r.name),
    Column("Size [B]", lambda r: count(r.bytes), lambda r: r.bytes, "Measured: the file on disk"),
    Column("Description", lambda r: r.purpose),
    Column("SHA-256", lambda r: r.sha256, gives_way=True),
)


def describe_file(row: Deliverable) -> str:
    """Return the tooltip of a row of the files of the deliverables."""
    return f"{row.name}: {row.purpose}\n{row.sha256}"


class FilesView(QWidget):
    """Shows what the program consists of, and the files with their digests."""

    def __init__(
        self, files: FigureTableModel[Deliverable], theme: Callable[[], Theme], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.heading = WrappedLabel(parent=self)
        self.heading.setObjectName("Hint")
        self.parts = Treemap(theme, self)
        self.files = FigureView("Deliverables", files, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.setSpacing(6)
        layout.addWidget(self.heading)
        layout.addWidget(self.parts, 2)
        layout.addWidget(self.files, 3)

    def render_package(self, package: PackageResult, theme: Theme, *, stale: bool) -> None:
        """Show the parts of the program. The owner fills the file model."""
        total = sum(part.bytes for part in package.parts)
        name = next((file.name for file in package.files if file.name.endswith(".pte")), "")
        colours = part_colours(theme)
        areas = [
            Area(
                part.name,
                f"{size(part.bytes)}, {percent(part.bytes / total, 0)}",
                PART_KINDS[part.kind],
                part.bytes,
                colours[part.kind],
            )
            for part in package.parts
        ]
        self.parts.render_areas(f"Parts of {name}", areas)
        self.parts.setVisible(bool(areas))
        self.heading.setVisible(bool(areas or package.note))
        self.heading.setText(
            f"{name}: {size(total)}, weights by module, NPU commands and the rest by size. "
            "Click weights to select their module."
            if areas
            else package.note
        )
        self.files.set_look(theme, stale=stale)


class StepsView(QScrollArea):
    """Shows what the firmware must do as a list to check off, and the kernels to copy."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        content = QWidget(self)
        self.cards = FigureCards(content)
        self.copy = QPushButton("Copy kernels", content)
        self.copy.setToolTip("The names of the kernels that the runtime must link")
        self.copy.clicked.connect(self._on_copy)
        self.boxes: list[QCheckBox] = []
        self._kernels: tuple[str, ...] = ()
        # What was checked off, by the package.
        self._done: dict[tuple[FirmwareStep, ...], set[int]] = {}
        self._steps = QVBoxLayout()
        self._steps.setSpacing(2)
        layout = QVBoxLayout(content)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.setSpacing(8)
        layout.addWidget(self.cards)
        layout.addLayout(self._steps)
        layout.addWidget(self.copy, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addStretch(1)
        self.setWidget(content)
        # The background is that of the panel.
        self.viewport().setAutoFillBackground(False)
        content.setAutoFillBackground(False)

    def render_package(self, package: PackageResult, theme: Theme, *, stale: bool) -> None:
        """Show the steps of a package."""
        planned = " + ".join(size(b) for b in package.planned_bytes) or size(0)
        self.cards.render_cards(
            (
                Card(
                    "Method pool",
                    size(package.method_pool_bytes),
                    COUNTED,
                    f"{count(package.method_pool_bytes)} bytes for method structures",
                ),
                Card(
                    "Scratch pool",
                    size(package.scratch_pool_bytes),
                    COUNTED,
                    f"{count(package.scratch_pool_bytes)} bytes for NPU scratch memory",
                ),
                Card("Planned buffers", planned, COUNTED, "Planned activations per memory"),
            ),
            theme,
            stale=stale,
        )
        self._kernels = package.kernels
        self.copy.setVisible(bool(package.kernels))
        self._show_steps(package.steps)

    def _show_steps(self, steps: tuple[FirmwareStep, ...]) -> None:
        while (item := self._steps.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.deleteLater()
        done = self._done.setdefault(steps, set())
        self.boxes = []
        for number, step in enumerate(steps):
            box = QCheckBox(f"{number + 1}. {step.title}", self.widget())
            box.setChecked(number in done)
            box.setAccessibleDescription(step.detail)
            box.toggled.connect(partial(self._on_toggled, done, number))
            detail = WrappedLabel(step.detail, self.widget(), longest=_LONGEST_KERNEL)
            detail.setObjectName("Hint")
            detail.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            detail.setContentsMargins(24, 0, 0, 8)
            self.boxes.append(box)
            self._steps.addWidget(box)
            self._steps.addWidget(detail)

    @staticmethod
    def _on_toggled(done: set[int], number: int, on: bool) -> None:
        (done.add if on else done.discard)(number)

    def _on_copy(self) -> None:
        QGuiApplication.clipboard().setText("\n".join(self._kernels))


NO_PACKAGE = "Package to create the files for the firmware."
NOT_VERIFIED = "Not verified. Verify to compare the program with the quantized model."
NOT_MEASURED = "Accuracy not measured. Evaluate to compare with the float model."
_NOTE_SUFFIX = ".md"


def _gate_lines(gate: GateResult) -> Iterator[str]:
    """Yield the details of the first answer, one line each."""
    if gate.execution is not None:
        yield gate.execution.sentence
    yield from (limit_words(limit) for limit in gate.limits)


def _accuracy_lines(accuracy: AccuracyResult) -> Iterator[str]:
    """Yield the details of the second answer, one line each."""
    yield from (limit_words(limit) for limit in accuracy.limits)
    yield from (mark_words(mark) for mark in accuracy.marks)
    yield from accuracy.notes


class DeliverPanel(ResultPanel):
    """Shows whether the program is right and fits, its files, and the buttons that export them."""

    panel_id = "deliverables"

    def build_frames(self) -> None:
        # What the shown files are made of; None to show them anew.
        self._key: tuple[Path, bool, Answers | None, tuple[KeptProof, ...]] | None = None
        self._fits = BoardFitReader(self.context)
        self.frames["package"] = StageFrame("Files", NO_PACKAGE, self._make, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(self.frames["package"])

    def set_theme(self, theme: Theme) -> None:
        del theme
        self._key = None
        if self.has("package"):
            self.show_results()

    def showEvent(self, event: QShowEvent) -> None:
        # Proofs are kept elsewhere: by the panel Simulator, and by the command line.
        self._mark("state")
        super().showEvent(event)

    def show_results(self) -> None:
        package = self.read(PackageResult, "package")
        self.show_frame("package", package)
        if package is None:
            return
        self._show_verdict()
        for action in ("deliver", "inside", "check"):
            self.buttons[action].setEnabled(package.current)
            self.buttons[action].setToolTip("" if package.current else "Not packaged yet")
        is_program = any(file.name.endswith(".pte") for file in package.value.files)
        for action in ("inside", "check"):
            self.buttons[action].setVisible(is_program)
        self.fit.render_fit(self._fits.read())
        proofs = proofs_of_package(package.value.files)
        key = (package.folder, package.current, self.context.answers(), proofs)
        if key != self._key:
            self._key = key
            self._show_package(package)

    def _make(self, content: QWidget) -> None:
        self.verdict = WrappedLabel(parent=content)
        self.accuracy = WrappedLabel(parent=content)
        self.limits = QPushButton("Limits\u2026", content)
        self.limits.setToolTip("The limits of both answers, in the project settings")
        self.limits.clicked.connect(lambda: self._ask_for("gate"))
        self.fit = BoardFit(lambda: self.context.theme, content)
        buttons = QHBoxLayout()
        self.buttons: dict[str, QPushButton] = {}
        for title, action, primary in (
            ("Export deliverables\u2026", "deliver", True),
            ("Export report\u2026", "report", False),
            ("Inspect the .pte", "inside", False),
            ("Check firmware\u2026", "check", False),
        ):
            button = QPushButton(title, content)
            button.setProperty("primary", primary)
            buttons.addWidget(button)
            self.buttons[action] = button
        for action in ("deliver", "report", "inside"):
            self.buttons[action].clicked.connect(partial(self._on_action_clicked, action))
        self.buttons["check"].clicked.connect(self._on_check_clicked)
        buttons.addStretch(1)
        self.files = FigureTableModel(FILE_COLUMNS, describe_file, self)
        self.deliverables = FilesView(self.files, lambda: self.context.theme, content)
        self.deliverables.parts.chosen.connect(self._on_part_chosen)
        self.steps = StepsView(content)
        self.note = QTextBrowser(content)
        self.note.setOpenExternalLinks(True)
        self.note.setAccessibleName("Firmware note")
        self.note.document().setDocumentMargin(16)
        self.pages = Tabs(content)
        self.pages.add_pages(
            ("Files", self.deliverables),
            ("What the firmware must do", self.steps),
            ("Firmware note", self.note),
        )
        self._arrange(buttons, content)

    def _arrange(self, buttons: QHBoxLayout, content: QWidget) -> None:
        answers = QVBoxLayout()
        answers.addWidget(self.verdict)
        answers.addWidget(self.accuracy)
        row = QHBoxLayout()
        row.addLayout(answers, 1)
        row.addWidget(self.limits, 0, Qt.AlignmentFlag.AlignTop)
        layout = QVBoxLayout(content)
        layout.setContentsMargins(12, 10, 12, 8)
        layout.setSpacing(8)
        layout.addLayout(buttons)
        layout.addLayout(row)
        layout.addWidget(self.fit)
        layout.addWidget(self.pages, 1)

    def _show_verdict(self) -> None:
        answers, theme = self.context.answers(), self.context.theme
        gate = self.context.gate()
        accuracy = answers.accuracy if answers is not None else None
        if gate is None:
            self._show_answer(self.verdict, NOT_VERIFIED, (), theme.muted)
        else:
            colours = {"right": theme.good, "differs": theme.bad}
            text = f"Compiled program {gate.sentence.rstrip('.')}."
            self._show_answer(self.verdict, text, _gate_lines(gate), colours.get(gate.verdict, theme.warning))
        if accuracy is None or accuracy.data is None:
            self._show_answer(self.accuracy, NOT_MEASURED, (), theme.muted)
        else:
            colours = {"accurate enough": theme.good, "not accurate enough": theme.bad}
            text = f"Accuracy: {accuracy.sentence.rstrip('.')}."
            colour = colours.get(accuracy.verdict, theme.warning)
            self._show_answer(self.accuracy, text, _accuracy_lines(accuracy), colour)

    @staticmethod
    def _show_answer(label: WrappedLabel, text: str, lines: Iterable[str], colour: str) -> None:
        label.setText(text)
        label.setToolTip(literal("\n".join((text, *lines))))
        label.setStyleSheet(f"color: {colour};")

    def _show_package(self, shown: Shown[PackageResult]) -> None:
        package, contents = shown.value, dict[str, bytes]()
        answers = self.context.answers()
        if answers is not None and shown.current:
            try:
                files, contents = stated_files(shown.folder, answers)
            except WorkbenchError as error:
                self.context.notices.error(error)
                return
            package = package.model_copy(update={"files": files})
        self.files.set_rows(package.files)
        for view in (self.deliverables, self.steps):
            view.render_package(package, self.context.theme, stale=not shown.current)
        names = [file.name for file in package.files if file.name.endswith(_NOTE_SUFFIX)]
        self.pages.setTabVisible(1, bool(package.steps))
        self.pages.setTabVisible(2, bool(names))
        if names:
            try:
                data = contents.get(names[0]) or (shown.folder / names[0]).read_bytes()
                self.note.setMarkdown(data.decode("utf-8"))
                space_blocks(self.note.document())
            except OSError as error:
                self.note.setPlainText(f"The note cannot be read: {error.strerror}.")

    def _on_part_chosen(self, name: str) -> None:
        if any(module.path == name for module in self.context.model_index.modules):
            self.context.selection.choose_modules([name], self.panel_id)

    def _on_action_clicked(self, action: str) -> None:
        self.context.commands.asked.emit(action)

    def _on_check_clicked(self) -> None:
        folder = self.context.session.result("package")
        programs = sorted(folder.glob("*.pte")) if folder is not None else []
        if not programs:
            return
        known = ""
        with suppress(WorkbenchError):
            known = load_settings().firmware
        dialog = FirmwareCheckDialog(programs[0], known, self.context.theme, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.checked.connect(self._on_checked)
        dialog.open()

    def _on_checked(self, elf: str) -> None:
        try:
            save_settings(load_settings().model_copy(update={"firmware": elf}))
        except WorkbenchError as error:
            self.context.notices.error(error)
        self.context.session.machine_changed.emit()

    def _ask_for(self, field: str) -> None:
        self.context.notices.place_asked.emit(Place(kind="option", id=field))
