"""Measured times of programs on boards, and the time of a program anchored in them.

Rows are published figures with their sources (``resources/silicon``) and the user's own, in the
configuration folder. Both are TOML files with one ``[[row]]`` for each program.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from workbench.errors import ErrorInfo, Place, WorkbenchError, failure, invalid_values, not_written, reason_of
from workbench.files import read_limited, write_file
from workbench.installation import config_folder, resources
from workbench.project.frozen import Finite, Frozen
from workbench.text import plural, read_toml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.results import LowerResult

SHIPPED = resources() / "silicon"
_MOST_BYTES = 1 << 20
# From this number on an estimate has an interval; below it the rows themselves are shown.
LEAST_ROWS = 5
# Cycles of a Cortex-M55 for each float that is quantized or dequantized at the ends of a program:
# 1.37 million for 150,528 floats, measured once, on an unnamed board.
CONVERSION_CYCLES = 1.37e6 / 150_528
# Source of the figures: huggingface.co/Arm, cards of ResNet-50 for ExecuTorch on Ethos-U.
RANDOM_WEIGHTS = (
    "Random weights compress differently from trained ones: size and time of the trained program "
    "differ (a trained ResNet-50 per channel was 37 % slower than per tensor)."
)


class SiliconRow(Finite):
    """One measured program.

    ``measured_ms`` or ``measured_cycles`` is the publisher's, ``estimate_ms`` or
    ``estimate_cycles`` this program's for the network, rebuilt as ``rebuilt`` says;
    ``uncorrected_ms`` is the estimate before its correction. A row that is not ``used`` has a
    ``doubt`` and is in no interval. ``program_sha256`` and ``axi_beats`` are those of a remembered
    run.
    """

    id: str = Field(min_length=1)
    kind: Literal["silicon", "fvp"] = "silicon"
    network: str = Field(min_length=1)
    input: str = ""
    quantization: str = ""
    runtime: str = ""
    device: str = ""
    placement: str = ""
    memory: str = ""
    clock_hz: int | None = Field(default=None, gt=0)
    measured_ms: float | None = Field(default=None, gt=0)
    measured_cycles: float | None = Field(default=None, gt=0)
    measured_note: str = ""
    estimate_ms: float | None = Field(default=None, gt=0)
    estimate_cycles: float | None = Field(default=None, gt=0)
    rebuilt: str = ""
    uncorrected_ms: float | None = Field(default=None, gt=0)
    size_bytes: int | None = Field(default=None, gt=0)
    sram_bytes: int | None = Field(default=None, gt=0)
    used: bool = True
    doubt: str = ""
    program_sha256: str = ""
    axi_beats: Mapping[str, float] = Field(default_factory=dict)
    source: str = Field(min_length=1)

    @property
    def ratio(self) -> float | None:
        """What was measured, divided by the estimate; None if one of them is not known."""
        if self.measured_cycles and self.estimate_cycles:
            return self.measured_cycles / self.estimate_cycles
        if self.measured_ms and self.estimate_ms:
            return self.measured_ms / self.estimate_ms
        return None


class SiliconFile(Finite):
    """The rows of one board; ``board`` is "" if the publisher does not name it."""

    board: str = ""
    row: tuple[SiliconRow, ...] = ()


def own_folder() -> Path:
    """Return the folder of the user's own rows; it may not exist."""
    return config_folder() / "silicon"


