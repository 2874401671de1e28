import json

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.project.builders import make_project
from workbench.cli import main
from workbench.graph.snapshot import GraphSnapshot
from workbench.project import edits, store
from workbench.project.configs import A8W8, PRESETS_BY_ID, FormatConfig, PluginConfig
from workbench.project.model import TargetChoice
from workbench.project.rules import ModuleRef, NodeRef, resolve
from workbench.targets import TARGETS, target_of
from workbench.targets.formats.schemes import SPECS, bits_of, block_sizes, shared_dimension

CHOICE = TargetChoice(id="formats")
FORMATS = target_of("formats")


def refusal(scheme, kind="global", *, mase=False, **parameters):
    config = FormatConfig(scheme=scheme, parameters=parameters, mase_compatible=mase)
    return FORMATS.refusal(CHOICE, config, kind)


def test_that_each_target_takes_its_own_first_config():
    for target in TARGETS:
        first = PRESETS_BY_ID[target.first_config].config
        choice = target.complete(TargetChoice(id=target.variants[0].id))
        assert target.refusal(choice, first, "global") == ""
        others = [t for t in TARGETS if t is not target]
        assert all(target.refusal(choice, PRESETS_BY_ID[t.first_config].config, "global") for t in others)


@for_each(
    ("said", "words"),
    [
        ({"scheme": "integer", "width": 8}, "needs 'frac_width'"),
        ({"scheme": "integer", "width": 99, "frac_width": 4}, "must be from 1 to 32"),
        ({"scheme": "integer", "width": 8, "frac_width": 4, "weight_widht": 3}, "weight_widht"),
        ({"scheme": "nvfp4", "mase": True}, "MASE has no nvfp4"),
        ({"scheme": "scale_integer", "width": 8}, "arrays only"),
        ({"scheme": "bfloat"}, "'bfloat'"),
        ({"scheme": "minifloat_ieee", "width": 4, "exponent_width": 4}, "at least 5, not 4"),
        ({"scheme": "minifloat_denorm", "width": 5, "exponent_width": 4}, "at least 6"),
        ({"scheme": "minifloat_ieee", "width": 16, "exponent_width": 9}, "2^256"),
        ({"scheme": "log", "width": 1}, "width from 2 to 12"),
        ({"scheme": "mxfp", "exponent_width": 3, "frac_width": 3}, "no element E3M3"),
        (
            {"scheme": "block_log", "width": 4, "exponent_bias_width": 8, "block_size": [0]},
            "blocks without elements",
        ),
        ({"scheme": "mxint_hardware", "width": 8, "exponent_width": 4, "parallelism": [4]}, "two numbers"),
        ({"scheme": "nvfp4", "kind": "io"}, "not to inputs and outputs"),
    ],
)
def test_that_a_format_that_cannot_be_is_refused_with_its_reason(said, words):
    assert words in refusal(**said)


def test_that_parameters_of_the_data_alone_are_a_format_of_the_data():
    assert refusal("integer", data_in_width=8, data_in_frac_width=4) == ""
    assert refusal("integer", data_in_width=8, data_in_frac_width=4, weight_width=8)
    assert refusal("integer", weight_width=8, weight_frac_width=4)


def test_that_a_default_is_a_valid_value_of_its_parameter():
    for spec in SPECS:
        for parameter in spec.parameters:
            if not parameter.required:
                assert parameter.problem(parameter.default) == "", (spec.name, parameter.name)


def test_that_integers_on_ranges_and_formats_do_not_mix():
    assert "not integer configs" in FORMATS.refusal(CHOICE, A8W8, "global")
    ethos = TargetChoice(id="ethos-u55-128")
    config = FormatConfig(scheme="nvfp4")
    assert "only emulated" in target_of(ethos.id).refusal(ethos, config, "global")
    assert "not patterns" in target_of(ethos.id).refusal(ethos, A8W8, "pattern")


def test_that_a_project_with_formats_is_read_as_it_was_written():
    config = FormatConfig(scheme="integer", parameters={"data_in_width": 8}, mase_compatible=True)
    made = edits.assign(make_project(), "pattern", "blk_.*", config)
    assert store.parse(store.dump(made).encode(), "p") == made


def test_that_patterns_fit_whole_names_of_nodes_and_modules():
    modules = [ModuleRef("", "Net"), ModuleRef("blk", "Seq"), ModuleRef("blk.0", "Linear")]
    node = NodeRef("linear", "aten.linear.default", tuple(modules))
    for pattern in ("blk_0", r"blk\.\d", "lin.*", "linear"):
        made = edits.assign(make_project(), "pattern", pattern, "integer-8")
        assert resolve(made, modules, [node]).nodes["linear"].label == "integer-8"
    for pattern in ("lk_0", "linea", "[", "blk"):
        made = edits.assign(make_project(), "pattern", pattern, "integer-8")
        assert resolve(made, modules, [node]).nodes["linear"].rule is None


