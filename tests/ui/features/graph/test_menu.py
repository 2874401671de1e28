"""What the menu at the mouse offers, and what numbers closed groups show."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ui.features.graph.graph_view import context_menu
from ui.features.graph.marks import Marks, Overlay, number_text, ramp
from workbench.graph.hierarchy import Hierarchy

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtGui import QAction
    from pytestqt.qtbot import QtBot

    from ui.features.graph.graph_view import GraphView
    from workbench.graph.snapshot import GraphSnapshot

    Show = Callable[[GraphSnapshot | None], GraphView]


def action(view: GraphView, item: str | None, part: str) -> QAction:
    menu = context_menu(view, item)
    return next(entry for entry in menu.actions() if part in entry.text())


def test_that_blocks_of_the_same_structure_are_selected_together(show: Show, layers: GraphSnapshot) -> None:
    view = show(layers)
    action(view, "layers/1/", "3 equal blocks").trigger()
    assert len(view.surface.selected) == 9


def test_that_the_menu_traces_and_shows_a_part_alone(qtbot: QtBot, show: Show, layers: GraphSnapshot) -> None:
    view = show(layers)
    view.selection.select(frozenset({"conv2d_1"}))
    action(view, "layers/1/", "ancestors").trigger()
    assert view.surface.selected == {"x", "conv2d_0", "relu_0", "add_0", "conv2d_1"}
    with qtbot.waitSignal(view.groups.laid_out):
        action(view, None, "Isolate").trigger()
    assert view.groups.isolated
    assert view.surface.scene is not None
    assert len(view.surface.scene.hierarchy.snapshot.nodes) == 6
    with qtbot.waitSignal(view.groups.laid_out):
        action(view, None, "whole graph").trigger()
    assert not view.groups.isolated
    assert view.surface.scene.hierarchy.snapshot is layers


def test_that_another_graph_ends_showing_a_part(qtbot: QtBot, show: Show, layers: GraphSnapshot) -> None:
    view = show(layers)
    view.selection.select(frozenset({"conv2d_1"}))
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.isolate_selection()
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.render_snapshot(layers)
    assert not view.groups.isolated


def test_that_a_choice_waits_for_its_graph_to_be_drawn(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    view = show(layers)
    if view.groups.expanded:
        with qtbot.waitSignal(view.groups.laid_out):
            view.groups.collapse_all()
    view.groups.render_snapshot(replace(layers, level="edge"))
    view.selection.select(frozenset({"relu_2"}), reveal=True)
    qtbot.waitUntil(lambda: view.surface.scene is not None and view.surface.scene.has("relu_2"))
    assert view.surface.scene is not None
    assert view.surface.scene.hierarchy.snapshot.level == "edge"


@pytest.mark.parametrize(("merge", "amount"), [("lowest", 2.0), ("highest", 9.0), ("sum", 11.0)])
def test_that_a_closed_group_shows_the_worst_or_the_sum(
    layers: GraphSnapshot, merge: str, amount: float
) -> None:
    marks, tree = Marks(), Hierarchy(layers)
    marks.overlay = Overlay({"conv2d_0": 9.0, "relu_0": 2.0}, "number", merge=merge)  # type: ignore[arg-type]
    assert marks.amount("layers/0/", tree) == amount
    assert marks.amount("layers/1/", tree) is None
    assert (marks.share("layers/0/", tree) is None) == (merge != "sum")


def test_that_the_worst_is_brightest_whichever_end_it_is_at() -> None:
    sqnr = Overlay({"bad": 5.0, "good": 50.0, "exact": math.inf}, "SQNR", merge="lowest")
    assert sqnr.colour(5.0) == ramp(1.0)
    assert sqnr.colour(math.inf) == ramp(0.0)
    assert Overlay({"a": 1.0, "b": 3.0}, "error", merge="highest").colour(3.0) == ramp(1.0)
    assert number_text(math.inf) == "\u221e"
