"""Devices, options and limits of the targets, against Vela's own configuration file."""

import configparser
from importlib import resources
from pathlib import Path

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.project.builders import make_project
from workbench import targets
from workbench.errors import ErrorInfo, Place
from workbench.graph.snapshot import Edge, GraphSnapshot, Node
from workbench.project import edits
from workbench.project.configs import (
    Activation,
    DynamicConfig,
    FormatConfig,
    PluginConfig,
    QuantConfig,
    Weight,
)
from workbench.project.model import TargetChoice
from workbench.results import AppliedCorrection, AppliedRewrite
from workbench.targets import target_of
from workbench.targets.ethos_u.corrections import (
    CORRECTIONS,
    corrections_off,
    described,
    enabled_corrections,
    switched_off,
    with_switches,
)
from workbench.targets.ethos_u.devices import (
    FAMILIES,
    MEMORY_MODES,
    SYSTEM_CONFIGS,
    clock_of,
    has_control_flow,
    memory_modes,
    memory_use,
)
from workbench.targets.ethos_u.options import changed_extras, changed_passes, vela_flags
from workbench.targets.ethos_u.rewrites import REWRITES, described_rewrite, enabled_rewrites
from workbench.targets.ethos_u.vela_ini import load

U55, U65, U85 = "ethos-u55-128", "ethos-u65-512", "ethos-u85-256"


def arms():
    """Return Vela's own configurations; keys that a section inherits are filled in."""
    path = resources.files("ethosu") / "config_files" / "Arm" / "vela.ini"
    parser = configparser.ConfigParser()
    parser.read_string(path.read_text())

    def value(section, key):
        while not parser.has_option(section, key):
            if not parser.has_option(section, "inherit"):
                return None
            section = parser.get(section, "inherit")
        return parser.get(section, key)

    return parser, value


def test_that_system_configurations_are_those_of_vela():
    parser, value = arms()
    names = [s.removeprefix("System_Config.") for s in parser.sections() if s[:6] == "System"]
    assert {c.name for c in SYSTEM_CONFIGS} == set(names)
    for config in SYSTEM_CONFIGS:
        section = f"System_Config.{config.name}"
        assert config.clock_hz == float(value(section, "core_clock")), config.name
        memory = "dram" if value(section, "axi1_port") == "Dram" else "flash"
        assert config.external == memory, config.name


def choice(device, **options):
    return target_of(device).complete(TargetChoice(id=device, options=options))


def test_that_memory_modes_are_those_of_vela():
    parser, value = arms()
    names = {s.removeprefix("Memory_Mode.") for s in parser.sections() if s[:6] == "Memory"}
    assert set(MEMORY_MODES) == names
    for name in names:
        section = f"Memory_Mode.{name}"
        use = memory_use(choice(U65, memory_mode=name), Path())
        assert use.constants_in_sram == (value(section, "const_mem_area") == "Axi0"), name
        assert use.arena_in_sram == (value(section, "arena_mem_area") == "Axi0"), name
        size = value(section, "arena_cache_size")
        spills = value(section, "arena_mem_area") != value(section, "cache_mem_area")
        # Dedicated_Sram has the size of ExecuTorch's runner, 0x60000.
        wanted = 0x60000 if name == "Dedicated_Sram" else int(size or 0)
        assert use.cache_bytes == (wanted if spills else 0), name
    limited = choice(U65, memory_mode="Dedicated_Sram_512KB", arena_cache_bytes=1000)
    assert memory_use(limited, Path()).cache_bytes == 1000
    for mode in ("Shared_Sram", "Sram_Only"):
        inside = choice(U55, memory_mode=mode, arena_cache_bytes=1000)
        assert memory_use(inside, Path()).cache_bytes == 0


def test_that_devices_have_the_sizes_that_exist():
    assert {f.name: f.macs for f in FAMILIES} == {
        "u55": (32, 64, 128, 256),
        "u65": (256, 512),
        "u85": (128, 256, 512, 1024, 2048),
    }
    assert [has_control_flow(device) for device in (U55, U65, U85)] == [False, False, True]
    assert targets.macs_per_cycle(U85) == 256
    assert targets.macs_per_cycle("unknown-1") == 0
    assert targets.macs_per_cycle("nnpa") == targets.macs_per_cycle("formats") == 0
    assert target_of(U55).figures(choice(U55)) == {"MAC units": "128", "Clock": "500 MHz"}
    own = choice(U55, system_config="Ethos_U55_Deep_Embedded")
    assert clock_of(own, Path()) == 200_000_000


