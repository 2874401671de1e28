"""The script of a project has a part for each thing the project asks for, and no other."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

from tests.fakes.projects import make_project
from tests.for_each import for_each
from workbench.project import edits
from workbench.project.configs import Activation, Observer, QuantConfig
from workbench.project.model import DataSource, ModelSource, TargetChoice
from workbench.project.opened import OpenProject
from workbench.script import KnownResults, model_and_data, quantizer, script
from workbench.targets.ethos_u.corrections import CORRECTIONS
from workbench.targets.ethos_u.rewrites import REWRITES


def observed(kind, **fields):
    return QuantConfig(activation=Activation(observer=Observer(kind=kind, **fields)))


@pytest.fixture
def written(tmp_path):
    """Return what writes the script of a project, which is valid Python."""
    (tmp_path / "net.pt2").write_bytes(b"")

    def write(project, **options):
        text = script(OpenProject(project, tmp_path), tmp_path / "make.py", **options)
        compile(text, "make.py", "exec")
        return text

    return write


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The script of a project that asks for nothing of its own."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "net.pt2").write_bytes(b"")
    text = script(OpenProject(make_project(), folder), folder / "make.py")
    compile(text, "make.py", "exec")
    return text


def names_in(statement):
    """Return the names that a statement of a module defines, without imports."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    stored = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return [node.id for node in stored if isinstance(node.ctx, ast.Store)]


def test_that_the_parts_that_a_script_carries_have_no_name_in_common():
    values = [*vars(quantizer).values(), *vars(model_and_data).values()]
    files = {value for value in values if isinstance(value, Path) and value.suffix}
    files |= {
        path for value in values if isinstance(value, tuple) for path in value if isinstance(path, Path)
    }
    # Within a file a name may stand for several things in turn; _ATEN is the same in all.
    meanings = defaultdict(set)
    for path in files:
        for statement in ast.parse(path.read_text()).body:
            for name in names_in(statement):
                is_equal = isinstance(statement, ast.Assign) and len(statement.targets) == 1
                meanings[name].add(ast.unparse(statement) if is_equal else path)
    assert len(files) > 10
    assert [name for name, known in meanings.items() if len(known) > 1] == []


