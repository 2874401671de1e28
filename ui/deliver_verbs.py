"""What the menus hand over: the deliverables, and the report."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog

from ui.main_window import MainWindow
from ui.notices import Action
from ui.panel import PanelContext
from workbench.errors import WorkbenchError, failure


class DeliverVerbs(QObject):
    """Hands out what a run left; ``run_to`` runs up to a stage, ``show_program`` shows a .pte."""

    def __init__(
        self, context: PanelContext, window: MainWindow, run_to: Callable[[str], None],
        show_program: Callable[[Path], None],
    ) -> None:  # fmt: skip
        super().__init__(window)
        self._context, self._window, self._run_to = context, window, run_to
        self._show_program = show_program

    def ask_deliver(self) -> None:
        """Let the user choose a folder, and copy the deliverables there."""
        if self._context.result("package") is None:
            self._say_none()
            return
        dialog = QFileDialog(self._window, "Copy the deliverables to")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.fileSelected.connect(lambda name: self.deliver(Path(name)))
        dialog.open()

    def deliver(self, target: Path) -> None:
        """Copy the deliverables of the present configuration into a folder."""
        from workbench.results import PackageResult

        folder = self._context.result("package")
        result = self._context.load(PackageResult, "package")
        if folder is None or result is None:
            return
        try:
            target.mkdir(parents=True, exist_ok=True)
            for file in result.files:
                shutil.copyfile(folder / file.name, target / file.name)
        except OSError as error:
            message = f"Nothing could be copied to {target}: {error.strerror or error}."
            self._context.notices.error(failure(message, "Choose another folder."))
            return
        self._context.notices.success(f"{len(result.files)} files are in {target}.")

    def show_inside(self) -> None:
        """Show what is inside the program of the present configuration."""
        from workbench.results import PackageResult

        folder = self._context.result("package")
        result = self._context.load(PackageResult, "package")
        names = [f.name for f in result.files if f.name.endswith(".pte")] if result else []
        if folder is None or not names:
            self._say_none()
            return
        self._show_program(folder / names[0])

    def _say_none(self) -> None:
        self._context.notices.info(
            "There are no deliverables yet.", "Run to Package first.",
            [Action("Run to Package", lambda: self._run_to("package"))],
        )  # fmt: skip

    def ask_report(self) -> None:
        """Let the user choose a file, and write the report there."""
        dialog = QFileDialog(self._window, "Write the report to")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilter("Web page (*.html)")
        dialog.setDefaultSuffix("html")
        project = self._context.document.project
        dialog.selectFile(f"{project.name if project else 'report'}.html")
        dialog.fileSelected.connect(lambda name: self.report(Path(name)))
        dialog.open()

    def report(self, target: Path) -> None:
        """Write one page about the present configuration and the history."""
        from workbench.project.store import write_atomically
        from workbench.report import page

        document = self._context.document
        if document.project is None:
            return
        path = document.path or document.folder / "untitled.qwb"
        try:
            text = page(document.project, path, self._context.session.cache)
            write_atomically(target, text.encode())
        except OSError as error:
            message = f"The report could not be written: {error.strerror or error}."
            self._context.notices.error(failure(message, "Choose another file."))
            return
        except WorkbenchError as error:
            self._context.notices.error(error)
            return

        def show() -> None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(target)))

        self._context.notices.success(f"The report is in {target}.", "", [Action("Open", show)])
