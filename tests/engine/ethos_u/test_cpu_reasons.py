"""Reasons for operators on the CPU name the device in use, and the limit that holds for it."""

import ast
import shutil
from pathlib import Path

import pytest
from executorch.backends.arm import operator_support

from tests.engine import layer_networks
from tests.engine.in_process import project
from workbench.engine.ethos_u.cpu_reasons import in_words

pytestmark = pytest.mark.engine


def reasons_of_executorch():
    """Yield what ExecuTorch's checks say, with 7 in the place of each value."""
    for path in Path(operator_support.__file__).parent.glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "report_reject":
                text = call.args[1]
                parts = text.values if isinstance(text, ast.JoinedStr) else [text]
                yield "".join(p.value if isinstance(p, ast.Constant) else "7" for p in parts)


def test_that_a_reason_names_no_other_device_than_the_one_in_use():
    reasons = [*reasons_of_executorch()]
    assert any("U55" in reason for reason in reasons)
    for reason in reasons:
        _, words = in_words(reason, "aten.relu.default", "Ethos-U65", at_border=False)
        assert "U55" not in words
        assert "U65" in words or "U55" not in reason


# The layer, and what its reason says beside the device.
LAYERS = [
    ("wide_pool", ("256 columns", "[1, 300]")),
    ("strided_means", ("at most 3", "[4, 4]")),
    ("padded_means", ("at most 8 rows and columns", "beyond the picture", "[9, 9]")),
    ("means_of_a_batch", ("one picture", "2")),
    ("turned_with_stride", ("1 or 2", "(3, 3)")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("layer", "words"), LAYERS, ids=[layer for layer, _ in LAYERS])
@pytest.mark.parametrize("device", ["ethos-u55-128", "ethos-u65-256"])
def test_that_a_reason_says_which_limit_of_the_device_holds(device, layer, words, engine):
    shutil.copy(Path(layer_networks.__file__), engine.folder)
    made = project(f"layer_networks.py:{layer}", "a8w8", device)
    assert engine.run(made, "lower", "evaluate") == "done", engine.failure
    (reason,) = {node.reason for node in engine.result(made, "lower").cpu_nodes if node.cause == "other"}
    assert f"Ethos-{device[6:9].upper()}" in reason
    assert all(word in reason for word in words), reason
