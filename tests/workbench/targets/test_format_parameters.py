"""What values a format's parameters take, and under which names they are read."""

import pytest

from tests.for_each import for_each
from workbench.errors import WorkbenchError
from workbench.targets.formats.parameters import ParameterSpec, impossible, read

WIDTH = ParameterSpec("width", "int", "Bits.", least=2, most=8, aliases=("bits",))
SIGNED = ParameterSpec("is_signed", "bool", "Sign.", required=False, default=True)
FRAC = ParameterSpec("frac_width", "int", "Fraction.", optional=True, least=-4)
ALL = (WIDTH, SIGNED, FRAC)


def spec(kind, **fields):
    return ParameterSpec("p", kind, "What it is.", **fields)


@for_each(
    ("parameter", "good", "bad"),
    [
        (WIDTH, (2, 5, 8), (1, 9, 2.0, True, "3", None)),
        (FRAC, (None, -4, 10**6), (-5, "x", 1.5)),
        (spec("bool"), (True, False), (1, 0, "true", None)),
        (spec("number", least=0.5), (0.5, 1, 3.25), (0.25, float("inf"), float("nan"), True)),
        (spec("choice", choices=("a", "b")), ("a", "b"), ("c", "", None)),
        (spec("ints", least=1, most=4), ([1], (2, 4)), ([], [0], [1, 5], [1.5], 3, [True])),
        (spec("numbers"), ([0.5, 1], (2,)), ([], ["x"], [float("inf")], 0.5)),
    ],
)
def test_that_values_within_the_limits_are_taken_and_no_others(parameter, good, bad):
    assert [value for value in good if parameter.problem(value)] == []
    assert [value for value in bad if not parameter.problem(value)] == []


def test_that_a_value_out_of_range_is_told_with_its_limits():
    assert all(part in WIDTH.problem(9) for part in ("9", "2", "8"))
    assert all(part in FRAC.problem(-5) for part in ("-5", "-4"))
    assert "3" in spec("ints", most=2).problem([1, 3])


def test_that_defaults_are_filled_in():
    assert read("f", ALL, {"width": 4, "frac_width": None}, "data") == {
        "width": 4,
        "is_signed": True,
        "frac_width": None,
    }


def test_that_every_missing_unknown_and_wrong_name_is_told_at_once():
    with pytest.raises(WorkbenchError) as caught:
        read("f", ALL, {"widht": 4, "is_signed": 3}, "data")
    infos = caught.value.infos
    assert [info.where.id for info in infos] == ["widht", "width", "is_signed", "frac_width"]
    assert {info.where.kind for info in infos} == {"option"}
    assert "'width'" in infos[0].hint


def test_that_the_operands_prefix_wins_and_other_operands_are_passed_over():
    given = {"weight_width": 5, "width": 3, "data_in_width": 7, "bias_frac_width": 1}
    given |= {"frac_width": 1, "name": "integer", "bypass": True, "data_out_width": 3}
    assert read("f", ALL, given, "weight")["width"] == 5
    assert read("f", ALL, given, "data")["width"] == 7
    assert read("f", ALL, given, "bias") == {"width": 3, "is_signed": True, "frac_width": 1}


def test_that_aliases_and_a_nested_configuration_are_read():
    assert read("f", ALL, {"bits": 6, "frac_width": 0}, "data")["width"] == 6
    nested = {"q_config": {"width": 4, "frac_width": 1}, "width": 5}
    assert read("f", ALL, nested, "data") == {"width": 5, "is_signed": True, "frac_width": 1}
    with pytest.raises(WorkbenchError):
        read("f", ALL, {"q_config": 3, "width": 4, "frac_width": 0}, "data")


def test_that_words_and_whole_floats_become_what_they_mean():
    for word in ("none", "NA", "null"):
        assert read("f", ALL, {"width": 4, "frac_width": word}, "data")["frac_width"] is None
    found = read("f", ALL, {"width": 4.0, "frac_width": 1}, "data")
    assert (found["width"], type(found["width"])) == (4, int)
    with pytest.raises(WorkbenchError):
        read("f", ALL, {"width": 4.5, "frac_width": 1}, "data")
    sizes, shares = spec("ints", least=1), spec("numbers")
    assert read("f", (sizes,), {"p": 4}, "data")["p"] == (4,)
    assert read("f", (sizes,), {"p": [4, 2]}, "data")["p"] == (4, 2)
    assert read("f", (shares,), {"p": 0.5}, "data")["p"] == (0.5,)
    for wrong in (0.5, True):
        with pytest.raises(WorkbenchError):
            read("f", (sizes,), {"p": wrong}, "data")


