"""Firmware with one fault each, and the check that must notice it.

A fault is an edit of the shortest firmware (``resources/firmware``), of its linker script or of the
program's blocks, or another way to build and run it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Edit = tuple[str, str]
_ASYNC = (
    "  if (ethosu_invoke_v3(&driver, delegate->commands, (int)delegate->command_bytes, bases, "
    "sizes, 3, 0)) {",
    "  if (ethosu_invoke_async(&driver, delegate->commands, (int)delegate->command_bytes, bases, "
    "sizes, 3, 0)) {",
)
_INITIALISED = "  REGISTER(0xE000E100u + 4 * (NPU_IRQ / 32)) = 1u << NPU_IRQ % 32; /* NVIC: enable */"
_BASES = "(uintptr_t)delegate->constants, (uintptr_t)scratch, (uintptr_t)fast"
_SCRATCH = "static uint8_t scratch[SCRATCH_BYTES] __attribute__((aligned(LINE), section"
_RUNS = "  int wrong = 0;\n  memset"


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: What is wrong, in the guide's words.
        checks: The checks of which at least one must not be held; () for firmware without a fault.
        code: Edits of main.c.
        linker: Edits of the linker script.
        blocks: Changes a file of the program.
        cached: Whether the data cache is on.
        delay_s: How long the NPU runs beside the processor [s].
        flags: Further words for the compiler.
        family: The only family that has it; "" for all.
        equal: Whether the firmware itself notices nothing (exit code 0); None if that depends on
            the program.
    """

    name: str
    checks: tuple[str, ...] = ()
    code: tuple[Edit, ...] = ()
    linker: tuple[Edit, ...] = ()
    blocks: Callable[[Path], None] | None = None
    cached: bool = False
    delay_s: float = 0.0
    flags: tuple[str, ...] = ()
    family: str = ""
    equal: bool | None = False


def _flip(name: str, at: int) -> Callable[[Path], None]:
    def flip(folder: Path) -> None:
        path = folder / name
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    return flip


def _before(line: str, added: str) -> Edit:
    return line, f"{added}\n{line}"


