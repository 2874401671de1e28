"""The program as source code: a C header, or an assembler file that includes the binary."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.deploy.boards import Board, board_and_target, known_differences
from workbench.deploy.fitting import Fit, of_program
from workbench.escaping import in_cmake, in_comment, in_yaml
from workbench.project.opened import OpenProject
from workbench.pte.description import Memory, OutputLife, describe, memory
from workbench.targets import target_of
from workbench.targets.ethos_u.devices import MemoryUse, memory_use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.deploy.input_header import PictureInput
    from workbench.project.model import TargetChoice
    from workbench.results import ModelOutput
    from workbench.targets.ethos_u.devices import MemoryUse


@dataclass(frozen=True)
class Facts:
    """A program, its requirements, and its board.

    ``stem`` is the project's name as a C identifier; ``weights`` are the bytes of the .ptd, None if
    the program contains the weights; ``kernels`` are those the runtime must link. ``kept`` are
    buffers with state between inferences; the last ``handed_on`` outputs are the last inputs of the
    next inference; ``output_lives`` says how long outputs are valid. ``pictures`` says how pictures
    become the input, ``model_outputs`` how the outputs become those of the model, where it returns
    others; regions are places in memory.
    """

    stem: str
    choice: TargetChoice
    program: bytes
    weights: bytes | None
    needs: Memory
    use: MemoryUse
    inputs: tuple[dict[str, Any], ...]
    outputs: tuple[dict[str, Any], ...]
    delegates: int
    kernels: tuple[str, ...]
    board: Board | None = None
    fit: Fit | None = None
    known_differences: tuple[str, ...] = ()
    state_buffers: tuple[str, ...] = ()
    handed_on: int = 0
    output_lives: tuple[OutputLife, ...] = ()
    pictures: PictureInput | None = None
    model_outputs: tuple[ModelOutput, ...] = ()

    @property
    def where(self) -> str:
        """The board in one line, or the device if there is no board."""
        return " ".join(self.board.title.split()) if self.board else self.choice.id


def gather(opened: OpenProject, program: bytes, weights: bytes | None) -> Facts:
    """Return the facts of a compiled program.

    Args:
        opened: The project.
        program: The .pte.
        weights: The .ptd, or None.

    Raises:
        WorkbenchError: the board or an own .ini is unreadable, or the bytes are not a program.
    """
    project, folder = opened.project, opened.folder
    choice = target_of(project.target.id).complete(project.target, folder)
    seen = describe(program)
    board = board_and_target(opened)
    return Facts(
        stem=file_stem(project.name),
        choice=choice,
        program=program,
        weights=weights,
        needs=memory(program),
        use=memory_use(choice, folder),
        inputs=tuple(seen["inputs"]),
        outputs=tuple(seen["outputs"]),
        delegates=len(seen["delegates"]),
        kernels=tuple(seen["kernels"]),
        output_lives=tuple(OutputLife(**life) for life in seen["output_lives"]),
        board=board[0] if board else None,
        fit=of_program(opened, program, len(weights or b"")),
        known_differences=tuple(known_differences(*board, folder)) if board else (),
    )


def file_stem(name: str) -> str:
    """Return a project's name as a C identifier and file name."""
    kept = "".join(c if c.isascii() and c.isalnum() else "_" for c in name).strip("_")
    return kept if kept and not kept[0].isdigit() else f"model_{kept}".rstrip("_")


def digest(data: bytes) -> str:
    """Return the sha256 of bytes."""
    return hashlib.sha256(data).hexdigest()


_LINE = 12
# Source: ExecuTorch's pte_to_header.py: section and alignment that the NPU driver needs.
SECTION, ALIGNMENT = "network_model_sec", 16
# Separate weights have their own section, so that they can be placed in another memory.
WEIGHTS_SECTION = "network_weights_sec"


def c_header(program: bytes, stem: str) -> bytes:
    """Return a C header that places the program in the model section, aligned for the NPU."""
    lines = (program[i : i + _LINE].hex(" ") for i in range(0, len(program), _LINE))
    body = "0x" + "\n".join(lines).replace(" ", ", 0x").replace("\n", ",\n    0x")
    guard = f"{stem.upper()}_PTE_H"
    return (
        f"#ifndef {guard}\n#define {guard}\n\n"
        f"/* {len(program)} bytes, sha256 {digest(program)} */\n"
        f'__attribute__((section("{SECTION}"), aligned({ALIGNMENT})))\n'
        f"const unsigned char {stem}_pte[] = {{\n    {body}\n}};\n"
        f"const unsigned int {stem}_pte_len = {len(program)}u;\n\n#endif\n"
    ).encode()


