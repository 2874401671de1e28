"""Begins a project with a recipe."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from ui.widgets.emphasis import make_primary
from ui.widgets.path_field import PathField
from workbench.errors import WorkbenchError
from workbench.project.model import PROJECT_SUFFIX
from workbench.project.recipes import Recipe, begin, recipes


class RecipeDialog(QDialog):
    """What to begin with, where, and under which name.

    Signals:
        made: the path of the project that was written.
    """

    made = Signal(object)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("New from a recipe")
        self._recipes = recipes()
        self.recipe = QComboBox(self)
        self.recipe.setAccessibleName("Recipe")
        for name, recipe in self._recipes.items():
            self.recipe.addItem(recipe.title, name)
        self.recipe.activated.connect(self._on_recipe_chosen)
        self.folder = PathField("Folder", "", self, kind="folder")
        self.folder.edited.connect(self._show)
        self.name = QLineEdit(self)
        self.name.setAccessibleName("Name")
        self.name.textEdited.connect(self._show)
        self.words, self.problem = QLabel(self), QLabel(self)
        for label in (self.words, self.problem):
            label.setWordWrap(True)
            label.setObjectName("Hint")
        kinds = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(kinds.Ok | kinds.Cancel, self)
        self.ok = self.buttons.button(kinds.Ok)
        self.ok.setText("Begin")
        make_primary(self.ok)
        self.buttons.accepted.connect(self._on_accepted)
        self.buttons.rejected.connect(self.reject)
        form = QFormLayout()
        form.setHorizontalSpacing(14)
        for title, field in (
            ("Recipe", self.recipe), ("Folder", self.folder), ("Name", self.name),
        ):  # fmt: skip
            form.addRow(title, field)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 14)
        layout.setSpacing(10)
        layout.addLayout(form)
        layout.addWidget(self.words)
        layout.addWidget(self.problem)
        layout.addWidget(self.buttons)
        self.setMinimumWidth(520)
        self._on_recipe_chosen()

    @property
    def _chosen(self) -> Recipe:
        return self._recipes[str(self.recipe.currentData())]

    def _on_recipe_chosen(self, *_: object) -> None:
        self.name.setText(self._chosen.id)
        self.words.setText(
            f"{self._chosen.description} It runs at once, with random weights and samples; you "
            "replace both in the Python file that is written beside it."
        )
        self._show()
        QTimer.singleShot(0, self, self.adjustSize)

    def _show(self, *_: object) -> None:
        folder, name = self.folder.text(), self.name.text().strip()
        problem = ""
        if not folder or not Path(folder).is_dir():
            problem = "Name a folder that is there."
        elif not name.isidentifier():
            problem = "The name gives a Python file its name: letters, digits and _."
        self.problem.setText(problem)
        self.ok.setEnabled(not problem)

    def _on_accepted(self) -> None:
        path = Path(self.folder.text()) / f"{self.name.text().strip()}{PROJECT_SUFFIX}"
        try:
            begin(self._chosen, path)
        except WorkbenchError as error:
            self.problem.setText(f"{error.infos[0].message} {error.infos[0].hint}")
            return
        self.made.emit(path)
        self.accept()
