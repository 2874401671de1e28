"""A runner is built from a checkout with pools that fit the program, and then runs it."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import pytest

from tests.fakes import checkout, runner_elf
from tests.for_each import for_each
from tests.problems import refused
from tests.processes import command_lines
from tests.workbench.deploy.simulators.conftest import PROGRAMS, TARGETS, samples
from workbench.deploy.simulators import runner_build
from workbench.deploy.simulators.compatibility import Program, read_runner
from workbench.deploy.simulators.discovery import Installed, device_of
from workbench.deploy.simulators.process import Ending
from workbench.deploy.simulators.run import Job, run
from workbench.deploy.simulators.runner_build import (
    ELF,
    SETUP,
    Build,
    Watching,
    arguments,
    build_runner,
    diagnoses_of,
    known_checkouts,
)
from workbench.errors import Cancelled, WorkbenchError

DATA = Path(__file__).parents[3] / "data" / "programs"
ONE_QUICK = ["u55", *(pytest.param(f, marks=pytest.mark.slow) for f in ("u65", "u85"))]


@pytest.fixture
def build(tmp_path, monkeypatch):
    """A function that builds in folders of the test's own."""
    monkeypatch.setenv("PATH", f"{checkout.tools(tmp_path / 'tools')}:/usr/bin:/bin")
    sources = checkout.make(tmp_path / "executorch")

    def made(family="u55", watching=None, **fields):
        program = Program("program.pte", (PROGRAMS / family / "program.pte").read_bytes())
        wanted = Build(sources, program, **fields)
        place = tmp_path / "runners" / wanted.name
        return build_runner(wanted, tmp_path / "tree", place, watching or Watching())

    return made


@pytest.mark.parametrize("family", ONE_QUICK)
def test_that_a_built_runner_runs_its_program(bench, build, tmp_path, family):
    lines, shares = [], []
    runner = build(family, Watching(lines.append, shares.append))
    assert shares == [0.0, 0.25, 0.5, 1.0, 1.0]
    assert any("Configuring done" in line for line in lines)
    device = device_of(TARGETS[family])
    bench.program(family)
    data = (PROGRAMS / family / "program.pte").read_bytes()
    job = Job(
        Installed(device.simulator, bench.simulator(family), "named"),
        runner,
        Program("program.pte", data),
        device,
        samples(2),
        timeout_s=30.0,
    )
    report = run(job, tmp_path / "uart.log").report
    assert report.succeeded, report.last_lines
    assert report.exit_reason.startswith("All 2 samples")


def test_that_a_program_can_be_built_in_with_pools_of_its_own_size(build):
    runner = build(program_source="embedded")
    assert runner.placement == "embedded"
    assert (PROGRAMS / "u55" / "program.pte").read_bytes() in runner.data
    assert set(runner.pools.values()) == {65536}


def test_that_a_runner_with_its_program_is_named_by_the_content(tmp_path):
    data = (PROGRAMS / "u55" / "program.pte").read_bytes()
    digest, program = hashlib.sha256(data).hexdigest()[:8], Program("p", data)
    named = {
        f"ethos-u55-128-shared_sram-embedded-{digest}": Build(tmp_path, program, "embedded"),
        "ethos-u55-128-shared_sram-semihosting": Build(tmp_path, program),
        "ethos-u55-128-shared_sram-semihosting-etdump": Build(tmp_path, program, etdump=True),
        "ethos-u55-128-shared_sram-address-1000": Build(tmp_path, program, "address", 0x1000),
        "ethos-u55-128-shared_sram-address-0": Build(tmp_path, program, "address"),
    }
    assert [build.name for build in named.values()] == list(named)


def test_that_a_runner_for_an_address_says_so_to_the_script(build, tmp_path):
    program = Program("program.pte", (PROGRAMS / "u55" / "program.pte").read_bytes())
    wanted = Build(tmp_path, program, "address", address=0x62000000)
    assert "--pte=0x62000000" in arguments(wanted, tmp_path, tmp_path / "x.pte")
    assert build(program_source="address", address=0x62000000).placement == "bare"


