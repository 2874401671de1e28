"""Decoders read a text step by step, remember it, and forget where a sequence begins."""

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.engine import decoders
from workbench.cli import main
from workbench.project import edits
from workbench.project.model import (
    DataSource,
    Evaluation,
    ModelSource,
    Project,
    TargetChoice,
    Tokenization,
    Verification,
)
from workbench.results import PROGRAM_FILE

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]
TEXT = "the cat sat on the mat and sang"


@pytest.fixture
def reading(engine):
    """Return what makes a project in which a decoder reads a text of the engine's folder."""
    shutil.copy(Path(__file__).parent / "decoders.py", engine.folder / "decoders.py")
    (engine.folder / "text.txt").write_text(TEXT)

    def make(model, *, length=decoders.CONTEXT, tokenizer="", config="a8w8", **data):
        tokens = Tokenization(length=length, tokenizer=tokenizer)
        project = Project(
            name=model,
            model=ModelSource(spec=f"decoders.py:{model}"),
            calibration=DataSource(spec="text.txt", tokens=tokens, **data),
            evaluation=Evaluation(),
            target=TargetChoice(id="ethos-u85-256"),
            verification=Verification(samples=12),
        )
        return edits.assign(project, "global", "", config)

    return make


def by_hand(model, length):
    """Return the float model's perplexity of the text, with a model anew for each sequence."""
    numbers, surprise = list(TEXT.encode()), 0.0
    for start in range(0, len(numbers) - 1, length):
        module, _ = getattr(decoders, "adding" if model == "adding" else "kept")()
        for place, number in enumerate(numbers[start : start + length][: len(numbers) - 1 - start]):
            takes = [torch.tensor([[number]]), torch.tensor([place])]
            with torch.no_grad():
                logits = module(*takes[: 1 if model == "adding" else 2])
            surprise -= float(logits[0].double().log_softmax(0)[numbers[start + place + 1]])
    return math.exp(surprise / (len(numbers) - 1))


@pytest.mark.parametrize(
    "model", ["adding", *(pytest.param(m, marks=pytest.mark.slow) for m in ("kept", "carried"))]
)
def test_that_a_text_is_read_in_sequences_that_begin_anew(engine, reading, model):
    project = reading(model)
    assert engine.run(project, "evaluate") == "done", engine.failure
    found = engine.result(project, "evaluate").text
    assert (found.tokens, found.sequences) == (len(TEXT) - 1, 4)
    assert found.perplexity_float == pytest.approx(by_hand(model, decoders.CONTEXT), rel=1e-5)
    assert found.perplexity_quantized != found.perplexity_float
    assert 0 < found.kl_quantized < 0.1
    assert [s.token for s in found.steps[:3]] == ["t", "h", "e"]
    assert [s.follows for s in found.steps[:3]] == ["h", "e", "\u2423"]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["kept", "carried"])
def test_that_the_integer_program_reads_the_text_too(engine, reading, model):
    project = reading(model)
    assert engine.run(project, "package", "evaluate") == "done", engine.failure
    found = engine.result(project, "verify")
    assert found.max_lsb <= 2
    # Caches that are handed on are outputs, too; only the logits are compared.
    assert (found.compiled.whole_refused, found.compiled.whole_max_lsb) == ("", 0)
    assert found.text.tokens == 12
    assert found.text.perplexity_integer == pytest.approx(found.text.perplexity_quantized, rel=0.02)
    assert max(s.max_lsb for s in found.text.steps) == found.max_lsb
    state = engine.result(project, "export").state
    assert state == (("key_cache", "value_cache") if model == "kept" else ())
    note = (engine.path(project, "package") / f"{model}.md").read_text()
    assert ("keeps state between inferences" in note) == (model == "kept")
    assert ("Its last 2 outputs are the last 2 inputs" in note) == (model == "carried")
    if model == "kept":
        reasons = [n.reason for n in engine.result(project, "lower").cpu_nodes]
        assert any("Converts state for the next run" in reason for reason in reasons)
        from executorch.exir._serialize._program import deserialize_pte_binary

        program = (engine.path(project, "lower") / PROGRAM_FILE).read_bytes()
        begun = [buffer.storage for buffer in deserialize_pte_binary(program).mutable_data]
        assert bytes(4 * decoders.CONTEXT * decoders.WIDTH) in begun


