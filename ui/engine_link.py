"""An engine on one side, one Qt signal on the other; a thread between them that only waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from PySide6.QtCore import QObject, QThread, Signal

from workbench.errors import WorkbenchError
from workbench.protocol import Command, EngineExit, Event, LogLine


class Engine(Protocol):
    """The process boundary, as ``EngineProcess`` gives it."""

    def send(self, command: Command) -> None:
        """Send a command."""
        ...

    def cancel(self) -> None:
        """Ask the job to stop; kill the engine if it does not."""
        ...

    def stop(self) -> None:
        """End the engine; returns when it has ended."""
        ...

    def run_log(self, receive: Callable[[str], None]) -> Any:
        """Hand every printed line to ``receive``, in a thread."""
        ...

    def events(self) -> Iterator[Event]:
        """Yield events; the last one is an EngineExit."""
        ...


EngineFactory = Callable[[], Engine]


def warm_engine() -> Engine:
    """Return a new engine, forked from a warm server where the system has one."""
    from workbench.engine_process import EngineProcess

    return EngineProcess(warm=True)


class EngineLink(QThread):
    """One engine's supervisor; owned by the application, never by a widget.

    Signals:
        received: an event of the protocol; the last one is an EngineExit.
    """

    received = Signal(object)

    def __init__(self, factory: EngineFactory, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._factory = factory
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._waiting: list[Command] = []
        self._stopping = False

    def send(self, command: Command) -> None:
        """Send a command, at the latest when the engine is there."""
        with self._lock:
            if self._engine is None:
                self._waiting.append(command)
                return
            engine = self._engine
        engine.send(command)

    def cancel(self) -> bool:
        """Ask the running job to stop; return False when the engine has not even begun with it."""
        with self._lock:
            engine = self._engine
            if engine is None:
                self._waiting.clear()
                return False
        engine.cancel()
        return True

    def stop(self) -> None:
        """End the engine and the thread; returns when both have ended."""
        with self._lock:
            self._stopping = True
            engine = self._engine
        if engine is not None:
            engine.stop()
        self.wait()

    def run(self) -> None:
        try:
            engine = self._factory()
        except (OSError, EOFError, WorkbenchError) as error:
            self.received.emit(
                EngineExit(expected=False, sentence=f"The engine could not be started: {error}.")
            )
            return
        log = engine.run_log(self._on_line)
        with self._lock:
            self._engine = engine
            waiting, self._waiting = self._waiting, []
            stopping = self._stopping
        for command in waiting:
            engine.send(command)
        if stopping:
            engine.stop()
        for event in engine.events():
            self.received.emit(event)
        if isinstance(log, threading.Thread):
            log.join(1.0)

    def _on_line(self, text: str) -> None:
        if not self._stopping:
            self.received.emit(LogLine(level="debug", text=text))