def test_that_the_arguments_are_those_of_the_real_script(tmp_path):
    """Every option in the form that the script of the checkout reads it."""
    data = (PROGRAMS / "u85" / "program.pte").read_bytes()
    words = arguments(Build(tmp_path, Program("p", data), etdump=True), tmp_path, tmp_path)
    assert words[2:5] == ["--pte=semihosting", "--target=ethos-u85-256", "--build_type=Release"]
    assert "--system_config=Ethos_U85_SYS_DRAM_Mid" in words
    assert "--memory_mode=Dedicated_Sram_384KB" in words
    assert "--etdump" in words
    (flags,) = (word for word in words if word.startswith("--extra_build_flags="))
    assert "-DET_ARM_BAREMETAL_SCRATCH_TEMP_ALLOCATOR_POOL_SIZE=67108864" in flags


@for_each(
    ("how", "cause"),
    [
        ("toolchain", "The Arm GNU toolchain was not found."),
        ("overflow", "The runner does not fit the memory of the simulated board."),
        ("python", "A Python package that ExecuTorch's code generation needs is missing."),
        ("disk", "The disk is full."),
    ],
)
def test_that_a_build_that_fails_says_why(build, monkeypatch, how, cause):
    monkeypatch.setenv("BUILD_DOUBLE_FAIL", how)
    with pytest.raises(WorkbenchError) as caught:
        build()
    first, second, *_ = caught.value.infos
    assert first.code == "runner-build-failed"
    assert "build.log" in first.hint
    assert (second.message, second.details) == (cause, checkout.FAILURES[how])
    assert second.hint


def test_that_an_unknown_failure_keeps_the_last_lines(build, monkeypatch):
    monkeypatch.setenv("BUILD_DOUBLE_FAIL", "unknown")
    with pytest.raises(WorkbenchError) as caught:
        build()
    (info,) = caught.value.infos
    assert info.details.splitlines()[-2:] == ["-- Configuring done (1.2s)", "something nobody has seen"]


def test_that_a_build_without_a_runner_is_no_success(build, monkeypatch):
    monkeypatch.setenv("BUILD_DOUBLE_FAIL", "nothing")
    with refused("build-output-missing"):
        build()


def test_that_a_cancelled_build_leaves_no_process(build, monkeypatch, tmp_path):
    monkeypatch.setenv("BUILD_DOUBLE_FAIL", "hang")
    heard = []
    with pytest.raises(Cancelled):
        build(watching=Watching(heard.append, cancelled=lambda: len(heard) > 1))
    assert not [line for line in command_lines() if str(tmp_path) in line]


def test_that_a_build_that_fails_keeps_the_runner_of_before(build, monkeypatch):
    before = build().path
    monkeypatch.setenv("BUILD_DOUBLE_FAIL", "overflow")
    with pytest.raises(WorkbenchError):
        build()
    assert read_runner(before).placement == "semihosting"


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda root: (root / SETUP).unlink(), "checkout-not-set-up"),
        (lambda root: (root / "backends").rename(root / "x"), "checkout-invalid"),
    ],
)
def test_that_a_checkout_that_cannot_build_is_refused_before(build, tmp_path, spoil, code):
    spoil(tmp_path / "executorch")
    with refused(code) as caught:
        build()
    assert caught.value.infos[0].hint


ODD = ("my sources", "a;b", "a'b", 'a"b', "a$(touch x)b", "a\nb", "a`x`", "a\\b", "a&b", "ä", "a#b", "(a)")


@for_each("name", ODD)
def test_that_a_path_that_scripts_interpret_is_refused_before(tmp_path, monkeypatch, name):
    monkeypatch.setenv("PATH", f"{checkout.tools(tmp_path / 'tools')}:/usr/bin:/bin")
    sources = checkout.make(tmp_path / name / "executorch")
    program = small_program()
    with refused("checkout-path-invalid"):
        build_runner(Build(sources, program), tmp_path / "t", tmp_path / "r", Watching())
    plain = checkout.make(tmp_path / "plain" / "executorch")
    with refused("build-folder-invalid"):
        build_runner(Build(plain, program), tmp_path / "t" / name, tmp_path / "r", Watching())
    assert not (tmp_path / "t").exists()
    assert not (tmp_path / "r").exists()


@functools.cache
def small_program():
    return Program("program.pte", (PROGRAMS / "u55" / "program.pte").read_bytes())


