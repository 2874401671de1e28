"""The converted model compared with onnxruntime, which executes the file itself."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
import torch

from workbench.engine.loading.onnx_import import reading
from workbench.engine.loading.onnx_import.conversion import graph_inputs
from workbench.errors import Place, failure
from workbench.results import ConversionCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

# So many samples are compared.
SAMPLES = 32
# The largest difference, as a part of the largest value of the output: sums of float32 in another
# order differ by less than 1e-5 of it in networks of 100 layers; another formula by more than this.
TOLERANCE = 1e-4
# The part of integer outputs, such as classes, that a rounding may change.
_FLIPPED = 1e-3


def prove(
    path: Path,
    module: torch.nn.Module,
    samples: Iterable[Sequence[torch.Tensor]],
    check_cancelled: Callable[[], None],
) -> ConversionCheck:
    """Return the comparison of a converted model with its file on the first samples.

    Raises:
        WorkbenchError: onnxruntime cannot execute the file, or an output differs.
    """
    model = reading.read(path)
    session = _session(model.SerializeToString(), path.name)
    names = [name for name, _, _ in graph_inputs(model)]
    labels = [value.name for value in model.graph.output]
    count, elements, largest, share = 0, 0, 0.0, 0.0
    for values in itertools.islice(samples, SAMPLES):
        check_cancelled()
        with torch.no_grad():
            own = module(*values)
        own = own if isinstance(own, tuple) else (own,)
        feeds = {name: value.numpy() for name, value in zip(names, values, strict=True)}
        expected = _run(session, feeds, path.name)
        for label, one, two in zip(labels, own, expected, strict=True):
            difference, part = _difference(label, count, one.numpy(), two)
            largest, share = max(largest, difference), max(share, part)
            elements += two.size
        count += 1
    return ConversionCheck(
        samples=count,
        elements=elements,
        max_abs_error=largest,
        relative_error=share,
        executor=f"onnxruntime {onnxruntime.__version__}",
    )


def _session(data: bytes, name: str) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise _not_executed(name, error) from error


def _run(session: Any, feeds: dict[str, np.ndarray[Any, Any]], name: str) -> list[Any]:
    try:
        return list(session.run(None, feeds))
    except Exception as error:
        raise _not_executed(name, error) from error


def _not_executed(name: str, error: Exception) -> Exception:
    first = str(error).strip().split("\n")[0][:300]
    return failure(
        f"onnxruntime {onnxruntime.__version__} cannot execute {name}, so that the converted model "
        f"cannot be checked: {first}",
        "Check the file with onnx.checker.check_model; export it again.",
        reading.WHERE,
        details=str(error),
        code="onnx-not-executed",
    )


def _difference(
    label: str, sample: int, own: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]
) -> tuple[float, float]:
    """Return the largest difference of an output, and its part of the output's largest value.

    Raises:
        WorkbenchError: It is too large, or the shapes differ.
    """
    if own.shape != expected.shape:
        raise _differs(label, sample, f"its shape is {own.shape}, in the file {expected.shape}")
    if not expected.size:
        return 0.0, 0.0
    if not np.issubdtype(expected.dtype, np.floating):
        flipped = float((own != expected).mean())
        if flipped > _FLIPPED:
            raise _differs(label, sample, f"{flipped:.1%} of its elements differ")
        return 0.0, 0.0
    one, two = own.astype(np.float64), expected.astype(np.float64)
    same = (one == two) | (np.isnan(one) & np.isnan(two))
    gap = np.where(same, 0.0, np.abs(np.where(same, 0.0, one) - np.where(same, 0.0, two)))
    finite = np.abs(two[np.isfinite(two)])
    scale = float(finite.max()) if finite.size else 0.0
    worst = float(gap.max()) if np.isfinite(gap).all() else math.inf
    share = 0.0 if worst == 0 else worst / scale if scale > 0 else math.inf
    if share > TOLERANCE and worst > TOLERANCE**2:
        raise _differs(label, sample, f"by up to {worst:.3g}, with values up to {scale:.3g}")
    return worst, share


def _differs(label: str, sample: int, how: str) -> Exception:
    return failure(
        f"The converted model does not compute what the ONNX file does: the output {label} differs "
        f"for sample {sample}: {how}.",
        "Give the PyTorch model instead (FILE.py:callable), and report the file.",
        Place(kind="stage", id="import_model"),
        code="onnx-conversion-differs",
    )