@for_each(
    ("scheme", "parameters", "shape", "bits"),
    [
        ("integer", {"width": 8, "frac_width": 4}, (64, 64), 8.0),
        ("binary", {}, (64, 64), 1.0),
        ("binary_residual", {"levels": 3}, (64, 64), 1.0),
        ("logicnets", {"width": 4, "frac_width": 1}, (64, 64), 32.0),
        ("mxfp", {"exponent_width": 2, "frac_width": 1}, (64, 1, 3, 3), 12.0),
        ("mxfp", {"exponent_width": 2, "frac_width": 1}, (8, 40), 4 + 8 * 2 / 40),
        ("block_fp", {"width": 7, "exponent_width": 8, "block_size": [1, 16]}, (64, 64), 7.5),
        ("block_fp", {"width": 7, "exponent_width": 8, "block_size": [1, 16]}, (64, 4), 9.0),
        ("block_fp", {"width": 7, "exponent_width": 8, "block_size": [16]}, (64, 64), 7 + 8 / 1024),
        ("mxint", {"width": 8}, (64, 64), 8.25),
        ("mxfp", {"exponent_width": 2, "frac_width": 1}, (64, 64), 4.25),
        ("nvfp4", {}, (64, 64), 4.5),
        ("ternary", {}, (64, 64), 2.0),
        ("minifloat_mx", {"exponent_width": 5, "frac_width": 2}, (64, 64), 8.0),
        ("lutnet", {}, (64, 64), 1.0),
        ("binary_residual", {"binary_training": False}, (64, 64), 32.0),
        ("mxint_hardware", {"width": 8, "exponent_width": 4, "parallelism": [2, 4]}, (3, 8, 8), 8.5),
        ("mxint_hardware", {"width": 8, "exponent_width": 4, "parallelism": [2, 4]}, (8, 8), 8.5),
    ],
)
def test_that_shared_exponents_count_among_the_bits(scheme, parameters, shape, bits):
    assert bits_of(scheme, parameters, "weight", shape) == bits


def test_that_blocks_of_data_stay_in_their_row():
    shared = {"width": 7, "exponent_width": 8, "block_size": [16]}
    assert bits_of("block_fp", shared, "data", (64, 64)) == 7.5
    assert bits_of("binary_residual", {"levels": 3}, "data", (64, 64)) == 3.0
    assert bits_of("binary_residual", {"levels": 3}, "bias", (64,)) == 32.0
    assert bits_of("binary_residual", {"residual_sign": False}, "data", (64,)) == 32.0
    assert bits_of("lutnet", {"levels": 3}, "data", (64,)) == 3.0
    four = {"width": 8, "block_size": 4}
    assert bits_of("mxint", four, "data", (6, 2)) == 12.0
    assert bits_of("mxint", four, "data", (6, 2), mase_compatible=True) == 10.0


def test_that_blocks_lie_along_a_dimension_that_the_tensor_has():
    by_role = {"block_dim": None}
    assert shared_dimension(4, by_role, "data") == -1
    assert shared_dimension(4, by_role, "weight") == shared_dimension(2, by_role, "weight") == 1
    assert shared_dimension(1, by_role, "weight") == shared_dimension(1, by_role, "bias") == 0
    assert shared_dimension(2, by_role, "bias") == 0
    assert shared_dimension(4, {"block_dim": 3}, "weight") == 3
    # The only dimension of an array is never skipped.
    rows = {"skip_first_dim": True, "block_size": (4,)}
    assert block_sizes((8,), rows, "data") == (4,)
    assert block_sizes((8, 8), rows, "data") == (1, 4)


def test_that_bits_of_parameters_out_of_range_are_refused():
    with refused("format-parameter-invalid"):
        bits_of("integer", {"width": 0, "frac_width": 0}, "data", (4,))


def test_that_the_command_line_assigns_formats_and_patterns(tmp_path, capsys):
    path = tmp_path / "net.qwb"
    store.save(make_project(target=CHOICE), path)
    config = json.dumps({"scheme": "mxint", "parameters": {"width": 6}})
    add = ["rules", str(path), "add", "--kind", "pattern", "--match", "blk_.*", "--config", config]
    assert main(add) == 0
    rule = store.load(path).rules[0]
    assert rule.config == FormatConfig(scheme="mxint", parameters={"width": 6})
    assert "regex_name" in capsys.readouterr().out
    assert main([*add[:-1], json.dumps({"scheme": "mxint"})]) == 2
    assert "needs 'width'" in capsys.readouterr().err


def test_that_the_formats_take_neither_plug_ins_nor_inputs_and_outputs():
    own = PluginConfig(reference="own.py:narrow")
    fitting = FormatConfig(scheme="integer", parameters={"width": 8, "frac_width": 4})
    assert FORMATS.refusal(CHOICE, fitting, "global") == ""
    assert FORMATS.refusal(CHOICE, None, "module_name") == ""
    for config, kind in (
        (own, "global"),
        (fitting, "finder"),
        (None, "quantizer"),
        (None, "io"),
        (fitting, "io"),
        (A8W8, "module_name"),
    ):
        assert FORMATS.refusal(CHOICE, config, kind), (config, kind)
    graph = GraphSnapshot("float", (), ())
    assert FORMATS.check(CHOICE) == FORMATS.forecast(CHOICE, graph, (), ()) == []
    assert FORMATS.warnings(CHOICE, fitting, ()) == []
    assert FORMATS.options(CHOICE) == ()
    assert FORMATS.complete(TargetChoice(id="formats", options={"optimise": "Size"})) == CHOICE
    assert FORMATS.facet(CHOICE, "compile") == FORMATS.facet(CHOICE, "quantizer") == "formats"
    assert set(FORMATS.figures(CHOICE)) == {"Numbers"}