class Named(Program):
    """A program that contains other names; all of them come from its bytes."""

    config, mode, called = "", "Sram_Only", ("aten::add.out",)
    system_config = property(lambda self: self.config)
    memory_mode = property(lambda self: self.mode)

    @property
    def description(self):
        return {**small_program().description, "kernels": list(self.called)}


class Sized(Named):
    """A program with an input of 1 MiB."""

    @property
    def description(self):
        memory = {"planned_bytes": [9], "method_pool_bytes": 100_000}
        inputs = [{"type": "tensor", "dtype": "int16", "shape": [512, 1024]}]
        return {**super().description, "memory": memory, "inputs": inputs}


def sized(mode="Sram_Only"):
    program = Sized("program.pte", small_program().data)
    object.__setattr__(program, "mode", mode)
    return program


def test_that_pools_have_a_quarter_more_than_the_need_in_steps_of_64_kib(tmp_path):
    pools = Build(tmp_path, sized(), "embedded").pools
    # 1 MiB and a quarter; 125,000 bytes; the scratch pool of the program needs 1 KiB.
    assert pools == {"files": 20 * 65536, "method": 2 * 65536, "scratch": 65536}
    assert "files" not in Build(tmp_path, sized(), "address").pools


def test_that_a_runner_for_any_program_has_at_least_the_pools_of_the_toolchain(tmp_path):
    """The defaults are those of ExecuTorch's examples/arm/executor_runner/CMakeLists.txt."""
    mib = 1 << 20
    assert Build(tmp_path, sized()).pools == {"method": 60 * mib, "files": 60 * mib, "scratch": 2 * mib}
    assert Build(tmp_path, sized("Dedicated_Sram")).pools["scratch"] == 64 * mib


def test_that_kernels_are_chosen_by_name_unless_the_program_is_built_in(tmp_path):
    for wanted, chosen in (("semihosting", True), ("address", True), ("embedded", False)):
        words = arguments(Build(tmp_path, sized(), wanted), tmp_path, tmp_path)
        assert ("--select_ops_list=aten::add.out" in words) == chosen
        assert any(word.startswith("--select_ops_list") for word in words) == chosen
    assert not any("select" in w for w in arguments(Build(tmp_path, small_program()), tmp_path, tmp_path))


def test_that_the_details_of_a_failure_are_its_last_twenty_lines(tmp_path):
    (info,) = diagnoses_of([str(number) for number in range(30)], tmp_path / "log")
    assert info.details.split() == [str(number) for number in range(10, 30)]


@pytest.fixture
def built(tmp_path, monkeypatch):
    """A function that builds with a script that only prints a text and leaves some files."""
    monkeypatch.setenv("PATH", f"{checkout.tools(tmp_path / 'tools')}:/usr/bin:/bin")
    sources = checkout.make(tmp_path / "executorch")

    def made(text="", leave=lambda output: None, place="runners", watching=None):
        def execute(words, tree, *rest):
            rest[-1].text(text)
            leave(tree / "cmake-out")
            return Ending("itself", 0)

        monkeypatch.setattr(runner_build, "execute", execute)
        build = Build(sources, small_program())
        return build_runner(build, tmp_path / "tree", tmp_path / place, watching or Watching())

    return made


def test_that_progress_is_read_as_percents_and_as_steps_and_is_never_more_than_whole(built):
    shares = []
    text = "[ 50%] x\n[150%] x\n[3/4] x\n[9/4] x\n[1/0] x\nx [1/2]\n[0/4] x\n"
    with refused("build-output-missing"):
        built(text, watching=Watching(progress=shares.append))
    assert shares == [0.5, 1.0, 0.75, 1.0, 0.0]


def leave_runner(folder):
    folder.mkdir(exist_ok=True)
    (folder / ELF).write_bytes(runner_elf.runner("u55"))


def test_that_a_runner_is_kept_in_a_new_folder_or_over_the_one_before(built, tmp_path):
    for _ in range(2):
        runner = built(leave=leave_runner, place="a/b/c")
        assert runner.path == tmp_path / "a" / "b" / "c" / ELF


