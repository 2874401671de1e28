"""What the doctor finds: one thing looked for, in words."""

from __future__ import annotations

from workbench.project.frozen import Frozen


class Finding(Frozen):
    """One thing looked for. ``state`` is "ok", "different", "missing" or "optional"."""

    name: str
    state: str
    version: str = ""
    why: str = ""
    remedy: str = ""
