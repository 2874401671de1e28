"""The selection of the window, shared by tree, graph, tables and plots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal


@dataclass(frozen=True)
class Selected:
    """Selected modules, nodes and tensors by name, and at most one rule.

    ``origin`` is the id of the selecting panel, which does not scroll to its own selection.
    """

    modules: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    tensors: frozenset[str] = frozenset()
    rule: str = ""
    origin: str = ""

    @property
    def empty(self) -> bool:
        """Whether nothing is selected."""
        return not (self.modules or self.nodes or self.tensors or self.rule)


class Selection(QObject):
    """The selection of the window.

    Signals:
        changed: the new ``Selected``.
    """

    changed = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._value = Selected()

    @property
    def value(self) -> Selected:
        """The present selection."""
        return self._value

    def choose_modules(self, paths: Iterable[str], origin: str = "") -> None:
        """Select modules by dotted name."""
        self._set(Selected(modules=frozenset(paths), origin=origin))

    def choose_nodes(self, ids: Iterable[str], origin: str = "") -> None:
        """Select nodes of the graph."""
        self._set(Selected(nodes=frozenset(ids), origin=origin))

    def choose_tensors(self, ids: Iterable[str], nodes: Iterable[str] = (), origin: str = "") -> None:
        """Select tensors and the nodes that produce them."""
        self._set(Selected(tensors=frozenset(ids), nodes=frozenset(nodes), origin=origin))

    def choose_rule(self, rule_id: str, origin: str = "") -> None:
        """Select a rule."""
        self._set(Selected(rule=rule_id, origin=origin))

    def clear(self) -> None:
        """Clear the selection."""
        self._set(Selected())

    def _set(self, value: Selected) -> None:
        before = self._value
        self._value = value
        if (before.modules, before.nodes, before.tensors, before.rule) != (
            value.modules,
            value.nodes,
            value.tensors,
            value.rule,
        ):
            self.changed.emit(value)