def test_that_dedicated_sram_needs_dram():
    small, every = ["Sram_Only", "Shared_Sram"], list(MEMORY_MODES)
    by_name = {f.name: f for f in FAMILIES}
    assert memory_modes(by_name["u55"], "Ethos_U55_High_End_Embedded") == small
    assert memory_modes(by_name["u65"], "Ethos_U65_Embedded") == small
    assert memory_modes(by_name["u65"], "Ethos_U65_High_End") == every
    assert memory_modes(by_name["u85"], "Ethos_U85_SYS_Flash_Low") == small
    assert memory_modes(by_name["u85"], "unknown") == every


def test_that_invalid_memory_is_mended_to_the_familys_default():
    assert choice(U65).options["system_config"] == "Ethos_U65_High_End"
    assert choice(U65).options["memory_mode"] == "Dedicated_Sram_384KB"
    assert choice(U65, system_config="Ethos_U65_Embedded").options["memory_mode"] == "Shared_Sram"
    assert choice(U85).options["system_config"] == "Ethos_U85_SYS_DRAM_Mid"
    kept = choice(U85, memory_mode="Sram_Only", optimise="Size", integer_io=True)
    assert (kept.options["memory_mode"], kept.options["optimise"]) == ("Sram_Only", "Size")
    assert kept.options["integer_io"] is True
    unknown = TargetChoice(id="ethos-u1-1", options={"a": 1})
    assert target_of(U55).complete(unknown) == unknown


def codes(device, **options):
    found = target_of(device).check(TargetChoice(id=device, options=options))
    return [(info.code, info.where.id.removeprefix("target.options.")) for info in found]


@for_each(
    ("options", "code"),
    [
        ({"optimise": "Speed"}, "vela-optimise-invalid"),
        ({"nonsense": 1}, "target-option-unknown"),
        ({"integer_io": 1}, "target-option-type"),
        ({"optimise": 3}, "target-option-type"),
        ({"arena_cache_bytes": 0}, "vela-arena-cache-out-of-range"),
        ({"arena_cache_bytes": (1 << 32) + 1}, "vela-arena-cache-out-of-range"),
        ({"arena_cache_bytes": "1"}, "target-option-type"),
        ({"tensor_allocator": "Best"}, "target-option-invalid"),
        ({"separate_io_regions": "yes"}, "target-option-invalid"),
        ({"negative_infinity": "x"}, "target-option-invalid"),
        ({"negative_infinity": True}, "target-option-invalid"),
        ({"negative_infinity": 255.0}, "target-option-invalid"),
        ({"negative_infinity": 3.0, "positive_infinity": 2.0}, "target-option-invalid"),
        ({"system_config": "Ethos_U65_High_End"}, "vela-system-config-unknown"),
        ({"memory_mode": "Dedicated_Sram"}, "vela-memory-mode-unfit"),
    ],
)
def test_that_an_option_out_of_range_is_told_by_its_name(options, code):
    found = codes(U55, **options)
    assert code in [found_code for found_code, _ in found]
    assert set(options) & {name for _, name in found}


def test_that_options_in_range_are_no_problem():
    assert codes(U55, arena_cache_bytes=1) == codes(U55, arena_cache_bytes=1 << 32) == []
    assert codes(U55, negative_infinity=-32, positive_infinity=None) == []
    assert codes(U55, tensor_allocator="Greedy", separate_io_regions=True) == []
    assert codes(U55, negative_infinity=254.5) == []


def test_that_vela_gets_the_flags_that_options_ask_for():
    plain = choice(U55).options
    assert vela_flags(plain) == []
    asked = choice(
        U55,
        optimise="Size",
        arena_cache_bytes=4096,
        tensor_allocator="Greedy",
        cop_format="COP2",
        separate_io_regions=True,
        extra_flags="--a --b=1",
    ).options
    assert vela_flags(asked) == [
        "--optimise=Size",
        "--arena-cache-size=4096",
        "--tensor-allocator=Greedy",
        "--cop-format=COP2",
        "--separate-io-regions",
        "--a",
        "--b=1",
    ]
    assert changed_extras({"negative_infinity": -256.0, "softmax": "", "cop_format": None}) == {}
    given = {"softmax": "STABLE", "negative_infinity": -32.0, "cop_format": "COP2"}
    assert changed_extras(given) == given
    assert changed_passes(given) == {"softmax": "STABLE", "negative_infinity": -32.0}


