"""Every single setting of a project by its key, as ``calibration.preprocess.size``.

Keys are the paths of the project file. Rules, presets, ranges and notes on the graph are lists with
verbs of their own; they are no settings.
"""

from __future__ import annotations

import difflib
import json
import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from workbench.errors import Place, WorkbenchError, failure
from workbench.project import store
from workbench.project.model import PROJECT_VERSION, Preprocess, Project
from workbench.project.preprocessing import preprocess_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_SETTINGS = frozenset(
    {
        "version",
        "rules",
        "presets",
        "ranges",
        "range_methods",
        "graph",
        "options",
        "compressions",
        "toolchain_versions",
    }
)
# What a group is when it is given as one text: the field that the text becomes.
_MAIN_FIELDS = {"ModelSource": "spec", "DataSource": "spec", "TargetChoice": "id"}
SWITCH_WORDS: dict[str, bool] = {
    "true": True,
    "on": True,
    "yes": True,
    "1": True,
    "false": False,
    "off": False,
    "no": False,
    "0": False,
}
_NULL = frozenset({"none", "null"})


def keys() -> dict[str, FieldInfo]:
    """Return the field of every setting by its key, in the order of the project file."""
    return dict(_fields(Project, ""))


def _fields(kind: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in kind.model_fields.items():
        if name in _NO_SETTINGS:
            continue
        inner = _model_in(field.annotation)
        if inner is None:
            yield prefix + name, field
        else:
            yield from _fields(inner, f"{prefix}{name}.")


def _groups(kind: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in kind.model_fields.items():
        inner = None if name in _NO_SETTINGS else _model_in(field.annotation)
        if inner is not None:
            yield prefix + name, field
            yield from _groups(inner, f"{prefix}{name}.")


def values(project: Project) -> dict[str, Any]:
    """Return the value of every setting by its key; settings of an absent group are None."""
    return {key: _plain(_at(project, key)) for key in keys()}


def _at(project: Project, key: str) -> Any:
    value: Any = project
    for name in key.split("."):
        value = None if value is None else getattr(value, name)
    return value


def _plain(value: Any) -> Any:
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def changed(project: Project, values: Mapping[str, Any]) -> Project:
    """Return the project with some settings changed.

    Args:
        project: The project.
        values: Values by key. Texts are read in the type of the setting: sizes as ``224x224``, other
            lists with commas or slashes, switches as ``on`` and ``off``. The empty text restores
            the default. None, and ``none`` where a value may be absent, clear the value: a limit
            of the gate is off then. A group takes one text: a reference for ``model``,
            ``calibration`` and ``evaluation.data``, ``size=...,mean=...`` for a ``preprocess``;
            the empty text, ``none`` and None remove it.

    Raises:
        WorkbenchError: A key is unknown, a value is invalid, or a group lacks its first setting.
    """
    raw = project.model_dump(mode="json", exclude_defaults=True)
    groups, leaves = dict(_groups(Project, "")), keys()
    # Groups first: a key inside a group refines what the group is set to.
    for key in sorted(values, key=lambda key: (key not in groups, key.count("."))):
        if key in groups:
            _put_group(raw, key, groups[key], values[key])
        elif key in leaves:
            _put_value(raw, key, leaves[key], values[key])
        else:
            raise _unknown(key, [*leaves, *groups])
    text = json.dumps({**_without_empty(raw), "version": PROJECT_VERSION})
    return store.parse(text.encode(), "")


def _put_group(raw: dict[str, Any], key: str, field: FieldInfo, value: Any) -> None:
    kind = _model_in(field.annotation)
    assert kind is not None
    main = _MAIN_FIELDS.get(kind.__name__)
    if isinstance(value, str) and value.strip().lower() in _NULL | {""}:
        value = None
    if value is None:
        _remove(raw, key)
    elif isinstance(value, BaseModel):
        _put(raw, key, value.model_dump(mode="json", exclude_defaults=True))
    elif isinstance(value, str) and kind is Preprocess:
        preprocess = preprocess_of(value, key)
        _put(raw, key, preprocess.model_dump(mode="json", exclude_defaults=True))
    elif isinstance(value, str) and main is not None:
        _put(raw, f"{key}.{main}", value)
    else:
        named = ", ".join(f"{key}.{name}" for name in kind.model_fields)
        raise _invalid(key, value, f"Set its parts: {named}.")


def _put_value(raw: dict[str, Any], key: str, field: FieldInfo, value: Any) -> None:
    if value == "":
        _remove(raw, key)
        return
    if isinstance(value, str):
        try:
            value = _read(field.annotation, value.strip())
        except ValueError:
            hint = f"It takes {described(field.annotation)}."
            raise _invalid(key, value, hint) from None
    _put(raw, key, _plain(tuple(value)) if isinstance(value, tuple | list) else value)


def _read(kind: Any, text: str) -> Any:
    """Return a text in a type of the project.

    Raises:
        ValueError: The text is no value of the type.
    """
    kinds = _choices(kind)
    if type(None) in kinds and text.lower() in _NULL:
        return None
    (kind,) = (member for member in kinds if member is not type(None))
    if kind is bool:
        if text.lower() not in SWITCH_WORDS:
            raise ValueError(text)
        return SWITCH_WORDS[text.lower()]
    if kind in {int, float}:
        return kind(text)
    if get_origin(kind) is tuple:
        return _read_list(get_args(kind), text)
    return text


def _read_list(parts: tuple[Any, ...], text: str) -> list[Any]:
    of = parts[0]
    if get_origin(of) is tuple:
        return [_read_list(get_args(of), row) if row else [] for row in text.split(",")]
    if of is str or get_origin(of) is Literal:
        return [word.strip() for word in text.split(",") if word.strip()]
    number = float if of is float else int
    words = text.lower().replace("x", "/").replace(",", "/").split("/")
    read = [number(word) for word in words]
    fixed = len(parts) == 2 and parts[1] is not Ellipsis
    return read * 2 if fixed and len(read) == 1 else read


def described(kind: Any) -> str:
    """Return the type of a setting in words."""
    names = {str: "a text", int: "a whole number", float: "a number", bool: "on or off"}
    words = []
    for choice in _choices(kind):
        if get_origin(choice) is Literal:
            words.append(" or ".join(map(str, get_args(choice))))
        elif get_origin(choice) is tuple:
            inner = get_args(choice)[0]
            sized = "as 224x224" if get_args(choice)[-1] is not Ellipsis else "as 3,14"
            numbers = {int: f"whole numbers, {sized}", float: "numbers, as 0.5/0.5/0.5"}
            rows = {int: "shapes, as 1x3x224x224,1x10", float: "numbers of each output, as 64/1"}
            row = _bare(inner) if get_origin(inner) is tuple else None
            words.append(rows[get_args(row)[0]] if row else numbers.get(inner, "names, separated by commas"))
        elif choice is not type(None):
            words.append(names.get(choice, str(choice)))
    return " or ".join(words)


def _choices(kind: Any) -> tuple[Any, ...]:
    """Return the alternatives of a type, without annotations."""
    if get_origin(kind) in {Union, types.UnionType}:
        return tuple(choice for argument in get_args(kind) for choice in _choices(argument))
    metadata = getattr(kind, "__metadata__", None)
    return _choices(get_args(kind)[0]) if metadata is not None else (_bare(kind),)


def _bare(kind: Any) -> Any:
    """Return a tuple type whose elements carry no annotations."""
    if get_origin(kind) is not tuple:
        return kind
    parts = tuple(e if e is Ellipsis else _choices(e)[0] for e in get_args(kind))
    return types.GenericAlias(tuple, parts)


def _model_in(kind: Any) -> type[BaseModel] | None:
    """Return the class of a group; None for a single setting."""
    for choice in _choices(kind):
        if isinstance(choice, type) and issubclass(choice, BaseModel):
            return choice
    return None


def _put(raw: dict[str, Any], key: str, value: Any) -> None:
    """Set a value in the nested dictionary."""
    *groups, name = key.split(".")
    for group in groups:
        raw = raw.setdefault(group, {})
    raw[name] = value


def _remove(raw: dict[str, Any], key: str) -> None:
    """Remove a value from the nested dictionary, if it is there."""
    *groups, name = key.split(".")
    for group in groups:
        raw = raw.get(group, {})
    raw.pop(name, None)


def _without_empty(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the dictionary without groups in which nothing is set any more."""
    inner = {k: _without_empty(v) if isinstance(v, dict) else v for k, v in raw.items()}
    return {key: value for key, value in inner.items() if value != {}}


def _unknown(key: str, known: list[str]) -> WorkbenchError:
    close = difflib.get_close_matches(key, known, n=3, cutoff=0.5)
    close = [*close, *(k for k in known if k.endswith(f".{key}") and k not in close)]
    hint = f"Did you mean {', '.join(close[:4])}?" if close else ""
    return failure(
        f"{key!r} is not a setting.",
        f"{hint} workbench settings PROJECT lists all keys.".strip(),
        Place(kind="option", id=key),
        code="setting-unknown",
    )


def _invalid(key: str, value: Any, hint: str) -> WorkbenchError:
    return failure(
        f"{value!r} is not a value of {key}.", hint, Place(kind="option", id=key), code="setting-invalid"
    )
