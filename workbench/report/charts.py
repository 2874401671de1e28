"""Drawings as SVG text, for a page that loads nothing: bars, bands and a scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from workbench.report.findings import Point
    from workbench.results import LiveRange, TensorRange

_WIDTH, _HEIGHT, _ROW, _LABEL = 900, 260, 18, 260
_MARGIN = 44


def _svg(width: float, height: float, body: list[str], label: str) -> str:
    head = (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(label)}" '
        'xmlns="http://www.w3.org/2000/svg">'
    )
    return Markup(head + "".join(body) + "</svg>")


def bars(rows: Sequence[tuple[str, float]], unit: str) -> str:
    """Return one horizontal bar for each row, labelled with name and value."""
    if not rows:
        return ""
    most = max(1e-30, *(value for _, value in rows))
    body = []
    for place, (name, value) in enumerate(rows):
        top = place * _ROW
        length = max(0.0, value / most) * (_WIDTH - _LABEL - 90)
        shown = name if len(name) <= 40 else f"…{name[-39:]}"
        body.append(
            f'<text class="name" x="{_LABEL - 8}" y="{top + 13}">{escape(shown)}</text>'
            f'<rect class="bar" x="{_LABEL}" y="{top + 3}" width="{length:.1f}" height="12">'
            f"<title>{escape(name)}: {value:,.6g} {escape(unit)}</title></rect>"
            f'<text class="value" x="{_LABEL + length + 6:.1f}" y="{top + 13}">{value:,.4g}</text>'
        )
    return _svg(_WIDTH, len(rows) * _ROW + 4, body, f"{unit} of {len(rows)} rows")


def bands(ranges: Sequence[TensorRange]) -> str:
    """Return every tensor's whole range, and inside it the band of 99.8 % of its values."""
    seen = [r for r in ranges if math.isfinite(r.minimum) and math.isfinite(r.maximum)]
    if not seen:
        return ""
    low, high = min(0.0, *(r.minimum for r in seen)), max(0.0, *(r.maximum for r in seen))
    span = (high - low) or 1.0
    step = (_WIDTH - _MARGIN) / len(seen)

    def up(value: float) -> float:
        return (high - min(max(value, low), high)) / span * (_HEIGHT - 20) + 10

    zero = up(0.0)
    body = [
        f'<line class="axis" x1="{_MARGIN}" x2="{_WIDTH}" y1="{zero:.1f}" y2="{zero:.1f}"/>',
        f'<text class="value" x="0" y="16">{high:.3g}</text>',
        f'<text class="value" x="0" y="{_HEIGHT - 6}">{low:.3g}</text>',
    ]
    for place, each in enumerate(seen):
        left, width = _MARGIN + place * step, max(step * 0.8, 0.6)
        title = f"<title>{escape(each.node)}: {each.minimum:.4g} to {each.maximum:.4g}</title>"
        for name, first, last in (
            ("whole", each.maximum, each.minimum), ("band", each.p_high, each.p_low),
        ):  # fmt: skip
            top, bottom = up(first), up(last)
            body.append(
                f'<rect class="{name}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" '
                f'height="{max(bottom - top, 0.5):.1f}">{title}</rect>'
            )
    return _svg(_WIDTH, _HEIGHT, body, f"ranges of {len(seen)} tensors")


def memory(tensors: Sequence[LiveRange]) -> str:
    """Return where tensors of one memory lie while they live: steps across, addresses up."""
    if not tensors:
        return ""
    steps = max(tensor.end for tensor in tensors) + 1
    top = max(tensor.address + tensor.bytes for tensor in tensors)
    body = [
        f'<text class="value" x="0" y="16">{top / 1024:,.1f} KiB</text>',
        f'<text class="value" x="{_MARGIN}" y="{_HEIGHT - 2}">{steps} steps of the schedule</text>',
    ]
    tall, wide = _HEIGHT - 34, _WIDTH - _MARGIN
    for tensor in tensors:
        x = _MARGIN + tensor.start / steps * wide
        width = max((tensor.end - tensor.start + 1) / steps * wide - 0.5, 0.5)
        height = max(tensor.bytes / top * tall, 0.5)
        y = 20 + tall - (tensor.address + tensor.bytes) / top * tall
        body.append(
            f'<rect class="live" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}"><title>{escape(tensor.name)} {escape(tensor.module)}: '
            f"{tensor.bytes:,} bytes at {tensor.address:#x}</title></rect>"
        )
    return _svg(_WIDTH, _HEIGHT, body, f"{len(tensors)} tensors in memory")


def scatter(points: Sequence[Point], across: str, up: str) -> str:
    """Return runs as points, those that no other beats marked; nothing for fewer than two."""
    if len(points) < 2:
        return ""
    xs, ys = [p.x for p in points], [p.y for p in points]
    wide, tall = (max(xs) - min(xs)) or 1.0, (max(ys) - min(ys)) or 1.0
    body = [
        f'<text class="value" x="{_MARGIN}" y="{_HEIGHT - 4}">{escape(across)} '
        f"{min(xs):,.0f} to {max(xs):,.0f}</text>",
        f'<text class="value" x="0" y="12">{escape(up)} {min(ys):.4g} to {max(ys):.4g}</text>',
    ]
    for point in points:
        x = _MARGIN + (point.x - min(xs)) / wide * (_WIDTH - 2 * _MARGIN)
        y = 24 + (max(ys) - point.y) / tall * (_HEIGHT - 60)
        body.append(
            f'<circle class="{"best" if point.is_best else "run"}" cx="{x:.1f}" cy="{y:.1f}" '
            f'r="5"><title>run {point.number}: {point.x:,.0f} {escape(across)}, {point.y:.5g}'
            f'</title></circle><text class="value" x="{x + 8:.1f}" y="{y + 4:.1f}">'
            f"{point.number}</text>"
        )
    return _svg(_WIDTH, _HEIGHT, body, f"{len(points)} runs")
