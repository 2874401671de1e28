"""The rules of the house that no linter knows."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.engine.targets.base import CompilingToolchain, DeviceToolchain, Toolchain
from workbench.pipeline.stages import STAGES
from workbench.targets import TARGETS

ROOT = Path(__file__).parents[1]
PRODUCT = sorted([*(ROOT / "workbench").rglob("*.py"), *(ROOT / "ui").rglob("*.py")])
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", PRODUCT, ids=name)
def test_that_a_file_has_at_most_600_lines_and_a_docstring(path):
    text = path.read_text()
    assert text.count("\n") <= 600
    if text.strip():
        assert ast.get_docstring(ast.parse(text))


def test_that_a_test_file_has_at_most_400_lines():
    assert [name(p) for p in TESTS if p.read_text().count("\n") > 400] == []


def test_that_no_function_has_more_than_40_lines():
    long = [
        f"{name(path)}:{node.lineno} {node.name}"
        for path in PRODUCT
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and node.end_lineno - node.body[0].lineno + 1 - _docstring_lines(node) > 40
    ]
    assert long == []


def _docstring_lines(node: ast.FunctionDef) -> int:
    if ast.get_docstring(node) is None:
        return 0
    return node.body[0].end_lineno - node.body[0].lineno + 1


def test_that_no_file_is_called_after_nothing_in_particular():
    vague = {"utils", "helpers", "common", "misc", "tools_"}
    assert [name(p) for p in PRODUCT if p.stem in vague or p.parent.name in vague] == []


def test_that_a_target_is_named_only_in_its_own_files():
    allowed = {
        "workbench/targets/ethos_u.py", "workbench/targets/formats.py",
        "workbench/targets/__init__.py", "workbench/script/__init__.py",
        "workbench/targets/nnpa/__init__.py",
        # The verb of the same name, which is no target.
        "workbench/cli/formats.py",
    }  # fmt: skip
    ids = [f'"{target.id}"' for target in TARGETS]
    found = [
        name(path)
        for path in PRODUCT
        if name(path) not in allowed
        and "toolchains" not in name(path)
        and any(id_ in path.read_text() for id_ in ids)
    ]
    assert found == []


@pytest.mark.engine
@pytest.mark.filterwarnings("default")
def test_that_every_name_in_a_table_leads_to_code_of_the_right_shape():
    for stage in STAGES:
        module, function = stage.entry.split(":")
        assert callable(getattr(importlib.import_module(module), function))
    for target in TARGETS:
        toolchain = importlib.import_module(target.toolchain)
        for name, method in _members(_protocol(target)).items():
            assert _required(getattr(toolchain, name)) == _required(method) - 1, (target.id, name)


def _protocol(target):
    """Return the protocol by which the stages of a target use its toolchain."""
    if "run" in target.stages:
        return DeviceToolchain
    return CompilingToolchain if "lower" in target.stages else Toolchain


def _members(protocol):
    kinds = [kind for kind in protocol.__mro__ if kind.__module__ == protocol.__module__]
    return {
        name: value
        for kind in kinds
        for name, value in vars(kind).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }


def _required(function):
    """Return how many parameters have to be given."""
    parameters = inspect.signature(function).parameters.values()
    return sum(1 for p in parameters if p.default is inspect.Parameter.empty)


@pytest.mark.parametrize("module", ["ui.shell.app", "workbench.cli", "workbench.engine_process"])
def test_that_torch_is_not_imported_outside_the_engine(module):
    code = f"import sys, {module}; print('torch' in sys.modules, 'executorch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT,
        env={"QT_QPA_PLATFORM": "offscreen", "PATH": "", "HOME": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.split() == ["False", "False"]


def test_that_every_problem_has_a_code_in_kebab_case():
    wrong = []
    for path in PRODUCT:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or _called(node) not in {"failure", "ErrorInfo"}:
                continue
            codes = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            literal = codes[0].value if codes and isinstance(codes[0], ast.Constant) else "given"
            if not codes or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", literal):
                wrong.append(f"{name(path)}:{node.lineno}")
    assert wrong == []


def _called(node: ast.Call) -> str:
    return getattr(node.func, "id", None) or getattr(node.func, "attr", "")
