"""``workbench firmware``: what is refused before anything runs."""

import contextlib
import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.problems import refused as refused_problem
from workbench import cli
from workbench.deploy.emulation import firmware_project, qemu
from workbench.deploy.emulation.firmware_elf import FirmwareElf
from workbench.deploy.emulation.proofs import proofs_of
from workbench.errors import Place, WorkbenchError
from workbench.tool_output import ToolOutput

PROGRAMS = Path(__file__).parents[2] / "data" / "programs"
PROGRAM = PROGRAMS / "integer" / "u55" / "program.pte"
EMULATES = shutil.which("qemu-system-arm") and shutil.which("arm-none-eabi-gcc")
needs_emulation = pytest.mark.skipif(not EMULATES, reason="needs QEMU and the Arm GNU toolchain")


@pytest.fixture
def refused(codes):
    def refuse(*words):
        assert cli.main(["firmware", *map(str, words)]) in {1, 2}
        return codes[-1]

    return refuse


def test_that_files_that_are_no_firmware_are_refused(refused, tmp_path):
    (tmp_path / "text.elf").write_text("no firmware")
    assert refused("prove", tmp_path / "text.elf", PROGRAM) == "firmware-not-elf"
    other = Path(sys.executable).resolve().read_bytes()[:3000]
    # Arm, 32 bits, and sections behind the end.
    cut = bytearray(other[:4] + b"\1" + other[5:18] + b"\x28\0" + other[20:])
    cut[32:36], cut[46:50] = b"\0\0\1\0", b"\x28\0\5\0"
    (tmp_path / "cut.elf").write_bytes(cut)
    assert refused("prove", tmp_path / "cut.elf", PROGRAM) == "firmware-not-elf"
    (tmp_path / "cut-and-other.elf").write_bytes(other)
    assert refused("prove", tmp_path / "cut-and-other.elf", PROGRAM) == "firmware-other-processor"
    os.mkfifo(tmp_path / "pipe.elf")
    assert refused("prove", tmp_path / "pipe.elf", PROGRAM) == "firmware-unreadable"
    assert refused("prove", Path(sys.executable).resolve(), PROGRAM) == "firmware-other-processor"


def test_that_firmware_goes_into_a_folder_that_can_be_written(refused, tmp_path):
    (tmp_path / "file").touch()
    assert refused("new", PROGRAM, "--out", tmp_path / "file" / "a") == "file-not-writable"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere")
    assert refused("new", PROGRAM, "--out", tmp_path / "link") == "file-not-writable"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_that_damaged_firmware_is_refused_or_read(tmp_path):
    whole = bytearray(Path(sys.executable).resolve().read_bytes()[: 1 << 16])
    draw, path = random.Random(1), tmp_path / "damaged.elf"
    for _ in range(60):
        data = bytearray(whole)
        for at in draw.sample(range(16, 64), 3):
            data[at] = draw.choice((0, 1, 255))
        path.write_bytes(data)
        with contextlib.suppress(WorkbenchError):
            FirmwareElf(path)


def test_that_programs_without_this_npu_are_refused(refused, tmp_path):
    elf = Path(sys.executable)
    for name in ("no_delegate.pte", "xnnpack.pte"):
        assert refused("prove", elf, PROGRAMS / name) == "program-without-npu"
        assert refused("new", PROGRAMS / name, "--out", tmp_path / "new") == "program-without-npu"
    assert not (tmp_path / "new").exists()
    words = ("prove", elf, PROGRAM, "--target", "ethos-u85-256")
    assert refused(*words) == "program-for-other-npu"


