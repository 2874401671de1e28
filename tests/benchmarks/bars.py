"""Every figure that the program is held to: its title, unit and bar, and the last kept results.

``results.json`` holds the figures of the last run that was kept, and the page of the guide shows
them. ``.ci/bench`` runs all benchmarks and prints the table; ``.ci/bench --keep`` keeps it too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

KEPT = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "resources" / "guide" / "performance.md"
BEGIN, END = "<!-- figures: written by .ci/bench --keep -->\n", "<!-- end of figures -->\n"


@dataclass(frozen=True)
class Bar:
    """A bar of one figure: at most ``most`` or at least ``least``, in ``unit``; "" is a ratio."""

    most: float | None = None
    least: float | None = None
    unit: str = ""

    def holds(self, value: float) -> bool:
        """Return whether a figure keeps the bar; one without a bar always does."""
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)

    @property
    def text(self) -> str:
        """The bar as shown in the table."""
        if self.most is not None:
            return f"at most {shown(self.most, self.unit)}"
        return f"at least {shown(self.least, self.unit)}" if self.least is not None else ""


def shown(value: float, unit: str) -> str:
    """Return a figure with three significant digits and its unit."""
    digits = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{digits} {unit}".strip()


_GRAPHS = ("mobilenet_v2", "transformer", "decoder", "resnet", "u_net", "inception")

BARS: dict[str, Bar] = {
    "MobileNetV2 224², default run, proven, nothing cached, against the plain script": Bar(0.40),
    "The same in CPU time of all processes": Bar(),
    **{
        f"Default run, proven, nothing cached, against its plain script: {title}": Bar(0.40)
        for title in ("transformer of 4 layers", "LSTM of 24 steps", "digits")
    },
    "MobileNetV2 224² to .pte, nothing cached, against the plain script, same bytes": Bar(0.25),
    "The same again, nothing changed": Bar(1.0, unit="s"),
    "First painted frame with MobileNetV2 open, against a bare QMainWindow": Bar(2.5),
    "First painted frame with MobileNetV2 open": Bar(unit="s"),
    "MobileNetV2 shown in the window": Bar(unit="s"),
    "Memory of the window": Bar(200, unit="MB"),
    "Lateness of a 16 ms beat in the window while MobileNetV2 runs, p99": Bar(16, unit="ms"),
    "Lateness of a 16 ms beat in the window while MobileNetV2 runs, longest": Bar(50, unit="ms"),
    "Peak memory of the engine that lowers MobileNetV2": Bar(500, unit="MB"),
    "Memory of both engines after it, shared pages counted once": Bar(450, unit="MB"),
    "Start of an engine, against the stock imports": Bar(0.35),
    "Lowering against stock, same bytes: MobileNetV2 96²": Bar(0.12),
    "Lowering against stock, same bytes: MobileNetV2 224²": Bar(0.12),
    "Lowering against stock, same bytes: transformer of 4 layers": Bar(0.16),
    "Lowering against stock, same bytes: LSTM of 24 steps": Bar(0.12),
    "Lowering against stock, same bytes: ResNet-8": Bar(0.2),
    "Another device with the same TOSA, against lowering": Bar(0.06),
    "One module changed, lowered again, against stock: MobileNetV2 96²": Bar(0.08),
    "Calibration pass against stock: MobileNetV2 96²": Bar(0.7),
    "Calibration pass against stock: transformer": Bar(0.7),
    "Conversion after an edit, against stock: MobileNetV2 96²": Bar(0.5),
    "Quantized evaluation against float: MobileNetV2 96²": Bar(1.4),
    "Quantized evaluation against float: MobileNetV2 96², a16w8": Bar(1.4),
    "Quantized evaluation against float: transformer": Bar(5.0),
    "One module changed, to its numbers, statistics known: MobileNetV2 96²": Bar(0.07),
    "One module changed, to its numbers, statistics known: transformer": Bar(0.15),
    "One module changed, to its numbers, one pass needed: MobileNetV2 96²": Bar(0.3),
    "Sensitivity of MobileNetV2 96², against a flow for each module": Bar(0.05),
    "Undo of an edit, to its numbers in the window": Bar(0.1, unit="s"),
    "40 points of MobileNetV2 swept, against bare Vela on as many cores": Bar(1.1),
    "Functional simulation of MobileNetV2 224², against the TOSA reference model: U55": Bar(0.5),
    "Functional simulation of MobileNetV2 224², against the TOSA reference model: U85": Bar(0.5),
    "From Run to the simulator's process, nothing to be made anew": Bar(100, unit="ms"),
    "Lines of a serial port read": Bar(least=200_000, unit="/s"),
    "A log of a million lines scrolled": Bar(least=60, unit="frames/s"),
    "Memory of a log of a million lines": Bar(32, unit="MB"),
    "A .pte of 50 MB opened": Bar(1.0, unit="s"),
    "Commands of MobileNetV2, to the painted table": Bar(0.3, unit="s"),
    "Slowest elementwise format against torch's fake quantization": Bar(4.0),
    "Slowest block format against torch's fake quantization": Bar(8.0),
    "MobileNetV2 224² in the slowest format against float": Bar(5.0),
    "500 tensors, values to first paint": Bar(100, unit="ms"),
    "Brushing over 500 tensors, a frame": Bar(17, unit="ms"),
    "100,000 channels moved, linear, all in view": Bar(33, unit="ms"),
    "100,000 channels moved, linear, a tenth in view": Bar(33, unit="ms"),
    "100,000 channels moved, logarithmic, all in view": Bar(33, unit="ms"),
    "100,000 channels moved, logarithmic, a tenth in view": Bar(33, unit="ms"),
    "A step of a clip line: figures": Bar(8, unit="ms"),
    "A step of a clip line: figures and paint": Bar(8, unit="ms"),
    "2,000 tensors of a memory moved": Bar(17, unit="ms"),
    "2,000 operations of a timeline moved, most in view": Bar(17, unit="ms"),
    "2,000 operations of a timeline moved, a tenth in view": Bar(17, unit="ms"),
    "2,000 operations of a timeline moved, a hundredth in view": Bar(17, unit="ms"),
    "2,000 operations of a timeline: a step of a box, with its sums": Bar(17, unit="ms"),
    "Graph of 5,000 nodes: file to first paint": Bar(0.3, unit="s"),
    "Graph of 50,000 nodes: file to first paint": Bar(1.5, unit="s"),
    "Graph of 20,000 nodes: one group closed, against the whole layout": Bar(1.0),
    "Graph of 18,000 nodes: one group clicked, window's thread, median": Bar(8, unit="ms"),
    "Graph of 18,000 nodes: one group clicked, window's thread, longest": Bar(unit="ms"),
    "Graph of 18,000 nodes: one group clicked, laid out off that thread": Bar(50, unit="ms"),
    "Graph of 20,000 nodes, all in view: painted anew": Bar(16, unit="ms"),
    "Graph of 20,000 nodes, all in view: panning": Bar(16, unit="ms"),
    "Graph of 20,000 nodes, all in view: zooming": Bar(16, unit="ms"),
    "Graph at reading scale: painted anew": Bar(unit="ms"),
    "Graph at reading scale: panning": Bar(4, unit="ms"),
    "Graph at reading scale: zooming": Bar(4, unit="ms"),
    "Graph of 20,000 nodes: everything opens": Bar(1.5, unit="s"),
    "Graph of 20,000 nodes: longest frame meanwhile": Bar(33, unit="ms"),
    "Memory of a graph of 20,000 nodes": Bar(80, unit="MB"),
    **{f"Edges through foreign boxes: {name}": Bar(0) for name in _GRAPHS},
    **{
        f"Crossings beyond those of Graphviz dot: {name.replace('decoder', 'decoder_4')}": Bar(0)
        for name in _GRAPHS
    },
}


def kept() -> dict[str, float]:
    """Return the figures of the last run that was kept, by title."""
    if not KEPT.exists():
        return {}
    figures: dict[str, float] = json.loads(KEPT.read_text(encoding="utf-8"))
    return figures


def keep(measured: dict[str, float]) -> None:
    """Keep measured figures beside those of earlier runs, and write the page of the guide."""
    merged = {**kept(), **measured}
    ordered = {title: float(f"{merged[title]:.3g}") for title in BARS if title in merged}
    KEPT.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page of the guide with the table of the kept figures."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{_page_table()}\n{END}{after}"


def _page_table() -> str:
    rows = ["| what | measured | asked |", "|---|---|---|"]
    figures = kept()
    for title, bar in BARS.items():
        if title not in figures:
            rows.append(f"| {title} | not measured | {bar.text} |")
            continue
        missed = "" if bar.holds(figures[title]) else ", **missed**"
        rows.append(f"| {title} | {shown(figures[title], bar.unit)} | {bar.text}{missed} |")
    return "\n".join(rows) + "\n"


def table(measured: dict[str, float]) -> str:
    """Return the measured figures beside their bars and the figures kept last."""
    before, width = kept(), max(map(len, measured), default=10)
    lines = [f"{'':{width}}  {'measured':>14}  {'kept last':>14}  {'change':>7}  asked"]
    for title, bar in BARS.items():
        value = measured.get(title)
        if value is None:
            continue
        last = before.get(title)
        change = f"{100 * (value / last - 1):+.0f} %" if last else ""
        missed = "" if bar.holds(value) else "  MISSED"
        lines.append(
            f"{title:{width}}  {shown(value, bar.unit):>14}  "
            f"{shown(last, bar.unit) if last is not None else '':>14}  {change:>7}  "
            f"{bar.text}{missed}"
        )
    return "\n".join(lines)
