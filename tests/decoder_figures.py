"""What forms of a decoder's caches cost: memory, time and perplexity, by length of the context.

``python -m tests.decoder_figures [CONTEXT ...]`` measures what ``tests/data/decoder_figures.json``
lacks, for all lengths of the context or for some, and writes that file and the page of the guide.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.guide import REFERENCE, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.engine.in_process import Engine
    from workbench.project.model import Project

KEPT = Path(__file__).parent / "data" / "decoder_figures.json"
PAGE = REFERENCE / "decoder-figures.md"
# The recipe's weights are for the first; others are compiled with the same, for cost alone.
CONTEXTS = (64, 256)
# Calibration tokens of programs that are compiled for their cost.
TOKENS = 16


@dataclass(frozen=True)
class Form:
    """A recipe with its options."""

    id: str
    recipe: str
    mode: str
    scope: str
    caches: str

    @property
    def command(self) -> str:
        """The options of ``workbench new``."""
        return f"--recipe {self.recipe} --mode {self.mode} --scope {self.scope} --caches {self.caches}"


FORMS = (
    Form("buffers, float", "llm_decoder", "ethosu_16a8w", "linear", "float"),
    Form("buffers, int8", "llm_decoder", "ethosu_16a8w", "linear", "int8"),
    Form("handed on, float", "llm_decoder_static", "ethosu_16a8w", "full", "float"),
    Form("handed on, int8", "llm_decoder_static", "ethosu_16a8w", "full", "int8"),
    Form("handed on, int8, 8 bits", "llm_decoder_static", "ethosu_8a8w", "full", "int8"),
)


def measured(form: Form, context: int) -> dict[str, Any]:
    """Return the figures of one program.

    Time [ms] and memory [bytes] are those of one token; perplexity is that of the recipe's
    held-out text, for its own length of the context alone.
    """
    from tests.engine.in_process import Engine
    from workbench.project.recipes import Choice, begin, recipes

    engine = Engine(Path(tempfile.mkdtemp()))
    try:
        project = begin(
            recipes()[form.recipe], engine.folder / "net.qwb", Choice(form.mode, form.scope, form.caches)
        )
        figures: dict[str, Any] = {}
        if context == CONTEXTS[0]:
            assert engine.run(project, "evaluate") == "done", engine.failure
            text = engine.result(project, "evaluate").text
            figures = {"perplexity": text.perplexity_quantized, "perplexity_float": text.perplexity_float}
        else:
            project = with_context(engine, project, CONTEXTS[0], context, TOKENS)
        return figures | costs(engine, project)
    finally:
        engine.close()


def with_context(engine: Engine, project: Project, old: int, new: int, tokens: int) -> Project:
    """Change the length of the context of a recipe's model; calibrate it with a few tokens."""
    from workbench.project import edits

    code = engine.folder / "net_model.py"
    text = code.read_text()
    assert f"CONTEXT = {old}\n" in text
    code.write_text(text.replace(f"CONTEXT = {old}\n", f"CONTEXT = {new}\n"))
    few = project.calibration.model_copy(update={"limit": tokens})
    return edits.revise(project, calibration=few)


def costs(engine: Engine, project: Project) -> dict[str, Any]:
    """Return time of a call [ms], memory [bytes], and operators on the CPU of a project's program."""
    from workbench.pte.program import decode
    from workbench.results import PROGRAM_FILE

    lowered = engine.lowered(project)
    program = (engine.path(project, "lower") / PROGRAM_FILE).read_bytes()
    (method,) = (m for m in decode(program).methods if m.name == "forward")
    return {
        "ms": sum(v.inference_ms for v in lowered.vela),
        "caches": cache_bytes(method),
        "pools": sum(method.planned),
        "scratch": max(v.scratch_bytes for v in lowered.vela),
        "program": lowered.pte_bytes,
        "cpu": len(lowered.cpu_nodes),
        "delegates": lowered.delegates,
    }


def cache_bytes(method: Any) -> int:
    """Return the size of all caches: mutable buffers, or inputs after token and position."""
    buffers = [v for v in method.values if v.kind == "tensor" and v.memory_id >= 0 and v.constant]
    return sum(v.bytes for v in buffers or method.tensors(method.inputs[2:]))


def page(kept: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return the page of the guide from the figures, by form and length of the context."""
    lines = [*_ABOUT, ""]
    lines += table(("form", "`workbench new`"), [(f.id, f"`{f.command}`") for f in FORMS])
    perplexities = [(f.id, *_perplexity(kept[f.id][str(CONTEXTS[0])])) for f in FORMS]
    lines += ["## Perplexity", ""]
    lines += table(("form", "quantized", "float"), perplexities)
    for title, cell in _TABLES:
        lines += [f"## {title}", ""]
        header = ("form", *(f"context {context}" for context in CONTEXTS))
        rows = [(f.id, *(cell(kept[f.id][str(context)]) for context in CONTEXTS)) for f in FORMS]
        lines += table(header, rows)
    return "\n".join(lines).rstrip() + "\n"


def _perplexity(figures: Mapping[str, float]) -> tuple[str, str]:
    return f"{figures['perplexity']:.3f}", f"{figures['perplexity_float']:.3f}"


_TABLES = (
    ("Caches [bytes]", lambda f: f"{f['caches']:,}"),
    (
        "Memory of the runtime for inputs, outputs, buffers and values between delegates [bytes]",
        lambda f: f"{f['pools']:,}",
    ),
    ("Scratch memory of the NPU [bytes]", lambda f: f"{f['scratch']:,}"),
    ("Program [bytes]", lambda f: f"{f['program']:,}"),
    ("Tokens per second, at most", lambda f: f"{1000 / f['ms']:,.0f}"),
    ("Operators on the CPU / delegates", lambda f: f"{f['cpu']} / {f['delegates']}"),
)
_ABOUT = (
    "# Figures of decoders",
    "",
    "Measured: `python -m tests.decoder_figures` writes this page. The Llama of the "
    "[decoder recipes](../user/llm-decoders.md), 2 layers of width 64, on Ethos-U85-256 with "
    "`Ethos_U85_SYS_DRAM_High` and `Dedicated_Sram_512KB`. Tokens per second are from the "
    "estimate of the NPU alone: operators on the CPU and calls of the driver take time that is "
    "not in it, so forms with many of both are slower than they seem. A prompt is read at the "
    "same rate, one token at a time, by the same program.",
)


def main(arguments: Sequence[str]) -> None:
    """Measure forms; keep the figures of each at once."""
    for context in [c for c in CONTEXTS if str(c) in arguments or not arguments]:
        for form in FORMS:
            known = json.loads(KEPT.read_text()) if KEPT.exists() else {}
            if str(context) not in known.get(form.id, {}):
                row = {**known.get(form.id, {}), str(context): measured(form, context)}
                known = {**known, form.id: row}
                KEPT.write_text(json.dumps(known, indent=1) + "\n")
            if all(len(known.get(f.id, {})) == len(CONTEXTS) for f in FORMS):
                PAGE.write_text(page(known))


if __name__ == "__main__":
    main(sys.argv[1:])
