"""What follows from calibration's ranges: grids, outliers, clipping, names."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PySide6.QtTest import QAbstractItemModelTester

from tests.fakes.results import result_of
from tests.problems import refused
from ui.features.ranges.range_table import COLUMNS, describe
from ui.shared.range_rows import range_rows, read_channels, read_histograms
from ui.shared.sortable_table import FigureTableModel
from workbench.results import CalibrateResult, TensorQuality, TensorRange

BASE = {
    "id": "obs_0",
    "node": "relu",
    "op": "aten.relu.default",
    "module": "stem.relu",
    "kind": "activation",
    "index": 0,
    "minimum": 0.0,
    "maximum": 10.0,
    "p_low": 0.0,
    "p_high": 5.0,
    "dtype": "int8",
    "qmin": -128,
    "qmax": 127,
    "scale": 10 / 255,
    "zero_point": -128,
    "observer": "Histogram",
}


def rows_of(*changes, counts=None, edges=None, evaluated=None):
    ranges = tuple(TensorRange(**{**BASE, "index": i, "id": f"obs_{i}", **c}) for i, c in enumerate(changes))
    arrays = {} if counts is None else {"histogram": counts, "edges": edges}
    return range_rows(CalibrateResult(samples=1, calibrated_on="d", ranges=ranges), arrays, evaluated)


def test_that_the_grid_follows_from_scale_and_zero_point():
    (row,) = rows_of({})
    assert row.grid == pytest.approx((0.0, 10.0))
    assert row.width == 10.0
    assert row.outliers == pytest.approx(2.0)


def test_that_a_range_of_several_tensors_names_them():
    alone, joined, many = rows_of({}, {"shared": ("up", "cat")}, {"shared": ("a", "b", "c", "d", "e")})
    assert "up, cat" in describe(joined)
    assert "2 more" in describe(many)
    assert len(describe(joined).splitlines()) == len(describe(alone).splitlines()) + 1


def test_that_clipping_is_read_from_the_histogram():
    counts, edges = np.ones((1, 256), np.float32), np.array([[0.0, 10.0]])
    (row,) = rows_of({"scale": 5 / 255}, counts=counts, edges=edges)
    assert row.clipped == pytest.approx(0.5, abs=0.002)
    (whole,) = rows_of({}, counts=counts, edges=edges)
    assert whole.clipped == 0.0


def test_that_weights_of_four_bits_have_their_type():
    (four,) = rows_of({"kind": "weight", "qmax": 7})
    (eight,) = rows_of({"kind": "weight"})
    texts = [column.text(four) for column in COLUMNS if column.title == "Type"]
    assert (texts, eight.type_text) == (["int4"], "int8")
    assert "int4" in describe(four)


def test_that_clipping_is_unknown_without_counts_and_for_channels():
    edges = np.array([[0.0, 10.0]])
    (empty,) = rows_of({"scale": 5 / 255}, counts=np.zeros((1, 256)), edges=edges)
    assert empty.clipped is None
    (weight,) = rows_of({"kind": "weight", "channels": 8}, counts=np.ones((1, 256)), edges=edges)
    assert weight.clipped is None


@pytest.mark.parametrize("change", [{"scale": 0.0}, {"maximum": math.inf}, {"minimum": math.nan}], ids=str)
def test_that_a_tensor_without_a_range_shows_dashes(change):
    (row,) = rows_of({**change, "problem": "no calibration sample reached this tensor"})
    assert (row.is_known, row.width, row.grid, row.outliers) == (False, None, None, None)
    assert "no calibration sample" in describe(row)
    for column in COLUMNS:
        assert isinstance(column.text(row), str)


def test_that_a_constant_tensor_has_no_outlier_ratio():
    (row,) = rows_of({"maximum": 0.0, "p_high": 0.0, "problem": "constant: always 0"})
    assert row.outliers is None
    assert row.width == 0.0


def test_that_quality_is_joined_by_node_for_activations_only():
    quality = TensorQuality(
        tensor="relu", module="stem.relu", op="relu", sqnr_db=33.0, cosine=1.0, max_abs_error=0.1
    )
    evaluated = result_of("evaluate").model_copy(update={"tensors": (quality,)})
    rows = rows_of({}, {"kind": "weight"}, {"node": "obs_0"}, evaluated=evaluated)
    assert [row.sqnr_db for row in rows] == [33.0, None, None]


def test_that_a_requantized_tensor_is_named_by_its_source():
    rows = rows_of({}, {"node": "obs_0", "op": "call_module", "dtype": "int16"})
    assert rows[1].node == "relu"
    assert rows[1].name == "relu \u2192 int16"


@pytest.mark.parametrize(
    ("change", "label"),
    [
        ({}, "a8w8"),
        ({"dtype": "int16"}, "a16w8"),
        ({"dtype": "uint8"}, "uint8"),
        ({"kind": "weight", "qmax": 7}, "a8w4"),
        ({"dtype": "int3"}, "custom"),
    ],
)
def test_that_precisions_have_their_colour(change, label):
    assert rows_of(change)[0].label == label


def test_that_the_table_keeps_qts_contract_while_sorted_by_every_column(qtbot):
    model = FigureTableModel(COLUMNS, describe)
    mode = QAbstractItemModelTester.FailureReportingMode.Fatal
    tester = QAbstractItemModelTester(model, mode)
    model.set_rows(rows_of({}, {"scale": 0.0}, {"kind": "weight", "channels": 8}))
    for column in range(model.columnCount()):
        model.sort(column)
    assert model.rowCount() == 3
    model.set_rows([])
    del tester


def test_that_channels_are_found_and_the_observers_state_is_left(tmp_path):
    np.savez(
        tmp_path / "arrays.npz",
        **{
            "channel_min/obs_0": np.array([-1.0, -np.inf]),
            "channel_max/obs_0": np.array([1.0, 2.0]),
            "state/obs_0/min_val": np.zeros(2),
        },
    )
    assert read_histograms(tmp_path) == {}
    (found,) = read_channels(tmp_path, rows_of({}, {}))
    low, high = found[0]
    assert low.tolist() == [-1.0, 0.0]
    assert high.tolist() == [1.0, 2.0]


def test_that_damaged_arrays_say_what_to_do(tmp_path):
    (tmp_path / "arrays.npz").write_bytes(b"no archive")
    with refused("ranges-damaged"):
        read_histograms(tmp_path)
    with refused("ranges-damaged"):
        list(read_channels(tmp_path, rows_of({})))


def test_that_a_tensor_the_quantizer_named_anew_tells_its_operation_in_the_graph():
    (row, same) = rows_of({"node": "add_26", "origin": "add_8"}, {"origin": "relu"})
    assert "node add_8" in describe(row)
    assert "of the graph" not in describe(same)


def test_that_a_second_grid_is_named_after_its_source_and_says_why_it_is_not_chosen():
    second = {"node": "activation_post_process_24", "op": "call_module", "origin": "mean", "dtype": "int16"}
    (row,) = rows_of(second)
    assert row.name == "mean \u2192 int16"
    assert "second quantized range of mean" in row.refusal
