"""A drawing that has the focus shows the same as one that has not, but for the line around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRect

from ui.features.graph.marks import Overlay
from ui.features.graph.picture import READABLE, Camera

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtGui import QImage
    from pytestqt.qtbot import QtBot

    from ui.features.graph.graph_view import GraphView
    from workbench.graph.snapshot import GraphSnapshot


def inside(view: GraphView) -> QImage:
    """Return the picture of a view without the pixels of its edge."""
    whole = view.grab().toImage()
    return whole.copy(QRect(3, 3, whole.width() - 6, whole.height() - 6))


def test_that_a_graph_with_the_focus_is_painted_as_one_without(
    qtbot: QtBot, show: Callable[[GraphSnapshot | None], GraphView], layers: GraphSnapshot
) -> None:
    view = show(layers)
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.expand_all()
    qtbot.waitUntil(lambda: view.surface.picture().progress >= 1.0)  # type: ignore[union-attr]
    scene = view.surface.scene
    assert scene is not None
    colours = {"conv2d_0": 10.0, "relu_1": 20.0, "add_2": 30.0}
    whole = view.size().toSizeF()
    for with_overlay in (False, True):
        view.surface.set_overlay(Overlay(colours, "SQNR [dB]") if with_overlay else None)
        for scale in (0.2, READABLE, 2.0):
            view.surface.look(Camera(scale).centred(scene.rect("relu_1"), whole))
            view.clearFocus()
            before = inside(view)
            view.setFocus()
            assert view.hasFocus()
            assert inside(view) == before, (with_overlay, scale)
