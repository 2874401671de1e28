"""Assigns a precision to the selection, for the tree, the graph, tables and shortcuts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject

from ui.state.document import Document
from ui.state.model_index import ModelIndex
from ui.state.notices import Action, Notices
from ui.state.selection import Selected
from workbench.errors import WorkbenchError, failure
from workbench.project import edits
from workbench.project.configs import PRESETS, PRESETS_BY_ID, PluginRole, QuantConfig
from workbench.project.configs import Config as OwnConfig
from workbench.project.model import Project, Rule, RuleKind, name_of
from workbench.project.opened import OpenProject
from workbench.project.plugins import offered
from workbench.project.rules import is_within
from workbench.targets import target_of
from workbench.text import plural

Config = str | OwnConfig


def preset_ids(project: Project | None, kind: RuleKind = "module_name", device: str = "") -> list[str]:
    """Return the names of the built-in and custom configs that fit a kind of rule.

    Only configs of the kind that the project's target, or ``device``, accepts.
    """
    own = dict(project.presets) if project else {}
    named = device or (project.target.id if project else "")
    takes, is_placement = _config_type(named), kind != "io" and _places(named)
    fitting = [p for p in PRESETS if (is_placement or not p.places) and (kind == "io" or not p.io_only)]
    offered = [p.id for p in fitting if p.config is None or isinstance(p.config, takes)]
    offered.sort(key=lambda name: PRESETS_BY_ID[name].config is None)
    return offered + [name for name, config in own.items() if isinstance(config, takes)]


@dataclass(frozen=True)
class Offer:
    """A config offered for a rule: its name, its description, and why the target rejects it."""

    config: str
    title: str
    refusal: str = ""


def offers(opened: OpenProject | None, kind: RuleKind = "module_name") -> list[Offer]:
    """Return every config offered for a kind of rule: built-in, custom, and of plug-ins.

    Forms, menus and the keys 1 to 9 offer these in this order. Configs of plug-ins are offered
    only if the project's target uses integers; a quantizer rule accepts only those.
    """
    if opened is None:
        return []
    project = opened.project
    ids = preset_ids(project, kind) if kind != "quantizer" else []
    pairs = [(name, preset_title(name)) for name in ids]
    role: PluginRole = "quantizer" if kind == "quantizer" else "config"
    if issubclass(QuantConfig, _config_type(project.target.id)):
        pairs += [(item.reference, item.words) for item in offered(opened, role)]
    return [Offer(name, title, refusal(project, kind, name)) for name, title in pairs]


def first_config(project: Project) -> OwnConfig:
    """Return the initial config of a form: the default config of the target."""
    config = PRESETS_BY_ID[target_of(project.target.id).first_config].config
    assert config is not None
    return config


def _places(device: str) -> bool:
    try:
        return target_of(device).places
    except WorkbenchError:
        return True


def _config_type(device: str) -> type[OwnConfig]:
    try:
        return target_of(device).config_type
    except WorkbenchError:
        return QuantConfig


def preset_title(preset_id: str) -> str:
    """Return the title of a preset; for a custom preset its name."""
    preset = PRESETS_BY_ID.get(preset_id)
    if preset is None or preset.title.lower() == preset.id:
        return preset.title if preset else preset_id
    return f"{preset.id}: {preset.title}"


def label_of(config: Config) -> str:
    """Return the short name of a config."""
    return name_of(config)


def refusal(project: Project, kind: RuleKind, config: Config) -> str:
    """Return why the project's target rejects a config; "" if it accepts it."""
    rule = Rule(id="new", kind=kind, config=config)
    try:
        value = project.config_of(rule)
        return target_of(project.target.id).refusal(project.target, value, kind)
    except (KeyError, WorkbenchError):
        return ""


