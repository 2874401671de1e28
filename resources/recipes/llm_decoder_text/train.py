"""Trains the recipe's decoder on sentences of documentation strings, in tokens of a vocabulary of its own.

Usage: python resources/recipes/llm_decoder_text/train.py [--size large] [--minutes 15] [--out FOLDER]

Reads Python's own documentation and that of packages that the workbench installs, and writes
tokenizer.json, weights.safetensors and the two texts, which are no part of what it is trained on.
The files follow the versions of Python (3.11) and of the packages.
"""

import argparse
import ast
import hashlib
import importlib.util
import re
import sysconfig
import time
import warnings
from pathlib import Path
from pydoc_data.topics import topics

import torch
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = Path(__file__).parent
PACKAGES = ("torch", "numpy", "scipy", "sklearn", "networkx", "sympy")
SKIPPED = {"site-packages", "test", "tests", "idle_test", "lib2to3"}
SENTENCES = re.compile(r"[A-Z][A-Za-z0-9 ,.;:'\"()`*_/+=<>-]{40,}[.]")
VOCABULARY, WINDOW, BATCH = 1024, 128, 32
LAYERS = {
    # The sizes of the recipe.
    "small": {"dim": 128, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "hidden_dim": 320},
    # Layers, width and heads of stories15M, llama2.c's decoder of TinyStories.
    "large": {"dim": 288, "n_layers": 6, "n_heads": 6, "n_kv_heads": 6, "hidden_dim": 768},
}
RATES = {"small": 4e-3, "large": 1.5e-3}
# One in so many paragraphs of Python's own documentation is held out.
HELD_OUT, CALIBRATION, EVALUATION = 100, 1000, 3000


def documentation(folder):
    """Yield the documentation strings of Python files in a folder."""
    for path in sorted(Path(folder).rglob("*.py")):
        if SKIPPED & {*path.relative_to(folder).parts}:
            continue
        try:
            tree = ast.parse(path.read_text("utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield ast.get_docstring(node) or ""


def paragraphs(strings):
    """Return the paragraphs that are sentences, each once, on one line."""
    joined = (" ".join(p.split()) for text in strings for p in re.split(r"\n\s*\n", text))
    return [*dict.fromkeys(p for p in joined if SENTENCES.fullmatch(p) and _letters(p) > 0.93)]


def _letters(text):
    return sum(c.isalpha() or c == " " for c in text) / len(text)


def texts():
    """Return the paragraphs to train on, and those of Python's documentation that are held out."""
    warnings.simplefilter("ignore")
    python = paragraphs([*topics.values(), *documentation(sysconfig.get_path("stdlib"))])
    held_out = [p for p in python if int(hashlib.sha256(p.encode()).hexdigest(), 16) % HELD_OUT == 0]
    folders = [importlib.util.find_spec(name).submodule_search_locations[0] for name in PACKAGES]
    others = paragraphs(text for folder in folders for text in documentation(folder))
    kept = dict.fromkeys([*python, *others])
    return [p for p in kept if p not in set(held_out)], held_out


def tokenizer_of(text):
    """Return a byte-level tokenizer trained on paragraphs."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(text, trainer)
    return tokenizer


def train(network, data, minutes, rate):
    """Train a network on token ids for some minutes; the rate falls to nothing."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.05, betas=(0.9, 0.98))
    begun, step, share = time.monotonic(), 0, 0.0
    while share < 1:
        starts = torch.randint(0, len(data) - WINDOW - 1, (BATCH,))
        rows = torch.stack([data[start : start + WINDOW + 1] for start in starts])
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 100) * (1 - share)
        with torch.autocast("cpu", torch.bfloat16):
            logits = network(rows[:, :-1]).flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits.float(), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        step, share = step + 1, (time.monotonic() - begun) / (60 * minutes)
        if step % 100 == 0:
            print(f"step {step} ({share:.0%}): perplexity {loss.exp().item():.2f}", flush=True)


def main():
    """Train, and write weights, tokenizer and texts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=LAYERS, default="small")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    kept, held_out = texts()
    tokenizer = tokenizer_of(kept)
    data = torch.tensor(tokenizer.encode("\n".join(kept)).ids)
    held = "\n".join(held_out)
    sizes = {**LAYERS[options.size], "vocab_size": tokenizer.get_vocab_size()}
    network = construct_transformer(
        ModelArgs(**sizes, max_seq_len=WINDOW, max_context_len=WINDOW, generate_full_logits=True)
    )
    weights = sum(p.numel() for p in network.parameters())
    print(f"{len(data):,} tokens, {len(held):,} characters held out, {weights:,} weights", flush=True)
    train(network, data, options.minutes, RATES[options.size])
    options.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(options.out / "tokenizer.json"))
    (options.out / "calibration.txt").write_text(held[:CALIBRATION])
    (options.out / "evaluation.txt").write_text(held[-EVALUATION:])
    state = {f"transformer.{name}": value.half() for name, value in network.state_dict().items()}
    save_file(state, options.out / "weights.safetensors")


if __name__ == "__main__":
    main()
