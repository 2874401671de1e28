"""Tree of the model's modules: type, parameters and effective config."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from ui.shared.chip import WISH_ROLE
from ui.shared.labels import literal
from ui.shared.theme import DIFFERS
from workbench.graph.labels import natural
from workbench.graph.snapshot import Module
from workbench.project.rules import Effective

AnyIndex = QModelIndex | QPersistentModelIndex
ROOT = QModelIndex()
WHOLE_MODEL = "whole model"


class Column(IntEnum):
    """Columns of the tree."""

    MODULE = 0
    CONFIG = 1
    TYPE = 2
    PARAMETERS = 3


TITLES = {Column.MODULE: "Module", Column.CONFIG: "Config", Column.TYPE: "Type", Column.PARAMETERS: "Params"}

# The chip of a module that contains modules with other configs.
MIXED = "mixed"


class Role(IntEnum):
    """Item data roles of a row."""

    PATH = Qt.ItemDataRole.UserRole + 1
    MARK = Qt.ItemDataRole.UserRole + 2


# Roles that depend on configs. Roles used by filters are excluded, because changing them
# filters every row again.
_OF_CONFIGS = [
    Qt.ItemDataRole.DisplayRole,
    Qt.ItemDataRole.ToolTipRole,
    Qt.ItemDataRole.AccessibleTextRole,
    Role.MARK,
]


@dataclass
class _Row:
    module: Module
    parent: _Row | None
    position: int = 0
    children: list[_Row] = field(default_factory=list)


# The configs of modules, their reasons, and the differences that the quantizer reports.
Chips = tuple[Mapping[str, Effective], Mapping[str, str], Mapping[str, str], Mapping[str, tuple[str, ...]]]


class ModuleTreeModel(QAbstractItemModel):
    """Model of the tree: modules of a graph snapshot, configs of a resolution."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: dict[str, _Row] = {}
        self._all: list[_Row] = []
        self._top: list[_Row] = []
        self._numbers: dict[int, int] = {}
        self._configs: Mapping[str, Effective] = {}
        self._reasons: Mapping[str, str] = {}
        self._marks: Mapping[str, str] = {}
        self._several: Mapping[str, tuple[str, ...]] = {}
        self._inside: dict[str, tuple[str, ...]] = {}
        # What ``_shown_chips`` returned last; asking for every module is slow.
        self._chips: dict[str, tuple[str, str]] = {}

    def set_modules(self, modules: Sequence[Module], chips: Chips | None = None) -> None:
        """Set the modules, and what ``set_configs`` takes, so that views need not hear of it."""
        self.beginResetModel()
        self._rows, self._all, self._top = {}, [], []
        for module in _counted(modules):
            parent = self._rows.get(module.parent) if module.path else None
            siblings = parent.children if parent else self._top
            row = _Row(module, parent, len(siblings))
            siblings.append(row)
            self._rows[module.path] = row
            self._all.append(row)
        self._numbers = {id(row): number for number, row in enumerate(self._all)}
        if chips is not None:
            self._configs, self._reasons, self._marks, self._several = chips
            self._inside = self._chips_inside()
        self._chips = self._shown_chips()
        self.endResetModel()

    def set_configs(
        self,
        configs: Mapping[str, Effective],
        reasons: Mapping[str, str],
        marks: Mapping[str, str],
        several: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Set what the tree shows of configs.

        Args:
            configs: The config of each module.
            reasons: Where they come from.
            marks: The differences that the quantizer reports.
            several: The chips of a module's own operations, where they have several configs.
        """
        chips = configs, reasons, marks, several or {}
        if chips == (self._configs, self._reasons, self._marks, self._several):
            return
        before = self._chips
        self._configs, self._reasons, self._marks, self._several = chips
        self._inside = self._chips_inside()
        self._chips = self._shown_chips()
        self._tell_changed({path for path in self._rows if before[path] != self._chips[path]})

    def chips(self) -> set[tuple[str, str]]:
        """Return the chips of all modules, each with the config that was asked for in vain."""
        return set(self._chips.values())

    def texts(self, column: Column) -> dict[str, int]:
        """Return the texts of a column, each with the depth of its deepest module."""
        depths: dict[str, int] = {}
        for path, row in self._rows.items():
            text = self._text(row.module, column)
            depths[text] = max(depths.get(text, 0), path.count("."))
        return depths

    def _shown_chips(self) -> dict[str, tuple[str, str]]:
        return {
            path: (self._text(row.module, Column.CONFIG), self._wish(row.module))
            for path, row in self._rows.items()
        }

    def _wish(self, module: Module) -> str:
        config = self._configs.get(module.path)
        return config.wish if config and module.path not in self._inside else ""

    def _chips_inside(self) -> dict[str, tuple[str, ...]]:
        """Return the chips of every module that contains modules with other configs."""
        chips: dict[str, dict[str, None]] = {}
        # Parents come before their children in ``_all``.
        for row in reversed(self._all):
            config = self._configs.get(row.module.path)
            own = chips.setdefault(row.module.path, {})
            if row.module.path in self._several:
                own.update(dict.fromkeys(self._several[row.module.path]))
            elif config is not None:
                own[config.chip] = None
            if row.parent is not None:
                chips.setdefault(row.parent.module.path, {}).update(own)
        return {path: tuple(sorted(own)) for path, own in chips.items() if len(own) > 1}

    def path_of(self, index: AnyIndex) -> str | None:
        """Return the dotted name of the module in a row."""
        return self._row(index).module.path if index.isValid() else None

    def index_of(self, path: str) -> QModelIndex:
        """Return the index of a module; an invalid index if there is none."""
        row = self._rows.get(path)
        return QModelIndex() if row is None else self._index(row, 0)

    def index(self, row: int, column: int, parent: AnyIndex = ROOT) -> QModelIndex:
        siblings = self._row(parent).children if parent.isValid() else self._top
        if not (0 <= row < len(siblings) and 0 <= column < len(Column)):
            return QModelIndex()
        return self._index(siblings[row], column)

    def parent(self, index: AnyIndex = ROOT) -> Any:
        if not index.isValid():
            return QModelIndex()
        above = self._row(index).parent
        return QModelIndex() if above is None else self._index(above, 0)

    def rowCount(self, parent: AnyIndex = ROOT) -> int:
        if not parent.isValid():
            return len(self._top)
        return len(self._row(parent).children) if parent.column() == 0 else 0

    def columnCount(self, parent: AnyIndex = ROOT) -> int:
        del parent
        return len(Column)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation == Qt.Orientation.Horizontal and 0 <= section < len(Column):
            if role == Qt.ItemDataRole.DisplayRole:
                return TITLES[Column(section)]
            if role == Qt.ItemDataRole.TextAlignmentRole and section == Column.PARAMETERS:
                return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        module = self._row(index).module
        value: Any = None
        match role:
            case Qt.ItemDataRole.DisplayRole:
                value = self._text(module, Column(index.column()))
            case Qt.ItemDataRole.ToolTipRole:
                value = literal(self._tooltip(module))
            case Qt.ItemDataRole.TextAlignmentRole if index.column() == Column.PARAMETERS:
                value = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            case Qt.ItemDataRole.AccessibleTextRole:
                config = self._configs.get(module.path)
                label = config.label if config else "no config"
                value = f"{module.path or WHOLE_MODEL}, {module.type_name}, {label}"
            case _ if role == WISH_ROLE:
                value = self._wish(module) if index.column() == Column.CONFIG else ""
            case Role.PATH:
                value = module.path
            case Role.MARK:
                value = self._marks.get(module.path, "")
        return value

    def _text(self, module: Module, column: Column) -> str:
        config = self._configs.get(module.path)
        match column:
            case Column.MODULE:
                return module.path.rpartition(".")[2] or WHOLE_MODEL
            case Column.TYPE:
                return module.type_name.rpartition(".")[2]
            case Column.PARAMETERS:
                return f"{module.parameters:,}" if module.parameters else ""
            case Column.CONFIG:
                is_told = bool(config and config.wish) and module.path not in self._inside
                mark = DIFFERS if module.path in self._marks and not is_told else ""
                chip = MIXED if module.path in self._inside else config.chip if config else ""
                return f"{chip}{mark}" if chip else ""

    def _tooltip(self, module: Module) -> str:
        lines = [module.path or WHOLE_MODEL, self._reasons.get(module.path, "")]
        if inside := self._inside.get(module.path):
            lines.append(f"Inside: {', '.join(inside)}")
        if mark := self._marks.get(module.path):
            lines.append(f"The quantizer differs: {mark}")
        return "\n".join(line for line in lines if line)

    def _row(self, index: AnyIndex) -> _Row:
        return self._all[index.internalId()]

    def _index(self, row: _Row, column: int) -> QModelIndex:
        return self.createIndex(row.position, column, self._numbers[id(row)])

    def _tell_changed(self, paths: Collection[str]) -> None:
        """Tell the views which rows have other chips, in one signal for the rows of a parent."""
        changed: dict[str, list[_Row]] = {}
        for path in paths:
            row = self._rows[path]
            above = row.parent.module.path if row.parent is not None else ""
            changed.setdefault("" if not path else f"/{above}", []).append(row)
        for rows in changed.values():
            first, last = (pick(rows, key=lambda row: row.position) for pick in (min, max))
            ends = self._index(first, 0), self._index(last, len(Column) - 1)
            self.dataChanged.emit(*ends, _OF_CONFIGS)


def _counted(modules: Sequence[Module]) -> list[Module]:
    """Return modules in natural order (``layer.2`` before ``layer.10``) if sorted as text.

    Exported programs list modules sorted as text, models in the order of their definition.
    """
    if [module.path for module in modules] != sorted(module.path for module in modules):
        return list(modules)
    return sorted(modules, key=lambda module: [natural(part) for part in module.path.split(".")])
