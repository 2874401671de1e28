"""Estimates of published rows, rebuilt: what the page of measured times says is what comes out."""

import shutil
from pathlib import Path

import pytest

from tests.engine.in_process import Engine
from workbench.analysis.silicon import shipped, time_of
from workbench.deploy import boards
from workbench.project import store
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject

SAMPLES = Path(__file__).parents[2] / "resources" / "samples"


def rebuilt(tmp_path, sample, name, board, device, **options):
    """Return the compiled program of a sample on a board."""
    folder = shutil.copytree(SAMPLES / sample, tmp_path / "net")
    project = boards.put(OpenProject(store.load(folder / f"{name}.qwb"), folder), board, device)
    target = TargetChoice(id=device, options={**project.target.options, **options})
    engine = Engine(folder)
    # The engine of the tests has put networks of its own beside the project.
    shutil.copytree(SAMPLES / sample, folder, dirs_exist_ok=True)
    try:
        return engine.lowered(project.model_copy(update={"target": target}))
    finally:
        engine.close()


def recorded(board, row_id):
    (row,) = [row for row in shipped()[board].row if row.id == row_id]
    return row


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sample", "name", "row_id"),
    [("mlperf_tiny", "visual_wake_words", "im-vww"), ("mobilenet_v2", "mobilenet_v2", "im-mbv2")],
)
def test_that_rows_of_the_imx93_are_rebuilt_within_the_bars(tmp_path, sample, name, row_id):
    lowered = rebuilt(tmp_path, sample, name, "nxp-imx93", "ethos-u65-256")
    row, time = recorded("nxp-imx93", row_id), time_of(lowered)
    assert lowered.inference_ms == pytest.approx(row.estimate_ms, rel=0.05)
    assert (time.origin, time.placement) == ("anchored", row.placement)
    assert 0.7 <= time.ms / row.measured_ms <= 1.5
    assert time.low_ms <= row.measured_ms <= time.high_ms


@pytest.mark.slow
def test_that_the_row_of_the_fvp_is_rebuilt_within_the_bar(tmp_path):
    lowered = rebuilt(
        tmp_path,
        "mobilenet_v2",
        "mobilenet_v2",
        "corstone-300",
        "ethos-u55-128",
        memory_mode="Sram_Only",
        arena_cache_bytes=None,
    )
    row = recorded("corstone-300", "fvp-mbv2")
    # Weights and tensors of 5 MB do not fit the 2 MB of the simulator: no time, but cycles.
    assert lowered.inference_ms is None
    assert lowered.cycles == pytest.approx(row.estimate_cycles, rel=0.02)
    assert 0.85 <= lowered.cycles / row.measured_cycles <= 1.2
