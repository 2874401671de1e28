"""The rules of the house that no linter knows: each one test over all files."""

import ast
import functools
import gc
import os
import re
import subprocess
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from workbench.targets import TARGETS

ROOT = Path(__file__).parents[1]
CORE = ROOT / "workbench"
PRODUCT = sorted([*CORE.rglob("*.py"), *(ROOT / "ui").rglob("*.py")])
TESTS = sorted((ROOT / "tests").rglob("*.py"))

LINES, SMALL_LINES, FUNCTION_LINES = 600, 80, 40
# Files of less than SMALL_LINES with one importer: why they are files of their own.
SMALL = {
    "workbench/engine/evaluation/bundling.py": "imports executorch's devtools, only where a bundle is wanted",
    "workbench/engine/fx/branch_modules.py": "modules that a model is rewritten to, not a stage",
    "workbench/engine/fx/program_outputs.py": "a part of exported scripts",
    "workbench/engine/ethos_u/corrections/partitioner.py": "a part of exported scripts",
    "workbench/engine/quantization/plugin_quantizer.py": "the base class that plugins are told of",
    "workbench/project/graph_notes.py": "a part of the project's file; the window alone shows it",
}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def text(path: Path) -> str:
    return path.read_text()


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path))


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    """Return all nodes of a file, without those that tell how a name is used."""
    found: list[ast.AST] = [tree(path)]
    for node in found:
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                found += [part for part in value if isinstance(part, ast.AST)]
            elif isinstance(value, ast.AST) and field != "ctx":
                found.append(value)
    return found


@pytest.fixture(scope="module", autouse=True)
def trees_that_are_not_collected():
    """Parse without the collector, which would go through all trees again and again."""
    gc.disable()
    yield
    tree.cache_clear()
    nodes.cache_clear()
    gc.enable()


def lines(path: Path) -> int:
    return text(path).count("\n")


def module(path: Path) -> str:
    dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return dotted.removesuffix(".__init__")