def test_that_folders_and_links_are_not_taken_for_the_runner(built, tmp_path):
    def leave(output):
        leave_runner(tmp_path / "elsewhere")
        (output / ELF).mkdir()
        (output / "nested").mkdir()
        (output / "nested" / ELF).symlink_to(tmp_path / "elsewhere" / ELF)

    with refused("build-output-missing"):
        built(leave=leave)


INJECTED = (
    "x -DCMAKE_TOOLCHAIN_FILE=/evil",
    "x;-DA=B",
    "../../x",
    "$(touch x)",
    "a`b`",
    "a\nb",
    "-DX",
    "x" * 300,
    "a,b",
    "a/b",
    "ä",
)


@for_each("name", INJECTED)
@for_each("place", ["config", "mode", "called"])
def test_that_a_name_in_a_program_does_not_become_a_part_of_the_build(tmp_path, name, place):
    program = Named("program.pte", (PROGRAMS / "u55" / "program.pte").read_bytes())
    assert Build(tmp_path, program).name
    object.__setattr__(program, place, (name,) if place == "called" else name)
    with refused("program-name-invalid") as caught:
        Build(tmp_path, program)
    assert caught.value.infos[0].message.isprintable()


def test_that_a_build_writes_through_no_link(build, tmp_path):
    victim, tree = tmp_path / "victim", tmp_path / "tree"
    victim.write_bytes(b"kept")
    tree.mkdir()
    for name in ("program.pte", "build.log"):
        (tree / name).symlink_to(victim)
    assert build().placement == "semihosting"
    assert victim.read_bytes() == b"kept"


@pytest.mark.parametrize("linked", ["tree", "tree/cmake-out"])
def test_that_a_linked_build_folder_is_refused_and_stays(build, tmp_path, linked):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_bytes(b"kept")
    (tmp_path / linked).parent.mkdir(exist_ok=True)
    (tmp_path / linked).symlink_to(elsewhere)
    with refused("build-folder-linked"):
        build()
    assert [path.name for path in elsewhere.iterdir()] == ["file"]


def test_that_foreign_files_in_a_build_folder_stay(build, tmp_path):
    tree = tmp_path / "tree" / "cmake-out"
    tree.mkdir(parents=True)
    (tree / "thesis.txt").write_text("kept")
    (tree / "arm_executor_runner").symlink_to("/dev/zero")
    (tree.parent / "notes").write_text("kept")
    build()
    assert (tree / "thesis.txt").read_text() == (tree.parent / "notes").read_text() == "kept"


def test_that_the_environment_does_not_change_the_script(build, monkeypatch, tmp_path):
    (tmp_path / "evil").write_text(f"touch {tmp_path}/ran\n")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "evil"))
    monkeypatch.setenv("CDPATH", "/")
    build()
    assert not (tmp_path / "ran").exists()


def test_that_a_missing_tool_is_named(build, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with refused("build-tool-missing"):
        build()


def test_that_a_program_for_no_npu_cannot_have_a_runner():
    program = Program("x.pte", (PROGRAMS.parent / "no_delegate.pte").read_bytes())
    with refused("program-npu-unknown"):
        _ = Build(PROGRAMS, program).target


def test_that_a_checkout_of_another_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{checkout.tools(tmp_path / 'tools')}:/usr/bin:/bin")
    program = Program("program.pte", (PROGRAMS / "u55" / "program.pte").read_bytes())
    wanted = Build(checkout.make(tmp_path / "et"), program)
    with refused("checkout-name-invalid"):
        build_runner(wanted, tmp_path / "tree", tmp_path / "place", Watching())


def test_that_a_program_without_delegates_is_built_for_the_device_that_is_named(tmp_path):
    data = (DATA / "no_delegate.pte").read_bytes()
    plain = Build(tmp_path, Program("program.pte", data))
    with refused("program-npu-unknown"):
        arguments(plain, tmp_path, tmp_path)
    named = Build(tmp_path, Program("program.pte", data), npu="ethos-u55-128")
    assert "--target=ethos-u55-128" in arguments(named, tmp_path, tmp_path)


def test_that_a_checkout_is_searched_where_it_is_named_or_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert known_checkouts("") == [tmp_path / "executorch"]
    assert known_checkouts("~/mine") == [tmp_path / "mine"]
    monkeypatch.chdir(tmp_path)
    assert known_checkouts("other") == [tmp_path / "other"]
