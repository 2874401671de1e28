"""What a project's toolchain means on a machine: missing, unproven, without an option."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.fakes.projects import make_project, write_project
from workbench import api, doctor
from workbench.doctor import PROVEN, SET
from workbench.errors import WorkbenchError
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject
from workbench.toolchains import choice, registry
from workbench.toolchains.releases import RELEASES, support_of
from workbench.toolchains.versions import tool_versions


def codes(project):
    return [info.code for info in choice.problems(project)]


def test_that_the_own_toolchain_is_proven_and_has_no_problem():
    project = make_project()
    assert support_of(tool_versions()).state == "proven"
    assert codes(project) == []
    assert list(choice.warnings_of(project)) == []


def test_that_a_missing_toolchain_blocks_and_says_what_the_project_was_made_with(environment):
    registry.add("other", environment())
    project = edits.set_toolchain(make_project(), "sdk", "ExecuTorch 1.4.1, torch 2.13.0, Vela 5.0.0")
    (info,) = choice.problems(project)
    assert info.code == "toolchain-missing"
    assert "ExecuTorch 1.4.1" in info.message
    assert "toolchain=other" in info.hint


def test_that_a_toolchain_that_was_deleted_is_not_offered(environment):
    python = environment()
    registry.add("sdk", python)
    versions = registry.title_of(registry.toolchains()["sdk"].probed.versions)
    Path(python).unlink()
    (info,) = choice.problems(edits.set_toolchain(make_project(), "sdk", versions))
    assert "toolchain=sdk" not in info.hint
    assert choice.nearest(versions) == ""


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("ExecuTorch 1.5.1, torch 2.13.0, Vela 5.1.0", ""),
        ("ExecuTorch 1.5.0, torch 2.12.0, Vela 5.1.0", ""),
        ("ExecuTorch 1.4.0, torch 2.13.0, Vela 5.1.0", "sdk"),
        ("ExecuTorch 1.4.1, torch 2.12.1, Vela 5.2.0", "vela"),
    ],
)
def test_that_the_nearest_toolchain_has_most_in_common(environment, wanted, name):
    registry.add("sdk", environment())
    registry.add("vela", environment("vela", ethos_u_vela="5.2.0"))
    assert choice.nearest(wanted) == name


def test_that_what_is_not_proven_is_a_warning_and_what_is_too_old_an_error(environment):
    registry.add("new", environment("new", ethos_u_vela="9.9.0"))
    registry.add("old", environment("old", executorch="1.3.1"))
    new, old = (edits.set_toolchain(make_project(), name, "") for name in ("new", "old"))
    assert codes(new) == []
    assert [info.code for info in choice.warnings_of(new)] == ["toolchain-unproven"]
    assert codes(old) == ["toolchain-unusable"]


def test_that_an_option_that_a_release_does_not_have_is_named(environment):
    registry.add("sdk", environment())
    project = edits.set_toolchain(make_project(), "sdk", "")
    chosen = TargetChoice(id="ethos-u55-128", options={"external_weights": True})
    assert codes(edits.set_target(project, chosen)) == ["toolchain-lacks-option"]
    assert codes(edits.set_target(make_project(), chosen)) == []


def test_that_every_key_is_another_one_with_another_release(environment, tmp_path):
    registry.add("sdk", environment(**OWN))
    registry.add("other", environment("other", **{**OWN, "executorch": "1.4.1"}))
    registry.add("vela", environment("vela", **{**OWN, "ethos_u_vela": "5.0.9"}))
    folder, keys = write_project(tmp_path / "mine").parent, {}
    for name in ("sdk", "other", "vela"):
        project = edits.set_toolchain(make_project(), name, "")
        planned = plan(OpenProject(project, folder), Cache(tmp_path / "cache"))
        keys[name] = {stage.id: stage.key for stage in planned.stages}
        assert planned.tools == registry.tools_of(name)
    assert all(key != keys["other"][stage] for stage, key in keys["sdk"].items())
    assert keys["vela"]["convert"] == keys["sdk"]["convert"]
    assert keys["vela"]["lower"] != keys["sdk"]["lower"]


OWN = {
    package.replace("-", "_"): version if version != "none" else None
    for package, version in tool_versions().items()
}


def test_that_setting_a_toolchain_notes_its_versions_and_an_unknown_one_is_refused(environment, tmp_path):
    registry.add("sdk", environment())
    opened = api.OpenProject(make_project(), tmp_path)
    changed = api.set_settings(opened, {"toolchain": "sdk"}).project
    assert changed.toolchain == "sdk"
    assert "ExecuTorch 1.4.1" in changed.toolchain_versions
    back = api.set_settings(api.OpenProject(changed, tmp_path), {"toolchain": "built-in"}).project
    assert (back.toolchain, back.toolchain_versions) == ("", "")
    with pytest.raises(WorkbenchError) as caught:
        api.set_settings(opened, {"toolchain": "nobody"})
    assert caught.value.infos[0].code == "toolchain-missing"


def test_that_the_releases_name_one_another_apart():
    assert len({row.executorch for row in RELEASES}) == len(RELEASES)


ROOT = Path(__file__).parents[3]


def requirements():
    """Return the ranges of the toolchain's packages, of the project's metadata."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = map(Requirement, project["dependencies"])
    return {r.name: r.specifier for r in found if r.name in SET}


def test_that_the_installation_takes_the_built_in_set_within_the_ranges():
    lines = (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
    fixed = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert {name: fixed[name] for name in SET} == {name: PROVEN[name] for name in SET}
    assert support_of(fixed).state == "proven"
    ranges = requirements()
    assert all(fixed[name] in ranges[name] for name in SET)


def test_that_the_ranges_have_every_proven_release_and_no_other_kind():
    ranges = requirements()
    for row in RELEASES:
        assert row.executorch in ranges["executorch"]
        for name, numbers in (("torch", row.torch), ("torchao", row.torchao), ("ethos-u-vela", row.vela)):
            assert all(f"{number}.1" in ranges[name] for number in numbers), name
    outside = {"torch": "2.16.0", "torchao": "0.19.0", "executorch": "1.6.0", "ethos-u-vela": "5.3.0"}
    assert not any(version in ranges[name] for name, version in outside.items())


def test_that_a_proven_set_beside_the_built_in_one_is_well_for_doctor(monkeypatch):
    versions = {"torch": "2.14.1", "torchao": "0.18.0", "executorch": "1.5.1", "ethos-u-vela": "5.2.0"}
    monkeypatch.setattr(doctor, "tool_version", lambda name: versions.get(name, "none"))
    states = {finding.name: finding.state for finding in doctor.findings()}
    assert {states[name] for name in SET} == {"ok"}
    versions["executorch"] = "1.4.1"
    states = {finding.name: finding.state for finding in doctor.findings()}
    assert states["torch"] == "different"
