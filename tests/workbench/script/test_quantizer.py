"""The functions of a script that make the compile spec and the quantizer, run with recorders."""

import ast
import dataclasses
from types import SimpleNamespace

from tests.fakes.projects import make_project
from tests.for_each import for_each
from workbench.project import edits
from workbench.project.configs import Activation, Observer, QuantConfig, Weight
from workbench.project.model import Rule, TargetChoice
from workbench.project.opened import OpenProject
from workbench.script import quantizer
from workbench.targets import target_of
from workbench.targets.ethos_u.corrections import CORRECTIONS
from workbench.targets.ethos_u.rewrites import REWRITES

STOCK = (
    "get_symmetric_quantization_config",
    "get_symmetric_a16w8_quantization_config",
    "get_symmetric_a8w4_quantization_config",
    "get_uint8_io_quantization_config",
)
OBSERVERS = ("MinMaxObserver", "MovingAverageMinMaxObserver", "PercentileObserver", "FixedRangeObserver")


@dataclasses.dataclass(frozen=True)
class Stock:
    """A config of ExecuTorch: its factory and what it was given."""

    factory: str
    options: tuple = ()
    input_activation: object = None
    output_activation: object = None


@dataclasses.dataclass(frozen=True)
class Spec:
    """How activations are observed."""

    qscheme: str = "stock"
    observer_or_fake_quant_ctr: object = "histogram"


class Recorder:
    """A quantizer or a compile spec that keeps what is called on it."""

    def __init__(self, *arguments, **named):
        self.arguments, self.named, self.calls = arguments, named, []

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append((name, *arguments))

        return call


def run(project, folder=None):
    """Return the names that the part of the script defines."""
    names = {name: type(name, (Recorder,), {}) for name in ("EthosUCompileSpec", "PluginQuantizer")}
    names["CorrectingQuantizer"] = type("CorrectingQuantizer", (Recorder,), {})
    names["CORRECTIONS"] = {}
    for name in STOCK:
        names[name] = lambda _name=name, **options: Stock(
            _name, tuple(sorted(options.items())), Spec(), Spec()
        )
    for name in OBSERVERS:
        names[name] = SimpleNamespace(
            with_args=lambda _name=name, **options: (_name, *sorted(options.items()))
        )
    names |= {
        "replace": dataclasses.replace,
        "MadeOf": lambda **given: ("made of", given),
        "OfClass": lambda name: ("of class", name),
        "contextlib": None,
        "torch": SimpleNamespace(per_tensor_affine="affine", per_tensor_symmetric="symmetric"),
        "ethosu": SimpleNamespace(VelaExternalBlockPlacements=lambda **given: given),
    }
    names |= {row.function: row.function for row in REWRITES}
    exec(quantizer.quantizer_part(OpenProject(project, folder)), names)
    return names


def calls_of(project, folder=None):
    return run(project, folder)["quantizer"]().calls


def with_options(**options):
    project = make_project()
    choice = target_of(project.target.id).complete(
        TargetChoice(id=project.target.id, options={**project.target.options, **options})
    )
    return edits.set_target(project, choice)


def spec_of(project, folder=None):
    return run(project, folder)["compile_spec"]()


def configured(config, kind="global", match=""):
    (call,) = calls_of(make_project(Rule(id="r", kind=kind, match=match, config=config)))
    return call


def own(dtype="int8", bits=8, per_channel=True, symmetric=None, observer=None):
    more = {} if symmetric is None else {"symmetric": symmetric}
    activation = Activation(dtype=dtype, observer=observer or Observer(), **more)
    return QuantConfig(activation=activation, weight=Weight(bits=bits, per_channel=per_channel))


@for_each(
    ("config", "factory", "options"),
    [
        ("a8w8", STOCK[0], {"is_per_channel": True, "is_qat": False}),
        ("a16w8", STOCK[1], {"is_per_channel": True, "is_qat": False}),
        ("a8w4", STOCK[2], {"is_per_channel": True, "is_qat": False}),
        (own(per_channel=False), STOCK[0], {"is_per_channel": False, "is_qat": False}),
        ("uint8", STOCK[3], {"is_qat": False}),
    ],
)
def test_that_a_usual_config_is_one_of_executorch(config, factory, options):
    kind = "io" if config == "uint8" else "global"
    name, stock = configured(config, kind)
    assert name == f"set_{kind}"
    assert (stock.factory, dict(stock.options)) == (factory, options)
    assert stock.input_activation == stock.output_activation == Spec()


def test_that_float_is_no_config():
    assert configured("float") == ("set_global", None)


