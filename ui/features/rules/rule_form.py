"""The form for a new rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import QStringListModel, Qt, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QComboBox, QCompleter, QGridLayout, QLineEdit, QPushButton, QSizePolicy, QWidget

from ui.shared.labels import ElidedLabel, literal
from ui.state.assigner import Offer
from workbench.project.model import RULE_CALLS, RuleKind

KINDS: tuple[tuple[RuleKind, str, str], ...] = (
    ("module_name", "Module", "features.3"),
    ("module_type", "Module type", "torch.nn.modules.conv.Conv2d"),
    ("global", "Whole model", ""),
    ("io", "Inputs and outputs", ""),
    ("node_target", "Operator", "aten.conv2d.default"),
    ("node_name", "Node", "conv2d_3"),
    ("pattern", "Name pattern", "layers_[0-3].*"),
    ("finder", "Plug-in node matcher", "finders.py:FirstLayers"),
    ("quantizer", "Plug-in quantizer", ""),
)


_SHOWN_LETTERS = 6
_COMPLETIONS_PX = 340


class RuleForm(QWidget):
    """Asks for kind, match and config of a new rule.

    Signals:
        asked: kind, match, and the name of the config ("" for a custom one).
    """

    asked = Signal(str, str, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._names: Mapping[RuleKind, Sequence[str]] = {}
        self._offers: Callable[[RuleKind], list[Offer]] = lambda _: []
        self.match_names = QStringListModel(self)
        self._build()
        self._on_kind_activated()

    @property
    def rule_kind(self) -> RuleKind:
        """The selected kind."""
        return KINDS[self.kind.currentIndex()][0]

    def render_choices(
        self, names: Mapping[RuleKind, Sequence[str]], offers: Callable[[RuleKind], list[Offer]]
    ) -> None:
        """Set the match names and, by kind, the configs."""
        self._names, self._offers = names, offers
        self._show_kind()

    def prefill(self, kind: RuleKind, match: str) -> None:
        """Fill in the form for the selection."""
        self.kind.setCurrentIndex([k for k, _, _ in KINDS].index(kind))
        self._on_kind_activated()
        self.match.setText(match)
        self._show_ready()

    def clear(self) -> None:
        """Empty the match and the precision after a rule was added."""
        self.match.clear()
        self.config.setCurrentIndex(-1)
        self._show_ready()

    def _build(self) -> None:
        self.kind = QComboBox(self)
        self.kind.setAccessibleName("Rule kind")
        for row, (kind, words, _) in enumerate(KINDS):
            self.kind.addItem(words)
            self.kind.setItemData(row, RULE_CALLS[kind], Qt.ItemDataRole.ToolTipRole)
        self.kind.activated.connect(self._on_kind_activated)
        self.match = QLineEdit(self)
        self.match.setAccessibleName("Match")
        completer = QCompleter(self.match_names, self)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        if (popup := completer.popup()) is not None:
            popup.setObjectName("Completions")
            popup.setTextElideMode(Qt.TextElideMode.ElideLeft)
            popup.setMinimumWidth(_COMPLETIONS_PX)
        self.match.setCompleter(completer)
        self.match.textEdited.connect(self._show_ready)
        self.match.returnPressed.connect(self._on_match_entered)
        completer.activated.connect(self._show_ready)
        self.config = QComboBox(self)
        self.config.setAccessibleName("Config")
        self.config.setPlaceholderText("Precision\u2026")
        self.config.currentIndexChanged.connect(self._show_ready)
        self.add = QPushButton("Add rule", self)
        self.add.setProperty("primary", True)
        self.add.clicked.connect(self._on_add)
        self._arrange()

    def _arrange(self) -> None:
        # Long titles show in the open list; the combo box stays narrow.
        shortest = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        for combo in (self.kind, self.config):
            combo.setSizeAdjustPolicy(shortest)
            combo.setMinimumContentsLength(_SHOWN_LETTERS)
        self.call_text = ElidedLabel(self)
        self.call_text.setObjectName("Hint")
        self.call_text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        layout = QGridLayout(self)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.setSpacing(6)
        layout.addWidget(self.kind, 0, 0)
        layout.addWidget(self.config, 0, 1)
        layout.addWidget(self.match, 1, 0, 1, 2)
        layout.addWidget(self.call_text, 2, 0)
        layout.addWidget(self.add, 2, 1)
        layout.setColumnStretch(0, 1)
        layout.setColumnStretch(1, 1)

    def _on_kind_activated(self) -> None:
        self.match.clear()
        self._show_kind()

    def _show_kind(self) -> None:
        kind, _, example = KINDS[self.kind.currentIndex()]
        self.match_names.setStringList(list(self._names.get(kind, ())))
        self.match.setEnabled(bool(example))
        self.match.setPlaceholderText(f"e.g. {example}" if example else "everything")
        self.match.setToolTip(literal(self.match.placeholderText()))
        chosen = self.config.currentData()
        self.config.clear()
        model = self.config.model()
        assert isinstance(model, QStandardItemModel)
        for offer in self._offers(kind):
            self.config.addItem(offer.title, offer.config)
            model.item(self.config.count() - 1).setEnabled(not offer.refusal)
            model.item(self.config.count() - 1).setToolTip(literal(offer.refusal))
        if kind != "quantizer":
            self.config.addItem("Custom\u2026", "")
        row = self.config.findData(chosen) if chosen is not None else -1
        is_offered = row >= 0 and model.item(row).isEnabled()
        only = 0 if kind == "quantizer" and self.config.count() == 1 else -1
        self.config.setCurrentIndex(row if is_offered else only)
        self._show_ready()

    def _show_ready(self) -> None:
        kind, _, example = KINDS[self.kind.currentIndex()]
        match = self.match.text().strip()
        is_named = bool(match) or not example
        is_set = self.config.currentIndex() >= 0
        self.add.setEnabled(is_named and is_set)
        missing = "Choose a precision" if is_named else f"Enter a match, e.g. {example}"
        self.add.setToolTip(literal("" if is_named and is_set else missing))
        self.config.setToolTip(literal(self.config.currentText()))
        if not self.config.count():
            self.call_text.setText("No plug-in with a quantizer (see Edit, Plug-ins\u2026)")
            return
        quoted = f'"{match}", ' if match else ""
        call = f"{RULE_CALLS[kind]}({quoted}\u2026)" if is_named else ""
        self.call_text.setText(call)
        self.call_text.setToolTip(literal(call and f"The call of the quantizer: {call}"))

    def _on_match_entered(self) -> None:
        """Go on to the precision; a rule is added only where its precision was chosen."""
        self.config.setFocus(Qt.FocusReason.TabFocusReason)

    def _on_add(self) -> None:
        if self.add.isEnabled():
            config = str(self.config.currentData() or "")
            self.asked.emit(self.rule_kind, self.match.text().strip(), config)
