"""Events of ExecuTorch's runtime, read from an ETDump.

The toolchain's own reader starts ``flatc`` and checks nothing, so that a small file can fill the
disk. This one checks every offset and bounds the number of events.
Source: ExecuTorch, ``devtools/etdump/etdump_schema_flatcc.fbs`` (fields in order) and
``devtools/inspector`` (how the events of several runs are joined).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from workbench.errors import WorkbenchError
from workbench.pte.flat import Data
from workbench.results import RuntimeEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.pte.flat import Table

# The runtime records each call twice: the instruction, and the kernel or delegate inside it.
_INSTRUCTION, _KERNEL, _DELEGATE = "OPERATOR_CALL", "native_call_", "DELEGATE_CALL"
_IDENTIFIER = b"ED00"
_PREFIX_BYTES = 4
# The longest name of an event that is kept [characters].
_MOST_NAME = 1000
# Fields of the tables.
_RUNS = 1
_RUN_NAME, _RUN_INPUT, _RUN_EVENTS = 0, 1, 3
_PROFILE = 0
_NAME, _CHAIN, _ID, _DELEGATE_ID, _DELEGATE_NAME, _BEGUN, _ENDED = 0, 1, 2, 3, 4, 6, 7


class _Signature(NamedTuple):
    """What identifies an event in every run of a program."""

    name: str
    instruction: int
    delegate: str

    @property
    def shown(self) -> str:
        return self.delegate or self.name


def events_of(data: bytes) -> tuple[RuntimeEvent, ...]:
    """Return the events of a run; CPU cycles.

    A delegate is one event; only the NPU's trace has its details.

    Args:
        data: An ETDump; empty for no events.

    Raises:
        ValueError: the bytes are not an ETDump, or are damaged.
    """
    if not data:
        return ()
    view = memoryview(data)[_PREFIX_BYTES:]
    if bytes(view[4:8]) != _IDENTIFIER:
        raise ValueError("it is not an ETDump")
    try:
        return tuple(_events(Data(view).root()))
    except WorkbenchError as error:
        reason = error.infos[0].message.rstrip(".").rpartition(": ")[2]
        raise ValueError(f"it is damaged or cut short: {reason}") from error


def _events(root: Table) -> Iterator[RuntimeEvent]:
    """Yield the events; runs with the same events are joined."""
    blocks: dict[tuple[str, int, tuple[_Signature, ...]], dict[_Signature, list[int]]] = {}
    for run in root.tables(_RUNS):
        durations = _durations(run)
        if not durations:
            continue
        key = (run.text(_RUN_NAME), run.whole(_RUN_INPUT, "i", -1), tuple(durations))
        block = blocks.setdefault(key, {})
        for signature, cycles in durations.items():
            block.setdefault(signature, []).append(cycles)
    for block in blocks.values():
        for signature, cycles_of_runs in block.items():
            if signature.shown == _INSTRUCTION:
                continue
            yield RuntimeEvent(
                name=signature.shown.removeprefix(_KERNEL),
                kind=_kind(signature),
                cycles=sum(cycles_of_runs) / len(cycles_of_runs),
                calls=len(cycles_of_runs),
                instruction=signature.instruction if signature.instruction >= 0 else None,
            )


def _kind(signature: _Signature) -> str:
    if signature.delegate or signature.name == _DELEGATE:
        return "npu"
    return "cpu" if signature.name.startswith(_KERNEL) else "runtime"


def _durations(run: Table) -> dict[_Signature, int]:
    """Return the cycles of each event of a run, those of one instruction together."""
    instructions: dict[tuple[int, int, str], dict[_Signature, int]] = {}
    for event in run.tables(_RUN_EVENTS):
        profile = event.table(_PROFILE)
        if profile is None:
            continue
        number = profile.whole(_DELEGATE_ID, "i", -1)
        delegate = str(number) if number != -1 else profile.text(_DELEGATE_NAME)[:_MOST_NAME]
        instruction = profile.whole(_ID, "i", -1)
        signature = _Signature(profile.text(_NAME)[:_MOST_NAME], instruction, delegate)
        begun, ended = profile.whole(_BEGUN, "Q"), profile.whole(_ENDED, "Q")
        # Counters of 32 bits wrap around.
        cycles = ended - begun if ended >= begun else (ended - begun) % (1 << 32)
        key = (instruction, profile.whole(_CHAIN, "i"), delegate)
        instructions.setdefault(key, {})[signature] = cycles
    return {s: cycles for group in instructions.values() for s, cycles in group.items()}
