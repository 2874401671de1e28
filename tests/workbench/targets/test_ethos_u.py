from tests.for_each import for_each
from tests.problems import refused
from workbench.project.configs import A16W8, PRESETS_BY_ID, Activation, QuantConfig
from workbench.project.model import TargetChoice
from workbench.targets import target_of
from workbench.targets.ethos_u import EthosU

VARIANTS = [variant.id for variant in EthosU.variants]


@for_each("variant", VARIANTS)
def test_that_every_offered_combination_is_accepted(variant):
    target = target_of(variant)
    first = target.options(TargetChoice(id=variant))
    for config in next(o for o in first if o.name == "system_config").choices:
        choice = TargetChoice(id=variant, options={"system_config": config.value})
        modes = next(o for o in target.options(choice) if o.name == "memory_mode").choices
        assert modes
        for mode in modes:
            options = {"system_config": config.value, "memory_mode": mode.value}
            assert target.check(TargetChoice(id=variant, options=options)) == []


@for_each(
    ("variant", "options", "place"),
    [
        ("ethos-u55-128", {"system_config": "Ethos_U85_SYS_DRAM_Mid"}, "system_config"),
        ("ethos-u55-128", {"memory_mode": "Dedicated_Sram"}, "memory_mode"),
        (
            "ethos-u85-256",
            {"system_config": "Ethos_U85_SYS_Flash_Low", "memory_mode": "Dedicated_Sram_384KB"},
            "memory_mode",
        ),
        ("ethos-u55-128", {"extra_flags": "--timing"}, "extra_flags"),
        ("ethos-u55-128", {"extra_flags": "--optimise=Size"}, "extra_flags"),
        ("ethos-u55-128", {"optimise": "Fast"}, "optimise"),
        ("ethos-u55-128", {"arena_cache_bytes": -1}, "arena_cache_bytes"),
        ("ethos-u55-128", {"integer_io": "yes"}, "integer_io"),
        ("ethos-u55-128", {"colour": "red"}, "colour"),
        ("ethos-u55-128", {"extra_flags": "--cop-format=COP2"}, "extra_flags"),
        ("ethos-u55-128", {"tensor_allocator": "Best"}, "tensor_allocator"),
        ("ethos-u55-128", {"separate_io_regions": 1}, "separate_io_regions"),
        ("ethos-u85-256", {"negative_infinity": 300.0}, "negative_infinity"),
    ],
)
def test_that_what_vela_would_take_in_silence_is_refused_with_its_place(variant, options, place):
    problems = target_of(variant).check(TargetChoice(id=variant, options=options))
    assert f"target.options.{place}" in {p.where.id for p in problems}


@for_each(
    "word",
    [
        # Writes SUPPORTED_OPS.md into the current folder.
        "--supported-ops-report",
        "--supp",
        "--list-configs=/",
        "--list-config-f",
        "--help",
        "-h",
        "--vers",
        # The parser of Vela takes these for --config and --output-dir.
        "--conf=/elsewhere/own.ini",
        "--output-d=/elsewhere",
        "--acc=ethos-u85-2048",
        "--",
    ],
)
def test_that_flags_of_vela_that_compile_nothing_or_are_set_are_refused_in_every_spelling(word):
    choice = TargetChoice(id="ethos-u55-128", options={"extra_flags": f"--verbose-performance {word}"})
    (told,) = target_of("ethos-u55-128").check(choice)
    assert told.code in {"vela-flag-lists", "vela-flag-reserved"}


def test_that_other_flags_of_vela_are_taken():
    flags = "--verbose-performance --ignore-ops=ADD --show-cpu-operations --enable-debug-db --new-in-6"
    choice = TargetChoice(id="ethos-u55-128", options={"extra_flags": flags})
    assert target_of("ethos-u55-128").check(choice) == []


@for_each("variant", VARIANTS)
def test_that_a_completed_choice_names_system_config_and_memory_mode(variant):
    target = target_of(variant)
    complete = target.complete(TargetChoice(id=variant))
    assert complete.options["system_config"]
    assert complete.options["memory_mode"]
    assert target.check(complete) == []


@for_each("variant", VARIANTS)
def test_that_options_have_the_defaults_of_a_completed_choice(variant):
    target, plain = target_of(variant), TargetChoice(id=variant)
    complete = target.complete(plain).options
    offered = {option.name: option.default for option in target.options(plain)}
    assert {name: offered[name] for name in complete} == complete
    assert complete["integer_io"] is False
    # What a choice has only if it is set is off by default.
    assert (offered["external_weights"], offered["config_ini"]) == (False, "")


def test_that_changing_the_device_mends_options_that_no_longer_fit():
    u85 = TargetChoice(id="ethos-u85-256", options={"memory_mode": "Dedicated_Sram"})
    moved = target_of("ethos-u55-128").complete(u85.model_copy(update={"id": "ethos-u55-128"}))
    assert moved.options["memory_mode"] == "Shared_Sram"


def test_that_an_unknown_device_is_refused_with_the_known_ones():
    with refused("target-unknown"):
        target_of("ethos-u55-100")
    (problem,) = EthosU().check(TargetChoice(id="ethos-u55-100"))
    assert (problem.code, problem.where.id) == ("device-unknown", "target.id")
    assert all(variant in problem.hint for variant in VARIANTS)


def test_that_a_sixteen_bit_product_is_warned_of_on_u55_but_not_on_u85():
    operators = ["aten.matmul.default"]
    u55, u85 = TargetChoice(id="ethos-u55-128"), TargetChoice(id="ethos-u85-256")
    assert target_of(u55.id).warnings(u55, A16W8, operators)
    assert not target_of(u85.id).warnings(u85, A16W8, operators)


def test_that_uint8_is_for_the_border_only():
    choice = TargetChoice(id="ethos-u55-128")
    uint8 = PRESETS_BY_ID["uint8"].config
    assert target_of(choice.id).refusal(choice, uint8, "global")
    assert not target_of(choice.id).refusal(choice, uint8, "io")


def test_that_sixteen_bit_activations_must_be_symmetric():
    choice = TargetChoice(id="ethos-u55-128")
    affine = QuantConfig(activation=Activation(dtype="int16", symmetric=False))
    assert "symmetric" in target_of(choice.id).refusal(choice, affine, "global")


def test_that_an_option_left_as_the_tools_choose_changes_no_key():
    target, plain = target_of("ethos-u85-256"), TargetChoice(id="ethos-u85-256")
    same = {"softmax": "", "negative_infinity": -256.0, "separate_io_regions": False}
    chosen = plain.model_copy(update={"options": same})
    for facet in ("quantizer", "compile"):
        assert target.facet(chosen, facet) == target.facet(plain, facet)
    other = plain.model_copy(update={"options": {"leaky_relu": "TABLE", "cop_format": "COP2"}})
    assert target.facet(other, "quantizer") != target.facet(plain, "quantizer")
    assert "passes" in target.facet(other, "quantizer")
    assert "cop_format" not in str(target.facet(other, "quantizer"))
