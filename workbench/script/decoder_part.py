"""The parts of the script of a project that reads a text: steps, what is remembered, runners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.project import sources
from workbench.project.model import Tokenization
from workbench.script.model_part import load_callable

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.project.model import DataSource

_STEPS = '''
def tokens():
    text = (HERE / {spec}).read_bytes().decode("utf-8")
{ids}


def samples(inputs):
    """Give the steps through the text, and whether a sequence begins with each."""
    ids, given = tokens(), 0
    for start in range(0, len(ids) - 1, {length}):
        for place in range(start, min(start + {length}, len(ids) - 1)):
{ends}            numbers, given = iter((ids[place], place - start)), given + 1
            yield place == start, tuple(
                torch.zeros_like(i) if i.is_floating_point() else torch.full_like(i, next(numbers))
                for i in inputs
            )
'''

_REMEMBERED = '''
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from torch.nn.attention import SDPBackend, sdpa_kernel


def without_writes(program):
    """Let the program compute what its buffers become, and write them at its end."""
    functional = program.run_decompositions({})
    return functional if functional.graph_signature.buffers_to_mutate else program


def caches(module):
    """Return the buffers that a graph writes, with what is in them now."""
    written = (n.args[0] for n in module.graph.nodes if n.target is torch.ops.aten.copy_.default)
    return {n.target: module.get_buffer(n.target).clone() for n in written if n.op == "get_attr"}


def plain_attention(module):
    """Take attention apart, as ExecuTorch's export of language models does, beside caches."""
    return sdpa_kernel([SDPBackend.MATH]) if caches(module) else contextlib.nullcontext()


def put_back(module, first):
    for name, value in first.items():
        module.get_buffer(name).copy_(value)
'''

QUANTIZE = """
def quantize(program, inputs):
    # Guards become a call_module node, on which the Arm passes fail.
    module = program.module(check_guards=False)
    with plain_attention(module):
        prepared = prepare_pt2e(module, quantizer())
    first = caches(prepared)
    handed_on = sum(value.is_floating_point() for value in inputs)
    with torch.inference_mode(), plain_attention(prepared):
        for begins, step in samples(inputs):
            if begins:
                put_back(prepared, first)
            elif handed_on:
                step = (*step[:-handed_on], *given[-handed_on:])
            given = as_tuple(prepared(*step))
        put_back(prepared, first)
{fix}    return convert_pt2e(prepared)
"""

_RUNNERS = '''
def methods_for_runners(program, inputs):
    """Return what runners of language models ask, as methods that return a constant."""
    logits = next(iter(program.graph_signature.user_outputs))
    shape = next(n for n in program.graph.nodes if n.name == logits).meta["val"].shape
    return {
        "get_max_seq_len": {length},
        "get_max_context_len": {length},
        "get_vocab_size": shape[-1],
        "use_kv_cache": any(v.is_floating_point() for v in inputs)
        or bool(program.graph_signature.buffers_to_mutate),
        "use_sdpa_with_kv_cache": False,
        "enable_dynamic_shape": False,
    }


def runtime_form(program):
    """Let caches begin as they are, or the runtime leaves their memory as it finds it."""
    signature = program.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    written = sorted(n for n, b in signature.inputs_to_buffers.items() if b in changed)
    return ExecutorchBackendConfig(
        extract_delegate_segments=False, do_quant_fusion_and_const_prop=True,
        passes=[InitializedMutableBufferPass(written)] if written else [],
    )
'''


def steps_part(source: DataSource, folder: Path) -> str:
    """Return the functions that give the steps through a text."""
    settings = source.tokens or Tokenization()
    made = _STEPS.replace("{spec}", repr(source.spec)).replace("{ids}", _ids(settings, folder))
    made = made.replace("{length}", str(settings.length))
    dropped = f"place in {set(source.dropped)}" if source.dropped else ""
    limit = f"given == {source.limit}" if source.limit else ""
    ends = " or ".join(end for end in (dropped, limit) if end)
    said = f"            if {ends}:\n                break\n" if ends else ""
    return made.replace("{ends}", said)


def _ids(settings: Tokenization, folder: Path) -> str:
    """Return the lines that make numbers of ``text``."""
    if not settings.tokenizer:
        return "    return list(text.encode())"
    option = "calibration.tokens.tokenizer"
    reference = sources.tokenizer_reference(settings.tokenizer, folder, option)
    if reference.runs_code:
        return f"    return list({load_callable(settings.tokenizer, folder, option)}(text))"
    return (
        "    from tokenizers import Tokenizer\n"
        f"    return Tokenizer.from_file(str(HERE / {settings.tokenizer!r})).encode(text).ids"
    )


def remembering_parts(source: DataSource) -> list[str]:
    """Return the functions for what a decoder remembers, and for those who run it."""
    length = (source.tokens or Tokenization()).length
    return [_REMEMBERED, _RUNNERS.replace("{length}", str(length))]
