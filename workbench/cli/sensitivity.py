"""``sensitivity``: the effect of each module alone quantized and alone in float."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.jobs import job_options
from workbench.cli.output import EXIT_DONE, add_engine, add_project, opened_cache, print_json, print_table
from workbench.studies.sensitivity import DEFAULT_SAMPLES, SensitivityResult
from workbench.text import plural

if TYPE_CHECKING:
    import argparse

_HEADER = (
    "module",
    "only this quantized [dB]",
    "only this float [dB]",
    "gain [dB]",
    "weights per tensor [dB]",
    "weights",
)


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "sensitivity",
        help="measure the quality cost of each module, worst first",
        description="Ctrl-C keeps the results; run again to continue.",
    )
    add_project(verb)
    verb.add_argument("--samples", type=int, default=DEFAULT_SAMPLES, metavar="N")
    add_engine(verb)
    verb.set_defaults(perform=_perform)


def _perform(options: argparse.Namespace) -> int:
    with opened_cache(options) as cache:
        result = api.sensitivity(api.open(options.project), options.samples, **job_options(options, cache))
    if options.json:
        print_json(_document(result))
        return EXIT_DONE
    rows = [
        (
            u.unit.name,
            _db(u.only.sqnr_db),
            _db(u.without.sqnr_db),
            _db(result.gain_db(u)),
            _db(result.per_tensor_db(u)),
            f"{u.unit.weights:,}",
        )
        for u in result.worst_first()
    ]
    print_table(_HEADER, rows)
    print(f"Whole model: {_db(result.quantized.sqnr_db)} dB over {plural(result.samples, 'sample')}.")
    return EXIT_DONE


def _document(result: SensitivityResult) -> dict[str, Any]:
    units = [
        {
            **u.unit.model_dump(mode="json"),
            "only_db": u.only.sqnr_db,
            "without_db": u.without.sqnr_db,
            "gain_db": result.gain_db(u),
            "only_hits": u.only.hits,
            "without_hits": u.without.hits,
            "per_tensor_db": result.per_tensor_db(u),
            "per_tensor_points": result.per_tensor_points(u),
        }
        for u in result.worst_first()
    ]
    whole = {"sqnr_db": result.quantized.sqnr_db, "hits": result.quantized.hits}
    return {"samples": result.samples, "data": result.data, "quantized": whole, "units": units}


def _db(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
