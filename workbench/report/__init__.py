"""The report: one HTML page of a project with everything that was found, self-contained."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from workbench.report import charts
from workbench.report.findings import Findings, gathered

if TYPE_CHECKING:
    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project

_TEMPLATES = Path(__file__).parent.parent.parent / "resources" / "report"


def page(project: Project, path: Path, cache: Cache) -> str:
    """Return the page; what was not run yet is named as missing.

    Args:
        project: The project as it is now.
        path: Its file; the history beside it is told too.
        cache: Where results are read from; nothing is computed.

    Raises:
        WorkbenchError: a file that the project names is missing.
    """
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["figure"] = _figure
    environment.filters["kib"] = _kib
    found = gathered(project, path, cache)
    return environment.get_template("page.html").render(
        found=found, project=project, pictures=_pictures(found),
        memories=_memories(found),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )  # fmt: skip


def _pictures(found: Findings) -> dict[str, str]:
    """Return the drawings by name; one without anything to show is empty."""
    made = dict.fromkeys(("ranges", "layers", "modules", "histogram", "runs"), "")
    if found.calibrate:
        activations = [r for r in found.calibrate.ranges if r.kind == "activation"]
        made["ranges"] = charts.bands(activations)
    if found.evaluate:
        made["layers"] = charts.bars(
            [(t.tensor, t.sqnr_db) for t in found.evaluate.tensors if t.sqnr_db is not None],
            "SQNR [dB]",
        )
    if found.lower and found.lower.exported is None:
        made["modules"] = charts.bars(
            [(m.name or "(whole model)", float(m.cycles)) for m in found.modules[:40]], "cycles"
        )
    if found.verify and not found.verify.runtime:
        counts = sorted(found.verify.histogram.items())
        made["histogram"] = charts.bars(
            [(f"{k:+d} LSB" if k else "equal", float(v)) for k, v in counts], "elements"
        )
    made["runs"] = charts.scatter(found.points, "cycles", found.accuracy_name)
    return made


def _memories(found: Findings) -> list[tuple[str, int, str]]:
    """Return a picture of each memory of each delegate: its name, the peak [bytes], the drawing."""
    pictures = []
    for report in found.lower.vela if found.lower else ():
        for name in dict.fromkeys(tensor.memory for tensor in report.tensors):
            tensors = [tensor for tensor in report.tensors if tensor.memory == name]
            peak = max(tensor.address + tensor.bytes for tensor in tensors)
            title = name if report.delegate == 0 else f"{name}, delegate {report.delegate}"
            pictures.append((title, peak, charts.memory(tensors)))
    return pictures


def _figure(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _kib(value: float | None) -> str:
    return "-" if value is None else f"{value / 1024:,.1f} KiB"
