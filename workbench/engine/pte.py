"""A ``.pte`` on the host: what it needs from a runtime, and bundling it with test vectors.

Source: ExecuTorch 1.5.1, ``exir/_serialize`` and ``devtools/bundled_program``; the layout of an
Ethos-U delegate's blob is that of ``backends/arm/arm_vela.py``.
"""

from __future__ import annotations

import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch.devtools import BundledProgram
from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch.devtools.bundled_program.serialize import (
    serialize_from_bundled_program_to_flatbuffer,
)
from executorch.exir._serialize._program import deserialize_pte_binary

from workbench.errors import failure

if TYPE_CHECKING:
    import torch

ETHOS_U = "EthosUBackend"
_BLOCK_HEADER = struct.Struct("<16sIB11x")
_ALIGNMENT = 16
# Loaded structures of the runtime per value and per instruction, measured as an upper bound; the
# rest of the method pool follows from the program itself.
_BYTES_PER_VALUE, _BYTES_PER_INSTRUCTION, _BYTES_FIXED = 96, 64, 4096


@dataclass(frozen=True)
class Memory:
    """What a runtime must give: pools and planned buffers [bytes]."""

    method_pool_bytes: int
    scratch_pool_bytes: int
    planned_bytes: tuple[int, ...]


def read(program: bytes) -> Any:
    """Return the decoded program.

    Raises:
        WorkbenchError: these bytes are not a program that this ExecuTorch reads.
    """
    if len(program) < 8 or program[4:8] not in {b"ET12", b"ET13"}:
        raise failure(
            "This is not an ExecuTorch program: the mark ET12 is missing.",
            "Choose a .pte file; a .bpte is opened through its program.",
        )
    try:
        return deserialize_pte_binary(program)
    except Exception as error:
        raise failure(
            "The program cannot be decoded; the file may be cut short or damaged.",
            "Make it again, or compare its digest with the manifest's.",
            details=str(error),
        ) from error


def vela_blocks(blob: bytes) -> dict[str, bytes]:
    """Return the named blocks of an Ethos-U delegate.

    Raises:
        WorkbenchError: a size points outside of the blob.
    """
    blocks: dict[str, bytes] = {}
    offset = 0
    while offset + _BLOCK_HEADER.size <= len(blob):
        raw, size, _ = _BLOCK_HEADER.unpack_from(blob, offset)
        start = offset + _BLOCK_HEADER.size
        if start + size > len(blob):
            raise failure("The delegate's data is damaged: a block is longer than the delegate.")
        name = raw.split(b"\0")[0].decode("ascii", "replace")
        blocks[name] = blob[start : start + size]
        offset = start + -(-size // _ALIGNMENT) * _ALIGNMENT
        if name == "vela_end_stream":
            break
    return blocks


def scratch_bytes(blob: bytes) -> int:
    """Return the SRAM that an Ethos-U delegate wants as scratch."""
    block = vela_blocks(blob).get("scratch_size", b"")
    return int(struct.unpack_from("<I", block)[0]) if len(block) >= 4 else 0


def delegate_blobs(program: Any) -> list[tuple[str, bytes]]:
    """Return backend id and data of every delegate of the first method."""
    data = program.backend_delegate_data
    plan = program.execution_plan[0]
    return [(d.id, bytes(data[d.processed.index].data)) for d in plan.delegates]


def memory(program: bytes) -> Memory:
    """Return the memory the runtime must give.

    The method pool holds planned buffers and loaded structures; the scratch pool the largest
    delegate's scratch with room for alignment. Source: pools of ExecuTorch's Arm runner.
    """
    decoded = read(program).program
    plan = decoded.execution_plan[0]
    planned = tuple(int(size) for size in plan.non_const_buffer_sizes[1:])
    instructions = sum(len(chain.instructions) for chain in plan.chains)
    structures = (
        _BYTES_FIXED + _BYTES_PER_VALUE * len(plan.values) + _BYTES_PER_INSTRUCTION * instructions
    )
    scratch = [scratch_bytes(blob) for id_, blob in delegate_blobs(decoded) if id_ == ETHOS_U]
    return Memory(
        method_pool_bytes=_rounded(sum(planned) + structures),
        scratch_pool_bytes=_rounded(max(scratch) + _ALIGNMENT) if scratch else 0,
        planned_bytes=planned,
    )


def _rounded(size: int, to: int = 1024) -> int:
    return -(-size // to) * to


def bundle(program: bytes, cases: list[tuple[list[torch.Tensor], list[torch.Tensor]]]) -> bytes:
    """Return a bundled program with test vectors for ``forward``.

    Args:
        program: The plain program.
        cases: Inputs and expected outputs of each test.
    """
    tests = [MethodTestCase(inputs=ins, expected_outputs=outs) for ins, outs in cases]
    suite = MethodTestSuite(method_name="forward", test_cases=tests)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.pte"
        path.write_bytes(program)
        bundled = BundledProgram(None, [suite], pte_file_path=str(path))
        return bytes(serialize_from_bundled_program_to_flatbuffer(bundled))
