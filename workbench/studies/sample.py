"""Sample study: one tensor of one sample in float, quantized, integer and compiled."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from workbench.files import open_regular, write_file
from workbench.npz import ZIP_ERRORS
from workbench.project.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

VALUES_FILE = "values.npz"
# The first input of the sample, beside the values of each program.
INPUT = "input"


class SampleTensor(Frozen):
    """One tensor of one sample; its values are stored beside it in float32 with equal shapes.

    ``sides`` are the available programs: "float", "quantized" and possibly "integer", which the
    TOSA reference model computes, and "compiled", which the functional simulator executes.
    ``note`` is why one is missing. ``compiled_apart`` counts the elements in which those two
    differ; None if one is missing. ``label`` is that of the sample, ``classes`` are the largest
    elements of the output that gives the class, by program; empty if no output does.
    """

    sample: int
    tensor: str
    module: str
    op: str
    shape: tuple[int, ...]
    sides: tuple[str, ...]
    note: str = ""
    compiled_apart: int | None = None
    label: int | None = None
    classes: dict[str, int] = Field(default_factory=dict)


def save_values(values: Mapping[str, NDArray[np.float32]], folder: Path) -> None:
    """Write the values of each program atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    np.savez(buffer, **dict(values))
    write_file(folder / VALUES_FILE, buffer.getvalue())


def load_values(folder: Path) -> dict[str, NDArray[Any]]:
    """Return the values of each program, and the sample's input; empty if unreadable."""
    try:
        with open_regular(folder / VALUES_FILE) as data, np.load(data, allow_pickle=False) as file:
            return {side: file[side] for side in file.files}
    except ZIP_ERRORS:
        return {}
