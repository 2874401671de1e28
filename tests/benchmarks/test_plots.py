"""How fast the plots of ranges appear and follow the pointer. Times are this thread's own.

Each is printed beside its bar, and as a ratio to painting as many plain lines in the same run.
"""

from __future__ import annotations

import gc
import statistics
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ui.features.ranges.range_editor import RangeEditor
from ui.features.ranges.range_plot import RangePlot
from ui.features.ranges.range_table import COLUMNS, describe
from ui.features.timeline.timeline_panel import sums_sentence
from ui.features.timeline.timeline_plot import TimelinePlot
from ui.shared.memory_plot import MemoryPlot
from ui.shared.range_rows import RangeRow, range_rows
from ui.shared.range_series import series_of, tensor_of
from ui.shared.sortable_table import FigureTableModel, FigureView
from ui.shared.theme import DARK
from workbench.analysis.ranges import histogram_of
from workbench.analysis.timeline import CpuStop, Span, Timeline
from workbench.results import CalibrateResult, CpuNode, LiveRange, TensorRange, VelaOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytestqt.qtbot import QtBot

    from tests.benchmarks.conftest import Measured

pytestmark = pytest.mark.benchmark

TENSORS, CHANNELS, BINS = 500, 100_000, 2048
SIZE = (1000, 700)


def made() -> tuple[CalibrateResult, dict[str, np.ndarray], dict[int, tuple]]:
    """Return 500 tensors, every second a weight, with 100,000 channels in all."""
    rng = np.random.default_rng(7)
    each = CHANNELS // (TENSORS // 2)
    rows, channels = [], {}
    for place in range(TENSORS):
        size = 10.0 ** rng.uniform(-2, 1)
        weight = place % 2 == 1
        rows.append(
            TensorRange(
                id=f"o{place}",
                node=f"conv2d_{place}",
                op="aten.conv2d.default",
                module=f"features.{place}",
                kind="weight" if weight else "activation",
                index=place,
                minimum=-size,
                maximum=size,
                p_low=-size / 2,
                p_high=size / 2,
                dtype="int8",
                qmin=-128,
                qmax=127,
                scale=size / 128,
                zero_point=0,
                observer="Histogram",
                channels=each if weight else 1,
                mean_square=size**2 / 8,
            )
        )
        if weight:
            widths = size * rng.uniform(0.1, 1.0, each)
            channels[place] = (-widths, widths)
    histogram = rng.poisson(40.0, (TENSORS, BINS)).astype(np.float32)
    edges = np.asarray([[r.minimum, r.maximum] for r in rows])
    result = CalibrateResult(samples=100, calibrated_on="data.npz", ranges=tuple(rows))
    return result, {"histogram": histogram, "edges": edges}, channels


def timed(work: Callable[[], object], repeats: int) -> float:
    """Return the median milliseconds of this thread's own time."""
    times = []
    for _ in range(repeats):
        gc.collect()
        start = time.thread_time()
        work()
        times.append((time.thread_time() - start) * 1e3)
    return statistics.median(times)


@pytest.fixture
def plot(qtbot: QtBot) -> RangePlot:
    """Return the plot with all tensors and channels, painted."""
    result, arrays, channels = made()
    rows = range_rows(result, arrays, None)
    found = RangePlot(lambda place: describe(rows[place]))
    qtbot.addWidget(found)
    found.resize(*SIZE)
    found.set_theme(DARK)
    found.render_series(series_of(rows, channels))
    found.show()
    qtbot.waitExposed(found)
    found.grab()
    return found


def test_that_500_tensors_are_painted_soon(qtbot: QtBot, measured: Measured) -> None:
    result, arrays, _ = made()

    def first_paint() -> None:
        rows: list[RangeRow] = range_rows(result, arrays, None)
        model = FigureTableModel(COLUMNS, describe)
        table = FigureView("ranges", model)
        model.set_rows(rows)
        plot = RangePlot(lambda place: describe(rows[place]))
        for widget in (plot, table):
            qtbot.addWidget(widget)
            widget.resize(*SIZE)
        plot.set_theme(DARK)
        plot.render_series(series_of(rows, {}))
        plot.grab()
        table.grab()

    first_paint()
    measured("500 tensors, values to first paint", timed(first_paint, 5))


def test_that_brushing_follows_the_pointer(plot: RangePlot, measured: Measured) -> None:
    at = iter(range(10, 10_000, 3))

    def brush() -> None:
        plot.activations.box.brushed.emit(5.0, float(next(at) % TENSORS), False)
        plot.grab()

    measured("Brushing over 500 tensors, a frame", timed(brush, 25))


@pytest.mark.parametrize("log", [False, True], ids=["linear", "logarithmic"])
@pytest.mark.parametrize("share", [1.0, 0.1], ids=["all", "a tenth"])
def test_that_100_000_channels_are_moved_smoothly(
    plot: RangePlot, measured: Measured, log: bool, share: float
) -> None:
    plot.set_log(log)
    box, shown = plot.weights.box, TENSORS * share
    at = iter(np.linspace(0.0, TENSORS - shown, 40) if share < 1 else np.linspace(0, 5, 40))

    def pan() -> None:
        left = float(next(at))
        box.setXRange(left, left + min(shown, TENSORS - 6), padding=0)
        plot.grab()

    axis = "logarithmic" if log else "linear"
    part = "all" if share == 1 else "a tenth"
    what = f"100,000 channels moved, {axis}, {part} in view"
    measured(what, timed(pan, 25))


