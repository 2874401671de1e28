"""``workbench firmware check``: what linked firmware has of what a program needs."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fakes import runner_elf
from tests.for_each import for_each
from workbench import cli
from workbench.deploy.simulators.compatibility import Program, needs

PROGRAMS = Path(__file__).parents[2] / "data" / "programs"
INTEGER = PROGRAMS / "integer" / "u55" / "program.pte"
FAST = PROGRAMS / "integer" / "u65" / "program.pte"
QUANTIZE = "quantized_decomposed::quantize_per_tensor.out"
DEQUANTIZE = "quantized_decomposed::dequantize_per_tensor.out"
COMPILER = "arm-none-eabi-gcc"
needs_compiler = pytest.mark.skipif(not shutil.which(COMPILER), reason="needs the Arm GNU toolchain")
# As a runtime registers: a table of names and functions. The type is in the debug information only.
SOURCE = """
struct EthosUBackend { int state; } instance;
struct kernel { const char *name; void (*function)(void); };
static void compute(void) { instance.state++; }
static const struct kernel table[] = { %(rows)s {0, 0} };
const struct kernel *volatile registered = table;
%(pools)s
__asm__(".section network_model_sec,\\"a\\"\\n.global model\\nmodel: .incbin \\"%(program)s\\"\\n.previous");
extern const unsigned char model[];
const unsigned char *volatile used = model;
int main(void) { return registered->name == (const char *)used; }
"""


def linked(folder, program, *, names, pools):
    """Return firmware that holds a program, registers names, and has pools of these sizes."""
    rows = "".join(f'{{"{name}", compute}},' for name in names)
    arrays = "\n".join(f"unsigned char volatile {name}[{size}];" for name, size in pools.items())
    keep = [f"-Wl,--undefined={name}" for name in pools]
    source, elf = folder / "firmware.c", folder / "firmware.elf"
    source.write_text(SOURCE % {"rows": rows, "pools": arrays, "program": program})
    words = ["-mcpu=cortex-m55", "-g", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
    subprocess.run(
        [COMPILER, *words, *keep, "-nostartfiles", "-nostdlib", "-Wl,--entry=main", source, "-o", elf],
        check=True,
    )
    return elf


def checked(capsys, elf, program, *words):
    code = cli.main(["firmware", "check", str(elf), str(program), "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def sizes(program, **changes):
    """Return arrays of a runner, exactly as large as a program needs."""
    wanted = needs(Program("net", program.read_bytes()), 0) | changes
    return {symbol: wanted[name] for name, symbol in runner_elf.POOL_SYMBOLS.items() if wanted[name]}


@needs_compiler
def test_that_firmware_with_pools_backend_and_kernels_holds_a_program(tmp_path, capsys):
    program = PROGRAMS / "u55.pte"
    names = ("EthosUBackend", QUANTIZE, DEQUANTIZE)
    elf = linked(tmp_path, program, names=names, pools=sizes(program))
    code, found = checked(capsys, elf, program)
    assert (code, found["verdict"], found["problems"]) == (0, "holds", [])
    assert found["linked"] == {"EthosUBackend": True, QUANTIZE: True, DEQUANTIZE: True}
    assert all(row["holds"] for row in found["pools"])
    assert {row["name"] for row in found["pools"]} == {"method", "scratch"}
    assert found["outputs"] == [{"output": 0, "until": "input", "inputs": [0]}]


@needs_compiler
def test_that_a_program_in_firmware_does_not_pass_for_its_kernels_and_backend(tmp_path, capsys):
    program = PROGRAMS / "u55.pte"
    elf = linked(tmp_path, program, names=(DEQUANTIZE,), pools=sizes(program))
    # The name of the backend is in the firmware: in the program, and in the debug information.
    assert program.read_bytes() in elf.read_bytes()
    assert elf.read_bytes().count(b"EthosUBackend\0") == 2
    code, found = checked(capsys, elf, program)
    assert (code, found["verdict"]) == (4, "lacks")
    assert {info["code"] for info in found["problems"]} == {
        "runner-without-ethos-u",
        "runner-kernels-missing",
    }
    assert found["linked"] == {"EthosUBackend": False, QUANTIZE: False, DEQUANTIZE: True}


@needs_compiler
def test_that_pools_of_other_names_are_named_by_the_user(tmp_path, capsys, codes):
    wanted = needs(Program("net", INTEGER.read_bytes()), 0)
    pools = {"planner_memory": wanted["method"], "npu_memory": wanted["scratch"] - 1}
    elf = linked(tmp_path, INTEGER, names=("EthosUBackend",), pools=pools)
    code, found = checked(capsys, elf, INTEGER)
    assert (code, [row["available"] for row in found["pools"]]) == (0, [None, None])
    assert any("not checked" in note for note in found["notes"])
    own = ("--pool", "method=planner_memory", "--pool", "scratch=npu_memory")
    code, found = checked(capsys, elf, INTEGER, *own)
    assert (code, {row["name"]: row["holds"] for row in found["pools"]}) == (
        4,
        {"method": True, "scratch": False},
    )
    assert cli.main(["firmware", "check", str(elf), str(INTEGER), "--pool", "method=nothing"]) == 2
    assert codes[-1] == "pool-symbol-missing"


@for_each(
    ("contents", "words", "code"),
    [
        (b"no firmware", (), "runner-not-elf"),
        (runner_elf.runner(machine=62), (), "runner-wrong-architecture"),
        (runner_elf.runner()[:300], (), "runner-damaged"),
        (runner_elf.runner(), ("--pool", "heap=a"), "pool-argument-invalid"),
        (runner_elf.runner(), ("--pool", "method="), "pool-argument-invalid"),
        (runner_elf.runner(), ("--pool", "method=nothing"), "pool-symbol-missing"),
    ],
)
def test_that_what_cannot_be_checked_is_refused(tmp_path, codes, contents, words, code):
    elf = tmp_path / "app.elf"
    elf.write_bytes(contents)
    assert cli.main(["firmware", "check", str(elf), str(INTEGER), *words]) in {1, 2}
    assert codes[-1] == code


def test_that_a_missing_program_is_told(tmp_path, codes):
    elf = tmp_path / "app.elf"
    elf.write_bytes(runner_elf.runner())
    assert cli.main(["firmware", "check", str(elf), str(tmp_path / "no.pte")]) in {1, 2}
    assert codes[-1] == "file-unreadable"