def read(path: Path) -> SiliconFile:
    """Return the rows of a file.

    Raises:
        WorkbenchError: it is unreadable or invalid; lists every problem.
    """
    where = Place(kind="file", id=path.name)
    try:
        raw = read_toml(read_limited(path, _MOST_BYTES).decode())
        return SiliconFile.model_validate(raw)
    except ValidationError as error:
        raise WorkbenchError(
            ErrorInfo(
                message=f"{path.name}, {v.field or 'the file'}: {v.message}",
                where=where,
                hint="Every row needs id, network and source.",
                code="silicon-invalid",
            )
            for v in invalid_values(error)
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise failure(
            f"{path.name} cannot be read: {reason_of(error)}.",
            "Correct the file, or set its permissions.",
            where=where,
            code="silicon-unreadable",
        ) from None


def files() -> dict[Path, SiliconFile | WorkbenchError]:
    """Return every file: shipped ones, then the user's own; an invalid one with its error."""
    by_path: dict[Path, SiliconFile | WorkbenchError] = {}
    for folder in (SHIPPED, own_folder()):
        for path in sorted(folder.glob("*.toml")):
            try:
                by_path[path] = read(path)
            except WorkbenchError as error:
                by_path[path] = error
    return by_path


def shipped() -> dict[str, SiliconFile]:
    """Return the published rows by the name of their file."""
    return {path.stem: read(path) for path in sorted(SHIPPED.glob("*.toml"))}


def _valid(*, shipped_only: bool) -> list[SiliconFile]:
    if shipped_only:
        return list(shipped().values())
    return [file for file in files().values() if isinstance(file, SiliconFile)]


def rows_of(board: str, *, shipped_only: bool = False) -> tuple[SiliconRow, ...]:
    """Return the rows of a board, published ones first; invalid files are left out."""
    listed = _valid(shipped_only=shipped_only)
    return tuple(row for file in listed if file.board == board for row in file.row)


def in_figures(milliseconds: float | None, cycles: float | None) -> str:
    """Return a time, or cycles where there is none, as text; "" for neither."""
    if milliseconds is not None:
        return f"{milliseconds:.3f} ms"
    return "" if cycles is None else f"{cycles:,.0f} cycles"


def add_row(board: str, row: SiliconRow) -> Path:
    """Write a row into the user's file of a board and return the file; an equal id is replaced.

    Raises:
        WorkbenchError: the file is invalid, or cannot be written.
    """
    stem = "".join(c if c.isalnum() or c in "-_" else "_" for c in board) or "unassigned"
    path = own_folder() / f"{stem}.toml"
    kept = [r for r in read(path).row if r.id != row.id] if path.exists() else []
    text = f"board = {_text(board)}\n" + "".join(map(_written, [*kept, row]))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text.encode())
    except OSError as error:
        raise not_written(path, error, "Make the folder writable.", "silicon-not-writable") from error
    return path


def _written(row: SiliconRow) -> str:
    values = row.model_dump(exclude_defaults=True)
    lines = [f"{name} = {_text(value)}" for name, value in values.items()]
    return "\n[[row]]\n" + "\n".join(lines) + "\n"


def _text(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(k)} = {_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, str):
        escaped = (c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in value)
        return '"' + "".join(escaped) + '"'
    return repr(value)


def checked_row(values: Mapping[str, Any]) -> SiliconRow:
    """Return a row of plain values.

    Raises:
        WorkbenchError: a value is invalid; lists every problem.
    """
    try:
        return SiliconRow.model_validate({k: v for k, v in values.items() if v is not None})
    except ValidationError as error:
        raise WorkbenchError(
            ErrorInfo(message=f"{v.field}: {v.message}", code="silicon-invalid")
            for v in invalid_values(error)
        ) from None


def row_of_run(
    lowered: LowerResult,
    program: bytes,
    name: str,
    source: str,
    measured: tuple[float | None, float | None],
    beats: Mapping[str, float] | None = None,
) -> SiliconRow:
    """Return the row of a measured run of a compiled program.

    Args:
        lowered: The compiled program with its estimate.
        program: The .pte; the row has its SHA-256.
        name: The network's name.
        source: Who measured it, and how.
        measured: Time [ms] and NPU cycles of one inference, None if not measured.
        beats: Counted AXI beats by event.
    """
    milliseconds, cycles = measured
    fingerprint = hashlib.sha256(program).hexdigest()
    total = sum(report.inference_ms for report in lowered.vela)
    return checked_row(
        {
            "id": f"{name}-{fingerprint[:8]}",
            "network": name,
            "runtime": "ExecuTorch",
            "device": lowered.target,
            "placement": lowered.placement,
            "clock_hz": round(lowered.cycles / total * 1e3) if total else None,
            "measured_ms": milliseconds,
            "measured_cycles": cycles,
            "estimate_ms": total or None,
            "estimate_cycles": float(lowered.cycles) or None,
            "rebuilt": "the program itself",
            "size_bytes": len(program) or None,
            "program_sha256": fingerprint,
            "axi_beats": dict(beats or {}),
            "source": source,
        }
    )


