"""Suggestions that are edits of the model's source: functions the quantizer has no pattern for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from workbench.suggestions.card import Suggestion, Written
from workbench.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.suggestions.left import Left, Operator

# The quantizer has a pattern for hardtanh, which nn.ReLU6 becomes, and none for relu6, which the
# function becomes. Measured with ExecuTorch 1.5.1.
_RELU6 = "aten.relu6."
_CALL = re.compile(r"(?<![\w.])(?:(?:torch\.)?nn\.functional|functional|F)\.relu6\(")


def has_no_pattern(operator: Operator) -> bool:
    """Tell whether no config can quantize an operator, because of how the source writes it."""
    return operator.origin is not None and operator.origin.op.startswith(_RELU6)


def module_for_function(left: Left) -> Iterator[Suggestion]:
    """Yield the modules to write in place of functions that cannot be quantized."""
    chosen = [
        each for each in left.operators
        if has_no_pattern(each) and not (each.effective and each.effective.kept_off)
    ]  # fmt: skip
    if not chosen:
        return
    nodes = left.with_followers(chosen)
    lines = dict.fromkeys(each.origin.source for each in chosen if each.origin)
    yield Suggestion(
        id="relu6",
        title="Write nn.ReLU6 in place of F.relu6",
        evidence="The quantizer has no pattern for the function, so it stays in float on the CPU "
        "and divides the program; it has one for the module.",
        expected=f"Up to {left.fewer(nodes)} fewer on the CPU of {left.total}, conversions "
        f"included: counted in the graph, {plural(len(lines), 'line')} to change.",
        nodes=nodes,
        written=tuple(_written(line) for line in lines),
    )


def _written(source: str) -> Written:
    """Return the change of a line, e.g. of ``net.py:12 in forward: x = F.relu6(x)``."""
    head, _, line = source.partition(": ")
    place = head.split(" in ")[0]
    if not line or not _CALL.search(line):
        return Written(place, line, "self.relu6 = nn.ReLU6() in __init__, self.relu6(x) here")
    return Written(place, line, _CALL.sub("self.relu6(", line) + "  # self.relu6 = nn.ReLU6()")
