"""The base class of all values that are stored or sent between processes."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable value that rejects unknown fields."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        revalidate_instances="always",
        # Validators are built on first use, which shortens the window's start.
        defer_build=True,
    )


class Finite(Frozen):
    """An immutable value whose numbers are finite: JSON has no others."""

    model_config = ConfigDict(allow_inf_nan=False)
