"""Outputs of a TensorFlow Lite network before Vela, by LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.errors import Place, failure
from workbench.npu.cpu import CpuOperators
from workbench.pte.description import program_bytes

_Array = npt.NDArray[Any]
_WHERE = Place(kind="option", id="reference")
KERNELS = "LiteRT reference kernels"


def reference_outputs(
    file: Path, samples: Sequence[Sequence[_Array]], outputs: Sequence[_Array], operators: CpuOperators
) -> list[list[_Array]]:
    """Return for each sample the outputs of the network that a program was compiled from.

    Args:
        file: The .tflite from before Vela.
        samples: For each sample its inputs, as of the program.
        outputs: What the program gives for the first sample.
        operators: Computes the network.

    Raises:
        WorkbenchError: The file cannot be read, LiteRT refuses it, or it is another network.
    """
    try:
        content = np.frombuffer(program_bytes(file), np.uint8)
    except OSError as error:
        raise failure(
            f"{file} cannot be read: {error.strerror or error}.",
            "Correct the path, or set the file's permissions.",
            where=_WHERE,
            code="file-not-readable",
        ) from error
    expected = [list(operators("tflite::whole", [content, *inputs], ())) for inputs in samples]
    shapes = [[list(values.shape) for values in side] for side in (outputs, expected[0])]
    if shapes[0] != shapes[1]:
        raise failure(
            f"The reference gives outputs of {shapes[1]}, the program of {shapes[0]}.",
            "Give the .tflite that Vela compiled this program from.",
            _WHERE,
            code="reference-does-not-fit",
        )
    return expected
