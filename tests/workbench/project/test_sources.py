"""What a project refers to: files, modules and callables, found without running any code."""

import pytest

from tests.problems import refused
from tests.workbench.project.builders import make_project
from workbench.project import sources
from workbench.project.model import DataSource, Evaluation, ModelSource, Tokenization
from workbench.project.sources import (
    callable_reference,
    data_reference,
    files_of,
    missing,
    model_reference,
    references,
    tokenizer_reference,
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text("import layers\nfrom parts import block\ndef net(): ...\n")
    (tmp_path / "layers.py").write_text("import deeper, os\n")
    (tmp_path / "deeper.py").write_text("import layers\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("")
    (tmp_path / "parts" / "block.py").write_text("")
    (tmp_path / "unused.py").write_text("")
    return tmp_path


def test_that_a_model_is_a_program_or_a_callable(folder):
    program = model_reference("a/net.pt2", folder)
    assert (program.kind, program.path) == ("program", folder / "a" / "net.pt2")
    file = model_reference("model.py:net", folder)
    assert (file.kind, file.path, file.attribute) == ("file", folder / "model.py", "net")
    module = model_reference("xml.etree.ElementTree:parse", folder)
    assert (module.kind, module.module, module.attribute) == (
        "package", "xml.etree.ElementTree", "parse",
    )  # fmt: skip
    assert module.path.name == "ElementTree.py"
    absolute = model_reference(f"{folder}/model.py:net", folder / "other")
    assert absolute.path == folder / "model.py"


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ("net", "model-spec-invalid"), ("model.py", "model-spec-invalid"),
        ("model.py:", "callable-not-named"), ("a/b:net", "callable-invalid"),
        ("model.py:no name", "callable-not-named"),
    ],
)  # fmt: skip
def test_that_other_models_are_refused(folder, spec, code):
    with refused(code):
        model_reference(spec, folder)


def test_that_data_is_told_by_its_ending_or_form(folder):
    (folder / "pictures").mkdir()
    kinds = {
        "x.npz": "array", "x.npy": "array", "x.pt": "array", "story.txt": "text",
        "pictures": "pictures", "model.py:data": "file", "xml.sax:parse": "package",
    }  # fmt: skip
    assert {spec: data_reference(spec, folder, "calibration.spec").kind for spec in kinds} == kinds
    for wrong in ("nowhere", "x.csv"):
        with refused("data-missing"):
            data_reference(wrong, folder, "calibration.spec")
    assert tokenizer_reference("t.json", folder, "o").path == folder / "t.json"
    assert tokenizer_reference("model.py:words", folder, "o").attribute == "words"


def test_that_code_means_itself_and_what_it_imports_beside_it(folder):
    files = files_of(callable_reference("model.py:net", folder, "o"))
    assert [f.relative_to(folder).as_posix() for f in files] == [
        "deeper.py", "layers.py", "model.py", "parts/__init__.py", "parts/block.py",
    ]  # fmt: skip
    (folder / "layers.py").write_text("syntax error here")
    files = files_of(callable_reference("model.py:net", folder, "o"))
    assert "deeper.py" not in {f.name for f in files}
    (folder / "layers.py").write_text("from . import unused\n")
    files = files_of(callable_reference("model.py:net", folder, "o"))
    assert "unused.py" in {f.name for f in files}


def test_that_pictures_mean_every_picture_below_the_folder(folder):
    for name in ("b.PNG", "a.jpg", "sub/c.jpeg", "notes.txt"):
        path = folder / "pictures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    reference = data_reference("pictures", folder, "o")
    assert [f.relative_to(folder / "pictures").as_posix() for f in files_of(reference)] == [
        "a.jpg", "b.PNG", "sub/c.jpeg",
    ]  # fmt: skip


def test_that_other_references_mean_their_file(folder):
    assert files_of(model_reference("net.pt2", folder)) == [folder / "net.pt2"]
    built_in = callable_reference("sys:exit", folder, "o")
    assert files_of(built_in) == []
    gone = callable_reference("no_such_package.at_all:f", folder, "o")
    assert gone.path is None
    assert files_of(gone) == []
    package = callable_reference("xml.sax:parse", folder, "o")
    assert package.path.name == "__init__.py"
    assert package.path in files_of(package)


def whole(folder):
    return make_project(
        model=ModelSource(spec="model.py:net", inputs="in.npz", weights="w.safetensors"),
        calibration=DataSource(spec="c.txt", tokens=Tokenization(tokenizer="t.json")),
        evaluation=Evaluation(data=DataSource(spec="e.npz", labels="l.npy"), metric="m.py:f"),
        trained_weights="trained.safetensors", training_function="teach.py:f",
    )  # fmt: skip


def test_that_everything_a_project_names_is_listed_by_its_option(folder):
    named = {option: ref.path.name for option, ref in references(whole(folder), folder)}
    assert named == {
        "model.spec": "model.py", "model.inputs": "in.npz", "model.weights": "w.safetensors",
        "trained_weights": "trained.safetensors", "training_function": "teach.py",
        "calibration.spec": "c.txt", "calibration.tokens.tokenizer": "t.json",
        "evaluation.data.spec": "e.npz", "evaluation.data.labels": "l.npy",
        "evaluation.metric": "m.py",
    }  # fmt: skip
    assert [option for option, _ in references(make_project(), folder)] == ["model.spec"]


def test_that_all_that_is_missing_is_told_at_once(folder):
    found = missing(whole(folder), folder)
    assert set(found.codes) == {"source-file-missing"}
    assert [info.where.id for info in found.infos] == [
        "model.inputs", "model.weights", "trained_weights", "training_function",
        "calibration.spec", "calibration.tokens.tokenizer", "evaluation.data.spec",
        "evaluation.data.labels", "evaluation.metric",
    ]  # fmt: skip
    assert missing(make_project(), folder) is None
    absent = make_project(model=ModelSource(spec="no_such_package.at_all:f"))
    assert missing(absent, folder).codes == ("module-not-installed",)


def test_that_text_is_read_where_the_samples_are_text():
    assert sources.reads_text(make_project(calibration=DataSource(spec="a.txt")))
    assert not sources.reads_text(make_project(calibration=DataSource(spec="a.npz")))
    assert not sources.reads_text(make_project())
