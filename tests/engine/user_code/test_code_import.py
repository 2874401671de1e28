"""Imports of a project's code: only what was allowed, and nothing of it replaces a module."""

import os
import py_compile
import sys
from importlib.util import cache_from_source

import pytest

from tests.engine.in_process import project
from tests.problems import refused
from workbench.engine import user_code
from workbench.engine.user_code import code_import
from workbench.errors import WorkbenchError
from workbench.project import sources
from workbench.project.model import ModelSource
from workbench.project.opened import OpenProject
from workbench.project.project_code import read_code


@pytest.fixture(autouse=True)
def clean():
    yield
    code_import.uninstall()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own_model.py").write_text("import own_layers\ndef net():\n    return own_layers.WIDTH\n")
    (tmp_path / "own_layers.py").write_text("WIDTH = 3\n")
    return tmp_path


def allow(folder, spec="own_model.py:net"):
    made = project("small").model_copy(update={"model": ModelSource(spec=spec)})
    code = read_code(OpenProject(made, folder))
    code_import.install_allowed(OpenProject(made, folder), code.digest)
    return made


def call(folder, spec="own_model.py:net"):
    reference = sources.model_reference(spec, folder)
    return user_code.call(user_code.load_callable(reference, "model.spec"), reference, "model.spec")


def test_that_what_runs_is_what_was_read_and_not_what_lies_there_later(folder):
    allow(folder)
    (folder / "own_model.py").write_text("def net():\n    return 'other'\n")
    (folder / "own_layers.py").write_text("WIDTH = 'other'\n")
    assert call(folder) == 3


def test_that_other_code_than_the_allowed_is_refused(folder):
    made = project("small").model_copy(update={"model": ModelSource(spec="own_model.py:net")})
    digest = read_code(OpenProject(made, folder)).digest
    (folder / "unrelated.py").write_text("")
    with refused("code-not-trusted"):
        code_import.install_allowed(OpenProject(made, folder), digest)
    with refused("code-not-trusted"):
        code_import.install_allowed(OpenProject(made, folder), "")


def test_that_a_callable_that_was_not_asked_about_is_not_loaded(folder):
    allow(folder, "shutil:disk_usage")
    reference = sources.callable_reference("shutil:get_terminal_size", folder, "evaluation.metric")
    with refused("code-not-trusted"):
        user_code.load_callable(reference, "evaluation.metric")
    named = sources.callable_reference("shutil:disk_usage", folder, "evaluation.metric")
    assert user_code.load_callable(named, "evaluation.metric")
    code_import.uninstall()
    allow(folder)
    with refused("code-not-trusted"):
        user_code.load_callable(named, "evaluation.metric")


def test_that_a_file_that_could_not_be_read_cannot_be_imported(folder):
    (folder / "own_layers.py").unlink()
    (folder / "own_layers.py").symlink_to(".")
    (folder / "__init__.py").write_text("WIDTH = 'of the folder'\n")
    allow(folder)
    with pytest.raises(WorkbenchError, match="own_layers"):
        call(folder)


def test_that_a_job_with_other_code_than_its_command_allows_runs_nothing(engine):
    made = project("small")
    (engine.folder / "networks.py").write_text(f"open({str(engine.folder / 'ran')!r}, 'w')\n")
    from workbench.protocol import RunUntil

    command = RunUntil(
        job="x",
        project=made,
        folder=str(engine.folder),
        until="export",
        cache_root=str(engine.cache.root),
        code="0" * 64,
    )
    engine.events = []
    engine.send(command)
    assert engine.follow() == "failed"
    assert engine.failure.code == "code-not-trusted"
    assert not (engine.folder / "ran").exists()


def test_that_unchecked_bytecode_beside_a_file_is_not_used(folder):
    source = folder / "own_layers.py"
    source.write_text("WIDTH = 'from bytecode'\n")
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert os.path.exists(cache_from_source(str(source)))
    source.write_text("WIDTH = 3\n")
    allow(folder)
    assert call(folder) == 3


