"""What a run on a simulator tells a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.results.simulation import SimulationReport


def print_report(
    report: SimulationReport, notes: Sequence[str], files: Sequence[dict[str, Any]]
) -> None:
    """Print how it ended, what was measured, and what went wrong."""
    print(f"{'Done' if report.succeeded else 'Failed':<12} {report.exit_reason}")
    _print_measured(report)
    for pool in report.pools:
        used = f"{pool.used:,} of " if pool.used is not None else ""
        print(f"Pool         {pool.name}: {used}{pool.given:,} bytes")
    for check in report.bundle:
        verdict = "equal within the runner's tolerance" if check.passed else "different"
        print(f"Bundle       test {check.index}: {verdict}")
    for sentence in report.explanation:
        print(f"             {sentence}")
    for diagnosis in report.diagnoses:
        print(f"Failure      {diagnosis.line}")
        print(f"             {diagnosis.cause}")
        print(f"             {diagnosis.remedy}")
    for note in notes:
        print(f"Note         {note}")
    for file in files:
        print(f"Output       {file['path']}  {file['dtype']} {file['shape']}")
    if not report.succeeded and not report.diagnoses:
        for line in report.last_lines[-10:]:
            print(f"  {line}")


def _print_measured(report: SimulationReport) -> None:
    cycles = [m.cycles_per_inference for m in report.measurements]
    known = [c for c in cycles if c is not None]
    if not known or report.fast:
        return
    label = f"measured ({report.simulator} {report.version})".replace(" )", ")")
    spread = f", {min(known):,.0f} to {max(known):,.0f}" if len(set(known)) > 1 else ""
    mean = sum(known) / len(known)
    print(f"Cycles       {mean:,.0f} NPU cycles an inference{spread}, {label}")
