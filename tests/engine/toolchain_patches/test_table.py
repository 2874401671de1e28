"""Every patch of a third-party library is a row of one table, or a correction."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path

import pytest

from workbench.engine.acceleration.decomposition_cache import PINS as FUNCTIONAL_PINS
from workbench.engine.acceleration.fake_tensor_cache import PINS as MEMORY_PINS
from workbench.engine.acceleration.fake_tensor_cache import UNREAD
from workbench.engine.acceleration.fast_retrace import PINS as RETRACE_PINS
from workbench.engine.acceleration.signature_maps import PINS as SIGNATURE_PINS
from workbench.engine.acceleration.table import LOWERING, OTHERS
from workbench.engine.ethos_u.applied_corrections import pins_of
from workbench.engine.toolchain_patches import gate, patching
from workbench.engine.toolchain_patches.table import PATCHES as STANDING
from workbench.errors import WorkbenchError
from workbench.targets.ethos_u.corrections import CORRECTIONS

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore::FutureWarning")]

ENGINE = Path(gate.__file__).parents[1]
# Where attributes are replaced: what the program needs, what makes it quicker, what it captures
# and what it keeps between edits.
ROOMS = tuple(
    ENGINE / name
    for name in (
        "toolchain_patches",
        "acceleration",
        "runtime",
        "ethos_u/capture",
        "ethos_u/transform_memory.py",
        "calibration",
    )
)
PATCHES = (*STANDING, *LOWERING, *OTHERS)
CORRECTIONS_ROOM = ENGINE / "ethos_u" / "corrections"
# The modules of corrections that patch, and what they write to beside the functions that they pin.
PATCHING = ("annotation_patches", "lowering_patches", "int16_tables", "vela")
BESIDE_PINS = {"regor"}
# Their rows are "user-modules", the modules of users under their own names, and "causal-where-said",
# in a file that scripts contain and that depends on torch only.
OF_USERS = {
    "code_import.py": {"sys.modules", "sys.path"},
    "program_outputs.py": {"transformer._detect_is_causal_mask"},
}
_STATEMENTS = (ast.Import, ast.ImportFrom, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete, ast.Call)


@functools.cache
def trees() -> tuple[tuple[Path, ast.Module], ...]:
    paths = sorted(ENGINE.rglob("*.py"))
    return tuple((path, ast.parse(path.read_text(encoding="utf-8"))) for path in paths)


def trees_of_the_room() -> list[ast.Module]:
    return [tree for path, tree in trees() if is_patching(path)]


def is_patching(path: Path) -> bool:
    return any(room == path or room in path.parents for room in ROOMS)


def is_inside(path: Path) -> bool:
    return is_patching(path) or CORRECTIONS_ROOM in path.parents


@functools.cache
def statements(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Return all imports, writes and calls of a module."""
    return tuple(node for node in ast.walk(tree) if isinstance(node, _STATEMENTS))


def foreign_names(tree: ast.Module) -> set[str]:
    """Return the names that are bound to modules and classes of other projects."""
    names: set[str] = set()
    for node in statements(tree):
        if isinstance(node, ast.Import):
            names |= {
                (alias.asname or alias.name).partition(".")[0]
                for alias in node.names
                if not alias.name.startswith("workbench")
            }
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("workbench"):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def targets(node: ast.AST) -> list[ast.expr]:
    """Return what a statement or a call writes to."""
    if isinstance(node, ast.Assign):
        found = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        found = [node.target]
    elif isinstance(node, ast.Delete):
        found = node.targets
    else:
        return []
    return [each for one in found for each in (one.elts if isinstance(one, ast.Tuple) else [one])]


def written(tree: ast.Module) -> set[str]:
    """Return the foreign attributes that a module writes to, as dotted names."""
    foreign = foreign_names(tree)
    found: set[str] = set()
    for node in statements(tree):
        for target in targets(node):
            attribute = target.value if isinstance(target, ast.Subscript) else target
            if isinstance(attribute, ast.Attribute) and root(attribute) in foreign:
                found.add(ast.unparse(attribute))
        if isinstance(node, ast.Call) and name_of(node.func) in {"setattr", "delattr"}:
            owner = ast.unparse(node.args[0])
            if owner.partition(".")[0] in foreign:
                found.add(f"{owner}.{ast.unparse(node.args[1])}")
    return found


def root(attribute: ast.Attribute) -> str:
    value: ast.expr = attribute
    while isinstance(value, ast.Attribute):
        value = value.value
    return name_of(value)


def name_of(value: ast.expr) -> str:
    return value.id if isinstance(value, ast.Name) else ""


def test_that_no_module_outside_the_room_writes_to_a_foreign_module_or_class() -> None:
    found = {
        path.name: names - OF_USERS.get(path.name, set())
        for path, tree in trees()
        if not is_inside(path) and (names := written(tree))
    }
    assert {name: names for name, names in found.items() if names} == {}


