"""The Inspector panel: facts about the selection."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QCursor
from PySide6.QtWidgets import QInputDialog, QMenu, QTextBrowser, QVBoxLayout

from ui.shared.empty_states import button_text, failed_place, sentence
from ui.shared.explanations import KIND_WORDS, call_text, rule_name, rule_words, why
from ui.shared.panel import Panel
from ui.shared.precision_menu import PrecisionMenu, ask_config
from ui.shared.target_form import board_title, short_title
from ui.shared.text_question import ask_text, open_wide
from ui.shared.theme import Theme
from ui.state.assigner import first_config
from ui.state.selection import Selected
from workbench.errors import Place, WorkbenchError
from workbench.graph.snapshot import Node, TensorInfo
from workbench.ids import StageId
from workbench.project import edits
from workbench.project.configs import IMPROVERS, AnyConfig, DynamicConfig, PluginConfig, QuantConfig
from workbench.project.model import Project, Rule
from workbench.targets import target_of
from workbench.text import listed

if TYPE_CHECKING:
    from workbench.results import ChannelLayer

Facts = list[tuple[str, str]]

_NARROWEST_PX = 220
_ADD_NOTES = "Add notes\u2026"
_RULE_CHANGES = ("match", "config", "stronger", "weaker")
_CHANGE = '<a href="precision:">Change\u2026</a>'
# Zero-width space, where a line may break.
_BREAK = "\u200b"
# Matches HTML tags, and words too long for a line.
_LONG = re.compile(r"<[^>]*>|[^\s<>]{12,}")
_JOINTS = re.compile(r"(?<=\w)([-_./:])(?=[^\W\d])")


class _Page(QTextBrowser):
    """A text browser that can break long names. Copied text has no zero-width spaces."""

    def createMimeDataFromSelection(self) -> QMimeData:
        data = super().createMimeDataFromSelection()
        text = QMimeData()
        text.setText(data.text().replace(_BREAK, ""))
        return text


class InspectorPanel(Panel):
    """Shows a page of facts.

    The links of names select what they name; those of values open the setting behind them.
    """

    panel_id = "inspector"

    def build(self) -> None:
        self._precisions = PrecisionMenu(self.context, self)
        self.page = _Page(self)
        self.page.setMinimumWidth(_NARROWEST_PX)
        self.page.setAccessibleName("Inspector")
        self.page.setOpenLinks(False)
        self.page.anchorClicked.connect(self._on_link_clicked)
        self._html = ""
        self._failed_at: Place | None = None
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(self.page)
        self.context.session.stage_changed.connect(self._on_stage_changed)

    def refresh(self) -> None:
        self.render_selection(self.context.selection.value)

    def _on_stage_changed(self, stage: StageId) -> None:
        if stage == "export":
            self._mark("state")

    def set_theme(self, theme: Theme) -> None:
        del theme
        self.render_selection(self.context.selection.value)

    def render_selection(self, selected: Selected) -> None:
        project = self.context.document.project
        parts: list[str] = []
        if project is None:
            parts = ["<p>No project is open.</p>"]
        elif selected.rule:
            parts = list(self._rule(project, selected.rule))
        elif len(selected.nodes) == 1 and not selected.modules:
            parts = list(self._node(project, next(iter(selected.nodes))))
        elif len(selected.modules) == 1:
            parts = list(self._module(project, next(iter(selected.modules))))
        elif selected.nodes or selected.modules:
            count = len(selected.nodes or selected.modules)
            what = "operations" if selected.nodes else "modules"
            parts = [f"<h3>{count} {what}</h3>"]
            parts += self._mixture(selected)
            parts.append(f"<p>{_CHANGE}</p>")
        else:
            parts = list(self._project(project))
        self._show("".join((self._state() if project is not None else "", *parts)))

    def _show(self, body: str) -> None:
        """Show a page, and keep the place in it while the same thing is shown."""
        html = self._dressed(body)
        if html == self._html:
            return
        self._html = html
        bar = self.page.verticalScrollBar()
        before, title = bar.value(), self.page.document().firstBlock().text()
        self.page.setHtml(html)
        if self.page.document().firstBlock().text() == title:
            bar.setValue(before)

    def _state(self) -> str:
        """Return whether modules and operations are those of the present model; "" if so."""
        view, is_known = self.context.session.with_cause("export"), self.context.model_index.snapshot
        self._failed_at = failed_place(view)
        if not self.context.session.planned or (view.state == "cached" and is_known):
            return ""
        empty = "" if is_known else "Load the model to see its modules and operations."
        text = sentence(view, empty)
        if is_known:
            text = f"Modules and operations: outdated. {text}"
        words = "Show" if self._failed_at is not None else "Show problem"
        link = f'<a href="place:">{words}</a>' if view.state == "failed" else ""
        if view.state in {"stale", "failed"}:
            link += " \u00b7 " if link else ""
            link += f'<a href="run:export">{escape(button_text(view))}</a>'
        style = "bad" if view.state == "failed" else "warn" if is_known else "k"
        return f'<p class="{style}">{escape(text.strip())} {link}</p>'

    def _dressed(self, body: str) -> str:
        theme = self.context.theme
        return (
            f"<style>h3 {{ color: {theme.text}; font-size: 15px; margin: 4px 0 6px 0; }}"
            f"h4 {{ color: {theme.muted}; font-size: 12px; margin: 12px 0 2px 0; }}"
            f"td {{ padding: 2px 10px 2px 0; }} td.k {{ color: {theme.muted}; }}"
            f"a {{ color: {theme.accent}; text-decoration: none; }}"
            f"p {{ margin: 3px 0; }} p.warn {{ color: {theme.warning}; }}"
            f"p.bad {{ color: {theme.bad}; }} p.k {{ color: {theme.muted}; }}</style>{body}"
        )

    def _project(self, project: Project) -> Iterator[str]:
        yield f"<h3>{_setting('name', project.name)}</h3>"
        data, own, model = project.calibration, project.evaluation.data, project.model
        labels = own.labels if own else data.labels if data else None
        shapes = ", ".join("\u00d7".join(map(str, shape)) for shape in model.input_shapes)
        facts: Facts = [
            ("Model", _setting("model.spec", model.spec)),
            ("Weights", _setting("model.weights", model.weights or "of the model")),
            ("Input shapes", _setting("model.input_shapes", shapes or "of the model")),
            ("Calibration", _setting("calibration.spec", data.spec if data else "example input")),
            ("Evaluation", _setting("evaluation.data.spec", own.spec if own else _without_data(project))),
            (
                "Labels",
                _setting(
                    f"{'evaluation.data' if own else 'calibration'}.labels", labels or "with the data, if any"
                ),
            ),
            ("Metric", _setting("evaluation.metric", project.evaluation.metric or "none")),
            ("Largest difference", _setting("gate.lsb", _limit(project.gate.lsb, "LSB"))),
            ("Lowest SQNR of 16 bits", _setting("gate.sqnr", _limit(project.gate.sqnr, "dB"))),
            ("Lowest SQNR to float", _setting("accuracy.sqnr", _limit(project.accuracy.sqnr, "dB"))),
            ("Lost top-1 or metric", _setting("accuracy.loss", _limit(project.accuracy.loss, ""))),
        ]
        if project.trained_weights:
            facts.append(("Trained weights", _setting("trained_weights", project.trained_weights)))
        if project.improvers:
            texts = (i.title for i in IMPROVERS if i.id in project.improvers)
            facts.append(("Weight transforms", _setting("improvers", ", ".join(texts))))
        snapshot = self.context.model_index.snapshot
        if snapshot is not None and snapshot.modules:
            facts.append(("Modules", f"{len(snapshot.modules):,}"))
            facts.append(("Operations", f"{sum(n.kind == 'call' for n in snapshot.nodes):,}"))
            facts.append(("Parameters", f"{snapshot.modules[0].parameters:,}"))
        yield _table(facts)
        yield "<h4>Target</h4>"
        yield _table(self._target(project))
        yield f"<h4>Notes</h4><p>{_setting('notes', project.notes or _ADD_NOTES)}</p>"

    def _target(self, project: Project) -> Facts:
        try:
            target = target_of(project.target.id)
        except WorkbenchError:
            return [("Device", escape(project.target.id))]
        folder = self.context.document.folder
        choice = target.complete(project.target, folder)
        titles = {variant.id: variant.title for variant in target.variants}
        facts: Facts = [
            ("Board", _setting("board", board_title(project.board, folder) if project.board else "none")),
            ("Device", _setting("target.id", titles[choice.id])),
        ]
        for title, figure in target.figures(choice, folder).items():
            source = "target.options.system_config" if title == "Clock" else "target.id"
            facts.append((escape(title), _setting(source, figure)))
        for option in target.options(choice, folder):
            value = choice.options.get(option.name)
            if value not in {None, "", False}:
                titles_by_value = {known.value: short_title(known) for known in option.choices}
                shown = "yes" if value is True else titles_by_value.get(value, str(value))
                key = f"target.options.{option.name}"
                facts.append((escape(option.title), _setting(key, shown)))
        return facts

    def _module(self, project: Project, path: str) -> Iterator[str]:
        snapshot = self.context.model_index.snapshot
        module = snapshot.modules_by_path.get(path) if snapshot else None
        yield f"<h3>{escape(path or 'whole model')}</h3>"
        if module is None or snapshot is None:
            yield "<p>The exported model does not contain this module.</p>"
            return
        inside = self.context.model_index.nodes_of(frozenset([path]))
        calls = sum(node.id in inside and node.kind == "call" for node in snapshot.nodes)
        yield _table(
            [
                ("Type", escape(module.type_name)),
                ("Parameters", f"{module.parameters:,}"),
                ("Operations", f"{calls:,}"),
            ]
        )
        yield from self._size(project, path)
        effective = self.context.model_index.effective(path)
        if effective is not None:
            yield "<h4>Precision</h4>"
            yield f"<p>{escape(why(effective, project.rules, path))} {_CHANGE}</p>"
            own = {config.chip for module, config in self.context.model_index.operations() if module == path}
            if own - {effective.chip}:
                chips = escape(listed(sorted(own)))
                yield f"<p>Operations of this module itself: {chips}.</p>"
            yield from self._rules_named(project, [effective.rule or "", *effective.overridden])
        if (group := self.context.model_index.groups.get(path)) is not None:
            links = ", ".join(_link("module", member) for member in group.members)
            yield f"<h4>Fused group</h4><p>{links} are fused into one operator.</p>"

    def _size(self, project: Project, path: str) -> Iterator[str]:
        """Yield the channels and distinct weights of a layer, with links that change them."""
        layer = self._layer(path)
        if layer is None:
            return
        kept, clusters = project.channels().get(path), project.clusters()
        channels = f"{layer.channels} \u2192 {kept}" if kept else str(layer.channels)
        if not layer.fixed:
            channels += f' <a href="channels:{escape(path)}">Change\u2026</a>'
        weights = clusters.get(path, clusters.get("")) or "off"
        facts: Facts = [
            ("Output channels", channels),
            ("Weight clustering", f'{weights} <a href="clusters:{escape(path)}">Change\u2026</a>'),
        ]
        yield "<h4>Size</h4>"
        yield _table(facts)
        if layer.fixed:
            yield f"<p>Cannot prune: this layer {escape(layer.fixed)}.</p>"
        elif layer.partners:
            links = ", ".join(_link("module", partner) for partner in layer.partners)
            yield f"<p>Channels are removed together with those of {links}.</p>"

    def _layer(self, path: str) -> ChannelLayer | None:
        from workbench.results import ExportResult

        exported = self.context.load(ExportResult, "export")
        layers = exported.layers if exported else ()
        return next((layer for layer in layers if layer.module == path), None)

    def _ask_size(self, kind: str, path: str) -> None:
        """Ask for the channels or the distinct weights of a layer."""
        project, layer = self.context.document.project, self._layer(path)
        if project is None or layer is None:
            return
        is_channels = kind == "channels"
        whole = layer.channels if is_channels else 0
        present = (project.channels() if is_channels else project.clusters()).get(path, whole)
        dialog = QInputDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setInputMode(QInputDialog.InputMode.IntInput)
        dialog.setWindowTitle("Output channels" if is_channels else "Weight clustering")
        words = f"Output channels; {layer.channels} are all"
        words = words if is_channels else "Distinct weights, at most 255; 0 is without clustering"
        dialog.setLabelText(f"{path}\n{words}")
        dialog.setIntRange(*((1, layer.channels) if is_channels else (0, 255)))
        dialog.setIntValue(present)
        dialog.intValueSelected.connect(
            lambda value: self._set_size(kind, path, 0 if value == whole else value)
        )
        open_wide(dialog)

    def _set_size(self, kind: str, path: str, value: int) -> None:
        sizes = {kind: value}
        try:
            self.context.document.apply(
                f"Compress {path}", lambda project: edits.compress(project, path, **sizes)
            )
        except WorkbenchError as error:
            self.context.notices.error(error)

    def _node(self, project: Project, node_id: str) -> Iterator[str]:
        snapshot = self.context.model_index.snapshot
        node = snapshot.nodes_by_id.get(node_id) if snapshot else None
        yield f"<h3>{escape(node_id)}</h3>"
        if node is None or snapshot is None:
            yield "<p>This operation exists only after quantization or compilation.</p>"
            return
        facts: Facts = [("Operator", escape(node.op))]
        if node.module:
            facts.append(("Module", _link("module", node.module)))
        if node.source:
            facts.append(("Source", escape(node.source)))
        is_input = node.kind == "input"
        for tensor in node.outputs:
            text = _tensor(tensor)
            facts.append(("Output", _setting("model.input_shapes", text) if is_input else text))
        facts += [(escape(k), escape(v)) for k, v in node.attrs.items()]
        yield _table(facts)
        yield from self._range(node_id)
        effective = self.context.model_index.resolution.nodes.get(node_id)
        if effective is not None and node.kind == "call":
            reason = escape(why(effective, project.rules, node.module))
            yield f"<h4>Precision</h4><p>{reason} {_CHANGE}</p>"
            yield from self._rules_named(project, [effective.rule or "", *effective.overridden])
        yield from self._truth(node)
        for title, others in (
            ("Inputs", snapshot.producers(node_id)),
            ("Consumers", snapshot.consumers(node_id)),
        ):
            links = ", ".join(_link("node", other.id) for other in others[:12])
            if links:
                yield f"<h4>{title}</h4><p>{links}</p>"

    def _range(self, node_id: str) -> Iterator[str]:
        """Yield the calibrated ranges of an operation's output, with links that change them."""
        from workbench.results import CalibrateResult

        project = self.context.document.project
        pinned = project.fixed_ranges() if project is not None else {}
        calibrated = self.context.load(CalibrateResult, "calibrate")
        every = calibrated.ranges if calibrated else ()
        ranges = [r for r in every if r.origin == node_id and r.kind == "activation"]
        yield "<h4>Range</h4>" if ranges else ""
        for known in ranges:
            low, high = pinned.get(known.node, (known.minimum, known.maximum))
            kind = "pinned" if known.node in pinned else "calibrated"
            width = f"{known.dtype}: " if len(ranges) > 1 else ""
            text = escape(f"{width}{low:.4g} to {high:.4g}, {kind}")
            yield f'<p>{text} <a href="ranges:">Change\u2026</a></p>'

    def _truth(self, node: Node) -> Iterator[str]:
        """Yield the results of quantizer, evaluation and compiler for a node."""
        from workbench.results import EvaluateResult, LowerResult, PrepareResult

        prepared = self.context.load(PrepareResult, "prepare")
        for note in prepared.annotations if prepared else ():
            if note.origin == node.id:
                done = f"quantized with {note.config}" if note.quantized else "not quantized"
                reason = f": {note.reason}" if note.reason else ""
                yield f"<h4>Quantizer</h4><p>{escape(done + reason)}</p>"
        evaluated = self.context.load(EvaluateResult, "evaluate")
        mine = [t for t in evaluated.tensors if t.origin == node.id] if evaluated else []
        if mine and mine[-1].sqnr_db is not None:
            yield f"<h4>Quality</h4><p>SQNR {mine[-1].sqnr_db:.1f} dB</p>"
        lowered = self.context.load(LowerResult, "lower")
        for left in lowered.cpu_nodes if lowered else ():
            if node.id == left.node or (node.module and node.module == left.module):
                yield f'<p class="warn">{escape(left.node)} on the CPU: {escape(left.reason)}</p>'

    def _rule(self, project: Project, rule_id: str) -> Iterator[str]:
        rule = next((r for r in project.rules if r.id == rule_id), None)
        if rule is None:
            yield "<p>Rule deleted.</p>"
            return
        yield f"<h3>{escape(f'{rule_words(rule)}: {project.label_of(rule)}')}</h3>"
        count = self.context.model_index.resolution.counts.get(rule_id)
        switched = f'<a href="switch:{escape(rule_id)}">{"on" if rule.enabled else "off"}</a>'
        facts: Facts = [("Enabled", switched), ("Kind", KIND_WORDS[rule.kind])]
        facts.append(("Call in Python", escape(call_text(rule, project.label_of(rule)))))
        if rule.match:
            facts.append(("Match", _changed_by("match", rule_id, rule.match)))
        at, last = project.rules.index(rule), len(project.rules) - 1
        moves = [_changed_by("stronger", rule_id, "Stronger")] if at < last else []
        moves += [_changed_by("weaker", rule_id, "Weaker")] if at > 0 else []
        facts.append(("Order", " ".join((f"{at + 1} of {last + 1}, the last wins", *moves))))
        if count is not None:
            facts.append(("Applies to", str(count.wins)))
            facts.append(("Overridden by stronger rules", str(count.loses)))
        yield _table(facts)
        config = project.config_of(rule)
        yield "<h4>Config</h4>"
        if rule.kind == "quantizer":
            yield _table(_config_facts(config)) if config else ""
        elif config is None:
            yield f"<p>{_changed_by('config', rule_id, project.label_of(rule))}</p>"
        else:
            yield _table(
                [
                    (key, f'<a href="config:{escape(rule_id)}">{value}</a>')
                    for key, value in _config_facts(config)
                ]
            )
        won = [p for p, e in self.context.model_index.resolution.modules.items() if e.rule == rule_id]
        if won:
            links = ", ".join(_link("module", path) for path in won[:30])
            more = f" and {len(won) - 30} more" if len(won) > 30 else ""
            yield f"<h4>Decides</h4><p>{links}{more}</p>"

    def _mixture(self, selected: Selected) -> Iterator[str]:
        resolution = self.context.model_index.resolution
        known = resolution.nodes if selected.nodes else resolution.modules
        labels: dict[str, int] = {}
        for name in selected.nodes or selected.modules:
            if name in known:
                label = known[name].label
                labels[label] = labels.get(label, 0) + 1
        yield _table([(escape(label), str(count)) for label, count in sorted(labels.items())])

    def _rules_named(self, project: Project, rule_ids: list[str]) -> Iterator[str]:
        known: dict[str, Rule] = {rule.id: rule for rule in project.rules}
        for rule_id in rule_ids:
            if rule_id in known:
                rule = known[rule_id]
                text = f"{rule_words(rule)}: {project.label_of(rule)}"
                yield f'<p><a href="rule:{escape(rule_id)}">{escape(text)}</a></p>'

    def _on_link_clicked(self, url: QUrl) -> None:
        kind, _, name = url.toString().partition(":")
        selection, notices = self.context.selection, self.context.notices
        deeds: dict[str, Callable[[], object]] = {
            "module": lambda: selection.choose_modules([name]),
            "node": lambda: selection.choose_nodes([name]),
            "rule": lambda: selection.choose_rule(name),
            "setting": lambda: notices.place_asked.emit(Place(kind="option", id=name)),
            "place": lambda: notices.place_asked.emit(self._failed_at),
            "run": lambda: self.context.run_to("export"),
            "ranges": lambda: self.context.commands.asked.emit("go_ranges"),
            "switch": lambda: self._switch(name),
            "precision": self._ask_precision,
            **{size: partial(self._ask_size, size, name) for size in ("channels", "clusters")},
            **{what: partial(self._change_rule, what, name) for what in _RULE_CHANGES},
        }
        deeds[kind]()

    def _ask_precision(self) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._precisions.fill(menu, self.context.selection.value)
        menu.popup(QCursor.pos())

    def _change_rule(self, what: str, rule_id: str) -> None:
        """Change the match, the config or the strength of a rule."""
        project = self.context.document.project
        rule = next((r for r in project.rules if r.id == rule_id), None) if project else None
        if rule is None or project is None:
            return
        if what == "match":
            self._ask_match(rule)
        elif what == "config":
            config = project.config_of(rule)
            own = first_config(project) if isinstance(config, PluginConfig | None) else config
            give = partial(self.context.assigner.rule, rule.kind, rule.match)
            ask_config(self.context, self, rule_name(rule), rule.kind, own, give)
        else:
            step = 1 if what == "stronger" else -1
            at = project.rules.index(rule) + step
            self.context.document.apply(
                f"Move rule {rule_name(rule)}", lambda p: edits.move_rule(p, rule_id, at)
            )

    def _ask_match(self, rule: Rule) -> None:
        """Ask which module, type, operator or node a rule is for."""
        names = self.context.model_index.names().get(rule.kind, [])
        ask_text(
            self,
            "Match of the rule",
            KIND_WORDS[rule.kind],
            lambda text: self._set_match(rule, text),
            [rule.match, *(name for name in names if name != rule.match)],
        )

    def _set_match(self, rule: Rule, match: str) -> None:
        if match != rule.match:
            self.context.document.apply(
                f"Change rule {rule_name(rule)} to {match}",
                lambda project: edits.match_rule(project, rule.id, match),
            )

    def _switch(self, rule_id: str) -> None:
        """Switch a rule on or off."""
        project = self.context.document.project
        rule = next((r for r in project.rules if r.id == rule_id), None) if project else None
        if rule is not None:
            on = not rule.enabled
            self.context.document.apply(
                f"{'Enable' if on else 'Disable'} rule {rule_name(rule)}",
                lambda p: edits.enable_rule(p, rule_id, enabled=on),
            )


