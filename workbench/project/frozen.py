"""The base of every value that crosses disk or process."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value: immutable, and closed to fields nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid", revalidate_instances="always")
