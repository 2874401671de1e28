"""Random float networks: what the workbench makes of them must be what eager PyTorch computes.

``python -m tests.float_search --seed 1 --count 1000 --target ethos-u85-256 --config a8w8
[--minutes 30] [--deliver 10] [--keep FOLDER]`` draws networks as people write them, and compares
the quantized model, and of each tenth network the delivered program, with eager PyTorch. A fault is
reduced to the smallest network that still has it, and kept as ``.py`` and ``.json``. The exit code
is 1 if there was a fault. The same seed draws the same networks.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.float_search.judge import ENOUGH, Judge, Verdict
from tests.float_search.minimiser import minimised
from tests.float_search.networks import Network, operations_of

Kind = tuple[str, ...]
TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")


def main(arguments: list[str] | None = None) -> int:
    """Draw and judge networks; return the exit code."""
    options = _options(arguments)
    judge = Judge(options.target, options.config)
    outcomes, kinds = Counter[str](), Counter[Kind]()
    begun = time.monotonic()
    seed = options.seed * 1_000_000
    try:
        while outcomes.total() < options.count:
            if time.monotonic() - begun > 60 * options.minutes:
                break
            deliver = options.deliver > 0 and seed % options.deliver == 0
            network = Network.from_json(judge.oracle("draw", seed))
            verdict = judge(network.source(), deliver=deliver)
            seed += 1
            if verdict.word == "invalid":
                continue
            outcomes[verdict.word] += 1
            if options.verbose and verdict.word != "right":
                print(f"{network.seed}: {verdict.word}: {verdict.details[:300]}", flush=True)
            if verdict.is_finding:
                kind = _known(network, verdict, kinds)
                kinds[kind or _reported(network, verdict, judge, options, deliver=deliver)] += 1
    finally:
        judge.close()
    took = time.monotonic() - begun
    print(", ".join(f"{word} {count}" for word, count in outcomes.most_common()), f"{took:.0f} s")
    for kind, count in kinds.most_common():
        print(f"  {count} {' '.join(kind)}")
    return int(bool(kinds))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--target", choices=TARGETS, default="ethos-u85-256")
    parser.add_argument("--config", choices=tuple(ENOUGH), default="a8w8")
    parser.add_argument("--deliver", type=int, default=10, help="each so-manieth is compiled")
    parser.add_argument("--tries", type=int, default=60, help="to reduce a network with a fault")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args(arguments)


def _known(network: Network, verdict: Verdict, kinds: Iterable[Kind]) -> Kind | None:
    """Return the fault that was reduced already and whose operations a network has."""
    operations = set(operations_of(network))
    for kind in kinds:
        if kind[:2] == (verdict.word, verdict.kind) and operations >= set(kind[2:]):
            return kind
    return None


def _reported(
    network: Network, verdict: Verdict, judge: Judge, options: argparse.Namespace, *, deliver: bool
) -> Kind:
    """Reduce a network with a fault, print and keep it; return its kind."""

    def again(source: str) -> Verdict:
        return judge(source, deliver=deliver)

    small, verdict = minimised(network, verdict, again, options.tries)
    kind = (verdict.word, verdict.kind, *operations_of(small))
    first = next(iter(verdict.details.strip().splitlines()), "")[:300]
    print(f"{small.seed} {options.target} {options.config}: {verdict.word}: {first}")
    for given in small.inputs:
        print(f"    {given.name}: {given.kind} {given.shape}")
    for text in small.statements:
        print("    " + text.replace("\n", "\n    "))
    print(f"    return {', '.join(small.outputs)}", flush=True)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        stem = options.keep / f"{options.target}-{options.config}-{small.seed}"
        stem.with_suffix(".py").write_text(small.source())
        stem.with_suffix(".json").write_text(small.as_json() + "\n")
        stem.with_suffix(".txt").write_text(f"{verdict.word}\n{verdict.kind}\n{verdict.details}\n")
    return kind


if __name__ == "__main__":
    sys.exit(main())
