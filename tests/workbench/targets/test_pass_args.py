import json

import pytest

from tests.for_each import for_each
from tests.workbench.project.builders import make_project
from workbench.cli import main
from workbench.errors import WorkbenchError
from workbench.project import edits, store
from workbench.project.configs import FormatConfig
from workbench.project.model import TargetChoice
from workbench.project.rules import ModuleRef, NodeRef, resolve
from workbench.targets.formats.pass_args import parse, pass_args_of, read_args, taken, toml_of

INTEGER = {
    "name": "integer",
    "data_in_width": 8,
    "data_in_frac_width": 3,
    "weight_width": 8,
    "weight_frac_width": 4,
    "bias_width": 8,
    "bias_frac_width": 5,
}
BLOCK = {
    "name": "block_fp",
    **{
        f"{operand}_{name}": value
        for operand in ("data_in", "weight", "bias")
        for name, value in (
            ("width", 7),
            ("exponent_width", 8),
            ("exponent_bias", 127),
            ("block_size", [1, 16]),
        )
    },
}
BY_TYPE = {
    "by": "type",
    "default": {"config": {"name": None}},
    "linear": {"config": INTEGER},
    "add": {"config": BLOCK},
    "relu": {"config": {"name": None}},
}
BY_PATTERN = {
    "by": "regex_name",
    "default": {"config": INTEGER},
    "blk_0": {"config": {"name": None}},
    r"blk_\d+": {"config": BLOCK},
}


def project():
    return make_project(target=TargetChoice(id="formats"))


def imported(args, **options):
    return taken(project(), args, mase_compatible=options.get("mase_compatible", False))


@pytest.mark.parametrize("args", [BY_TYPE, BY_PATTERN], ids=["type", "regex_name"])
def test_that_what_is_taken_is_written_again(args):
    found = imported(args)
    assert found.notes == ()
    assert pass_args_of(found.project) == args
    assert parse(toml_of(args), "x.toml")["by"] == args["by"]
    assert pass_args_of(imported(parse(toml_of(args), "x.toml")).project) == args


ROUND = {
    "integer": {"width": 8, "frac_width": None},
    "fixed": {"width": 8, "frac_width": 3, "data_out_width": 8, "data_out_frac_width": 2},
    "logicnets": {"width": 2, "frac_width": 1, "data_out_width": 4, "data_out_frac_width": 1},
    "binary": {"bipolar": False},
    "binary_residual": {"levels": 3, "binary_training": False},
    "ternary": {"scaling_factor": False, "mean": 0.1},
    "minifloat_ieee": {"width": 8, "exponent_width": 4, "exponent_bias": None},
    "minifloat_denorm": {"width": 8, "exponent_width": 4, "exponent_bias": 7},
    "log": {"width": 8, "exponent_bias": 128},
    "block_fp": {"width": 7, "exponent_width": 8, "block_size": [1, 16]},
    "block_minifloat": {"width": 8, "exponent_width": 4, "exponent_bias_width": 4, "block_size": [16]},
    "block_log": {"width": 8, "exponent_bias_width": 4, "block_size": [16]},
    "lutnet": {"k": 3, "levels": 2, "in_dim": 32},
    "mxint_hardware": {"width": 12, "exponent_width": 4, "parallelism": [2, 4]},
}


@for_each("scheme", ROUND)
@for_each("kind", ["node_target", "pattern"])
def test_that_every_scheme_of_the_pass_comes_back_as_it_was_written(scheme, kind):
    config = FormatConfig(scheme=scheme, parameters=ROUND[scheme])
    match = "aten.linear.default" if kind == "node_target" else r'fc_\d+"\u00e9'
    args = pass_args_of(edits.assign(project(), kind, match, config))
    for text in (toml_of(args), json.dumps(args), repr(args)):
        found = imported(parse(text, "file"))
        assert found.notes == ()
        assert pass_args_of(found.project) == args


def test_that_lutnet_is_written_with_the_keys_the_pass_asks_for():
    config = FormatConfig(scheme="lutnet", parameters=ROUND["lutnet"])
    written = pass_args_of(edits.assign(project(), "global", "", config))["default"]["config"]
    assert {"data_in_dim", "weight_in_dim", "bias_in_dim", "data_in_levels"} < set(written)
    assert "data_in_in_dim" not in written


