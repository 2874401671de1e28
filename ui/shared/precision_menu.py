"""Menu entries that set the precision of the selection."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtWidgets import QMenu, QWidget

from ui.shared.config_form import ConfigDialog
from ui.shared.labels import literal
from ui.shared.module_tree import WHOLE_MODEL
from ui.shared.panel import PanelContext
from ui.state.assigner import first_config, offers, refusal
from ui.state.selection import Selected
from workbench.project import edits
from workbench.project.configs import Config
from workbench.project.model import Project, RuleKind
from workbench.project.plugins import offered

_NAMED = 3
_KEYS = 9


class PrecisionMenu:
    """Fills the menus of tree and graph. Rejected configs are disabled with the reason."""

    def __init__(self, context: PanelContext, window: QWidget) -> None:
        self._context, self._window = context, window

    def fill(self, menu: QMenu, chosen: Selected) -> None:
        """Add every config for the selected modules or nodes, with its shortcut."""
        kind: RuleKind = "module_name" if chosen.modules else "node_name"
        kind = "global" if "" in chosen.modules else kind
        give = partial(self._context.assigner.chosen, chosen)
        self._offer(menu, kind, give, keys=_KEYS)
        names = sorted(chosen.modules or chosen.nodes)
        subject = ", ".join(name or WHOLE_MODEL for name in names[:_NAMED])
        subject += f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        menu.addAction("Custom\u2026", partial(self._ask, subject, kind, give))

    def add_to(self, menu: QMenu) -> None:
        """Insert the precisions for the selection before the entries of a menu."""
        chosen = self._context.selection.value
        if chosen.modules or self._context.assigner.known(chosen.nodes):
            below = QMenu("Set precision", menu)
            self.fill(below, chosen)
            first = menu.actions()[0]
            menu.insertMenu(first, below)
            menu.insertSeparator(first)

    def fill_type(self, menu: QMenu, type_name: str) -> None:
        """Add every config for all modules of a type."""
        give = partial(self._context.assigner.rule, "module_type", type_name)
        self._offer(menu, "module_type", give)

    def _offer(self, menu: QMenu, kind: RuleKind, give: Callable[[str], object], keys: int = 0) -> None:
        menu.setToolTipsVisible(True)
        for number, offer in enumerate(offers(self._context.document.opened_project, kind), 1):
            key = f"\t{number}" if number <= keys else ""
            action = menu.addAction(f"{offer.title}{key}", partial(give, offer.config))
            action.setEnabled(not offer.refusal)
            action.setToolTip(literal(offer.refusal))

    def _ask(self, subject: str, kind: RuleKind, give: Callable[[Config], object]) -> None:
        project = self._context.document.project
        if project is not None:
            ask_config(self._context, self._window, subject, kind, self._present(project), give)

    def _present(self, project: Project) -> Config:
        """Return the config of what is selected, if one rule decides it; otherwise the target's first."""
        chosen, resolution = self._context.selection.value, self._context.model_index.resolution
        named = [resolution.modules.get(path) for path in chosen.modules]
        named = named or [resolution.nodes.get(node) for node in chosen.nodes]
        ids = {config.rule for config in named if config is not None}
        first = first_config(project)
        for rule in project.rules:
            if ids == {rule.id} and isinstance(own := project.config_of(rule), type(first)):
                return own
        return first


def ask_config(
    context: PanelContext,
    window: QWidget,
    subject: str,
    kind: RuleKind,
    config: Config,
    give: Callable[[Config], object],
) -> None:
    """Ask for a custom config, starting with ``config``; ``give`` receives it."""
    document = context.document
    opened = document.opened_project
    if opened is None:
        return
    dialog = ConfigDialog(
        subject, config, lambda c: refusal(opened.project, kind, c), window, offered(opened, "observer")
    )
    dialog.chosen.connect(give)
    dialog.preset_named.connect(
        lambda name, own: document.apply(f"Save preset {name}", lambda p: edits.save_preset(p, name, own))
    )
    dialog.open()
