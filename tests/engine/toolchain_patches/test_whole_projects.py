"""Whole projects lower to the same bytes with and without accelerations, corrections included."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.in_process import CALIBRATED, NETWORKS, Engine, project
from tests.engine.test_script import caches_in_buffers
from workbench.project import edits
from workbench.project.model import Project, TargetChoice
from workbench.targets.ethos_u.corrections import CORRECTIONS
from workbench.targets.ethos_u.rewrites import REWRITES

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def mobilevit(folder: Path) -> Project:
    (folder / "net.py").write_text("from tests.zoo.transformers_models import mobilevit as net\n")
    return project("net.py:net", target="ethos-u85-256")


def u_net(folder: Path) -> Project:
    shutil.copy(NETWORKS.with_name("deployed_networks.py"), folder)
    return project("deployed_networks.py:unet_transposed", "a16w8")


def u_net_uncorrected(folder: Path) -> Project:
    made = edits.assign(u_net(folder), "global", "", "a8w8")
    off = dict.fromkeys((row.id for row in (*CORRECTIONS, *REWRITES)), False)
    return edits.set_target(made, TargetChoice(id=made.target.id, options=off))


def cells_written_out(folder: Path) -> Project:
    shutil.copy(NETWORKS.with_name("corrected_networks.py"), folder)
    return project("corrected_networks.py:cells")


def several_delegates(folder: Path) -> Project:
    del folder
    return edits.assign(project("small", **CALIBRATED), "module_name", "conv", "cpu")


@pytest.mark.parametrize(
    "make", [mobilevit, caches_in_buffers, u_net, u_net_uncorrected, cells_written_out, several_delegates]
)
def test_that_a_project_lowers_to_the_same_bytes_without_accelerations(
    tmp_path: Path, make: Callable[[Path], Project]
) -> None:
    programs = []
    for accelerate in (True, False):
        folder = tmp_path / str(accelerate)
        folder.mkdir()
        engine = Engine(folder)
        made = make(folder)
        outcome = engine.run(made, "lower", "evaluate", accelerate=accelerate)
        assert outcome == "done", engine.failure
        (path,) = engine.path(made, "lower").glob("*.pte")
        programs.append(path.read_bytes())
        engine.close()
    assert programs[0] == programs[1]
