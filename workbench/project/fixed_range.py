"""A range that somebody set for one tensor, and what makes a range impossible."""

from __future__ import annotations

import math
from typing import Self

from pydantic import Field, model_validator

from workbench.project.frozen import Frozen


def range_fault(minimum: float, maximum: float) -> str:
    """Return why two real values are no range of a grid; "" when they are one."""
    if not (math.isfinite(minimum) and math.isfinite(maximum)):
        return f"the range [{minimum}, {maximum}] is not finite"
    if not minimum < maximum:
        return f"minimum {minimum} is not below maximum {maximum}"
    if minimum > 0.0 or maximum < 0.0:
        return f"the range [{minimum}, {maximum}] excludes zero, which must have an exact code"
    return ""


class FixedRange(Frozen):
    """Numbers in place of the range that calibration found.

    ``tensor`` is the node of the exported graph that makes it.
    """

    tensor: str = Field(min_length=1)
    minimum: float
    maximum: float

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if fault := range_fault(self.minimum, self.maximum):
            raise ValueError(f"{self.tensor}: {fault}")
        return self
