"""What one sample makes of one tensor: float, quantized and integer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.project.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

VALUES_FILE = "values.npz"


class SampleTensor(Frozen):
    """One tensor of one sample; its values lie beside, in float32, all of the same shape.

    ``sides`` are those that exist: "float", "quantized" and perhaps "integer", which is computed
    by the TOSA reference model. ``note`` says why one is missing.
    """

    sample: int
    tensor: str
    module: str
    op: str
    shape: tuple[int, ...]
    sides: tuple[str, ...]
    note: str = ""


def save_values(values: Mapping[str, NDArray[np.float32]], folder: Path) -> None:
    """Write the values of each side."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / VALUES_FILE, **dict(values))


def load_values(folder: Path) -> dict[str, NDArray[Any]]:
    """Return the values of each side; none where they cannot be read."""
    try:
        with np.load(folder / VALUES_FILE, allow_pickle=False) as file:
            return {side: file[side] for side in file.files}
    except (OSError, ValueError, EOFError):
        return {}