class Assigner(QObject):
    """Applies a config to modules or nodes as a named undo step."""

    def __init__(
        self, document: Document, model_index: ModelIndex, notices: Notices, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._document, self._model_index, self._notices = document, model_index, notices

    def modules(self, paths: Iterable[str], config: Config) -> bool:
        """Assign a config to modules by name. The whole model gets a global rule."""
        chosen = sorted(set(paths))
        if not chosen:
            return False
        if "" in chosen:
            return self.rule("global", "", config)
        done = self._assign("module_name", chosen, config)
        if done and len(chosen) == 1:
            self._offer_group(chosen[0], config)
            self._offer_inside(chosen[0], config)
        return done

    def nodes(self, ids: Iterable[str], config: Config) -> bool:
        """Assign a config to single nodes of the graph."""
        chosen = sorted(set(ids))
        done = self._assign("node_name", chosen, config)
        if done and len(chosen) == 1:
            for module in self._model_index.modules_of(frozenset(chosen)):
                self._offer_group(module, config)
        return done

    def rule(self, kind: RuleKind, match: str, config: Config) -> bool:
        """Assign a config with a rule of this kind and match."""
        return self._assign(kind, [match], config)

    def chosen(self, selected: Selected, config: Config) -> bool:
        """Assign a config to the selected modules, or else to the selected nodes."""
        if selected.modules:
            return self.modules(selected.modules, config)
        return self.nodes(self.known(selected.nodes), config)

    def known(self, nodes: Iterable[str]) -> frozenset[str]:
        """Return the nodes that a rule can match: those of the float graph."""
        return frozenset(nodes) & self._model_index.resolution.nodes.keys()

    def by_key(self, number: int, selected: Selected) -> None:
        """Assign the config offered under this number (1 to 9) to the selection."""
        choices = offers(self._document.opened_project)
        if 1 <= number <= len(choices):
            self.chosen(selected, choices[number - 1].config)

    def _assign(self, kind: RuleKind, matches: list[str], config: Config) -> bool:
        project = self._document.project
        if project is None or not matches:
            return False
        if reason := refusal(project, kind, config):
            self._notices.error(
                failure(f"{label_of(config)} cannot be used.", reason, code="config-not-supported")
            )
            return False
        return self._document.apply(
            f"Set {_named(kind, matches)} to {label_of(config)}",
            lambda p: edits.assign_many(p, kind, matches, config),
        )

    def _offer_group(self, path: str, config: Config) -> None:
        group = self._model_index.groups.get(path)
        if group is None or group.is_within(path):
            return
        others = ", ".join(member for member in group.members if member != path)
        label, first = label_of(config), group.members[0]
        hint = f"The group has the precision of {first}."
        if path == first:
            hint = "A config on it alone prevents the fusion."
        self._notices.info(
            f"{path} is fused with {others}.",
            hint,
            [Action("Set whole group", lambda: self._whole_group(path, label, config))],
        )

    def _offer_inside(self, path: str, config: Config) -> None:
        """Offer to remove the rules for modules inside one, which win over a rule for all of it."""
        project = self._document.project
        named = [r for r in (project.rules if project else ()) if r.kind == "module_name" and not r.keeps_off]
        own = [number for number, rule in enumerate(named) if rule.match == path]
        # Later rules win. A rule that keeps a module off the NPU has no precision.
        later = named[own[0] + 1 :] if own else []
        rules = [r.id for r in later if r.enabled and is_within(r.match, path)]
        if not rules:
            return

        def edit(project: Project) -> Project:
            for rule_id in rules:
                project = edits.remove_rule(project, rule_id)
            return project

        def remove() -> None:
            self._document.apply(f"Remove {are} inside {path}", edit)

        are = plural(len(rules), "rule")
        self._notices.info(
            f"{are} for modules inside {path} override{'s' if len(rules) == 1 else ''} this one.",
            f"Without {'it' if len(rules) == 1 else 'them'}, all modules inside get {label_of(config)}.",
            [Action(f"Remove {are}", remove)],
        )

    def _whole_group(self, path: str, label: str, config: Config) -> None:
        group = self._model_index.groups[path]

        def edit(project: Project) -> Project:
            alone = [r.id for r in project.rules if (r.kind, r.match) == ("module_name", path)]
            for rule_id in alone if group.parent else []:
                project = edits.remove_rule(project, rule_id)
            return edits.assign_many(project, "module_name", group.matches, config)

        self._document.apply(f"Set group {group.name} to {label}", edit)


def _named(kind: RuleKind, matches: Sequence[str]) -> str:
    if kind == "global":
        return "whole model"
    if kind == "io":
        return "inputs and outputs"
    if kind == "quantizer":
        return "plug-in nodes"
    if len(matches) == 1:
        name = matches[0]
        return name.rpartition(".")[2] if kind == "module_type" else name_of(name)
    return f"{len(matches)} {'nodes' if kind == 'node_name' else 'modules'}"
