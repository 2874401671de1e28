"""What a project means: presets, defaults of fields that a file leaves out, names, limits."""

import json

import pytest
from pydantic import ValidationError

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.project.builders import make_project, rule
from workbench.errors import WorkbenchError
from workbench.files import write_file
from workbench.project import edits, store
from workbench.project.configs import (
    IMPROVERS,
    PRESETS,
    PRESETS_BY_ID,
    Activation,
    DynamicConfig,
    FixedRange,
    FormatConfig,
    Observer,
    PluginConfig,
    QuantConfig,
    RangeMethod,
    Weight,
    integers_of,
    is_reference,
    range_fault,
    without_origins,
)
from workbench.project.gate import FIGURES, Gate, condition_of
from workbench.project.model import (
    Bookmark,
    DataSource,
    ModelSource,
    Preprocess,
    Project,
    SavedQuery,
    TargetChoice,
    Tokenization,
    config_label,
    name_of,
)

OBSERVED = {
    "kind": "histogram", "percentile": 99.99, "averaging_constant": 0.01, "minimum": None,
    "maximum": None, "plugin": "",
}  # fmt: skip


def integers(dtype="int8", symmetric=False, bits=8, per_channel=True):
    return {
        "activation": {"dtype": dtype, "symmetric": symmetric, "observer": OBSERVED},
        "weight": {"bits": bits, "per_channel": per_channel},
    }


def emulated(scheme, **parameters):
    return {"scheme": scheme, "parameters": parameters, "mase_compatible": False}


def test_that_every_preset_is_the_config_of_its_name():
    assert {p.id: p.config and p.config.model_dump() for p in PRESETS} == {
        "a8w8": integers(),
        "a16w8": integers("int16", symmetric=True),
        "a8w4": integers(bits=4),
        "a8w8-per-tensor": integers(per_channel=False),
        "uint8": integers("uint8"),
        "float": None,
        "cpu": None,
        "int8-dyn": {"dynamic": "int8"},
        "integer-8": emulated("integer", width=8, frac_width=4),
        "minifloat-8": emulated("minifloat_ieee", width=8, exponent_width=4, exponent_bias=7),
        "block-fp-8": emulated("block_fp", width=8, exponent_width=8, block_size=[1, 16]),
        "mxint-8": emulated("mxint", width=8),
        # OCP Microscaling Formats 1.0: E4M3 and E2M1.
        "mxfp-8": emulated("mxfp", exponent_width=4, frac_width=3),
        "mxfp-4": emulated("mxfp", exponent_width=2, frac_width=1),
        "nvfp4": emulated("nvfp4"),
    }
    assert [p.id for p in PRESETS if p.io_only] == ["uint8"]
    assert [p.id for p in PRESETS if p.places] == ["cpu"]