MODULES = {module(path): path for path in PRODUCT}


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """Return the modules of the product that a file imports anywhere, also for types only."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {each if each in MODULES else node.module for each in whole}
    return frozenset((found & set(MODULES)) - {module(path)})


def test_that_every_file_says_what_it_is():
    silent = [p for p in PRODUCT if text(p).strip() and not ast.get_docstring(tree(p))]
    assert [name(p) for p in silent] == []


@pytest.mark.filterwarnings("default")
def test_that_a_file_of_more_than_600_lines_gets_a_warning():
    for path in [*PRODUCT, *TESTS]:
        if lines(path) > LINES:
            warnings.warn(f"{name(path)} has {lines(path)} lines", stacklevel=1)


def test_that_a_small_file_has_several_importers_or_stands_in_a_table():
    importers = defaultdict(set)
    for path in PRODUCT:
        for other in imported(path):
            importers[other].add(path)
    written = "".join(text(path) for path in PRODUCT)
    found = []
    for dotted, path in MODULES.items():
        by = importers[dotted]
        # A table names a module as text, or is the folder's own __init__.py or table.py.
        tabled = f'"{dotted}' in written or all(
            p.parent == path.parent and p.stem in {"__init__", "table", "imports"} for p in by
        )
        if lines(path) < SMALL_LINES and len(by) == 1 and not tabled and path.stem != "__init__":
            found.append(name(path))
    assert sorted(set(found) - set(SMALL)) == []
    assert {path for path in SMALL if not (ROOT / path).exists()} == set()


def test_that_no_imports_run_in_a_circle():
    after = {dotted: imported(path) for dotted, path in MODULES.items()}
    left = dict(after)
    while free := {dotted for dotted, others in left.items() if not others & set(left)}:
        left = {dotted: others for dotted, others in left.items() if dotted not in free}
    while unused := set(left) - set().union(*left.values()):
        left = {dotted: others for dotted, others in left.items() if dotted not in unused}
    assert {dotted: sorted(others & set(left)) for dotted, others in left.items()} == {}


def test_that_no_two_files_of_the_window_have_one_name():
    found = Counter(p.name for p in PRODUCT if name(p).startswith("ui/") and p.stem != "__init__")
    assert [stem for stem, count in found.items() if count > 1] == []


def test_that_private_classes_inherit_from_each_other_at_most_twice():
    for path in PRODUCT:
        bases = {
            node.name: [b.id for b in node.bases if isinstance(b, ast.Name) and b.id[0] == "_"]
            for node in nodes(path)
            if isinstance(node, ast.ClassDef)
        }

        def depth(cls: str, bases: dict[str, list[str]] = bases) -> int:
            return max((1 + depth(base) for base in bases.get(cls, ())), default=0)

        assert {cls: depth(cls) for cls in bases if depth(cls) > 2} == {}, name(path)


def test_that_no_function_has_more_than_40_lines():
    long = [
        f"{name(path)}:{node.lineno} {node.name}"
        for path in PRODUCT
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef)
        and node.end_lineno - node.body[0].lineno + 1 - _docstring_lines(node) > FUNCTION_LINES
    ]
    assert long == []


def _docstring_lines(node: ast.FunctionDef) -> int:
    if ast.get_docstring(node) is None:
        return 0
    return node.body[0].end_lineno - node.body[0].lineno + 1


def test_that_no_file_is_called_after_nothing_in_particular():
    vague = {"utils", "helpers", "common", "misc", "tools_"}
    assert [name(p) for p in PRODUCT if p.stem in vague or p.parent.name in vague] == []


def test_that_local_names_say_what_they_hold():
    vague = {"found", "made", "each", "said", "told"}
    for path in PRODUCT:
        if not _bound(nodes(path)) & vague:
            continue
        functions = [n for n in nodes(path) if isinstance(n, ast.FunctionDef | ast.Lambda)]
        names = {bound for function in functions for bound in _bound(ast.walk(function))}
        assert not names & vague, name(path)


def _bound(within: Iterable[ast.AST]) -> set[str]:
    """Return the names of arguments and of what is assigned to."""
    return {
        node.arg if isinstance(node, ast.arg) else node.id
        for node in within
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    }


def test_that_a_target_is_named_only_in_its_own_files():
    allowed = {
        "workbench/targets/ethos_u/__init__.py",
        "workbench/targets/formats/__init__.py",
        "workbench/targets/__init__.py",
        "workbench/targets/nnpa/__init__.py",
        "workbench/script/__init__.py",
        "workbench/ids.py",
        # The verb, the panel, the arithmetic and the operator of the same name: no targets.
        "workbench/pte/tflite_model.py",
        "workbench/cli/arrays.py",
        "ui/features/formats_panel.py",
        "ui/shared/panel.py",
        "ui/shell/panels.py",
        "workbench/engine/jobs/array_jobs.py",
    }
    ids = [f'"{target.id}"' for target in TARGETS]
    found = [
        name(path)
        for path in PRODUCT
        if name(path) not in allowed
        and not name(path).startswith(("workbench/engine/formats", "workbench/engine/nnpa"))
        and any(id_ in text(path) for id_ in ids)
    ]
    assert found == []


HEAVY = {"torch", "executorch"}
OUTSIDE = ("ui.shell.app", "workbench.cli", "workbench.engine_process")


def _imported_at_once(path: Path) -> set[str]:
    """Return the modules that a file imports when it is imported itself."""
    found, left = set(), list[ast.AST](tree(path).body)
    while left:
        node = left.pop()
        if isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            left += node.orelse
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            left += ast.iter_child_nodes(node)
    return found


def test_that_files_outside_the_engine_import_no_torch():
    """What other packages import only shows when they are imported, as the slow test does."""
    seen, left = set(), list(OUTSIDE)
    while left:
        dotted = left.pop()
        if dotted in seen or dotted not in MODULES:
            continue
        seen.add(dotted)
        stated = _imported_at_once(MODULES[dotted])
        assert not HEAVY & {each.split(".")[0] for each in stated}, dotted
        left += [*stated, *(dotted[:at] for at, letter in enumerate(dotted) if letter == ".")]
    assert len(seen) > 200


@pytest.mark.slow
def test_that_torch_is_not_imported_outside_the_engine():
    code = "".join(
        f"import {dotted}\nassert not {HEAVY} & set(sys.modules), {dotted!r}\n" for dotted in OUTSIDE
    )
    environment = {"QT_QPA_PLATFORM": "offscreen", "PATH": "", "HOME": str(ROOT)}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_that_the_tests_of_the_core_and_the_window_collect_without_torch():
    heavy = {"torch", "executorch"}
    folders = ("tests/workbench", "tests/ui")
    # A file without the words imports none of them, and need not be parsed.
    found = [
        f"{name(path)}: {stated}"
        for path in TESTS
        if name(path).startswith(folders) and re.search(r"torch|workbench\.engine\b", text(path))
        for node in tree(path).body
        for stated in _stated(node)
        if stated.split(".")[0] in heavy or stated.startswith("workbench.engine.")
    ]
    assert found == []


def _stated(node: ast.stmt) -> list[str]:
    """Return the modules of an import statement."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) else []