def test_that_each_stage_depends_on_its_own_options():
    target = target_of(U55)
    first = CORRECTIONS[0]
    off = choice(U55, **{first.id: False}, softmax="STABLE")
    for device, family, subset in ((U55, "u55", "u55"), ("ethos-u65-256", "u65", "u55"), (U85, "u85", "cf")):
        expected = {"tosa_spec": f"TOSA-1.0+INT+int16+int4+{subset}", "family": family}
        assert target.facet(choice(device), "quantizer") == expected
    spec = target.facet(off, "quantizer")
    assert spec["passes"] == {"softmax": "STABLE"}
    compiled = target.facet(choice(U55, optimise="Size"), "compile")
    assert (compiled["id"], compiled["optimise"]) == (U55, "Size")
    for row in CORRECTIONS:
        after = row.facet == "compile"
        assert row.facet == ("compile" if after else "quantizer"), row.id
    assert {row.facet for row in CORRECTIONS} == {"quantizer", "compile"}
    for row in CORRECTIONS:
        for facet in ("quantizer", "compile"):
            expected = [row.id] if facet == row.facet else []
            assert switched_off({row.id: False}, facet) == expected
            assert switched_off({row.id: True}, facet) == []
        told = described(AppliedCorrection(id=row.id, state="off"))
        assert (told["id"], told["title"], told["link"]) == (row.id, row.title, row.link)


def test_that_preparing_depends_on_the_rewrites_that_are_off():
    target, row = target_of(U55), REWRITES[0]
    assert "rewrites_off" not in target.facet(choice(U55), "quantizer")
    slow = target.facet(choice(U55, **{row.id: False}), "quantizer")
    assert slow["rewrites_off"] == [row.id]
    assert enabled_rewrites({row.id: False}) == REWRITES[1:]
    assert enabled_rewrites({row.id: True}) == REWRITES
    told = described_rewrite(AppliedRewrite(id=row.id, state="off"))
    assert (told["id"], told["title"], told["cycles_before"]) == (row.id, row.title, None)


WIDE_4 = QuantConfig(activation=Activation(dtype="int16", symmetric=True), weight=Weight(bits=4))


@for_each(
    ("device", "config", "kind", "taken"),
    [
        (U55, QuantConfig(), "global", True),
        (U55, None, "module_name", True),
        (U55, QuantConfig(activation=Activation(dtype="uint8")), "io", True),
        (U55, QuantConfig(activation=Activation(dtype="uint8")), "global", False),
        (U55, QuantConfig(activation=Activation(dtype="int16")), "global", False),
        (U55, WIDE_4, "global", False),
        (U55, QuantConfig(weight=Weight(bits=4)), "global", True),
        (U55, QuantConfig(), "pattern", False),
        (U55, QuantConfig(), "quantizer", False),
        (U55, PluginConfig(reference="a.py:b"), "quantizer", True),
        (U55, PluginConfig(reference="a.py:b"), "global", True),
        (U55, DynamicConfig(), "global", False),
        (U55, FormatConfig(scheme="nvfp4"), "global", False),
        ("nnpa", DynamicConfig(), "global", True),
        ("nnpa", None, "module_name", True),
        ("nnpa", QuantConfig(), "global", False),
        ("nnpa", DynamicConfig(), "io", False),
        ("nnpa", PluginConfig(reference="a.py:b"), "global", False),
        ("nnpa", DynamicConfig(), "finder", False),
        ("formats", FormatConfig(scheme="nvfp4"), "global", True),
        ("formats", None, "global", True),
        ("formats", QuantConfig(), "global", False),
        ("formats", FormatConfig(scheme="nvfp4"), "io", False),
        ("formats", PluginConfig(reference="a.py:b"), "global", False),
        ("formats", FormatConfig(scheme="unknown"), "global", False),
        ("formats", FormatConfig(scheme="nvfp4", mase_compatible=True), "global", False),
        ("formats", FormatConfig(scheme="integer", parameters={"width": 0}), "global", False),
        (
            "formats",
            FormatConfig(scheme="integer", parameters={"width": 8, "weight_width": 0}),
            "global",
            False,
        ),
    ],
)
def test_that_a_target_takes_the_configs_it_can(device, config, kind, taken):
    said = target_of(device).refusal(TargetChoice(id=device), config, kind)
    assert isinstance(said, str)
    assert (said == "") == taken


