"""What Vela says about each delegate, taken from the very compilation that made the bytes."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethosu import regor
from ethosu.vela import vela

from workbench.results import VelaOperation, VelaReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Tables of Vela 5.1's debug database; a figure in a table's row is found by its header.
_PERFORMANCE = "perf"


class _RecordingRegor:
    """Stands in for the regor module inside Vela: compiles, and keeps what was compiled."""

    def __init__(self, compiled: list[Any]) -> None:
        self._compiled = compiled

    def __getattr__(self, name: str) -> Any:
        return getattr(regor, name)

    def compile(self, *arguments: Any, options: str, **rest: Any) -> Any:
        """Compile with the debug database on; it changes no byte of the result."""
        wanted = options
        if "enable_db=true" not in options:
            wanted = options.replace("[compiler]\n", "[compiler]\nenable_db=true\n", 1)
        model = regor.compile(*arguments, options=wanted, **rest)
        self._compiled.append(model)
        return model


@contextmanager
def recorded() -> Iterator[list[Any]]:
    """Collect every model that Vela compiles inside the block, in order."""
    compiled: list[Any] = []
    before, folder = vela.regor, tempfile.tempdir
    vela.regor = _RecordingRegor(compiled)
    tempfile.tempdir = _folder_without_spaces()
    try:
        yield compiled
    finally:
        vela.regor = before
        tempfile.tempdir = folder


def _folder_without_spaces() -> str | None:
    """Return a temporary folder that survives ExecuTorch's join and split of Vela's arguments."""
    candidates = [tempfile.gettempdir(), "/tmp", "/var/tmp", str(Path.cwd())]
    for folder in candidates:
        if " " not in folder and os.access(folder, os.W_OK):
            return folder
    return tempfile.tempdir


def report(
    delegate: int, model: Any, clock_hz: float, module_of: Callable[[str], str]
) -> VelaReport:
    """Return Vela's estimate for one delegate.

    Args:
        delegate: Its number, in the order of the program.
        model: regor's compiled model.
        clock_hz: Clock of the system configuration; cycles / clock is the time.
        module_of: The dotted module of a tensor's name; "" when it has none.
    """
    figures = model.perf_report
    memories = {name.lower(): memory for name, memory in figures.memories.items()}
    sram = int(memories["sram"].peakUsage) if "sram" in memories else 0
    constants = int(figures.readOnlyPeakUsage)
    cycles = int(figures.totalCycles)
    return VelaReport(
        delegate=delegate,
        cycles_total=cycles,
        cycles_npu=int(figures.npuCycles),
        inference_ms=cycles / clock_hz * 1e3,
        sram_bytes=sram,
        flash_bytes=constants,
        macs=int(figures.macCount),
        weights_bytes=int(figures.originalWeights),
        encoded_weights_bytes=int(figures.encodedWeights),
        command_stream_bytes=len(bytes(model.command_stream)) if model.command_stream else 0,
        scratch_bytes=int(model.scratch.size),
        operations=tuple(_operations(model, module_of)),
    )


def _operations(model: Any, module_of: Callable[[str], str]) -> Iterator[VelaOperation]:
    table = model.opt_database.tables.get(_PERFORMANCE)
    if table is None:
        return
    header = [str(name).strip() for name in table.header]
    for cells in table.data:
        row = dict(zip(header, cells, strict=False))
        name = str(row.get("name", ""))
        outside = [k for k in row if k.endswith("_ac") and not k.lower().startswith("sram")]
        yield VelaOperation(
            name=name,
            operator=str(row.get("operator", "")),
            module=module_of(name),
            cycles=_number(row.get("op_cycles")),
            npu_cycles=_number(row.get("npu_cycles")),
            macs=_number(row.get("mac_count")),
            sram_cycles=_number(row.get("Sram_ac")),
            external_cycles=sum(_number(row.get(k)) for k in outside),
            staging_bytes=_number(row.get("staging_usage")),
        )


def _number(value: Any) -> int:
    try:
        return int(float(value))
    except (TypeError, ValueError):
        return 0