CONTROLS = (
    Fault("nothing"),
    Fault("nothing, with the data cache on", cached=True),
    Fault("nothing, the NPU slower than the processor", delay_s=0.2),
    Fault("nothing, built with -O0", flags=("-O0",)),
)
FAULTS = (
    Fault(
        "scratch 16 bytes too small",
        ("scratch",),
        ((_SCRATCH, _SCRATCH.replace("SCRATCH_BYTES", "SCRATCH_BYTES - 16")),),
        # With fast memory behind it, outputs are lost.
        equal=None,
    ),
    Fault(
        "scratch in DTCM, which the NPU does not reach",
        ("reached",),
        linker=(("*(.npu_scratch*) } > SRAM", "*(.npu_scratch*) } > DTCM"),),
    ),
    Fault(
        "commands and constants in ITCM",
        ("reached",),
        linker=(("*(.npu_constants*) } > DDR", "*(.npu_constants*) } > ITCM"),),
    ),
    Fault(
        "constants and scratch exchanged",
        ("constants",),
        (
            (
                _BASES,
                _BASES.replace("constants", "X")
                .replace("(uintptr_t)scratch", "(uintptr_t)delegate->constants")
                .replace("(uintptr_t)delegate->X", "(uintptr_t)scratch"),
            ),
        ),
    ),
    Fault(
        "scratch as constants", ("constants",), ((_BASES, _BASES.replace("delegate->constants", "scratch")),)
    ),
    Fault(
        "base of scratch moved by 16 bytes",
        ("scratch",),
        ((_BASES, _BASES.replace("scratch", "scratch + 16")),),
    ),
    Fault(
        "base of the constants moved by 32 bytes",
        ("constants",),
        ((_BASES, _BASES.replace("delegate->constants", "delegate->constants + 32")),),
    ),
    Fault("one bit of the weights", ("constants",), blocks=_flip("constants_0.bin", 40), equal=True),
    Fault("one bit of the commands", ("commands",), blocks=_flip("commands_0.bin", 200)),
    Fault(
        "constants overwritten before the start",
        ("constants",),
        (_before(_RUNS, "  memset((void *)delegate->constants, 0, 4);"),),
    ),
    Fault(
        "the stack in scratch",
        ("overlap",),
        (
            (
                _BASES,
                _BASES.replace(
                    "(uintptr_t)scratch", "((uintptr_t)__builtin_frame_address(0) - SCRATCH_BYTES) & ~31u"
                ),
            ),
        ),
        (
            ("end = .; } > DTCM", "end = .; } > SRAM"),
            ("stack_top = ORIGIN(DTCM) + LENGTH(DTCM)", "stack_top = ORIGIN(SRAM) + LENGTH(SRAM) / 2"),
        ),
        family="u55",
    ),
    Fault(
        "inputs not cleaned",
        ("cleaned",),
        (("  maintain(0xE000EF68u, bases, sizes, count); /* DCCMVAC */", ""),),
        cached=True,
        equal=True,
    ),
    Fault(
        "outputs not invalidated",
        ("invalidated",),
        (("  maintain(0xE000EF5Cu, bases, sizes, count); /* DCIMVAC */", ""),),
        cached=True,
        equal=True,
    ),
    Fault(
        "scratch not at a cache line",
        ("lines",),
        (
            (_SCRATCH, _SCRATCH.replace("SCRATCH_BYTES", "SCRATCH_BYTES + 32")),
            (_BASES, _BASES.replace("scratch", "scratch + 16")),
            ("memcpy(scratch + ", "memcpy(scratch + 16 + "),
            ("memcmp(scratch + ", "memcmp(scratch + 16 + "),
        ),
        cached=True,
        equal=True,
    ),
    Fault(
        "the NPU non-secure, scratch at a secure address",
        ("security",),
        (("sizeof fast, 1, 1)", "sizeof fast, 0, 1)"),),
        (("0x01000000", "0x11000000"),),
        equal=True,
    ),
    Fault(
        "scratch through AXI port 1",
        ("port",),
        (
            _before(
                "static int run(",
                (
                    "unsigned int ethosu_config_select(uint64_t address, int index) {\n"
                    "  (void)address;\n  return index == 1 ? 2 : 1;\n}"
                ),
            ),
        ),
        family="u55",
        equal=True,
    ),
    Fault(
        "an interrupt without a handler",
        ("handler",),
        (("    [16 + NPU_IRQ] = (void *)npu_interrupt,", "    [16 + NPU_IRQ] = 0,"),),
    ),
    Fault(
        "the handler at another interrupt",
        ("handler", "exceptions", "ends"),
        (
            ("    [16 + NPU_IRQ] = (void *)npu_interrupt,", "    [15 + NPU_IRQ] = (void *)npu_interrupt,"),
            ("[2 ... 15 + NPU_IRQ]", "[2 ... 14 + NPU_IRQ]"),
        ),
    ),
    Fault(
        "a handler that does not clear the interrupt",
        ("handled",),
        (("{ ethosu_irq_handler(&driver); }", "{}"),),
    ),
    Fault("the interrupt not enabled", ("handled",), ((_INITIALISED, ""),)),
    Fault(
        "interrupts off (PRIMASK)",
        ("handled",),
        ((_INITIALISED, _INITIALISED + '\n  __asm volatile("cpsid i");'),),
    ),
    Fault(
        "a priority that BASEPRI masks",
        ("handled",),
        (
            (
                _INITIALISED,
                _INITIALISED
                + (
                    "\n  *(volatile uint8_t *)(0xE000E400u + NPU_IRQ) = 0xC0;"
                    '\n  __asm volatile("msr basepri, %0" : : "r"(0x40));'
                ),
            ),
        ),
    ),
    Fault("outputs read before the NPU is done", ("untouched",), (_ASYNC,), delay_s=0.3),
    Fault(
        "inputs changed while the NPU runs",
        ("untouched",),
        (
            _ASYNC,
            (
                "  for (unsigned int i = 0; i < delegate->outputs; ++i) {",
                "  scratch[0] = 1;\n  ethosu_wait(&driver, true);\n"
                "  for (unsigned int i = 0; i < delegate->outputs; ++i) {",
            ),
        ),
        delay_s=0.3,
        equal=None,
    ),
    Fault("another base address of the NPU", ("started",), flags=("-DNPU_BASE=0x48103000u",)),
    Fault(
        "the driver built for another family",
        ("accepted",),
        family="u55",
        flags=("-UETHOSU_ARCH", "-DETHOSU_ARCH=u65", "-UETHOSU55", "-DETHOSU65"),
    ),
    Fault(
        "a register of the NPU written that can only be read",
        ("registers",),
        (_before(_INITIALISED, "  REGISTER(NPU_BASE + 4) = 1;"),),
        equal=True,
    ),
    Fault(
        "a register of the NPU written by one byte",
        ("registers",),
        (_before(_INITIALISED, "  *(volatile uint8_t *)(NPU_BASE + 0x3C) = 1;"),),
        equal=True,
    ),
    Fault(
        "an address without memory",
        ("exceptions", "ends"),
        (_before(_INITIALISED, "  REGISTER(0xF0000000u) = 1;"),),
    ),
    Fault(
        "an undefined instruction",
        ("exceptions", "ends"),
        (_before(_INITIALISED, '  __asm volatile("udf #1");'),),
    ),
    Fault(
        "scratch not aligned to 16 bytes",
        ("accepted", "ends"),
        ((_BASES, _BASES.replace("scratch", "scratch + 4")),),
    ),
    Fault(
        "it never ends",
        ("ends",),
        (
            _before(_INITIALISED, "  for (;;) NPU_WAIT;"),
            _before("static int run(", "#define NPU_WAIT (void)0"),
        ),
    ),
    Fault("exit code 3", ("ends",), (("  return wrong != 0;", "  return 3;"),)),
)


def fast_fault() -> Fault:
    """Return the fault that only programs with fast memory have."""
    return replace(
        CONTROLS[0],
        name="fast memory 64 bytes too small",
        checks=("fast",),
        equal=True,
        code=(("fast[FAST_BYTES]", "fast[FAST_BYTES - 64]"),),
    )
