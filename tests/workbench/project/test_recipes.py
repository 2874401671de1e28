"""Recipes: what each says is what the project says, and nothing is overwritten unasked."""

import pytest

from tests.for_each import for_each
from workbench.errors import WorkbenchError
from workbench.project import store
from workbench.project.recipes import Choice, begin, recipes

ALL = recipes()


def test_that_every_recipe_begins_a_project_that_says_what_it_says(tmp_path):
    for name, recipe in ALL.items():
        path = tmp_path / name / "mine.qwb"
        path.parent.mkdir()
        project = begin(recipe, path)
        assert store.load(path) == project
        assert project.name == "mine"
        assert project.model.spec == "mine_model.py:model"
        assert (path.parent / "mine_model.py").read_text().strip()
        assert (project.target.id, project.verification.samples) == (recipe.target, recipe.samples)
        assert {**project.target.options, **recipe.options} == project.target.options
        assert project.evaluation.limit == recipe.limit
        assert recipe.title in project.notes
        assert recipe.begins_with in project.notes


def test_that_a_recipe_without_texts_calibrates_on_its_own_samples(tmp_path):
    recipe = ALL["image_classifier"]
    project = begin(recipe, tmp_path / "mine.qwb")
    assert project.calibration.spec == "mine_model.py:calibration"
    assert project.calibration.tokens is None
    assert (project.evaluation.data, project.evaluation.limit) == (None, 256)
    assert project.model.weights is None
    rules = [(rule.kind, rule.match, rule.config) for rule in project.rules]
    assert rules == [tuple(rule) for rule in recipe.rules]


def test_that_the_files_of_a_recipe_lie_beside_the_project(tmp_path):
    recipe = ALL["llm_decoder"]
    project = begin(recipe, tmp_path / "mine.qwb")
    assert project.model.weights == "mine_weights.safetensors"
    assert project.calibration.spec == "mine_calibration.txt"
    assert project.evaluation.data.spec == "mine_evaluation.txt"
    assert project.calibration.tokens.length == recipe.length == 64
    for name in ("mine_weights.safetensors", "mine_calibration.txt", "mine_evaluation.txt"):
        assert (tmp_path / name).stat().st_size > 0


def test_that_nothing_is_overwritten_unless_asked(tmp_path):
    recipe, path = ALL["keyword_spotting"], tmp_path / "mine.qwb"
    (tmp_path / "mine_model.py").write_text("mine")
    with pytest.raises(WorkbenchError) as caught:
        begin(recipe, path)
    assert caught.value.infos[0].where.id == str(path)
    assert (tmp_path / "mine_model.py").read_text() == "mine"
    assert not path.exists()
    begin(recipe, path, overwrite=True)
    assert (tmp_path / "mine_model.py").read_text() != "mine"
    with pytest.raises(WorkbenchError):
        begin(recipe, path)


def test_that_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkbenchError) as caught:
        begin(ALL["keyword_spotting"], tmp_path / "file" / "mine.qwb", overwrite=True)
    assert caught.value.infos[0].where.id == str(tmp_path / "file")


def test_that_the_first_mode_and_scope_stand_unless_told():
    recipe = ALL["llm_decoder"]
    rest = [tuple(rule) for rule in recipe.caches["float"].rules]
    linear = "torch.nn.modules.linear.Linear"

    def first(*chosen):
        rules = [tuple(rule) for rule in recipe.chosen(Choice(*chosen)).rules]
        assert rules[1:] == rest
        return rules[0]

    assert first("", "") == ("global", "", "a16w8")
    assert first("ethosu_8a8w", "") == ("global", "", "a8w8")
    assert first("", "linear") == ("module_type", linear, "a16w8")
    assert first("ethosu_8a8w", "linear") == ("module_type", linear, "a8w8")
    plain = ALL["image_classifier"]
    assert plain.chosen(Choice()).rules == plain.rules


def test_that_int8_caches_are_a_line_of_the_model_or_a_rule_and_integer_inputs(tmp_path):
    line = b"INT8_CACHES = True"
    kept, handed = (
        begin(ALL[name], tmp_path / f"{name}.qwb", Choice(caches="int8"))
        for name in ("llm_decoder", "llm_decoder_static")
    )
    plain = begin(ALL["llm_decoder"], tmp_path / "plain.qwb")
    assert line in (tmp_path / "llm_decoder_model.py").read_bytes()
    assert line not in (tmp_path / "plain_model.py").read_bytes()
    # Selections stay off the NPU with float caches only, as in export_llm.
    assert kept.rules == plain.rules[:1]
    assert [(rule.match, rule.config) for rule in plain.rules[1:]] == [("aten.index.Tensor", "cpu")]
    assert "integer_io" not in kept.target.options
    assert handed.target.options["integer_io"] is True
    assert ("io", "", "a8w8") in [(rule.kind, rule.match, rule.config) for rule in handed.rules]


def test_that_a_program_for_prompts_is_a_line_of_the_model(tmp_path):
    begin(ALL["llm_decoder_static"], tmp_path / "prompt.qwb", Choice(prompt_tokens=8))
    begin(ALL["llm_decoder_static"], tmp_path / "plain.qwb")
    mine, plain = ((tmp_path / f"{n}_model.py").read_text().splitlines() for n in ("prompt", "plain"))
    assert {*mine} - {*plain} == {"TOKENS = 8"}
    assert {*plain} - {*mine} == {"TOKENS = 1"}


@for_each(
    ("name", "tokens"),
    [("llm_decoder", 8), ("image_classifier", 2), ("llm_decoder_static", 64), ("llm_decoder_static", 0)],
)
def test_that_prompt_tokens_that_a_program_cannot_read_are_refused(name, tokens):
    with pytest.raises(WorkbenchError) as caught:
        ALL[name].chosen(Choice(prompt_tokens=tokens))
    (info,) = caught.value.infos
    assert (info.code, info.where.id) == ("recipe-option-unknown", "prompt-tokens")


@for_each(
    ("name", "chosen", "option"),
    [
        ("llm_decoder", ("ethosu_4a4w", ""), "mode"),
        ("llm_decoder", ("", "some"), "scope"),
        ("image_classifier", ("ethosu_8a8w", ""), "mode"),
        ("image_classifier", ("", "full"), "scope"),
        ("llm_decoder", ("", "", "int4"), "caches"),
        ("image_classifier", ("", "", "int8"), "caches"),
    ],
)
def test_that_a_mode_or_scope_that_a_recipe_lacks_is_refused(name, chosen, option):
    with pytest.raises(WorkbenchError) as caught:
        ALL[name].chosen(Choice(*chosen))
    (info,) = caught.value.infos
    assert info.where.id == option
    recipe = ALL[name]
    offered = {"mode": recipe.modes, "scope": recipe.scopes, "caches": recipe.caches}[option]
    assert all(known in info.hint for known in offered)
    assert info.hint.endswith("none.") == (not offered)