def in_float(folder, numbers):
    """Return the logits [tokens, vocabulary] of the float model, by plain torch elsewhere."""
    code = (
        "import sys, torch, numpy, decoders\n"
        "module, _ = decoders.kept()\n"
        "steps = [(torch.tensor([[int(n)]]), torch.tensor([i]))"
        " for i, n in enumerate(sys.argv[2:])]\n"
        "with torch.no_grad():\n"
        "    numpy.save(sys.argv[1], torch.cat([module(*step) for step in steps]).numpy())\n"
    )
    command = [sys.executable, "-c", code, "float.npy", *map(str, numbers)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return np.load(folder / "float.npy")


def sqnr(exact, values):
    return 10 * math.log10(np.square(exact).sum() / np.square(exact - values).sum())


@pytest.mark.slow
@pytest.mark.parametrize("model", ["kept", "carried"])
def test_that_the_simulator_keeps_caches_from_step_to_step(engine, reading, model):
    project = reading(model)
    engine.lowered(project)
    numbers = TEXT.encode()[: decoders.CONTEXT]
    program = str(engine.path(project, "lower") / PROGRAM_FILE)
    inputs, out = engine.folder / "steps.npz", engine.folder / "logits.npz"
    tokens = np.array([*numbers], np.int32).reshape(-1, 1, 1)
    places = np.arange(len(numbers), dtype=np.int32)[:, None]
    empty = [np.zeros((1, decoders.CONTEXT, decoders.WIDTH), np.float32)] * 2
    given = [tokens, places, *(empty if model == "carried" else [])]
    np.savez(inputs, **{f"in{i}": values for i, values in enumerate(given)})
    command = ["simulate", program, "--inputs", str(inputs), "--out", str(out)]
    assert main([*command, "--sequence"]) == 0
    exact = in_float(engine.folder, numbers)
    logits = np.load(out)["out0"].reshape(exact.shape)
    assert sqnr(exact, logits) > 25
    if model == "kept":
        assert main(command) == 0
        alone = np.load(out)["out0"].reshape(exact.shape)
        assert np.array_equal(alone[0], logits[0])
        assert sqnr(exact[1:], alone[1:]) < sqnr(exact[1:], logits[1:]) - 3


def test_that_tokenizers_of_ones_own_number_the_text(engine, reading):
    (engine.folder / "tokenizer.json").write_text(
        json.dumps(
            {
                "version": "1.0",
                "added_tokens": [],
                "normalizer": None,
                "post_processor": None,
                "pre_tokenizer": {"type": "Whitespace"},
                "decoder": None,
                "truncation": None,
                "padding": None,
                "model": {"type": "WordLevel", "vocab": {"the": 0, "cat": 1, "?": 2}, "unk_token": "?"},
            }
        )
    )
    words, own = reading("adding", tokenizer="tokenizer.json"), "decoders.py:letters"
    assert engine.run(words, "evaluate") == "done", engine.failure
    steps = engine.result(words, "evaluate").text.steps
    assert [s.token for s in steps[:3]] == ["the", "cat", "?"]
    letters = reading("adding", tokenizer=own)
    assert engine.run(letters, "evaluate") == "done", engine.failure
    assert engine.result(letters, "evaluate").text.steps[0].token == str(ord("t") - ord("a"))


def test_that_a_step_left_out_ends_its_sequence(engine, reading):
    project = reading("adding", dropped=(3,))
    assert engine.run(project, "evaluate") == "done", engine.failure
    samples = [s.sample for s in engine.result(project, "evaluate").text.steps]
    assert samples[:4] == [0, 1, 2, 8]


@pytest.mark.parametrize(
    ("options", "content", "code"),
    [
        ({"length": 9}, TEXT.encode(), "decoder-context-exceeded"),
        ({}, "naïve café".encode("latin-1"), "text-not-utf8"),
        ({}, b"", "text-too-short"),
        ({}, "caf\u00e9 au lait".encode(), "token-out-of-vocabulary"),
        ({"tokenizer": "decoders.py:broken"}, TEXT.encode(), "user-code-failed"),
        ({"tokenizer": "text.json"}, TEXT.encode(), "tokenizer-unreadable"),
    ],
)
def test_that_a_text_that_cannot_be_read_says_why(engine, reading, options, content, code):
    (engine.folder / "text.json").write_text("{}")
    (engine.folder / "text.txt").write_bytes(content)
    assert engine.run(reading("kept", **options), "calibrate") == "failed"
    assert engine.failure.code == code
    assert engine.failure.hint


def test_that_a_model_that_takes_no_tokens_reads_no_text(engine, reading):
    project = edits.set_model(reading("kept"), ModelSource(spec="networks.py:small"))
    assert engine.run(project, "calibrate") == "failed"
    assert engine.failure.code == "text-model-not-decoder"


@pytest.mark.slow
@pytest.mark.parametrize(("target", "config"), [("formats", "integer-8"), ("nnpa", "int8-dyn")])
def test_that_emulated_programs_remember_what_they_read(engine, reading, target, config):
    found = []
    for model in ("kept", "carried"):
        project = edits.set_target(reading(model, config=config), TargetChoice(id=target))
        assert engine.run(project, "evaluate") == "done", engine.failure
        found.append(engine.result(project, "evaluate").text)
    kept, carried = found
    assert kept.perplexity_quantized == pytest.approx(carried.perplexity_quantized, rel=1e-5)
    assert kept.kl_quantized > 0