@for_each(
    ("observer", "wanted"),
    [
        (Observer(kind="minmax"), ("MinMaxObserver", ("eps", 2**-16))),
        (
            Observer(kind="moving_average", averaging_constant=0.25),
            ("MovingAverageMinMaxObserver", ("averaging_constant", 0.25), ("eps", 2**-16)),
        ),
        (
            Observer(kind="percentile", percentile=99.5),
            ("PercentileObserver", ("eps", 2**-16), ("percentile", 99.5)),
        ),
        (
            Observer(kind="fixed", minimum=-1.5, maximum=2.0),
            ("FixedRangeObserver", ("eps", 2**-16), ("maximum", 2.0), ("minimum", -1.5)),
        ),
    ],
)
def test_that_another_observer_takes_the_place_of_the_histogram(observer, wanted):
    _, stock = configured(own(observer=observer))
    assert stock.input_activation == Spec("affine", wanted)
    assert stock.output_activation == stock.input_activation
    _, wide = configured(own("int16", symmetric=True, observer=Observer(kind="minmax")))
    assert wide.input_activation == Spec("symmetric", ("MinMaxObserver", ("eps", 2**-12)))


def test_that_another_scheme_keeps_the_histogram():
    _, stock = configured(own(symmetric=True))
    assert stock.input_activation == Spec("symmetric", "histogram")
    _, usual = configured(own(symmetric=False))
    assert usual.input_activation == Spec()


def test_that_each_kind_of_rule_is_the_call_that_matches_the_same():
    project = edits.assign(make_project(), "module_name", "body.conv", "a16w8")
    project = edits.assign(project, "module_type", "torch.nn.modules.linear.Linear", "a8w4")
    project = edits.assign(project, "module_type", "Linear", "float")
    project = edits.assign(project, "node_target", "torch.ops.aten.mul.Tensor", "a16w8")
    project = edits.assign(project, "node_name", "add_3", "a16w8")
    calls = {call[0] + str(number): call[1:] for number, call in enumerate(calls_of(project))}
    kinds = [call[0] for call in calls_of(project)]
    assert sorted(kinds) == sorted(
        ["set_global", "set_module_name", "set_module_type", *["set_node_finder"] * 3]
    )
    by_name = next(call for call in calls.values() if call[0] == "body.conv")
    assert by_name[1].factory == STOCK[1]
    stand_in, config = next(call for call in calls.values() if isinstance(call[0], type))
    assert (stand_in.__module__, stand_in.__qualname__) == ("torch.nn.modules.linear", "Linear")
    assert config.factory == STOCK[2]
    finders = [call for call in calls.values() if isinstance(call[-1], tuple)]
    assert {(call[1][0], str(call[1][1])) for call in finders} == {
        ("of class", "Linear"),
        ("made of", "{'operators': ('aten.mul.Tensor',)}"),
        ("made of", "{'names': ('add_3',)}"),
    }


def test_that_plug_ins_are_called_with_what_they_take(tmp_path):
    (tmp_path / "own.py").write_text("")
    project = make_project(
        Rule(id="r1", kind="global", config="own.py:narrow"),
        Rule(id="r2", kind="finder", match="own.py:First", config="a8w8"),
        Rule(id="r3", kind="quantizer", config="own.py:Rows"),
        Rule(
            id="r4",
            kind="module_name",
            match="head",
            config=own(observer=Observer(kind="plugin", plugin="own.py:Wide")),
        ),
        plugins=("own.py",),
    )
    text = quantizer.quantizer_part(OpenProject(project, tmp_path))
    lines = [
        line.strip() for line in text.splitlines() if line.strip().startswith(("made.set_", "made.add_"))
    ]
    assert len(lines) == 4
    by = {line.split("(")[0]: line for line in lines}
    assert "narrow" in by["made.set_global"]
    assert by["made.set_global"].endswith("(is_qat=False))")
    assert "First" in by["made.set_node_finder"]
    assert by["made.set_node_finder"].endswith("())")
    assert by["made.add_quantizer"].startswith("made.add_quantizer(PluginQuantizer(")
    assert by["made.add_quantizer"].endswith("(), 'own.py:Rows'))")
    assert ".with_args(eps=2**-16)" in by["made.set_module_name"]
    assert quantizer.plugin_quantizer_part(project)[0].startswith("from executorch")
    assert quantizer.plugin_quantizer_part(make_project()) == []


def test_that_corrections_and_rewrites_are_those_that_are_on():
    made = run(make_project())["quantizer"]()
    assert made.rewrites == {row.id: row.function for row in REWRITES}
    slower = run(with_options(strides_to_channels=False))["quantizer"]()
    assert made.rewrites.keys() - slower.rewrites == {"strides_to_channels"}
    assert table_of(make_project()) == [f"{row.module}.{row.id}" for row in CORRECTIONS]
    fewer = table_of(with_options(fine_steps=False))
    assert set(table_of(make_project())) - set(fewer) == {"small_scales.fine_steps"}
    off = with_options(**dict.fromkeys((row.id for row in CORRECTIONS), False))
    assert table_of(off) == []
    assert "from ethos_u_corrections import " not in quantizer.corrections_part(off)


def table_of(project):
    """Return the functions in the table of a script, as they are written."""
    text = quantizer.corrections_part(project)
    (table,) = [node for node in ast.parse(text).body if isinstance(node, ast.Assign)]
    return [ast.unparse(function) for row in table.value.values for function in row.elts]


