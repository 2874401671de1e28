"""The limits of the second answer: how much accuracy a finished program may lose."""

from __future__ import annotations

from pydantic import Field

from workbench.project.frozen import Finite


class Accuracy(Finite):
    """The limits that decide whether a program is accurate enough; null switches a limit off.

    Each compares the program with the float model on data that calibration does not see.

    ``loss`` is how much top-1 accuracy, from 0 to 1, or how much of the project's metric may be
    lost; it applies to data with labels, or with a metric. A metric whose float value exceeds 1
    counts relative to that value. ``sqnr`` is the lowest SQNR of an output [dB] without labels, and
    ``part_sqnr`` that of a part of an output that joins several tensors, and of the outputs beside
    it [dB]; it applies with labels and a metric too, which need not see every part. ``low_sqnr`` is
    the SQNR below which the accuracy is called low [dB]. ``argmax`` is the least share
    of samples in which a vector, or of elements in which an integer output, gives the same class.
    ``inputs`` refuses a program that ignores an input, or gives a constant output, where the float
    model does not.
    """

    loss: float | None = Field(default=0.01, ge=0, allow_inf_nan=False)
    sqnr: float | None = Field(default=10.0, allow_inf_nan=False)
    part_sqnr: float | None = Field(default=15.0, allow_inf_nan=False)
    low_sqnr: float | None = Field(default=20.0, allow_inf_nan=False)
    argmax: float | None = Field(default=0.9, ge=0, le=1)
    inputs: bool = True
