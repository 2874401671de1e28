"""What is chosen: one value for tree, graph, tables and plots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal


@dataclass(frozen=True)
class Selected:
    """Chosen modules, nodes and tensors by name, and at most one rule.

    ``origin`` is the panel that chose, so that it does not scroll under its own cursor.
    """

    modules: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    tensors: frozenset[str] = frozenset()
    rule: str = ""
    origin: str = ""

    @property
    def empty(self) -> bool:
        """Whether nothing is chosen."""
        return not (self.modules or self.nodes or self.tensors or self.rule)


class Selection(QObject):
    """The one selection of the window.

    Signals:
        changed: the new ``Selected``.
    """

    changed = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._value = Selected()

    @property
    def value(self) -> Selected:
        """What is chosen now."""
        return self._value

    def choose_modules(self, paths: Iterable[str], origin: str = "") -> None:
        """Choose modules by dotted name."""
        self._set(Selected(modules=frozenset(paths), origin=origin))

    def choose_nodes(self, ids: Iterable[str], origin: str = "") -> None:
        """Choose nodes of the graph."""
        self._set(Selected(nodes=frozenset(ids), origin=origin))

    def choose_tensors(
        self, ids: Iterable[str], nodes: Iterable[str] = (), origin: str = ""
    ) -> None:
        """Choose tensors, with the nodes they come from."""
        self._set(Selected(tensors=frozenset(ids), nodes=frozenset(nodes), origin=origin))

    def choose_rule(self, rule_id: str, origin: str = "") -> None:
        """Choose a rule."""
        self._set(Selected(rule=rule_id, origin=origin))

    def clear(self) -> None:
        """Choose nothing."""
        self._set(Selected())

    def _set(self, value: Selected) -> None:
        before = self._value
        self._value = value
        if (before.modules, before.nodes, before.tensors, before.rule) != (
            value.modules, value.nodes, value.tensors, value.rule,
        ):  # fmt: skip
            self.changed.emit(value)
