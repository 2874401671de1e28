"""Plots keep every extreme, mark the grid, and tell what is under the cursor."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QFontMetricsF
from PySide6.QtWidgets import QApplication

from ui.features.ranges.range_plot import RangePlot
from ui.shared.bar_plot import BarPlot, DifferencePlot, ModuleBars
from ui.shared.chart import LINEAR, ValueScale, count_ticks, log_ticks, symmetric_log, tick_texts
from ui.shared.memory_plot import MemoryPlot
from ui.shared.range_data import MOST_LINES, RangeSeries, TensorView, spread, thinned
from ui.shared.tensor_range_plot import HistogramChart, TensorPlot
from ui.shared.theme import DARK, LIGHT, THEMES
from ui.shared.tradeoff_plot import Dot, TradeoffPlot
from workbench.results import LiveRange


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_that_the_symmetric_log_keeps_order_and_turns_back(values):
    scale = ValueScale(1e-3)
    positions = scale.position(np.asarray(values))
    assert (np.diff(positions[np.argsort(values)]) >= 0).all()
    assert scale.value(float(positions[0])) == pytest.approx(values[0], rel=1e-6, abs=1e-9)


def test_that_ticks_of_the_symmetric_log_stand_at_zero_and_at_decades():
    scale = ValueScale(0.01)
    ticks = scale.ticks(-3.1, 3.1)
    assert (0.0, "0") in ticks
    assert "10" in [text for _, text in ticks]
    assert LINEAR.ticks(0, 1) is None
    assert symmetric_log(np.array([np.nan, 0.0])).linear == 1.0


def test_that_thinned_channels_keep_both_extremes():
    rng = np.random.default_rng(0)
    low, high = rng.normal(size=100_000) - 5, rng.normal(size=100_000) + 5
    x = np.arange(100_000.0)
    places, ends = thinned(x, low, high, (0.0, 1e5))
    assert places.size == 2 * MOST_LINES
    assert ends.min() == low.min()
    assert ends.max() == high.max()
    near, _ = thinned(x, low, high, (10.0, 20.0))
    assert near.size == 20


def test_that_channels_lie_about_the_place_of_their_tensor():
    x, low, _ = spread([3.0, 8.0], [np.zeros(4), np.ones(2)], [np.ones(4), np.ones(2)])
    assert ((x[:4] > 2.6) & (x[:4] < 3.4)).all()
    assert low.tolist() == [0, 0, 0, 0, 1, 1]
    assert spread([], [], [])[0].size == 0


def series(count, channels=0):
    high = np.linspace(1.0, 50.0, count)
    weights = np.arange(count) % 2 == 1
    some = {int(i): (-np.ones(channels), np.ones(channels)) for i in np.flatnonzero(weights) if channels}
    return RangeSeries(
        names=tuple(f"t{i}" for i in range(count)),
        labels=("a8w8",) * count,
        is_weight=weights,
        low=-high,
        high=high,
        p_low=-high / 2,
        p_high=high / 2,
        grid_low=-high,
        grid_high=high,
        step=high / 127,
        channels=some,
    )


@pytest.fixture
def ranges(qtbot):
    plot = RangePlot(lambda place: f"about {place}")
    qtbot.addWidget(plot)
    plot.resize(900, 500)
    plot.set_theme(DARK)
    plot.show()
    qtbot.waitExposed(plot)
    return plot


def test_that_all_tensors_are_in_view_at_first(ranges):
    ranges.render_series(series(500, 200))
    left, right, bottom, top = ranges.activations.reach()
    assert left < 0
    assert right > 499
    assert bottom < -49
    assert top > 49
    ranges.grab()


def test_that_zooming_uses_the_height_for_what_is_in_view(ranges):
    ranges.render_series(series(500))
    ranges.activations.box.setXRange(0, 4, padding=0)
    assert ranges.activations.reach()[3] < 5
    ticks = ranges.activations.plot.getAxis("bottom")._tickLevels
    assert "t3" in [text for _, text in ticks[0]]


def test_that_a_brush_chooses_and_a_click_with_ctrl_adds(ranges):
    ranges.render_series(series(20))
    told = []
    ranges.tensors_chosen.connect(told.append)
    ranges.activations.box.brushed.emit(4.4, 2.6, False)
    assert told == []
    ranges.activations.box.brushed.emit(4.4, 2.6, True)
    ranges.choose(told[-1])
    ranges.weights.box.picked.emit(7.0, 0.0, True)
    assert told == [[3, 4], [3, 4, 7]]
    ranges.weights.box.picked.emit(99.0, 0.0, False)
    assert len(told) == 2


def test_that_the_cursor_is_told_about_the_tensor_under_it(ranges):
    ranges.render_series(series(4))
    assert ranges.activations.tell(QPointF(2.2, 0)) == "about 2"
    assert ranges.activations.tell(QPointF(9.0, 0)) == ""


def test_that_tensors_without_a_range_and_no_tensors_are_drawn(ranges):
    blank = series(3)
    nothing = np.full(3, np.nan)
    ranges.render_series(RangeSeries(blank.names, blank.labels, blank.is_weight, *[nothing] * 7))
    ranges.set_log(True)
    ranges.grab()
    ranges.render_series(RangeSeries())
    ranges.grab()


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_that_one_tensor_shows_histogram_grid_and_channels(qtbot, theme):
    plot = TensorPlot()
    qtbot.addWidget(plot)
    plot.resize(500, 500)
    plot.show()
    qtbot.waitExposed(plot)
    plot.set_theme(theme)
    counts = np.arange(256.0)
    few = TensorView(counts, (-1.0, 1.0), (-0.7, 0.7), 0.1, "a8w4", -np.ones(6), np.ones(6))
    plot.render_tensor(few, theme)
    assert plot.channels.isVisible()
    assert plot.histogram.steps.isVisible()
    assert "elements" in plot.histogram.tell(QPointF(0.5, 0))
    assert "outside" in plot.histogram.tell(QPointF(2.0, 0))
    assert plot.channels.tell(QPointF(2.0, 0)) == "channel 2: -1 to 1"
    plot.render_tensor(TensorView(counts, (0.0, 0.0), None, 0.0, "a8w8"), theme)
    plot.render_tensor(None, theme)
    assert not plot.channels.isVisible()
    plot.grab()


def test_that_grid_lines_hide_when_they_cannot_be_told_apart(qtbot):
    plot = TensorPlot()
    qtbot.addWidget(plot)
    plot.render_tensor(TensorView(np.ones(256), (-1.0, 1.0), (-1.0, 1.0), 1e-5, "a16w8"), LIGHT)
    assert not plot.histogram.steps.isVisible()


def test_that_bars_and_differences_say_their_figures(qtbot):
    bars = BarPlot("b", "tensors", "SQNR [dB]", lambda place: f"bar {place}")
    differences = DifferencePlot("quantized model")
    modules = ModuleBars("m", "estimated cycles", lambda place: f"module {place}")
    for plot in (bars, differences, modules):
        qtbot.addWidget(plot)
        plot.set_theme(DARK)
    bars.render_bars(["a", "b", "c"], np.array([10.0, np.nan, 30.0]))
    bars.choose([1, 2])
    assert bars.tell(QPointF(1.1, 0)) == "bar 1"
    differences.render_counts({-1: 5, 0: 90, 2: 5})
    assert "2 LSB: 5 of 100 elements (5.00 %)" in differences.tell(QPointF(2.2, 0))
    assert differences.tell(QPointF(1.0, 0)) == ""
    differences.set_log(True)
    differences.render_counts({})
    modules.render_bars(["features.0", "features.1"], np.array([3e6, 1e6]))
    assert modules.labels["bottom"] == "estimated cycles [millions]"
    assert modules.tell(QPointF(0, 1.2)) == "module 1"
    for plot in (bars, differences, modules):
        plot.grab()


def test_that_a_name_too_long_for_its_bar_is_cut_in_the_middle(qtbot):
    modules = ModuleBars("m", "gain", str)
    qtbot.addWidget(modules)
    modules.set_theme(DARK)
    modules.render_bars([f"decoder.{'layers.' * 20}first"], np.array([1.0]))
    axis = modules.plot.getAxis("left")
    shown = axis._tickLevels[0][0][1]
    assert shown.startswith("decoder.")
    assert shown.endswith(".first")
    font = axis.style["tickFont"] or modules.font()
    assert QFontMetricsF(font).horizontalAdvance(shown) < axis.fixedWidth


def test_that_the_label_of_an_axis_is_in_its_middle_whatever_fits(qtbot):
    chart = HistogramChart()
    qtbot.addWidget(chart)
    chart.set_theme(DARK)
    chart.show()
    axis = chart.plot.getAxis("left")
    texts = set()
    for height in (60, 400, 130, 300):
        chart.resize(300, height)
        QApplication.processEvents()
        texts.add(axis.labelText)
        middle = axis.label.mapRectToParent(axis.label.boundingRect()).center().y()
        assert abs(middle - axis.size().height() / 2) <= 1
    assert len(texts) == 2


def test_that_few_steps_of_a_program_have_ticks_at_whole_numbers(qtbot):
    chart = MemoryPlot(str)
    qtbot.addWidget(chart)
    chart.set_theme(DARK)
    chart.resize(1200, 300)
    tensors = [
        LiveRange(name="a", module="", memory="SRAM", usage="", start=step, end=step, address=0, bytes=64)
        for step in range(3)
    ]
    chart.render_tensors(tensors, 1)
    chart.show()
    axis = chart.plot.getAxis("bottom")
    ticks = [place for _, places in axis.tickValues(0.0, 3.0, 1200) for place in places]
    assert sorted(ticks) == [0, 1, 2, 3]


def test_that_ticks_have_thousands_separators_and_as_many_decimals_as_their_step():
    assert tick_texts([0.0, 2000.0, 14000.0], 1.0, 2000.0) == ["0", "2,000", "14,000"]
    assert tick_texts([0.9, 0.95], 100.0, 0.05) == ["90", "95"]
    assert tick_texts([0.1, 0.15], 1.0, 0.05) == ["0.10", "0.15"]
    assert tick_texts([2e9], 1.0, 1e9) == ["2e+09"]
    assert tick_texts([], 1.0, 1.0) == []


def test_that_counts_on_a_logarithmic_axis_are_labelled_as_counts():
    ticks = count_ticks(np.log10(1 + 2_500))
    assert [text for _, text in ticks] == ["0", "1", "10", "100", "1,000"]
    for place, text in ticks:
        assert 10**place - 1 == pytest.approx(float(text.replace(",", "")))


def test_that_logarithmic_ticks_are_plain_numbers_and_fit_their_room():
    texts = [text for _, text in log_ticks(np.log10(2.5), np.log10(40), 4)]
    assert texts == ["5", "10", "20"]
    assert [text for _, text in log_ticks(-2.2, 0.1, 8)] == ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"]
    assert [text for _, text in log_ticks(0, 6, 4)] == ["1", "100", "10,000", "1,000,000"]
    # Less than a decade between two of these has ticks at equal distances.
    assert [text for _, text in log_ticks(np.log10(15), np.log10(21), 4)] == ["16", "18", "20"]
    assert [text for _, text in log_ticks(np.log10(2.15e-5), np.log10(2.35e-5), 3)] == ["2.2e-05", "2.3e-05"]
    assert log_ticks(1.0, 1.0, 4) == [(1.0, "10")]
    for place, text in log_ticks(-3, 3, 9):
        assert float(text.replace(",", "")) == pytest.approx(10**place)


def test_that_dots_are_outside_of_limits_only_when_somebody_has_dragged_one(qtbot):
    plot = TradeoffPlot("Accuracy over cycles", str)
    qtbot.addWidget(plot)
    good, poor = Dot(0.99, 1000.0, 1.0), Dot(0.60, 9000.0, 1.0)
    plot.render_dots([good], "top-1, measured")
    # A later run that is worse and slower is within the limits as well.
    plot.render_dots([good, poor], "top-1, measured")
    assert plot.keeps_limits(0)
    assert plot.keeps_limits(1)
    (line,) = (i for i in plot.plot.items if isinstance(i, pg.InfiniteLine) and i.angle == 0)
    line.setValue(0.9)
    line.sigDragged.emit(line)
    plot.render_dots([poor, good], "top-1, measured")
    assert [plot.keeps_limits(n) for n in (0, 1)] == [False, True]
    # Another figure, or another project, has other limits.
    plot.render_dots([poor], "mAP50-95, measured")
    assert plot.keeps_limits(0)


def test_that_a_click_in_the_middle_of_a_dot_chooses_it(qtbot):
    plot = TradeoffPlot("Runs", str)
    qtbot.addWidget(plot)
    plot.resize(500, 300)
    plot.set_theme(LIGHT)
    plot.show()
    dots = [Dot(0.9, 1000.0, 10.0), Dot(0.8, 2000.0, 20.0, has_more_cpu=True)]
    plot.render_dots(dots, "top-1, measured in PyTorch")
    for index, dot in enumerate(dots):
        place = plot.view.mapFromScene(plot.box.mapViewToScene(QPointF(dot.cycles, dot.accuracy)))
        with qtbot.waitSignal(plot.dot_chosen, timeout=1000) as chosen:
            qtbot.mouseClick(plot.view.viewport(), Qt.MouseButton.LeftButton, pos=place)
        assert chosen.args == [index, False]
