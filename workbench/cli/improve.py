"""``improve``: transformations of the float weights before quantization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import EXIT_DONE, add_project, print_json, print_table
from workbench.project.configs import IMPROVER_PRESETS, IMPROVERS

if TYPE_CHECKING:
    import argparse


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "improve",
        help="enable or disable improvers of the float weights",
        description=(
            "Without an option: list all improvers. 'run' measures their effect, 'runs' compares. "
            "Of gptq and rounding, the one switched on last counts."
        ),
    )
    add_project(verb)
    ids = [improver.id for improver in IMPROVERS]
    verb.add_argument("--on", action="append", default=[], choices=ids, metavar="ID")
    verb.add_argument("--off", action="append", default=[], choices=ids, metavar="ID")
    verb.add_argument(
        "--preset",
        choices=[preset.id for preset in IMPROVER_PRESETS],
        metavar="ID",
        help="use the improvers of a preset instead of others: " + _presets(),
    )
    verb.add_argument("--seed", type=int, metavar="N", help="choose other calibration samples for improvers")
    verb.add_argument("--samples", type=int, metavar="N", help="use at most so many calibration samples")
    verb.add_argument(
        "--time-limit",
        type=int,
        metavar="S",
        help="stop after so many seconds and keep what was changed by then; 0: no limit",
    )
    verb.set_defaults(perform=_perform, edits=True)


def _presets() -> str:
    return "; ".join(f"{preset.id} ({' and '.join(preset.improvers)})" for preset in IMPROVER_PRESETS)


def _settings(options: argparse.Namespace) -> dict[str, int | None]:
    """Return the settings that were given."""
    settings = {"seed": options.seed, "samples": options.samples, "time_limit_s": options.time_limit}
    return {
        name: None if name == "time_limit_s" and value == 0 else value
        for name, value in settings.items()
        if value is not None
    }


def _perform(options: argparse.Namespace) -> int:
    opened = changed = api.open(options.project)
    if options.preset:
        changed = api.use_improver_preset(changed, options.preset)
    for on, names in ((True, options.on), (False, options.off)):
        for name in names:
            changed = api.set_improver(changed, name, on=on)
    if settings := _settings(options):
        changed = api.set_improving(changed, **settings)
    if changed != opened:
        api.save(changed)
    improvers = changed.project.improvers
    if options.json:
        settings = changed.project.improving.model_dump(mode="json")
        print_json({"improvers": list(improvers), "settings": settings})
        return EXIT_DONE
    rows = [("on" if i.id in improvers else "off", i.id, i.description) for i in IMPROVERS]
    print_table(("", "id", "what it does"), rows)
    return EXIT_DONE
