"""The memory map draws every block, however narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtGui import QColor

from ui.shared.memory_plot import MemoryPlot
from ui.shared.theme import DARK, THEMES, Theme
from workbench.results import LiveRange

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

_KIB = 1024


def live(start: int, end: int, kib: int) -> LiveRange:
    return LiveRange(
        name=f"t{start}",
        module="",
        usage="FeatureMap",
        memory="Sram",
        start=start,
        end=end,
        address=0,
        bytes=kib * _KIB,
    )


def test_that_prefetched_weights_are_called_weights(qtbot: QtBot) -> None:
    plot = MemoryPlot(lambda _: "", None)
    qtbot.addWidget(plot)
    buffered = live(0, 1, 2).model_copy(update={"name": "WB_double_2848_op4", "usage": "OpBuffering"})
    plot.render_tensors([buffered, live(2, 3, 4)], 0)
    assert plot._names == ["weights", "t2"]


def test_that_a_block_narrower_than_a_pixel_reaches_the_peak(qtbot: QtBot) -> None:
    tensors = [live(k, k, 12) for k in range(6000)] + [live(3000, 3000, 20)]
    plot = MemoryPlot(lambda _: "", None)
    qtbot.addWidget(plot)
    plot.set_theme(DARK)
    plot.resize(500, 400)
    plot.render_tensors(tensors, 3000)
    plot.show()
    qtbot.waitExposed(plot)
    view = plot.plot.scene().views()[0]
    picture = view.grab().toImage()
    box = plot.box.sceneBoundingRect()
    ratio = picture.devicePixelRatio()

    def is_drawn(kib: float) -> bool:
        """Whether any column of the map has the colour of a tensor at an address."""
        row = int((box.bottom() - box.height() * kib / 20) * ratio)
        accent = QColor(DARK.accent)
        colours = [
            picture.pixelColor(int(x * ratio), row) for x in range(int(box.left()) + 2, int(box.right()) - 2)
        ]
        return any(c.blue() > 100 and abs(c.hsvHueF() - accent.hsvHueF()) < 0.08 for c in colours)

    assert is_drawn(6)
    assert is_drawn(16)


@pytest.mark.parametrize("theme", THEMES, ids=[theme.name for theme in THEMES])
def test_that_the_name_of_a_selected_block_is_readable(qtbot: QtBot, theme: Theme) -> None:
    plot = MemoryPlot(lambda _: "", None)
    qtbot.addWidget(plot)
    plot.set_theme(theme)
    plot.resize(500, 400)
    plot.render_tensors([live(0, 9, 20).model_copy(update={"name": "MMMMMMMM"})], 0)
    plot.choose([0])
    plot.show()
    qtbot.waitExposed(plot)
    picture = plot.plot.scene().views()[0].grab().toImage()
    ratio, box = picture.devicePixelRatio(), plot.box.sceneBoundingRect()
    middle = box.center()
    colours = [
        picture.pixelColor(int((middle.x() + x) * ratio), int((middle.y() + y) * ratio))
        for x in range(-30, 31)
        for y in range(-5, 6)
    ]
    fill = picture.pixelColor(int(middle.x() * ratio), int((middle.y() + 40) * ratio))
    assert max(abs(colour.lightness() - fill.lightness()) for colour in colours) > 80
