"""A new environment with pip: what is asked for, and that nothing stays of one that failed."""

import pytest

from tests.workbench.toolchains.conftest import script
from workbench.errors import WorkbenchError
from workbench.installation import data_folder
from workbench.toolchains import creation, registry


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("executorch==1.4.1", ["torch==2.13.0", "executorch[ethos-u]==1.4.1"]),
        ("executorch", ["torch==2.13.0", "executorch[ethos-u]"]),
        (
            "executorch[ethos-u]==1.5.1 torch==2.14.1 ethos-u-vela==5.2.0",
            ["torch==2.14.1", "ethos-u-vela==5.2.0", "executorch[ethos-u]==1.5.1"],
        ),
    ],
)
def test_that_executorch_comes_with_its_packages_for_ethos_u(spec, wanted):
    assert creation.requirements_of(spec) == wanted


@pytest.mark.parametrize(
    "spec", ["", "torch==2.13.0", "executorch==1.4.1 --pre", "executorch @ file:///x", "-r x", "/x"]
)
def test_that_other_texts_are_refused(spec):
    with pytest.raises(WorkbenchError) as caught:
        creation.requirements_of(spec)
    assert caught.value.infos[0].code == "toolchain-spec-invalid"


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """Return a function that lets pip and venv be a program; it makes the folder of the venv."""

    def make(source):
        program = script(tmp_path / "python", source)
        monkeypatch.setattr(creation.interpreter, "base", lambda: str(program))
        return program

    return make


_MAKES = """
import os, shutil
if "venv" in sys.argv:
    folder = sys.argv[-1]
    os.makedirs(folder + "/bin")
    shutil.copy(__file__, folder + "/bin/python")
    sys.exit(0)
"""


@pytest.mark.parametrize(
    ("says", "named"),
    [
        ("WARNING: Retrying after NewConnectionError: failed", "cannot be reached"),
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("ERROR: No matching distribution found for executorch==9", "does not have it"),
        ("ERROR: something else", "something else"),
    ],
)
def test_that_a_failure_of_pip_is_one_sentence_and_nothing_stays(pip, says, named):
    pip(f"{_MAKES}\nprint({says!r})\nsys.exit(1)")
    with pytest.raises(WorkbenchError, match=named) as caught:
        creation.create("sdk", "executorch==1.4.1", lambda line: None)
    assert caught.value.infos[0].code == "toolchain-not-created"
    assert list((data_folder() / "toolchains").glob("[!.]*")) == []
    assert registry.toolchains() == {}


def test_that_nothing_stays_of_one_that_is_cancelled(pip):
    pip(f"{_MAKES}\nimport time\nprint('Collecting torch', flush=True)\ntime.sleep(60)")

    def cancel(line):
        if line.startswith("Collecting"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        creation.create("sdk", "executorch==1.4.1", cancel)
    assert list((data_folder() / "toolchains").glob("[!.]*")) == []


def test_that_the_steps_of_pip_are_reported_and_the_toolchain_is_added(pip, environment):
    ready = environment("ready").read_text().partition("\n")[2]
    pip(f"{_MAKES}\nif 'pip' in sys.argv:\n print('Collecting torch')\n sys.exit(0)\n{ready}")
    lines = []
    made = creation.create("sdk", "executorch==1.4.1", lines.append)
    assert "Collecting torch" in lines
    assert made.probed.versions["executorch"] == "1.4.1"
    folder = data_folder() / "toolchains" / "sdk"
    assert folder.is_dir()
    creation.discard(registry.remove("sdk"))
    assert not folder.exists()


def test_that_an_environment_of_the_user_stays_when_it_is_removed(environment):
    python = environment()
    registry.add("sdk", python)
    creation.discard(registry.remove("sdk"))
    assert python.exists()
