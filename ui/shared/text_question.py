"""A dialog that asks for one line of text, and the width of such dialogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QInputDialog, QLayout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from PySide6.QtWidgets import QWidget

# Room for a title with the name of the program.
_WIDTH_PX = 380


def open_wide(dialog: QInputDialog) -> None:
    """Open a dialog that is wide enough for its title; Qt makes it as narrow as its question."""
    dialog.open()
    layout = dialog.layout()
    assert layout is not None
    layout.setSizeConstraint(QLayout.SizeConstraint.SetDefaultConstraint)
    dialog.setMinimumWidth(_WIDTH_PX)


def ask_text(
    parent: QWidget, title: str, label: str, answer: Callable[[str], object], proposals: Sequence[str] = ()
) -> None:
    """Ask for a line of text in a window of its own, without waiting for it.

    Args:
        parent: The widget that the dialog belongs to.
        title: The title of the dialog.
        label: What is asked for.
        answer: Called with the text, without spaces around it, unless it is empty.
        proposals: Texts to choose from or to change; the first one is shown.
    """
    dialog = QInputDialog(parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle(title)
    dialog.setLabelText(label)
    if len(proposals) > 1:
        dialog.setComboBoxEditable(True)
        dialog.setComboBoxItems(list(proposals))
    elif proposals:
        dialog.setTextValue(proposals[0])
    dialog.textValueSelected.connect(lambda text: answer(text.strip()) if text.strip() else None)
    open_wide(dialog)
