"""What the table of number formats says: defaults, smallest values, and which formats are what."""

import numpy as np
import pytest

from tests.for_each import for_each
from workbench.errors import WorkbenchError
from workbench.project.configs import FormatConfig
from workbench.project.model import TargetChoice
from workbench.targets import target_of
from workbench.targets.formats.parameters import read
from workbench.targets.formats.schemes import SPECS, spec_of
from workbench.targets.formats.values import placed

MX = {"block_size": 32, "block_dim": None, "scale_bits": 8, "quantile_search": False}
SIGNS = {"width": None, "stochastic": False, "bipolar": True}
TREE = {"levels": 2, "means": None}
# What must be given, and what a parameter means that is left out, as files of projects do. The
# figures of mxint and mxfp are those of OCP Microscaling Formats v1.0, those of nvfp4 NVIDIA's.
DEFAULTS = {
    "integer": ({"width": 8, "frac_width": 3}, {"is_signed": True, "floor": False}),
    "fixed": ({"width": 8, "frac_width": 3}, {"is_signed": True, "floor": False}),
    "integer_floor": ({"width": 8, "frac_width": 3}, {"is_signed": True}),
    "scale_integer": ({"width": 8}, {"is_signed": True, "quantile": None}),
    "flexround": ({"width": 8, "frac_width": 3}, {"symmetric": True}),
    "minifloat_ieee": ({"width": 8, "exponent_width": 4}, {"exponent_bias": None}),
    "minifloat_denorm": ({"width": 8, "exponent_width": 4}, {"exponent_bias": None}),
    "log": ({"width": 8}, {"exponent_bias": None}),
    "binary": ({}, SIGNS),
    "binary_residual": ({}, {**SIGNS, **TREE, "residual_sign": True, "binary_training": True}),
    "ternary": (
        {},
        {
            "width": None,
            "scaling_factor": True,
            "mean": None,
            "median": None,
            "max": None,
            "maximum": None,
            "threshold": None,
        },
    ),
    "block_fp": (
        {"width": 8, "exponent_width": 8, "block_size": (1, 2)},
        {"exponent_bias": None, "skip_first_dim": None},
    ),
    "block_minifloat": (
        {"width": 8, "exponent_width": 4, "exponent_bias_width": 8, "block_size": (1, 2)},
        {"skip_first_dim": None},
    ),
    "block_log": ({"width": 4, "exponent_bias_width": 8, "block_size": (1, 2)}, {"skip_first_dim": None}),
    "mxint_hardware": ({"width": 8, "exponent_width": 8, "parallelism": (1, 2)}, {}),
    "logicnets": ({"width": 8, "frac_width": 3}, {"is_signed": True}),
    "lutnet": (
        {},
        {
            "width": None,
            "frac_width": None,
            **TREE,
            "k": 2,
            "binarization_level": 1,
            "input_expanded": True,
            "in_dim": None,
        },
    ),
    "mxint": ({"width": 8}, MX),
    "mxfp": ({"exponent_width": 4, "frac_width": 3}, {"width": None, **MX}),
    "nvfp4": ({}, {"block_size": 16, "block_dim": None}),
    "minifloat_mx": ({"exponent_width": 4, "frac_width": 3}, {"is_finite": True, "round_mode": "rn"}),
}


def given(scheme, **parameters):
    return read(scheme, spec_of(scheme).parameters, parameters, "data")


def test_that_parameters_that_are_left_out_have_their_defaults():
    assert {spec.name for spec in SPECS} == set(DEFAULTS)
    for scheme, (needed, others) in DEFAULTS.items():
        assert given(scheme, **needed) == {**needed, **others}, scheme
        for name in needed:
            with pytest.raises(WorkbenchError):
                given(scheme, **{key: value for key, value in needed.items() if key != name})


@for_each(
    ("scheme", "least"),
    [
        ("integer", {"width": 1, "frac_width": -64}),
        ("flexround", {"width": 1, "frac_width": -64}),
        ("minifloat_ieee", {"width": 1, "exponent_width": 1, "exponent_bias": -1100}),
        ("block_minifloat", {"width": 1, "exponent_width": 1, "exponent_bias_width": 1, "block_size": (-1,)}),
        ("binary_residual", {"levels": 1}),
        ("mxint_hardware", {"width": 1, "exponent_width": 1, "parallelism": (1,)}),
        ("lutnet", {"levels": 1, "k": 1, "binarization_level": 0}),
        ("mxint", {"width": 2, "block_size": 1, "block_dim": -8, "scale_bits": 2}),
        ("mxfp", {"exponent_width": 1, "frac_width": 1, "block_size": 1, "scale_bits": 2}),
        ("nvfp4", {"block_size": 1, "block_dim": -8}),
        ("minifloat_mx", {"exponent_width": 1, "frac_width": 1}),
    ],
)
def test_that_a_parameter_may_be_as_small_as_this_and_no_smaller(scheme, least):
    assert given(scheme, **least).items() >= least.items()
    for name, value in least.items():
        smaller = (value[0] - 1,) if isinstance(value, tuple) else value - 1
        with pytest.raises(WorkbenchError):
            given(scheme, **{**least, name: smaller})


def test_that_blocks_may_lie_along_any_of_eight_dimensions():
    assert given("mxint", width=8, block_dim=7)["block_dim"] == 7
    with pytest.raises(WorkbenchError):
        given("mxint", width=8, block_dim=8)


def test_that_the_values_of_a_block_depend_on_each_other_and_no_others_do():
    for spec in SPECS:
        # The scale of ternary is that of a slice.
        if not spec.operand or spec.name == "ternary":
            continue
        parameters = given(spec.name, **DEFAULTS[spec.name][0])
        alone, beside = (
            placed(np.array([[0.3, other]]), spec.name, parameters)[0, 0] for other in (0.3, 1e9)
        )
        assert (alone != beside) == spec.block, spec.name


def test_that_only_some_formats_are_for_arrays_alone_or_no_format_of_mase():
    target, choice = target_of("formats"), TargetChoice(id="formats")
    refused = set()
    for scheme, (needed, _) in DEFAULTS.items():
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in needed.items()}
        for mase in (False, True):
            config = FormatConfig(scheme=scheme, parameters=plain, mase_compatible=mase)
            if target.refusal(choice, config, "global"):
                refused.add((scheme, mase))
    arrays = {"scale_integer", "flexround", "minifloat_mx"}
    assert refused == {(name, mase) for name in arrays for mase in (False, True)} | {("nvfp4", True)}
