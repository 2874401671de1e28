"""Questions and notices over the window, and the dialogs that ask for files."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialogButtonBox, QLineEdit, QPushButton, QToolButton

from ui.shared.file_dialogs import ask_for_output_folder, ask_to_open, ask_to_save
from ui.shell.toasts import Toast
from ui.state.notices import Action


def shown(workbench):
    return [toast for toast in workbench.window.findChildren(Toast) if toast.isVisible()]


def ask(opened, notices):
    """Ask a question with two answers; return its toast and the answers that were given."""
    given = []
    opened.notices.question(
        "Go on?",
        "",
        [Action("Yes", lambda: given.append("yes")), Action("No", lambda: given.append("no"))],
        blocking=True,
    )
    notices.take("Go on?")
    (toast,) = shown(opened)
    return toast, given


def test_that_keys_answer_questions_and_a_file_dialog_opens_where_the_last_choice_was(
    opened, notices, qtbot, tmp_path
):
    # Enter gives the first answer.
    for key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
        toast, given = ask(opened, notices)
        qtbot.keyClick(toast, key)
        assert given == ["yes"]
        assert shown(opened) == []
    # Enter presses the button that has the focus.
    toast, given = ask(opened, notices)
    (no,) = [b for b in toast.findChildren(QPushButton) if b.text() == "No"]
    opened.window.activateWindow()
    no.setFocus()
    qtbot.waitUntil(no.hasFocus)
    qtbot.keyClick(no, Qt.Key.Key_Return)
    assert given == ["no"]
    qtbot.waitUntil(lambda: shown(opened) == [])
    # Escape closes a question without an answer.
    toast, given = ask(opened, notices)
    qtbot.keyClick(toast, Qt.Key.Key_Escape)
    assert given == []
    assert shown(opened) == []
    # A file dialog opens in the folder of the last choice.
    place = tmp_path / "far" / "away"
    place.mkdir(parents=True)
    chosen = []
    dialog = ask_to_open(opened.window, "Pick", chosen.append, start=tmp_path)
    assert Path(dialog.directory().absolutePath()) == tmp_path
    dialog.fileSelected.emit(str(place / "a.npz"))
    dialog.reject()
    assert chosen == [str(place / "a.npz")]
    again = ask_to_save(
        opened.window, "Pick", chosen.append, "b.html", start=tmp_path, filters=["Pages (*.html)"]
    )
    assert Path(again.directory().absolutePath()) == place
    assert again.defaultSuffix() == "html"
    again.reject()


def test_that_a_folder_to_write_into_is_proposed_and_made(opened, qtbot, tmp_path):
    chosen = []
    dialog = ask_for_output_folder(opened.window, "Export to", chosen.append, "net-files", start=tmp_path)
    new = tmp_path / "net-files"
    assert dialog.selectedFiles() == [str(new)]
    # Qt reads the folder in a thread, and then disables the button for names that are not there.
    qtbot.wait(300)
    box = dialog.findChild(QDialogButtonBox)
    (button,) = (b for b in box.buttons() if box.buttonRole(b) == box.ButtonRole.AcceptRole)
    assert button.isEnabled()
    button.click()
    assert chosen == [str(new)]
    assert new.is_dir()
    # The next one is proposed beside it, not in it.
    again = ask_for_output_folder(opened.window, "Export to", chosen.append, "more", start=tmp_path)
    assert again.selectedFiles() == [str(tmp_path / "more")]
    again.reject()
    assert not (tmp_path / "more").exists()


def test_that_the_button_of_the_dialog_takes_a_folder_that_is_not_there(opened, qtbot, tmp_path):
    chosen = []
    dialog = ask_for_output_folder(opened.window, "Export to", chosen.append, "net-files", start=tmp_path)
    button = dialog.findChild(QDialogButtonBox).button(QDialogButtonBox.StandardButton.Open)
    name = dialog.findChild(QLineEdit)
    qtbot.wait(50)
    assert button.isEnabled()
    name.clear()
    qtbot.keyClicks(name, "others")
    assert button.isEnabled()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert chosen == [str(tmp_path / "others")]
    assert (tmp_path / "others").is_dir()


def test_that_the_arrows_of_a_file_dialog_have_the_colour_of_its_text(opened, tmp_path):
    dialog = ask_to_open(opened.window, "Pick", print, start=tmp_path)
    colour = dialog.palette().windowText().color().name()
    for name in ("backButton", "forwardButton", "toParentButton"):
        button = dialog.findChild(QToolButton, name)
        image = button.icon().pixmap(16, 16).toImage()
        places = [(x, y) for x in range(image.width()) for y in range(image.height())]
        seen = {image.pixelColor(*place).name() for place in places if image.pixelColor(*place).alpha() > 250}
        assert seen == {colour}, name
    dialog.reject()


def test_that_a_question_closes_an_open_popup_and_shows_its_buttons_whole(opened, notices, qtbot):
    bar = opened.window.pipeline
    opened.window.resize(1280, 720)
    qtbot.mouseClick(bar.goal, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(bar.popup.isVisible)
    answers = [Action(text, lambda: None) for text in ("Convert the rules", "Keep the rules", "Cancel")]
    opened.notices.question("2 rules cannot be used.", "", answers, blocking=True)
    notices.take("2 rules cannot be used.")
    assert not bar.popup.isVisible()
    (toast,) = shown(opened)
    buttons = [b for b in toast.findChildren(QPushButton) if b.text()]
    assert [b.text() for b in buttons] == ["Convert the rules", "Keep the rules", "Cancel"]
    assert [b.text() for b in buttons if b.width() < b.sizeHint().width()] == []
    assert toast.rect().contains(buttons[-1].geometry())
    qtbot.keyClick(toast, Qt.Key.Key_Escape)
    assert shown(opened) == []