class AnchorRow(Frozen):
    """A row of the same board, device and placement; ``ratio`` is measured / estimated.

    ``others`` is the ratio that the other rows predict for it: its leave-one-out figure.
    """

    id: str
    network: str
    ratio: float
    others: float | None = None
    source: str


class DeviceTime(Frozen):
    """The time of one inference on the NPU [ms], with where it comes from.

    ``origin`` is "anchored" (from measured rows, with an interval), "estimated" (cycles and clock),
    or "" if the placement is not described: then there are cycles only. ``beside`` says what the
    time does not contain.
    """

    ms: float | None
    low_ms: float | None = None
    high_ms: float | None = None
    origin: Literal["anchored", "estimated", ""]
    rows: tuple[AnchorRow, ...] = ()
    placement: str
    sentence: str
    beside: tuple[str, ...] = ()

    @property
    def most_ms(self) -> float | None:
        """The upper end of the interval, or the estimate if there is none."""
        return self.ms if self.high_ms is None else self.high_ms


def anchors(board: str, device: str, placement: str, *, shipped_only: bool = False) -> list[SiliconRow]:
    """Return the rows that say something about a device and placement of a board."""
    return [
        row
        for row in rows_of(board, shipped_only=shipped_only)
        if row.used and row.ratio and (row.device, row.placement) == (device, placement)
    ]


def left_out(rows: Sequence[SiliconRow]) -> list[float]:
    """Return for each row the ratio that the others predict: the geometric mean of theirs."""
    logs = [math.log(row.ratio or 1.0) for row in rows]
    return [
        math.exp(statistics.fmean(logs[:i] + logs[i + 1 :])) if len(logs) > 1 else 1.0
        for i in range(len(logs))
    ]


def interval(ratios: Sequence[float], predicted: Sequence[float]) -> tuple[float, float, float]:
    """Return factor, lower and upper end that measured rows give an estimate.

    The factor is the geometric mean of all ratios. The ends are the largest errors of the factors
    that were made without the row that they predict, down and up.
    """
    factor = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
    errors = [ratio / other for ratio, other in zip(ratios, predicted, strict=True)]
    return factor, factor * min(1.0, *errors), factor * max(1.0, *errors)


class AnchorGroup(Frozen):
    """The rows of one board, device and placement, and what they give an estimate.

    ``low`` and ``high`` are the interval's ends as multiples of the estimate, and ``inside`` counts
    the rows that are within the interval of the others; None for fewer than ``LEAST_ROWS``.
    """

    board: str
    device: str
    placement: str
    rows: tuple[AnchorRow, ...]
    factor: float
    low: float | None = None
    high: float | None = None
    inside: int | None = None


def groups(*, shipped_only: bool = False) -> list[AnchorGroup]:
    """Return the used rows of all valid files by board, device and placement."""
    keys: dict[tuple[str, str, str], None] = {}
    for file in _valid(shipped_only=shipped_only):
        if file.board:
            keys |= {(file.board, r.device, r.placement): None for r in file.row if r.used and r.ratio}
    return [_group(*key, anchors(*key, shipped_only=shipped_only)) for key in keys]


def _group(board: str, device: str, placement: str, rows: Sequence[SiliconRow]) -> AnchorGroup:
    ratios, predicted = [row.ratio or 1.0 for row in rows], left_out(rows)
    factor, low, high = interval(ratios, predicted)
    group = AnchorGroup(
        board=board, device=device, placement=placement, factor=factor, rows=tuple(_anchor_rows(rows))
    )
    if len(rows) < LEAST_ROWS:
        return group
    inside = 0
    for index, ratio in enumerate(ratios):
        others = [*rows[:index], *rows[index + 1 :]]
        _, least, most = interval([r.ratio or 1.0 for r in others], left_out(others))
        inside += least <= ratio <= most
    return group.model_copy(update={"low": low, "high": high, "inside": inside})


def _anchor_rows(rows: Sequence[SiliconRow]) -> Iterator[AnchorRow]:
    for row, other in zip(rows, left_out(rows), strict=True):
        yield AnchorRow(
            id=row.id,
            network=row.network,
            ratio=row.ratio or 1.0,
            source=row.source,
            others=other if len(rows) > 1 else None,
        )


