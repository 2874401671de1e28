"""The toolchains of a machine: what can be added, and what becomes of them later."""

import json
import os
import shutil

import pytest

from tests.workbench.toolchains.conftest import script
from workbench.errors import WorkbenchError
from workbench.toolchains import probe, registry
from workbench.toolchains.versions import NAME_VARIABLE, tool_versions


def code_of(call, *arguments, **named):
    with pytest.raises(WorkbenchError) as caught:
        call(*arguments, **named)
    return caught.value.infos[0].code


def test_that_an_interpreter_is_added_by_its_path_or_its_folder(environment):
    python = environment()
    for name, given in (("path", python), ("folder", python.parents[1])):
        assert registry.add(name, given).python == str(python)
        assert registry.tools_of(name)["executorch"] == "1.4.1"
        assert registry.tools_of(name)["onnx"] == "none"
    assert list(registry.toolchains()) == ["path", "folder"]
    assert registry.toolchain_of("path").title == "ExecuTorch 1.4.1, torch 2.13.0, Vela 5.1.0"


def test_that_a_link_to_an_interpreter_stays_a_link(environment, tmp_path):
    link = tmp_path / "linked"
    link.symlink_to(environment())
    assert registry.add("sdk", link).python == str(link)


def test_that_the_own_toolchain_has_the_own_packages():
    assert registry.tools_of("") == tool_versions()


def test_that_an_engine_takes_its_own_packages_for_those_of_its_toolchain(monkeypatch):
    monkeypatch.setenv(NAME_VARIABLE, "sdk")
    assert registry.tools_of("sdk") == tool_versions()
    assert code_of(registry.tools_of, "other") == "toolchain-missing"


@pytest.mark.parametrize(
    ("versions", "named"), [({"executorch": None}, "executorch"), ({"ethos_u_vela": None}, "ethos-u-vela")]
)
def test_that_an_environment_without_a_tool_is_refused_by_its_name(environment, versions, named):
    with pytest.raises(WorkbenchError, match=named) as caught:
        registry.add("sdk", environment(**versions))
    assert caught.value.infos[0].code == "toolchain-unusable"
    assert registry.toolchains() == {}


def test_that_what_is_no_usable_interpreter_is_refused_with_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(registry, "probe", lambda python: probe.probe(python, 0.5))
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("no program")
    unusable = [
        tmp_path / "missing",
        tmp_path / "empty",
        tmp_path / "text",
        shutil.which("true"),
        shutil.which("cat"),
        script(tmp_path / "hangs", "import time; time.sleep(60)"),
        script(tmp_path / "loud", "while True: print('x' * 1000)"),
        script(tmp_path / "old", "exec(SCRIPT.replace('sys.version_info[:2]', '(3, 9)'))"),
    ]
    for path in unusable:
        assert code_of(registry.add, "sdk", probe.Path(path)) == "toolchain-unusable"
    assert registry.toolchains() == {}


def test_that_an_environment_may_print_when_python_starts(environment):
    printing = environment("printing")
    text = printing.read_text().replace("exec(SCRIPT)", 'print("welcome {}")\nexec(SCRIPT)')
    printing.write_text(text)
    assert registry.add("sdk", printing).probed.versions["executorch"] == "1.4.1"


@pytest.mark.parametrize("name", ["", "built-in", "a b", "../x", "x" * 80, "-x"])
def test_that_a_name_that_cannot_be_used_is_refused(environment, name):
    assert code_of(registry.add, name, environment()) == "toolchain-name-invalid"


def test_that_a_name_is_given_once(environment):
    registry.add("sdk", environment())
    assert code_of(registry.add, "sdk", environment("other")) == "toolchain-name-taken"


def test_that_another_release_in_the_environment_is_noticed(environment):
    python = environment()
    registry.add("sdk", python)
    site = python.parents[1] / "packages"
    other = site / "executorch-1.5.1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: executorch\nVersion: 1.5.1\n")
    shutil.rmtree(site / "executorch-1.4.1.dist-info")
    assert registry.tools_of("sdk")["executorch"] == "1.5.1"
    assert registry.toolchains()["sdk"].probed.versions["executorch"] == "1.5.1"


def test_that_an_interpreter_that_was_removed_is_named(environment):
    python = environment()
    registry.add("sdk", python)
    python.unlink()
    with pytest.raises(WorkbenchError) as caught:
        registry.tools_of("sdk")
    assert caught.value.infos[0].code == "toolchain-missing"
    assert str(python) in caught.value.infos[0].message
    registry.remove("sdk")
    assert registry.toolchains() == {}


def test_that_what_is_not_there_is_not_removed():
    assert code_of(registry.remove, "sdk") == "toolchain-missing"


def test_that_a_list_that_is_damaged_or_open_to_others_is_not_used(environment):
    registry.add("sdk", environment())
    path = registry.config_folder() / "toolchains.json"
    os.chmod(path, 0o666)
    os.utime(path, ns=(1, 1))
    assert code_of(registry.toolchains) == "toolchains-damaged"
    os.chmod(path, 0o600)
    path.write_text(json.dumps({"toolchains": [{"name": "x"}]}))
    assert code_of(registry.toolchains) == "toolchains-damaged"


def test_that_an_environment_is_asked_again_by_a_program_that_needs_other_modules(environment, monkeypatch):
    registry.add("sdk", environment())
    assert registry.toolchain_of("sdk").probed.is_current
    monkeypatch.setattr(probe, "ENGINE_MODULES", (*probe.ENGINE_MODULES, "nowhere"))
    assert not registry.toolchains()["sdk"].probed.is_current
    assert "nowhere" in registry.toolchain_of("sdk").probed.missing


def test_that_another_python_is_one_problem_and_nothing_is_added(tmp_path):
    source = 'sys.argv = ["-c", sys.argv[-1]]\nexec(SCRIPT.replace("sys.version_info[:2]", "(3, 6)"))\n'
    with pytest.raises(WorkbenchError) as caught:
        registry.add("old", script(tmp_path / "bin" / "python", source))
    assert [info.code for info in caught.value.infos] == ["toolchain-unusable"]
    assert "Python 3.6" in caught.value.infos[0].message
    assert registry.toolchains() == {}
