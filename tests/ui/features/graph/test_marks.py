"""Chips, overlays, reasons and tooltips: what is told about operations and closed groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtGui import QColor

from ui.features.graph.marks import Marks, Overlay, number_text, ramp
from ui.features.graph.navigation import lines, tooltip
from ui.features.graph.palette import ink_on
from ui.features.graph.picture import Camera
from ui.shared.theme import DARK, LIGHT, THEMES
from workbench.graph.hierarchy import Hierarchy
from workbench.graph.snapshot import GraphSnapshot, Node, QParams, TensorInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytestqt.qtbot import QtBot

    from ui.features.graph.graph_view import GraphView
    from ui.shared.theme import Theme

    Show = Callable[[GraphSnapshot | None], GraphView]


def marks(**changes: object) -> Marks:
    made = Marks()
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_that_a_closed_group_shows_its_one_config_with_a_count_or_mixed(layers: GraphSnapshot) -> None:
    tree = Hierarchy(layers)
    chips = {"conv2d_0": "a8w8", "relu_0": "a8w8", "conv2d_1": "a16w8", "relu_1": "a8w8"}
    told = marks(chips=chips)
    first, second = told.chip("layers/0/", tree), told.chip("layers/1/", tree)
    assert first is not None
    assert first.text == "a8w8 \u00d72"
    assert second is not None
    assert second.text == "mixed"
    assert told.chip("layers/2/", tree) is None


def test_that_a_closed_group_has_its_share_of_the_total(layers: GraphSnapshot) -> None:
    tree = Hierarchy(layers)
    told = marks(overlay=Overlay({"conv2d_0": 30.0, "relu_0": 30.0, "conv2d_1": 40.0}, "cycles"))
    assert told.share("layers/0/", tree) == pytest.approx(0.6)
    assert told.share("layers/2/", tree) is None


def test_that_scales_spread_values_from_low_to_high() -> None:
    linear = Overlay({"a": 0.0, "b": 5.0, "c": 10.0}, "error")
    assert [linear.level(value) for value in (0.0, 5.0, 10.0, 99.0)] == [0.0, 0.5, 1.0, 1.0]
    log = Overlay({"a": 1.0, "b": 100.0, "zero": 0.0}, "cycles", is_log=True)
    assert log.level(10.0) == pytest.approx(0.5)
    assert log.level(0.0) == 0.0
    odd = Overlay({"a": float("nan"), "b": float("inf"), "c": 1.0}, "sqnr")
    assert [odd.level(value) for value in (float("nan"), float("inf"))] == [0.0, 1.0]
    assert ramp(0.0) != ramp(1.0)


@pytest.mark.parametrize(
    ("value", "text"), [(12, "12"), (123456, "123k"), (2.5e6, "2.5M"), (0.00123, "0.00123")]
)
def test_that_numbers_are_short(value: float, text: str) -> None:
    assert number_text(value) == text


def test_that_a_tooltip_tells_grid_rule_and_reason_and_no_markup() -> None:
    grid = QParams("int8", (0.5,), (-3,), -128, 127, None)
    node = Node(
        "conv",
        "aten.conv2d.default",
        "call",
        "stem",
        0,
        ("stem",),
        (TensorInfo((1, 2), "int8", grid),),
        "net.py:3 in forward: a < b",
        {"stride": "[2, 2]"},
    )
    tree = Hierarchy(GraphSnapshot("converted", (node,), ()))
    told = marks(tooltips={"conv": "a8w8 from rule 3"}, reasons={"conv": "runs on the CPU"})
    text = "\n".join(lines("conv", tree, told))
    for part in (
        "8 bit",
        "scale 0.5",
        "zero point -3",
        "stride: [2, 2]",
        "a8w8 from rule 3",
        "runs on the CPU",
        "net.py:3",
    ):
        assert part in text
    assert "a &lt; b" in tooltip("conv", tree, told)


def test_that_a_wish_that_was_not_applied_stays_beside_what_was(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    tree = Hierarchy(layers)
    chips, wishes = {"conv2d_0": "float", "relu_0": "float"}, {"conv2d_0": "a8w8", "relu_0": "a8w8"}
    told = marks(chips=chips, wishes=wishes)
    for item in ("conv2d_0", "layers/0/"):
        chip = told.chip(item, tree)
        assert chip is not None
        assert (chip.label, chip.wish) == ("float", "a8w8")
    view = show(layers)
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.expand_all()
    assert view.surface.scene is not None
    view.surface.look(Camera(1.0).centred(view.surface.scene.rect("conv2d_0"), view.size().toSizeF()))
    view.surface.set_chips(chips)
    plain = view.grab().toImage()
    view.surface.set_chips(chips, wishes)
    assert view.grab().toImage() != plain


@pytest.mark.parametrize("theme", THEMES, ids=[theme.name for theme in THEMES])
@pytest.mark.parametrize("scale", [0.01, 0.1, 0.35, 0.6, 1.5])
def test_that_marks_show_at_every_distance(
    qtbot: QtBot, show: Show, layers: GraphSnapshot, theme: Theme, scale: float
) -> None:
    view = show(layers)
    view.surface.set_theme(theme)
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.expand_all()
    assert view.surface.scene is not None
    target = view.surface.scene.rect("conv2d_1")
    view.surface.look(Camera(scale).centred(target, view.size().toSizeF()))
    plain = view.grab().toImage()
    ids = [node.id for node in layers.nodes]
    view.surface.set_chips(dict.fromkeys(ids, "a16w8"))
    chipped = view.grab().toImage()
    assert chipped != plain
    view.surface.set_reasons({"conv2d_1": "not on the NPU"})
    view.surface.set_overlay(Overlay({name: float(k) for k, name in enumerate(ids)}, "cycles"))
    assert view.grab().toImage() != chipped
    view.surface.set_overlay(None)
    view.surface.set_reasons({})
    view.surface.set_chips({})
    assert view.grab().toImage() == plain


def test_that_a_chip_has_the_colour_of_its_precision(qtbot: QtBot, show: Show, layers: GraphSnapshot) -> None:
    view = show(layers)
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.expand_all()
    assert view.surface.scene is not None
    view.surface.set_chips({"conv2d_1": "a16w8"})
    view.surface.look(Camera(0.1).centred(view.surface.scene.rect("conv2d_1"), view.size().toSizeF()))
    image = view.grab().toImage()
    ratio = image.devicePixelRatio()
    middle = image.pixelColor(int(450 * ratio), int(350 * ratio))
    assert middle == QColor(DARK.precision_colour("a16w8"))
    assert DARK.background != LIGHT.background


def test_that_text_on_every_colour_has_the_contrast_of_readable_text():
    def luminance(colour):
        parts = (colour.redF(), colour.greenF(), colour.blueF())
        linear = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    steps = range(0, 256, 17)
    for colour in (QColor(r, g, b) for r in steps for g in steps for b in steps):
        low, high = sorted((luminance(colour), luminance(ink_on(colour))))
        # The least that black or white reaches on the worst colour.
        assert (high + 0.05) / (low + 0.05) > 4.3
