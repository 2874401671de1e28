"""Old project files made new: raw dict to raw dict, one version at a time, before validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.project.model import PROJECT_VERSION
from workbench.project.range_method import without_origins

Raw = dict[str, Any]


def _from_0(raw: Raw) -> Raw:
    """Version 0 kept the device flat; version 1 gives every target options of its own."""
    raw = dict(raw)
    if isinstance(target := raw.get("target"), str):
        options = {name: raw.pop(name) for name in ("system_config", "memory_mode") if name in raw}
        raw["target"] = {"id": target, "options": options}
    return raw


def _from_1(raw: Raw) -> Raw:
    """Version 1 kept a method for ranges as its numbers; version 2 keeps the method."""
    return without_origins(raw)


def _from_2(raw: Raw) -> Raw:
    """Version 2 knew no boards; a project without one says nothing of them."""
    return raw


def _from_3(raw: Raw) -> Raw:
    """Version 3 knew no number formats and no patterns; a project without any stays as it is."""
    return raw


def _from_4(raw: Raw) -> Raw:
    """Version 4 knew no training; a project without it says nothing of it."""
    return raw


def _from_5(raw: Raw) -> Raw:
    """Version 5 knew no plug-ins; a project without any says nothing of them."""
    return raw


def _from_6(raw: Raw) -> Raw:
    """Version 6 knew no texts as data; a project without any stays as it is."""
    return raw


MIGRATIONS: dict[int, Callable[[Raw], Raw]] = {
    0: _from_0, 1: _from_1, 2: _from_2, 3: _from_3, 4: _from_4, 5: _from_5, 6: _from_6,
}  # fmt: skip


def migrate(raw: Raw) -> Raw:
    """Return ``raw`` as the present version writes it; newer and odd versions unchanged."""
    version = raw.get("version", 0)
    while isinstance(version, int) and version in MIGRATIONS and version < PROJECT_VERSION:
        raw = {**MIGRATIONS[version](raw), "version": version + 1}
        version += 1
    return raw
