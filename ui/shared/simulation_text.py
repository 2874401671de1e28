"""Cards and text of a simulation."""

from __future__ import annotations

from collections.abc import Iterator

from ui.shared.figure_cards import Card
from ui.shared.number_format import count, percent, size
from workbench.results import SimulationResult, VerifyResult
from workbench.results.simulation import Agreement, FunctionalRun


def origin_of(result: SimulationResult) -> str:
    """Return the origin of the figures."""
    if result.kind == "functional":
        return "executed on the simulator (no timing)"
    if result.kind == "board":
        return "measured (board)"
    return f"measured (FVP {result.report.version})".replace(" )", ")")


def simulation_cards(result: SimulationResult) -> list[Card]:
    """Return the cards of a simulation."""
    origin = origin_of(result)
    reference, quantized = result.against_reference, result.against_quantized
    exact = reference.exact / reference.elements if reference.elements else None
    cards = []
    if result.cycles is not None:
        ratio = result.cycles / result.estimated_cycles if result.estimated_cycles else None
        cards = [
            Card("NPU cycles", count(result.cycles), origin,
                 "Per inference, while the NPU is active"),
            Card("Measured / estimated", percent(ratio, 0), origin,
                 f"Vela estimated {count(result.estimated_cycles)} cycles"),
        ]  # fmt: skip
    samples = Card("Samples", count(result.samples), origin, "Number of simulated inputs")
    if not reference.elements:
        return [*cards, samples]
    return [
        *cards,
        Card("Equal to TOSA", percent(exact), origin,
             f"{count(reference.exact)} of {count(reference.elements)} output elements equal "
             "those of the TOSA reference model"),
        Card("Max difference", f"{quantized.max_lsb} LSB", origin,
             "From the quantized model, in the simulated samples"),
        Card("Same class", f"{quantized.argmax_equal} of {result.samples}", origin,
             "Samples with the same largest output as the quantized model"),
        samples,
    ]  # fmt: skip


def simulation_text(result: SimulationResult, verified: VerifyResult | None = None) -> str:
    """Return the text below the cards; ``verified`` is what Verify computed for the program."""
    return "\n".join(_lines(result, verified))


def _lines(result: SimulationResult, verified: VerifyResult | None) -> Iterator[str]:
    report, functional = result.report, result.functional
    if result.kind == "functional":
        yield f"{report.exit_reason} Duration: {report.elapsed_s:.1f} s."
    else:
        source = ", ".join(filter(None, (report.simulator, result.runner)))
        yield f"{report.exit_reason} {source}, {report.elapsed_s:.1f} s."
    yield from report.explanation
    pools = [
        f"{pool.name} {f'{size(pool.used)} of ' if pool.used is not None else ''}{size(pool.given)}"
        for pool in report.pools
    ]
    if pools:
        yield f"Runner memory pools: {', '.join(pools)}."
    if result.against_reference.elements:
        yield _differences("TOSA reference model", result.against_reference)
        yield _differences("quantized model", result.against_quantized)
        if verified is not None and verified.samples > result.samples:
            yield (
                f"Simulated: {result.samples} of {verified.samples} verified samples. In all "
                f"{verified.samples}, Verify found up to {verified.max_lsb} LSB from the quantized "
                "model."
            )
    elif result.kind == "fvp":
        yield "Outputs not compared: this runner does not write outputs to files."
    elif result.kind == "board":
        yield "Outputs not compared: the firmware did not print all of them."
    if functional is not None:
        yield from _functional(functional, is_alone=result.kind == "functional")
    if result.kind != "functional":
        yield from report.notes


def _functional(run: FunctionalRun, *, is_alone: bool) -> Iterator[str]:
    if run.refused and not is_alone:
        yield f"Not executed on the simulator: {run.refused}"
    if run.against_simulator is not None:
        yield _differences("functional simulator", run.against_simulator)
    if run.findings:
        first = run.findings[0]
        yield (
            f"Remarks on {count(len(run.findings))} commands; the first, {first.command} at "
            f"{first.offset:#x}: {first.message}"
        )


def _differences(other: str, agreement: Agreement) -> str:
    parts = [f"{number} by {lsb:+d} LSB" for lsb, number in agreement.histogram.items() if lsb]
    if not parts:
        return f"All outputs equal the {other}."
    shown = ", ".join(parts[:8]) + (" and others" if len(parts) > 8 else "")
    worst = max(range(len(agreement.sample_max_lsb)), key=lambda i: agreement.sample_max_lsb[i])
    return (
        f"Differs from the {other}: {shown}; most in sample {worst + 1} "
        f"({agreement.sample_max_lsb[worst]} LSB)."
    )
