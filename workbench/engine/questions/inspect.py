"""What is inside a ``.pte``: delegates, their Vela blocks, kernels, memory, inputs and outputs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.engine import pte
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from pydantic import JsonValue


def answer(arguments: dict[str, JsonValue], to: Path) -> None:
    """Write the description of the program at ``arguments["path"]`` to a JSON file.

    Raises:
        WorkbenchError: it cannot be read, or is no program.
    """
    path = Path(str(arguments["path"]))
    try:
        data = path.read_bytes()
    except OSError as error:
        raise failure(
            f"{path.name} cannot be read: {error.strerror or error}.",
            where=Place(kind="file", id=path.name),
        ) from error
    to.write_text(json.dumps(describe(data)))


def describe(data: bytes) -> dict[str, Any]:
    """Return the description of a program."""
    decoded = pte.read(data).program
    plan = decoded.execution_plan[0]
    needs = pte.memory(data)
    return {
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "methods": [method.name for method in decoded.execution_plan],
        "inputs": [_tensor(plan.values[i].val) for i in plan.inputs],
        "outputs": [_tensor(plan.values[i].val) for i in plan.outputs],
        "delegates": [_delegate(index, item, decoded) for index, item in enumerate(plan.delegates)],
        "kernels": sorted({f"{o.name}.{o.overload}".rstrip(".") for o in plan.operators}),
        "instructions": _instructions(plan),
        "constants_bytes": _constants(decoded),
        "memory": {
            "planned_bytes": list(needs.planned_bytes),
            "method_pool_bytes": needs.method_pool_bytes,
            "scratch_pool_bytes": needs.scratch_pool_bytes,
        },
    }


def _tensor(value: Any) -> dict[str, Any]:
    if not hasattr(value, "sizes"):
        return {"type": type(value).__name__}
    dtype = getattr(value.scalar_type, "name", str(value.scalar_type)).lower()
    return {"type": "tensor", "dtype": dtype, "shape": list(value.sizes)}


def _delegate(index: int, item: Any, program: Any) -> dict[str, Any]:
    blob = bytes(program.backend_delegate_data[item.processed.index].data)
    entry: dict[str, Any] = {
        "index": index,
        "backend": item.id,
        "bytes": len(blob),
        "compile_specs": {
            spec.key: bytes(spec.value).decode("utf-8", "replace") for spec in item.compile_specs
        },
    }
    if item.id == pte.ETHOS_U:
        blocks = pte.vela_blocks(blob)
        entry["vela_blocks"] = {
            name: len(content) for name, content in blocks.items() if not name.startswith("vela_")
        }
        entry["scratch_bytes"] = pte.scratch_bytes(blob)
    return entry


def _instructions(plan: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for chain in plan.chains:
        for instruction in chain.instructions:
            kind = type(instruction.instr_args).__name__
            counts[kind] = counts.get(kind, 0) + 1
    return counts


def _constants(program: Any) -> int:
    return sum(len(buffer.storage) for buffer in program.constant_buffer)
