"""A board behind a pseudo-terminal: slow, noisy, and resetting as it is told.

On a machine without pseudo-terminals its serial port is a socket.
"""

from __future__ import annotations

import contextlib
import os
import pty
import socket
import threading
import time
import tty
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

PREFIX = "I [executorch:arm_executor_runner.cpp:700 main()] "
PERF = "I [executorch:arm_perf_monitor.cpp:180 StopMeasurements()] "


def lines_of(outputs, cycles=40000, passed=True):
    """Return what the runner prints for outputs: a list of (kind, values)."""
    said = [
        f"{PREFIX}PTE @ 0x70000000 [----ET12]",
        f"{PERF}NPU Inferences : 1",
        f"{PERF}ethosu_pmu_cycle_cntr : {cycles} ({cycles}.00 per inference)",
        f"{PERF}Ethos-U PMU Events:[ETHOSU_PMU_NPU_IDLE]",
    ]
    for index, (kind, values) in enumerate(outputs):
        said += [f"Output[{index}][{place}]: ({kind}) {v}" for place, v in enumerate(values)]
    verdict = "PASS" if passed else "FAIL"
    said += [
        f"{PREFIX}TEST: BundleIO index[0] Test_result: {verdict}",
        f"{PREFIX}Model run: {int(passed)}",
        f"{PREFIX}Program complete, exiting.",
    ]
    return said


@dataclass
class FakeBoard:
    """Begins to print when the flash command has written ``marker``.

    ``resets`` is how often it starts anew half way, ``noise`` the bytes put before every line,
    ``piece`` how many bytes it writes at once, with ``pause_s`` between them.
    """

    marker: Path
    lines: list[str]
    resets: int = 0
    noise: bytes = b""
    piece: int = 7
    pause_s: float = 0.0
    lost: int = -1
    stopped: threading.Event = field(default_factory=threading.Event)

    def __enter__(self):
        self._close = contextlib.ExitStack()
        try:
            master, slave = pty.openpty()
        except OSError:
            self._listen()
        else:
            self._close.callback(os.close, slave)
            self._close.callback(os.close, master)
            tty.setraw(slave)
            os.set_blocking(master, False)
            self.port, self._send = os.ttyname(slave), partial(self._write_terminal, master)
        self._thread = threading.Thread(target=self._play)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self._thread.join()
        self._close.close()

    def _write_terminal(self, master, data):
        """Write all of it, or stop when the reader has gone and the buffer is full."""
        while data and not self.stopped.is_set():
            try:
                data = data[os.write(master, data) :]
            except BlockingIOError:
                self.stopped.wait(0.005)

    def _listen(self):
        server = self._close.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.settimeout(20)
        self.port = f"socket://127.0.0.1:{server.getsockname()[1]}"
        accepted = []

        def send(data):
            if not accepted:
                accepted.append(self._close.enter_context(server.accept()[0]))
            # The reader may have read enough, and gone.
            with contextlib.suppress(OSError):
                accepted[0].sendall(data)

        self._send = send

    def _play(self):
        while not self.marker.exists():
            if self.stopped.wait(0.005):
                return
        for _ in range(self.resets):
            self._write(self.lines[: len(self.lines) // 2])
            self._write(["Output[0][0]: (char) 1", "\x00\x00brown-out"])
        self._write([line for place, line in enumerate(self.lines) if place != self.lost])

    def _write(self, lines):
        data = b"".join(self.noise + line.encode() + b"\r\n" for line in lines)
        for at in range(0, len(data), self.piece):
            if self.stopped.is_set():
                return
            self._send(data[at : at + self.piece])
            if self.pause_s:
                time.sleep(self.pause_s)
