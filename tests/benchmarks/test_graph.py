"""How fast big graphs open, change and move. Times are this thread's own; ratios are printed.

The ratios compare with drawing the same number of plain rectangles, with laying out the whole
graph again, and with reading plain JSON, in the same run.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QCoreApplication, QPointF

from ui.features.graph.graph_view import GraphView
from ui.features.graph.picture import Camera, fit
from ui.features.graph.scene import Scene
from ui.shared.theme import DARK
from ui.shell.app import settle
from workbench.graph.hierarchy import Hierarchy
from workbench.graph.layout import Layout
from workbench.graph.snapshot import Edge, GraphSnapshot, Node, TensorInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytestqt.qtbot import QtBot

    from tests.benchmarks.conftest import Measured
    from ui.features.graph.layout_thread import Order

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


def wide(count: int, columns: int = 100) -> GraphSnapshot:
    """Return chains side by side: all of them open fill a window from edge to edge."""
    rng = random.Random(count)
    tensor = (TensorInfo((1, 64, 56, 56), "float32"),)
    ops = ("aten.conv2d.default", "aten.batch_norm.default", "aten.relu.default")
    nodes, edges = [], []
    for column in range(columns):
        path = ("branch", str(column))
        for row in range(count // columns):
            name = f"n{column}_{row}"
            nodes.append(Node(name, ops[row % 3], "call", ".".join(path), 0, path, tensor, ""))
            if row:
                edges.append(Edge(f"n{column}_{row - 1}", name))
            if row % 4 == 0 and row > 6:
                edges.append(Edge(f"n{column}_{row - rng.randrange(2, 6)}", name, 0, 1))
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


@pytest.mark.parametrize("count", [5_000, 50_000])
def test_that_a_graph_is_painted_soon(qtbot: QtBot, tmp_path: Path, count: int, measured: Measured) -> None:
    path = tmp_path / "graph.json"
    synthetic(count).save(path)
    view = GraphView(DARK)
    qtbot.addWidget(view)
    view.resize(1600, 1000)
    view.show()
    start = time.perf_counter()
    snapshot = GraphSnapshot.load(path)
    with qtbot.waitSignal(view.groups.laid_out, timeout=30_000):
        view.groups.render_snapshot(snapshot)
    view.repaint()
    painted = time.perf_counter()
    view.groups.stop()
    measured(f"Graph of {count:,} nodes: file to first paint", painted - start)


def test_that_one_group_costs_a_fraction_of_the_whole_layout(measured: Measured) -> None:
    tree = Hierarchy(synthetic(20_000))
    layout, everything = Layout(tree), frozenset(tree.groups)
    whole = timed(lambda: layout.arrange(everything))
    leaf = next(key for key in tree.groups if key.count("/") == 4)
    one = timed(lambda: Scene(layout.arrange(everything - {leaf})))
    measured("Graph of 20,000 nodes: one group closed, against the whole layout", one / whole)


def test_that_a_click_on_one_group_of_many_costs_the_window_little(qtbot: QtBot, measured: Measured) -> None:
    view = opened(qtbot, synthetic(18_000), stays=True)
    qtbot.waitUntil(view.groups.layout_thread.isFinished)
    gc.collect()
    settle()
    assert view.surface.scene is not None
    hierarchy = view.surface.scene.hierarchy
    leaf = [key for key in hierarchy.groups if key.count("/") == 4][75]
    view.surface.look(Camera(1.0).centred(view.surface.scene.rect(leaf), view.size().toSizeF()))
    view.repaint()
    laying: list[float] = []
    made = view.groups.layout_thread._make

    def timed_make(order: Order) -> Scene | None:
        start = time.thread_time()
        scene = made(order)
        laying.append((time.thread_time() - start) * 1e3)
        return scene

    view.groups.layout_thread._make = timed_make  # type: ignore[method-assign]
    works = []
    for _ in range(10):
        start = time.thread_time()
        with qtbot.waitSignal(view.groups.laid_out, timeout=30_000):
            view.groups.toggle(leaf)
        view.repaint()
        works.append((time.thread_time() - start) * 1e3)
        qtbot.waitUntil(lambda: is_still(view))
    view.groups.stop()
    what = "Graph of 18,000 nodes: one group clicked"
    measured(f"{what}, window's thread, median", statistics.median(works))
    measured(f"{what}, window's thread, longest", max(works))
    measured(f"{what}, laid out off that thread", max(laying))


def is_still(view: GraphView) -> bool:
    """Tell whether nothing is on its way in a view."""
    picture = view.surface.picture()
    return picture is not None and picture.progress >= 1.0


def opened(qtbot: QtBot, snapshot: GraphSnapshot, *, stays: bool = False) -> GraphView:
    """Return a view with every group open and nothing on its way; it lays out more if it stays."""
    view = GraphView(DARK)
    qtbot.addWidget(view)
    view.resize(1600, 1000)
    view.show()
    with qtbot.waitSignal(view.groups.laid_out, timeout=30_000):
        view.groups.render_snapshot(snapshot)
    with qtbot.waitSignal(view.groups.laid_out, timeout=30_000):
        view.groups.expand_all()
    if not stays:
        view.groups.stop()
    qtbot.waitUntil(lambda: is_still(view))
    return view


@pytest.mark.parametrize(
    ("scale", "what"),
    [(0.0, "Graph of 20,000 nodes, all in view"), (1.0, "Graph at reading scale")],
    ids=["all", "reading"],
)
def test_that_frames_of_a_large_graph_are_painted_in_time(
    qtbot: QtBot, scale: float, what: str, measured: Measured
) -> None:
    view = opened(qtbot, wide(20_000))
    assert view.surface.scene is not None
    size = view.size().toSizeF()
    where = Camera(scale or 1.0).centred(view.surface.scene.rect("n50_100"), size)
    view.surface.look(where if scale else fit(view.surface.scene.bounds, size))
    view.repaint()

    def whole() -> None:
        view.surface.refine()
        view.repaint()

    def pan() -> None:
        view.surface.look(view.surface.camera.panned(3, 2))
        view.repaint()

    def zoom() -> None:
        view.surface.look(view.surface.camera.zoomed(1.02, QPointF(800, 500)))
        view.repaint()

    for action, work in (("painted anew", whole), ("panning", pan), ("zooming", zoom)):
        whole()
        measured(f"{what}: {action}", timed(work, 15))


def test_that_the_window_paints_on_while_everything_opens(qtbot: QtBot, measured: Measured) -> None:
    view = GraphView(DARK)
    qtbot.addWidget(view)
    view.resize(1600, 1000)
    view.show()
    snapshot = synthetic(20_000)
    gc.collect()
    settle()
    with qtbot.waitSignal(view.groups.laid_out, timeout=30_000):
        view.groups.render_snapshot(snapshot)
    view.repaint()
    done: list[bool] = []
    view.groups.laid_out.connect(lambda: done.append(True))
    frames = []
    start = last = time.perf_counter()
    view.groups.expand_all()
    while not done:
        QCoreApplication.processEvents()
        view.surface.look(view.surface.camera.panned(1, 0))
        view.repaint()
        now = time.perf_counter()
        frames.append((now - last) * 1e3)
        last = now
        time.sleep(0.004)
    view.groups.stop()
    measured("Graph of 20,000 nodes: everything opens", last - start)
    measured("Graph of 20,000 nodes: longest frame meanwhile", max(frames))


def test_that_a_laid_out_graph_takes_little_memory(qtbot: QtBot, measured: Measured) -> None:
    snapshot = synthetic(20_000)
    gc.collect()
    before = resident()
    view = opened(qtbot, snapshot)
    view.repaint()
    measured("Memory of a graph of 20,000 nodes", (resident() - before) / 1e6)


def resident() -> int:
    """Return the bytes of this process that lie in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
