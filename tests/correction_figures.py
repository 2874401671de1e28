"""What each correction gains and costs: quality on unseen samples, and cycles, with and without it.

``python -m tests.correction_figures [ID ...]`` measures all rows, or those of some corrections, and
writes ``tests/data/correction_figures.json`` and the page of the guide.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.guide import REFERENCE, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HERE = Path(__file__).parent
KEPT = HERE / "data" / "correction_figures.json"
PAGE = REFERENCE / "correction-figures.md"
U55, U65, U85 = "ethos-u55-128", "ethos-u65-256", "ethos-u85-256"
CALIBRATED, UNSEEN = 16, 8
# What a correction may cost where it gains nothing.
MOST_DECIBEL, MOST_CYCLES = 0.5, 1.05


@dataclass(frozen=True)
class Row:
    """A network that a correction applies to.

    ``network`` is ``FILE:function`` in ``tests/engine``; ``off`` are corrections that are off both
    times, because they would do the same. ``per_tensor`` are modules whose weights have one scale.
    """

    correction: str
    network: str
    config: str = "a8w8"
    device: str = U55
    off: tuple[str, ...] = ()
    per_tensor: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The row in the file of the figures."""
        return f"{self.correction} {self.network.rpartition(':')[2]} {self.config} {self.device}"


@dataclass(frozen=True)
class Figures:
    """One program, measured.

    ``outcome`` is "right", "refused", "crashed" (the process of the compiler ends) or "wrong": the
    compiled program does not compute what its TOSA says. ``quality`` is the SQNR [dB] of the
    program against the float model on unseen samples, None if there is no program or no difference.
    ``steps`` is its largest difference from the quantized model, ``cycles`` are Vela's, ``cpu``
    counts operators on the CPU but for conversions at the border.
    """

    outcome: str
    quality: float | None = None
    steps: int | None = None
    cycles: int | None = None
    cpu: int | None = None


def _rows(correction: str, *networks: str, **settings: Any) -> Iterator[Row]:
    for network in networks:
        yield Row(correction, network, **settings)


