"""Files of others are read by one thread at a time where Python needs it."""

import ast
import threading
import time

import pytest

from tests.for_each import for_each
from workbench.text import listed, parse_expression, parse_python, read_toml, sentence, signed, whole_number


@for_each("parse", [parse_python, parse_expression])
def test_that_no_two_threads_make_a_tree_at_once(parse, monkeypatch):
    stock, inside, together = ast.parse, [], []

    def slow(*arguments, **options):
        inside.append(1)
        time.sleep(0.002)
        together.append(len(inside))
        inside.pop()
        return stock(*arguments, **options)

    monkeypatch.setattr(ast, "parse", slow)
    threads = [threading.Thread(target=parse, args=("a + 1",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == [1] * 4


def test_that_four_names_are_listed_and_the_rest_is_counted():
    assert listed([]) == ""
    assert listed(["a", "b", "a", "c", "d"]) == "a, b, c, d"
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c, d and 1 more"
    assert listed(["a", "b", "c"], most=1) == "a and 2 more"


def test_that_a_tree_is_that_of_python():
    assert ast.dump(parse_python(b"import a")) == ast.dump(ast.parse("import a"))
    assert isinstance(parse_expression("a + 1").body, ast.BinOp)


@for_each("text", ["a.a.a = 1", 'a = "' + "x" * 400_000 + '"', "a = '" + "x." * 30 + "'"])
def test_that_toml_with_long_words_is_read(text):
    assert "a" in read_toml(text)


@for_each("text", [".".join(["a"] * 60) + " = 1", " . ".join(['"é"'] * 60) + " = 1"])
def test_that_a_name_of_many_parts_is_refused(text):
    with pytest.raises(ValueError, match="40 parts"):
        read_toml(text)


def test_that_whole_numbers_are_digits_of_a_bounded_length():
    assert whole_number("0") == 0
    assert whole_number("9" * 18) == int("9" * 18)
    for text in ("", "-1", "1.5", "\u00b2", "9" * 19, "9" * 5000):
        assert whole_number(text) is None, text


def test_that_a_sentence_has_one_end():
    assert sentence("'(' was never closed") == "'(' was never closed."
    assert sentence("It failed. ") == "It failed."
    assert sentence("Why?") == "Why?"


def test_that_changes_have_a_minus_sign_and_zero_has_none():
    changes = {0.35: "+0.3", -1234.56: "\u22121,234.6", 0.0: "0.0", -0.04: "0.0"}
    assert {value: signed(value, 1) for value in changes} == changes
