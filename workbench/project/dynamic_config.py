"""Integers with ranges that are taken anew at every call: a rule says no more than that."""

from __future__ import annotations

from typing import Literal

from workbench.project.frozen import Frozen


class DynamicConfig(Frozen):
    """One way to quantize a part of a model: weights once, what flows at each call.

    ``dynamic`` are the integers. Whether they are symmetric is one choice for the whole program,
    an option of the target.
    """

    dynamic: Literal["int8"] = "int8"

    @property
    def label(self) -> str:
        """A short name."""
        return f"{self.dynamic}-dyn"
