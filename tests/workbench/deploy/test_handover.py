"""What goes to the firmware engineer says what the program says, and compiles to its bytes."""

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fakes.projects import make_project
from tests.fakes.results import result_of
from tests.for_each import for_each
from workbench.deploy import boards
from workbench.deploy.firmware_files import (
    assembly,
    c_header,
    cmake,
    components,
    cproject,
    file_stem,
    gather,
    kconfig,
    linker,
    region_settings,
)
from workbench.deploy.firmware_note import Code, Section, Table, html, markdown, sections, steps, title
from workbench.deploy.program_parts import program_parts
from workbench.project import edits
from workbench.project.board_files import SHIPPED
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject
from workbench.pte.description import describe
from workbench.results import AppliedRewrite, LowerResult
from workbench.targets.ethos_u.devices import MemoryUse
from workbench.targets.ethos_u.rewrites import REWRITES_BY_ID, STRIDES, TAILS

PROGRAMS = Path(__file__).parents[2] / "data" / "programs"
COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
ALL = sorted(path.name for path in PROGRAMS.glob("*.pte"))


def facts_of(name="u55.pte", folder=Path(), weights=None, board="", target=None):
    project = make_project()
    if target is not None:
        project = edits.set_target(project, target)
    if board:
        project = boards.put(OpenProject(project, folder), board)
    return gather(OpenProject(project, folder), (PROGRAMS / name).read_bytes(), weights)


def note(facts, rewrites=()):
    lowered = LowerResult(
        target=facts.choice.id,
        system_config="x",
        memory_mode="y",
        delegates=facts.delegates,
        delegated_nodes=1,
        pte_bytes=1,
        accelerated=True,
        cpu_nodes=(),
        kernels=facts.kernels,
        vela=(),
        vela_version="5.1.0",
        rewrites=rewrites,
    )
    return sections(facts, lowered, (), {"executorch": "1.5.1"}, [{"atol": 0.5, "rtol": 0.0}])


def test_that_the_note_names_what_was_rewritten():
    used = AppliedRewrite(id=STRIDES, state="on", places=("conv2d",))
    idle = AppliedRewrite(id=TAILS, state="on")
    program = markdown("net", note(facts_of(), (used, idle)))
    assert REWRITES_BY_ID[STRIDES].title in program
    assert REWRITES_BY_ID[TAILS].title not in program
    assert "Rewritten" not in markdown("net", note(facts_of()))


