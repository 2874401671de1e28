"""What the recipe's decoder of sentences writes, loses, costs and needs, by length of the context.

``python -m tests.text_decoder_figures`` measures what ``tests/data/text_decoder_figures.json``
lacks, and writes that file, the page of the guide and its picture.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.decoder_figures import costs, with_context
from workbench.guide import REFERENCE, table
from workbench.installation import resources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.engine.in_process import Engine
    from workbench.project.model import Project

KEPT = Path(__file__).parent / "data" / "text_decoder_figures.json"
PAGE = REFERENCE / "text-decoder-figures.md"
PICTURE = resources() / "pictures" / "decoder-memory.svg"
RECIPE, MODE = "llm_decoder_text", "ethosu_16a8w"
# The recipe's weights are for the first; the others are compiled with the same, for cost alone.
CONTEXTS = (128, 256, 512)
# Tokens of a call of the program for prompts.
PROMPT_TOKENS = 16
# Calibration tokens of programs that are compiled for their cost.
TOKENS = 32
PROMPTS = ("Return the number of", "This function is used to", "If the object is")
WRITTEN = 32


def measured(context: int, prompt_tokens: int) -> dict[str, Any]:
    """Return the figures of one program: time of a call [ms] and memory [bytes].

    With the recipe's own length of the context also perplexity and text, of the program that
    writes.
    """
    from tests.engine.in_process import Engine
    from workbench.project.recipes import Choice, begin, recipes
    from workbench.results import PROGRAM_FILE

    engine = Engine(Path(tempfile.mkdtemp()))
    try:
        choice = Choice(MODE, "full", "int8", prompt_tokens)
        project = begin(recipes()[RECIPE], engine.folder / "net.qwb", choice)
        writes = context == CONTEXTS[0] and prompt_tokens == 1
        if not writes:
            project = with_context(engine, project, CONTEXTS[0], context, TOKENS)
        figures = costs(engine, project)
        if writes:
            figures |= _quality(engine, project, engine.path(project, "lower") / PROGRAM_FILE)
        return figures
    finally:
        engine.close()


def _quality(engine: Engine, project: Project, program: Path) -> dict[str, Any]:
    """Return perplexities of the held-out text, and what float model and program write."""
    assert engine.run(project, "verify") == "done", engine.failure
    text = engine.result(project, "verify").text
    # That of verify has fewer tokens: those that the integer program computed.
    return {
        "tokens": text.tokens,
        "perplexity_float": text.perplexity_float,
        "perplexity_quantized": text.perplexity_quantized,
        "perplexity_integer": text.perplexity_integer,
        "kl_integer": text.kl_integer,
        "texts": [
            {
                "prompt": prompt,
                "float": _in_float(engine.folder, prompt),
                "program": _by_program(engine.folder, program, prompt),
            }
            for prompt in PROMPTS
        ],
    }


def _in_float(folder: Path, prompt: str) -> str:
    """Return the likeliest text after a prompt, by plain torch."""
    import importlib.util

    import torch
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    spec = importlib.util.spec_from_file_location("net_model", folder / "net_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    decoder, inputs = module.model()
    decoder.load_state_dict(load_file(folder / "net_weights.safetensors"))
    tokenizer = Tokenizer.from_file(str(folder / "net_tokenizer.json"))
    tokens, caches = list(tokenizer.encode(prompt).ids), list(inputs[2:])
    known = len(tokens)
    with torch.no_grad():
        for place in range(known + WRITTEN - 1):
            numbers = torch.tensor([[tokens[place]]]), torch.tensor([place])
            logits, *caches = decoder(*numbers, *caches)
            if place >= known - 1:
                tokens.append(int(logits.argmax()))
    return str(tokenizer.decode(tokens[known:]))


def _by_program(folder: Path, program: Path, prompt: str) -> str:
    """Return the likeliest text after a prompt, by the compiled program on the simulator."""
    from tokenizers import Tokenizer

    from workbench.npu.decoder import Decoder, written
    from workbench.npu.operator_process import CpuOperatorProcess

    tokenizer = Tokenizer.from_file(str(folder / "net_tokenizer.json"))
    with CpuOperatorProcess() as operators:
        decoder = Decoder(program, program.name, operators)
        ids = tokenizer.encode(prompt).ids
        tokens = [*written(decoder, ids, WRITTEN, lambda logits: int(np.argmax(logits)))]
    return str(tokenizer.decode(tokens))


def page(kept: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page of the guide from the figures, by context and tokens of a call."""
    first = kept[_key(CONTEXTS[0], 1)]
    lines = [*_ABOUT, "", "## Perplexity", ""]
    kinds = ("float", "quantized", "integer")
    titles = ("float model", "quantized model", "compiled program")
    rows = [(title, f"{first[f'perplexity_{kind}']:.2f}") for title, kind in zip(titles, kinds, strict=True)]
    lines += [f"Of {first['tokens']} held-out tokens, each given the ones before:", ""]
    lines += table(("program", "perplexity"), rows)
    lines += ["## Text", "", f"The likeliest {WRITTEN} tokens after a prompt:", ""]
    texts = [(t["prompt"], _cell(t["float"]), _cell(t["program"])) for t in first["texts"]]
    lines += table(("prompt", "float model", "compiled program on the simulator"), texts)
    lines += ["## Time", ""]
    lines += table(_TIME_HEADER, [_times(kept, context) for context in CONTEXTS])
    lines += ["## Memory [bytes]", "", f"![{_CAPTION}](../../pictures/{PICTURE.name})", ""]
    lines += table(_MEMORY_HEADER, [row for c in CONTEXTS for row in _memory_rows(kept, c)])
    return "\n".join(lines).rstrip() + "\n"


