"""What calibration leaves: the range of every observed tensor."""

from __future__ import annotations

from typing import Literal

from workbench.project.frozen import Frozen

NOT_REACHED = "no calibration sample reached this tensor"


class TensorRange(Frozen):
    """What calibration saw of one tensor, and the grid that follows.

    ``id`` is the observer's name; ``index`` the row in the arrays ``histogram`` [T, 2048] and
    ``edges`` [T, 2]; percentiles p0.1 and p99.9 come from that histogram. Weights carry one range
    per channel in the arrays ``channel_min/<id>`` and ``channel_max/<id>``; activations the
    extremes of every sample in ``sample_min`` and ``sample_max`` [T, S], whose numbers stand in
    ``samples`` [S].

    ``zeros`` is the share of values that are exactly zero and ``mean_square`` the mean of the
    squared values; ``dead`` counts channels without any other value. ``searched`` is the scale and
    zero point that the search of the histogram observer gives where another observer is used.
    ``symmetric`` and ``eps`` (the smallest scale) are the observer's scheme. ``node`` names the
    tensor in the prepared graph, ``origin`` the operation of the exported one that makes it, or
    that reads the weight; "" where nobody knows. Where an emulated format stands in the place of
    integers, ``format`` says it as JSON (operation, operand, scheme, parameters, mase_compatible),
    ``dtype`` in words, and ``scale`` is 0. Where every call takes a range of its own, ``dynamic``
    says how ("asym", "sym"), and what stands here is over all samples; see ``numerics.dynamic``.
    """

    id: str
    node: str
    op: str
    module: str
    kind: Literal["activation", "weight"]
    index: int
    minimum: float
    maximum: float
    p_low: float
    p_high: float
    dtype: str
    qmin: int
    qmax: int
    scale: float
    zero_point: int
    observer: str
    channels: int = 1
    problem: str = ""
    symmetric: bool = False
    eps: float = 2.0**-16
    zeros: float | None = None
    mean_square: float | None = None
    dead: int = 0
    searched: tuple[float, int] | None = None
    origin: str = ""
    format: str = ""
    dynamic: str = ""


class CalibrateResult(Frozen):
    """Ranges of all observed tensors in topological order."""

    samples: int
    calibrated_on: str
    ranges: tuple[TensorRange, ...]
    warnings: tuple[str, ...] = ()
