"""What a runner prints is read faster than any simulator prints it."""

from __future__ import annotations

import time

import pytest

from workbench.fvp.uart import UartReader

LINES = 400_000
LEAST = 200_000
KINDS = (
    "Output[0][{n}]: (char) -5\r\n",
    "I [executorch:arm_executor_runner.cpp:700 main()] Writing output to file: out-{n}.bin\r\n",
    "I [executorch:arm_perf_monitor.cpp:190 StopMeasurements()] ethosu_pmu_cntr0 : {n} (1.00 per "
    "inference)\r\n",
    "D [executorch:method.cpp:1200 execute()] Executing instruction {n}\r\n",
)


@pytest.mark.benchmark
def test_that_lines_are_read_at_the_promised_rate(capsys):
    text = "".join(KINDS[n % len(KINDS)].format(n=n) for n in range(LINES))
    pieces = [text[at : at + 65536] for at in range(0, len(text), 65536)]
    reader = UartReader()
    begun = time.perf_counter()
    for piece in pieces:
        reader.feed(piece)
    rate = LINES / (time.perf_counter() - begun)
    with capsys.disabled():
        print(f"\nUART: {rate:,.0f} lines a second (asked: {LEAST:,})")
    assert reader.lines == LINES
    assert rate >= LEAST