def _key(context: int, tokens: int) -> str:
    return f"{context} / {tokens}"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _times(kept: Mapping[str, Mapping[str, Any]], context: int) -> tuple[str, ...]:
    one, many = (kept[_key(context, tokens)] for tokens in (1, PROMPT_TOKENS))
    return (
        str(context),
        f"{one['ms']:.3f}",
        f"{1000 / one['ms']:,.0f}",
        f"{many['ms']:.3f}",
        f"{1000 * PROMPT_TOKENS / many['ms']:,.0f}",
        f"{one['cpu']} / {one['delegates']}",
    )


def _memory_rows(kept: Mapping[str, Mapping[str, Any]], context: int) -> list[tuple[str, ...]]:
    rows = []
    for tokens, name in ((1, "writes"), (PROMPT_TOKENS, "reads prompts")):
        f = kept[_key(context, tokens)]
        rows.append(
            (str(context), name, *(f"{f[key]:,}" for key in ("caches", "pools", "scratch", "program")))
        )
    return rows


_TIME_HEADER = (
    "context",
    "ms per token",
    "tokens per second",
    f"ms per {PROMPT_TOKENS} tokens of a prompt",
    "tokens of a prompt per second",
    "operators on the CPU / delegates",
)
_MEMORY_HEADER = ("context", "program", "caches", "runtime, caches included", "scratch", "program size")
_CAPTION = "Memory of a call by length of the context: caches, other values of the runtime, scratch memory"
_ABOUT = (
    "# Figures of a decoder that was trained on sentences",
    "",
    "Measured: `python -m tests.text_decoder_figures` writes this page. The recipe `llm_decoder_text`: "
    "779,136 weights in 3 layers of width 128, 1,024 tokens, trained by "
    "`resources/recipes/llm_decoder_text/train.py` on 5.5 million tokens, in 7 minutes of one processor "
    "core, of sentences of the documentation strings of Python and of packages. Its size is between those "
    "of stories260K and stories15M, decoders of "
    f"TinyStories. `workbench new --recipe {RECIPE} --mode {MODE} --scope full --caches int8` on "
    "Ethos-U85-256 with `Ethos_U85_SYS_DRAM_High` and `Dedicated_Sram_512KB`; the program for prompts "
    f"has `--prompt-tokens {PROMPT_TOKENS}`. Weights are trained for a context of {CONTEXTS[0]} tokens; "
    "longer ones are compiled for their cost. Time is estimated for the NPU alone.",
)

_PARTS = (("caches", "#4878a8"), ("other values", "#a8c4dc"), ("scratch", "#e0a458"))
_WIDTH, _LEFT, _BAR, _GAP, _TOP = 760, 150, 22, 10, 44


def picture(kept: Mapping[str, Mapping[str, Any]]) -> str:
    """Return an SVG: for each context and program a bar of its memory, in kilobytes."""
    bars = []
    for context in CONTEXTS:
        for tokens, name in ((1, "writes"), (PROMPT_TOKENS, "prompts")):
            f = kept[_key(context, tokens)]
            bars.append((f"{context}, {name}", (f["caches"], f["pools"] - f["caches"], f["scratch"])))
    most = max(sum(parts) for _, parts in bars)
    scale = (_WIDTH - _LEFT - 110) / most
    height = _TOP + len(bars) * (_BAR + _GAP) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        *_legend(),
    ]
    for row, (name, parts) in enumerate(bars):
        lines += _bar(name, parts, _TOP + row * (_BAR + _GAP), scale)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _legend() -> list[str]:
    lines, x = [], _LEFT
    for name, colour in _PARTS:
        lines.append(f'<rect x="{x}" y="12" width="14" height="14" fill="{colour}"/>')
        lines.append(f'<text x="{x + 20}" y="24" fill="#202020">{name}</text>')
        x += 130
    return lines


def _bar(name: str, parts: Sequence[int], y: int, scale: float) -> list[str]:
    lines = [f'<text x="{_LEFT - 12}" y="{y + 16}" text-anchor="end" fill="#202020">{name}</text>']
    x = float(_LEFT)
    for size, (_, colour) in zip(parts, _PARTS, strict=True):
        width = size * scale
        lines.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>')
        x += width
    lines.append(f'<text x="{x + 8:.1f}" y="{y + 16}" fill="#202020">{sum(parts) / 1000:,.0f} kB</text>')
    return lines


def main() -> None:
    """Measure programs; keep the figures of each at once."""
    for context in CONTEXTS:
        for tokens in (1, PROMPT_TOKENS):
            known = json.loads(KEPT.read_text()) if KEPT.exists() else {}
            if _key(context, tokens) not in known:
                known[_key(context, tokens)] = measured(context, tokens)
                KEPT.write_text(json.dumps(known, indent=1) + "\n")
    PAGE.write_text(page(known))
    PICTURE.write_text(picture(known))


if __name__ == "__main__":
    main()
