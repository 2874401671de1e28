"""``generate``: text that a compiled decoder writes, on the functional simulator of the NPU."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench import api
from workbench.api.silicon import compiled_program
from workbench.cli.output import EXIT_DONE, add_json, print_json
from workbench.errors import Place, failure
from workbench.escaping import for_terminal
from workbench.project.model import Tokenization
from workbench.text import plural
from workbench.tokenizer_process import FileTokenizer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from workbench.npu.cpu import CpuOperators
    from workbench.npu.decoder import Decoder

_PROJECT = ".qwb"
# Tokens where there is no tokenizer.
_BYTES = 256
# What decoding gives where the bytes of a character are not complete.
_INCOMPLETE = "\ufffd"


def add_generate(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "generate",
        help="let a compiled decoder read a prompt and write text, on the functional simulator",
        description="Reads the prompt and writes tokens with the compiled program, passing its caches "
        "from call to call. Values are those of the device; there is no timing.",
    )
    verb.add_argument("file", type=Path, metavar="FILE", help="a project that is compiled, or a .pte")
    verb.add_argument("--prompt", required=True, metavar="TEXT", help="what the text begins with")
    verb.add_argument("--tokens", type=int, default=40, metavar="N", help="how many to write, 40 by default")
    verb.add_argument(
        "--prefill",
        type=Path,
        metavar="FILE",
        help="a project or .pte that reads several tokens of the prompt in a call "
        "(workbench new --prompt-tokens N); the last ones are read one by one",
    )
    verb.add_argument(
        "--tokenizer",
        type=Path,
        metavar="FILE",
        help="tokenizer.json; by default that of the project, else every byte is a token",
    )
    verb.add_argument(
        "--temperature",
        type=float,
        default=0.0,
        metavar="T",
        help="0, the default: the most likely token; above: sampled",
    )
    verb.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the sampling")
    add_json(verb)
    verb.set_defaults(perform=_generate)


@dataclass(frozen=True)
class _Source:
    """A program, and what its project says: tokenizer and estimated time of a call [ms]."""

    name: str
    path: Path
    tokenizer: Path | None = None
    call_ms: float | None = None


@dataclass(frozen=True)
class _Tokenizer:
    ids: Callable[[str], Iterable[int]]
    text: Callable[[Sequence[int]], str]


def _generate(options: argparse.Namespace) -> int:
    from threadpoolctl import threadpool_limits

    from workbench.npu.decoder import written
    from workbench.npu.operator_process import CpuOperatorProcess

    _require_numbers(options)
    source = _source(options.file, "file")
    reader = _source(options.prefill, "prefill") if options.prefill else None
    vocabulary = options.tokenizer or source.tokenizer
    tokenizer = _tokenizer(vocabulary)
    prompt = [int(token) for token in tokenizer.ids(options.prompt)]
    with threadpool_limits(limits=1, user_api="blas"), CpuOperatorProcess() as operators:
        decoder, prompts = _decoders(source, reader, vocabulary, operators)
        choose = _chooser(options.temperature, options.seed)
        tokens: list[int] = []
        shown = ""
        for token in written(decoder, prompt, options.tokens, choose, prompts):
            tokens.append(token)
            if not options.json:
                shown = _show(shown, options.prompt + tokenizer.text(tokens))
    document = _document(options, (source, reader), (decoder, prompts), (prompt, tokens))
    text = tokenizer.text(tokens)
    if options.json:
        print_json({**document, "text": text})
    else:
        _show(shown, options.prompt + text, ends=True)
        _print_calls(document)
    return EXIT_DONE


def _require_numbers(options: argparse.Namespace) -> None:
    for name, low in (("tokens", 1), ("temperature", 0), ("seed", 0)):
        value = getattr(options, name)
        if not low <= value < 2**31:
            raise failure(
                f"--{name} is {value}.",
                f"Give a number of at least {low}.",
                Place(kind="option", id=name),
                code="option-out-of-range",
            )


def _source(file: Path, option: str) -> _Source:
    if file.suffix != _PROJECT:
        if not file.is_file():
            raise failure(
                f"{file} is not there.",
                "Correct the path.",
                where=Place(kind="option", id=option),
                code="file-missing",
            )
        return _Source(file.name, file)
    opened = api.open(file)
    lowered, path = compiled_program(opened)
    calibration = opened.project.calibration
    named = ((calibration.tokens if calibration else None) or Tokenization()).tokenizer
    call_ms = sum(report.inference_ms for report in lowered.vela) if lowered.vela else None
    return _Source(file.name, path, opened.folder / named if named.endswith(".json") else None, call_ms)


def _decoders(
    source: _Source, reader: _Source | None, tokenizer: Path | None, operators: CpuOperators
) -> tuple[Decoder, Decoder | None]:
    from workbench.npu.decoder import Decoder

    decoder = Decoder(source.path, source.name, operators)
    if tokenizer is None and decoder.vocabulary > _BYTES:
        raise failure(
            f"{source.name} knows {decoder.vocabulary} tokens, more than there are bytes.",
            "Name the model's tokenizer.json with --tokenizer.",
            Place(kind="option", id="tokenizer"),
            code="tokenizer-missing",
        )
    return decoder, Decoder(reader.path, reader.name, operators) if reader else None


def _tokenizer(path: Path | None) -> _Tokenizer:
    if path is None:
        return _Tokenizer(lambda text: list(text.encode()), lambda ids: bytes(ids).decode(errors="replace"))
    tokenizer = FileTokenizer(path, "tokenizer")
    return _Tokenizer(tokenizer.ids, tokenizer.text)


def _chooser(temperature: float, seed: int) -> Callable[[npt.NDArray[np.float64]], int]:
    """Return what chooses a token from logits: the likeliest, or one by chance."""
    generator = np.random.default_rng(seed)

    def choose(logits: npt.NDArray[np.float64]) -> int:
        if not np.isfinite(logits.max()):
            raise failure(
                "The program gives logits that are no numbers.",
                "Compare it with the float model: workbench run PROJECT.",
                Place(kind="option", id="file"),
                code="logits-not-finite",
            )
        if temperature == 0:
            return int(logits.argmax())
        # A small temperature leaves the likeliest alone.
        with np.errstate(over="ignore"):
            chances = np.exp((logits - logits.max()) / temperature)
        return int(generator.choice(len(logits), p=chances / chances.sum()))

    return choose


def _show(shown: str, text: str, *, ends: bool = False) -> str:
    """Print what a text has more than was shown; return what is shown then."""
    whole = text if ends else text.rstrip(_INCOMPLETE)
    sys.stdout.write(for_terminal(whole[len(shown) :]) + ("\n" if ends else ""))
    sys.stdout.flush()
    return whole


def _document(
    options: argparse.Namespace,
    sources: tuple[_Source, _Source | None],
    decoders: tuple[Decoder, Decoder | None],
    tokens: tuple[Sequence[int], Sequence[int]],
) -> dict[str, Any]:
    (decoder, reader), (prompt, new) = decoders, tokens
    prefill = None
    if reader is not None:
        prefill = {
            "file": str(options.prefill),
            "tokens_per_call": reader.tokens_per_call,
            "calls": reader.calls,
        }
    times = [s.call_ms if s else None for s in sources]
    return {
        "file": str(options.file),
        "prompt": options.prompt,
        "prompt_tokens": len(prompt),
        "tokens": list(new),
        "ended_by_context": len(new) < options.tokens,
        "context": decoder.context,
        "calls": decoder.calls,
        "call_ms": times[0],
        "prefill": prefill and {**prefill, "call_ms": times[1]},
    }


def _print_calls(document: dict[str, Any]) -> None:
    """Print on stderr, beside the text, how it was computed."""
    prefill, calls = document["prefill"], document["calls"]
    parts = [f"{plural(calls, 'call')} of one token{_time(calls, document['call_ms'])}"]
    if prefill:
        many, size = prefill["calls"], prefill["tokens_per_call"]
        time = _time(many, prefill["call_ms"])
        parts.insert(0, f"{plural(many, 'call')} of {plural(size, 'token')}{time}")
    print(
        f"Prompt of {plural(document['prompt_tokens'], 'token')}, {len(document['tokens'])} written: "
        f"{', '.join(parts)}.",
        file=sys.stderr,
    )
    if document["ended_by_context"]:
        print(f"The context of {document['context']} tokens is full.", file=sys.stderr)
    if document["call_ms"] is None:
        print("Name the project instead of the .pte for an estimate of the time.", file=sys.stderr)


def _time(calls: int, call_ms: float | None) -> str:
    return "" if call_ms is None else f" ({calls * call_ms:.2f} ms on the NPU, estimated)"
