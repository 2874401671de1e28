"""Arguments that several verbs share."""

import argparse

import pytest

from tests.for_each import for_each
from workbench.cli.output import add_several


@pytest.fixture
def verb():
    parser = argparse.ArgumentParser()
    add_several(parser, "--targets")
    add_several(parser, "--sizes", int)
    return parser


@for_each("written", ["a b c", "a,b,c", "a, b,c", "a,b c"])
def test_that_several_values_stand_apart_by_spaces_or_commas(verb, written):
    assert verb.parse_args(["--targets", *written.split()]).targets == ["a", "b", "c"]


def test_that_one_wrong_value_among_several_is_refused(verb, capsys):
    assert verb.parse_args(["--sizes", "4,8", "16"]).sizes == [4, 8, 16]
    with pytest.raises(SystemExit):
        verb.parse_args(["--sizes", "4,x"])
    assert "invalid int value: '4,x'" in capsys.readouterr().err