def test_that_rewrites_are_imported_from_beside_the_script(written):
    imported = {
        (node.module, alias.name)
        for node in ast.parse(written(make_project())).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    copied = quantizer.copied_corrections()
    for row in REWRITES:
        assert (f"ethos_u_corrections.rewrites.{row.module}", row.function) in imported
        assert f"def {row.function}(" in copied[f"ethos_u_corrections/rewrites/{row.module}.py"]
    target = make_project().target
    options = {**target.options, **dict.fromkeys((row.id for row in REWRITES), False)}
    off = edits.set_target(make_project(), target.model_copy(update={"options": options}))
    assert "_corrections.rewrites" not in written(off)


def test_that_a_plain_project_needs_no_observer_and_no_partitioner_of_its_own(plain):
    assert "class PercentileObserver" not in plain
    assert "ethos-u55-128" in plain
    assert "Shared_Sram" in plain
    assert plain.endswith("\n")


@for_each("config", [observed("percentile", percentile=99.5), observed("fixed", minimum=-1, maximum=1)])
def test_that_observers_torchao_lacks_are_written_out(written, config):
    project = edits.assign(make_project(), "module_name", "body", config)
    assert "class PercentileObserver" in written(project)


def test_that_ranges_in_numbers_are_written(written):
    project = edits.fix_range(make_project(), "relu", -0.125, 2.75)
    text = written(project)
    assert "class PercentileObserver" in text
    assert "2.75" in text
    assert "-0.125" in text
    assert "7.625" in written(project, ranges={"relu": (0.0, 7.625)})


def test_that_rules_are_written_with_what_they_match(written, plain):
    project = edits.assign(make_project(), "module_name", "body.conv", "a16w8")
    project = edits.assign(project, "module_type", "torch.nn.modules.linear.Linear", "a8w8")
    project = edits.assign(project, "node_target", "aten.mul.Tensor", "a16w8")
    project = edits.assign(project, "node_name", "add_3", "a16w8")
    text = written(project)
    for match in ("body.conv", "Linear", "mul.Tensor", "add_3"):
        assert match in text
    assert "add_3" not in plain


def test_that_what_a_rule_keeps_off_the_npu_is_written(written, plain):
    kept = written(edits.assign(make_project(), "module_name", "head", "cpu"))
    assert "head" in kept
    assert len(kept) > len(plain)


def test_that_options_of_the_compiler_are_written(written, plain):
    options = {**make_project().target.options, "optimise": "Size"}
    project = edits.set_target(make_project(), TargetChoice(id="ethos-u55-128", options=options))
    assert "Size" in written(project)
    assert "Size" not in plain


def test_that_the_model_of_a_python_file_is_imported_from_it(written, plain, tmp_path):
    (tmp_path / "mine.py").write_text("def net(): ...\n")
    project = edits.set_model(make_project(), ModelSource(spec="mine.py:net"))
    text = written(project)
    assert "mine" in text
    assert "net.pt2" not in text
    assert "net.pt2" in plain


@pytest.mark.parametrize(
    "project",
    [
        edits.set_improver(make_project(), "equalize", on=True),
        make_project().model_copy(update={"target": TargetChoice(id="formats")}),
    ],
    ids=["improved", "formats"],
)
def test_that_a_project_without_a_script_is_refused(written, project):
    from workbench.errors import WorkbenchError

    with pytest.raises(WorkbenchError) as caught:
        written(project)
    assert caught.value.infos[0].where.kind == "option"


def test_that_compression_and_trained_weights_are_written_in_their_order(written, plain):
    project = edits.compress(make_project(), "body.conv", channels=8)
    project = edits.use_trained(edits.compress(project, "", clusters=15), "w.safetensors")
    text = written(project)
    steps = ["prune(module, {'body.conv': 8})", "'w.safetensors'", "cluster(module, {'': 15})"]
    places = [text.index(step) for step in steps]
    assert places == sorted(places)
    assert "def prune(" not in plain


def test_that_no_two_parts_of_a_script_have_the_same_name_for_different_things(written):
    project = edits.compress(make_project(), "", clusters=15)
    options = {**project.target.options, "integer_io": True}
    project = edits.set_target(project, TargetChoice(id="ethos-u55-128", options=options))
    project = edits.assign(project, "module_name", "body", "cpu")
    known = defaultdict(list)
    for node in ast.parse(written(project)).body:
        names = [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        for name in names:
            known[name].append(node)
    several = {name: nodes for name, nodes in known.items() if len(nodes) > 1}
    assert [n for n, nodes in several.items() if len(set(map(ast.dump, nodes))) > 1] == []


def text_of(project, folder, **options):
    """Return the script of a project, which ``written`` also compiles."""
    (folder / "net.pt2").write_bytes(b"")
    return script(OpenProject(project, folder), folder / "make.py", **options)


def with_options(**options):
    base = make_project()
    choice = TargetChoice(id=base.target.id, options={**base.target.options, **options})
    return edits.set_target(base, choice)


INI = """[System_Config.Mine]
core_clock=400e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale=1.0
OffChipFlash_clock_scale=0.1
[Memory_Mode.Flash]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0
"""


@for_each(
    ("project", "calls"),
    [
        (edits.fix_range(make_project(), "relu", 0.0, 1.0), ["fix_ranges(prepared, RANGES)"]),
        (
            edits.assign(make_project(), "module_name", "head", "cpu"),
            ["additional_checks=[", "KeptOff([('module_name', 'head')])"],
        ),
        (with_options(external_weights=True), ["made.write_tensor_data_to_file(out.parent)"]),
        (with_options(integer_io=True), ["edge = with_integer_borders(edge)"]),
        (
            with_options(config_ini="own.ini", system_config="Mine", memory_mode="Flash"),
            ["with own_ini_at_hand():"],
        ),
        (
            edits.set_calibration(make_project(), DataSource(spec="t.txt")),
            [
                "constant_methods=methods_for_runners(program, inputs)",
                "def methods_for_runners(",
                "runtime_form(edge.exported_program())",
            ],
        ),
    ],
)
def test_that_a_step_is_called_only_where_the_project_asks_for_it(plain, tmp_path, project, calls):
    (tmp_path / "own.ini").write_text(INI)
    text = text_of(project, tmp_path)
    for call in calls:
        assert call in text
    assert [call for call in calls if call in plain] == []


def test_that_buffers_are_kept_or_refused(written, plain, tmp_path):
    text = written(edits.set_calibration(make_project(), DataSource(spec="t.txt")))
    assert "if program.run_decompositions({})" in plain
    assert "if program.run_decompositions({})" not in text
    arrays = edits.set_calibration(make_project(), DataSource(spec="d.npz"))
    assert "def methods_for_runners(" not in text_of(arrays, tmp_path)
    # A decoder keeps its state between steps, and is calibrated by its own function.
    assert "    loops = " in plain
    assert "    loops = " not in text


def test_that_numbers_of_methods_are_told_from_numbers_of_the_user(tmp_path):
    def remark(project, **options):
        lines = text_of(project, tmp_path, **options).splitlines()
        place = next(k for k, line in enumerate(lines) if line.startswith("RANGES = "))
        return lines[place - 1].startswith("#")

    project = edits.fix_range(make_project(), "relu", 0.0, 1.0)
    assert not remark(project)
    assert not remark(project, ranges={"relu": (0.0, 1.0)})
    assert remark(project, ranges={"relu": (0.0, 1.0), "add": (0.0, 2.0)})
    assert not remark(make_project())


def test_that_corrections_run_around_the_compiler_and_before_calibration(plain):
    around = "    with corrected_compiler(CORRECTIONS), corrected(CORRECTIONS):\n        edge = "
    assert around in plain
    assert plain.index("made_foldable(module, ") < plain.index("prepare_pt2e(module, ")
    for row in CORRECTIONS:
        assert f"        {row.module}.{row.id},\n" in plain


def test_that_branches_are_named_only_where_a_program_has_some(tmp_path):
    project = edits.assign(make_project(), "module_name", "body", "a16w8")
    assert "name_modules(program" in text_of(project, tmp_path, known=KnownResults(branches=True))
    assert "name_modules(program" not in text_of(project, tmp_path)


def test_that_a_script_leaves_the_layers_that_a_run_left_as_they_are_written(tmp_path):
    known = KnownResults(as_written={"strides_to_channels": ("conv2d",)})
    line = "    made.as_written = {'strides_to_channels': ('conv2d',)}"
    assert line in text_of(make_project(), tmp_path, known=known)
    assert "as_written" not in text_of(make_project(), tmp_path)
