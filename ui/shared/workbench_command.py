"""A verb of the command line, in a process of its own, and a dialog around one."""

from __future__ import annotations

import json
import re

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, Signal
from PySide6.QtWidgets import QDialog, QWidget

from workbench import interpreter

_KILL_MS = 5_000
# How lines of a problem begin, the first and others.
_LABEL = re.compile(r"^(?:error|failed): ", re.MULTILINE)


class WorkbenchCommand(QObject):
    """Runs ``workbench VERB ... --json``, one at a time.

    Signals:
        changed: it started or ended.
        succeeded: the document that it printed; it may say that a check failed.
        failed: one or more sentences.
        line_printed: a line of its progress.
    """

    changed = Signal()
    succeeded = Signal(object)
    failed = Signal(str)
    line_printed = Signal(str)

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._problem = ""
        self._process = QProcess(self)
        variables = QProcessEnvironment()
        for name, value in interpreter.environment().items():
            variables.insert(name, value)
        self._process.setProcessEnvironment(variables)
        self._process.readyReadStandardError.connect(self._on_error_lines)
        self._process.finished.connect(self._on_finished)
        self._process.errorOccurred.connect(self._on_error)

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return self._process.state() != QProcess.ProcessState.NotRunning

    def run(self, *words: str) -> None:
        """Start a verb with its options."""
        if self.is_running:
            return
        self._problem = ""
        program, *arguments = interpreter.command("workbench", *words, "--json")
        self._process.start(program, arguments)
        self.changed.emit()

    def stop(self) -> None:
        """Cancel it, as Ctrl+C does."""
        if self.is_running:
            self._process.terminate()

    def end(self) -> None:
        """Cancel it, and wait until it has ended."""
        self._process.blockSignals(True)
        if self.is_running:
            self._process.terminate()
            if not self._process.waitForFinished(_KILL_MS):
                self._process.kill()
                self._process.waitForFinished(_KILL_MS)

    def _on_error_lines(self) -> None:
        text = bytes(self._process.readAllStandardError().data()).decode(errors="replace")
        self._problem += text
        for line in text.splitlines():
            if line.strip():
                self.line_printed.emit(line.strip())

    def _on_finished(self, _code: int, _status: QProcess.ExitStatus) -> None:
        self._on_error_lines()
        output = bytes(self._process.readAllStandardOutput().data()).decode(errors="replace")
        self.changed.emit()
        try:
            document = json.loads(output)
        except ValueError:
            document = None
        if isinstance(document, dict) and "error" not in document:
            self.succeeded.emit(document)
        else:
            self.failed.emit(_sentences(self._problem) or "Stopped.")

    def _on_error(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self.changed.emit()
            self.failed.emit(self._process.errorString())


def _sentences(printed: str) -> str:
    """Return the problem in what a verb printed: without its progress, and without where the log is."""
    text = printed.partition("\nLog: ")[0].strip()
    first = _LABEL.search(text)
    return _LABEL.sub("", text[first.start() :] if first else text)


class CommandDialog(QDialog):
    """A dialog that runs verbs of the command line; one that still runs ends with the dialog."""

    def __init__(self, parent: QWidget | None) -> None:
        super().__init__(parent)
        self.command = WorkbenchCommand(self)

    @property
    def is_running(self) -> bool:
        """Whether a verb runs."""
        return self.command.is_running

    def done(self, result: int) -> None:
        """Close the dialog, by whatever button or key."""
        self.command.end()
        super().done(result)
