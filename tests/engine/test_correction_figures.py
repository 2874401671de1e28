"""The figures of corrections: measured again, they are those that were kept."""

import json

import pytest

from tests import correction_figures as figures
from tests.engine.in_process import Engine

pytestmark = [pytest.mark.engine, pytest.mark.slow]
KEPT = json.loads(figures.KEPT.read_text("utf-8"))
AGAIN = [
    row
    for row in figures.ROWS
    if row.correction
    in {
        "keep_relu_clamps",
        "fine_factors",
        "fine_steps",
        "fine_tables",
        "foldable_norms",
        "grids_of_triangles",
        "images_sampled_in_float",
        "logarithms_of_quotients",
        "logarithms_of_sums",
        "steps_of_fractions",
    }
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    made = Engine(tmp_path_factory.mktemp("figures"))
    figures.place_networks(made.folder)
    yield made
    made.close()


@pytest.mark.parametrize("row", AGAIN, ids=lambda row: row.key)
def test_that_figures_are_those_that_were_kept(engine, row):
    for name, on in (("with", True), ("without", False)):
        found, kept = figures.measured(engine, row, on=on), figures.Figures(**KEPT[row.key][name])
        assert (found.outcome, found.cpu) == (kept.outcome, kept.cpu)
        assert found.quality == pytest.approx(kept.quality, abs=0.3)
        assert found.cycles == pytest.approx(kept.cycles, rel=0.02)
