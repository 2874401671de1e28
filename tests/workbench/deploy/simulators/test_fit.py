"""What does not fit together is refused before anything is started, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.for_each import for_each
from tests.problems import refused
from workbench.deploy.simulators.compatibility import Program, read_runner, runner_for, setup_for
from workbench.deploy.simulators.compatibility import check as check_fit
from workbench.deploy.simulators.discovery import (
    SIMULATORS,
    MachineSettings,
    adopt_runner,
    check,
    device_of,
    environment,
    find,
    find_all,
    load_settings,
    save_settings,
    settings_path,
    version_of,
)
from workbench.deploy.simulators.process import Run, command
from workbench.errors import ErrorInfo, WorkbenchError

U55 = SIMULATORS[0]
PROGRAMS = Path(__file__).parents[3] / "data" / "programs"


@for_each(
    ("options", "device", "code"),
    [
        ({}, "ethos-u55-256", "runner-program-target-mismatch"),
        ({"family": "u85"}, "ethos-u55-128", "runner-npu-mismatch"),
        (
            {"pools": {"fast scratch": 4096}},
            "ethos-u55-128",
            "runner-memory-mode-mismatch",
        ),
        ({"backend": False}, "ethos-u55-128", "runner-without-ethos-u"),
        ({"pools": {"method": 9}}, "ethos-u55-128", "runner-pool-too-small"),
        ({"pools": {"scratch": 9}}, "ethos-u55-128", "runner-pool-too-small"),
        ({"pools": {"files": 9}}, "ethos-u55-128", "runner-pool-too-small"),
    ],
)
def test_that_a_misfit_is_refused(bench, options, device, code):
    with pytest.raises(WorkbenchError) as caught:
        bench.run(runner=bench.runner(**options), device=device)
    assert code in caught.value.codes


def test_that_missing_kernels_are_named(bench):
    path = bench.program().parents[2] / "u55.pte"
    program = Program(path.name, path.read_bytes())
    runner = read_runner(bench.runner(kernels=["quantized_decomposed::quantize_per_tensor.out"]))
    with pytest.raises(WorkbenchError) as caught:
        check_fit(program, runner, device_of("ethos-u55-128"))
    (info,) = caught.value.infos
    assert info.message.endswith("the kernels quantized_decomposed::dequantize_per_tensor.out.")
    assert "--select_ops_list=quantized_decomposed::dequantize_per_tensor.out" in info.hint


@for_each(
    ("change", "code"),
    [
        (lambda data: b"PK\3\4" + data, "runner-not-elf"),
        (lambda data: data[:18] + b"\x3e\0" + data[20:], "runner-wrong-architecture"),
        (lambda data: data[:200], "runner-damaged"),
        (lambda data: b"", "runner-not-elf"),
        (lambda data: data[:51], "runner-not-elf"),
        (lambda data: data[:18] + b"\x3e\0" + data[20:52], "runner-wrong-architecture"),
    ],
)
def test_that_what_is_no_runner_is_refused(bench, change, code):
    path = bench.runner()
    path.write_bytes(change(path.read_bytes()))
    with refused(code):
        read_runner(path)


def test_that_a_device_no_simulator_has_is_refused_with_those_there_are():
    with refused("simulator-device-unknown"):
        device_of("ethos-u55-12")
    with pytest.raises(WorkbenchError) as caught:
        device_of("cortex-m")
    assert "ethos-u85-256" in caught.value.infos[0].hint


def test_that_the_command_line_is_the_one_of_the_toolchains_own_script(tmp_path):
    run = Run(device_of("ethos-u85-256"), "semihosting", 2, fast=True, timelimit_s=60)
    assert command(tmp_path / "FVP_Corstone_SSE-320", tmp_path, run) == [
        str(tmp_path / "FVP_Corstone_SSE-320"),
        "-C", "mps4_board.subsystem.ethosu.num_macs=256",
        "-C", "mps4_board.visualisation.disable-visualisation=1",
        "-C", "vis_hdlcd.disable_visualisation=1",
        "-C", "mps4_board.telnetterminal0.start_telnet=0",
        "-C", "mps4_board.uart0.out_file='-'",
        "-C", "mps4_board.uart0.unbuffered_output=1",
        "-C", "mps4_board.uart0.shutdown_on_eot=1",
        "-C", "mps4_board.subsystem.ethosu.extra_args='--fast'",
        "-C", "mps4_board.subsystem.cpu0.semihosting-enable=1",
        "-C", "mps4_board.subsystem.cpu0.semihosting-stack_base=0",
        "-C", "mps4_board.subsystem.cpu0.semihosting-heap_limit=0",
        "-C", f"mps4_board.subsystem.cpu0.semihosting-cwd={tmp_path}",
        "-C", "mps4_board.subsystem.cpu0.semihosting-cmd_line="
              "'executor_runner -m program.pte -o out -i i0.bin -i i1.bin'",
        "-a", "runner.elf", "--timelimit", "60",
    ]  # fmt: skip


def test_that_a_command_line_that_would_be_cut_is_refused(tmp_path):
    with refused("simulator-command-too-long"):
        command(tmp_path / "fvp", tmp_path, Run(device_of("ethos-u55-128"), "semihosting", 30))


def test_that_a_simulator_is_found_configured_then_on_the_path_then_where_it_usually_is(
    bench, monkeypatch, tmp_path
):
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", "/nowhere")
    settings = MachineSettings()
    assert find(U55, settings) is None
    usual = bench.simulator(folder="home/FVP_Corstone_SSE-300/models/Linux64_GCC-9.3")
    assert find(U55, settings).path == usual
    on_path = bench.simulator(folder="bin")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert find(U55, settings).path == on_path
    named = bench.simulator(folder="opt/models/Linux64")
    configured = MachineSettings(simulators={"u55": str(tmp_path / "opt")})
    assert find(U55, configured).path == named
    assert [bool(found) for _, found in find_all(configured)] == [True, False, False]


def test_that_a_simulator_that_cannot_start_says_why(bench):
    path = bench.simulator()
    found = find(U55, MachineSettings(), str(path))
    check(found)
    assert version_of(found) == "11.27.42"
    path.chmod(0o644)
    with refused("simulator-not-executable"):
        check(found)
    path.chmod(0o755)
    for machine, named in ((3, "x86;"), (40, "32-bit Arm;"), (243, "machine 243;")):
        path.write_bytes(b"\x7fELF\1\1\1" + bytes(11) + machine.to_bytes(2, "little"))
        with refused("simulator-wrong-architecture") as error:
            check(found)
        assert named in error.value.infos[0].message
    path.write_bytes(b"text")
    with refused("simulator-not-a-program"):
        check(found)
    path.unlink()
    with refused("simulator-missing"):
        check(found)


def test_that_a_simulators_own_python_is_used_and_ours_is_not(tmp_path):
    (tmp_path / "python" / "lib").mkdir(parents=True)
    binary = tmp_path / "models" / "Linux64_GCC-9.3" / "FVP_Corstone_SSE-320"
    made = environment(binary, {"PYTHONPATH": "/ours", "LD_LIBRARY_PATH": "/before"})
    assert made == {
        "LD_LIBRARY_PATH": f"{tmp_path}/python/lib:/before", "PYTHONHOME": f"{tmp_path}/python",
    }  # fmt: skip


def test_that_machine_settings_survive_and_damaged_ones_are_told():
    settings = MachineSettings(simulators={"u85": "/a b/ö"}, runners=("/r.elf",))
    save_settings(settings)
    assert load_settings() == settings
    settings_path().write_text("{")
    with refused("machine-settings-damaged"):
        load_settings()


def test_that_a_program_without_its_weights_is_refused(bench):
    program = Program("net", (PROGRAMS / "u55_external.pte").read_bytes())
    with refused("runner-kernels-missing", "runner-external-weights"):
        check_fit(program, read_runner(bench.runner()), device_of("ethos-u55-256"))


def test_that_a_memory_mode_of_the_users_own_fits_any_runner(bench):
    data = bench.program().read_bytes()
    own = data.replace(b"--memory-mode=Shared_Sram", b"--memory-mode=Mine_______")
    assert own != data
    runner = read_runner(bench.runner(pools={"fast scratch": 4096}))
    check_fit(Program("net", own), runner, device_of("ethos-u55-128"))
    with refused("runner-memory-mode-mismatch"):
        check_fit(Program("net", data), runner, device_of("ethos-u55-128"))


def test_that_the_setup_of_a_target_is_what_this_machine_has(bench):
    def code(target="ethos-u55-128", mode="Shared_Sram"):
        made = setup_for(target, mode)
        return made.code if isinstance(made, ErrorInfo) else made

    assert code() == "runner-not-configured"
    first = bench.runner(name="first.elf")
    save_settings(MachineSettings(runners=(str(first),), fast=True))
    assert code() == "simulator-not-installed"
    assert code("ethos-u85-256") == "runner-for-target-missing"
    assert code("tpu") == "simulator-device-unknown"
    simulator = bench.simulator()
    both = (str(bench.folder / "gone.elf"),)
    save_settings(MachineSettings(runners=both, simulators={"u55": str(simulator)}))
    assert code() == "runner-unreadable"
    save_settings(MachineSettings(runners=(str(first),), simulators={"u55": str(simulator)}))
    made = code()
    assert (made.device.target, made.runner.path, made.installed.path) == (
        "ethos-u55-128", first, simulator
    )  # fmt: skip
    assert made.address is None
    adopt_runner(first, 0x1000)
    assert code().address == 0x1000


def test_that_runners_for_files_come_before_those_with_a_program_of_their_own(bench):
    program = bench.program().read_bytes()
    built = bench.runner(name="built.elf", placement="embedded", program=program)
    files = bench.runner(name="files.elf")
    large = bench.runner("u85", name="large.elf")
    device = device_of("ethos-u55-128")

    def chosen(*paths, mode="Shared_Sram"):
        settings = MachineSettings(runners=tuple(map(str, paths)))
        runner = runner_for(device, mode, settings)
        return runner and runner.path

    assert chosen(built, files) == files
    assert chosen(built) == built
    assert chosen(large) is None
    assert chosen() is None
    files.write_bytes(large.read_bytes())
    assert chosen(files, built) == built


def test_that_a_runner_is_put_first_with_its_address(bench):
    first, second = bench.runner(name="a.elf"), bench.runner(name="b.elf")
    adopt_runner(first, 0x1000)
    made = adopt_runner(second)
    assert made.runners == (str(second), str(first))
    assert made.addresses == {str(first): 0x1000}
    again = adopt_runner(first)
    assert again.runners == (str(first), str(second))
    assert again.addresses == {}
    assert load_settings() == again
