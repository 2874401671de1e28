"""The folder for engines: the program and what an environment lacks, and nothing beside it."""

import os

import pytest

from workbench.errors import WorkbenchError
from workbench.toolchains import packages, registry


def test_that_the_folder_holds_the_program_and_what_is_missing_alone(environment):
    toolchain = registry.add("sdk", environment())
    folder = packages.folder_for(toolchain)
    names = set(os.listdir(folder))
    assert {"workbench", "resources", "pydantic", "re2"} <= names
    assert not names & {"torch", "torchao", "executorch", "ethosu", "numpy"}
    assert (folder / "workbench" / "installation.py").is_file()
    assert packages.folder_for(toolchain) == folder


def test_that_what_the_environment_has_is_its_own(environment):
    python = environment()
    site = python.parents[1] / "packages"
    (site / "pydantic").mkdir()
    (site / "pydantic" / "__init__.py").touch()
    folder = packages.folder_for(registry.add("sdk", python))
    assert "pydantic" not in os.listdir(folder)


def test_that_another_python_gets_no_packages_and_is_told_what_to_install(environment):
    toolchain = registry.add("sdk", environment())
    probed = toolchain.probed.model_copy(update={"python": "3.12.9"})
    with pytest.raises(WorkbenchError, match="lacks") as caught:
        packages.folder_for(toolchain.model_copy(update={"probed": probed}))
    assert "google-re2" in caught.value.infos[0].hint


def test_that_a_folder_that_others_can_change_is_not_used(environment):
    toolchain = registry.add("sdk", environment())
    folder = packages.folder_for(toolchain)
    os.chmod(folder, 0o777)
    with pytest.raises(WorkbenchError) as caught:
        packages.folder_for(toolchain)
    assert caught.value.infos[0].code == "toolchain-folder-unusable"
