"""Placements: in which memories of a board weights and tensors are, and how fast Vela takes them.

A board's NPU lists its placements in order of preference. A program that does not fit the memories
of one is compiled for the next; for a program that fits none there is no time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from workbench.project.frozen import Finite

if TYPE_CHECKING:
    from collections.abc import Sequence


class Placement(Finite):
    """One placement of an NPU.

    ``system_config`` and ``memory_mode`` are Vela's; ``weights`` and ``tensors`` name memories of
    the board. ``reserved_bytes`` of the first memory of the weights are kept for the firmware.
    """

    name: str = Field(min_length=1)
    system_config: str = Field(min_length=1)
    memory_mode: str = Field(min_length=1)
    weights: tuple[str, ...] = Field(min_length=1)
    tensors: tuple[str, ...] = Field(min_length=1)
    reserved_bytes: int = Field(default=0, ge=0)
    source: str = Field(min_length=1)
    confirmed: bool = False


def following(placements: Sequence[Placement], system: str, mode: str) -> tuple[Placement, ...]:
    """Return the placement of a system configuration and memory mode, and those listed after it.

    None if no placement has both: such a choice is not described.
    """
    for index, placement in enumerate(placements):
        if (placement.system_config, placement.memory_mode) == (system, mode):
            return tuple(placements[index:])
    return ()
