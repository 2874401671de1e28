"""The program as source: a C header, or an assembler file that includes the binary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.handover.facts import digest

if TYPE_CHECKING:
    from workbench.handover.facts import Facts

_LINE = 12
# Source: ExecuTorch's pte_to_header.py: section and alignment that the NPU driver wants.
SECTION, ALIGNMENT = "network_model_sec", 16
# A section of our own for weights that lie apart: they may go to another memory.
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
    """Return an assembler file that includes program, and weights where they lie apart.

    It compiles in an instant where the header takes minutes; the symbols are those of the header,
    and ``STEM_ptd`` with ``STEM_ptd_len`` for the weights.
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
