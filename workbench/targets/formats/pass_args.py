"""Import and export of ``pass_args`` of MASE's quantize pass as rules.

Source: the pass's behaviour at MASE 6ff398cf (2026-04-23), as observed: "by" selects what the keys
match (type, name, regex_name); a node uses its own entry or else "default", as a whole; regular
expressions match the full name, and the first one in the file wins.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.files import read_limited
from workbench.project import edits
from workbench.project.configs import FormatConfig
from workbench.project.model import TargetChoice
from workbench.project.rules import by_strength
from workbench.targets import target_of
from workbench.targets.formats import Formats
from workbench.targets.formats.operators import OPERATIONS, OPERATORS, operators_of
from workbench.targets.formats.parameters import PREFIXES, ROLES, SILENT, read
from workbench.targets.formats.schemes import spec_of
from workbench.text import parse_expression, read_toml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from workbench.project.model import Project, Rule
    from workbench.targets.formats.schemes import SchemeSpec


WAYS = ("type", "name", "regex_name")
DEFAULT = "default"
_NOTHING = frozenset({None, "NA", "na", "none", "None"})
_NODE_NAMES = "The entry is skipped, as in MASE, which writes blk_0 for blk.0."
# The largest file [bytes]: as a Python literal it becomes 500 times its size.
_MAX_BYTES = 512 << 10
_PASSES = ("quantize", "quantize_transform", "quantize_transform_pass")


@dataclass(frozen=True)
class Imported:
    """A project with the rules of a file, and notes on skipped entries with their location."""

    project: Project
    notes: tuple[ErrorInfo, ...]


def parse(text: str, name: str) -> dict[str, Any]:
    """Return the pass_args in a file: TOML, JSON, or a Python dict literal; no code is run.

    A complete MASE configuration is accepted: its table ``passes.quantize`` is used.

    Raises:
        WorkbenchError: another format, or there is no "by".
    """
    place = Place(kind="file", id=name)
    parsed: Any = None
    for reading in (read_toml, json.loads, _read_literal):
        try:
            parsed = reading(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        break
    if not isinstance(parsed, dict):
        raise failure(
            "The file contains no pass_args.",
            "Write TOML, JSON or a Python dict.",
            place,
            code="pass-args-not-found",
        )
    passes = parsed.get("passes")
    tables = [parsed, *((passes.get(name) for name in _PASSES) if isinstance(passes, dict) else ())]
    args = next((table for table in tables if isinstance(table, dict) and "by" in table), None)
    if args is None:
        raise failure('The pass_args have no "by".', 'Add by = "type".', place, code="pass-args-by-missing")
    return dict(args)


def _read_literal(text: str) -> Any:
    return ast.literal_eval(parse_expression(text.lstrip(" \t")))


def read_args(path: Path) -> dict[str, Any]:
    """Return the pass_args of a file; see ``parse``.

    Raises:
        WorkbenchError: it is unreadable, or has no pass_args.
    """
    place = Place(kind="file", id=str(path))
    try:
        text = read_limited(path, _MAX_BYTES).decode()
    except OSError as error:
        raise failure(
            f"The file cannot be read: {error.strerror}.",
            "Correct the path, or set the file's permissions.",
            where=place,
            code="pass-args-unreadable",
        ) from error
    except UnicodeDecodeError as error:
        raise failure(
            "The file is not a text file.",
            "Write TOML, JSON or a Python dict.",
            where=place,
            code="pass-args-not-text",
        ) from error
    return parse(text, str(path))


def taken(project: Project, args: Mapping[str, Any], *, mase_compatible: bool) -> Imported:
    """Return the project with its rules replaced by those of pass_args.

    A project for another target becomes one for number formats.

    Raises:
        WorkbenchError: unknown formats, missing or invalid parameters; lists all.
    """
    way = args.get("by")
    if way not in WAYS:
        raise failure(
            f'Unsupported "by": {way!r}.',
            f"MASE supports {', '.join(WAYS)}.",
            _at("by"),
            code="pass-args-by-unknown",
        )
    reading = _Reading(mase_compatible)
    entries = {key: value for key, value in args.items() if key != "by"}
    if target_of(project.target.id).config_type is not FormatConfig:
        project = edits.set_board(project, "", TargetChoice(id=Formats.id))
    changed = edits.revise(project, rules=())
    # In a file the first expression wins; in our rules the last.
    ordered = list(entries.items())
    for key, entry in reversed(ordered) if way == "regex_name" else ordered:
        config = reading.config(key, entry)
        if config is None or (key == DEFAULT and config == "float"):
            continue
        changed = _assigned(changed, way, key, config, reading)
    if reading.problems:
        raise WorkbenchError(reading.problems)
    return Imported(changed, tuple(reading.notes))


def _assigned(project: Project, way: str, key: str, config: FormatConfig | str, reading: _Reading) -> Project:
    """Return the project with the rule of one entry; unsupported entries are noted."""
    if key == DEFAULT:
        return edits.assign(project, "global", "", config)
    if way == "regex_name" or (way == "name" and key.isidentifier()):
        return edits.assign(project, "pattern", key, config)
    if way == "name":
        reading.note(key, f"MASE's graph has no node {key!r}.", _NODE_NAMES, code="mase-node-unknown")
    elif key in OPERATIONS:
        return edits.assign_many(project, "node_target", list(operators_of(key)), config)
    else:
        reading.note(
            key, f"Number formats are not emulated for the operation {key!r}.", code="mase-operation-unknown"
        )
    return project


class _Reading:
    """Parses entries, and collects problems and notes."""

    def __init__(self, mase_compatible: bool) -> None:
        self.problems: list[ErrorInfo] = []
        self.notes: list[ErrorInfo] = []
        self._mase_compatible = mase_compatible

    def note(self, location: str, message: str, hint: str = "The entry is skipped.", *, code: str) -> None:
        self.notes.append(ErrorInfo(message=message, hint=hint, where=_at(location), code=code))

    def config(self, key: str, entry: Any) -> FormatConfig | str | None:
        """Return the config of an entry; None if it has none."""
        config = entry.get("config") if isinstance(entry, dict) else None
        if not isinstance(config, dict):
            self.note(key, f"{key!r} has no config.", code="mase-config-missing")
            return None
        for other in sorted(set(entry) - {"config"}):
            self.note(f"{key}.{other}", f"Unknown key {other!r} next to config.", code="mase-key-unknown")
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
            bare = next((given.removeprefix(p) for p in PREFIXES.values() if given.startswith(p)), "")
            if bare in known or given.startswith("data_out_"):
                kept[given] = None if value in ("NA", "none", "None") else value
            elif given not in SILENT:
                self.note(
                    f"{key}.config.{given}",
                    f"{spec.name} has no parameter {given!r}.",
                    code="mase-parameter-unknown",
                )
        for role in ROLES:
            if role == "data" or any(other.startswith(PREFIXES[role]) for other in kept):
                read(spec.name, spec.parameters, kept, role)
        return FormatConfig(
            scheme=spec.name, parameters=kept, mase_compatible=self._mase_compatible and spec.mase
        )


def _inside(key: str, info: ErrorInfo) -> str:
    return f"{key}.config.{info.where.id if info.where else 'name'}"


def _at(location: str) -> Place:
    return Place(kind="option", id=f"pass_args.{location}")


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


# MASE's keys of each operand, which have no defaults there.
_KEYS: dict[str, tuple[str, ...]] = {
    "integer": ("width", "frac_width"),
    "fixed": ("width", "frac_width"),
    "logicnets": ("width", "frac_width"),
    "binary": ("width", "stochastic", "bipolar"),
    "binary_residual": ("width", "stochastic", "bipolar"),
    "ternary": ("width", "scaling_factor", "mean", "median", "max"),
    "minifloat_ieee": ("width", "exponent_width", "exponent_bias"),
    "minifloat_denorm": ("width", "exponent_width", "exponent_bias"),
    "log": ("width", "exponent_bias"),
    "block_fp": ("width", "exponent_width", "exponent_bias", "block_size"),
    "block_minifloat": ("width", "exponent_width", "exponent_bias_width", "block_size"),
    "block_log": ("width", "exponent_bias_width", "block_size"),
    "lutnet": ("width", "frac_width", "binarization_level", "input_expanded", "k"),
    "mxint_hardware": ("width", "exponent_width", "parallelism"),
}
_MORE: dict[str, tuple[str, ...]] = {
    "binary_residual": ("weight_binary_training", "data_in_residual_sign", "data_in_levels"),
    "lutnet": ("data_in_levels", "data_in_dim", "weight_in_dim", "bias_in_dim"),
}
_OUT = "data_out_"
_WITH_RESULT = frozenset({"fixed", "logicnets"})


def pass_args_of(project: Project) -> dict[str, Any]:
    """Return pass_args that are equivalent to the project's rules: by type, else by pattern.

    Raises:
        WorkbenchError: rules without an equivalent in MASE; lists all.
    """
    rules = [rule for rule in by_strength(project.rules) if not rule.keeps_off]
    specific = [rule for rule in rules if rule.kind != "global"]
    problems: list[ErrorInfo] = []
    default = next((rule for rule in rules if rule.kind == "global"), None)
    args: dict[str, Any] = {
        "by": "type" if all(rule.kind == "node_target" for rule in specific) else "regex_name",
        "default": _entry(project, default, problems),
    }
    entries = _by_type if args["by"] == "type" else _by_pattern
    args.update(entries(project, specific, problems))
    if problems:
        raise WorkbenchError(problems)
    return args


def _by_type(project: Project, rules: Sequence[Rule], problems: list[ErrorInfo]) -> dict[str, Any]:
    """Return an entry per operation; all its operators must have the same config."""
    entries: dict[str, Any] = {}
    for rule in rules:
        operation = OPERATORS.get(rule.match)
        if operation is None:
            problems.append(
                _problem(
                    rule, f"{rule.match} is not an operation in MASE's table.", code="mase-operation-unknown"
                )
            )
            continue
        entry = _entry(project, rule, problems)
        if entries.setdefault(operation, entry) != entry:
            words = f"MASE cannot distinguish {rule.match} from the other operators of {operation}."
            problems.append(_problem(rule, words, code="mase-operators-differ"))
    return entries


def _by_pattern(project: Project, rules: Sequence[Rule], problems: list[ErrorInfo]) -> dict[str, Any]:
    """Return an entry per rule, strongest first: the first match wins in MASE."""
    entries: dict[str, Any] = {}
    for rule in rules:
        match rule.kind:
            case "pattern":
                key = rule.match
            case "node_name":
                key = re.escape(rule.match)
            case "module_name":
                key = f"{re.escape(rule.match.replace('.', '_'))}(_.*)?"
            case _:
                words = f"MASE has no {rule.kind} rules: it matches either types or names."
                problems.append(_problem(rule, words, code="mase-rule-kind-not-supported"))
                continue
        entries.setdefault(key, _entry(project, rule, problems))
    return entries


def _entry(project: Project, rule: Rule | None, problems: list[ErrorInfo]) -> dict[str, Any]:
    config = project.config_of(rule) if rule is not None else None
    if rule is None or config is None:
        return {"config": {"name": None}}
    if not isinstance(config, FormatConfig) or config.scheme not in _KEYS:
        label = config.scheme if isinstance(config, FormatConfig) else project.label_of(rule)
        problems.append(_problem(rule, f"MASE's quantize pass has no {label}.", code="mase-format-missing"))
        return {}
    try:
        return {"config": {"name": config.scheme, **_parameters(config)}}
    except WorkbenchError as error:
        problems += [_problem(rule, info.message, code=info.code) for info in error.infos]
        return {}


def _parameters(config: FormatConfig) -> dict[str, Any]:
    """Return every key that MASE needs; shared parameters are repeated for each operand.

    Raises:
        WorkbenchError: parameters are missing, or MASE's pass would ignore one.
    """
    spec = spec_of(config.scheme)
    parameters: dict[str, Any] = {}
    names = {alias: p.name for p in spec.parameters for alias in (p.name, *p.aliases)}
    more = _MORE.get(spec.name, ())
    for role in ROLES:
        given = read(spec.name, spec.parameters, config.parameters, role)
        for name in _KEYS[spec.name]:
            value = given[name]
            parameters[f"{PREFIXES[role]}{name}"] = list(value) if isinstance(value, tuple) else value
        own = {
            name: names[name.removeprefix(PREFIXES[role])] for name in more if name.startswith(PREFIXES[role])
        }
        parameters |= {name: given[bare] for name, bare in own.items()}
        _refuse_ignored(spec, given, {*_KEYS[spec.name], *own.values(), *_elsewhere(spec, more)})
    return {**parameters, **_outputs(config)}


def _elsewhere(spec: SchemeSpec, more: Sequence[str]) -> set[str]:
    """Return the parameters that only some operands have a key for."""
    ends = tuple(p.name for p in spec.parameters)
    return {end for end in ends if any(name.endswith(end) for name in more)}


def _refuse_ignored(spec: SchemeSpec, values: Mapping[str, Any], handled: set[str]) -> None:
    for parameter in spec.parameters:
        if parameter.name not in handled and values[parameter.name] != parameter.default:
            raise failure(
                f"MASE's quantize pass ignores {parameter.name!r} of {spec.name}.",
                code="mase-parameter-dropped",
            )


def _outputs(config: FormatConfig) -> dict[str, Any]:
    outputs = {k: v for k, v in config.parameters.items() if k.startswith(_OUT)}
    if outputs and config.scheme not in _WITH_RESULT:
        raise failure(
            f"MASE's quantize pass fails for {_OUT}* with {config.scheme}. Only fixed supports it.",
            code="mase-output-format-not-supported",
        )
    if config.scheme == "logicnets" and not outputs:
        raise failure(
            f"MASE's logicnets needs {_OUT}width and {_OUT}frac_width.", code="mase-output-format-missing"
        )
    return outputs


def _problem(rule: Rule, message: str, code: str) -> ErrorInfo:
    hint = "Change the rule, or disable it while exporting."
    return ErrorInfo(message=message, hint=hint, where=Place(kind="rule", id=rule.id), code=code)
