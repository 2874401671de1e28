"""A model on several devices in several precisions: verified, or the reason why not."""

from __future__ import annotations

import ast

import pytest

from tests.engine.in_process import CALIBRATED, NETWORKS, WIDE_NETWORKS, project
from workbench.project import sources, store
from workbench.project.opened import OpenProject
from workbench.protocol import RunStudy
from workbench.studies.documents import load_study, study_folder, study_key
from workbench.studies.matrix import MatrixResult

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]
PROJECTS = NETWORKS.parent.parent / "networks"
# Wrong on purpose, data, or another way to write a network that has a project.
OTHERS = {
    "many_samples",
    "small_module_only",
    "untraceable",
    "raising",
    "not_a_model",
    "samples",
    "bad_shape",
    "in_float64",
    "in_bfloat16",
    "odd_outputs",
    "one_hot",
    "averaged",
    "bad_later",
    "writing_nowhere",
    "module6",
    "channels_last",
    "strided_contiguous",
    "least",
    "sixteen_channels",
    "recurrent",
    "unseeded_samples",
    "laid_out",
    "half",
    "offset",
    "one_channel",
    "mapped",
    "masks",
    "points",
}


def matrix(engine, made, **options):
    """Return the cells by device and config."""
    engine.send(
        RunStudy(
            job="m",
            study="matrix",
            project=made,
            folder=str(engine.folder),
            options=options,
            cache_root=str(engine.cache.root),
        )
    )
    assert engine.follow() == "done", engine.failure
    key = study_key("matrix", OpenProject(made, engine.folder), engine.cache, options)
    found = load_study(MatrixResult, study_folder(engine.cache, key))
    assert found.total == len(found.cells)
    return {(cell.target, cell.config): cell for cell in found.cells}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "targets", "configs"),
    [
        ("small", ["ethos-u85-256"], ["a16w8"]),
        pytest.param("small", ["ethos-u85-256"], ["a8w8", "a16w8"], marks=pytest.mark.slow),
        pytest.param(
            "softmax", ["ethos-u55-128", "ethos-u85-256"], ["a8w8", "a16w8"], marks=pytest.mark.slow
        ),
    ],
)
def test_that_every_cell_is_verified_or_says_why_not(engine, model, targets, configs):
    cells = matrix(engine, project(model, **CALIBRATED), targets=targets, configs=configs)
    assert len(cells) == len(targets) * len(configs)
    for (_, config), cell in cells.items():
        assert cell.problem == ""
        assert cell.delegates >= 1
        assert cell.cycles > 0
        assert cell.verdict == "right"
        # Steps of 16 bits are 256 times finer.
        assert cell.max_lsb <= (20 if config == "a16w8" else 2)


@pytest.mark.slow
def test_that_weights_are_trained_for_a_cell_and_the_program_is_verified(engine):
    cells = matrix(
        engine,
        project("uneven", **CALIBRATED),
        targets=["ethos-u55-128"],
        configs=["a8w4", "a8w4-qat"],
        qat_epochs=6,
    )
    plain, trained = cells["ethos-u55-128", "a8w4"], cells["ethos-u55-128", "a8w4-qat"]
    assert plain.gain_db is None
    assert trained.gain_db > 0
    assert (trained.problem, trained.delegates) == ("", 1)
    assert trained.max_lsb <= 1


@pytest.mark.slow
def test_that_what_stands_in_the_way_is_told_before_anything_is_compiled(engine):
    cells = matrix(
        engine, project("branching", **CALIBRATED), targets=["ethos-u55-128"], configs=["a8w8", "a8w8-qat"]
    )
    assert all(cell.problem and cell.warned for cell in cells.values())


def test_that_every_network_of_the_tests_has_a_project_for_the_matrix():
    wanted = {
        node.name
        for path in (NETWORKS, WIDE_NETWORKS)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.args.args and not node.args.vararg
    }
    paths = sorted(PROJECTS.glob("*.qwb"))
    assert {path.stem for path in paths} == wanted - OTHERS
    for path in paths:
        assert sources.missing(OpenProject(store.load(path), PROJECTS)) is None
