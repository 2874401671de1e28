"""A board behind a pseudo-terminal: slow, noisy, and resetting as it is told."""

from __future__ import annotations

import os
import pty
import threading
import time
import tty
from dataclasses import dataclass, field
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
        self.master, self.slave = pty.openpty()
        tty.setraw(self.slave)
        self.port = os.ttyname(self.slave)
        self._thread = threading.Thread(target=self._play)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self._thread.join()
        os.close(self.master)
        os.close(self.slave)

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
            os.write(self.master, data[at : at + self.piece])
            if self.pause_s:
                time.sleep(self.pause_s)
