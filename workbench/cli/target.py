"""``target``: show and set the options of a project's target."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from workbench.cli.output import EXIT_DONE, add_project, open_project, print_json, print_table
from workbench.errors import Place, WorkbenchError, failure
from workbench.project import edits, store
from workbench.project.model import TargetChoice
from workbench.targets import target_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from workbench.targets.base import OptionSpec


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser("target", help="show or set the options of the target")
    add_project(verb)
    verb.add_argument("options", nargs="*", metavar="NAME=VALUE", help="e.g. activations=sym")
    verb.set_defaults(perform=_target, edits=True)


def with_options(choice: TargetChoice, given: Sequence[str], folder: Path) -> TargetChoice:
    """Return a choice with ``NAME=VALUE`` options applied and completed.

    Raises:
        WorkbenchError: an option is unknown, or its value invalid.
    """
    target = target_of(choice.id)
    specs = {spec.name: spec for spec in target.options(choice, folder)}
    options = dict(choice.options)
    for text in given:
        name, is_set, value = text.partition("=")
        if name not in specs or not is_set:
            raise failure(
                f"{text!r} is not an option of {choice.id}.",
                f"Write NAME=VALUE. Known: {', '.join(specs)}.",
                Place(kind="option", id=f"target.{name}"),
                code="target-option-invalid",
            )
        options[name] = _value(specs[name], value)
    made = TargetChoice(id=choice.id, options=options)
    if found := target.check(made, folder):
        raise WorkbenchError(found)
    return target.complete(made, folder)


def _value(spec: OptionSpec, text: str) -> JsonValue:
    """Return a value in the option's type: text, or parsed as JSON."""
    if spec.kind in {"text", "file"}:
        return text
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return text
    return value


def _target(options: argparse.Namespace) -> int:
    project, folder = open_project(options)
    if options.options:
        choice = with_options(project.target, options.options, folder)
        project = edits.set_target(project, choice)
        store.parse(store.dump(project).encode(), str(options.project))
        store.save(project, options.project)
    target = target_of(project.target.id)
    complete = target.complete(project.target, folder)
    if options.json:
        print_json({"id": complete.id, "options": complete.options})
        return EXIT_DONE
    rows = (
        (spec.name, json.dumps(complete.options.get(spec.name, spec.default)), spec.title,
         ", ".join(str(each.value) for each in spec.choices))
        for spec in target.options(project.target, folder)
    )  # fmt: skip
    print_table(("option", "value", "", "choices"), rows)
    return EXIT_DONE