def test_that_only_targets_with_a_device_keep_parts_off_it():
    taken = {device: target_of(device).places for device in ("ethos-u55-128", "nnpa", "formats")}
    assert taken == {"ethos-u55-128": True, "nnpa": True, "formats": False}
    in_float = {device: target_of(device).float_off_device for device in taken}
    assert in_float == {"ethos-u55-128": False, "nnpa": True, "formats": False}


def test_that_only_sixteen_bit_products_are_warned_of():
    wide = QuantConfig(activation=Activation(dtype="int16", symmetric=True))
    operators = ["aten.relu.default", "aten.bmm.default"]

    def warned(device, config, names):
        return target_of(device).warnings(TargetChoice(id=device), config, names) != []

    assert warned(U55, wide, operators)
    assert warned(U65, wide, ["aten.matmul.default"])
    assert not warned(U55, wide, operators[:1])
    assert not warned(U85, wide, operators)
    assert not warned(U55, QuantConfig(), operators)
    assert not warned(U55, None, operators)


def graph(op):
    nodes = (Node("x", "placeholder", "input"), Node("n", op, "call"), Node("c", op, "control"))
    return GraphSnapshot("float", nodes, (Edge("x", "n"),))


@for_each(
    ("op", "wide", "narrow", "u55", "u85"),
    [
        ("cond", (), (), ["branches-not-supported"], []),
        ("aten.relu.default", ("n",), ("n",), [], []),
        ("aten.cumsum.default", ("n",), (), ["operator-not-supported"], ["operator-not-supported"]),
        ("aten.cumsum.default", (), ("n",), [], []),
        ("aten.conv_transpose2d.input", (), ("n",), ["operator-not-supported"], ["operator-not-supported"]),
        ("aten.conv_transpose2d.input", ("n",), (), ["operator-not-supported"], []),
        ("aten.conv_transpose1d.default", ("n",), (), ["operator-not-supported"], []),
    ],
)
def test_that_what_the_tools_reject_is_foreseen(op, wide, narrow, u55, u85):
    for device, expected in ((U55, u55), (U85, u85)):
        off = TargetChoice(id=device, options={row.id: False for row in CORRECTIONS})
        found = target_of(device).forecast(off, graph(op), wide, narrow)
        assert [info.code for info in found] == expected
        assert all(info.where.id == "n" for info in found)
        # What a correction mends is not refused.
        corrected = target_of(device).forecast(TargetChoice(id=device), graph(op), wide, narrow)
        branches = [code for code in expected if code == "branches-not-supported"]
        assert [info.code for info in corrected] == branches


def test_that_only_a_target_with_a_compiler_estimates():
    assert targets.why_unestimated(U55) == ""
    assert targets.why_unestimated("nnpa")
    assert targets.why_unestimated("unknown-1")
    targets.need_estimates(U55)
    for device in ("formats", "unknown-1"):
        with refused("target-without-estimator"):
            targets.need_estimates(device)


def test_that_nnpa_fills_its_options_and_depends_on_the_installed_compilers(monkeypatch):
    target = target_of("nnpa")
    default = target.complete(TargetChoice(id="nnpa"))
    assert target.check(default) == []
    assert target.complete(TargetChoice(id="nnpa", options={"x": 1})) == default
    for option in target.options(default):
        wrong = TargetChoice(id="nnpa", options={option.name: "nonsense" if option.choices else 3})
        (problem,) = target.check(wrong)
        assert problem.code == "nnpa-option-invalid", option.name
        for each in option.choices:
            assert str(each.value) in problem.hint
        assert option.choices or problem.hint == option.description
        assert target.complete(wrong) == default
        for each in option.choices:
            given = TargetChoice(id="nnpa", options={option.name: each.value})
            assert target.check(given) == []
            assert target.complete(given).options[option.name] == each.value
    assert target.facet(default, "quantizer") == {"id": "nnpa", **default.options}
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    assert target.facet(default, "compile")["compilers"] == ["/bin/onnx-mlir", "/bin/docker"]
    assert target.warnings(default, None, []) == []


