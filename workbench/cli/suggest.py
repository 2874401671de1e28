"""``suggest``: what would help the compiled program, and apply it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.api.summary import entry_of
from workbench.cli.jobs import job_options
from workbench.cli.output import EXIT_DONE, add_engine, add_project, opened_cache, print_json, print_table
from workbench.suggestions import KINDS, module_cells

if TYPE_CHECKING:
    import argparse

    from workbench.suggestions import ExpectedGain, Suggestion

_HEADER = ("id", "CPU operators", "cycles", "SQNR [dB]", "bytes", "known by", "what to do")
_MODULES = ("module", "ms", "weight bytes", "SQNR [dB]", "top-1 [points]")
_UNKNOWN = "-"


def add(verbs: Any) -> None:
    """Add the verb."""
    kinds = "; ".join(f"{kind.id}: {kind.title}" for kind in KINDS)
    verb = verbs.add_parser(
        "suggest",
        help="list what would help the compiled program, or apply it",
        description="Compiles the project where that was not done, and lists suggestions, the "
        f"largest gain first. Kinds: {kinds}.",
    )
    add_project(verb)
    verb.add_argument(
        "--apply",
        metavar="ID",
        default="",
        help="change the project file: by one suggestion, or by all of a kind",
    )
    add_engine(verb)
    verb.set_defaults(perform=_perform)


def _perform(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    with opened_cache(options) as cache:
        offered = api.suggestions(opened, **job_options(options, cache))
    if options.apply:
        return _apply(opened, offered, options)
    if options.json:
        entries = [entry_of(one).model_dump() for one in offered]
        print_json({"project": opened.project.name, "suggestions": entries, "applied": []})
    elif offered:
        _print(offered)
    else:
        print("No suggestions.")
    return EXIT_DONE


def _apply(opened: api.OpenProject, offered: tuple[Suggestion, ...], options: argparse.Namespace) -> int:
    """Write the chosen suggestions to the project file."""
    _, applied = api.apply_suggestions(opened, offered, options.apply)
    api.update(opened, lambda fresh: api.apply_suggestions(fresh, offered, options.apply)[0])
    if options.json:
        entries = [entry_of(one).model_dump() for one in applied]
        print_json({"project": opened.project.name, "suggestions": [], "applied": entries})
        return EXIT_DONE
    for one in applied:
        print(f"Applied      {one.title}")
    print(f"Next         workbench run {shlex.quote(str(options.project))}")
    return EXIT_DONE


def _print(offered: tuple[Suggestion, ...]) -> None:
    print_table(_HEADER, [(one.id, *_cells(one.gain), _origin(one), one.title) for one in offered])
    for one in offered:
        print(f"\n{one.id}: {one.title}\n  {one.evidence}\n  {one.expected}")
        for line in one.written:
            print(f"  {line.place}: {line.instead}")
        if one.modules:
            print_table(_MODULES, [[cell or _UNKNOWN for cell in module_cells(row)] for row in one.modules])


def _cells(gain: ExpectedGain) -> tuple[str, str, str, str]:
    """Return the figures as changes: what is saved has a minus."""
    db = _UNKNOWN if gain.sqnr_db is None else f"{gain.sqnr_db:+.1f}"
    if gain.of_tensors > 1 and gain.sqnr_db is not None:
        db += " (one tensor)"
    return _saved(gain.cpu_operators), _saved(gain.cycles), db, _saved(gain.bytes)


def _saved(value: int | None) -> str:
    if value is None:
        return _UNKNOWN
    return f"{-value:+,}" if value else "0"


def _origin(one: Suggestion) -> str:
    return "tried" if one.tried else "counted"
