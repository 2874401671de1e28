"""The Suggestions panel: what would help, ranked by gain."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from ui.shared.candidate_preview import CandidatePreview
from ui.shared.result_panel import ResultPanel, StageFrame
from ui.shared.suggestion_cards import SuggestionCards, shared_suggestions
from ui.shared.theme import Theme
from workbench.errors import WorkbenchError
from workbench.suggestions import Suggestion

NOTHING = "Compile to get suggestions for less work on the CPU, better accuracy and less memory."
NO_SUGGESTION = "No suggestions for the present configuration."
TRYING = "Compiling the project with a suggestion, to measure it before it is offered."


class SuggestionsPanel(ResultPanel):
    """Shows suggestions and the gains of those that were applied."""

    panel_id = "suggestions"

    def build_frames(self) -> None:
        context = self.context
        self.suggesting = shared_suggestions(context)
        self.suggesting.changed.connect(lambda: self._mark("state"))
        self.preview = CandidatePreview(context.document, context.runner, context.history, self)
        self.preview.changed.connect(lambda: self._mark("state"))
        self.frames["lower"] = StageFrame("Suggestions", NOTHING, self._make, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(self.frames["lower"])

    def set_theme(self, theme: Theme) -> None:
        del theme
        if self.has("lower"):
            self.show_results()

    def show_results(self) -> None:
        shown = self.read_program()
        self.show_frame("lower", shown)
        if shown is None:
            return
        suggestions: tuple[Suggestion, ...] = ()
        if shown.current:
            suggestions = self.suggesting.look_at(shown.value, shown.folder)
        gains = self.suggesting.gains()
        nothing = TRYING if self.suggesting.trials.is_trying else NO_SUGGESTION
        self.cards.render_cards(suggestions, gains, nothing if shown.current else "")
        self._show_preview()

    def _make(self, content: QWidget) -> None:
        self.cards = SuggestionCards(content)
        self.cards.apply_asked.connect(self.suggesting.apply)
        self.cards.preview_asked.connect(self._on_preview_asked)
        self.cards.undo_asked.connect(self.context.document.undo_stack.undo)
        self.cards.show_asked.connect(self._on_show_asked)
        layout = QVBoxLayout(content)
        layout.setContentsMargins(8, 8, 2, 4)
        layout.addWidget(self.cards)

    def _show_preview(self) -> None:
        candidate = self.preview.candidate
        if candidate is not None and self.preview.fits:
            self.cards.show_preview(candidate.label, self.preview.sentence())

    def _on_preview_asked(self, suggestion: Suggestion) -> None:
        project = self.context.document.project
        if project is None or suggestion.edit is None:
            return
        try:
            after = suggestion.edit(project)
        except WorkbenchError as error:
            self.context.notices.error(error)
            return
        self.preview.begin(suggestion.title, after)

    def _on_show_asked(self, suggestion: Suggestion) -> None:
        self.context.selection.choose_nodes(list(suggestion.nodes), self.panel_id)