def test_that_an_ini_of_the_largest_size_is_read(tmp_path):
    path = tmp_path / "own.ini"
    path.write_text("#" * (1 << 20))
    with refused("vela-config-section-missing", "vela-config-section-missing"):
        load(path)
    path.write_text("#" * ((1 << 20) + 1))
    with refused("vela-config-too-large"):
        load(path)


@for_each(
    ("target", "runs"), [("ethos-u55-128", True), ("nnpa", False), ("formats", False), ("unknown", True)]
)
def test_that_a_target_without_a_simulator_has_no_run_and_an_unknown_one_has_all(target, runs):
    project = edits.set_target(make_project(), TargetChoice(id=target))
    assert targets.has_stage(project, "run") is runs
    assert targets.has_stage(project, "evaluate")


def test_that_corrections_are_wanted_unless_an_option_switches_them_off():
    first = CORRECTIONS[0]
    everything = enabled_corrections({})
    assert everything == CORRECTIONS
    left = enabled_corrections({first.id: False, "softmax": ""})
    assert left == CORRECTIONS[1:]
    for facet in ("quantizer", "compile"):
        assert {row.facet for row in enabled_corrections({}, facet)} == {facet}


def test_that_a_quantized_program_is_warned_of_corrections_that_are_off():
    one, two = CORRECTIONS[:2]
    assert list(corrections_off({})) == []
    (info,) = corrections_off({two.id: False, one.id: False, "softmax": ""})
    assert info.code == "correction-switched-off"
    assert info.where == Place(kind="option", id=f"target.options.{one.id}")
    assert all(row.title in info.message for row in (one, two))
    assert f"{one.id}=true {two.id}=true" in info.hint


def test_that_nobody_is_warned_of_what_only_saves_cycles():
    (*rows,) = (row for row in CORRECTIONS if row.saves_cycles)
    assert {row.id for row in rows} >= {"equal_operations_joined", "zeros_into_convolutions"}
    off = {row.id: False for row in rows}
    assert list(corrections_off(off)) == []
    failed = ErrorInfo(message="KeyError: 'x'", code="unexpected")
    assert with_switches((failed,), off) == (failed,)


def test_that_rewrites_are_tried_for_memory_of_ones_own():
    target = target_of(U55)
    usual = target.facet(choice(U55), "trials")
    assert target.facet(choice("ethos-u55-64"), "trials") == usual == {"id": "ethos-u55-128"}
    own = target.facet(choice("ethos-u55-64", memory_mode="Sram_Only"), "trials")
    assert own == {"id": "ethos-u55-64", "memory_mode": "Sram_Only"}
    assert target.facet(choice(U55, arena_cache_bytes=65536), "trials") == usual


def test_that_a_failure_of_the_tools_names_the_corrections_that_are_off():
    one, two = CORRECTIONS[:2]
    failed = ErrorInfo(message="KeyError: 'x'", code="unexpected")
    refused = ErrorInfo(message="Vela ended.", code="vela-compile-failed")
    own = ErrorInfo(message="No data.", code="data-missing")
    assert with_switches((failed, own), {}) == (failed, own)
    found, vela, kept = with_switches((failed, refused, own), {one.id: False})
    assert kept == own
    assert found.code == vela.code == "correction-switched-off"
    assert found.where == Place(kind="option", id=f"target.options.{one.id}")
    # What the tools say is kept; a failure that nobody expected is said to be one.
    assert vela.message == refused.message
    assert found.message.endswith(failed.message)
    assert found.message != failed.message
    assert one.title in found.hint
    (long,) = with_switches((ErrorInfo(message="x" * 700, code="vela-compile-failed"),), {one.id: False})
    assert len(long.message) == 600
    (both,) = with_switches((refused,), {one.id: False, two.id: False})
    assert one.id in both.hint
    assert two.id in both.hint
    assert with_switches((refused, found), {one.id: False}) == (refused, found)
