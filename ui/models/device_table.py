"""Points of a sweep, one row each: a device with its options, and what it would take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject

from ui.figures import DASH, count, milliseconds, size
from ui.models.figure_table import Column, FigureTableModel
from workbench.project.model import TargetChoice
from workbench.results import VelaTotals
from workbench.studies.sweep import SweepPoint, remark


@dataclass(frozen=True)
class DeviceRow:
    """A point; its time and memory as parts of the largest of all, and whether none beats it."""

    point: SweepPoint
    time_share: float | None = None
    sram_share: float | None = None
    is_best: bool = False
    is_present: bool = False


def device_rows(
    points: Sequence[SweepPoint], best: Sequence[int], present: TargetChoice | None
) -> list[DeviceRow]:
    """Return the rows of a sweep; ``present`` is the project's own choice, with all options."""
    known = [point.totals for point in points if point.totals is not None]
    slowest = max((t.inference_ms for t in known), default=0.0) or 1.0
    largest = max((t.sram_bytes for t in known), default=0) or 1
    front = set(best)
    return [
        DeviceRow(
            point,
            point.totals.inference_ms / slowest if point.totals else None,
            point.totals.sram_bytes / largest if point.totals else None,
            place in front,
            point.target == present,
        )
        for place, point in enumerate(points)
    ]


def describe_point(point: SweepPoint) -> str:
    """Return a point in lines."""
    lines = [point.target.id, option(point, "system_config"), option(point, "memory_mode")]
    if point.totals is None:
        return "\n".join([*lines, point.problem or "not estimated yet"])
    return "\n".join([
        *lines,
        f"{milliseconds(point.totals.inference_ms)}, {count(point.totals.cycles_total)} cycles",
        f"SRAM {size(point.totals.sram_bytes)}, constants {size(point.totals.flash_bytes)}",
        *filter(None, [remark(point)]),
    ])  # fmt: skip


def option(point: SweepPoint, name: str) -> str:
    """Return one option of a point in words; a dash where it has none."""
    value = point.target.options.get(name)
    if value is None:
        return DASH
    return size(value) if isinstance(value, int) else str(value)


def _text(read: Callable[[VelaTotals], float], text: Callable[[float], str]) -> Callable[
    [DeviceRow], str
]:  # fmt: skip
    return lambda row: text(read(row.point.totals)) if row.point.totals else DASH


def _value(read: Callable[[VelaTotals], float]) -> Callable[[DeviceRow], float | None]:
    return lambda row: read(row.point.totals) if row.point.totals else None


DEVICE_COLUMNS: tuple[Column[DeviceRow], ...] = (
    Column("Best", lambda r: "\u25cf" if r.is_best else "", None,
           "No other point is as quick, with as little SRAM and as few constants at once"),
    Column("Device", lambda r: f"{r.point.target.id}{'  (present)' if r.is_present else ''}"),
    Column("Memory mode", lambda r: option(r.point, "memory_mode")),
    Column("Time", _text(lambda t: t.inference_ms, milliseconds), _value(lambda t: t.inference_ms),
           "Cycles over the clock of the system configuration, estimated by Vela",
           lambda r: r.time_share),
    Column("SRAM", _text(lambda t: t.sram_bytes, lambda v: size(int(v))),
           _value(lambda t: t.sram_bytes), "Peak, estimated by Vela", lambda r: r.sram_share),
    Column("Cycles", _text(lambda t: t.cycles_total, count), _value(lambda t: t.cycles_total),
           "Estimated by Vela"),
    Column("Constants", _text(lambda t: t.flash_bytes, lambda v: size(int(v))),
           _value(lambda t: t.flash_bytes), "Weights and commands, estimated by Vela"),
    Column("SRAM limit", lambda r: option(r.point, "arena_cache_bytes")),
    Column("Optimise", lambda r: option(r.point, "optimise")),
    Column("System configuration", lambda r: option(r.point, "system_config")),
    Column("Remark", lambda r: r.point.problem or remark(r.point),
           meaning="Why a point was left out, or what to know about it"),
)  # fmt: skip


class DeviceTableModel(FigureTableModel[DeviceRow]):
    """All points of a sweep."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(DEVICE_COLUMNS, lambda row: describe_point(row.point), parent)
