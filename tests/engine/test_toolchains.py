"""Engines of other toolchains: another interpreter, foreign plans, results kept apart."""

import errno
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine.in_process import NETWORKS, Engine, project
from tests.for_each import for_each
from workbench import api
from workbench.engine.jobs.job import unexpected
from workbench.errors import SYSTEM_REMEDIES
from workbench.installation import CACHE_VARIABLE, CONFIG_VARIABLE
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import plan
from workbench.project import edits
from workbench.project.opened import OpenProject
from workbench.protocol import RunUntil
from workbench.toolchains import registry

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    made = Engine(tmp_path_factory.mktemp("toolchains"))
    yield made
    made.close()


def refused(engine, made, planned):
    """Return the codes with which an engine ends a job with a plan."""
    command = RunUntil(
        job="foreign",
        project=made,
        folder=str(engine.folder),
        until="export",
        plan=planned,
        cache_root=str(engine.cache.root),
    )
    engine.events = []
    engine.send(command)
    assert engine.follow() == "failed"
    return [info.code for info in engine.failures]


def test_that_an_engine_refuses_a_plan_for_other_versions(engine):
    made = project("small")
    planned = plan(OpenProject(made, engine.folder), engine.cache)
    foreign = replace(planned, tools={**planned.tools, "executorch": "1.4.1"})
    assert refused(engine, made, foreign) == ["plan-foreign"]
    assert not engine.cache.has(planned.key("export"))


def test_that_an_engine_refuses_a_project_for_another_toolchain(engine):
    made = edits.set_toolchain(project("small"), "sdk", "")
    assert refused(engine, made, None) == ["plan-foreign"]


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """An environment with this one's packages, whose Vela says that it is another release."""
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "config"))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    folder = tmp_path / "environment"
    own = next(path for path in sys.path if path.endswith("site-packages"))
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = folder / "lib" / version / "site-packages"
    information = site / "ethos_u_vela-5.0.9.dist-info"
    information.mkdir(parents=True)
    text = "Metadata-Version: 2.1\nName: ethos-u-vela\nVersion: 5.0.9\n"
    (information / "METADATA").write_text(text)
    (site / "others.pth").write_text(f"{own}\nimport sys; print('a welcome of the environment')\n")
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(Path(sys._base_executable).resolve())
    home = Path(sys._base_executable).resolve().parent
    (folder / "pyvenv.cfg").write_text(f"home = {home}\n")
    return folder


@pytest.mark.slow
def test_that_a_project_runs_under_another_interpreter_with_results_of_its_own(environment, tmp_path):
    registry.add("sdk", environment)
    shutil.copy(NETWORKS, tmp_path)
    made = project("small")
    results = {}
    for name in ("", "sdk"):
        chosen = edits.set_toolchain(made, name, "")
        opened = api.OpenProject(chosen, tmp_path)
        result = api.run(opened, skip=("run",), trust=True).raise_for_errors()
        results[name] = result
        planned = plan(OpenProject(chosen, tmp_path), Cache(default_root()))
        assert [s.state for s in planned.stages if s.id in {"lower", "verify"}] == ["cached"] * 2
    versions = [results[name].document["tools"]["ethos-u-vela"] for name in ("", "sdk")]
    assert versions[1] == "5.0.9" != versions[0]
    states = {stage["id"]: stage["state"] for stage in results["sdk"].document["stages"]}
    assert states["lower"] == states["verify"] == "done"
    assert results["sdk"].document["gate"]["verdict"] == "right"


@pytest.mark.slow
def test_that_cycles_of_another_vela_are_not_ranked_and_equal_bytes_are_told(environment, tmp_path):
    registry.add("sdk", environment)
    shutil.copy(NETWORKS, tmp_path)
    opened = api.OpenProject(project("small"), tmp_path)
    comparison = api.compare_toolchains(opened, "sdk", trust=True)
    assert comparison.errors == ("", "")
    assert comparison.still_right
    assert comparison.same_program
    assert comparison.outputs is not None
    assert comparison.outputs[0] > 0
    assert comparison.outputs[1] == 0
    figures = {figure.name: figure for figure in comparison.figures}
    assert not figures["cycles"].comparable
    assert figures["sram_bytes"].comparable
    assert not figures["sqnr_db"].differs


def test_that_a_package_which_few_projects_need_is_named_where_it_is_missing():
    try:
        raise ModuleNotFoundError("No module named 'onnx'", name="onnx")
    except ModuleNotFoundError as error:
        info = unexpected(error, "import_model")
    assert info.code == "package-missing"
    assert info.hint.endswith(f"{sys.executable} -m pip install onnx.")


@for_each("number", (errno.ENOSPC, errno.EMFILE, errno.EFBIG))
def test_that_a_system_that_refuses_is_told_with_what_it_wants(number):
    try:
        try:
            raise OSError(number, os.strerror(number))
        except OSError as error:
            raise RuntimeError("in the toolchain") from error
    except RuntimeError as error:
        info = unexpected(error, "lower")
    assert (info.code, info.hint) == ("system-limit", SYSTEM_REMEDIES[number])
    assert "Errno" not in info.message