MINIFLOAT = {"width": 8, "exponent_width": 4, "exponent_bias": None}
BLOCK = {"width": 8, "exponent_width": 8, "exponent_bias": 127, "block_size": (1, 4)}


@for_each(
    ("scheme", "possible", "never"),
    [
        ("minifloat_ieee", MINIFLOAT | {"width": 5}, MINIFLOAT | {"width": 4}),
        ("minifloat_denorm", MINIFLOAT | {"width": 6}, MINIFLOAT | {"width": 5}),
        ("minifloat_ieee", MINIFLOAT | {"exponent_bias": -113}, MINIFLOAT | {"exponent_bias": -114}),
        ("minifloat_ieee", MINIFLOAT | {"exponent_bias": 164}, MINIFLOAT | {"exponent_bias": 165}),
        (
            "minifloat_ieee",
            MINIFLOAT | {"width": 16, "exponent_width": 8},
            MINIFLOAT | {"width": 16, "exponent_width": 9},
        ),
        (
            "block_minifloat",
            {"width": 5, "exponent_width": 4, "block_size": [1]},
            {"width": 4, "exponent_width": 4, "block_size": [1]},
        ),
        ("log", {"width": 2}, {"width": 1}),
        ("log", {"width": 12}, {"width": 13}),
        ("block_log", {"width": 8, "block_size": (1, 4)}, {"width": 9, "block_size": (1, 4)}),
        ("block_log", {"width": 2, "block_size": (4,)}, {"width": 2, "block_size": (4, 0)}),
        ("block_fp", BLOCK | {"width": 32}, BLOCK | {"width": 33}),
        ("block_fp", BLOCK | {"width": 2}, BLOCK | {"width": 1}),
        ("block_fp", BLOCK, BLOCK | {"exponent_bias": 126}),
        ("mxfp", {"exponent_width": 4, "frac_width": 3}, {"exponent_width": 4, "frac_width": 2}),
        ("mxfp", {"exponent_width": 1, "frac_width": 2}, {"exponent_width": 2, "frac_width": 2}),
        ("mxint_hardware", {"width": 8, "parallelism": [1, 4]}, {"width": 8, "parallelism": [4]}),
        ("mxint_hardware", {"width": 2, "parallelism": [1, 4]}, {"width": 1, "parallelism": [1, 4]}),
        ("mxint_hardware", {"width": 32, "parallelism": [1, 4]}, {"width": 33, "parallelism": [1, 4]}),
        ("integer", {"width": 8}, {"width": 8, "block_size": [0]}),
    ],
)
def test_that_formats_that_cannot_be_are_told_from_those_that_can(scheme, possible, never):
    assert impossible(scheme, possible) == ""
    assert impossible(scheme, never).startswith(scheme)


def test_that_elements_are_those_of_the_mx_specification_and_one_more_of_four_bits():
    pairs = [(e, f) for e in range(1, 6) for f in range(1, 4)]
    known = {
        f"E{e}M{f}" for e, f in pairs if impossible("mxfp", {"exponent_width": e, "frac_width": f}) == ""
    }
    # FP8, FP6 and FP4 of OCP Microscaling Formats v1.0.
    assert known == {"E4M3", "E5M2", "E2M3", "E3M2", "E2M1"} | {"E1M2"}


def test_that_a_format_without_parameters_says_so():
    with pytest.raises(WorkbenchError) as caught:
        read("f", (), {"width": 4}, "data")
    assert "none" in caught.value.infos[0].hint


def test_that_the_width_that_is_needed_is_told():
    assert "5" in impossible("minifloat_ieee", MINIFLOAT | {"width": 3})
    assert "6" in impossible("minifloat_denorm", MINIFLOAT | {"width": 3})