def test_that_every_package_of_the_core_has_tests_of_its_own():
    core = {path.relative_to(ROOT).parts[1] for path in PRODUCT if path.is_relative_to(CORE)}
    packages = {part for part in core if (CORE / part).is_dir()} - {"engine"}
    own = ROOT / "tests" / "workbench"
    files = [path for path in TESTS if path.name.startswith("test_") and own in path.parents]
    tested = {path.relative_to(own).parts[0] for path in files}
    assert packages - tested == set()


def test_that_every_problem_has_a_code_in_kebab_case():
    wrong = []
    for path in PRODUCT:
        for node in nodes(path):
            if not isinstance(node, ast.Call) or _called(node) not in {"failure", "ErrorInfo"}:
                continue
            codes = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            literal = codes[0].value if codes and isinstance(codes[0], ast.Constant) else "given"
            if not codes or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", literal):
                wrong.append(f"{name(path)}:{node.lineno}")
    assert wrong == []


def _called(node: ast.Call) -> str:
    return getattr(node.func, "id", None) or getattr(node.func, "attr", "")


# Calls that one kind of system has: Windows raises AttributeError or ImportError for them.
SYSTEM_MODULES = {"fcntl", "resource", "msvcrt", "termios", "pty"}
SYSTEM_CALLS = {
    *("killpg", "fork", "setsid", "nice", "geteuid", "getuid", "waitpid", "sysconf", "makedev"),
    *("sched_getaffinity", "prctl", "SIGKILL", "SIGBUS", "AF_UNIX", "POLLIN", "O_NOFOLLOW", "WinDLL"),
}


def test_that_calls_of_one_kind_of_system_are_in_one_file():
    found = set()
    for path in PRODUCT:
        for node in nodes(path):
            if isinstance(node, ast.Import) and SYSTEM_MODULES & {alias.name for alias in node.names}:
                found.add(name(path))
            if isinstance(node, ast.Attribute) and node.attr in SYSTEM_CALLS:
                found.add(name(path))
    # The limits are read before the current folder is left, when little may be imported.
    assert found == {"workbench/operating_system.py", "workbench/system_limits.py"}


# Packages that ExecuTorch does not bring, which an environment of another toolchain may lack.
OPTIONAL = {"onnx", "onnxruntime", "onnxscript", "onnx_ir", "ai_edge_litert", "sklearn", "pycocotools"}


def imported_at_once(path: Path) -> set[str]:
    """Return the modules that importing a file imports: those of its body, and of its classes'."""
    found = set()
    for node in tree(path).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_that_stages_import_optional_packages_only_where_they_are_used():
    by_module = {name(p).removesuffix(".py").removesuffix("/__init__").replace("/", "."): p for p in PRODUCT}
    open_modules = {
        m for m in by_module if m.startswith(("workbench.engine.stages", "workbench.engine.jobs"))
    }
    reached, optional = set(), set()
    while open_modules:
        module = open_modules.pop()
        reached.add(module)
        for imported in imported_at_once(by_module[module]):
            parents = [imported.rsplit(".", n)[0] for n in range(imported.count(".") + 1)]
            open_modules |= {m for m in parents if m in by_module} - reached
            if imported.partition(".")[0] in OPTIONAL:
                optional.add(f"{module} imports {imported}")
    assert len(reached) > 200
    assert not optional