def test_that_new_firmware_has_the_program_and_says_how_it_is_built(tmp_path, capsys):
    assert cli.main(["firmware", "new", str(PROGRAM), "--out", str(tmp_path / "f"), "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert {"main.c", "mps3_an547.ld", "program.h", "program.S", "firmware.json"} <= set(files)
    assert all((tmp_path / "f" / name).stat().st_size for name in files)


def test_that_a_build_without_sources_is_refused(refused, tmp_path):
    driver = Path(__file__).parents[2] / "firmware" / "own_driver"
    here = ("build", tmp_path)
    assert refused(*here, "--driver", tmp_path, "--cmsis", driver) == "driver-checkout-missing"
    assert refused(*here, "--driver", driver, "--cmsis", tmp_path) == "cmsis-checkout-missing"
    sources = ("--driver", driver, "--cmsis", driver / "cmsis")
    assert refused(*here, *sources) == "firmware-project-missing"
    for target in ("x", "ethos-u55-128-4", "ethos-u55-a b", "ethos-../x-1"):
        (tmp_path / "firmware.json").write_text(json.dumps({"target": target}))
        assert refused(*here, *sources) == "firmware-project-missing"


@pytest.mark.parametrize(
    "words",
    [
        ("--irq", "3"),
        ("--irq", "4000"),
        ("--base", "-4"),
        ("--delay", "nan"),
        ("--delay", "-1"),
        ("--limit", "0"),
    ],
)
def test_that_values_out_of_their_range_are_refused(refused, words):
    assert refused("prove", sys.executable, PROGRAM, *words) == "board-value-invalid"


@needs_emulation
def test_that_firmware_is_built_and_proven(tmp_path, capsys):
    driver, folder = Path(__file__).parents[2] / "firmware" / "own_driver", tmp_path / "f"
    assert cli.main(["firmware", "new", str(PROGRAM), "--out", str(folder)]) == 0
    words = ["build", folder, "--driver", driver, "--cmsis", driver / "cmsis"]
    assert cli.main(["firmware", *map(str, words)]) == 0
    capsys.readouterr()
    elf = str(folder / "firmware.elf")
    assert cli.main(["firmware", "prove", elf, str(PROGRAM), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["kind"]) == ("proven", "emulated")
    assert (found["driver"], found["kept"]) == ("0.0.1", True)
    assert [row.firmware for row in proofs_of(found["program_sha256"])] == ["firmware.elf"]
    assert len(found["jobs"]) == 1
    assert not [check for check in found["checks"] if check["held"] is False]


@needs_emulation
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("victim")])
def test_that_firmware_takes_the_place_of_a_pipe_or_a_link(tmp_path, make):
    driver, folder = Path(__file__).parents[2] / "firmware" / "own_driver", tmp_path / "f"
    assert cli.main(["firmware", "new", str(PROGRAM), "--out", str(folder)]) == 0
    (folder / "victim").write_bytes(b"kept")
    make(folder / "firmware.elf")
    words = ["build", folder, "--driver", driver, "--cmsis", driver / "cmsis"]
    assert cli.main(["firmware", *map(str, words)]) == 0
    assert (folder / "firmware.elf").read_bytes()[:4] == b"\x7fELF"
    assert not (folder / "firmware.elf").is_symlink()
    assert (folder / "victim").read_bytes() == b"kept"


def asking(folder, *calls):
    """Return firmware that makes calls of semihosting: a number, and a text or a mode with its text."""
    words, texts = [], []
    for number, (operation, text, *more) in enumerate(calls):
        words += [f"movs r0, #{operation}", f"ldr r1, =block{number}", "bkpt 0xab"]
        size = len(text)
        texts.append(f"block{number}: .word text{number}, {', '.join(map(str, [*more, size]))}")
        texts.append(f'text{number}: .asciz "{text}"')
        texts.append(".align 2")
    source = [
        ".syntax unified", ".thumb", '.section .vectors, "a"', ".word 0x20001000, reset + 1", ".text",
        ".thumb_func", ".global reset", ".type reset, %function", "reset:", *words, "1: b 1b", ".ltorg",
        ".section .rodata", ".align 2", *texts,
    ]  # fmt: skip
    (folder / "asking.S").write_text("\n".join(source) + "\n")
    (folder / "asking.ld").write_text(
        "MEMORY { I : ORIGIN = 0, LENGTH = 512K }\n"
        "SECTIONS { .t : { KEEP(*(.vectors)) *(.text*) *(.rodata*) } > I }\n"
    )
    words = ["-mcpu=cortex-m33", "-mthumb", "-nostdlib", "-T", "asking.ld", "asking.S", "-o", "asking.elf"]
    subprocess.run(["arm-none-eabi-gcc", *words], cwd=folder, check=True)
    return folder / "asking.elf"


SYS_OPEN, SYS_REMOVE, SYS_SYSTEM = 0x01, 0x0E, 0x12
TO_WRITE = 4


@needs_emulation
def test_that_firmware_changes_no_files_and_starts_no_programs(tmp_path):
    """Semihosting of QEMU deletes any file of the user's, and runs commands of the shell."""
    (tmp_path / "inside").mkdir()
    kept = tmp_path / "kept"
    kept.write_text("kept")
    elf = asking(
        tmp_path,
        (SYS_SYSTEM, f"echo 1 > {tmp_path}/inside/run"),
        (SYS_REMOVE, str(kept)),
        (SYS_OPEN, f"{tmp_path}/outside", TO_WRITE),
        (SYS_OPEN, f"{tmp_path}/inside/written", TO_WRITE),
    )
    words = ["firmware", "prove", elf, PROGRAM, "--limit", "3", "--folder", tmp_path / "inside"]
    assert cli.main(list(map(str, words))) == 4
    assert kept.read_text() == "kept"
    assert not (tmp_path / "outside").exists()
    assert [path.name for path in (tmp_path / "inside").iterdir()] == ["written"]


@needs_emulation
def test_that_firmware_is_not_run_where_it_cannot_be_confined(refused, tmp_path, monkeypatch):
    def confined(*_):
        raise OSError(errno.ENOSYS, "there is no Landlock")

    monkeypatch.setattr(qemu, "confined", confined)
    elf = asking(tmp_path, (SYS_OPEN, f"{tmp_path}/written", TO_WRITE))
    assert refused("prove", elf, PROGRAM) == "emulation-not-confined"
    assert not (tmp_path / "written").exists()
    assert cli.main(["firmware", "prove", str(elf), str(PROGRAM), "--limit", "3", "--trust"]) == 4
    assert (tmp_path / "written").exists()


@needs_emulation
def test_that_firmware_that_never_reaches_the_driver_is_ended(tmp_path, capsys):
    (tmp_path / "main.c").write_text(
        "void reset(void) { for (;;); }\n"
        'const void *v[] __attribute__((section(".v"), used)) = '
        "{(void *)0x20001000, (void *)reset};\n"
    )
    elf = tmp_path / "loop.elf"
    subprocess.run(
        [
            "arm-none-eabi-gcc",
            "-mcpu=cortex-m55",
            "-mthumb",
            "-nostdlib",
            "-Wl,-Ttext=0x100",
            "-Wl,--section-start=.v=0",
            "-e",
            "reset",
            "-o",
            elf,
            tmp_path / "main.c",
        ],
        check=True,
    )
    words = ["prove", elf, PROGRAM, "--limit", "1", "--json"]
    assert cli.main(["firmware", *map(str, words)]) == 4
    found = json.loads(capsys.readouterr().out)
    assert {row["check"] for row in found["findings"]} == {"ends", "started"}
    assert found["exit_code"] is None


@needs_emulation
def test_that_names_with_signs_of_their_own_are_built(tmp_path):
    driver, folder = Path(__file__).parents[2] / "firmware" / "own_driver", tmp_path / "a b,c"
    program = tmp_path / "x*.pte"
    program.write_bytes(PROGRAM.read_bytes())
    assert cli.main(["firmware", "new", str(program), "--out", str(folder)]) == 0
    words = ["build", folder, "--driver", driver, "--cmsis", driver / "cmsis"]
    assert cli.main(["firmware", *map(str, words)]) == 0
    assert (folder / "firmware.elf").stat().st_size


def test_that_a_machine_without_room_for_its_memory_is_not_started(monkeypatch):
    """A write without room would kill QEMU, and look like a fault of the firmware."""
    room = {"/dev/shm": 1 << 20, tempfile.gettempdir(): 3 << 30}
    monkeypatch.setattr(qemu.os.path, "isdir", lambda _: True)
    monkeypatch.setattr(qemu.shutil, "disk_usage", lambda folder: SimpleNamespace(free=room[folder]))
    assert qemu._roomy_folder() == tempfile.gettempdir()
    room["/dev/shm"] = 3 << 30
    assert qemu._roomy_folder() == "/dev/shm"
    room.update(dict.fromkeys(room, 1 << 30))
    with refused_problem("emulation-without-room"):
        qemu._roomy_folder()


def test_that_a_machine_that_a_signal_ends_is_no_fault_of_the_firmware(tmp_path):
    machine = qemu.Qemu.__new__(qemu.Qemu)
    machine._folder = tmp_path
    machine.process = subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    with refused_problem("emulation-ended"):
        machine.exit_code()
    machine.process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
    assert machine.exit_code() == 7


def test_that_a_linked_file_without_end_is_refused(monkeypatch, tmp_path):
    def linked(words, _limit):
        with open(words[words.index("-o") + 1], "wb") as file:
            file.truncate(1 << 31)
        return ToolOutput("", 0)

    monkeypatch.setattr(firmware_project, "tool_output", linked)
    with refused_problem("firmware-build-failed"):
        firmware_project._run(["gcc"], [], Place(kind="file", id=str(tmp_path)))
