"""What a project refers to: files, modules and callables, found without running any code."""

import ast
import os
import subprocess
from pathlib import Path

import pytest

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.project.builders import make_project
from workbench.project import sources
from workbench.project.model import DataSource, Evaluation, ModelSource, Tokenization
from workbench.project.opened import OpenProject
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
    assert (module.kind, module.module, module.attribute) == ("package", "xml.etree.ElementTree", "parse")
    assert module.path.name == "ElementTree.py"
    assert model_reference("os:getcwd", folder).module == "os"
    absolute = model_reference(f"{folder}/model.py:net", folder / "other")
    assert absolute.path == folder / "model.py"


@for_each(
    ("spec", "code"),
    [
        ("net", "model-spec-invalid"),
        ("model.py", "model-spec-invalid"),
        ("model.py:", "callable-not-named"),
        ("a/b:net", "callable-invalid"),
        ("model.py:no name", "callable-not-named"),
    ],
)
def test_that_other_models_are_refused(folder, spec, code):
    with refused(code):
        model_reference(spec, folder)


def test_that_data_is_told_by_its_ending_or_form(folder):
    (folder / "pictures").mkdir()
    kinds = {
        "x.npz": "array",
        "x.npy": "array",
        "x.pt": "array",
        "story.txt": "text",
        "pictures": "pictures",
        "model.py:data": "file",
        "xml.sax:parse": "package",
    }
    assert {spec: data_reference(spec, folder, "calibration.spec").kind for spec in kinds} == kinds
    for wrong in ("nowhere", "x.csv"):
        with refused("data-missing"):
            data_reference(wrong, folder, "calibration.spec")
    assert tokenizer_reference("t.json", folder, "o").path == folder / "t.json"
    assert tokenizer_reference("model.py:words", folder, "o").attribute == "words"


def test_that_code_means_itself_and_what_it_imports_beside_it(folder):
    files = files_of(callable_reference("model.py:net", folder, "o"))
    assert [f.relative_to(folder).as_posix() for f in files] == [
        "deeper.py",
        "layers.py",
        "model.py",
        "parts/__init__.py",
        "parts/block.py",
    ]
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
        "a.jpg",
        "b.PNG",
        "sub/c.jpeg",
    ]


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
        trained_weights="trained.safetensors",
        training_function="teach.py:f",
    )


def test_that_everything_a_project_names_is_listed_by_its_option(folder):
    named = {option: ref.path.name for option, ref in references(OpenProject(whole(folder), folder))}
    assert named == {
        "model.spec": "model.py",
        "model.inputs": "in.npz",
        "model.weights": "w.safetensors",
        "trained_weights": "trained.safetensors",
        "training_function": "teach.py",
        "calibration.spec": "c.txt",
        "calibration.tokens.tokenizer": "t.json",
        "evaluation.data.spec": "e.npz",
        "evaluation.data.labels": "l.npy",
        "evaluation.metric": "m.py",
    }
    assert [option for option, _ in references(OpenProject(make_project(), folder))] == ["model.spec"]


def test_that_all_that_is_missing_is_told_at_once(folder):
    found = missing(OpenProject(whole(folder), folder))
    assert set(found.codes) == {"source-file-missing"}
    assert [info.where.id for info in found.infos] == [
        "model.inputs",
        "model.weights",
        "trained_weights",
        "training_function",
        "calibration.spec",
        "calibration.tokens.tokenizer",
        "evaluation.data.spec",
        "evaluation.data.labels",
        "evaluation.metric",
    ]
    assert missing(OpenProject(make_project(), folder)) is None
    absent = make_project(model=ModelSource(spec="no_such_package.at_all:f"))
    assert missing(OpenProject(absent, folder)).codes == ("module-not-installed",)


def test_that_text_is_read_where_the_samples_are_text():
    assert sources.reads_text(make_project(calibration=DataSource(spec="a.txt")))
    assert not sources.reads_text(make_project(calibration=DataSource(spec="a.npz")))
    assert not sources.reads_text(make_project())


