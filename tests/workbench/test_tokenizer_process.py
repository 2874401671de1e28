"""Tokenizer files of others: read by a process with bounds, or refused in a sentence."""

import json
import os

import pytest
from tokenizers import Tokenizer

from tests.problems import refused
from workbench.tokenizer_process import MAX_BYTES, FileTokenizer

PLAIN = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "b": 2}, "unk_token": "[UNK]"},
}  # fmt: skip
DOUBLING = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
# What a file does to the package, the text that makes it, and the code of the message.
HARMFUL = {
    # Patterns that take exponential time, and parts that do not fit together, are panics of the package.
    "pattern": ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated",
                                   "invert": False}}, "a" * 40 + "!", "tokenizer-unreadable"),
    "template": ({"post_processor": {
        "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}], "pair": [],
        "special_tokens": {}}}, "a", "tokenizer-unreadable"),
    # 2 to the power of 60 letters.
    "normalizer": ({"normalizer": {"type": "Sequence", "normalizers": [DOUBLING] * 60}}, "a",
                   "tokenizer-too-costly"),
    "padding": ({"padding": {"strategy": {"Fixed": 1 << 40}, "direction": "Right", "pad_to_multiple_of": None,
                             "pad_id": 0, "pad_type_id": 0, "pad_token": "b"}}, "a",
                "tokenizer-too-costly"),
}  # fmt: skip


def written(folder, **parts):
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**PLAIN, **parts}))
    return path


def test_that_tokens_are_those_of_the_package(tmp_path):
    path = written(tmp_path)
    package = Tokenizer.from_file(str(path))
    tokenizer = FileTokenizer(path, "tokenizer")
    for text in ("a b a x", "", "b\ud800"):
        known = text.encode(errors="replace").decode()
        assert tokenizer.ids(text).tolist() == package.encode(known).ids
    assert tokenizer.text([1, 2, 1]) == package.decode([1, 2, 1])
    tokenizer.close()
    assert tokenizer.ids("a").tolist() == [1]


@pytest.mark.parametrize(
    "name", ["pattern", "template", "padding", pytest.param("normalizer", marks=pytest.mark.slow)]
)
def test_that_a_tokenizer_that_panics_or_takes_all_memory_is_refused_in_a_sentence(tmp_path, name):
    parts, text, code = HARMFUL[name]
    with refused(code) as caught:
        FileTokenizer(written(tmp_path, **parts), "tokenizer").ids(text)
    assert caught.value.infos[0].where.id == "tokenizer"


@pytest.mark.slow
def test_that_text_of_tokens_is_bounded_too(tmp_path):
    path = written(tmp_path, decoder={"type": "Sequence", "decoders": [DOUBLING] * 60})
    tokenizer = FileTokenizer(path, "tokenizer")
    assert tokenizer.ids("a").tolist() == [1]
    with refused("tokenizer-too-costly"):
        tokenizer.text([1])
    assert tokenizer.ids("b").tolist() == [2]


def a_pipe(path):
    os.mkfifo(path)


def a_device(path):
    path.symlink_to("/dev/zero")


def a_large_file(path):
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)


@pytest.mark.parametrize("make", [a_pipe, a_device, a_large_file, lambda path: path.write_bytes(b"\xff{")])
def test_that_what_is_no_tokenizer_file_is_refused(tmp_path, make):
    make(tmp_path / "tokenizer.json")
    with refused("tokenizer-unreadable"):
        FileTokenizer(tmp_path / "tokenizer.json", "tokenizer").ids("a")
