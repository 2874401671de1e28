"""The Rules panel: all rules in order of strength."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QHBoxLayout, QMenu, QStackedLayout, QToolButton, QVBoxLayout, QWidget

from ui.features.rules.rule_form import RuleForm
from ui.features.rules.rule_stack import RuleRow, RuleStackModel, RuleView, call_position, shown_order
from ui.shared.empty_states import sentence
from ui.shared.explanations import QuantizerReport, rule_name, rule_numbers, without_effect
from ui.shared.labels import ElidedLabel, Label, literal
from ui.shared.panel import Panel
from ui.shared.precision_menu import ask_config
from ui.shared.theme import Theme, icon
from ui.state.assigner import Offer, first_config, offers, refusal
from ui.state.selection import Selected
from workbench.ids import StageId
from workbench.pipeline.stages import STAGES_BY_ID
from workbench.project import edits
from workbench.project.configs import Config, PluginConfig
from workbench.project.model import Rule, RuleKind
from workbench.project.plugins import offered

if TYPE_CHECKING:
    from workbench.results import PrepareResult

EMPTY_TEXT = "No rules: nothing is quantized.\nAdd a rule below, or select modules and press 1."

ORDER = "The topmost match wins"
# As many rules are seen whole.
_LEAST_ROWS = 3


class RulesPanel(Panel):
    """Shows the rules, their buttons and the form for a new rule."""

    panel_id = "rules"

    def build(self) -> None:
        self.model = RuleStackModel(self)
        self.model.moved.connect(self._on_moved)
        self.model.switched.connect(self._on_switched)
        self.view = RuleView(lambda: self.context.theme, self)
        self.view.setModel(self.model)
        self.view.delete_asked.connect(self._on_delete_asked)
        self.view.raise_asked.connect(self._on_raise_asked)
        self.view.doubleClicked.connect(lambda index: self._edit(index.row()))
        self.view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.view.customContextMenuRequested.connect(self._on_menu_asked)
        self.view.selectionModel().selectionChanged.connect(self._on_selection_changed)
        self.form = RuleForm(self)
        self.form.asked.connect(self._on_rule_asked)
        self._tools: dict[str, QToolButton] = {}
        self._report = QuantizerReport()
        self._prepared: PrepareResult | None = None
        self._sources: tuple[object, object] = None, None
        self._known_effects: tuple[set[str], Counter[str]] = set(), Counter()
        self._arrange()
        self.context.session.stage_changed.connect(self._on_stage_changed)

    def refresh(self) -> None:
        self._show_state()
        project = self.context.document.project
        rules = project.rules if project else ()
        counts = self.context.model_index.resolution.counts
        known = bool(self.context.model_index.modules)
        numbers = rule_numbers(rules)
        vain, lost = self._effects()
        rows = []
        for rule in shown_order(rules):
            assert project is not None
            count = counts.get(rule.id) if known else None
            trouble = refusal(project, rule.kind, rule.config)
            if not trouble and count is not None and rule.enabled and not count.wins:
                trouble = "matches nothing" if not count.matched else "no effect"
            if not trouble and rule.enabled and rule.id in vain:
                trouble = "no effect: fused with the layer before it"
            label = project.label_of(rule)
            rows.append(RuleRow(rule, numbers[rule.id], label, count, trouble, lost[rule.id]))
        self.model.set_rows(rows)
        # Whole rows, however the panels share the height.
        seen_px = min(len(rows), _LEAST_ROWS) * max(self.view.sizeHintForRow(0), 0)
        self.view.setMinimumHeight(seen_px + 2 * self.view.frameWidth())
        self._stack.setCurrentIndex(1 if rows else 0)
        fixed, methods = (len(project.ranges), len(project.range_methods)) if project else (0, 0)
        sentences = [f"{fixed} range{'s' if fixed != 1 else ''} pinned"] if fixed else []
        sentences += [f"{methods} range method{'s' if methods != 1 else ''}"] if methods else []
        self.ranges.setText(f"{', '.join(sentences)}: see Ranges")
        self.ranges.setVisible(bool(sentences))
        self.form.setEnabled(project is not None)
        self.form.render_choices(self._names(), self._offers)
        self._show_tools()

    def annotate(self) -> None:
        from workbench.results import PrepareResult

        prepared = self.context.load(PrepareResult, "prepare")
        self._report.update(prepared, self.context.model_index.resolution.nodes)
        if prepared is not self._prepared:
            self._prepared = prepared
            self.refresh()

    def _effects(self) -> tuple[set[str], Counter[str]]:
        """Return the rules for what a layer decides, and by rule the operations that others decide."""
        index = self.context.model_index
        resolution = index.resolution
        # Each result refreshes the panel, and walks over large graphs take long.
        sources = resolution, self._prepared
        if any(new is not old for new, old in zip(sources, self._sources, strict=True)):
            self._sources = sources
            notes = self._report.notes(resolution.nodes)
            vain = without_effect(notes, resolution.nodes, index.fused_nodes())
            own = {path: config.rule for path, config in resolution.modules.items()}
            others = ((own.get(module), config.rule) for module, config in index.operations())
            lost = Counter(rule for rule, other in others if rule is not None and rule != other)
            self._known_effects = vain, lost
        return self._known_effects

    def _on_stage_changed(self, stage: StageId) -> None:
        if stage == "export":
            self._show_state()

    def _show_state(self) -> None:
        """Say what the numbers of modules that rules apply to are counted in."""
        session, is_counted = self.context.session, bool(self.context.model_index.modules)
        view = session.stage("export")
        text, has_failed = "", view.state == "failed"
        if view.state == "running":
            text = f"{STAGES_BY_ID['export'].verb}\u2026"
        elif has_failed and not is_counted:
            text = "No counts"
        elif is_counted and session.planned and view.state != "cached":
            text = "Counts outdated"
        self.hint.setText(" \u00b7 ".join(part for part in (ORDER, text) if part))
        self.hint.setToolTip(literal(sentence(view, "Load the model to count its modules.")))

    def render_selection(self, selected: Selected) -> None:
        if selected.origin == self.panel_id:
            return
        row = self.model.row_of(selected.rule)
        chooser = self.view.selectionModel()
        chooser.selectionChanged.disconnect(self._on_selection_changed)
        if row >= 0:
            self.view.setCurrentIndex(self.model.index(row))
        else:
            self.view.clearSelection()
        chooser.selectionChanged.connect(self._on_selection_changed)
        self._show_tools()

    def set_theme(self, theme: Theme) -> None:
        names = {"up": "chevron-up", "down": "chevron-down"}
        for name, button in self._tools.items():
            if name in names:
                button.setIcon(icon(f"{names[name]}-{theme.name}", theme.text))
            else:
                button.setIcon(icon(name, theme.text))
        self.view.viewport().update()

    def _arrange(self) -> None:
        bar = QHBoxLayout()
        bar.setContentsMargins(8, 4, 6, 4)
        # It is longer than the panel is broad, and must not widen it.
        self.hint = ElidedLabel(parent=self)
        self.hint.setObjectName("Hint")
        bar.addWidget(self.hint, 1)
        for name, words, act in (
            ("up", "Move up: stronger (Alt+Up)", lambda: self._raise_current(1)),
            ("down", "Move down: weaker (Alt+Down)", lambda: self._raise_current(-1)),
            ("delete", "Delete rule (Del)", self._delete_current),
        ):
            button = QToolButton(self)
            button.setToolTip(literal(words))
            button.setAccessibleName(words)
            button.clicked.connect(act)
            self._tools[name] = button
            bar.addWidget(button)
        self.ranges = Label(self)
        self.ranges.setObjectName("Hint")
        self.ranges.setContentsMargins(8, 2, 8, 2)
        empty = Label(EMPTY_TEXT, self)
        empty.setObjectName("Hint")
        empty.setWordWrap(True)
        empty.setMargin(16)
        empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        body = QWidget(self)
        self._stack = QStackedLayout(body)
        self._stack.addWidget(empty)
        self._stack.addWidget(self.view)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.setSpacing(0)
        layout.addLayout(bar)
        layout.addWidget(body, 1)
        layout.addWidget(self.ranges)
        layout.addWidget(self.form)

    def _names(self) -> Mapping[RuleKind, Sequence[str]]:
        opened = self.context.document.opened_project
        items = offered(opened, "finder") if opened is not None else []
        finders: Mapping[RuleKind, Sequence[str]] = {"finder": [item.reference for item in items]}
        return {**self.context.model_index.names(), **finders}

    def _offers(self, kind: RuleKind) -> list[Offer]:
        return offers(self.context.document.opened_project, kind)

    def _current(self) -> Rule | None:
        rows = self.view.selectionModel().selectedIndexes()
        return self.model.rule_at(rows[0].row()) if rows else None

    def _show_tools(self) -> None:
        for button in self._tools.values():
            button.setEnabled(self._current() is not None)

    def _on_selection_changed(self) -> None:
        rule = self._current()
        self.context.selection.choose_rule(rule.id if rule else "", self.panel_id)
        self._show_tools()

    def _on_rule_asked(self, kind: RuleKind, match: str, preset: str) -> None:
        if preset:
            if self.context.assigner.rule(kind, match, preset):
                self.form.clear()
            return
        project = self.context.document.project
        if project is not None:
            self._ask_config(kind, match, first_config(project))

    def _ask_config(self, kind: RuleKind, match: str, config: Config) -> None:
        subject = rule_name(Rule(id="new", kind=kind, match=match, config=config))
        give = partial(self.context.assigner.rule, kind, match)
        ask_config(self.context, self, subject, kind, config, give)

    def _edit(self, row: int) -> None:
        project, rule = self.context.document.project, self.model.rule_at(row)
        if project is not None and rule is not None:
            config = project.config_of(rule)
            own = first_config(project) if isinstance(config, PluginConfig | None) else config
            if rule.kind != "quantizer":
                self._ask_config(rule.kind, rule.match, own)

    def _on_moved(self, rule_id: str, row: int) -> None:
        project = self.context.document.project
        if project is None:
            return
        rule = edits.find_rule(project, rule_id)
        position = call_position(project.rules, rule_id, row)
        self.context.document.apply(
            f"Move rule {rule_name(rule)}", lambda p: edits.move_rule(p, rule_id, position)
        )
        self.context.selection.choose_rule(rule_id)

    def _on_switched(self, rule_id: str, on: bool) -> None:
        project = self.context.document.project
        if project is not None:
            name = rule_name(edits.find_rule(project, rule_id))
            self.context.document.apply(
                f"{'Enable' if on else 'Disable'} rule {name}",
                lambda p: edits.enable_rule(p, rule_id, enabled=on),
            )

    def _on_delete_asked(self, row: int) -> None:
        if (rule := self.model.rule_at(row)) is not None:
            self.context.document.apply(
                f"Delete rule {rule_name(rule)}", lambda p: edits.remove_rule(p, rule.id)
            )

    def _on_raise_asked(self, row: int, index: int) -> None:
        rule = self.model.rule_at(row)
        before = row - index if index > 0 else row - index + 1
        if rule is not None and 0 <= before <= self.model.rowCount():
            self._on_moved(rule.id, before)

    def _raise_current(self, index: int) -> None:
        self._on_raise_asked(self.view.currentIndex().row(), index)

    def _delete_current(self) -> None:
        self._on_delete_asked(self.view.currentIndex().row())

    def _on_menu_asked(self, position: QPoint) -> None:
        row = self.view.indexAt(position).row()
        rule = self.model.rule_at(row)
        if rule is None:
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setToolTipsVisible(True)
        change = menu.addAction("Change precision\u2026", lambda: self._edit(row))
        if rule.kind == "quantizer":
            change.setEnabled(False)
            change.setToolTip("The plug-in quantizer sets the precision")
        words = "Disable" if rule.enabled else "Enable"
        menu.addAction(words).triggered.connect(lambda: self._on_switched(rule.id, not rule.enabled))
        menu.addSeparator()
        menu.addAction("Delete").triggered.connect(lambda: self._on_delete_asked(row))
        menu.popup(self.view.viewport().mapToGlobal(position))