def test_that_such_a_write_would_be_found() -> None:
    code = (
        "import tempfile, sys\nfrom torch import nn\nimport torch.fx\n"
        "tempfile.tempdir = None\nsys.modules['a'] = 1\nsetattr(nn.Module, 'x', 1)\n"
        "torch.fx.Graph.lint, y = 1, 2\ndel nn.x\n"
    )
    assert written(ast.parse(code)) == {
        "tempfile.tempdir",
        "sys.modules",
        "nn.Module.'x'",
        "torch.fx.Graph.lint",
        "nn.x",
    }


def test_that_only_the_room_uses_what_replaces_attributes() -> None:
    users = [
        path.name
        for path, tree in trees()
        if not is_patching(path)
        for node in statements(tree)
        if isinstance(node, ast.ImportFrom)
        and ("replaced" in {alias.name for alias in node.names} or node.module == "unittest")
    ]
    assert users == []


def test_that_every_replaced_attribute_is_named_by_a_row() -> None:
    named = {path.rpartition(":")[2].rpartition(".")[2] for row in PATCHES for path in row.patches}
    replaced = {
        node.args[1].value
        for tree in trees_of_the_room()
        for node in statements(tree)
        if isinstance(node, ast.Call)
        and name_of(node.func) == "replaced"
        and isinstance(node.args[1], ast.Constant)
    }
    assert len(replaced) > 10
    assert replaced <= named


def test_that_every_attribute_written_in_the_room_is_named_by_a_row() -> None:
    named = {path.rpartition(":")[2].rpartition(".")[2] for row in PATCHES for path in row.patches}
    # Writes that are a part of the room's own work, not patches: of fast_retrace, and of imports.
    own = {"traceback.current_meta", "os.environ"}
    found = {name for tree in trees_of_the_room() for name in written(tree)} - own
    assert {name.rpartition(".")[2].strip("'") for name in found} <= named


def test_that_at_most_12_corrections_patch_and_pin_what_they_write_to() -> None:
    patching_rows = [row for row in CORRECTIONS if row.module in PATCHING]
    assert len(patching_rows) <= 12
    pinned = {path for row in patching_rows for pins in pins_of(row) for path, _ in pins}
    assert all(pins_of(row) for row in patching_rows)
    rows = {path for row in PATCHES for path in row.patches}
    named = {path.rpartition(":")[2].rpartition(".")[2] for path in pinned | rows} | BESIDE_PINS
    for path, tree in trees():
        if CORRECTIONS_ROOM in path.parents:
            names = {name.rpartition(".")[2].strip("'") for name in written(tree)}
            assert names <= named, path.name
            assert not names or path.stem in (*PATCHING, "quantizer", "decomposition_tracking")


def test_that_what_rows_replace_exists_in_the_installed_versions() -> None:
    missing = [path for row in PATCHES for path in row.patches if not gate.exists(path)]
    assert missing == []


def test_that_ids_are_unique_and_every_row_says_what_it_was_proven_with() -> None:
    assert len({row.id for row in PATCHES}) == len(PATCHES)
    assert all(row.proven and row.what and row.why_safe for row in PATCHES)
    is_stock = {row.id for row in PATCHES if row.on_mismatch == "stock"}
    # Only the report of progress depends on the watched passes.
    assert is_stock == {"watched-passes"} | {row.id for row in PATCHES if row.kind == "acceleration"}


def test_that_the_pinned_functions_have_the_source_they_had() -> None:
    own = (MEMORY_PINS, FUNCTIONAL_PINS, RETRACE_PINS, SIGNATURE_PINS)
    pins = (*(pin for some in own for pin in some), *(pin for _, pin in UNREAD.values()))
    assert patching.changed(pins) == ()


def test_that_another_source_is_noticed_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    pins = (("torch.fx.graph:Graph.lint", "0" * 16),)
    assert not patching.sources_match("The patch", pins)
    assert "torch.fx.graph:Graph.lint" in caplog.text
    assert patching.changed((("torch.fx.graph:Graph.gone", "0" * 16),))


def test_that_a_function_that_is_only_called_may_have_any_code_but_has_to_exist() -> None:
    gone = ("torch.fx.graph:Graph.gone", patching.ANY_CODE)
    assert patching.changed((("torch.fx.graph:Graph.lint", patching.ANY_CODE), gone)) == (gone[0],)


def test_that_a_needed_attribute_that_is_missing_is_told_with_the_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import tempfile

    gate.require("vela-folder")
    monkeypatch.delattr(tempfile, "tempdir")
    with pytest.raises(WorkbenchError) as caught:
        gate.require("vela-folder")
    (info,) = caught.value.infos
    assert "tempfile:tempdir" in info.message
    assert "ethos-u-vela 5.1.0" in info.hint


def test_that_the_table_can_be_read_without_torch() -> None:
    import subprocess

    code = (
        "import sys, workbench.engine.toolchain_patches.gate, "
        "workbench.engine.runtime.imports; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