def built(folder, *sources):
    """Compile with the machine's compiler and return what the program prints."""
    done = subprocess.run(
        [COMPILER, *sources, "-o", "out"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return subprocess.run([folder / "out"], capture_output=True, check=True).stdout


def test_that_the_header_holds_the_program_and_its_length():
    facts = facts_of()
    text = c_header(facts.program, facts.stem).decode()
    assert bytes.fromhex("".join(re.findall(r"0x([0-9a-f]{2})\b", text))) == facts.program
    assert f"const unsigned int net_pte_len = {len(facts.program)}u;" in text
    assert "aligned(16)" in text


@pytest.mark.slow
@needs_compiler
def test_that_the_header_compiles_to_the_program(tmp_path):
    facts = facts_of()
    (tmp_path / "net.h").write_bytes(c_header(facts.program, facts.stem))
    (tmp_path / "main.c").write_text(
        '#include "net.h"\n#include <stdio.h>\n#include <stdint.h>\n'
        "int main(void) { return (uintptr_t)net_pte % 16 || "
        "fwrite(net_pte, 1, net_pte_len, stdout) != net_pte_len; }\n"
    )
    assert built(tmp_path, "main.c") == facts.program


def test_that_the_assembler_file_includes_program_and_weights_with_their_lengths():
    text = assembly(facts_of(weights=b"weights of odd length")).decode()
    for file, label in (("net.pte", "net_pte"), ("net.ptd", "net_ptd")):
        assert re.search(
            rf"\.balign 16\s+\.global {label}\n{label}:\s+\.incbin \"{file}\"\n{label}_end:", text
        )
        assert re.search(rf"\n{label}_len:\s+\.4byte {label}_end - {label}\n", text)
    assert "net_ptd" not in assembly(facts_of()).decode()


@pytest.mark.slow
@needs_compiler
def test_that_the_assembler_file_holds_program_and_weights(tmp_path):
    facts = facts_of(weights=b"weights of odd length")
    (tmp_path / "net.pte").write_bytes(facts.program)
    (tmp_path / "net.ptd").write_bytes(facts.weights)
    (tmp_path / "net.S").write_bytes(assembly(facts))
    (tmp_path / "main.c").write_text(
        "#include <stdio.h>\nextern const unsigned char net_pte[], net_ptd[];\n"
        "extern const unsigned int net_pte_len, net_ptd_len;\n"
        "int main(void) { fwrite(net_pte, 1, net_pte_len, stdout);\n"
        "  fwrite(net_ptd, 1, net_ptd_len, stdout); return 0; }\n"
    )
    assert built(tmp_path, "main.c", "net.S") == facts.program + facts.weights


@for_each("name", ALL)
def test_that_pools_and_kernels_are_those_of_the_program(name, tmp_path):
    facts, seen = facts_of(name), describe((PROGRAMS / name).read_bytes())
    pools = seen["memory"]
    assert f"METHOD_ALLOCATOR_POOL_SIZE {pools['method_pool_bytes']} " in cmake(facts)
    assert f"METHOD_ALLOCATOR_POOL_SIZE={pools['method_pool_bytes']}\n" in kconfig(facts)
    assert f'SELECT_OPS_LIST "{",".join(seen["kernels"])}"' in cmake(facts)
    asks = bool(seen["delegates"])
    assert (f"TEMP_ALLOCATOR_POOL_SIZE={pools['scratch_pool_bytes']}\n" in kconfig(facts)) == asks
    assert ("CONFIG_ETHOS_U55_128=y\n" in kconfig(facts)) == asks
    assert ("Backend EthosU" in cproject(facts)) == asks


def test_that_the_settings_for_cmake_are_one_command_each():
    facts = facts_of("no_delegate.pte")
    first, *commands = cmake(facts).splitlines()
    assert first.startswith("# ")
    form = re.compile(r'set\((\w+) ("[^"$]*"|\d+) CACHE STRING "[^"$]*" FORCE\)')
    found = dict(form.fullmatch(command).groups() for command in commands)
    assert found == {
        "ET_ARM_BAREMETAL_METHOD_ALLOCATOR_POOL_SIZE": str(facts.needs.method_pool_bytes),
        "EXECUTORCH_SELECT_OPS_LIST": f'"{",".join(facts.kernels)}"',
    }


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake")
def test_that_cmake_reads_the_settings(tmp_path):
    facts = facts_of("no_delegate.pte")
    (tmp_path / "net.cmake").write_text(cmake(facts))
    (tmp_path / "all.cmake").write_text(
        "include(${CMAKE_CURRENT_LIST_DIR}/net.cmake)\n"
        'message("${ET_ARM_BAREMETAL_METHOD_ALLOCATOR_POOL_SIZE} ${EXECUTORCH_SELECT_OPS_LIST}")\n'
    )
    said = subprocess.run(
        ["cmake", "-P", tmp_path / "all.cmake"], capture_output=True, text=True, check=True
    ).stderr
    assert said.split() == [str(facts.needs.method_pool_bytes), ",".join(facts.kernels)]


def test_that_a_cache_gets_its_pool_and_its_section():
    target = TargetChoice(
        id="ethos-u65-256",
        options={"system_config": "Ethos_U65_High_End", "memory_mode": "Dedicated_Sram_256KB"},
    )
    facts = facts_of("u65.pte", target=target)
    assert "FAST_SCRATCH_TEMP_ALLOCATOR_POOL_SIZE 262144 " in cmake(facts)
    assert "FAST_SCRATCH_TEMP_ALLOCATOR_POOL_SIZE=262144)" in kconfig(facts)
    assert "*(.bss.ethosu_scratch) } > SRAM" in linker(facts)
    assert "*(.bss.tensor_arena) } > DRAM" in linker(facts)
    assert "NPU_QCONFIG=3" in region_settings(facts.use)


def test_that_sections_go_to_the_memories_of_the_board():
    text = linker(facts_of(board="renesas-ra8p1"))
    assert "KEEP(*(network_model_sec)) } > MRAM" in text
    assert "*(.bss.tensor_arena) } > SRAM" in text


def test_that_components_are_called_after_their_sources():
    found = components(facts_of("no_delegate.pte"))
    assert "Machine Learning:ExecuTorch:Runtime" in found
    assert not any("Ethos-U" in each for each in found)
    named = [each for each in components(facts_of()) if "Operators" in each]
    assert all("_per_" not in each for each in named)
    assert "Machine Learning:NPU Support:Ethos-U Driver&Generic U55" in components(facts_of())


@for_each(
    ("use", "program", "tensors"),
    [
        (MemoryUse(True, True, 0), "SRAM", "SRAM"),
        (MemoryUse(False, True, 0), "FLASH_OR_DRAM", "SRAM"),
        (MemoryUse(False, False, 9), "FLASH_OR_DRAM", "DRAM"),
    ],
)
def test_that_without_a_board_sections_go_to_the_kinds_of_the_memory_mode(use, program, tensors):
    facts = dataclasses.replace(facts_of(weights=b"w"), use=use)
    text = linker(facts)
    assert f"KEEP(*(network_model_sec)) }} > {program}\n" in text
    assert f"KEEP(*(network_weights_sec)) }} > {program}\n" in text
    assert f"*(.bss.tensor_arena) }} > {tensors}\n" in text
    assert f"*(.bss.method_allocator_sec) }} > {tensors}\n" in text
    assert "weights" not in linker(dataclasses.replace(facts, weights=None))


def test_that_the_pack_of_cmsis_nn_is_named_where_its_kernels_are_called():
    for kernels, named in ((("cortex_m::quantized_add.out",), True), (("aten::add.out",), False)):
        text = cproject(dataclasses.replace(facts_of(), kernels=kernels))
        assert ("- pack: ARM::CMSIS-NN\n" in text) == named


def test_that_the_note_says_what_fits_and_what_is_not_confirmed():
    facts = facts_of(board="himax-we2")
    text = markdown(title(facts), note(facts))
    assert "# net on Himax WiseEye2" in text
    assert "secondary source" in text
    assert "not confirmed: notes of users" in text
    assert "set ET_RTOL to 0 and ET_ATOL to 0.5" in text


def test_that_the_note_without_a_board_says_what_is_needed():
    facts = facts_of()
    text = markdown(title(facts), note(facts))
    assert "No board is set" in text
    assert f"| program | {len(facts.program):,} |" in text


def test_that_both_forms_of_the_note_say_the_same_and_escape():
    page = [Section("A & B", ("x < y", Table(("a",), (("1|2",),)), Code("<i>")))]
    assert "1\\|2" in markdown("T", page)
    text = html("T", page)
    assert "A &amp; B" in text
    assert "&lt;i&gt;" in text
    assert "<td>1|2</td>" in text


def test_that_a_projects_name_becomes_a_c_identifier():
    assert [file_stem(n) for n in ("a b-c", "3d", "\u00e9t\u00e9", "")] == ["a_b_c", "model_3d", "t", "model"]


def test_that_without_a_delegate_the_note_says_that_nothing_runs_on_the_npu():
    facts = facts_of("no_delegate.pte")
    text = markdown(title(facts), note(facts))
    assert "Nothing runs on the NPU" in text
    assert "tensor_arena" not in text
    assert "QCONFIG" not in text


def test_that_weights_beside_the_program_have_a_section_and_a_place_of_their_own():
    weights = b"w" * 70_000
    facts = facts_of(weights=weights, board="renesas-ra8p1")
    held = {d.what: d.bytes for f in facts.fit.fillings for d in f.demands}
    assert (held["program"], held["weights"]) == (len(facts.program), len(weights))
    assert "KEEP(*(network_weights_sec)) } > MRAM" in linker(facts)
    assert b".section network_weights_sec" in assembly(facts)
    assert "separate file net.ptd" in markdown(title(facts), note(facts))


def test_that_the_name_of_a_board_cannot_become_a_line_of_a_build_file(tmp_path):
    text = (SHIPPED / "himax-we2.toml").read_text().replace('ini = "himax-we2.ini"\n', "")
    text = text.replace("My_Sys_Cfg", "Ethos_U55_High_End_Embedded")
    text = text.replace("My_Mem_Mode_Parent", "Shared_Sram")
    title = 'title = "Himax WiseEye2 (Grove Vision AI Module V2)"'
    (tmp_path / "b.toml").write_text(text.replace(title, 'title = "A\\nset(X 1)"'))
    facts = facts_of(folder=tmp_path, board="b.toml")
    assert facts.where == "A set(X 1)"
    assert all(line.startswith(("#", "set(ET_", "set(EXEC")) for line in cmake(facts).splitlines())


def test_that_kernels_of_unknown_packages_ask_for_no_component():
    facts = dataclasses.replace(
        facts_of(ALL[0]), kernels=("aten::add.out", "own::twice.out", "aten::add.Scalar_out")
    )
    named = [line for line in cproject(facts).splitlines() if "Operators:" in line]
    assert [line.rpartition(":")[2].strip() for line in named] == ["Portable add"]


def titles(facts):
    return [step.title for step in steps(facts, [{"atol": 0.5}])]


def test_that_what_the_firmware_must_do_is_a_list_in_order():
    facts = facts_of(weights=b"w" * 5)
    assert titles(facts) == [
        "Link the runtime",
        "Configure the NPU driver",
        "Place the program",
        "Place the weights",
        "Reserve the memory",
        "Fill the inputs",
        "Keep the caches coherent",
        "Read the outputs",
        "Check it once",
    ]
    details = {step.title: step.detail for step in steps(facts, [])}
    assert (
        f"{len(facts.program):,} bytes, in memory that the NPU can access" in (details["Place the program"])
    )
    assert f"{facts.needs.scratch_pool_bytes:,} bytes of scratch" in details["Reserve the memory"]
    assert all(name in details["Link the runtime"] for name in facts.kernels)
    # Both forms of the note have the list.
    page = note(facts)
    assert "2. **Configure the NPU driver.** " in markdown("net", page)
    assert "<li><strong>Configure the NPU driver.</strong> " in html("net", page)


def test_that_a_program_without_the_npu_asks_for_nothing_of_it():
    assert titles(facts_of("no_delegate.pte")) == [
        "Link the runtime",
        "Place the program",
        "Reserve the memory",
        "Fill the inputs",
        "Read the outputs",
        "Check it once",
    ]


def test_that_state_is_carried_on():
    facts = dataclasses.replace(facts_of(), handed_on=2, state_buffers=("cache",))
    (carry,) = (step for step in steps(facts, []) if step.title == "Carry the state on")
    assert "last 2 outputs are the last 2 inputs" in carry.detail
    assert "cache" in carry.detail


@for_each("name", ALL)
def test_that_the_parts_of_a_program_add_up_to_its_file(name):
    program = (PROGRAMS / name).read_bytes()
    operation = result_of("lower").vela[0].operations[0]
    report = (
        result_of("lower")
        .vela[0]
        .model_copy(
            update={
                "operations": (
                    operation.model_copy(update={"module": "a", "weight_bytes": 10**9}),
                    operation.model_copy(update={"module": "b", "weight_bytes": 10**9}),
                )
            }
        )
    )
    for reports in ((), (report, report)):
        parts = program_parts(program, reports)
        assert sum(part.bytes for part in parts) == len(program)
        assert all(part.bytes > 0 for part in parts)
        assert [p.bytes for p in parts] == sorted((p.bytes for p in parts), reverse=True)
        assert len({(part.kind, part.name) for part in parts}) == len(parts)
    # Oracle: the blocks of Vela's stream, as the description of the program counts them.
    blocks = [d.get("vela_blocks", {}) for d in describe(program)["delegates"]]
    commands = sum(part.bytes for part in parts if part.kind == "commands")
    assert commands == sum(found.get("cmd_data", 0) for found in blocks)
    encoded = sum(found.get("weight_data", 0) for found in blocks)
    held = {part.name: part.bytes for part in parts if part.kind == "weights"}
    if "external" not in name:
        assert held == ({"a": encoded // 2, "b": encoded // 2} if encoded > 1 else {})
