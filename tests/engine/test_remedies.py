"""Every remedy for a network that is refused is followed to its end, and leads to a program."""

import ast
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from tests.engine.in_process import NETWORKS, project
from tests.engine.refused_networks import layers
from tests.engine.remedies import follow
from workbench.project import edits
from workbench.project.model import DataSource, ModelSource, TargetChoice

pytestmark = pytest.mark.engine

FILE = NETWORKS.with_name("refused_networks.py")
ROOT = Path(__file__).parents[2]
U85 = "ethos-u85-256"


@dataclass(frozen=True)
class Remedy:
    """A network that is refused, and what its message proposes.

    Attributes:
        code: Of the refusal.
        network: Of ``refused_networks.py``.
        instead: The network that the message proposes; the same by default.
        target: The device that it proposes.
        samples: Of the same file, for calibration.
    """

    code: str
    network: str
    instead: str = ""
    target: str = ""
    samples: str = ""

    def before(self):
        """Return the project that is refused."""
        data = DataSource(spec=f"{FILE.name}:{self.samples}") if self.samples else None
        return project(f"{FILE.name}:{self.network}", calibration=data)

    def after(self):
        """Return the project once the remedy was followed."""
        made = self.before()
        if self.instead:
            made = edits.set_model(made, ModelSource(spec=f"{FILE.name}:{self.instead}"))
        if self.target:
            made = edits.set_target(made, TargetChoice(id=self.target))
        return made


def rewritten(code, network, instead="", **fields):
    return Remedy(code, network, instead or f"{network}_remedied", **fields)


REMEDIES = [
    rewritten("model-scripted", "scripted"),
    rewritten("model-quantized", "quantized"),
    rewritten("model-half-precision", "half"),
    rewritten("model-not-initialized", "lazy"),
    rewritten("model-without-values", "on_meta"),
    rewritten("model-sparse", "sparse"),
    rewritten("model-exported", "exported", "layers_in_eval"),
    rewritten("model-quantized", "observed"),
    rewritten("model-quantized", "trained_for_integers", "observed_remedied"),
    rewritten("model-inputs-invalid", "named_picture", "layers_in_eval"),
    rewritten("model-input-not-tensor", "set_input"),
    rewritten("export-failed", "mapped"),
    rewritten("operator-with-check", "inverted"),
    rewritten("input-bfloat16", "bfloat16_input"),
    rewritten("model-input-empty", "empty_input", "layers_in_eval"),
    rewritten("output-empty", "empty_output"),
    rewritten("value-complex", "complex_output"),
    rewritten("value-complex", "complex_input"),
    rewritten("complex-not-supported", "complex_sign"),
    rewritten("attention-not-supported", "flexible_attention"),
    rewritten("value-quantized", "quantized_value", "doubled_value"),
    rewritten("weight-not-finite", "infinite_weight", "layers_in_eval"),
    rewritten("export-failed", "own_gradient", "layers_in_eval"),
    rewritten("exported-program-differs", "packed_encoder"),
    rewritten("model-not-module", "no_module"),
    rewritten("parameter-written", "written_parameter"),
    rewritten("model-outputs-random", "random_outputs"),
    rewritten("model-outputs-random", "random_noise", "random_noise_buffer"),
    rewritten("export-failed", "looked_into"),
    rewritten("export-failed", "misfit"),
    rewritten("size-from-data", "chosen_by_size", "chosen_by_size_mask"),
    rewritten("size-from-data", "chosen_by_size", "chosen_by_size_topk"),
    rewritten("number-from-data", "number_of_data"),
    rewritten("float64-not-quantized", "double_input", "layers_in_eval"),
    rewritten("branches-not-supported", "branch", samples="both_signs"),
    Remedy("branches-not-supported", "branch", target=U85, samples="both_signs"),
    rewritten("write-not-supported", "written_windows"),
    rewritten("batch-norm-without-statistics", "present_statistics", "present_statistics_running"),
    rewritten("batch-norm-without-statistics", "present_statistics", "present_statistics_instance"),
    rewritten("tensor-not-finite", "divided_by_zero"),
    rewritten("operator-without-kernel", "foreign"),
    rewritten("operator-failed", "margin_loss"),
]