def test_that_a_file_that_leaves_fields_out_means_their_defaults():
    least = {"version": store.PROJECT_VERSION, "name": "net", "model": {"spec": "net.pt2"},
             "target": {"id": "ethos-u55-128"}}  # fmt: skip
    project = store.parse(json.dumps(least).encode(), "net.qwb")
    assert json.loads(store.dump(project)) == least
    assert project.model_dump(mode="json") == {
        **least,
        "model": {"spec": "net.pt2", "input_shapes": [], "inputs": None, "weights": None,
                  "strict_export": False},
        "calibration": None, "evaluation": {
            "data": None, "metric": None, "decode": None,
            "objects": {"confidence": 0.001, "iou": 0.5, "most": 100, "shown": 0.25}, "limit": 256,
                                                 "class_output": None,
                                             "hold_out": True},
        "target": {"id": "ethos-u55-128", "options": {}}, "board": "",
        "toolchain": "", "toolchain_versions": "", "rules": [],
        "presets": {}, "ranges": [], "range_methods": [], "improvers": [],
        "improving": {"seed": 0, "samples": 128, "time_limit_s": 1800},
        "compressions": [], "training_function": None, "trained_weights": None,
        "split_outputs": [], "output_factors": [], "plugins": [],
        "verification": {"samples": 16},
        "gate": {"lsb": 3, "share": 0.0156, "sqnr": 40, "argmax": 0.95, "loss": 3, "compiled": True,
                 "fail_if": []},
        "accuracy": {"loss": 0.01, "sqnr": 10, "part_sqnr": 15, "low_sqnr": 20, "argmax": 0.9,
                     "inputs": True},
        "notes": "", "graph": {"bookmarks": [], "queries": []},
    }  # fmt: skip
    assert DataSource(spec="x").model_dump() == {
        "spec": "x", "preprocess": None, "tokens": None, "limit": None, "labels": None,
        "dropped": (),
    }  # fmt: skip
    assert Preprocess(size=(2, 3)).model_dump() == {
        "size": (2, 3), "crop": None, "letterbox": None, "filter": "bilinear", "layout": "auto",
        "dtype": "float32", "scale": 255.0, "mean": (0.0,), "std": (1.0,), "order": "auto",
        "fold": False,
    }  # fmt: skip
    assert Tokenization().model_dump() == {"tokenizer": "", "length": 64}
    assert Bookmark(name="a", level="float", scale=1).model_dump() == {
        "name": "a", "level": "float", "shape": "modules", "expanded": (), "scale": 1.0,
        "anchor": "", "dx": 0.0, "dy": 0.0,
    }  # fmt: skip
    assert SavedQuery(text="a").shown
    assert rule("r1", "global").enabled
    assert Weight().model_dump() == {"bits": 8, "per_channel": True}
    assert not FormatConfig(scheme="integer").mase_compatible


@for_each("version", range(store.PROJECT_VERSION))
def test_that_a_file_of_every_earlier_version_is_read(version):
    raw = {"version": version, "name": "net", "model": {"spec": "net.pt2"},
           "target": {"id": "ethos-u55-128"}, "notes": "kept"}  # fmt: skip
    read = store.parse(json.dumps(raw).encode(), "net.qwb")
    assert (read.version, read.notes) == (store.PROJECT_VERSION, "kept")


@for_each(
    ("make", "least"),
    [
        (lambda n: DataSource(spec="x", limit=n), 1),
        (lambda n: Tokenization(length=n), 1),
        (lambda n: Project(name="n", model=ModelSource(spec="x"), target=TargetChoice(id="t"),
                           verification={"samples": n}), 1),
        (lambda n: Project(name="n", model=ModelSource(spec="x"), target=TargetChoice(id="t"),
                           evaluation={"limit": n}), 1),
        (lambda n: Gate(lsb=n), 0),
        (lambda n: Gate(loss=n), 0),
        (lambda n: Gate(argmax=n), 0),
        (lambda n: Gate(argmax=1 - n), 0),
        (lambda n: Observer(percentile=100 - n), 0),
        (lambda n: Observer(averaging_constant=1 - n), 0),
        (lambda n: Bookmark(name="a", level="b", scale=n + 1e-9), 0),
    ],
)  # fmt: skip
def test_that_a_number_below_its_limit_is_refused(make, least):
    make(least)
    with pytest.raises(ValidationError):
        make(least - 1)


def test_that_observers_need_what_their_kind_needs():
    for wrong in (
        {"percentile": 50.0}, {"averaging_constant": 0.0}, {"kind": "fixed"},
        {"kind": "fixed", "minimum": -1.0}, {"kind": "fixed", "maximum": 1.0},
        {"kind": "fixed", "minimum": 1.0, "maximum": 2.0}, {"kind": "plugin"},
        {"kind": "plugin", "plugin": "own.py"},
    ):  # fmt: skip
        with pytest.raises(ValidationError):
            Observer(**wrong)
    assert Observer(kind="fixed", minimum=-1.0, maximum=1.0).maximum == 1.0
    assert Observer(kind="plugin", plugin="own.py:Wide").plugin == "own.py:Wide"


