"""Flipped bits in compiled weights: how many of those that change weights are noticed.

``python -m tests.npu_flips --seed 1 --count 500 --inputs 4`` flips one bit of the constants of a
compiled program of the tests at a time, and executes it on random inputs. A flip counts if it
changes the decoded weights or if they cannot be decoded. It is noticed if an output changes for one
of the inputs, or if the simulator raises. The exit code is 1 if less than ``--least`` of those that
count are noticed.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections import Counter
from unittest import mock

import numpy as np

from tests.workbench.npu.streams import Compiled, compiled
from workbench.errors import WorkbenchError
from workbench.npu import weight_loading
from workbench.npu.program import load
from workbench.pte import vela_stream


@functools.cache
def programs() -> dict[str, Compiled]:
    """Return the compiled programs of the tests that have encoded weights, by their names."""
    return {name: case for name, case in compiled().items() if _has_weights(case)}


def _has_weights(case: Compiled) -> bool:
    commands = load(case.blob).machines[0].commands
    return any(command.name in {"NPU_OP_CONV", "NPU_OP_DEPTHWISE"} for command in commands)


def executed(blob: bytes, samples: list[list[np.ndarray]]) -> tuple[bytes, bytes | None]:
    """Return the decoded weights of a program, and its outputs; None if it cannot be executed."""
    decoded: list[bytes] = []

    def watched(function):
        def decode(*arguments):
            weights = function(*arguments)
            decoded.append(weights.tobytes())
            return weights

        return decode

    with (
        mock.patch.object(weight_loading, "decode", watched(weight_loading.decode)),
        mock.patch.object(weight_loading, "decode_fast", watched(weight_loading.decode_fast)),
    ):
        try:
            machine = load(blob)
            results = [machine.run(sample) for sample in samples]
        except WorkbenchError:
            return b"".join(decoded), None
    return b"".join(decoded), b"".join(o.tobytes() for r in results for o in r.outputs)


def flips(seed: int, count: int, inputs: int) -> Counter[str]:
    """Return how many flips end as "noticed", "unnoticed" or "same weights"."""
    generator = np.random.default_rng(seed)
    cases = programs()
    names = list(cases)
    outcomes: Counter[str] = Counter()
    known = {}
    for _ in range(count):
        name = names[generator.integers(len(names))]
        case = cases[name]
        if name not in known:
            samples = [[_drawn(generator, value) for value in case.inputs] for _ in range(inputs)]
            known[name] = samples, executed(case.blob, samples)
        samples, (weights, outputs) = known[name]
        block = bytes(vela_stream.blocks(case.blob)["weight_data"].data)
        place = 8 * case.blob.index(block) + int(generator.integers(8 * len(block)))
        changed = bytearray(case.blob)
        changed[place // 8] ^= 1 << place % 8
        found, given = executed(bytes(changed), samples)
        if found == weights and given is not None:
            outcomes["same weights"] += 1
        else:
            outcomes["unnoticed" if given == outputs else "noticed"] += 1
    return outcomes


def _drawn(generator: np.random.Generator, like: np.ndarray) -> np.ndarray:
    limits = np.iinfo(like.dtype)
    return generator.integers(limits.min, limits.max, like.shape, like.dtype, endpoint=True)


def main(arguments: list[str] | None = None) -> int:
    """Flip bits and print the shares; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--inputs", type=int, default=4)
    parser.add_argument("--least", type=float, default=0.9, help="share that has to be noticed")
    options = parser.parse_args(arguments)
    outcomes = flips(options.seed, options.count, options.inputs)
    changing = outcomes["noticed"] + outcomes["unnoticed"]
    share = outcomes["noticed"] / changing if changing else 1.0
    print(
        f"{options.count} flips, {changing} change the weights, {outcomes['noticed']} of them are "
        f"noticed with {options.inputs} inputs: {share:.1%}"
    )
    return int(share < options.least)


if __name__ == "__main__":
    sys.exit(main())