@for_each(
    ("module", "file"),
    [
        ("plain", "plain.py"),
        ("whole", "whole/__init__.py"),
        ("whole.part", "whole/part.py"),
        ("spread.inner", "spread/inner.py"),
        ("spread.deep.last", "spread/deep/last.py"),
        ("spread", None),
        ("whole.missing", None),
        ("plain.part", None),
        ("nowhere_at_all", None),
        ("json", "json/__init__.py"),
    ],
)
def test_that_a_module_is_found_as_python_would_without_importing_it(tmp_path, module, file):
    for name in ("plain.py", "whole/__init__.py", "whole/part.py", "spread/inner.py", "spread/deep/last.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("raise SystemExit('imported')\n")
    (tmp_path / "json.py").write_text("raise SystemExit('not the one of Python')\n")
    found = sources.callable_reference(f"{module}:net", tmp_path, "model.spec")
    assert (found.kind, found.module, found.attribute) == ("package", module, "net")
    if file is None:
        assert found.path is None
    elif module == "json":
        assert found.path.parent != tmp_path
        assert found.path.as_posix().endswith(file)
    else:
        assert found.path == tmp_path / file


def test_that_a_module_that_is_not_installed_is_missing(tmp_path):
    project = make_project(model=ModelSource(spec="nowhere_at_all:net"))
    problem = sources.missing(OpenProject(project, tmp_path))
    assert problem.codes == ("module-not-installed",)
    assert sources.missing(OpenProject(make_project(model=ModelSource(spec="json:loads")), tmp_path)) is None


@for_each(
    ("name", "fits"),
    [
        ("n" * 251 + ".pt2", True),
        ("n" * 252 + ".pt2", False),
        ("ä" * 125 + ".pt2", True),
        ("ä" * 126 + ".pt2", False),
        ("/".join(["d" * 200] * 25) + "/x.pt2", False),
    ],
)
def test_that_a_name_is_as_long_as_a_file_system_allows(tmp_path, name, fits):
    if fits:
        assert sources.model_reference(name, tmp_path).path.name == name
        return
    with refused("path-too-long"):
        sources.model_reference(name, tmp_path)


def test_that_pictures_are_those_below_in_their_order_and_no_more_than_a_walk_takes(tmp_path):
    for name in ("b.png", "a.JPG", "c.txt", "x/d.jpeg", "x/y/e.bmp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = [p.relative_to(tmp_path).as_posix() for p in sources.pictures(tmp_path)]
    assert found == ["a.JPG", "b.png", "x/d.jpeg", "x/y/e.bmp"]
    # Five files and two folders.
    assert len(sources.pictures(tmp_path, most=7)) == 4
    for most in (6, 3, 0):
        with refused("data-folder-too-large"):
            sources.pictures(tmp_path, most=most)


def test_that_imports_of_a_source_too_large_to_parse_are_still_followed(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("import b; from c import d, e as f\nx = 'import g'\n")
    for name in ("b", "c", "g"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "c.py").unlink()
    (tmp_path / "c").mkdir()
    for name in ("__init__", "d", "e"):
        (tmp_path / "c" / f"{name}.py").write_text("")
    start = sources.Reference("file", tmp_path / "a.py")
    names = [p.relative_to(tmp_path).as_posix() for p in sources.files_of(start)]
    assert names == ["a.py", "b.py", "c/__init__.py", "c/d.py", "c/e.py"]
    monkeypatch.setattr(sources, "MAX_SOURCE_BYTES", 5)
    (tmp_path / "a.py").write_text("import b; from c import d, e as f\nx = 'import g' \n")
    large = [p.relative_to(tmp_path).as_posix() for p in sources.files_of(start)]
    assert set(names) <= set(large)
    assert "g.py" not in large


def test_that_only_statements_of_a_source_that_is_parsed_are_imports(tmp_path, monkeypatch):
    text = '"""Words.\nimport g\n"""\nimport os, b\n'
    (tmp_path / "a.py").write_text(text)
    for name in ("b", "g", "os"):
        (tmp_path / f"{name}.py").write_text("")
    start = sources.Reference("file", tmp_path / "a.py")
    # A module of the standard library comes before one beside the file.
    monkeypatch.setattr(sources, "MAX_SOURCE_BYTES", len(text))
    assert [path.name for path in files_of(start)] == ["a.py", "b.py"]
    (tmp_path / "a.py").write_text(text + "\n")
    assert [path.name for path in files_of(start)] == ["a.py", "b.py", "g.py", "os.py"]


def test_that_a_module_of_a_package_means_what_it_imports_beside_it(folder):
    package = sources.Reference("package", folder / "model.py", "model", "net")
    names = {path.relative_to(folder).as_posix() for path in files_of(package)}
    assert names == {"model.py", "layers.py", "deeper.py", "parts/__init__.py", "parts/block.py"}
    built = sources.Reference("package", folder / "model.so", "model", "net")
    assert files_of(built) == [folder / "model.so"]


def test_that_a_short_module_name_is_no_drive(folder):
    assert data_reference("os:getcwd", folder, "calibration").kind == "package"


def test_that_a_data_folder_is_told_from_a_file(folder):
    assert sources.is_folder("parts", folder)
    assert not sources.is_folder("model.py", folder)


def test_that_a_folder_that_is_gone_is_not_walked(tmp_path, monkeypatch):
    walked = []

    def listed(folder, _most):
        walked.append(folder)
        return ["gone"], []

    monkeypatch.setattr(sources, "_listed", listed)
    assert sources.pictures(tmp_path) == []
    assert walked == [tmp_path]


def test_that_pictures_in_folders_of_any_depth_are_found(tmp_path):
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(1200):
            os.mkdir("d")
            os.chdir("d")
        Path("deep.png").write_bytes(b"")
    finally:
        os.chdir(here)
    assert [path.name for path in sources.pictures(tmp_path)] == ["deep.png"]
    # Deeper than what Python removes.
    subprocess.run(["rm", "-r", tmp_path / "d"], check=True)


@for_each("kind", ["folder", "loop"])
def test_that_a_link_to_a_folder_or_to_itself_is_not_walked(tmp_path, kind):
    target = tmp_path if kind == "folder" else "link.png"
    (tmp_path / "link.png").symlink_to(target)
    found = [path.name for path in sources.pictures(tmp_path)]
    assert found == ([] if kind == "folder" else ["link.png"])


def test_that_much_python_is_searched_for_words_and_not_parsed(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("import b\n")
    (tmp_path / "b.py").write_text("import c\n")
    (tmp_path / "c.py").write_text("")
    monkeypatch.setattr(sources, "_MAX_PARSED_BYTES", 9)
    parsed = []
    monkeypatch.setattr(sources, "parse_python", lambda s: parsed.append(s) or ast.parse(s))
    files = sources.files_of(sources.Reference("file", tmp_path / "a.py"))
    assert [path.name for path in files] == ["a.py", "b.py", "c.py"]
    assert parsed == [b"import b\n"]
    monkeypatch.setattr(sources, "_MAX_IMPORTED", 2)
    assert len(sources.files_of(sources.Reference("file", tmp_path / "a.py"))) == 2


@for_each(("more", "fits"), [(0, True), (1, False)])
def test_that_a_path_has_up_to_four_thousand_bytes(tmp_path, more, fits):
    left = 4000 - sum(len(part) for part in tmp_path.parts) + more
    parts = ["d" * 200] * (left // 200 - 1)
    name = "/".join([*parts, "x" * (left - 200 * len(parts) - 200), "y" * 196 + ".pt2"])
    if fits:
        assert model_reference(name, tmp_path).kind == "program"
        return
    with refused("path-too-long"):
        model_reference(name, tmp_path)
