"""A compiled decoder reads a prompt and writes text on the simulator; a second program reads faster."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.engine.in_process import Engine
from tests.problems import refused
from workbench.cli import main
from workbench.engine.data.text import read_text
from workbench.project import store
from workbench.project.model import DataSource, Tokenization
from workbench.project.sources import Reference
from workbench.results import PROGRAM_FILE

pytestmark = pytest.mark.engine
PROMPT, COUNT, SIZE = 'The "while" statement is used', 16, 8

# Greedy text by plain torch in float, in another process: the model's own file, token by token.
FLOAT = """
import json, sys, torch
import chat_model
from safetensors.torch import load_file
decoder, inputs = chat_model.model()
decoder.load_state_dict(load_file("chat_weights.safetensors"), strict=False)
caches, tokens, written = inputs[2:], list(sys.argv[1].encode()), []
with torch.no_grad():
    for place in range(len(tokens) + int(sys.argv[2]) - 1):
        token = torch.tensor([[tokens[place]]], dtype=torch.int32)
        logits, *caches = decoder(token, torch.tensor([place], dtype=torch.int32), *caches)
        if place >= len(tokens) - 1:
            tokens.append(int(logits.argmax()))
print(json.dumps(tokens[-int(sys.argv[2]):]))
"""


def compiled(engine, name, *options):
    """Return the path of a recipe's program with int8 caches that are handed on."""
    command = ["new", str(engine.folder / f"{name}.qwb"), "--recipe", "llm_decoder_static"]
    assert main([*command, "--caches", "int8", *options]) == 0
    project = store.load(engine.folder / f"{name}.qwb")
    engine.lowered(project)
    path = engine.folder / f"{name}.pte"
    path.write_bytes((engine.path(project, "lower") / PROGRAM_FILE).read_bytes())
    return path


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Return the program that writes, that for prompts, and the folder of the model's file."""
    engine = Engine(tmp_path_factory.mktemp("generate"))
    try:
        yield SimpleNamespace(
            folder=engine.folder,
            chat=compiled(engine, "chat"),
            prompt=compiled(engine, "prompt", "--prompt-tokens", str(SIZE)),
        )
    finally:
        engine.close()


def generated(capsys, *arguments):
    capsys.readouterr()
    assert main(["generate", *map(str, arguments), "--prompt", PROMPT, "--tokens", str(COUNT), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_that_the_program_writes_what_the_float_model_writes(programs, capsys):
    command = [sys.executable, "-c", FLOAT, PROMPT, str(COUNT)]
    plain = subprocess.run(command, cwd=programs.folder, check=True, capture_output=True)
    expected = json.loads(plain.stdout)
    document = generated(capsys, programs.chat)
    assert document["tokens"] == expected
    assert document["text"] == bytes(expected).decode()
    assert (document["prompt_tokens"], document["calls"]) == (len(PROMPT), len(PROMPT) + COUNT - 1)


@pytest.mark.slow
def test_that_a_prompt_that_is_read_several_tokens_in_a_call_gives_the_same_text(programs, capsys):
    alone = generated(capsys, programs.chat)
    document = generated(capsys, programs.chat, "--prefill", programs.prompt)
    calls = (len(PROMPT) - 1) // SIZE
    assert document["tokens"] == alone["tokens"]
    assert document["prefill"]["calls"] == calls
    assert document["calls"] == alone["calls"] - calls * SIZE


@pytest.mark.slow
def test_that_text_is_on_stdout_and_how_it_was_computed_on_stderr(programs, capsys):
    assert main(["generate", str(programs.chat), "--prompt", "The", "--tokens", "3"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("The")
    assert out.count("\n") == 1
    assert "3 written" in err


@pytest.mark.slow
def test_that_drawn_text_follows_its_seed(programs, capsys):
    options = (programs.chat, "--temperature", "2", "--seed")
    first, again, other = (generated(capsys, *options, seed)["tokens"] for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "options", "code"),
    [
        ("prompt", (), "program-not-decoder"),
        ("missing", (), "file-missing"),
        ("chat", ("--tokenizer", "broken.json"), "tokenizer-unreadable"),
        ("chat", ("--tokenizer", "large.json"), "token-out-of-vocabulary"),
        ("chat", ("--tokens", "0"), "option-out-of-range"),
    ],
)
def test_that_what_does_not_fit_is_refused(programs, capsys, monkeypatch, file, options, code):
    from tokenizers import Tokenizer, models

    monkeypatch.chdir(programs.folder)
    (programs.folder / "broken.json").write_text("{}")
    large = Tokenizer(models.WordLevel({"?": 300}, unk_token="?"))
    large.save(str(programs.folder / "large.json"))
    command = ["generate", f"{file}.pte", "--prompt", "The", *options, "--json"]
    assert main(command) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code


def spec(dtype, *shape):
    return SimpleNamespace(name="input", dtype=dtype, shape=shape)


def read(folder, text, *inputs, **options):
    (folder / "t.txt").write_text(text)
    source = DataSource(spec="t.txt", tokens=Tokenization(length=5), **options)
    reference = Reference("array", folder / "t.txt")
    return [*read_text(reference, source, inputs, "calibration", folder)]


def test_that_a_call_gets_several_tokens_their_positions_and_empty_caches(tmp_path):
    inputs = (spec("int32", 1, 2), spec("int64", 2), spec("float32", 1, 3))
    samples = read(tmp_path, "abcdefghij", *inputs)
    found = [(s.index, s.begins, bytes(s.inputs[0][0].tolist()), chr(s.label)) for s in samples]
    assert found == [
        (0, True, b"ab", "c"),
        (1, False, b"cd", "e"),
        (2, True, b"fg", "h"),
        (3, False, b"hi", "j"),
    ]
    assert [s.inputs[1].tolist() for s in samples] == [[0, 1], [2, 3]] * 2
    assert [s.inputs[1].dtype for s in samples] == [torch.int64] * 4
    assert all(np.array_equal(s.inputs[2], np.zeros((1, 3))) and s.carried == 1 for s in samples)
    left = read(tmp_path, "abcdefghij", *inputs, dropped=(0,))
    assert [s.index for s in left] == [2, 3]


def test_that_a_position_may_be_that_of_the_first_token(tmp_path):
    samples = read(tmp_path, "abcdefg", spec("int32", 1, 2), spec("int32", 1))
    assert [s.inputs[1].tolist() for s in samples] == [[0], [2]]


def test_that_texts_shorter_than_a_call_are_refused(tmp_path):
    with refused("text-too-short"):
        read(tmp_path, "ab", spec("int32", 1, 2))
    with refused("text-too-short"):
        read(tmp_path, "abcdefghijkl", spec("int32", 1, 6))
