"""``settings``, ``preprocess`` and ``target``: settings of a project by their keys."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import EXIT_DONE, add_project, print_json, print_table
from workbench.errors import Place, failure
from workbench.project.preprocessing import EXAMPLE, preprocess_text
from workbench.targets import target_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from workbench.project.model import DataSource


def add(verbs: Any) -> None:
    """Add the verbs."""
    verb = verbs.add_parser(
        "settings",
        help="show or change the settings of a project",
        description="Without KEY=VALUE: list every key with its value. Keys are the paths of the "
        "project file. KEY= restores the default. All changes are checked together; a change that "
        "makes the project invalid writes nothing.",
    )
    add_project(verb)
    verb.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="e.g. calibration=pics gate.lsb=2")
    verb.set_defaults(perform=_settings, edits=True)
    _add_preprocess(verbs)
    verb = verbs.add_parser("target", help="show or set the options of the target")
    add_project(verb)
    verb.add_argument("options", nargs="*", metavar="NAME=VALUE", help="e.g. activations=sym")
    verb.set_defaults(perform=_target, edits=True)


def _add_preprocess(verbs: Any) -> None:
    verb = verbs.add_parser(
        "preprocess",
        help="show or set how pictures become inputs",
        description="Without SETTINGS: show those of the calibration and the evaluation data.",
    )
    add_project(verb)
    verb.add_argument("settings", nargs="?", metavar="SETTINGS", help=EXAMPLE)
    verb.add_argument(
        "--data",
        choices=("calibration", "evaluation"),
        help="only this data; default: every folder of pictures of the project",
    )
    verb.set_defaults(perform=_preprocess, edits=True)


def assignments(texts: Sequence[str], code: str = "setting-invalid") -> dict[str, str]:
    """Return the values of ``KEY=VALUE`` texts by their keys.

    Args:
        texts: The texts.
        code: The code of the problem of a wrong one.

    Raises:
        WorkbenchError: A text has no equals sign, or a key is given twice.
    """
    values: dict[str, str] = {}
    for text in texts:
        key, is_set, value = text.partition("=")
        if not is_set or key.strip() in values:
            reason = "is given twice" if is_set else "is not written as KEY=VALUE"
            raise failure(
                f"{text!r} {reason}.",
                "Example: calibration.limit=100.",
                Place(kind="option", id=key),
                code=code,
            )
        values[key.strip()] = value
    return values


_OPTION = "target-option-invalid"


def _settings(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    if options.settings:
        opened = api.save(api.set_settings(opened, assignments(options.settings)))
    current = api.settings(opened)
    if options.json:
        print_json({"project": opened.project.name, "settings": current.values})
        return EXIT_DONE
    given = assignments(options.settings)
    shown = [row for row in current.rows if not given or _is_told(row.key, given)]
    print_table(
        ("key", "value", "takes"),
        [(row.key, "" if row.value is None else _text(row.value), row.takes) for row in shown],
    )
    return EXIT_DONE


def _is_told(key: str, texts: dict[str, str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in texts)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _preprocess(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    if options.settings is not None:
        data = (options.data,) if options.data else ("calibration", "evaluation")
        opened = api.save(api.set_preprocess(opened, options.settings or None, data))
    sources = {"calibration": opened.project.calibration, "evaluation": opened.project.evaluation.data}
    if options.json:
        document = {name: _plain(source) for name, source in sources.items()}
        print_json({"project": opened.project.name, **document})
        return EXIT_DONE
    rows = [
        (name, source.spec, preprocess_text(source.preprocess) if source.preprocess else "-")
        for name, source in sources.items()
        if source is not None
    ]
    print_table(("data", "source", "preprocess"), rows)
    return EXIT_DONE


def _plain(source: DataSource | None) -> Any:
    if source is None or source.preprocess is None:
        return None
    return source.preprocess.model_dump(mode="json")


def _target(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    if options.options:
        given = {f"target.options.{k}": v for k, v in assignments(options.options, _OPTION).items()}
        opened = api.save(api.set_settings(opened, given))
    project, folder = opened.project, opened.folder
    target = target_of(project.target.id)
    complete = target.complete(project.target, folder)
    if options.json:
        print_json({"id": complete.id, "options": complete.options})
        return EXIT_DONE
    rows = (
        (
            spec.name,
            json.dumps(complete.options.get(spec.name, spec.default)),
            spec.title,
            ", ".join(str(choice.value) for choice in spec.choices),
        )
        for spec in target.options(project.target, folder)
    )
    print_table(("option", "value", "", "choices"), rows)
    return EXIT_DONE
