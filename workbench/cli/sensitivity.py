"""``sensitivity``: the effect of each module alone quantized and alone in float."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.cli.jobs import run_study
from workbench.cli.output import (
    EXIT_DONE,
    add_engine,
    add_project,
    open_project,
    opened_cache,
    print_json,
    print_table,
)
from workbench.studies.documents import load_study, study_folder, study_key
from workbench.studies.sensitivity import DEFAULT_SAMPLES, SensitivityResult
from workbench.text import plural

if TYPE_CHECKING:
    import argparse

_HEADER = ("module", "only this quantized [dB]", "only this float [dB]", "gain [dB]", "weights")


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
    project, folder = open_project(options)
    with opened_cache(options) as cache:
        asked = {"samples": options.samples}
        key = study_key("sensitivity", project, folder, cache, asked)
        found = load_study(SensitivityResult, study_folder(cache, key))
        if found is None or found.samples < options.samples:
            found = run_study(
                "sensitivity", SensitivityResult, (project, folder), cache, options, asked
            )
    if options.json:
        print_json(_document(found))
        return EXIT_DONE
    rows = [
        (u.unit.name, _db(u.only.sqnr_db), _db(u.without.sqnr_db), _db(found.gain_db(u)),
         f"{u.unit.weights:,}")
        for u in found.worst_first()
    ]  # fmt: skip
    print_table(_HEADER, rows)
    print(f"Whole model: {_db(found.quantized.sqnr_db)} dB over {plural(found.samples, 'sample')}.")
    return EXIT_DONE


def _document(found: SensitivityResult) -> dict[str, Any]:
    units = [
        {
            **u.unit.model_dump(mode="json"),
            "only_db": u.only.sqnr_db,
            "without_db": u.without.sqnr_db,
            "gain_db": found.gain_db(u),
            "only_hits": u.only.hits,
            "without_hits": u.without.hits,
        }
        for u in found.worst_first()
    ]
    whole = {"sqnr_db": found.quantized.sqnr_db, "hits": found.quantized.hits}
    return {"samples": found.samples, "data": found.data, "quantized": whole, "units": units}


def _db(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
