"""A stage in a forked copy of the engine, beside the stages that do not need its result.

The copy writes the stage's result to the cache, and its events to a pipe that this engine forwards.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from workbench.engine.runtime.forked import forked
from workbench.errors import Cancelled
from workbench.operating_system import kill_forked, status_of
from workbench.protocol import (
    MAX_EVENT_BYTES,
    Event,
    OversizedLine,
    StageFailed,
    StageFinished,
    decode_event,
    encode_event,
    read_lines,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Send = Callable[[Event], None]
    Work = Callable[[Send, threading.Event], object]

_WAIT_S = 0.1
# The time that a cancelled copy gets to remove what it has begun to write [s].
_GRACE_S = 1.0


class ForkedStage:
    """A stage that runs in a copy of this process.

    Args:
        work: Runs the stage, with the function to send its events and the flag that cancels it.
        send: Sends an event of the stage; called in a thread.
    """

    def __init__(self, work: Work, send: Send) -> None:
        self._send = send
        self._ending: Event | None = None

        def run(writing: int) -> None:
            cancelled = threading.Event()
            signal.signal(signal.SIGTERM, lambda *_: cancelled.set())
            lock = threading.Lock()

            def send_line(event: Event) -> None:
                line = encode_event(event)
                with lock:
                    while line:
                        line = line[os.write(writing, line) :]

            work(send_line, cancelled)

        self._pid, reading = forked(run)
        self._thread = threading.Thread(
            target=self._forward, args=(reading,), name="forked stage", daemon=True
        )
        self._thread.start()

    def _forward(self, reading: int) -> None:
        for lines in read_lines(reading, MAX_EVENT_BYTES):
            for line in lines:
                if isinstance(line, OversizedLine):
                    continue
                event = decode_event(line)
                if isinstance(event, StageFinished | StageFailed):
                    self._ending = event
                self._send(event)
        os.close(reading)

    @property
    def failed(self) -> bool:
        """Whether the stage has failed."""
        return isinstance(self._ending, StageFailed)

    def ending(self, cancelled: threading.Event) -> Event | None:
        """Wait for the stage; return its last event, or None if the copy ended without one.

        Raises:
            Cancelled: ``cancelled`` was set.
        """
        while self._thread.is_alive():
            self._thread.join(_WAIT_S)
            if cancelled.is_set():
                raise Cancelled
        self.end()
        return self._ending

    def end(self) -> None:
        """End the copy if it still runs."""
        pid, self._pid = self._pid, 0
        if not pid:
            return
        limit = time.monotonic() + _GRACE_S
        with suppress(OSError):
            if self._thread.is_alive():
                os.kill(pid, signal.SIGTERM)
            while status_of(pid) is None:
                if time.monotonic() > limit:
                    kill_forked(pid)
                    break
                time.sleep(_WAIT_S / 10)
        self._thread.join()
