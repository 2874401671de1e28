"""An ETRecord, read without ExecuTorch: which modules each instruction of a program computes.

Source: ExecuTorch 1.5.1, ``devtools/etrecord`` (a zip archive with the edge program as JSON, and
maps from instructions to the debug handles of its operations).
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.errors import failure
from workbench.npz import ZIP_ERRORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.results import RuntimeEvent

_MARK = "ETRECORD_V0"
_PROGRAM = "edge_dialect_exported_program/forward"
_HANDLES, _DELEGATES, _METHOD = "debug_handle_map", "delegate_map", "forward"
# An entry is not read beyond these [bytes, values]; programs of 10,000 operations take half of them.
_MAX_ENTRY_BYTES, _MAX_ITEMS = 48 << 20, 2_500_000


@dataclass(frozen=True)
class Computed:
    """What an instruction computes: operators and the modules that they belong to, in order."""

    operators: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """The instructions of a program, and which of them call the NPU."""

    instructions: dict[int, Computed]
    delegates: frozenset[int]


def read_record(data: bytes) -> Record:
    """Return the instructions of an ETRecord.

    Raises:
        WorkbenchError: The bytes are not an ETRecord, or are damaged.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if _MARK not in archive.namelist():
                raise ValueError("it has no mark of an ETRecord")
            program = _entry(archive, _PROGRAM)
            handles = _entry(archive, _HANDLES)[_METHOD]
            delegates = (_entry(archive, _DELEGATES) or {}).get(_METHOD, {})
        operations = _operations(program["graph_module"]["graph"]["nodes"])
        return Record(
            {int(number): _computed(value, operations) for number, value in handles.items()},
            frozenset(map(int, delegates)),
        )
    except (*ZIP_ERRORS, TypeError, AttributeError, OverflowError) as error:
        raise failure(
            "The file is not an ETRecord, or is damaged.",
            "Take the .etrecord that was written with the program.",
            details=str(error),
            code="etrecord-unreadable",
        ) from error


def _entry(archive: zipfile.ZipFile, name: str) -> Any:
    if archive.getinfo(name).file_size > _MAX_ENTRY_BYTES:
        raise ValueError(f"{name} is larger than {_MAX_ENTRY_BYTES} bytes")
    with archive.open(name) as file:
        data = file.read(_MAX_ENTRY_BYTES)
    # A value takes 60 to 200 bytes of memory, whatever its text takes.
    if sum(map(data.count, b"[{,")) > _MAX_ITEMS:
        raise ValueError(f"{name} has more than {_MAX_ITEMS} values")
    return json.loads(data)


def _operations(nodes: Sequence[Any]) -> dict[int, list[tuple[str, str]]]:
    """Return operator and module of the operations by debug handle."""
    operations: dict[int, list[tuple[str, str]]] = {}
    for node in nodes:
        metadata = node.get("metadata", {})
        if metadata.get("debug_handle"):
            operator = str(node.get("target", "")).partition(".ops.")[2]
            module = _module(metadata.get("nn_module_stack", ""))
            operations.setdefault(int(metadata["debug_handle"]), []).append((operator, module))
    return operations


def _module(stack: str) -> str:
    """Return the innermost module of a stack: ``key,module,type;...`` as torch writes it."""
    innermost = stack.rsplit(";", maxsplit=1)[-1].split(",")
    return innermost[1] if len(innermost) > 1 else ""


def _computed(handles: Any, operations: dict[int, list[tuple[str, str]]]) -> Computed:
    numbers = handles if isinstance(handles, list) else [handles]
    pairs = [pair for number in dict.fromkeys(numbers) for pair in operations.get(int(number), [])]
    operators = dict.fromkeys(operator for operator, _ in pairs)
    return Computed(tuple(operators), tuple(dict.fromkeys(module for _, module in pairs)))


def located(events: Sequence[RuntimeEvent], record: Record) -> Iterator[tuple[RuntimeEvent, Computed]]:
    """Yield each event of a run with what it computes.

    Raises:
        WorkbenchError: The events are those of another program.
    """
    for event in events:
        if event.instruction is None:
            yield event, Computed()
            continue
        if event.kind != "runtime":
            is_delegate = event.instruction in record.delegates
            if event.instruction not in record.instructions or is_delegate != (event.kind == "npu"):
                raise failure(
                    f"The ETDump is of another program: its instruction {event.instruction} is "
                    f"{event.name}, which is not in the ETRecord.",
                    "Take the .etrecord that was written with the program that ran.",
                    code="etdump-of-another-program",
                )
        yield event, record.instructions.get(event.instruction, Computed())