def assembly(facts: Facts) -> bytes:
    """Return an assembler file that includes the program, and separate weights.

    It assembles in an instant, whereas the header takes minutes to compile. The symbols are those
    of the header, plus ``STEM_ptd`` and ``STEM_ptd_len`` for the weights.
    """
    parts = [(f"{facts.stem}.pte", SECTION)]
    if facts.weights is not None:
        parts.append((f"{facts.stem}.ptd", WEIGHTS_SECTION))
    lines = [
        "/* For the C preprocessor and the assembler of GCC or Clang; the assembler must find the",
        "   files named below (-I, or -Wa,-I). Use this or the header, not both. */",
    ]
    for name, section in parts:
        symbol = name.replace(".", "_")
        lines += [
            f'    .section {section}, "a"',
            f"    .balign {ALIGNMENT}",
            f"    .global {symbol}",
            f"{symbol}:",
            f'    .incbin "{name}"',
            f"{symbol}_end:",
            "    .balign 4",
            f"    .global {symbol}_len",
            f"{symbol}_len:",
            f"    .4byte {symbol}_end - {symbol}",
        ]
    lines.append('    .section .note.GNU-stack, "", %progbits')
    return ("\n".join(lines) + "\n").encode()


# Source: ExecuTorch 1.5.1, examples/arm/executor_runner/CMakeLists.txt (pools of the Arm runner)
# and zephyr/Kconfig (pools of the Zephyr module; the cache is a definition). The NPU line is as in
# Arm's learning path for Corstone-320; the kernel list is that of selective build.
_METHOD = "ET_ARM_BAREMETAL_METHOD_ALLOCATOR_POOL_SIZE"
_SCRATCH = "ET_ARM_BAREMETAL_SCRATCH_TEMP_ALLOCATOR_POOL_SIZE"
_FAST = "ET_ARM_BAREMETAL_FAST_SCRATCH_TEMP_ALLOCATOR_POOL_SIZE"
_KERNELS = "EXECUTORCH_SELECT_OPS_LIST"
# Source: ExecuTorch 1.5.1, tools/cmake/preset; enabled by the presets for bare metal and Zephyr.
_CORTEX_M = "EXECUTORCH_BUILD_CORTEX_M"
# Source: ExecuTorch 1.5.1, backends/arm/cmsis_pack: one component per op_*.cpp.
_BASE = (
    "ARM::CMSIS:CORE",
    "Machine Learning:ExecuTorch:Runtime",
    "Machine Learning:ExecuTorch:Kernel Utils",
    "Machine Learning:ExecuTorch:Kernel Registration",
)
# Source: the same, test/all_ops/gen_cproject.py: the dependencies of the Cortex-M operators.
_CMSIS_NN = "ARM::CMSIS:NN Lib"
_CATEGORIES = {"aten": "Portable", "quantized_decomposed": "Quantized", "cortex_m": "Cortex-M"}


def _has_cortex_m(facts: Facts) -> bool:
    return any(kernel.startswith("cortex_m::") for kernel in facts.kernels)


def cmake(facts: Facts) -> str:
    """Return settings for the CMake build of ExecuTorch's Arm runner; sizes in bytes."""
    where = in_comment(facts.where)
    lines = [f"# {facts.stem} for {where}: pools and kernels, computed from the program."]
    lines += [f'set({name} {size} CACHE STRING "{why}" FORCE)' for name, size, why in _pools(facts)]
    kernels = in_cmake(",".join(facts.kernels))
    lines.append(f'set({_KERNELS} "{kernels}" CACHE STRING "all that it calls on the CPU" FORCE)')
    if _has_cortex_m(facts):
        lines.append(f'set({_CORTEX_M} ON CACHE BOOL "the kernels cortex_m::" FORCE)')
    return "\n".join(lines) + "\n"


def _pools(facts: Facts) -> Iterator[tuple[str, int, str]]:
    yield _METHOD, facts.needs.method_pool_bytes, "planned buffers and loaded structures"
    if facts.delegates:
        yield _SCRATCH, facts.needs.scratch_pool_bytes, "scratch of the largest delegate"
    if facts.use.cache_bytes:
        yield _FAST, facts.use.cache_bytes, "the cache that the memory mode sets"


def kconfig(facts: Facts) -> str:
    """Return settings for a Zephyr application; sizes in bytes."""
    lines = [
        f"# {facts.stem} for {in_comment(facts.where)}: pools, computed from the program.",
        "CONFIG_EXECUTORCH=y",
        f"CONFIG_EXECUTORCH_METHOD_ALLOCATOR_POOL_SIZE={facts.needs.method_pool_bytes}",
    ]
    if facts.delegates:
        lines += [
            "CONFIG_ETHOS_U=y",
            f"CONFIG_{file_stem(facts.choice.id).upper()}=y",
            f"CONFIG_EXECUTORCH_TEMP_ALLOCATOR_POOL_SIZE={facts.needs.scratch_pool_bytes}",
        ]
    if facts.use.cache_bytes:
        lines.append(f"# In CMakeLists.txt: add_compile_definitions({_FAST}={facts.use.cache_bytes})")
    return "\n".join(lines) + "\n"