@for_each(
    ("low", "high", "good"),
    [(-1.0, 1.0, True), (0.0, 1.0, True), (-1.0, 0.0, True), (0.0, 0.0, False), (1.0, -1.0, False),
     (0.5, 1.0, False), (-1.0, -0.5, False), (float("-inf"), 1.0, False),
     (-1.0, float("nan"), False)],
)  # fmt: skip
def test_that_a_range_is_upright_finite_and_holds_zero(low, high, good):
    assert (range_fault(low, high) == "") == good
    if good:
        FixedRange(tensor="x", minimum=low, maximum=high)
    else:
        with pytest.raises(ValidationError):
            FixedRange(tensor="x", minimum=low, maximum=high)


def test_that_configs_have_short_names():
    own = Observer(kind="plugin", plugin="own.py:Wide")
    assert {
        config_label(config): True
        for config in (
            QuantConfig(), None, DynamicConfig(), FormatConfig(scheme="nvfp4"),
            PluginConfig(reference="own.py:tight"),
            QuantConfig(activation=Activation(observer=Observer(kind="minmax"))),
            QuantConfig(activation=Activation(dtype="int16", observer=Observer(kind="minmax")),
                        weight=Weight(bits=4, per_channel=False)),
            QuantConfig(activation=Activation(observer=own)),
        )
    } == dict.fromkeys(
        ("a8w8", "float", "int8-dyn", "nvfp4", "tight", "a8w8 (minmax)",
         "a16w4 per tensor (minmax)", "a8w8 (Wide)"), True
    )  # fmt: skip
    labels = {
        FormatConfig(scheme="integer", parameters={"width": 6}).label: "integer 6",
        FormatConfig(
            scheme="mxint", parameters={"data_in_width": 8, "weight_width": 4, "width": 9},
            mase_compatible=True,
        ).label: "mxint 8/4 (MASE)",
        FormatConfig(scheme="mxint", parameters={"weight_width": 4}).label: "mxint 4",
        FormatConfig(scheme="nvfp4").label: "nvfp4",
    }  # fmt: skip
    assert all(label == wanted for label, wanted in labels.items())
    assert name_of("own.py:tight") == "tight"
    assert name_of("a8w8") == "a8w8"
    assert name_of(QuantConfig()) == "a8w8"


def test_that_a_reference_names_a_plugin_and_an_item():
    assert is_reference("own.py:tight")
    assert is_reference("package.module:tight")
    for wrong in ("own.py", ":tight", "own.py:not a name", ""):
        assert not is_reference(wrong)


def test_that_only_integers_have_calibrated_ranges():
    assert integers_of(None) is None
    assert integers_of(QuantConfig()) == QuantConfig()
    with refused("config-dynamic-not-supported"):
        integers_of(DynamicConfig())
    with refused("config-format-not-supported"):
        integers_of(FormatConfig(scheme="nvfp4"))


def test_that_a_range_method_speaks_of_its_tensor_module_or_all():
    tensor = RangeMethod(scope="tensor", match="relu", method="mse")
    module = RangeMethod(scope="module", match="layers.1", method="kl")
    whole = RangeMethod(scope="all", method="minmax")
    assert [tensor.speaks_of(t, m) for t, m in (("relu", "x"), ("x", "relu"))] == [True, False]
    asked = ("layers.1", "layers.1.fc", "layers.10", "layers")
    assert [module.speaks_of("layers.1", m) for m in asked] == [True, True, False, False]
    assert whole.speaks_of("x", "y")
    assert whole.strength < RangeMethod(scope="module", match="a", method="kl").strength
    assert RangeMethod(scope="module", match="a", method="kl").strength < module.strength
    assert module.strength < tensor.strength
    assert (tensor.scope_text, module.scope_text) == ("relu", "all of layers.1")
    for wrong in ({"scope": "all", "match": "x"}, {"scope": "module"}, {"scope": "tensor"}):
        with pytest.raises(ValidationError):
            RangeMethod(method="mse", **wrong)


