"""What ExecuTorch's own inspector reads from recorded events."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch.devtools import Inspector
from executorch.devtools.inspector import TimeScale

from workbench.results import RuntimeEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

# The runtime records each call twice: the instruction, and the kernel or delegate inside it.
_INSTRUCTION, _KERNEL, _WHOLE = "OPERATOR_CALL", "native_call_", "Method::execute"
_DELEGATE = "DELEGATE_CALL"


def events_of(data: bytes) -> tuple[RuntimeEvent, ...]:
    """Return the events of a run; cycles of the CPU.

    A delegate is one event: what the NPU does inside is told by its own trace alone.

    Args:
        data: An ETDump; empty gives no events.

    Raises:
        ValueError: these bytes are no ETDump.
    """
    if not data:
        return ()
    with tempfile.TemporaryDirectory(prefix="etdump-") as folder:
        path = Path(folder) / "etdump.bin"
        path.write_bytes(data)
        try:
            inspector = Inspector(
                etdump_path=str(path),
                source_time_scale=TimeScale.CYCLES,
                target_time_scale=TimeScale.CYCLES,
            )
            return tuple(_events(inspector))
        except Exception as error:
            # The inspector meets damaged bytes with errors of every kind.
            raise ValueError(str(error)) from error


def _events(inspector: Any) -> Iterator[RuntimeEvent]:
    for block in inspector.event_blocks:
        for event in block.events:
            if event.name == _INSTRUCTION or event.perf_data is None:
                continue
            raw = [float(each) for each in event.perf_data.raw]
            kind = "cpu"
            if event.name == _DELEGATE or event.is_delegated_op:
                kind = "npu"
            elif not event.name.startswith(_KERNEL):
                kind = "runtime"
            yield RuntimeEvent(
                name=event.name.removeprefix(_KERNEL),
                kind=kind,
                cycles=sum(raw) / len(raw) if raw else 0.0,
                calls=len(raw),
            )
