"""What is moved looks as if it had been painted anew, and what is rough gets sharp at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QPointF

from ui.features.graph import painting
from ui.features.graph.picture import Camera

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtGui import QImage
    from pytestqt.qtbot import QtBot

    from ui.features.graph.graph_view import GraphView
    from workbench.graph.snapshot import GraphSnapshot

    Show = Callable[[GraphSnapshot | None], GraphView]


def ready(qtbot: QtBot, show: Show, snapshot: GraphSnapshot) -> GraphView:
    view = show(snapshot)
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.expand_all()
    qtbot.waitUntil(lambda: view.surface.picture() is not None and view.surface.picture().progress >= 1.0)  # type: ignore[union-attr]
    view.selection.select(frozenset({"relu_1"}))
    view.surface.set_chips({"conv2d_1": "a16w8", "add_1": "a8w8"})
    return view


def image(view: GraphView) -> QImage:
    return view.grab().toImage()


@pytest.mark.parametrize(
    ("scale", "step"),
    [
        pytest.param(scale, step, marks=() if step == few[scale] else pytest.mark.slow)
        for few in [{0.2: (40, 25), 0.5: (-3, 11), 1.0: (7, 0)}]
        for scale in few
        for step in [(7, 0), (0, -5), (-3, 11), (40, 25)]
    ],
)
def test_that_panning_shows_what_painting_anew_would(
    qtbot: QtBot, show: Show, layers: GraphSnapshot, scale: float, step: tuple[int, int]
) -> None:
    view = ready(qtbot, show, layers)
    assert view.surface.scene is not None
    view.surface.look(Camera(scale).centred(view.surface.scene.rect("relu_1"), view.size().toSizeF()))
    image(view)
    for _ in range(6):
        view.surface.look(view.surface.camera.panned(*step))
        moved = image(view)
    view.surface.refine()
    assert moved == image(view)


def test_that_a_slow_drawing_zooms_roughly_and_gets_sharp(
    qtbot: QtBot, show: Show, layers: GraphSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(painting, "SLOW_S", 0.0)
    view = ready(qtbot, show, layers)
    image(view)
    view.surface.look(view.surface.camera.zoomed(1.3, QPointF(300, 200)))
    rough = image(view)
    with qtbot.waitSignal(view.surface.rest.timeout):
        view.update()
    sharp = image(view)
    assert rough != sharp
    view.surface.refine()
    assert image(view) == sharp


def test_that_a_new_mark_shows_at_once(qtbot: QtBot, show: Show, layers: GraphSnapshot) -> None:
    view = ready(qtbot, show, layers)
    before = image(view)
    view.surface.set_hits({"relu_1": (0,)})
    assert image(view) != before
