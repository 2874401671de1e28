"""Trains the recipe's decoder on the documentation that comes with Python, byte by byte.

Usage: python resources/recipes/llm_decoder/train.py [STEPS]

Writes weights.safetensors and the two texts, which are no part of what it is trained on. 4500
steps took 4 minutes on one core; the texts follow the version of Python (3.11).
"""

import sys
from pathlib import Path
from pydoc_data.topics import topics

import torch
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from safetensors.torch import save_file

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import llm_decoder  # noqa: E402 - it is beside this folder
from llm_decoder import CONTEXT, PARAMETERS, model  # noqa: E402

BATCH, RATE = 32, 6e-3
HELD_OUT, WINDOW = ("while", "with"), 60
CALIBRATION, EVALUATION = 512, 2048


def texts():
    """Return what to train on, and what is held out: no chapter that repeats a part of it."""
    held_out = "\n".join(topics[name] for name in HELD_OUT)
    parts = [held_out[at : at + WINDOW] for at in range(0, len(held_out) - WINDOW, WINDOW)]
    kept = [topics[name] for name in sorted(topics) if not any(p in topics[name] for p in parts)]
    return "\n".join(kept), held_out


def main():
    """Train, and write weights and texts."""
    torch.manual_seed(0)
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 4500
    kept, held_out = texts()
    (HERE / "calibration.txt").write_text(held_out[:CALIBRATION])
    (HERE / "evaluation.txt").write_text(held_out[-EVALUATION:])
    data = torch.frombuffer(bytearray(kept.encode()), dtype=torch.uint8).long()
    sizes = {**PARAMETERS, "max_seq_len": CONTEXT, "max_context_len": CONTEXT}
    network = construct_transformer(ModelArgs(**sizes, generate_full_logits=True))
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for step in range(steps):
        starts = torch.randint(0, len(data) - CONTEXT - 1, (BATCH,))
        rows = torch.stack([data[start : start + CONTEXT + 1] for start in starts])
        logits = network(rows[:, :-1]).flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 500 == 0:
            print(f"step {step}: perplexity {loss.exp().item():.2f}", flush=True)
    decoder, _ = model()
    trained = {f"transformer.{name}": value for name, value in network.state_dict().items()}
    decoder.load_state_dict({**decoder.state_dict(), **trained})
    save_file(with_scales(decoder.state_dict()), HERE / "weights.safetensors")


def with_scales(weights):
    """Return weights with the scales of int8 caches, measured on the calibration text."""
    llm_decoder.INT8_CACHES = True
    decoder, _ = model()
    decoder.load_state_dict(weights, strict=False)
    llm_decoder.measure_caches(decoder, (HERE / "calibration.txt").read_bytes())
    return weights | {n: v for n, v in decoder.state_dict().items() if n.endswith("_cache_scales")}


if __name__ == "__main__":
    main()
