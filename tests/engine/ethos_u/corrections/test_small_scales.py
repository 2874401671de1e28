"""Grids of activations where rules with other weights meet: those that one rule gives."""

import pytest

from tests.engine.in_process import CALIBRATED, project, without
from workbench.project import edits

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]


def grids(engine, made):
    """Return the grid of every activation, and the number of scales of every weight."""
    assert engine.run(made, "calibrate") == "done", engine.failure
    rows = engine.result(made, "calibrate").ranges
    activations = {row.node: (row.scale, row.zero_point) for row in rows if row.kind == "activation"}
    return activations, [row.channels for row in rows if row.kind == "weight"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("clamped", ["layers.0"]),
        ("uneven", ["first", "bn"]),
        ("uneven", ["first", "bn", "each"]),
        ("joining_networks.py:unlike_branches", ["small"]),
        ("joining_networks.py:unlike_branches", ["large"]),
        ("joining_networks.py:unlike_branches", ["large", "small"]),
    ],
)
def test_that_a_layer_with_a_rule_of_its_own_is_rounded_after_its_relu(engine, name, modules):
    one = project(name, **CALIBRATED) if ":" not in name else project(name)
    several = edits.assign_many(one, "module_name", modules, "a8w8-per-tensor")
    expected, channels = grids(engine, one)
    found, fewer = grids(engine, several)
    assert found == expected
    assert fewer.count(1) == channels.count(1) + len(set(modules) - {"bn"})
    stock, _ = grids(engine, without(several, "relus_with_layers"))
    assert stock != expected


def test_that_other_activations_of_a_layer_keep_their_own_grid(engine):
    one = project("clamped", **CALIBRATED)
    wide = edits.assign_many(one, "module_name", ["layers.0"], "a16w8")
    assert grids(engine, wide) == grids(engine, without(wide, "relus_with_layers"))
    apart = edits.assign_many(one, "module_name", ["layers.1"], "float")
    assert grids(engine, apart) == grids(engine, without(apart, "relus_with_layers"))
