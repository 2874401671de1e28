"""How fast big graphs open, change and move. Times are this thread's own; ratios are printed.

The ratios compare with drawing the same number of plain rectangles, with laying out the whole
graph again, and with reading plain JSON, in the same run.
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import time
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from ui.graph.camera import Camera
from ui.graph.scene import Scene
from ui.graph.view import GraphView
from ui.theme import DARK
from workbench.graph.hierarchy import Hierarchy
from workbench.graph.layout import Layout
from workbench.graph.snapshot import Edge, GraphSnapshot, Node, TensorInfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytestqt.qtbot import QtBot

pytestmark = pytest.mark.benchmark


def synthetic(count: int) -> GraphSnapshot:
    """Return nested modules with residual edges: a chain, and every fourth node one edge more."""
    rng = random.Random(count)
    tensor = (TensorInfo((1, 64, 56, 56), "float32"),)
    nodes, edges = [Node("n0", "placeholder", "input", outputs=tensor)], []
    ops = ("aten.conv2d.default", "aten.batch_norm.default", "aten.relu.default")
    for k in range(1, count):
        path = ("stages", str(k // 120), "blocks", str(k // 6 % 20))
        name = ".".join(path)
        nodes.append(Node(f"n{k}", ops[k % 3], "call", name, 0, path, tensor, "net.py:3"))
        edges.append(Edge(f"n{k - 1}", f"n{k}"))
        if k % 4 == 0:
            edges.append(Edge(f"n{rng.randrange(max(0, k - 60), k)}", f"n{k}", 0, 1))
    return GraphSnapshot("float", tuple(nodes), tuple(edges))


def timed(work: Callable[[], object], repeats: int = 1) -> float:
    """Return the median milliseconds of this thread's own time."""
    times = []
    for _ in range(repeats):
        gc.collect()
        start = time.thread_time()
        work()
        times.append((time.thread_time() - start) * 1e3)
    return statistics.median(times)


def report(what: str, value: float, unit: str = "ms") -> None:
    print(f"{what:60} {value:9.2f} {unit}")


@pytest.mark.parametrize("count", [5_000, 50_000])
def test_that_opening_collapsed_costs_little_more_than_reading_json(
    qtbot: QtBot, tmp_path: Path, count: int
) -> None:
    path = tmp_path / "graph.json"
    synthetic(count).save(path)
    plain = timed(lambda: json.loads(path.read_text(encoding="utf-8")))
    view = GraphView(DARK)
    qtbot.addWidget(view)
    view.resize(1600, 1000)
    view.show()
    start = time.perf_counter()
    snapshot = GraphSnapshot.load(path)
    loaded = time.perf_counter()
    with qtbot.waitSignal(view.laid_out, timeout=30_000):
        view.render_snapshot(snapshot)
    view.repaint()
    painted = time.perf_counter()
    view.stop()
    report(f"{count} nodes: load", (loaded - start) * 1e3)
    report(f"{count} nodes: file to first paint (wall)", (painted - start) * 1e3)
    report(f"{count} nodes: ratio to reading plain JSON", (painted - start) * 1e3 / plain, "x")


def test_that_one_group_costs_a_fraction_of_the_whole_layout() -> None:
    tree = Hierarchy(synthetic(20_000))
    layout, everything = Layout(tree), frozenset(tree.groups)
    whole = timed(lambda: layout.arrange(everything))
    leaf = next(key for key in tree.groups if key.count("/") == 4)
    one = timed(lambda: Scene(layout.arrange(everything - {leaf})))
    back = timed(lambda: Scene(layout.arrange(everything)))
    report("20,000 nodes: lay out everything", whole)
    report("20,000 nodes: close one group, everything else open", one)
    report("20,000 nodes: open it again", back)
    report("whole layout over one group", whole / one, "x")
    assert one < whole


@pytest.mark.parametrize("scale", [1.0, 0.5, 0.3, 0.1, 0.01, 0.0008])
def test_that_frames_cost_little_more_than_plain_rectangles(qtbot: QtBot, scale: float) -> None:
    view = GraphView(DARK)
    qtbot.addWidget(view)
    view.resize(1600, 1000)
    view.show()
    with qtbot.waitSignal(view.laid_out, timeout=30_000):
        view.render_snapshot(synthetic(20_000))
    with qtbot.waitSignal(view.laid_out, timeout=30_000):
        view.expand_all()
    view.stop()
    assert view.scene is not None
    qtbot.waitUntil(lambda: view.picture() is not None and view.picture().progress >= 1.0)
    view.look(Camera(scale).centred(view.scene.rect("n9000"), view.size().toSizeF()))
    first = timed(view.repaint)

    def frame() -> None:
        view.look(view.camera.panned(3, 2))
        view.repaint()

    shown = len(view.scene.items_in(view.camera.shown(view.size().toSizeF())))
    middle, plain = timed(frame, 15), timed(lambda: rectangles(shown), 15)
    report(f"scale {scale}: {shown} boxes, first frame", first)
    report(f"scale {scale}: {shown} boxes, later frames", middle)
    report(f"scale {scale}: ratio to as many plain rectangles", middle / plain, "x")


def rectangles(count: int) -> None:
    image = QImage(1600, 1000, QImage.Format.Format_RGB32)
    image.fill(QColor("black"))
    painter = QPainter(image)
    painter.drawRects([QRectF(k % 1500, k % 900, 40, 20) for k in range(count)])
    painter.end()