_CORRECTED, _DELEGATE = "corrected_networks.py:", "delegate_networks.py:"
_PASS, _UNSEEN = "pass_networks.py:", "unseen_networks.py:"
_REPEATED = "repeated_networks.py:"
_WIDE = {"config": "a16w8"}
ROWS: tuple[Row, ...] = (
    *_rows("keep_relu_clamps", f"{_CORRECTED}joined"),
    *_rows("fine_factors", f"{_CORRECTED}group_norm_wide", **_WIDE, off=("fine_steps",)),
    *_rows("fine_factors", f"{_UNSEEN}chosen_leaves", **_WIDE, device=U85),
    *_rows("steps_of_fractions", f"{_UNSEEN}grown_smoothly", **_WIDE),
    *_rows("steps_of_fractions", f"{_UNSEEN}grown_smoothly"),
    *_rows(
        "fine_steps",
        f"{_CORRECTED}small_values",
        *(
            f"{_UNSEEN}{name}"
            for name in (
                "normed_layers",
                "rotary_gates",
                "soft_argmax",
                "capsules",
                "normed_residual",
                "pairwise_products",
            )
        ),
        **_WIDE,
        device=U85,
    ),
    *_rows(
        "fine_tables",
        f"{_CORRECTED}root_mean_square",
        *(
            f"{_UNSEEN}{name}"
            for name in ("normed_layers", "rotary_gates", "masked_attention", "gated_steps")
        ),
        **_WIDE,
        device=U85,
    ),
    *_rows("relus_with_layers", "networks.py:clamped", per_tensor=("layers.0",)),
    *_rows(
        "bounded_masks",
        *(f"{_UNSEEN}{name}" for name in ("masked_attention", "padded_attention", "padded_keys")),
        device=U85,
    ),
    *_rows("bounded_masks", f"{_UNSEEN}padded_attention", **_WIDE, device=U85),
    *_rows(
        "guarded_quotients",
        *(f"{_UNSEEN}{name}" for name in ("padded_directions", "padded_norm", "empty_capsules")),
    ),
    *_rows(
        "guarded_quotients",
        *(f"{_UNSEEN}{name}" for name in ("padded_directions", "mean_of_chosen", "empty_capsules")),
        **_WIDE,
    ),
    *_rows(
        "logarithms_of_sums",
        *(f"{_UNSEEN}{name}" for name in ("similarities", "sure_classes", "even_classes")),
    ),
    *_rows("logarithms_of_sums", f"{_UNSEEN}similarities", f"{_UNSEEN}sure_classes", **_WIDE, device=U85),
    *_rows("grids_of_triangles", f"{_UNSEEN}pairs_below"),
    *_rows("numbers_with_single_values", f"{_UNSEEN}single_values"),
    *_rows("products_of_computed_weights", f"{_UNSEEN}computed_weights"),
    *_rows("defined_operands", f"{_UNSEEN}signed_roots"),
    *_rows("squares_in_exponents", f"{_UNSEEN}soft_histogram", **_WIDE),
    *_rows("steps_in_float", f"{_UNSEEN}stairs", **_WIDE),
    *_rows("images_sampled_in_float", f"{_UNSEEN}sampled", device=U85),
    *_rows("logarithms_of_quotients", f"{_UNSEEN}odds"),
    *_rows("logarithms_of_quotients", f"{_UNSEEN}odds", **_WIDE, device=U85),
    *_rows("rounded_convolutions", f"{_CORRECTED}residual", **_WIDE),
    *_rows("quantized_where_computed", f"{_DELEGATE}products_of_parts", **_WIDE),
    *_rows("computed_weights_on_cpu", f"{_DELEGATE}computed_kernel", device=U85),
    *_rows("release_passthrough", f"{_CORRECTED}passed_through", **_WIDE),
    *_rows("zeros_for_transposed", f"{_CORRECTED}transposed", **_WIDE),
    *_rows("sums_in_8_bits", f"{_CORRECTED}cumulated", **_WIDE),
    *_rows("folded_constants", f"{_CORRECTED}positions"),
    *_rows("own_weights", f"{_CORRECTED}called_twice", f"{_CORRECTED}scaled_second_call"),
    *_rows("foldable_norms", f"{_CORRECTED}normed_beside"),
    *_rows("plain_operators", f"{_CORRECTED}plain_operators"),
    *_rows("minima_from_maxima", f"{_CORRECTED}least"),
    *_rows("drop_reductions_of_one", f"{_CORRECTED}most_of_one", off=("joined_computed",)),
    *_rows("one_table_in_chain", f"{_CORRECTED}two_tables", **_WIDE, device=U85),
    *_rows("waits_for_second_images", f"{_CORRECTED}distances"),
    # ExecuTorch 1.4 alone needs it: with the program's own nothing is changed.
    *_rows("sums_of_one_dimension", f"{_DELEGATE}squares_of_repeated"),
    *_rows("equal_operations_joined", f"{_REPEATED}normed_rows", f"{_REPEATED}normed_sequence"),
    *_rows("sums_of_single_elements", f"{_REPEATED}normed_sequence"),
    *_rows("sums_of_single_elements", f"{_REPEATED}normed_sequence", device=U85),
    *_rows("squares_of_two_conversions", f"{_REPEATED}squared", f"{_REPEATED}normed_rows"),
    *_rows("zeros_into_convolutions", f"{_REPEATED}causal", f"{_REPEATED}padded_as_tensorflow"),
    *_rows("zeros_into_convolutions", f"{_REPEATED}padded_picture", device=U85),
    *_rows("outputs_kept", f"{_DELEGATE}pooled_and_turned"),
    *_rows("clamps_from_hardtanh", f"{_PASS}clipped"),
    *_rows("constants_rearranged", f"{_CORRECTED}normed_image"),
    *_rows(
        "rescales_joined", f"{_DELEGATE}rows_compared", **_WIDE, device=U65, off=("equal_operations_joined",)
    ),
    *_rows("slices_flattened", f"{_DELEGATE}rotary_keys"),
    *_rows("slices_flattened", f"{_DELEGATE}rotary_keys", device=U85),
    *_rows("slices_flattened", f"{_DELEGATE}windows_in_parts", device=U85),
    *_rows("slices_computed", f"{_DELEGATE}largest_of_part"),
    *_rows("slices_computed", f"{_DELEGATE}padded_batch", **_WIDE, device=U85),
    *_rows("slices_computed", f"{_DELEGATE}modulated_rows", device=U85),
    *_rows("joined_computed", f"{_DELEGATE}multiplied_and_joined"),
    *_rows("joined_computed", *(f"{_DELEGATE}{name}" for name in ("pooled_both_ways", "channel_statistics"))),
    *_rows("flips_of_copies", f"{_DELEGATE}flipped_product", device="ethos-u85-2048"),
    *_rows("functions_of_sums", f"{_DELEGATE}factorized", device=U85),
    *_rows("padded_pools", f"{_DELEGATE}wide_padded_pool", device=U85),
    *_rows("clamps_over_rows", f"{_DELEGATE}clamped_batch", device=U65),
    *_rows("clamps_over_rows", f"{_DELEGATE}summed_rows", device=U85),
    *_rows("clamps_over_rows", f"{_DELEGATE}functions_of_anchors"),
    *_rows("clamps_over_rows", f"{_DELEGATE}functions_of_gated_anchors"),
    *_rows("clamps_over_rows", f"{_DELEGATE}functions_of_grouped_means"),
    *_rows("clamps_over_rows", f"{_DELEGATE}functions_of_heads"),
    *_rows("clamps_over_rows", f"{_DELEGATE}function_of_part_of_batch"),
    *_rows("clamps_over_rows", f"{_DELEGATE}function_of_turned_rows"),
    *_rows("clamps_over_rows", f"{_DELEGATE}anchors_joined_again", device=U65),
    *_rows("clamps_over_rows", f"{_DELEGATE}softmax_of_groups"),
    *_rows("activations_before_layouts", f"{_DELEGATE}function_of_flipped", device=U85),
    *_rows("activations_before_layouts", f"{_DELEGATE}detector_rows", **_WIDE, device=U85),
    *_rows(
        "activations_before_layouts",
        *(
            f"{_DELEGATE}{name}"
            for name in ("detector_rows", "functions_of_rows_of_images", "padded_function_of_turned")
        ),
    ),
    *_rows("tables_before_pools", f"{_DELEGATE}pooled_functions"),
    *_rows("tables_before_pools", f"{_DELEGATE}pooled_functions", device=U85),
    *_rows("types_of_choices", f"{_DELEGATE}chosen_beside_function", device=U85),
    *_rows("types_of_choices", f"{_DELEGATE}filled_choice", device=U85),
    *_rows("static_sizes", f"{_PASS}selected_deviation"),
    *_rows("negations_rescaled", f"{_DELEGATE}negated_largest"),
    *_rows("layouts_moved_to_values", f"{_DELEGATE}number_minus_value"),
    *_rows("views_behind_slices", f"{_DELEGATE}products_of_heads"),
    *_rows("twins_with_own_grids", f"{_DELEGATE}function_twice", f"{_DELEGATE}elus"),
    *_rows("joins_of_one_value", f"{_DELEGATE}grey_as_colours"),
    *_rows("repeated_pixels", f"{_DELEGATE}single_mean_spread", **_WIDE),
    *_rows("repeated_pixels", f"{_DELEGATE}mean_spread"),
    *_rows("clamps_before_transposes", f"{_CORRECTED}clamped_and_joined"),
    *_rows("written_out_cells", f"{_CORRECTED}cells", f"{_CORRECTED}projected_lstm"),
    *_rows("linears_from_addmm", f"{_CORRECTED}product_and_bias"),
    *_rows("scalars_beside_parameters", f"{_CORRECTED}scaled_bias"),
    *_rows("pool_zero_points", f"{_PASS}halves", device=U85),
    *_rows("static_sizes", f"{_PASS}attending_constants", device=U85),
    *_rows("views_reshaped", f"{_PASS}viewed", device=U85),
    *_rows("written_in_one_type", f"{_PASS}inverted_order", device=U85),
    *_rows("loops_of_single_numbers", f"{_PASS}halved_until_small", device=U85),
)
ROWS_BY_KEY = {row.key: row for row in ROWS}

