"""Side-by-side comparison of two levels, or of two runs of one level."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QToolButton, QVBoxLayout, QWidget

from ui.features.graph.graph_view import GraphView
from ui.features.graph.marks import SIGNS
from ui.shared.labels import Label, literal
from ui.shared.theme import Theme, icon
from workbench.errors import WorkbenchError
from workbench.graph.compare import Difference, Pairing
from workbench.graph.snapshot import GraphSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from PySide6.QtWidgets import QMenu, QSplitter

    from ui.features.graph.graph_results import OverlayLoader
    from ui.shared.theme import Theme
    from ui.state.background import Background


class ComparisonPane(QFrame):
    """The right pane: a graph view under a header.

    Signals:
        close_asked: the pane is to be closed.
        step_asked: go to the next (1) or the previous (-1) difference.
    """

    close_asked = Signal()
    step_asked = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.view = GraphView(theme, self)
        self.view.setAccessibleName("Compared graph")
        self.title = Label(self)
        self.counts = Label(self)
        self.counts.setObjectName("Hint")
        self._buttons = {
            name: self._button(name, words)
            for name, words in (
                ("up", "Previous difference"),
                ("down", "Next difference"),
                ("close", "Close comparison"),
            )
        }
        self._buttons["up"].clicked.connect(lambda: self.step_asked.emit(-1))
        self._buttons["down"].clicked.connect(lambda: self.step_asked.emit(1))
        self._buttons["close"].clicked.connect(self.close_asked)
        row = QHBoxLayout()
        row.setContentsMargins(8, 2, 4, 2)
        row.setSpacing(10)
        row.addWidget(self.title)
        row.addWidget(self.counts, 1)
        for button in self._buttons.values():
            row.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(row)
        layout.addWidget(self.view, 1)
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self.view.surface.set_theme(theme)
        for name, button in self._buttons.items():
            button.setIcon(icon(name, theme.text))

    def show_pairing(self, title: str, pairing: Pairing | None) -> None:
        """Show the title and the numbers of differences."""
        self.title.setText(title)
        if pairing is None:
            self.counts.setText("comparing\u2026")
            return
        counts = (
            (SIGNS["added"], len(pairing.added), "only right"),
            (SIGNS["removed"], len(pairing.removed), "only left"),
            (SIGNS["changed"], len(pairing.changed), "changed"),
        )
        parts = [f"{sign} {count:,} {words}" for sign, count, words in counts if count]
        self.counts.setText("   ".join(parts) or "no differences")
        for name in ("up", "down"):
            self._buttons[name].setEnabled(bool(parts))

    def _button(self, name: str, words: str) -> QToolButton:
        button = QToolButton(self)
        button.setObjectName(f"beside-{name}")
        button.setToolTip(literal(words))
        button.setAccessibleName(words)
        return button


TOPIC = "beside"


@dataclass(frozen=True)
class ComparedGraph:
    """The graph to compare with: its title, its file, and the results of its stages."""

    title: str
    path: Path
    results: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class _ComparisonResult:
    right: GraphSnapshot | None
    pairing: Pairing | None
    problem: WorkbenchError | None = None


class Comparison(QObject):
    """Controls the right pane, and marks the differences in both views.

    Signals:
        failed: the error of a graph that cannot be shown.
        chosen: the left operations that match the selection in the right pane.
        changed: another graph is compared, or none.
    """

    failed = Signal(object)
    chosen = Signal(object)
    changed = Signal()

    def __init__(
        self, view: GraphView, splitter: QSplitter, background: Background, loader: OverlayLoader
    ) -> None:
        super().__init__(splitter)
        self._view, self._splitter, self._theme = view, splitter, view.surface.theme
        self._background, self._loader = background, loader
        self.pane: ComparisonPane | None = None
        self.pairing: Pairing | None = None
        self._other: ComparedGraph | None = None
        self._position = -1
        self._is_leading = False
        self._is_first = True
        # Whether a pending layout of a side follows the other side.
        self._left_follows = self._right_follows = False
        background.done.connect(self._on_done)
        view.groups.laid_out.connect(self._on_left_laid_out)
        view.groups.leaving.connect(self._on_left_leaving)

    @property
    def other(self) -> ComparedGraph | None:
        """The compared graph; None for none."""
        return self._other

    def offer(self, menu: QMenu, levels: Sequence[ComparedGraph], past: Sequence[ComparedGraph]) -> None:
        """Fill a menu with other levels, and earlier runs of this level."""
        menu.clear()
        for other in levels:
            menu.addAction(other.title).triggered.connect(partial(self._on_asked, other))
        menu.addSeparator()
        for other in past:
            menu.addAction(other.title).triggered.connect(partial(self._on_asked, other))
        if not past:
            menu.addAction("No earlier runs of this level").setEnabled(False)
        if self._other is not None:
            menu.addSeparator()
            menu.addAction("None").triggered.connect(self.close)

    def _on_asked(self, other: ComparedGraph, _checked: bool = False) -> None:
        self.open(other)

    def open(self, other: ComparedGraph) -> None:
        """Show a graph in the right pane."""
        self._other = other
        if self.pane is None:
            self.pane = ComparisonPane(self._theme, self._splitter)
            self.pane.close_asked.connect(self.close)
            self.pane.step_asked.connect(self.step)
            self.pane.view.selection.changed.connect(self._on_right_chosen)
            self.pane.view.groups.laid_out.connect(self._on_right_laid_out)
            self.pane.view.groups.leaving.connect(self._on_right_leaving)
            self._splitter.addWidget(self.pane)
            half = self._splitter.width() // 2
            self._splitter.setSizes([half, half])
        self.pane.show_pairing(other.title, None)
        self.changed.emit()

    def close(self, _checked: bool = False) -> None:
        """Close the right pane."""
        self._other, self.pairing, self._position = None, None, -1
        if self.pane is not None:
            self.pane.view.groups.stop()
            self.pane.hide()
            self.pane.deleteLater()
            self.pane = None
        self._view.surface.set_differences({}, {})
        self.changed.emit()

    def stop(self) -> None:
        """Stop background work."""
        if self.pane is not None:
            self.pane.view.groups.stop()

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self._theme = theme
        if self.pane is not None:
            self.pane.set_theme(theme)

    def compare(self, first: GraphSnapshot | None, left: GraphSnapshot | None) -> None:
        """Compute the differences between both graphs."""
        other = self._other
        if other is None or first is None or left is None:
            return

        def work(_outdated: Callable[[], bool]) -> object:
            read = self._loader.snapshot(other.path)
            if isinstance(read, WorkbenchError):
                return _ComparisonResult(None, None, read)
            known = self.pairing
            if known is not None and known.left is left and known.right is read:
                return _ComparisonResult(read, known)
            return _ComparisonResult(read, Pairing(first, left, read))

        self._background.submit(TOPIC, work)

    def select(self, node_ids: frozenset[str]) -> None:
        """Select the matching operations in the right pane."""
        if self.pane is not None and self.pairing is not None and not self._is_leading:
            self.pane.view.selection.select(self.pairing.to_right(node_ids), reveal=True)

    def step(self, direction: int) -> None:
        """Go to the next difference in execution order, cyclically."""
        differences = self._differences()
        if not differences or self.pane is None or self.pairing is None:
            return
        start = len(differences) if direction < 0 and self._position < 0 else self._position
        self._position = (start + direction) % len(differences)
        side, node_id = differences[self._position]
        chosen = frozenset((node_id,))
        if side == "right":
            self.pane.view.selection.select(chosen, reveal=True)
            self._on_right_chosen(chosen)
        else:
            self.chosen.emit(chosen)

    def _differences(self) -> list[tuple[str, str]]:
        if self.pairing is None:
            return []
        left, right = self.pairing.left.nodes, self.pairing.right.nodes
        gone = self.pairing.removed | self.pairing.changed.keys()
        pairs = [("left", node.id) for node in left if node.id in gone]
        return pairs + [("right", node.id) for node in right if node.id in self.pairing.added]

    def _on_done(self, topic: str, answer: object) -> None:
        if topic != TOPIC or not isinstance(answer, _ComparisonResult) or self.pane is None:
            return
        if answer.problem is not None or answer.pairing is None:
            self.close()
            self.failed.emit(answer.problem)
            return
        self.pairing, self._position = answer.pairing, -1
        self._is_first = True
        self.pane.view.groups.render_snapshot(answer.right)
        pairing = answer.pairing
        own: dict[str, Difference] = dict.fromkeys(pairing.removed, "removed")
        own.update(dict.fromkeys(pairing.changed, "changed"))
        theirs: dict[str, Difference] = dict.fromkeys(pairing.added, "added")
        theirs.update(dict.fromkeys(pairing.changed_right, "changed"))
        self._view.surface.set_differences(own, pairing.changed)
        self.pane.view.surface.set_differences(theirs, pairing.changed_right)
        self.pane.show_pairing(self._other.title if self._other else "", pairing)
        self.select(self._view.surface.selected)

    def _on_left_leaving(self) -> None:
        """Let the left side lead again: the user changed it."""
        self._left_follows = False

    def _on_right_leaving(self) -> None:
        self._right_follows = False

    def _on_left_laid_out(self) -> None:
        """Open the same groups at the right, in the same grouping and flow."""
        follows, self._left_follows = self._left_follows, False
        if self.pane is not None and not follows and not self._view.groups.isolated:
            self._right_follows = self.pane.view.groups.follow(self._view.groups)

    def _on_right_laid_out(self) -> None:
        """Open at the left what was opened at the right; at first the left one leads."""
        follows, self._right_follows = self._right_follows, False
        if self.pane is None or follows or self._view.groups.isolated:
            return
        right = self.pane.view.groups
        if self._is_first:
            self._is_first = False
            self._right_follows = right.follow(self._view.groups)
        else:
            self._left_follows = self._view.groups.follow(right)

    def _on_right_chosen(self, node_ids: frozenset[str]) -> None:
        if self.pairing is not None:
            self._is_leading = True
            self.chosen.emit(self.pairing.to_left(node_ids))
            self._is_leading = False
