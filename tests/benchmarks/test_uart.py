"""What a runner prints is read faster than any simulator prints it, and scrolls smoothly."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from PySide6.QtWidgets import QListView

from ui.features.simulator.run_log import TextFileModel
from ui.shared.chip import LineDelegate
from ui.shared.log_lines import Role
from ui.shared.theme import DARK
from workbench.deploy.simulators.log_parser import UartReader, level_of

LINES, LONG = 400_000, 1_000_000
FRAMES = 300
KINDS = (
    "Output[0][{n}]: (char) -5\r\n",
    "I [executorch:arm_executor_runner.cpp:700 main()] Writing output to file: out-{n}.bin\r\n",
    "I [executorch:arm_perf_monitor.cpp:190 StopMeasurements()] ethosu_pmu_cntr0 : {n} (1.00 per "
    "inference)\r\n",
    "D [executorch:method.cpp:1200 execute()] Executing instruction {n}\r\n",
)


@pytest.mark.benchmark
def test_that_lines_are_read_at_the_promised_rate(measured):
    text = "".join(KINDS[n % len(KINDS)].format(n=n) for n in range(LINES))
    pieces = [text[at : at + 65536] for at in range(0, len(text), 65536)]
    reader = UartReader()
    begun = time.perf_counter()
    for piece in pieces:
        reader.feed(piece)
    rate = LINES / (time.perf_counter() - begun)
    assert reader.lines == LINES
    measured("Lines of a serial port read", rate)


@pytest.mark.benchmark
def test_that_a_log_of_a_million_lines_scrolls(qtbot, tmp_path, measured):
    path = tmp_path / "uart.log"
    path.write_text("".join(KINDS[n % len(KINDS)].format(n=n) for n in range(LONG)))
    view = QListView()
    qtbot.addWidget(view)
    view.setUniformItemSizes(True)
    view.setItemDelegate(LineDelegate(lambda: DARK, Role.LEVEL, view))
    model = TextFileModel(level_of, view)
    tracemalloc.start()
    model.open(path)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    view.setModel(model)
    view.resize(1100, 400)
    view.show()
    qtbot.waitExposed(view)
    bar = view.verticalScrollBar()
    begun = time.perf_counter()
    for frame in range(FRAMES):
        bar.setValue(bar.maximum() * frame // FRAMES)
        view.viewport().grab()
    rate = FRAMES / (time.perf_counter() - begun)
    assert bar.maximum() > LONG // 2
    measured("A log of a million lines scrolled", rate)
    measured("Memory of a log of a million lines", kept / 1e6)
