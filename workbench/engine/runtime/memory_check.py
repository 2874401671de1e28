"""Memory that a stage needs for large tensors, compared with what is free before it is taken."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workbench.errors import Place, failure
from workbench.system_limits import free_memory

if TYPE_CHECKING:
    from workbench.ids import StageId
    from workbench.results import TensorMemory

# What a stage takes at least beyond the tensors that are live, in sizes of the largest one. Measured
# with one convolution of 3 to 64 channels over 1x3x1024x1024, with the processes it starts.
_COPIES: dict[StageId, float] = {"export": 9.0, "evaluate": 11.0, "verify": 14.0}
_OTHER = 4.0
# Stages that no other needs.
_LEFT_OUT = ("evaluate", "verify", "run")
_GB = 1e9
# Smaller tensors end no engine [bytes].
_LARGE = 50_000_000
# How torch says that memory is missing.
_NO_MEMORY = "can't allocate memory"


def is_memory_missing(error: BaseException) -> bool:
    """Return whether an error says that there is not enough memory."""
    return isinstance(error, MemoryError) or _NO_MEMORY in str(error)


def needed_bytes(stage: StageId, memory: TensorMemory) -> int:
    """Return what a stage takes at least for the tensors of a program [bytes]."""
    return memory.live_bytes + int(_COPIES.get(stage, _OTHER) * memory.largest_bytes)


def check_memory(stage: StageId, memory: TensorMemory) -> None:
    """Raise where a stage needs more memory than is free: the system would end the engine.

    Raises:
        WorkbenchError: it does.
    """
    free, needed = free_memory(), needed_bytes(stage, memory)
    if free is None or needed <= free:
        return
    # The remedy is for all stages, of which later ones may need more.
    most = max(needed_bytes(later, memory) for later in _COPIES)
    skip = f", leave the stage out (workbench run --skip {stage})" if stage in _LEFT_OUT else ""
    raise failure(
        f"There is not enough memory: {needed / _GB:,.1f} GB are needed at least, and {free / _GB:,.1f} GB "
        f"are free. The largest tensor is {memory.largest}, {memory.largest_bytes / _GB:,.2f} GB.",
        f"Give a smaller example input, with at most {math.floor(100 * free / most)}% of the elements"
        f"{skip}, close other programs, or use a machine with more memory.",
        Place(kind="stage", id=stage),
        code="memory-too-small",
    )


def described(memory: TensorMemory) -> str:
    """Return the largest tensor as text; "" where it is too small to matter."""
    is_large = memory.largest_bytes >= _LARGE
    return f"{memory.largest}, {memory.largest_bytes / _GB:,.2f} GB" if is_large else ""