def problems() -> Iterator[ErrorInfo]:
    """Yield what is wrong with valid files: ids that occur twice, rows without a figure."""
    seen: set[tuple[str, str]] = set()
    for path, file in files().items():
        for row in file.row if isinstance(file, SiliconFile) else ():
            where = Place(kind="file", id=path.name)
            if (file.board, row.id) in seen:  # type: ignore[union-attr]
                yield ErrorInfo(
                    message=f"{path.name}: the id {row.id} occurs twice.",
                    hint="Give each row an id of its own.",
                    where=where,
                    code="silicon-id-twice",
                )
            seen.add((file.board, row.id))  # type: ignore[union-attr]
            if row.measured_ms is None and row.measured_cycles is None:
                yield ErrorInfo(
                    message=f"{path.name}, {row.id}: nothing was measured.",
                    hint="Add measured_ms or measured_cycles.",
                    where=where,
                    code="silicon-not-measured",
                )
            if not row.used and not row.doubt:
                yield ErrorInfo(
                    message=f"{path.name}, {row.id}: not used, without a reason.",
                    hint="Say why in doubt.",
                    where=where,
                    code="silicon-no-reason",
                )


def time_of(lowered: LowerResult) -> DeviceTime:
    """Return the time of a compiled program on its board, or for its configuration."""
    where = lowered.placement or f"{lowered.system_config}, {lowered.memory_mode}"
    beside = tuple(_beside(lowered))
    estimate = lowered.inference_ms
    if estimate is None:
        other = "no operator runs on the NPU" if lowered.is_off_npu else "another compiler makes the program"
        words = lowered.untimed or f"No time: {other}."
        return DeviceTime(ms=None, origin="", placement=where, sentence=words, beside=beside)
    rows = anchors(lowered.board, lowered.target, lowered.placement) if lowered.board else []
    ratios, predicted = [row.ratio or 1.0 for row in rows], left_out(rows)
    listed = tuple(_anchor_rows(rows))
    if len(rows) < LEAST_ROWS:
        return DeviceTime(
            ms=estimate,
            origin="estimated",
            rows=listed,
            placement=where,
            sentence=_few(lowered.board, ratios),
            beside=beside,
        )
    factor, low, high = interval(ratios, predicted)
    return DeviceTime(
        ms=estimate * factor,
        low_ms=estimate * low,
        high_ms=estimate * high,
        origin="anchored",
        rows=listed,
        placement=where,
        beside=beside,
        sentence=f"Anchored in {len(rows)} measured programs of this board, which took "
        f"{min(ratios):.2f} to {max(ratios):.2f} times the estimate.",
    )


def _few(board: str, ratios: Sequence[float]) -> str:
    if not ratios:
        return "No measured data for this board and placement." if board else "No measured data."
    values = [f"{ratio:.2f}" for ratio in ratios]
    words = values[0] if len(values) == 1 else f"{', '.join(values[:-1])} and {values[-1]}"
    return f"{plural(len(values), 'program')} of this board: {words} times the estimate."


def _beside(lowered: LowerResult) -> Iterator[str]:
    """Yield what runs beside the NPU and is not part of its time."""
    border = [node for node in lowered.cpu_nodes if node.cause == "border"]
    others = [node for node in lowered.cpu_nodes if node.cause != "border"]
    if others:
        estimated = sum(node.cycles for node in others)
        about = f"roughly {estimated:,} cycles of a Cortex-M55" if estimated else "not estimated"
        yield f"{plural(len(others), 'operator')} on the CPU: {about}."
    if border and lowered.border_elements:
        cycles = lowered.border_elements * CONVERSION_CYCLES
        yield (
            f"Conversion of {lowered.border_elements:,} floats at the ends: about {cycles:,.0f} "
            "cycles of a Cortex-M55 (9.1 for each, measured once). Integer inputs and outputs "
            "need none."
        )
    if lowered.random_weights:
        yield RANDOM_WEIGHTS
    if lowered.delegates:
        yield f"Not included: the time of {plural(lowered.delegates, 'driver call')}."