def test_that_ranges_that_a_method_gave_become_the_method():
    raw = {
        "name": "n", "range_methods": [{"scope": "all", "method": "kl"}],
        "ranges": [{"tensor": "a", "minimum": -1, "by": "mse"}, {"tensor": "b", "by": ""}],
    }  # fmt: skip
    assert without_origins(raw) == {
        "name": "n", "ranges": [{"tensor": "b"}],
        "range_methods": [{"scope": "all", "method": "kl"},
                          {"scope": "tensor", "match": "a", "method": "mse"}],
    }  # fmt: skip
    for odd in ({"ranges": 3}, {"ranges": [], "range_methods": 3}, {"ranges": [3]}):
        assert without_origins(odd) == odd


def test_that_improvers_stand_in_order_of_application():
    assert [(i.id, i.needs_data) for i in IMPROVERS] == [
        ("equalize", False), ("smooth", True), ("scales", True), ("clips", True), ("gptq", True),
        ("rounding", True), ("bias", True), ("norms", True),
    ]  # fmt: skip
    project = edits.set_improver(make_project(), "bias", on=True)
    project = edits.set_improver(project, "equalize", on=True)
    assert project.improvers == ("equalize", "bias")
    assert edits.set_improver(project, "equalize", on=False).improvers == ("bias",)
    assert edits.set_improver(project, "smooth", on=False).improvers == ("equalize", "bias")


@for_each(
    ("text", "name", "limit", "good", "bad"),
    [
        ("lsb>2", "lsb", "<= 2", 2.0, 2.5), (" LSB >= 2 ", "lsb", "< 2", 1.5, 2.0),
        ("top1<0.98", "top1", ">= 0.98", 0.98, 0.97), ("sqnr<=-1e1", "sqnr", "> -10", -9, -10),
    ],
)  # fmt: skip
def test_that_a_condition_says_when_a_program_is_not_accepted(text, name, limit, good, bad):
    condition = condition_of(text)
    assert (condition.name, condition.limit) == (name, limit)
    assert not condition.applies(good)
    assert condition.applies(bad)


@for_each("text", ["", "lsb", "lsb>", ">2", "speed>2", "lsb=2", "lsb>2x", "lsb>1.2.3"])
def test_that_other_conditions_are_refused(text):
    with refused("gate-condition-invalid"):
        condition_of(text)
    with pytest.raises(ValidationError):
        Gate(fail_if=(text,))
    assert all(FIGURES.values())


def test_that_rules_call_the_quantizer_in_order_and_place_apart():
    own = QuantConfig(activation=Activation(observer=Observer(kind="plugin", plugin="own.py:W")))
    project = make_project(
        rule("r1", "global"), rule("r2", "module_name", "a", "mine"),
        rule("r3", "module_name", "b", "own.py:tight"), rule("r4", "node_name", "n", "cpu"),
        rule("r5", "finder", "own.py:First", "float"),
        rule("r6", "quantizer", "", "own.py:Rows"), rule("r7", "module_name", "c", own),
        rule("r8", "module_name", "d", "own.py:off", enabled=False),
        rule("r9", "module_name", "e", "cpu"),
        presets={"mine": QuantConfig(weight=Weight(bits=4))},
    )  # fmt: skip
    assert [(kind, match) for kind, match, _ in project.quantizer_calls()] == [
        ("global", ""), ("module_name", "a"), ("module_name", "b"), ("finder", "own.py:First"),
        ("quantizer", ""), ("module_name", "c"),
    ]  # fmt: skip
    configs = [config for _, _, config in project.quantizer_calls()]
    assert configs[1].weight.bits == 4
    assert configs[2] == PluginConfig(reference="own.py:tight")
    assert configs[3] is None
    assert project.cpu_only_rules() == [("module_name", "e"), ("node_name", "n")]
    assert project.taken_from_plugins() == [
        ("r3", "config", "own.py:tight"), ("r5", "finder", "own.py:First"),
        ("r6", "quantizer", "own.py:Rows"), ("r7", "observer", "own.py:W"),
    ]  # fmt: skip
    assert [project.label_of(r) for r in project.rules[:3]] == ["a8w8", "mine", "tight"]
    assert rule("r1", "io", "", QuantConfig()).keeps_off is False
    project = edits.fix_range(project, "x", -1.0, 2.0)
    assert project.fixed_ranges() == {"x": (-1.0, 2.0)}