@pytest.mark.parametrize("name", ["own_layers.pyc", "own_layers/__init__.pyc"])
def test_that_bytecode_without_a_source_is_not_imported(folder, name):
    other = folder / "other.py"
    other.write_text("WIDTH = 'from bytecode'\n")
    (folder / "own_layers.py").unlink()
    (folder / name).parent.mkdir(exist_ok=True)
    py_compile.compile(str(other), cfile=str(folder / name))
    allow(folder)
    with pytest.raises(WorkbenchError, match="own_layers"):
        call(folder)


def test_that_no_file_of_a_project_replaces_a_module_of_python_or_of_a_package(folder):
    for name in ("secrets", "tqdm", "colorsys", "pandas_of_nobody"):
        (folder / f"{name}.py").write_text("VALUE = 'of the project'\n")
    (folder / "own_model.py").write_text(
        "import colorsys, tqdm\ndef net():\n"
        "    return [hasattr(module, 'VALUE') for module in (colorsys, tqdm)]\n"
    )
    sys.modules.pop("colorsys", None)
    allow(folder)
    assert call(folder) == [False, False]


def test_that_imports_by_name_and_from_added_folders_are_read_with_the_project(folder):
    (folder / "inner").mkdir()
    (folder / "inner" / "deep.py").write_text("VALUE = 7\n")
    (folder / "package").mkdir()
    (folder / "package" / "part.py").write_text("VALUE = 8\n")
    (folder / "own_model.py").write_text(
        "import importlib, os, sys\n"
        "sys.path.insert(0, os.path.join(os.path.dirname(__file__), 'inner'))\n"
        "def net():\n"
        "    names = ('deep', 'package.part')\n"
        "    return [importlib.import_module(name).VALUE for name in names]\n"
    )
    allow(folder)
    (folder / "inner" / "deep.py").write_text("VALUE = 'changed'\n")
    (folder / "inner" / "late.py").write_text("")
    assert call(folder) == [7, 8]
    (folder / "own_model.py").write_text("def net(): ...\n")
    with pytest.raises(ModuleNotFoundError):
        import late  # noqa: F401


def test_that_a_module_outside_of_the_project_is_refused_with_a_hint(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "helper_of_nobody.py").write_text("VALUE = 1\n")
    (folder / "own_model.py").write_text(
        f"import sys\nsys.path.append({str(outside)!r})\nimport helper_of_nobody\ndef net(): ...\n"
    )
    allow(folder)
    with refused("user-code-failed") as caught:
        call(folder)
    assert str(outside) in caught.value.infos[0].message


def test_that_a_link_to_a_folder_is_not_followed(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "part.py").write_text("VALUE = 1\n")
    (folder / "linked").symlink_to(outside)
    (folder / "own_model.py").write_text("import linked.part\ndef net(): ...\n")
    allow(folder)
    with refused("user-code-failed"):
        call(folder)


def test_that_a_package_of_the_projects_folder_is_found_last(folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").write_text("")
    (folder / "mine" / "nets.py").write_text("def net():\n    return 5\n")
    allow(folder, "mine.nets:net")
    assert call(folder, "mine.nets:net") == 5


def test_that_nothing_of_a_project_stays_after_its_job(folder):
    path, hooks = list(sys.path), list(sys.path_hooks)
    allow(folder)
    call(folder)
    code_import.uninstall()
    assert (sys.path, sys.path_hooks) == (path, hooks)
    assert "own_model" not in sys.modules
    assert "own_layers" not in sys.modules


@pytest.mark.parametrize(
    ("text", "line"), [("def net(:\n", 1), ("VALUE = 1\n\n\ndef net():\n    raise ValueError('no')\n", 5)]
)
def test_that_an_error_in_the_code_names_its_line_as_its_place(folder, text, line):
    (folder / "own_model.py").write_text(text)
    allow(folder)
    with refused("user-code-failed") as caught:
        call(folder)
    where = caught.value.infos[0].where
    assert where.kind == "line"
    assert where.file_and_line == (str(folder / "own_model.py"), line)
