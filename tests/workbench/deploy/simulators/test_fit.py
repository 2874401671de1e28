"""What does not fit together is refused before anything is started, in words."""

from __future__ import annotations

import platform
import struct
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.for_each import for_each
from tests.problems import refused
from workbench.deploy.simulators.compatibility import (
    Program,
    RunnerElf,
    needs,
    read_runner,
    runner_for,
    setup_for,
)
from workbench.deploy.simulators.compatibility import check as check_fit
from workbench.deploy.simulators.discovery import (
    SIMULATORS,
    BoardLink,
    MachineSettings,
    adopt_runner,
    check,
    device_of,
    environment,
    find,
    find_all,
    load_settings,
    runners_folder,
    save_settings,
    settings_path,
    simulating_board,
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
        ({"pools": {"fast scratch": 4096}}, "ethos-u55-128", "runner-memory-mode-mismatch"),
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


def with_section(data, number, field, value):
    """Return an ELF with one field of one of its section headers changed."""
    at = struct.unpack_from("<I", data, 32)[0] + 40 * number + 4 * field
    return data[:at] + struct.pack("<I", value) + data[at + 4 :]


@for_each(
    ("machine", "name"),
    [(3, "x86;"), (40, "Arm;"), (62, "x86-64;"), (183, "64-bit Arm;"), (243, "RISC-V;"), (8, "machine 8;")],
)
def test_that_the_processor_of_a_wrong_runner_is_named(bench, machine, name):
    """The numbers are those of e_machine in the ELF specification; class 2 is 64 bits."""
    path = bench.runner()
    data = path.read_bytes()
    path.write_bytes(data[:4] + b"\2" + data[5:18] + struct.pack("<H", machine) + data[20:])
    with refused("runner-wrong-architecture") as caught:
        read_runner(path)
    assert f"is built for {name}" in caught.value.infos[0].message


@for_each(("at", "value"), [(32, struct.pack("<I", 0)), (46, struct.pack("<H", 41))])
def test_that_a_runner_without_usual_sections_has_no_pools(bench, at, value):
    path = bench.runner()
    data = path.read_bytes()
    # As many sections as there can be, which are not in the file.
    data = data[:48] + b"\xff\xff" + data[50:]
    path.write_bytes(data[:at] + value + data[at + len(value) :])
    assert read_runner(path).pools == {}


class Planned(Program):
    """A program whose memory and delegates are given."""

    def __init__(self, planned, *, method_pool=0, delegates=(), data=b""):
        super().__init__("net", data)
        memory = {"planned_bytes": planned, "method_pool_bytes": method_pool}
        object.__setattr__(self, "given", {"memory": memory, "kernels": [], "inputs": []})
        object.__setattr__(self, "parts", list(delegates))

    description = property(lambda self: self.given)
    delegates = property(lambda self: self.parts)


def test_that_the_third_planned_memory_is_the_fast_one():
    """ExecuTorch's runner takes the memory with the id 3, and ids begin at 1, from a fast pool."""
    none = {"planned fast memory": 0, "scratch": 0, "fast scratch": 0, "files": 0}
    assert needs(Planned([10, 20]), 0) == {"method": 30, **none}
    assert needs(Planned([10, 20, 5, 1]), 0)["planned fast memory"] == 5
    assert needs(Planned([10, 20, 5, 1]), 0)["method"] == 31


def test_that_delegates_share_the_scratch_pool_and_files_lie_beside_each_other():
    program = Planned([], delegates=({"scratch_bytes": 7}, {}, {"scratch_bytes": 9}), data=b"12345")
    assert needs(program, 30)["scratch"] == 9
    assert needs(program, 30)["files"] == 35
    assert needs(Planned([], delegates=({},)), 0)["scratch"] == 0


def test_that_the_pool_of_fast_scratch_holds_what_the_npu_uses(bench):
    program = Program("net", bench.program("u65").read_bytes())
    used = needs(program, 0)["fast scratch"]
    assert used > 0
    check_fit(
        program, read_runner(bench.runner("u65", pools={"fast scratch": used})), device_of("ethos-u65-256")
    )
    small = read_runner(bench.runner("u65", pools={"fast scratch": used - 1}))
    with refused("runner-pool-too-small"):
        check_fit(program, small, device_of("ethos-u65-256"))


def bare(pools, data=b""):
    return RunnerElf(Path("runner"), data, pools)


def test_that_a_pool_that_a_runner_lacks_has_no_bytes():
    with refused("runner-pool-too-small"):
        check_fit(Planned([0, 0, 1]), bare({"method": 9}), device_of("ethos-u55-128"))
    check_fit(Planned([0, 0, 0]), bare({"method": 9}), device_of("ethos-u55-128"))


@for_each(
    ("placement", "codes"), [("semihosting", ["runner-pool-too-small"]), ("embedded", []), ("bare", [])]
)
def test_that_only_a_runner_that_reads_the_program_needs_a_pool_for_files(bench, placement, codes):
    runner = read_runner(bench.runner(placement=placement, pools={"files": 9}))
    program = Program("net", bench.program().read_bytes())
    try:
        check_fit(program, runner, device_of("ethos-u55-128"))
        found = []
    except WorkbenchError as error:
        found = list(error.codes)
    assert found == codes
    small = read_runner(bench.runner(placement=placement, pools={"method": 9}))
    with refused("runner-pool-too-small"):
        check_fit(program, small, device_of("ethos-u55-128"))


def test_that_a_program_alone_needs_no_room_for_inputs(bench):
    program = Program("net", bench.program().read_bytes())
    runner = read_runner(bench.runner(pools={"files": len(program.data)}))
    check_fit(program, runner, device_of("ethos-u55-128"))
    with refused("runner-pool-too-small"):
        check_fit(program, runner, device_of("ethos-u55-128"), 1)


@for_each("needed", [1, 65535, 65536, 100_000, 1 << 20])
def test_that_a_pool_of_whole_steps_with_room_is_advised(needed):
    with refused("runner-pool-too-small") as caught:
        check_fit(Planned([needed]), bare({"method": 0}), device_of("ethos-u55-128"))
    advised = int(caught.value.infos[0].hint.rpartition("=")[2].rstrip("."))
    assert advised % 65536 == 0
    assert 65536 < advised - needed <= 2 * 65536


@for_each(
    ("pools", "mark", "notes"),
    [
        ({}, b"", ["no symbols", "is unknown"]),
        ({"method": 9}, b"", ["is unknown"]),
        ({"method": 9}, b"ETHOSU_PMU_SRAM_RD_DATA_BEAT_RECEIVED", []),
        ({"method": 9}, b"ETHOSU_PMU_AXI0_RD_DATA_BEAT_RECEIVED", ["U55 and U65"]),
        ({"method": 4999}, b"ETHOSU_PMU_SRAM_RD_DATA_BEAT_RECEIVED", ["need of 5,000 bytes"]),
        ({"method": 5000}, b"ETHOSU_PMU_SRAM_RD_DATA_BEAT_RECEIVED", []),
        ({"method": 1}, b"ETHOSU_PMU_SRAM_RD_DATA_BEAT_RECEIVED", ["need of 5,000 bytes"]),
    ],
)
def test_that_what_could_not_be_checked_is_noted(pools, mark, notes):
    program = Planned([1], method_pool=5000 if pools.get("method") != 9 else 9)
    found = check_fit(program, bare(pools, mark), device_of(device_for(mark)))
    assert len(found) == len(notes)
    assert all(words in note for words, note in zip(notes, found, strict=True))


def device_for(mark):
    return "ethos-u85-256" if b"SRAM" in mark else "ethos-u55-128"


@for_each(
    ("dedicated", "mode", "words"),
    [(True, "Shared_Sram", "with an SRAM"), (False, "Dedicated_Sram", "without an SRAM")],
)
def test_that_a_memory_mode_that_differs_is_told_with_that_of_the_runner(dedicated, mode, words):
    specs = {"compile_flags": f"--verbose --memory-mode={mode}"}
    program = Planned([], delegates=({"compile_specs": specs, "external_blocks": {}},))
    runner = bare({"fast scratch": 9} if dedicated else {"method": 9}, b"EthosUBackend\0")
    with refused("runner-memory-mode-mismatch") as caught:
        check_fit(program, runner, device_of("ethos-u65-256"))
    assert words in caught.value.infos[0].message


@for_each(
    ("change", "code"),
    [
        (lambda data: b"PK\3\4" + data, "runner-not-elf"),
        (lambda data: data[:18] + b"\x3e\0" + data[20:], "runner-wrong-architecture"),
        (lambda data: data[:200], "runner-damaged"),
        (lambda data: b"", "runner-not-elf"),
        (lambda data: data[:51], "runner-not-elf"),
        (lambda data: data[:18] + b"\x3e\0" + data[20:52], "runner-wrong-architecture"),
        (lambda data: data[:4] + b"\2" + data[5:], "runner-wrong-architecture"),
        (lambda data: with_section(data, 2, 5, 1 << 30), "runner-damaged"),
        (lambda data: with_section(data, 3, 5, 1 << 30), "runner-damaged"),
    ],
)
def test_that_what_is_no_runner_is_refused(bench, change, code):
    path = bench.runner()
    path.write_bytes(change(path.read_bytes()))
    with refused(code):
        read_runner(path)


def test_that_a_device_no_simulator_has_is_refused_with_those_there_are():
    for name in ("ethos-u55-12", "ethos-u55", "ethos", "cortex-u55-128", "ethos-u55-128-x", ""):
        with refused("simulator-device-unknown"):
            device_of(name)
    with pytest.raises(WorkbenchError) as caught:
        device_of("cortex-m")
    assert "ethos-u85-256" in caught.value.infos[0].hint


def test_that_the_command_line_is_the_one_of_the_toolchains_own_script(tmp_path):
    run = Run(device_of("ethos-u85-256"), "semihosting", 2, fast=True, timelimit_s=60)
    assert command(tmp_path / "FVP_Corstone_SSE-320", tmp_path, run) == [
        str(tmp_path / "FVP_Corstone_SSE-320"),
        "-C",
        "mps4_board.subsystem.ethosu.num_macs=256",
        "-C",
        "mps4_board.visualisation.disable-visualisation=1",
        "-C",
        "vis_hdlcd.disable_visualisation=1",
        "-C",
        "mps4_board.telnetterminal0.start_telnet=0",
        "-C",
        "mps4_board.uart0.out_file='-'",
        "-C",
        "mps4_board.uart0.unbuffered_output=1",
        "-C",
        "mps4_board.uart0.shutdown_on_eot=1",
        "-C",
        "mps4_board.subsystem.ethosu.extra_args='--fast'",
        "-C",
        "mps4_board.subsystem.cpu0.semihosting-enable=1",
        "-C",
        "mps4_board.subsystem.cpu0.semihosting-stack_base=0",
        "-C",
        "mps4_board.subsystem.cpu0.semihosting-heap_limit=0",
        "-C",
        f"mps4_board.subsystem.cpu0.semihosting-cwd={tmp_path}",
        "-C",
        "mps4_board.subsystem.cpu0.semihosting-cmd_line="
        "'executor_runner -m program.pte -o out -i i0.bin -i i1.bin'",
        "-a",
        "runner.elf",
        "--timelimit",
        "60",
    ]


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
    scratch = bench.simulator(folder="et/examples/arm/arm-scratch/FVP_corstone300/models/Linux64")
    assert find(U55, MachineSettings(executorch=str(tmp_path / "et"))).path == scratch
    usual = bench.simulator(folder="home/FVP_Corstone_SSE-300/models/Linux64_GCC-9.3")
    assert find(U55, settings).path == usual
    on_path = bench.simulator(folder="bin")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert find(U55, settings).path == on_path
    named = bench.simulator(folder="opt/models/Linux64")
    configured = MachineSettings(simulators={"u55": str(tmp_path / "opt")})
    assert find(U55, configured).path == named
    assert [bool(found) for _, found in find_all(configured)] == [True, False, False]


def test_that_a_simulator_that_cannot_start_says_why(bench, monkeypatch):
    path = bench.simulator()
    found = find(U55, MachineSettings(), str(path))
    check(found)
    assert version_of(found) == "11.27.42"
    path.chmod(0o644)
    with refused("simulator-not-executable"):
        check(found)
    path.chmod(0o755)
    hosts = {"x86_64": 62, "AMD64": 62, "aarch64": 183, "arm64": 183}
    names = {3: "x86;", 40: "32-bit Arm;", 62: "x86-64;", 183: "64-bit Arm;", 243: "machine 243;"}
    for host, own in hosts.items():
        monkeypatch.setattr(platform, "machine", lambda host=host: host)
        for machine, named in names.items():
            head = b"\x7fELF\1\1\1" + bytes(11) + machine.to_bytes(2, "little")
            for data in (head, head + bytes(30)):
                path.write_bytes(data)
                if machine == own:
                    check(found)
                    continue
                with refused("simulator-wrong-architecture") as error:
                    check(found)
                assert f"is built for {named}" in error.value.infos[0].message
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
    assert made == {"LD_LIBRARY_PATH": f"{tmp_path}/python/lib:/before", "PYTHONHOME": f"{tmp_path}/python"}


def test_that_machine_settings_survive_and_damaged_ones_are_told():
    settings = MachineSettings(simulators={"u85": "/a b/ö"}, runners=("/r.elf",))
    save_settings(settings)
    assert load_settings() == settings
    settings_path().write_text("{")
    with refused("machine-settings-damaged"):
        load_settings()


def test_that_machine_settings_that_others_can_change_are_not_used():
    """They name programs that are started."""
    save_settings(MachineSettings(simulators={"u85": "/fvp"}))
    for path in (settings_path(), settings_path().parent):
        mode = path.stat().st_mode
        path.chmod(0o777)
        with refused("machine-settings-open-to-others"):
            load_settings()
        path.chmod(mode)
    assert load_settings().simulators == {"u85": "/fvp"}


def test_that_machine_settings_have_defaults_and_limits():
    """The defaults are those of the guide: 115200 baud, exact runs without a trace."""
    link, settings = BoardLink(port="x"), MachineSettings()
    assert (link.baud, link.simulate) == (115200, False)
    assert (settings.fast, settings.trace) == (False, False)
    assert (link.timeout_s, settings.timeout_s) == (2 * 60, 10 * 60)
    assert BoardLink(port="x", baud=1, timeout_s=0.5).timeout_s == 0.5
    assert MachineSettings(timeout_s=0.5).timeout_s == 0.5
    for fields in ({"baud": 0}, {"timeout_s": 0}, {"timeout_s": float("inf")}, {"port": ""}):
        with pytest.raises(ValidationError):
            BoardLink(**{"port": "x", **fields})
    with pytest.raises(ValidationError):
        MachineSettings(timeout_s=0)


def test_that_runners_are_kept_beside_the_settings():
    assert runners_folder().parent == settings_path().parent
    assert runners_folder() != settings_path()


def test_that_projects_run_on_a_board_only_where_that_is_set():
    assert simulating_board() is None
    link = BoardLink(port="x")
    save_settings(MachineSettings(board=link))
    assert simulating_board() is None
    simulating = link.model_copy(update={"simulate": True})
    save_settings(MachineSettings(board=simulating))
    assert simulating_board() == simulating
    settings_path().write_text("{")
    assert simulating_board() is None


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
    assert (made.device.target, made.runner.path, made.installed.path) == ("ethos-u55-128", first, simulator)
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
