"""MASE's ``pass_args`` of its quantize pass, read as rules and written from them.

Source: the pass's behaviour at MASE 6ff398cf (2026-04-23), as observed: "by" chooses what the keys
are matched with (type, name, regex_name), a node takes the entry of its own or else "default",
whole; regular expressions fit the whole name, and the first in the file wins.
"""

from __future__ import annotations

import ast
import json
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.project import edits
from workbench.project.format_config import FormatConfig
from workbench.project.model import TargetChoice
from workbench.targets import target_of
from workbench.targets.formats import Formats
from workbench.targets.number_formats import ROLES, read, spec_of
from workbench.targets.number_formats.operators import OPERATIONS, operators_of
from workbench.targets.number_formats.parameters import PREFIXES, SILENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from workbench.project.model import Project

WAYS = ("type", "name", "regex_name")
DEFAULT = "default"
_NOTHING = frozenset({None, "NA", "na", "none", "None"})
_NODE_NAMES = "It is left out, as there; MASE writes blk_0 for blk.0."
_PASSES = ("quantize", "quantize_transform", "quantize_transform_pass")


@dataclass(frozen=True)
class Imported:
    """A project with the rules of a file, and what of the file was left out, with its place."""

    project: Project
    notes: tuple[ErrorInfo, ...]


def parse(text: str, name: str) -> dict[str, Any]:
    """Return the pass_args in a file: TOML, JSON, or a Python dict written out; nothing is run.

    A whole MASE configuration may be given: its table ``passes.quantize`` is taken.

    Raises:
        WorkbenchError: it is none of these, or holds no "by".
    """
    place = Place(kind="file", id=name)
    found: Any = None
    for reading in (tomllib.loads, json.loads, ast.literal_eval):
        try:
            found = reading(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        break
    if not isinstance(found, dict):
        raise failure("The file holds no pass_args.", "Write TOML, JSON or a Python dict.", place)
    passes = found.get("passes")
    tables = [found, *((passes.get(name) for name in _PASSES) if isinstance(passes, dict) else ())]
    args = next((table for table in tables if isinstance(table, dict) and "by" in table), None)
    if args is None:
        raise failure('There is no "by" in the pass_args.', 'Write by = "type".', place)
    return dict(args)


def read_args(path: Path) -> dict[str, Any]:
    """Return the pass_args of a file; see ``parse``.

    Raises:
        WorkbenchError: it cannot be read, or holds none.
    """
    place = Place(kind="file", id=str(path))
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise failure(f"The file cannot be read: {error.strerror}.", where=place) from error
    except UnicodeDecodeError as error:
        raise failure("The file is no text.", where=place) from error
    return parse(text, str(path))


def taken(project: Project, args: Mapping[str, Any], *, mase_compatible: bool) -> Imported:
    """Return the project with the rules of pass_args in place of its own.

    A project for another target becomes one for number formats.

    Raises:
        WorkbenchError: formats nobody knows, parameters missing or out of range, all at once.
    """
    way = args.get("by")
    if way not in WAYS:
        raise failure(f'"by" is {way!r}.', f"MASE knows {', '.join(WAYS)}.", _at("by"))
    reading = _Reading(mase_compatible)
    entries = {key: value for key, value in args.items() if key != "by"}
    if target_of(project.target.id).config_type is not FormatConfig:
        project = edits.set_board(project, "", TargetChoice(id=Formats.id))
    made = edits.revise(project, rules=())
    # The first expression of a file wins; of our rules the last.
    ordered = list(entries.items())
    for key, entry in reversed(ordered) if way == "regex_name" else ordered:
        config = reading.config(key, entry)
        if config is None or (key == DEFAULT and config == "float"):
            continue
        made = _assigned(made, way, key, config, reading)
    if reading.problems:
        raise WorkbenchError(reading.problems)
    return Imported(made, tuple(reading.notes))


def _assigned(
    made: Project, way: str, key: str, config: FormatConfig | str, reading: _Reading
) -> Project:
    """Return the project with the rule of one entry; what has no rule is noted."""
    if key == DEFAULT:
        return edits.assign(made, "global", "", config)
    if way == "regex_name" or (way == "name" and key.isidentifier()):
        return edits.assign(made, "pattern", key, config)
    if way == "name":
        reading.note(key, f"No node of MASE's graph is called {key!r}.", _NODE_NAMES)
    elif key in OPERATIONS:
        return edits.assign_many(made, "node_target", list(operators_of(key)), config)
    else:
        reading.note(key, f"{key!r} is no operation that formats are emulated for.")
    return made


class _Reading:
    """Reads entries, collecting what is wrong and what is left out."""

    def __init__(self, mase_compatible: bool) -> None:
        self.problems: list[ErrorInfo] = []
        self.notes: list[ErrorInfo] = []
        self._mase_compatible = mase_compatible

    def note(self, place: str, message: str, hint: str = "It is left out.") -> None:
        self.notes.append(ErrorInfo(message=message, hint=hint, where=_at(place)))

    def config(self, key: str, entry: Any) -> FormatConfig | str | None:
        """Return what an entry assigns; None where it assigns nothing."""
        config = entry.get("config") if isinstance(entry, dict) else None
        if not isinstance(config, dict):
            self.note(key, f"{key!r} has no config and says nothing of formats.")
            return None
        for other in sorted(set(entry) - {"config"}):
            self.note(f"{key}.{other}", f"{other!r} is not known beside a config.")
        name = config.get("name")
        if name in _NOTHING or config.get("bypass") is True:
            return "float"
        try:
            return self._format(key, str(name), config)
        except WorkbenchError as error:
            self.problems += [
                info.model_copy(update={"where": _at(_inside(key, info))}) for info in error.infos
            ]
            return None

    def _format(self, key: str, name: str, config: Mapping[str, Any]) -> FormatConfig:
        spec = spec_of(name)
        known = {alias for p in spec.parameters for alias in (p.name, *p.aliases)}
        kept: dict[str, Any] = {}
        for given, value in config.items():
            bare = next(
                (given.removeprefix(p) for p in PREFIXES.values() if given.startswith(p)), ""
            )
            if bare in known or given.startswith("data_out_"):
                kept[given] = None if value in ("NA", "none", "None") else value
            elif given not in SILENT:
                self.note(f"{key}.config.{given}", f"{spec.name} has no parameter {given!r}.")
        for role in ROLES:
            if role == "data" or any(each.startswith(PREFIXES[role]) for each in kept):
                read(spec.name, spec.parameters, kept, role)
        return FormatConfig(
            scheme=spec.name, parameters=kept,
            mase_compatible=self._mase_compatible and spec.mase,
        )  # fmt: skip


def _inside(key: str, info: ErrorInfo) -> str:
    return f"{key}.config.{info.where.id if info.where else 'name'}"


def _at(place: str) -> Place:
    return Place(kind="option", id=f"pass_args.{place}")


def toml_of(args: Mapping[str, Any]) -> str:
    """Return pass_args as the TOML of a MASE configuration; "NA" stands for nothing."""
    lines = ["[passes.quantize]", f'by = "{args["by"]}"']
    for key, entry in args.items():
        if key != "by":
            lines += [
                "",
                f"[passes.quantize.{json.dumps(key, ensure_ascii=False)}.config]",
                *_lines(entry["config"]),
            ]
    return "\n".join(lines) + "\n"


def _lines(config: Mapping[str, Any]) -> Iterator[str]:
    for name, value in config.items():
        yield f"{name} = {json.dumps('NA' if value is None else value)}"