# Rows that may cost without a gain, with the reason.
EXCEPTIONS: Mapping[str, str] = {
    f"repeated_pixels single_mean_spread a16w8 {U55}": "Vela's process ends on such a resize, as "
    "the row of the correction says; in the run that was kept it did not.",
    f"fine_tables normed_layers a16w8 {U85}": "tables gain where their error is near the noise that "
    "8-bit weights usually leave (53 dB); the weights of this network leave 46 dB.",
}

# Samples like the example, row by row: those for calibration, and others.
_SAMPLES = """
import torch
from {module} import {name}


def _drawn(seed, count):
    generator, (_, inputs) = torch.Generator().manual_seed(seed), {name}()
    for _ in range(count):
        yield tuple(
            torch.randn(x.shape, generator=generator) * x.square().mean(-1, keepdim=True).sqrt()
            if x.is_floating_point() else x
            for x in inputs
        )


def calibration():
    yield from _drawn(1, {calibrated})


def unseen():
    yield from _drawn(2, {unseen})
"""


def measured(engine: Any, row: Row, *, on: bool) -> Figures:
    """Measure a row with its correction on or off.

    Args:
        engine: ``tests.engine.in_process.Engine`` whose folder has the networks.
        row: What is measured.
        on: Whether the correction is on.
    """
    made = _project(engine.folder, row, on=on)
    if engine.run(made, "verify", "evaluate") != "done":
        return Figures("refused")
    verified, lowered = engine.result(made, "verify"), engine.result(made, "lower")
    compiled, against = verified.compiled, verified.against_float
    is_right = compiled is None or (
        not compiled.refused and not compiled.findings and compiled.equal == compiled.elements
    )
    return Figures(
        outcome="right" if is_right else "wrong",
        quality=_rounded(against.integer_sqnr_db) if against is not None and is_right else None,
        steps=verified.max_lsb if is_right else None,
        cycles=sum(delegate.cycles_total for delegate in lowered.vela),
        cpu=sum(node.cause not in {"border", "conversion"} for node in lowered.cpu_nodes),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _project(folder: Path, row: Row, *, on: bool) -> Any:
    """Return the project of a row, with samples in its folder."""
    from tests.engine.in_process import project
    from workbench.project import edits
    from workbench.project.model import DataSource, Evaluation, TargetChoice, Verification

    module, _, name = row.network.partition(".py:")
    samples = f"samples_of_{name}.py"
    text = _SAMPLES.format(module=module, name=name, calibrated=CALIBRATED, unseen=UNSEEN)
    (folder / samples).write_text(text)
    made = project(
        row.network,
        row.config,
        row.device,
        calibration=DataSource(spec=f"{samples}:calibration"),
        evaluation=Evaluation(data=DataSource(spec=f"{samples}:unseen")),
        verification=Verification(samples=UNSEEN),
    )
    made = edits.assign_many(made, "module_name", list(row.per_tensor), "a8w8-per-tensor")
    off = row.off if on else (*row.off, row.correction)
    options = dict.fromkeys(off, False)
    return edits.set_target(made, TargetChoice(id=row.device, options=options))


def place_networks(folder: Path) -> None:
    """Copy the networks of all rows into the folder of an engine."""
    for name in {row.network.partition(":")[0] for row in ROWS}:
        shutil.copy(HERE / "engine" / name, folder)


def complaint(row: Row, figures: Mapping[str, Any]) -> str:
    """Return what a correction costs on a network where it gains nothing; "" if nothing."""
    if row.key in EXCEPTIONS:
        return ""
    with_it, without = Figures(**figures["with"]), Figures(**figures["without"])
    if with_it.outcome != "right":
        return f"{row.key} is {with_it.outcome}"
    if without.outcome != "right" or (without.cpu or 0) > (with_it.cpu or 0):
        return ""
    gain = _decibel(with_it) - _decibel(without)
    dearer = (with_it.cycles or 0) / max(without.cycles or 0, 1)
    nearer = (without.steps or 0) > 2 * (with_it.steps or 0) + 2
    if gain > MOST_DECIBEL or dearer < 1 / MOST_CYCLES or (nearer and gain >= -MOST_DECIBEL):
        return ""
    if gain < -MOST_DECIBEL or dearer > MOST_CYCLES:
        return f"{row.key} costs {-gain:.1f} dB and {dearer - 1:.0%} of the cycles"
    return ""


def _decibel(figures: Figures) -> float:
    return 200.0 if figures.quality is None else figures.quality


def page(kept: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page of the guide from the figures, in the order of the rows."""
    header = (
        "correction",
        "network",
        "device, config",
        "quality without",
        "quality with",
        "steps",
        "cycles without",
        "cycles with",
        "CPU operators",
    )
    rows = (_cells(row, kept[row.key]) for row in ROWS if row.key in kept)
    exceptions = (f"`{key}` may cost: {reason}" for key, reason in EXCEPTIONS.items())
    return "\n".join([_ABOUT, *table(header, rows), *exceptions]).rstrip() + "\n"


def _cells(row: Row, figures: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a row; pairs of numbers are without and with the correction."""
    on, off = Figures(**figures["with"]), Figures(**figures["without"])
    return (
        f"`{row.correction}`",
        f"`{row.network.rpartition(':')[2]}`",
        f"{row.device.removeprefix('ethos-').upper()}, {row.config}",
        _quality(off),
        _quality(on),
        f"{_number(off.steps)} to {_number(on.steps)}",
        _number(off.cycles),
        _number(on.cycles),
        f"{_number(off.cpu)} to {_number(on.cpu)}",
    )


def _quality(figures: Figures) -> str:
    if figures.outcome != "right":
        return figures.outcome
    return "equal" if figures.quality is None else f"{figures.quality:.1f} dB"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


_ABOUT = f"""\
# Figures of the corrections

Measured: `python -m tests.correction_figures` writes this page. Each [correction](corrections.md) \
is measured on networks of the tests that it applies to, with and without it: {CALIBRATED} samples \
for calibration, {UNSEEN} others for the figures.

Quality is the SQNR of the compiled program against the float model. *Refused* programs do not \
compile, *crashed* ones end the compiler's process, and *wrong* ones do not compute what they were \
compiled from. Steps are the largest \
difference from the quantized model, in steps of the output. Cycles are Vela's estimate; CPU \
operators are not in it. A test fails where a correction costs more than {MOST_DECIBEL} dB or \
{MOST_CYCLES - 1:.0%} of the cycles and gains nothing.
"""


def write(kept: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the file of the figures and the page."""
    ordered = {key: kept[key] for key in ROWS_BY_KEY if key in kept}
    KEPT.write_text(json.dumps(ordered, indent=1) + "\n")
    PAGE.write_text(page(ordered))


def main(chosen: Sequence[str]) -> int:
    """Measure the rows of some corrections, or of all; keep each at once.

    Vela ends the process on some programs without their correction: rows are measured in another
    process, which is started again for those that are left.
    """
    left = [row.key for row in ROWS if not chosen or row.correction in chosen]
    while left:
        command = [sys.executable, "-m", "tests.correction_figures", _HERE, *left]
        if subprocess.run(command, check=False).returncode == 0:
            return 0
        known = _known()
        ended = [key for key in left if key in known and known[key]["without"] == _CRASHED]
        if not ended:
            return 1
        left = left[left.index(ended[-1]) + 1 :]
    return 0


_HERE = "--here"
_CRASHED = asdict(Figures("crashed"))


def _known() -> dict[str, Any]:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def _measure(keys: Sequence[str]) -> int:
    """Measure rows in this process; until a row without its correction is measured, it crashed."""
    from tests.engine.in_process import Engine

    engine = Engine(Path(tempfile.mkdtemp()))
    place_networks(engine.folder)
    try:
        for row in (ROWS_BY_KEY[key] for key in keys):
            pair = {"with": asdict(measured(engine, row, on=True)), "without": _CRASHED}
            write({**_known(), row.key: pair})
            pair["without"] = asdict(measured(engine, row, on=False))
            write({**_known(), row.key: pair})
            sys.stdout.write(f"{row.key}: {pair} {complaint(row, pair)}\n")
            sys.stdout.flush()
    finally:
        engine.close()
    return 0


if __name__ == "__main__":
    sys.exit(_measure(sys.argv[2:]) if sys.argv[1:2] == [_HERE] else main(sys.argv[1:]))
