"""A calibration of four tensors, and the ranges panel that shows it."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Qt

from tests.fakes.results import write_result
from tests.ui.shell.test_window import run_to
from workbench.results import CalibrateResult, TensorRange, save_result

ROWS = (
    ("obs_0", "conv2d", "stem.conv", "activation", -1.0, 3.0),
    ("obs_1", "_param_constant0", "stem.conv", "weight", -0.5, 0.5),
    ("obs_2", "linear", "head", "activation", -8.0, 8.0),
    ("obs_3", "relu", "stem.relu", "activation", 0.0, 0.0),
)


def tensor(index, row, **changes):
    name, node, module, kind, low, high = row
    weight = kind == "weight"
    op = "aten.conv2d.default" if weight else f"aten.{node}.default"
    return TensorRange(
        **{
            "id": name,
            "node": node,
            "origin": "conv2d" if weight else node,
            "op": op,
            "module": module,
            "kind": kind,
            "index": index,
            "minimum": low,
            "maximum": high,
            "p_low": low / 2,
            "p_high": high / 2,
            "dtype": "int8",
            "qmin": -128,
            "qmax": 127,
            "scale": max(high - low, 0.0) / 255,
            "zero_point": 0,
            "observer": "Histogram",
            "channels": 4 if weight else 1,
            **changes,
        }
    )


def calibrated(on="data.npz"):
    ranges = [tensor(i, row) for i, row in enumerate(ROWS)]
    ranges[3] = tensor(3, ROWS[3], problem="no calibration sample reached this tensor")
    return CalibrateResult(samples=8, calibrated_on=on, ranges=tuple(ranges))


def write_ranges(folder, on="data.npz"):
    histogram = np.ones((4, 256), np.float32)
    histogram[3] = 0
    np.savez(
        folder / "arrays.npz",
        histogram=histogram,
        edges=np.asarray([row[4:] for row in ROWS]),
        samples=np.asarray([0, 2, 5]),
        sample_min=np.tile([-0.5, -0.2, -1.0], (4, 1)),
        sample_max=np.tile([1.0, 3.0, 0.5], (4, 1)),
        **{"channel_min/obs_1": np.linspace(-0.5, -0.1, 4), "channel_max/obs_1": np.linspace(0.1, 0.5, 4)},
    )
    save_result(calibrated(on), folder)


def shown(opened, qtbot):
    """Run to the end, and bring the panel to the front."""
    run_to(opened, qtbot, "")
    panel = opened.window.reveal("ranges")
    qtbot.waitUntil(lambda: panel.has("calibrate"))
    return panel


def let_calibrate(monkeypatch, write):
    """Have engines leave other ranges than usual."""

    def leave(stage, folder):
        if stage == "calibrate":
            write(folder)
        else:
            write_result(stage, folder)

    monkeypatch.setattr("tests.fakes.engine.write_result", leave)


def click(panel, qtbot, row):
    place = panel.table.visualRect(panel.model.index(row, 1)).center()
    qtbot.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=place)
