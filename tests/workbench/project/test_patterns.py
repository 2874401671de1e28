"""Patterns of a project: what they match, and that none takes long."""

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.for_each import for_each
from tests.workbench.project.builders import make_project
from workbench.project import edits
from workbench.project.patterns import fault, fits
from workbench.project.rules import unusable_patterns


@for_each(
    ("pattern", "name", "is_match"),
    [
        ("layers_[0-3].*", "layers_2_conv", True),
        ("layers_[0-3].*", "layers_4_conv", False),
        ("layers", "layers_2", False),
        (r"\w+\.\d{1,3}", "layers.12", True),
        ("(?!head).*", "body.conv", True),
        ("(?!head).*", "head.conv", False),
        (r"(a|b)x\1", "bxb", True),
        (r"(a|b)x\1", "bxa", False),
        (".*(?<!bias)", "conv.weight", True),
        (".*(?<!bias)", "conv.bias", False),
    ],
)
def test_that_a_pattern_matches_whole_names(pattern, name, is_match):
    assert fault(pattern) == ""
    assert fits(pattern, name) == is_match == (re.fullmatch(pattern, name) is not None)


@for_each(
    ("pattern", "name"),
    [
        ("(([a-z_0-9.]?)+)+!", "block.layers.conv2d_relu_12345"),
        ("(a|aa)+!", "a" * 200),
        ("(a+a+)+b", "a" * 200),
        (r"((a|aa)+)+\1!", "a" * 200),
        ("(?=((a|aa)+)+!)a*", "a" * 200),
        ("(?:(?:(?:a?){500}){500}){500}!", "a" * 200),
        ("(" * 5000 + "a" + ")" * 5000, "a" * 200),
        ("(?=a*)" + "a*" * 90 + "!", "a" * 200),
        ("(a", "a"),
    ],
)
def test_that_a_pattern_that_may_take_long_or_is_none_matches_nothing(pattern, name):
    assert not fits(pattern, name)


@for_each("pattern", ["(" * 5000 + "a" + ")" * 5000, r"((a|aa)+)+\1!", "(a", "*"])
def test_that_an_unusable_pattern_is_told_with_its_rule(pattern):
    project = edits.assign(make_project(), "pattern", pattern, "float")
    (info,) = unusable_patterns(project)
    assert info.code == "rule-pattern-invalid"
    assert info.where.id == project.rules[-1].id
    assert len(info.message) < 300


@given(st.from_regex(r"[ab.?*+|()]{0,12}", fullmatch=True), st.text("ab.", max_size=8))
def test_that_usable_patterns_match_what_pythons_matcher_matches(pattern, name):
    try:
        expected = re.fullmatch(pattern, name) is not None
    except re.error:
        return
    if fault(pattern) == "":
        assert fits(pattern, name) == expected