def _setting(key: str, text: str) -> str:
    return f'<a href="setting:{escape(key)}">{escape(text)}</a>'


def _changed_by(kind: str, name: str, text: str) -> str:
    return f'<a href="{kind}:{escape(name)}">{escape(text)}</a>'


def _limit(value: float | None, unit: str) -> str:
    return "off" if value is None else f"{value:g} {unit}"


def _without_data(project: Project) -> str:
    """Return what is evaluated without evaluation data."""
    held = "a quarter of the calibration data, where it has 32 samples or more"
    return held if project.evaluation.holds_out else "calibration data"


def _table(facts: Facts) -> str:
    rows = (
        f'<tr><td class="k">{key}</td><td>{_LONG.sub(_breakable, value)}</td></tr>' for key, value in facts
    )
    return f"<table>{''.join(rows)}</table>"


def _breakable(word: re.Match[str]) -> str:
    text = word[0]
    return text if text.startswith("<") else _JOINTS.sub(rf"\1{_BREAK}", text)


def _link(kind: str, name: str) -> str:
    return f'<a href="{kind}:{escape(name)}">{escape(name or "whole model")}</a>'


def _tensor(tensor: TensorInfo) -> str:
    return escape(f"{tensor.shape_text} {tensor.dtype}")


def _config_facts(config: AnyConfig) -> Facts:
    if isinstance(config, PluginConfig):
        return [("Plug-in", escape(config.reference))]
    if isinstance(config, DynamicConfig):
        return [("Weights", config.dynamic), ("Activations", f"{config.dynamic}, range per call")]
    if not isinstance(config, QuantConfig):
        form = "MASE implementation" if config.mase_compatible else "textbook"
        given = ((escape(name), escape(str(v))) for name, v in config.parameters.items())
        return [("Number format", escape(config.scheme)), ("Variant", form), *given]
    activation, weight = config.activation, config.weight
    return [
        ("Activations", activation.dtype),
        ("Zero point", "0 (symmetric)" if activation.symmetric else "any (affine)"),
        ("Observer", activation.observer.kind.replace("_", " ")),
        ("Weights", f"{weight.bits} bit"),
        ("Weight scales", "per channel" if weight.per_channel else "per tensor"),
    ]
