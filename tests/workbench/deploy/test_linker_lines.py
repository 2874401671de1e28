"""Linker lines of every board and placement, linked by GNU ld and read back by pyelftools."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.workbench.project.builders import make_project, rule
from workbench.deploy.boards import all_boards, candidates, put
from workbench.deploy.firmware_files import assembly, gather, linker
from workbench.project.opened import OpenProject

PROGRAM = Path(__file__).parents[2] / "data" / "programs" / "u55.pte"
COMPILER = "arm-none-eabi-gcc"
POOLS = (".bss.tensor_arena", ".bss.ethosu_scratch", ".bss.method_allocator_sec")
SOURCE = "\n".join(
    f'unsigned char pool_{n}[64] __attribute__((section("{name}"), used));' for n, name in enumerate(POOLS)
)


def placements(folder):
    """Yield the project and the memories of weights and tensors of every placement."""
    for name, board in all_boards().items():
        for npu in board.npu:
            opened = OpenProject(make_project(rule("r1", "global")), folder)
            project = put(opened, name, npu.devices[0])
            rows = {row.name: row for row in npu.placement}
            for title, candidate in candidates(OpenProject(project, folder)):
                if title in rows:
                    yield f"{name} {npu.devices[0]} {title}", candidate, rows[title]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which(COMPILER), reason="needs the Arm GNU toolchain")
def test_that_linker_lines_put_program_and_pools_where_the_placement_says(tmp_path):
    tried = []
    (tmp_path / "net.pte").write_bytes(PROGRAM.read_bytes())
    (tmp_path / "pools.c").write_text(SOURCE + "\nint main(void) { return 0; }\n")
    for what, project, placement in placements(tmp_path):
        facts = gather(OpenProject(project, tmp_path), PROGRAM.read_bytes(), None)
        lines = linker(facts)
        regions = list(dict.fromkeys(re.findall(r"> (\w+)$", lines, re.MULTILINE)))
        starts = {region: 0x10000000 * (n + 2) for n, region in enumerate(regions)}
        memory = "\n".join(f"{r} (rwx) : ORIGIN = {at:#x}, LENGTH = 16M" for r, at in starts.items())
        script = f"MEMORY {{ CODE (rx) : ORIGIN = 0, LENGTH = 1M\n{memory} }}\nSECTIONS {{\n{lines}"
        (tmp_path / "board.ld").write_text(f"{script}\n.text : {{ *(.text*) *(.rodata*) }} > CODE }}\n")
        (tmp_path / "net.S").write_bytes(assembly(facts))
        words = ["-mcpu=cortex-m55", "-nostdlib", "-Wl,--entry=main", "-T", "board.ld", "-I", "."]
        words += ["-Wa,-I,.", "net.S", "pools.c", "-o", "firmware.elf"]
        subprocess.run([COMPILER, *words], cwd=tmp_path, check=True, capture_output=True)
        with (tmp_path / "firmware.elf").open("rb") as file:
            sections = {s.name: s["sh_addr"] for s in ELFFile(file).iter_sections()}
        homes = {at: region for region, at in starts.items()}

        def region_of(name, sections=sections, homes=homes):
            return homes[sections[name] & 0xF0000000]

        def named(memories):
            return {re.sub(r"\W", "_", m).upper() for m in memories}

        assert region_of(".model") in named(placement.weights), what
        assert region_of(".tensor_arena") in named(placement.tensors), what
        assert region_of(".method_allocator") in named(placement.tensors), what
        tried.append(what)
    assert len(tried) > 10