def test_that_what_a_script_imports_of_the_corrections_is_in_their_copy(tmp_path):
    """In a folder of its own, as beside a script: no file imports from this package."""
    for path, text in quantizer.copied_corrections().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        assert "import workbench" not in text
        assert "from workbench" not in text
    for node in ast.parse(quantizer.corrections_part(make_project())).body:
        if isinstance(node, ast.ImportFrom):
            path = tmp_path.joinpath(*node.module.split("."))
            for alias in node.names:
                names = path.with_suffix(".py").read_text() if node.module.count(".") else ""
                defined = f"def {alias.name}(" in names or f"class {alias.name}(" in names
                assert defined or (path / f"{alias.name}.py").is_file(), alias.name


def test_that_the_compile_spec_has_the_options_of_the_target():
    spec = spec_of(make_project())
    assert spec.arguments == ("ethos-u55-128",)
    assert spec.named["system_config"] == "Ethos_U55_High_End_Embedded"
    assert spec.named["memory_mode"] == "Shared_Sram"
    assert spec.calls == []
    assert "config_ini" not in spec.named
    assert "external_block_placements" not in spec.named
    sized = spec_of(with_options(optimise="Size", external_weights=True))
    assert any("Size" in flag for flag in sized.named["extra_flags"])
    assert sized.named["external_block_placements"] == {"weight_data": "weights"}


def test_that_passes_are_configured_where_an_option_differs():
    text = quantizer.quantizer_part(
        OpenProject(with_options(softmax="STABLE", positive_infinity=200.0), None)
    )
    assert "config.softmax = passes.SoftmaxDecompositionConfig['STABLE']" in text
    assert "leaky_relu" not in text
    assert "QuantizeInfConfig(-256.0, 200.0)" in text
    assert text.index("set_pass_pipeline_config") > text.index("QuantizeInfConfig")
    assert "QuantizeInfConfig" not in quantizer.quantizer_part(OpenProject(make_project(), None))


@for_each(
    ("options", "part", "start"),
    [
        ({"integer_io": True}, quantizer.integer_borders_part, "from executorch"),
        ({"cpu_kernels": "cortex_m"}, quantizer.cpu_kernels_part, "import copy"),
    ],
)
def test_that_parts_are_carried_where_an_option_asks_for_them(options, part, start):
    assert part(make_project()) == []
    (text,) = part(with_options(**options))
    assert text.startswith(start)
    compile(text, "part", "exec")


def test_that_cpu_kernels_are_chosen_by_a_call():
    assert quantizer.cpu_kernels_call(make_project()) == ""
    border = quantizer.cpu_kernels_call(with_options(cpu_kernels="cortex_m"))
    assert border.strip() == "edge = with_border_kernels(edge)"
    from workbench.targets.ethos_u.options import CMSIS_NN_CPUS

    kernels, cpu = next(iter(CMSIS_NN_CPUS.items()))
    chosen = quantizer.cpu_kernels_call(with_options(cpu_kernels=kernels))
    assert chosen.strip() == f"edge = with_cmsis_nn(edge, {cpu!r})"


def test_that_parts_are_whole_python():
    texts = [quantizer.corrections_part(make_project()), quantizer.out_variants_part()]
    texts += quantizer.cpu_only_part(edits.assign(make_project(), "module_name", "head", "cpu"))
    texts += quantizer.observers_part(make_project(), has_ranges=True)
    assert len(texts) == 5
    for text in texts:
        compile(text, "part", "exec")
    assert quantizer.cpu_only_part(make_project()) == []
    assert quantizer.observers_part(make_project(), has_ranges=False) == []
    for kind, carried in (("minmax", False), ("percentile", True), ("fixed", True)):
        fields = {"minimum": -1.0, "maximum": 1.0} if kind == "fixed" else {}
        config = own(observer=Observer(kind=kind, **fields))
        project = edits.assign(make_project(), "module_name", "head", config)
        assert bool(quantizer.observers_part(project, has_ranges=False)) is carried


def test_that_an_own_ini_lies_at_hand_under_one_name(tmp_path):
    ini = (
        "[System_Config.Mine]\ncore_clock=400e6\naxi0_port=Sram\naxi1_port=OffChipFlash\n"
        "Sram_clock_scale=1.0\nOffChipFlash_clock_scale=0.1\n[Memory_Mode.Flash]\n"
        "const_mem_area=Axi1\narena_mem_area=Axi0\ncache_mem_area=Axi0\n"
    )
    (tmp_path / "my vela.ini").write_text(ini)
    choice = TargetChoice(
        id="ethos-u55-128",
        options={"config_ini": "my vela.ini", "system_config": "Mine", "memory_mode": "Flash"},
    )
    project = edits.set_target(make_project(), choice)
    (text,) = quantizer.own_ini_part(OpenProject(project, tmp_path))
    assert "[System_Config.Mine]" in text
    # Vela gives an NPU the bandwidth of its port only under a name that begins with its family.
    assert "[System_Config.Ethos_U55_Mine]" in text
    compile(text, "part", "exec")
    assert quantizer.own_ini_part(OpenProject(make_project(), tmp_path)) == []
    assert "config_ini='" in quantizer.quantizer_part(OpenProject(project, tmp_path))
