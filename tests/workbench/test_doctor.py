"""The environment check says what is there, what is missing, and how to get it."""

import ctypes
import platform
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.fakes import fvp, runner_elf
from tests.for_each import for_each
from tests.workbench.deploy.test_boards import SMALL, write
from workbench import doctor
from workbench.deploy.simulators.discovery import MachineSettings, save_settings
from workbench.project.board_files import own_folder
from workbench.toolchain_versions import AccelerationStatus
from workbench.toolchains.versions import tool_versions


@pytest.fixture(autouse=True)
def bare(tmp_path, monkeypatch):
    """A machine without any of the tools, and a home without settings."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for variable in ("ARMLMD_LICENSE_FILE", "LM_LICENSE_FILE"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "bin").mkdir()
    (tmp_path / "home").mkdir()
    return tmp_path


def found():
    return {finding.name: finding for finding in doctor.findings()}


def test_that_a_bare_machine_lacks_only_what_is_optional():
    findings = found()
    for name in (
        "FVP_Corstone_SSE-300_Ethos-U55",
        "FVP_Corstone_SSE-320",
        "Arm licence",
        "runner",
        "arm-none-eabi-gcc",
        "ExecuTorch checkout",
        "docker",
        "onnx-mlir",
    ):
        assert findings[name].state == "optional", name
        assert findings[name].why, name
        assert findings[name].remedy, name
        assert findings[name].version in {"", "None"}, name
    assert findings["Python"].version == platform.python_version()
    assert findings["Python"].state == "ok"
    assert findings["Python"].remedy == ""
    assert findings["cache"].state == "ok"
    assert findings["cache"].version.endswith("GiB free")


def test_that_tools_on_the_path_are_found_with_their_version(bare):
    for name, words in (("arm-none-eabi-gcc", "echo gcc 13.2.1 20231009"), ("docker", "echo")):
        tool = bare / "bin" / name
        tool.write_text(f"#!/bin/sh\n{words}\n")
        tool.chmod(0o755)
    findings = found()
    gcc = findings["arm-none-eabi-gcc"]
    assert (gcc.state, gcc.version, gcc.remedy) == ("ok", f"13.2.1, {bare / 'bin' / 'arm-none-eabi-gcc'}", "")
    assert (findings["docker"].state, findings["docker"].remedy) == ("ok", "")
    assert findings["docker"].version == str(bare / "bin" / "docker")
    (bare / "bin" / "arm-none-eabi-gcc").write_text("#!/bin/sh\necho what?\n")
    assert found()["arm-none-eabi-gcc"].version.startswith("no version, ")
    (bare / "bin" / "arm-none-eabi-gcc").write_text("#!/nowhere/sh\n")
    assert found()["arm-none-eabi-gcc"].version.startswith("no version, ")


def test_that_a_licence_is_found_in_the_environment_and_at_home(bare, monkeypatch):
    monkeypatch.setenv("LM_LICENSE_FILE", "7010@server")
    finding = found()["Arm licence"]
    assert (finding.state, finding.version, finding.remedy) == ("ok", "LM_LICENSE_FILE=7010@server", "")
    (bare / "home" / ".armlm").mkdir()
    assert found()["Arm licence"].version == (f"LM_LICENSE_FILE=7010@server, {bare / 'home' / '.armlm'}")


def test_that_simulators_are_told_with_version_or_what_is_wrong(bare, monkeypatch):
    monkeypatch.setenv("PATH", f"{bare / 'bin'}:{sys.prefix}/bin:/usr/bin:/bin")
    good = fvp.install(bare / "fvp", "FVP_Corstone_SSE-300_Ethos-U55")
    silent = bare / "FVP_Corstone_SSE-320"
    silent.write_text("#!/bin/sh\nexit 1\n")
    silent.chmod(0o755)
    save_settings(MachineSettings(simulators={"u55": str(good), "u85": str(silent)}))
    findings = found()
    u55 = findings["FVP_Corstone_SSE-300_Ethos-U55"]
    assert u55.state == "ok"
    assert u55.version.startswith(f"11.27.42, {good} (")
    assert u55.remedy == ""
    u85 = findings["FVP_Corstone_SSE-320"]
    assert u85.state == "different"
    assert u85.remedy
    silent.chmod(0o644)
    assert found()["FVP_Corstone_SSE-320"].state == "different"


def test_that_runners_are_told_with_what_they_can_run(bare):
    first, second = bare / "runner.elf", bare / "broken.elf"
    first.write_bytes(runner_elf.runner("u55"))
    second.write_bytes(b"no program")
    save_settings(MachineSettings(runners=(str(first), str(second))))
    findings = found()
    assert "runner" not in findings
    good, broken = findings["runner runner.elf"], findings["runner broken.elf"]
    assert good.state == "ok"
    assert good.version == "Ethos-U55 or Ethos-U65, shared SRAM, semihosting"
    assert (broken.state, broken.version) == ("different", "")
    assert broken.why
    assert broken.remedy


def test_that_a_runner_with_an_sram_of_its_own_is_told(bare):
    path = bare / "runner.elf"
    path.write_bytes(runner_elf.runner("u85", pools={"fast scratch": 4096}))
    save_settings(MachineSettings(runners=(str(path),)))
    assert found()["runner runner.elf"].version == "Ethos-U85, dedicated SRAM, semihosting"
    path.write_bytes(runner_elf.runner("u85", stripped=True))
    assert "unknown memory mode" in found()["runner runner.elf"].version


def test_that_only_a_board_of_another_release_is_told():
    write(own_folder(), "new.toml", SMALL.format(ram=1 << 20, flash=1 << 20))
    assert not [name for name in found() if name.startswith("board ")]
    text = SMALL.format(ram=1 << 20, flash=1 << 20)
    write(own_folder(), "old.toml", f'executorch = "1.3"\n{text}')
    (told,) = [finding for name, finding in found().items() if name.startswith("board ")]
    assert (told.name, told.state, told.version) == ("board old", "different", "1.3")
    assert told.why
    assert told.remedy


def test_that_a_checkout_is_found_or_told_to_be_none(bare):
    save_settings(MachineSettings(executorch=str(bare / "nowhere")))
    finding = found()["ExecuTorch checkout"]
    assert (finding.state, finding.version) == ("different", str(bare / "nowhere"))
    assert finding.remedy
    script = bare / "own" / doctor.SCRIPT
    script.parent.mkdir(parents=True)
    script.write_text("")
    save_settings(MachineSettings(executorch=str(bare / "own")))
    finding = found()["ExecuTorch checkout"]
    assert (finding.state, finding.version, finding.remedy) == ("ok", str(bare / "own"), "")


def test_that_broken_settings_are_told_and_the_rest_is_checked(bare):
    save_settings(MachineSettings())
    path = next((bare / "own").rglob("machine.json"))
    path.write_text("{")
    findings = found()
    assert findings["machine.json"].state == "missing"
    assert findings["machine.json"].why
    assert findings["FVP_Corstone_SSE-320"].state == "optional"


@for_each(
    ("version", "state", "remedy"),
    [
        ("none", "missing", "pip install torch==2.13.0"),
        ("2.13.0+cpu", "ok", ""),
        ("2.12.1", "different", "pip install torch==2.13.0 to get the verified version"),
    ],
)
def test_that_a_package_is_compared_with_the_verified_version(monkeypatch, version, state, remedy):
    monkeypatch.setattr(doctor, "tool_version", lambda name: version)
    torch = found()["torch"]
    assert (torch.state, torch.remedy) == (state, remedy)
    assert torch.version == ("" if version == "none" else version)


def test_that_other_pythons_are_told(monkeypatch):
    monkeypatch.setattr(doctor, "sys", SimpleNamespace(version_info=(3, 13, 1), platform="linux"))
    assert (found()["Python"].state, bool(found()["Python"].remedy)) == ("different", True)
    monkeypatch.setattr(doctor, "sys", SimpleNamespace(version_info=(3, 12, 1), platform="linux"))
    assert found()["Python"].state == "ok"


@for_each(("active", "state", "version"), [(True, "ok", "on"), (False, "different", "off")])
def test_that_acceleration_is_told_with_its_reason(monkeypatch, active, state, version):
    status = AccelerationStatus(active=active, reason="" if active else "Not proven.")
    monkeypatch.setattr(doctor, "status", lambda: status)
    finding = found()["acceleration"]
    assert (finding.state, finding.version) == (state, version)
    assert finding.why.startswith("proven" if active else "Not proven")
    assert bool(finding.remedy) != active


@for_each(("free", "state"), [((1 << 30) + 1, "ok"), (1 << 30, "missing")])
def test_that_a_full_disk_is_told(monkeypatch, free, state):
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=free))
    assert (found()["cache"].state, found()["cache"].version) == (state, "1 GiB free")


def test_that_a_cache_that_cannot_be_written_is_told(monkeypatch):
    monkeypatch.setattr(doctor.os, "access", lambda place, mode: False)
    finding = found()["cache"]
    assert finding.state == "missing"
    assert "QUANTIZATION_WORKBENCH_CACHE" in finding.remedy


def test_that_the_releases_of_each_toolchain_are_rated(monkeypatch):
    tools = {"own": tool_versions(), "new": {**tool_versions(), "ethos-u-vela": "9.0.0"}}
    monkeypatch.setattr(doctor, "toolchains", lambda: dict.fromkeys(tools))
    known = {"": tools["own"], **tools}
    monkeypatch.setattr(doctor, "tools_of", known.__getitem__)
    states = {row.name: row.state for row in doctor.toolchain_findings()}
    assert states == {"toolchain built-in": "ok", "toolchain own": "ok", "toolchain new": "different"}


def test_that_absent_libraries_of_the_window_are_named_with_their_packages(monkeypatch):
    def found():
        return next(f for f in doctor.findings() if f.name == "libraries of the window")

    load = ctypes.CDLL

    def without(name, *rest, **more):
        if name in {"libxcb-cursor.so.0", "libxcb-icccm.so.4"}:
            raise OSError(name)
        return load(name, *rest, **more)

    monkeypatch.setattr("workbench.doctor._loads", lambda _name: True)
    assert found().state == "ok"
    monkeypatch.undo()
    monkeypatch.setattr(ctypes, "CDLL", without)
    assert found().state == "optional"
    assert {"libxcb-cursor0", "libxcb-icccm4"} <= set(found().remedy.split())


def test_that_the_named_packages_are_those_that_the_installer_installs():
    script = (Path(__file__).parents[2] / ".ci" / "install").read_text()
    listed = script.partition("packages=(")[2].partition(")")[0].split()
    assert set(doctor.DISPLAY_LIBRARIES.values()) == {p for p in listed if p.startswith("lib")}
