"""Reduces a network for as long as the same fault remains."""

from __future__ import annotations

from collections.abc import Callable

from tests.float_search.judge import Verdict
from tests.float_search.networks import Network, smaller


def minimised(
    network: Network, verdict: Verdict, judge: Callable[[str], Verdict], tries: int = 60
) -> tuple[Network, Verdict]:
    """Return the smallest network found with the same word and kind, and its verdict.

    Args:
        network: One with a fault.
        verdict: The verdict on it.
        judge: Returns the verdict on a source.
        tries: How many smaller networks are judged at most.
    """
    seen = {network.source()}
    again = True
    while again and tries > 0:
        again = False
        for candidate in smaller(network):
            source = candidate.source()
            if source in seen or tries <= 0:
                continue
            seen.add(source)
            tries -= 1
            reached = judge(source)
            if (reached.word, reached.kind) == (verdict.word, verdict.kind):
                network, verdict, again = candidate, reached, True
                break
    return network, verdict
