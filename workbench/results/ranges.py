"""What calibration leaves: the range of every observed tensor."""

from __future__ import annotations

from typing import Literal

from workbench.project.frozen import Frozen


class TensorRange(Frozen):
    """What calibration saw of one tensor, and the grid that follows.

    ``id`` is the observer's name; ``index`` the row in the arrays ``histogram`` [T, 256] and
    ``edges`` [T, 2]; percentiles p0.1 and p99.9 come from that histogram. Weights carry one range
    per channel in the arrays ``channel_min/<id>`` and ``channel_max/<id>``.
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


class CalibrateResult(Frozen):
    """Ranges of all observed tensors in topological order."""

    samples: int
    calibrated_on: str
    ranges: tuple[TensorRange, ...]