def test_that_figures_follow_a_dragged_line(qtbot: QtBot, measured: Measured) -> None:
    result, arrays, _ = made()
    row = range_rows(result, arrays, None)[0]
    editor = RangeEditor()
    qtbot.addWidget(editor)
    editor.resize(420, 420)
    editor.tensor.set_theme(DARK)
    view, histogram = tensor_of(row, 0, arrays, {}), histogram_of(row.tensor, arrays)
    editor.render_tensor(row, view, histogram, DARK)
    editor.show()
    qtbot.waitExposed(editor)
    high = iter(np.linspace(0.2, 0.9, 60) * row.tensor.maximum)

    def drag() -> None:
        editor.preview(row.tensor.minimum, float(next(high)))

    def drag_and_paint() -> None:
        drag()
        editor.grab()

    measured("A step of a clip line: figures", timed(drag, 25))
    measured("A step of a clip line: figures and paint", timed(drag_and_paint, 25))


def test_that_the_picture_of_a_memory_is_moved_smoothly(qtbot: QtBot, measured: Measured) -> None:
    rng = np.random.default_rng(7)
    tensors = [
        LiveRange(
            name=f"t{place}",
            module=f"features.{place}",
            memory="Sram",
            usage="OpLocal",
            start=2 * place,
            end=2 * place + int(rng.integers(1, 40)),
            address=int(rng.integers(0, 10**6)),
            bytes=int(rng.integers(100, 10**5)),
        )
        for place in range(2000)
    ]
    found = MemoryPlot(lambda place: tensors[place].name)
    qtbot.addWidget(found)
    found.resize(*SIZE)
    found.set_theme(DARK)
    found.render_tensors(tensors, 7)
    found.show()
    qtbot.waitExposed(found)
    left = iter(range(0, 10_000, 20))

    def move() -> None:
        first = next(left)
        found.box.setXRange(first, 2000 + first, padding=0)
        found.grab()

    move()
    measured("2,000 tensors of a memory moved", timed(move, 30))


def operations(number: int) -> Timeline:
    """Return an inference of many operations, with the CPU after every fiftieth."""
    rng, now, spans, stops = np.random.default_rng(7), 0.0, [], []
    for place in range(number):
        npu, sram, external = (int(c) for c in rng.integers(100, 20_000, 3))
        operation = VelaOperation(
            name=f"conv2d_{place}",
            operator="Conv2D",
            module=f"features.{place}.conv",
            tosa="CONV2D",
            cycles=max(npu, sram, external),
            cycles_vela=0,
            npu_cycles=npu,
            macs=1000,
            sram_cycles=sram,
            external_cycles=external,
            staging_bytes=512,
        )
        spans.append(Span(place, 0, operation, now, now + operation.cycles))
        now += operation.cycles
        if place % 50 == 0:
            node = CpuNode(node=f"add_{place}", op="aten.add.Tensor", module="", reason="")
            stops.append(CpuStop(now, (node,), now))
    return Timeline(tuple(spans), tuple(stops))


@pytest.mark.parametrize(("part", "share"), [("most", 0.9), ("a tenth", 0.1), ("a hundredth", 0.01)])
def test_that_a_timeline_is_moved_smoothly(qtbot: QtBot, measured: Measured, part: str, share: float) -> None:
    shown = operations(2000)
    found = TimelinePlot(lambda place: shown.spans[place].operation.name, str)
    qtbot.addWidget(found)
    found.resize(*SIZE)
    found.set_theme(DARK)
    found.render_timeline(shown, "estimated (Vela)")
    found.mark(range(0, 2000, 2))
    found.show()
    qtbot.waitExposed(found)
    found.keys.fit()
    found.keys.zoom(share)
    for _ in range(60):
        found.keys.move(-1.0)
    steps = iter([0.002] * 20 + [-0.002] * 20)

    def move() -> None:
        found.keys.move(next(steps))
        found.grab()

    move()
    measured(f"2,000 operations of a timeline moved, {part} in view", timed(move, 30))


def test_that_the_sums_of_a_box_follow_the_pointer(qtbot: QtBot, measured: Measured) -> None:
    shown = operations(2000)
    found = TimelinePlot(lambda place: shown.spans[place].operation.name, str)
    qtbot.addWidget(found)
    found.resize(*SIZE)
    found.set_theme(DARK)
    found.render_timeline(shown, "estimated (Vela)")
    found.show()
    qtbot.waitExposed(found)

    def take(low: float, high: float, _is_over: bool) -> None:
        places = shown.between(low, high)
        found.mark(places)
        assert sums_sentence(shown, places, [])

    found.stretch_chosen.connect(take)
    ends = iter(np.linspace(0.1, 0.9, 40) * shown.end)

    def drag() -> None:
        found.box.brushed.emit(0.0, float(next(ends)), False)
        found.grab()

    drag()
    measured("2,000 operations of a timeline: a step of a box, with its sums", timed(drag, 30))
