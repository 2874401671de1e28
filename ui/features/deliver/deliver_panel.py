"""The Deliverables panel: verdict, board, files and the firmware note."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QHBoxLayout,
    QListWidget,
    QPushButton,
    QTextBrowser,
    QVBoxLayout,
    QWidget,
)

from ui.shared.board_fit import BoardFit, BoardFitReader
from ui.shared.cost_table import FileTableModel
from ui.shared.figure_cards import Card, FigureCards
from ui.shared.figure_table import FigureView
from ui.shared.figures import count, size
from ui.shared.forms import WrappedLabel
from ui.shared.labels import Label, literal
from ui.shared.result_panel import ResultPanel, Shown, StageFrame
from ui.shared.tabs import Tabs
from ui.shared.theme import Theme
from workbench.analysis.accuracy import AccuracyResult, mark_words
from workbench.analysis.answers import Answers
from workbench.analysis.gate import GateResult, limit_words
from workbench.deploy.delivery import stated_files
from workbench.errors import Place, WorkbenchError
from workbench.results import PackageResult

COUNTED = "computed from the program"
# Lines of the list of kernels before it scrolls, and the room around them [px].
_KERNELS_SHOWN, _LIST_MARGIN_PX = 6, 8


class DeliverablesView(QWidget):
    """Shows cards of the pools, a table of files and the list of kernels."""

    def __init__(self, files: FileTableModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.cards = FigureCards(self)
        self.files = FigureView("Deliverables", files, self)
        self.kernels = QListWidget(self)
        self.kernels.setAccessibleName("Required kernels")
        self.kernel_note = Label(self)
        self.kernel_note.setWordWrap(True)
        self.copy = QPushButton("Copy kernels", self)
        self.copy.clicked.connect(self._on_copy)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.setSpacing(6)
        layout.addWidget(self.cards)
        row = QHBoxLayout()
        row.addWidget(self.kernel_note, 1, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self.copy)
        layout.addWidget(self.files, 1)
        layout.addLayout(row)
        layout.addWidget(self.kernels)

    def render_package(self, package: PackageResult, theme: Theme, *, stale: bool) -> None:
        """Show deliverables. The owner fills the file model."""
        self.cards.setVisible(not package.note)
        planned = " + ".join(size(b) for b in package.planned_bytes) or size(0)
        self.cards.render_cards(
            (
                Card("Method pool", size(package.method_pool_bytes), COUNTED,
                     f"{count(package.method_pool_bytes)} bytes for method structures"),
                Card("Scratch pool", size(package.scratch_pool_bytes), COUNTED,
                     f"{count(package.scratch_pool_bytes)} bytes for NPU scratch memory"),
                Card("Planned buffers", planned, COUNTED,
                     "Planned activations per memory"),
            ),
            theme, stale=stale,
        )  # fmt: skip
        self.kernels.clear()
        self.kernels.addItems(package.kernels)
        number = len(package.kernels)
        lines = min(number, _KERNELS_SHOWN) * self.kernels.sizeHintForRow(0)
        self.kernels.setFixedHeight(lines + 2 * self.kernels.frameWidth() + _LIST_MARGIN_PX)
        needed = f"Required kernels ({number})"
        none = "No kernels required; everything runs on the NPU."
        self.kernel_note.setText(package.note or (needed if number else none))
        self.kernels.setVisible(bool(number))
        self.copy.setVisible(bool(number))
        self.files.set_look(theme, stale=stale)

    def _on_copy(self) -> None:
        names = [self.kernels.item(row).text() for row in range(self.kernels.count())]
        QGuiApplication.clipboard().setText("\n".join(names))


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
        self._key: tuple[Path, bool, Answers | None] | None = None
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

    def show_results(self) -> None:
        package = self.read(PackageResult, "package")
        self.show_frame("package", package)
        if package is None:
            return
        self._show_verdict()
        for action in ("deliver", "inside"):
            self.buttons[action].setEnabled(package.current)
            self.buttons[action].setToolTip("" if package.current else "Not packaged yet")
        is_program = any(file.name.endswith(".pte") for file in package.value.files)
        self.buttons["inside"].setVisible(is_program)
        self.fit.render_fit(self._fits.read(), self.context.theme)
        key = (package.folder, package.current, self.context.answers())
        if key != self._key:
            self._key = key
            self._show_package(package)

    def _make(self, content: QWidget) -> None:
        self.verdict = WrappedLabel(parent=content)
        self.accuracy = WrappedLabel(parent=content)
        self.limits = QPushButton("Limits\u2026", content)
        self.limits.setToolTip("The limits of both answers, in the project settings")
        self.limits.clicked.connect(lambda: self._ask_for("gate"))
        self.fit = BoardFit(content)
        buttons = QHBoxLayout()
        self.buttons: dict[str, QPushButton] = {}
        for title, action, primary in (
            ("Export deliverables\u2026", "deliver", True),
            ("Export report\u2026", "report", False),
            ("Inspect the .pte", "inside", False),
        ):
            button = QPushButton(title, content)
            button.setProperty("primary", primary)
            button.clicked.connect(partial(self._on_action_clicked, action))
            buttons.addWidget(button)
            self.buttons[action] = button
        buttons.addStretch(1)
        self.files = FileTableModel(self)
        self.deliverables = DeliverablesView(self.files, content)
        self.note = QTextBrowser(content)
        self.note.setOpenExternalLinks(True)
        self.note.setAccessibleName("Firmware note")
        self.note.document().setDocumentMargin(16)
        self.pages = Tabs(content)
        self.pages.add_pages(("Files", self.deliverables), ("Firmware note", self.note))
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
            self._show_answer(
                self.verdict, text, _gate_lines(gate), colours.get(gate.verdict, theme.warning)
            )
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
        self.deliverables.render_package(package, self.context.theme, stale=not shown.current)
        names = [file.name for file in package.files if file.name.endswith(_NOTE_SUFFIX)]
        self.pages.setTabVisible(1, bool(names))
        if names:
            try:
                data = contents.get(names[0]) or (shown.folder / names[0]).read_bytes()
                self.note.setMarkdown(data.decode("utf-8"))
            except OSError as error:
                self.note.setPlainText(f"The note cannot be read: {error.strerror}.")

    def _on_action_clicked(self, action: str) -> None:
        self.context.commands.asked.emit(action)

    def _ask_for(self, field: str) -> None:
        self.context.notices.place_asked.emit(Place(kind="option", id=field))
