"""How many blocks there are for each element of a tensor: what shares an exponent or a scale.

``block_size`` is aligned to the right of the shape: extra entries in front are dropped, missing
ones are -1, -1 is all of the dimension, and what exceeds the dimension is cut to it. Microscaling
blocks run along one dimension. What is left at the end of a dimension is a block too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.targets.number_formats import Role

# Data is shared along its last dimension, a weight along the second (what is summed over), a bias
# along its only one.
_DIMENSIONS: Mapping[str, int] = {"data": -1, "weight": 1, "bias": 0}


def skips_first(given: Mapping[str, Any], role: Role) -> bool:
    """Return whether blocks never span the first dimension; where nobody said, those of data."""
    skip = given["skip_first_dim"]
    return role == "data" if skip is None else bool(skip)


def block_sizes(shape: Sequence[int], given: Mapping[str, Any], role: Role) -> tuple[int, ...]:
    """Return the size of a block along each dimension.

    With ``skip_first_dim`` blocks hold one index of the first dimension; arrays of one dimension
    have nothing to skip.
    """
    rank = len(shape)
    wanted = ([-1] * rank + list(given["block_size"]))[-rank:]
    sizes = [n if b == -1 else min(b, n) for n, b in zip(shape, wanted, strict=True)]
    if skips_first(given, role) and rank > 1:
        sizes[0] = 1
    return tuple(sizes)


def shared_dimension(rank: int, given: Mapping[str, Any], role: Role) -> int:
    """Return the dimension microscaling blocks run along, as said or by the role; unchecked."""
    said = given["block_dim"]
    return min(_DIMENSIONS[role], rank - 1) if said is None else int(said)


def blocks_per_element(
    given: Mapping[str, Any], role: Role, shape: Sequence[int], *, across: bool
) -> float:
    """Return how many blocks there are, over the number of elements.

    Args:
        given: Parameters of a format whose elements share something, defaults filled in.
        role: What the tensor is.
        shape: Its sizes, all above 0.
        across: Microscaling blocks run on from row to row, as MASE has them, and are all whole.
    """
    if "parallelism" in given:
        return _counted(tuple(shape)[-2:], tuple(given["parallelism"])[-len(shape) :])
    size = given["block_size"]
    if not isinstance(size, int):
        return _counted(shape, block_sizes(shape, given, role))
    if across or not shape:
        return 1 / size
    return _counted((shape[shared_dimension(len(shape), given, role)],), (size,))


def _counted(shape: Sequence[int], sizes: Sequence[int]) -> float:
    return math.prod(-(-n // b) / n for n, b in zip(shape, sizes, strict=True))