def test_that_edits_change_what_they_say():
    project = make_project(rule("r1", "global"))
    assert edits.set_board(project, "b", TargetChoice(id="ethos-u85-256")).board == "b"
    assert edits.set_board(project, "b", TargetChoice(id="x")).target.id == "x"
    data = DataSource(spec="story.txt", tokens=Tokenization(length=8))
    texts = edits.set_calibration(project, data)
    assert edits.data_at(texts, "other.txt").tokens.length == 8
    assert edits.data_at(texts, "other.npz").tokens is None
    assert edits.data_at(project, "other.txt").tokens is None
    evaluated = edits.set_evaluation(texts, DataSource(spec="e.txt", tokens=Tokenization(length=9)),
                                     "m.py:f")  # fmt: skip
    assert edits.data_at(evaluated, "other.txt").tokens.length == 9
    assert (evaluated.evaluation.metric, evaluated.evaluation.limit) == ("m.py:f", 256)
    assert edits.train_by(project, "t.py:f").training_function == "t.py:f"
    assert edits.train_by(project, "").training_function is None
    many = edits.assign_many(project, "module_name", ["a", "b"], "a16w8")
    assert [(r.match, r.config) for r in many.rules[1:]] == [("a", "a16w8"), ("b", "a16w8")]
    offered = edits.offer_plugin(edits.offer_plugin(project, "own.py"), "own.py")
    assert offered.plugins == ("own.py",)
    assert edits.withdraw_plugin(offered, "own.py").plugins == ()
    with refused("plugin-not-in-project"):
        edits.withdraw_plugin(project, "own.py")
    for edit in (edits.drop_samples, edits.restore_samples):
        with refused("calibration-absent"):
            edit(project, [1])


def test_that_a_kept_configuration_brings_its_presets_and_leaves_others():
    mine, theirs = QuantConfig(weight=Weight(bits=4)), QuantConfig()
    kept = make_project(
        rule("r1", "global", config="used"), rule("r2", "io", config=QuantConfig()),
        presets={"used": mine, "unused": mine}, improvers=("bias",), trained_weights="w",
    )  # fmt: skip
    kept = edits.choose_method(edits.fix_range(kept, "x", -1.0, 1.0), "all", "", "kl")
    project = make_project(presets={"used": theirs, "own": theirs, "unused": theirs})
    restored = edits.restore_rules(project, kept)
    assert restored.rules == kept.rules
    assert restored.presets == {"used": mine, "own": theirs, "unused": theirs}
    assert (restored.improvers, restored.trained_weights) == (("bias",), "w")
    assert (restored.ranges, restored.range_methods) == (kept.ranges, kept.range_methods)


def test_that_problems_of_rules_are_named_by_place():
    raw = {
        "version": store.PROJECT_VERSION, "name": "n", "model": {"spec": "x.pt2"},
        "target": {"id": "t"},
        "rules": [
            {"id": "a", "kind": "global", "config": "a8w8"},
            {"id": "a", "kind": "module_name", "config": "nothing"},
            {"id": "b", "kind": "io", "config": "own.py:x"},
            {"id": "c", "kind": "quantizer", "config": "own.py:x"},
        ],
    }  # fmt: skip
    with pytest.raises(WorkbenchError) as caught:
        store.parse(json.dumps(raw).encode(), "x")
    assert [(i.code, i.where.id) for i in caught.value.infos] == [
        ("rule-id-duplicate", "rules[1]"), ("config-unknown", "rules[1]"),
        ("rule-match-missing", "rules[1]"),
    ]  # fmt: skip


def test_that_a_file_of_the_largest_size_is_read(tmp_path):
    path = tmp_path / "a.qwb"
    path.write_bytes(b" " * (16 << 20))
    with refused("project-empty"):
        store.load(path)
    path.write_bytes(b" " * ((16 << 20) + 1))
    with refused("project-too-large"):
        store.load(path)


