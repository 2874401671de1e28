"""Texts and decoders in the dialogs that begin a project."""

from __future__ import annotations

from ui.features.project.draft import build
from ui.features.project.new_project import NewProjectDialog
from ui.features.project.recipe import RecipeDialog
from workbench.project import edits


def test_that_a_text_asks_for_tokens_in_place_of_labels(parent, folder):
    (folder / "story.txt").write_text("once upon a time")
    (folder / "tokenizer.json").write_text("{}")
    dialog = NewProjectDialog(str(folder / "net.pt2"), parent)
    assert not dialog.tokenizer.isVisibleTo(dialog)
    dialog.data.set_text(str(folder / "story.txt"))
    assert dialog.tokenizer.isVisibleTo(dialog)
    assert not dialog.labels.isVisibleTo(dialog)
    dialog.tokenizer.set_text(str(folder / "tokenizer.json"))
    dialog.length.setValue(32)
    data = build(dialog.draft()).project.calibration
    assert data.spec == "story.txt"
    assert data.tokens.tokenizer == "tokenizer.json"
    assert data.tokens.length == 32


def test_that_a_tokenizer_that_is_not_there_is_told(parent, folder):
    (folder / "story.txt").write_text("once upon a time")
    dialog = NewProjectDialog(str(folder / "net.pt2"), parent)
    dialog.data.set_text(str(folder / "story.txt"))
    dialog.tokenizer.set_text(str(folder / "gone.json"))
    assert "gone.json does not exist" in dialog.problems.text()


def test_that_a_decoder_begins_in_a_mode_and_a_scope_and_texts_are_read_alike(opened, qtbot, tmp_path):
    opened.window.actions_by_id["recipe"].trigger()
    dialog = opened.window.findChild(RecipeDialog)
    assert not dialog.mode.isVisibleTo(dialog)
    place = dialog.recipe.findData("llm_decoder")
    dialog.recipe.setCurrentIndex(place)
    dialog.recipe.activated.emit(place)
    assert dialog.mode.isVisibleTo(dialog)
    assert "small trained weights" in dialog.words.text()
    dialog.mode.setCurrentText("ethosu_8a8w")
    dialog.scope.setCurrentText("linear")
    dialog.folder.set_text(str(tmp_path))
    dialog.name.setText("reader")
    dialog.ok.click()
    qtbot.waitUntil(lambda: opened.document.title.startswith("reader"))
    rule = opened.document.project.rules[0]
    assert (rule.kind, rule.config) == ("module_type", "a8w8")
    assert (tmp_path / "reader_weights.safetensors").is_file()
    # A dropped text is read like the one before.
    other = edits.data_at(opened.document.project, "other.txt")
    assert other.tokens == opened.document.project.calibration.tokens
    assert edits.data_at(opened.document.project, "other.npz").tokens is None


def test_that_a_program_for_prompts_is_asked_for_where_a_recipe_can_have_one(opened, qtbot, tmp_path):
    opened.window.actions_by_id["recipe"].trigger()
    dialog = opened.window.findChild(RecipeDialog)
    for recipe, most in (("llm_decoder", 1), ("llm_decoder_text", 127)):
        place = dialog.recipe.findData(recipe)
        dialog.recipe.setCurrentIndex(place)
        dialog.recipe.activated.emit(place)
        assert dialog.prompt_tokens.isVisibleTo(dialog) == (most > 1)
        assert dialog.prompt_tokens.maximum() == most
    dialog.prompt_tokens.setValue(16)
    dialog.folder.set_text(str(tmp_path))
    dialog.name.setText("prompts")
    dialog.ok.click()
    qtbot.waitUntil(lambda: opened.document.title.startswith("prompts"))
    assert "\nTOKENS = 16\n" in (tmp_path / "prompts_model.py").read_text()
    assert opened.document.project.calibration.tokens.tokenizer == "prompts_tokenizer.json"
