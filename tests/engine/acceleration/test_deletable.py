"""The accelerations can be deleted: everything works without their package, slower."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.in_process import CALIBRATED, Engine, project

pytestmark = pytest.mark.engine
ENGINE = Path(__file__).parents[3] / "workbench" / "engine"
PACKAGE = "workbench.engine.acceleration"
SEAM = "workbench.engine.toolchain_patches.patching"

_WITHOUT = f"""
import sys
from importlib.abc import MetaPathFinder

class Gone(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition("{PACKAGE}")[1]:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Gone())
from pathlib import Path
from tests.engine.acceleration.test_deletable import bytes_of
Path(sys.argv[2]).write_bytes(bytes_of(Path(sys.argv[1])))
assert not [name for name in sys.modules if name.startswith("{PACKAGE}")]
"""


def bytes_of(folder: Path) -> bytes:
    """Return the program of a calibrated network, run up to the evaluation and compiled."""
    engine = Engine(folder)
    made = project("small", "a16w8", **CALIBRATED)
    try:
        assert engine.run(made, "lower") == "done", engine.failure
        return (engine.path(made, "lower") / "program.pte").read_bytes()
    finally:
        engine.close()


@pytest.mark.slow
def test_that_without_the_accelerations_every_byte_is_the_same(tmp_path):
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    command = [sys.executable, "-c", _WITHOUT, tmp_path / "without", tmp_path / "program.pte"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "program.pte").read_bytes() == bytes_of(tmp_path / "with")


def imports(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def test_that_one_module_imports_the_accelerations_and_they_import_one_module():
    users, used = set(), set()
    for path in ENGINE.rglob("*.py"):
        names = imports(path)
        if path.parent.name == "acceleration":
            used |= {name for name in names if name.startswith("workbench.")}
        elif any(name.startswith(PACKAGE) for name in names):
            users.add(path.relative_to(ENGINE).as_posix())
    assert users == {"runtime/accelerated.py"}
    assert {name for name in used if not name.startswith(PACKAGE)} == {SEAM}