def test_that_a_new_file_has_the_mode_of_the_users_mask_and_an_old_one_keeps_its_own(tmp_path):
    import os

    before = os.umask(0o027)
    try:
        write_file(tmp_path / "new", b"1")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
    (tmp_path / "new").chmod(0o604)
    write_file(tmp_path / "new", b"2")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o604
    assert [f.name for f in tmp_path.iterdir()] == ["new"]


def test_that_a_layer_has_one_size_and_zero_restores_it():
    made = edits.compress(make_project(), "a.conv", channels=8)
    made = edits.compress(edits.compress(made, "a.conv", clusters=15), "", clusters=31)
    assert (made.channels(), made.clusters()) == ({"a.conv": 8}, {"": 31, "a.conv": 15})
    made = edits.compress(made, "a.conv", channels=0)
    assert (made.channels(), made.clusters()["a.conv"]) == ({}, 15)
    made = edits.compress(edits.compress(made, "a.conv", clusters=0), "", clusters=0)
    assert made == make_project()
    for clusters in (3, 255):
        assert edits.compress(made, "a", clusters=clusters).clusters() == {"a": clusters}
    for wrong in ({"module": "", "channels": 8}, {"module": "a", "clusters": 2},
                  {"module": "a", "clusters": 256}):  # fmt: skip
        with refused("compression-invalid"):
            edits.compress(make_project(), **wrong)
    raw = json.loads(store.dump(make_project()))
    raw["compressions"] = [{"module": "a", "channels": 8}, {"module": "a", "clusters": 15}]
    with pytest.raises(WorkbenchError):
        store.parse(json.dumps(raw).encode(), "net.qwb")


def test_that_a_rule_has_the_config_of_its_preset():
    project = make_project(rule("r1", "global", config="a16w8"))
    assert project.config_of(project.rules[0]) == PRESETS_BY_ID["a16w8"].config
    assert DynamicConfig().label == "int8-dyn"
    for scope, match, words in (("all", "conv", "no match"), ("module", "", "needs a match")):
        with pytest.raises(ValidationError, match=words):
            RangeMethod(scope=scope, match=match, method="mse")


@for_each(
    "make",
    [
        lambda text: FormatConfig(scheme=text),
        lambda text: FixedRange(tensor=text, minimum=0.0, maximum=1.0),
        lambda text: ModelSource(spec=text), lambda text: DataSource(spec=text),
        lambda text: TargetChoice(id=text), lambda text: rule(text, "global"),
        lambda text: Bookmark(name=text, level="float", scale=1.0),
        lambda text: SavedQuery(text=text), lambda text: make_project(name=text),
        lambda text: Preprocess(size=(2, 2), mean=(0.5,) * len(text)),
        lambda text: Preprocess(size=(2, 2), std=(0.5,) * len(text)),
    ],
)  # fmt: skip
def test_that_one_letter_is_a_name_and_none_is_not(make):
    assert make("x")
    with pytest.raises(ValidationError):
        make("")


def test_that_a_percentile_lies_above_the_middle_and_up_to_all():
    for percentile in (50.5, 100.0):
        assert Observer(kind="percentile", percentile=percentile).percentile == percentile
    for percentile in (50.0, 100.5):
        with pytest.raises(ValidationError):
            Observer(kind="percentile", percentile=percentile)


def test_that_values_of_a_project_are_finite_positive_and_fixed():
    for scale in (float("inf"), float("nan"), 0.0):
        with pytest.raises(ValidationError):
            Preprocess(size=(2, 2), scale=scale)
    project = edits.compress(make_project(), "conv", channels=1)
    assert project.channels() == {"conv": 1}
    with pytest.raises(ValidationError):
        project.name = "other"
    assert len({RangeMethod(scope="all", method="mse"), RangeMethod(scope="all", method="mse")}) == 1


def test_that_sizes_of_inputs_are_positive():
    for size in (-1, 0):
        with pytest.raises(ValidationError):
            ModelSource(spec="net.pt2", input_shapes=((1, size),))