@for_each(
    ("scheme", "parameters", "code"),
    [
        ("integer", {"width": 8, "frac_width": 4, "floor": True}, "mase-parameter-dropped"),
        ("integer", {"width": 8, "frac_width": 4, "weight_is_signed": False}, "mase-parameter-dropped"),
        ("integer", {"width": 8, "frac_width": 4, "data_out_width": 8}, "mase-output-format-not-supported"),
        ("logicnets", {"width": 8, "frac_width": 4}, "mase-output-format-missing"),
        ("binary_residual", {"means": [0.7, 0.3]}, "mase-parameter-dropped"),
        ("block_fp", {**ROUND["block_fp"], "skip_first_dim": True}, "mase-parameter-dropped"),
    ],
)
def test_that_what_the_pass_would_drop_is_refused_instead_of_written(scheme, parameters, code):
    made = edits.assign(project(), "global", "", FormatConfig(scheme=scheme, parameters=parameters))
    with pytest.raises(WorkbenchError) as caught:
        pass_args_of(made)
    assert set(caught.value.codes) == {code}


def test_that_a_name_is_no_pattern():
    args = {"by": "name", "blk.0": {"config": INTEGER}, "fc_1": {"config": INTEGER}}
    found = imported(args)
    assert [rule.match for rule in found.project.rules] == ["fc_1"]
    assert [note.where.id for note in found.notes] == ["pass_args.blk.0"]


@for_each("text", [json.dumps(BY_TYPE), repr(BY_TYPE), toml_of(BY_TYPE)])
def test_that_json_toml_and_a_python_dict_say_the_same(text):
    assert imported(parse(text, "file")).project == imported(BY_TYPE).project


def test_that_the_first_pattern_of_a_file_wins_and_default_is_for_the_rest():
    modules = [ModuleRef("", "N"), ModuleRef("blk.0", "L"), ModuleRef("blk.1", "L")]
    nodes = [
        NodeRef(f"linear_{i}", "aten.linear.default", (modules[0], m)) for i, m in enumerate(modules[1:])
    ]
    nodes.append(NodeRef("relu", "aten.relu.default", (modules[0],)))
    found = imported(BY_PATTERN).project
    labels = resolve(found, modules, nodes).nodes
    assert [labels[n.id].label for n in nodes] == ["float", "block_fp 7", "integer 8"]


def test_that_names_of_mase_find_modules_and_nodes():
    args = {"by": "name", "blk_0": {"config": INTEGER}, "default": {"config": {"name": "NA"}}}
    chain = (ModuleRef("", "N"), ModuleRef("blk.0", "L"))
    node = NodeRef("linear", "aten.linear.default", chain)
    assert resolve(imported(args).project, chain, [node]).nodes["linear"].label == "integer 8"


def test_that_the_form_of_mase_is_taken_on_demand():
    found = imported(BY_TYPE, mase_compatible=True).project
    configs = [r.config for r in found.rules if isinstance(r.config, FormatConfig)]
    assert configs
    assert all(config.mase_compatible for config in configs)


def test_that_unknown_keys_are_told_with_their_place_and_left_out():
    args = {
        "by": "type",
        "report": True,
        "silu": {"config": INTEGER},
        "linear": {"config": {**INTEGER, "weight_widht": 3, "floor": True}, "extra": 1},
    }
    found = imported(args)
    assert [note.where.id for note in found.notes] == [
        "pass_args.report",
        "pass_args.silu",
        "pass_args.linear.extra",
        "pass_args.linear.config.weight_widht",
        "pass_args.linear.config.floor",
    ]
    assert [rule.match for rule in found.project.rules] == ["aten.linear.default"]


def test_that_a_bypassed_entry_and_one_of_the_data_alone_are_taken():
    data = {"name": "integer", "data_in_width": 8, "data_in_frac_width": 3}
    args = {"by": "type", "linear": {"config": {**INTEGER, "bypass": True}}, "relu": {"config": data}}
    found = imported(args).project
    rules = {rule.match: rule for rule in found.rules}
    assert found.config_of(rules["aten.linear.default"]) is None
    assert rules["aten.relu.default"].config.parameters == {"data_in_width": 8, "data_in_frac_width": 3}
    for config in ({"name": "integer", "weight_width": 8, "weight_frac_width": 3}, {**data, "bias_width": 8}):
        with pytest.raises(WorkbenchError) as caught:
            imported({"by": "type", "linear": {"config": config}})
        assert set(caught.value.codes) == {"format-parameter-missing"}