def components(facts: Facts) -> list[str]:
    """Return the components of the CMSIS-Pack PyTorch::ExecuTorch that the program needs.

    Operator components are named after their source files, which are derived from the operator's
    name; kernels outside the pack have none.
    """
    names = list(_BASE)
    if _has_cortex_m(facts):
        names.append(_CMSIS_NN)
    if facts.delegates:
        family = facts.choice.id.split("-")[1].upper()
        names += [
            "Machine Learning:ExecuTorch:Backend EthosU",
            f"Machine Learning:NPU Support:Ethos-U Driver&Generic {family}",
        ]
    return names + list(dict.fromkeys(filter(None, map(_component, facts.kernels))))


def _component(kernel: str) -> str:
    space, _, operator = kernel.partition("::")
    if space not in _CATEGORIES:
        return ""
    name = operator.split(".")[0].lstrip("_")
    # One source file contains all kinds of these two.
    for several in ("dequantize", "quantize"):
        if space == "quantized_decomposed" and name.startswith(f"{several}_per_"):
            name = several
    return f"Machine Learning:ExecuTorch Operators:{_CATEGORIES[space]} {name}"


def cproject(facts: Facts) -> str:
    """Return the part of a CMSIS csolution project with pack and components."""
    packs = ["PyTorch::ExecuTorch", *(["ARM::CMSIS-NN"] if _has_cortex_m(facts) else [])]
    lines = ["project:", "  packs:", *(f"    - pack: {pack}" for pack in packs), "  components:"]
    lines += [f"    - component: {in_yaml(component)}" for component in components(facts)]
    return "\n".join(lines) + "\n"


# Sections of ExecuTorch's Arm runner, by content.
# Source: ExecuTorch 1.5.1, examples/arm/executor_runner/arm_executor_runner.cpp.
_SECTIONS = (
    ("program", SECTION),
    ("weights", WEIGHTS_SECTION),
    ("scratch pool", ".bss.tensor_arena"),
    ("NPU cache", ".bss.ethosu_scratch"),
    ("method pool", ".bss.method_allocator_sec"),
)


def linker(facts: Facts) -> str:
    """Return GNU ld linker script statements, one per part of the program."""
    homes = _homes(facts)
    return (
        "\n".join(_statement(what, section, homes[what]) for what, section in _SECTIONS if what in homes)
        + "\n"
    )


def _statement(what: str, section: str, home: str) -> str:
    name = "." + section.removeprefix(".bss.").removesuffix("_sec").replace("network_", "")
    if what in {"program", "weights"}:
        held = f"{name} : {{ . = ALIGN({ALIGNMENT}); KEEP(*({section})) }}"
    else:
        held = f"{name} (NOLOAD) : {{ . = ALIGN({ALIGNMENT}); *({section}) }}"
    return f"/* {in_comment(what)} */\n{held} > {home}"


def _homes(facts: Facts) -> dict[str, str]:
    """Return the memory of each part; by kind if there is no board or no memory has room."""
    use = facts.use
    homes = {
        "program": "SRAM" if use.constants_in_sram else "FLASH_OR_DRAM",
        "method pool": "SRAM" if use.arena_in_sram else "DRAM",
    }
    if facts.weights is not None:
        homes["weights"] = homes["program"]
    if facts.delegates:
        homes["scratch pool"] = "SRAM" if use.arena_in_sram else "DRAM"
    if use.cache_bytes:
        homes["NPU cache"] = "SRAM"
    for filling in facts.fit.fillings if facts.fit else ():
        homes |= {d.what: re.sub(r"\W", "_", filling.name, flags=re.ASCII).upper() for d in filling.demands}
    return homes


def region_settings(use: MemoryUse) -> str:
    """Return the NPU driver's build settings for the memory mode.

    Source: ExecuTorch 1.5.1, backends/arm/scripts/corstone_utils.cmake.
    """
    if use.constants_in_sram and use.arena_in_sram:
        return (
            "Weights and tensors are in SRAM: build the NPU driver with NPU_QCONFIG=1, "
            "NPU_REGIONCFG_0=1 and all other regions 0."
        )
    if not use.arena_in_sram:
        return (
            "Tensors are in DRAM and SRAM is a cache: build the NPU driver with "
            "NPU_QCONFIG=3, NPU_REGIONCFG_0=3, NPU_REGIONCFG_1=3 and all other regions 0."
        )
    return "Weights are in flash or DRAM and tensors in SRAM: the NPU driver's default regions fit."
