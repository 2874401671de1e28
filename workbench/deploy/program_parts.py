"""What a ``.pte`` consists of: weights by module, NPU commands, constants, and the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.pte import vela_stream
from workbench.pte.program import decode
from workbench.results import OUTSIDE_MODULES, ProgramPart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.pte.program import Delegate
    from workbench.results import VelaReport


def program_parts(program: bytes, reports: Sequence[VelaReport]) -> tuple[ProgramPart, ...]:
    """Return the parts of a program, largest first; their sizes add up to the file's.

    The weights of a module are those that Vela encoded for its operations. Data in a separate
    weights file count as no part.

    Args:
        program: The .pte.
        reports: Vela's estimates of its delegates, in their order.

    Raises:
        WorkbenchError: The bytes are not a program.
    """
    decoded = decode(program)
    parts: list[ProgramPart] = []
    delegates = [d for d in decoded.method().delegates if d.backend == vela_stream.ETHOS_U]
    for number, delegate in enumerate(delegates):
        report = reports[number] if number < len(reports) else None
        parts += _of_delegate(delegate, report)
    constants = sum(decoded.constants) + sum(len(data) for data in decoded.initial_data)
    parts.append(ProgramPart(kind="constants", name="constants of CPU operators", bytes=constants))
    merged: dict[tuple[str, str], ProgramPart] = {}
    for part in parts:
        before = merged.get((part.kind, part.name))
        size = part.bytes + (before.bytes if before else 0)
        merged[part.kind, part.name] = part.model_copy(update={"bytes": size})
    rest = len(program) - sum(part.bytes for part in merged.values())
    kept = [*merged.values(), ProgramPart(kind="rest", name="plan and alignment", bytes=rest)]
    return tuple(sorted((p for p in kept if p.bytes > 0), key=lambda part: -part.bytes))


def _of_delegate(delegate: Delegate, report: VelaReport | None) -> Iterator[ProgramPart]:
    """Yield the parts of a delegate."""
    blocks = vela_stream.blocks(delegate.data)
    sizes = {name: len(block.data) for name, block in blocks.items() if not block.external}
    yield ProgramPart(kind="commands", name="NPU commands", bytes=sizes.get("cmd_data", 0))
    borders = sizes.get("inputs", 0) + sizes.get("outputs", 0)
    yield ProgramPart(kind="borders", name="inputs and outputs", bytes=borders)
    room = sizes.get("weight_data", 0)
    operations = report.operations if report is not None else ()
    encoded = sum(operation.weight_bytes for operation in operations)
    # Operations that share their weights count them each: together they have what is there.
    share = min(room / encoded, 1.0) if encoded else 0.0
    for operation in operations:
        size = int(operation.weight_bytes * share)
        room -= size
        name = operation.module or OUTSIDE_MODULES
        yield ProgramPart(kind="weights", name=name, bytes=size)
    yield ProgramPart(kind="constants", name="biases and tables", bytes=room)
