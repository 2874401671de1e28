"""The dialog New from recipe."""

from __future__ import annotations

import os
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLineEdit,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from ui.shared.forms import PathField, dialog_form, make_primary
from ui.shared.labels import Label
from workbench.errors import WorkbenchError, reason_of
from workbench.files import make_output_folder
from workbench.project.model import PROJECT_SUFFIX
from workbench.project.recipes import Choice, Recipe, begin, recipes


class RecipeDialog(QDialog):
    """Asks for a recipe, its options, a folder and a name.

    Signals:
        made: path of the new project file.
    """

    made = Signal(object)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("New from recipe")
        self._recipes = recipes()
        self.recipe = self._choice("Recipe")
        for name, recipe in self._recipes.items():
            self.recipe.addItem(recipe.title, name)
        self.recipe.activated.connect(self._on_recipe_chosen)
        self.mode, self.scope = self._choice("Mode"), self._choice("Scope")
        self.scope.setToolTip("full: all operators; linear: nn.Linear only")
        self.caches = self._choice("Caches")
        self.caches.setToolTip("int8: a quarter of the memory; as static_quantize_kv_cache")
        self.prompt_tokens = QSpinBox(self)
        self.prompt_tokens.setAccessibleName("Tokens per call")
        self.prompt_tokens.setToolTip(
            "1: the program writes the answer; above: a second program, which reads prompts"
        )
        self.folder = PathField("Folder", "", self, kind="folder")
        self.folder.edited.connect(self._show)
        self.name = QLineEdit(self)
        self.name.setAccessibleName("Name")
        self.name.textEdited.connect(self._show)
        self.words, self.problem = Label(self), Label(self)
        for label in (self.words, self.problem):
            label.setWordWrap(True)
            label.setObjectName("Hint")
        kinds = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(kinds.Ok | kinds.Cancel, self)
        self.ok = self.buttons.button(kinds.Ok)
        self.ok.setText("Create")
        make_primary(self.ok)
        self.buttons.accepted.connect(self._on_accepted)
        self.buttons.rejected.connect(self.reject)
        self._form = self._laid_out()
        self.setMinimumWidth(520)
        self._on_recipe_chosen()

    def _choice(self, name: str) -> QComboBox:
        box = QComboBox(self)
        box.setAccessibleName(name)
        return box

    def _laid_out(self) -> QFormLayout:
        form = dialog_form(
            ("Recipe", self.recipe),
            ("Mode", self.mode),
            ("Scope", self.scope),
            ("Caches", self.caches),
            ("Tokens per call", self.prompt_tokens),
            ("Folder", self.folder),
            ("Name", self.name),
        )
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 14)
        layout.setSpacing(10)
        layout.addLayout(form)
        layout.addWidget(self.words)
        layout.addWidget(self.problem)
        layout.addWidget(self.buttons)
        return form

    @property
    def _chosen(self) -> Recipe:
        return self._recipes[str(self.recipe.currentData())]

    def _on_recipe_chosen(self, *_: object) -> None:
        self.name.setText(self._chosen.id)
        for box, offered in (
            (self.mode, self._chosen.modes),
            (self.scope, self._chosen.scopes),
            (self.caches, self._chosen.caches),
        ):
            box.clear()
            box.addItems(list(offered))
            self._form.setRowVisible(box, bool(offered))
        most = self._chosen.most_prompt_tokens
        self.prompt_tokens.setRange(1, most)
        self.prompt_tokens.setValue(1)
        self._form.setRowVisible(self.prompt_tokens, most > 1)
        self.words.setText(
            f"{self._chosen.description} It starts with {self._chosen.begins_with}; replace "
            f"them in the generated files."
        )
        self._show()
        QTimer.singleShot(0, self, self.adjustSize)

    def _show(self, *_: object) -> None:
        folder, name = self.folder.text(), self.name.text().strip()
        problem = ""
        if not folder or not (os.path.isdir(folder) or Path(folder).absolute().parent.is_dir()):
            problem = "Enter a folder, or the name of a new one in a folder."
        elif not name.isidentifier():
            problem = "Invalid name: use letters, digits and _ only."
        self.problem.setText(problem)
        self.ok.setEnabled(not problem)

    def _on_accepted(self) -> None:
        path = Path(self.folder.text()) / f"{self.name.text().strip()}{PROJECT_SUFFIX}"
        try:
            make_output_folder(path.parent)
            mode, scope, caches = (box.currentText() for box in (self.mode, self.scope, self.caches))
            begin(self._chosen, path, Choice(mode, scope, caches, self.prompt_tokens.value()))
        except WorkbenchError as error:
            self.problem.setText(f"{error.infos[0].message} {error.infos[0].hint}")
            return
        except OSError as error:
            self.problem.setText(f"The folder cannot be made: {reason_of(error)}.")
            return
        self.made.emit(path)
        self.accept()
