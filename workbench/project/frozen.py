"""The base of every value that crosses disk or process."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value: immutable, and closed to fields nobody knows."""

    # Validators are built when a class is first used, which lets the window open sooner.
    model_config = ConfigDict(
        frozen=True, extra="forbid", revalidate_instances="always", defer_build=True
    )