@pytest.mark.slow
@pytest.mark.parametrize("remedy", REMEDIES, ids=lambda remedy: f"{remedy.code} {remedy.instead}")
def test_that_a_remedy_leads_to_a_program(engine, remedy):
    shutil.copy(FILE, engine.folder)
    follow(engine, remedy.code, remedy.before(), remedy.after())


def saved(engine, name, **fields):
    program = torch.export.export(layers(), (torch.randn(2, 2, 8, 8),), **fields)
    torch.export.save(program, engine.folder / name)
    return edits.set_model(project("small"), ModelSource(spec=name))


@pytest.mark.slow
def test_that_a_program_with_free_sizes_goes_once_it_is_exported_without_them(engine):
    free = saved(engine, "free.pt2", dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=9)},))
    follow(engine, "dynamic-shape-not-supported", free, saved(engine, "fixed.pt2"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "written_by"),
    [("places_written_twice", "aten.index_put_.default"), ("rows_written_twice", "aten.index_copy.default")],
)
def test_that_a_place_that_is_written_twice_is_written_on_the_cpu(engine, network, written_by):
    shutil.copy(FILE, engine.folder)
    refused = project(f"{FILE.name}:{network}", target=U85)

    def on_cpu(problem):
        (operator,) = re.findall(r"--match (\S+)", problem.hint)
        assert operator == written_by
        return edits.assign(refused, "node_target", operator, "cpu")

    follow(engine, "place-written-twice", refused, on_cpu)


# The modules that refuse networks, and what they refuse besides: files, data and options; and faults
# of passes and tools, which no network has while their corrections are on.
REFUSING = (
    "engine/calibration/sample_extrema.py",
    "engine/equivalence/forms.py",
    "engine/ethos_u/lowering.py",
    "engine/ethos_u/quantization.py",
    "engine/ethos_u/refusals.py",
    "engine/loading/forms.py",
    "engine/loading/models.py",
    "engine/quantization/float_layers.py",
    "engine/runtime/memory_check.py",
    "engine/stages/convert.py",
    "engine/stages/export.py",
    "engine/stages/import_model.py",
    "engine/stages/prepare.py",
    "targets/ethos_u/forecast.py",
)
NO_NETWORK = {
    *("code-not-trusted", "model-file-missing", "model-file-unreadable", "model-inputs-missing"),
    *("model-inputs-unreadable", "model-inputs-too-large", "operator-unknown"),
    *("output-not-divided", "output-not-split", "pattern-rules-not-supported"),
    *("cmsis-nn-not-supported", "vela-arguments-rejected"),
    *("vela-compile-failed", "lowering-failed", "operator-without-out-variant"),
}


def _codes(path):
    """Yield the codes of calls, and of tuples that say what is refused, what to do, and the code."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        code = node.value if isinstance(node, ast.keyword) and node.arg == "code" else None
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            code = node.value.elts[-1] if node.value.elts else None
        if isinstance(code, ast.Constant) and re.fullmatch("[a-z0-9-]+", str(code.value)):
            yield code.value


def _followed():
    """Yield the codes that tests follow: of literals in calls of ``follow`` and ``follow_forecast``."""
    for path in Path(__file__).parent.rglob("test_*.py"):
        tests = [n for n in ast.parse(path.read_text(encoding="utf-8")).body if _is_test(n)]
        for call in (node for test in tests for node in ast.walk(test) if isinstance(node, ast.Call)):
            is_follow = getattr(call.func, "id", "") in {"follow", "follow_forecast"}
            if is_follow and isinstance(call.args[1], ast.Constant):
                yield call.args[1].value


def _is_test(node):
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test_")


def test_that_the_remedy_of_every_refusal_of_a_network_is_followed():
    refused = {code for path in REFUSING for code in _codes(ROOT / "workbench" / path)}
    assert refused - {remedy.code for remedy in REMEDIES} - set(_followed()) == NO_NETWORK


def test_that_a_remedy_that_does_not_help_fails_the_test_that_follows_it(engine):
    shutil.copy(FILE, engine.folder)
    refused = project(f"{FILE.name}:scripted")
    with pytest.raises(AssertionError):
        follow(engine, "model-scripted", refused, refused)
    with pytest.raises(AssertionError):
        follow(engine, "model-scripted", refused)
    with pytest.raises(AssertionError):
        follow(engine, "model-sparse", refused, project(f"{FILE.name}:scripted_remedied"))