def test_that_a_config_the_pass_lacks_is_told_by_its_name():
    for config, named in (("nvfp4", "nvfp4"), ("a8w8", "a8w8")):
        with pytest.raises(WorkbenchError) as caught:
            pass_args_of(edits.assign(project(), "global", "", config))
        assert set(caught.value.codes) == {"mase-format-missing"}
        assert named in caught.value.infos[0].message


def test_that_all_wrong_values_are_told_at_once_with_their_place():
    wrong = {**INTEGER, "weight_width": 99}
    args = {"by": "type", "linear": {"config": wrong}, "add": {"config": {"name": "intger"}}}
    with pytest.raises(WorkbenchError) as refused:
        imported(args)
    places = [info.where.id for info in refused.value.infos]
    assert places[0] == "pass_args.linear.config.width"
    assert places[1].startswith("pass_args.add.config.")


@for_each("text", ["", "[", "3", "by = 1", "{}", "a = 1", '{"by": "tipe"}', "__import__('os')"])
def test_that_what_is_no_pass_args_is_refused_in_a_sentence(text):
    with pytest.raises(WorkbenchError):
        imported(parse(text, "file"))


def test_that_rules_mase_has_no_equal_of_are_named_and_nothing_is_written(tmp_path, capsys):
    made = edits.assign(project(), "global", "", "nvfp4")
    made = edits.assign(made, "module_type", "torch.nn.Linear", "integer-8")
    path, out = tmp_path / "net.qwb", tmp_path / "args.toml"
    store.save(made, path)
    assert main(["rules", str(path), "--json", "write-mase", str(out)]) == 2
    told = [error["code"] for error in json.loads(capsys.readouterr().out)["errors"]]
    assert set(told) == {"mase-format-missing", "mase-rule-kind-not-supported"}
    assert not out.exists()


def test_that_the_command_line_takes_and_writes_pass_args(tmp_path, capsys):
    path, file = tmp_path / "net.qwb", tmp_path / "args.toml"
    store.save(make_project(), path)
    file.write_text(json.dumps({**BY_TYPE, "report": True}))
    assert main(["rules", str(path), "take-mase", str(file)]) == 0
    assert "pass_args.report" in capsys.readouterr().err
    assert store.load(path).target.id == "formats"
    assert main(["rules", str(path), "write-mase", str(tmp_path / "out.json")]) == 0
    assert json.loads((tmp_path / "out.json").read_text()) == BY_TYPE
    assert main(["rules", str(path), "take-mase", str(tmp_path / "none")]) == 2


def test_that_operators_that_mase_does_not_tell_apart_or_know_are_named():
    made = imported(BY_TYPE).project
    for target, config, code in (
        ("aten.nothing.default", "integer-8", "mase-operation-unknown"),
        ("aten.relu_.default", "integer-8", "mase-operators-differ"),
    ):
        with pytest.raises(WorkbenchError) as caught:
            pass_args_of(edits.assign(made, "node_target", target, config))
        assert set(caught.value.codes) == {code}


def test_that_names_of_modules_and_nodes_are_written_as_patterns():
    made = edits.assign(project(), "module_name", "blk.0", "integer-8")
    made = edits.assign(made, "node_name", "add_1", "integer-8")
    args = pass_args_of(made)
    assert args["by"] == "regex_name"
    assert list(args)[2:] == ["add_1", "blk_0(_.*)?"]


def test_that_a_file_of_bytes_is_no_text(tmp_path):
    (tmp_path / "args.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WorkbenchError) as caught:
        read_args(tmp_path / "args.toml")
    assert caught.value.codes == ("pass-args-not-text",)
    with pytest.raises(WorkbenchError) as caught:
        read_args(tmp_path / "none.toml")
    assert caught.value.codes == ("pass-args-unreadable",)
