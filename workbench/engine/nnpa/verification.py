"""The exported file in ONNX Runtime compared to torch, and its dynamic quantization."""

from __future__ import annotations

import copy
import itertools
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

from workbench.engine.data.evaluation import verification_samples
from workbench.engine.evaluation.arithmetic_models import ReadingTally
from workbench.engine.evaluation.measures import Accumulator
from workbench.engine.evaluation.stateful_execution import Steps, plain_attention, stepping
from workbench.engine.nnpa.onnx_export import FileSteps, first_state, float_program
from workbench.engine.nnpa.quantization import convert, options_of
from workbench.errors import Place, failure
from workbench.results import MODEL_FILE, ExportResult, VerifyResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from workbench.engine.data import Sample
    from workbench.engine.runtime.context import StageContext


TITLES = {
    "nnpa": ("NNPA model", "emulated: dlfloat16 operands, scales, correction and result"),
    "document": ("Document", "emulated: the documented equations in float32"),
}


def arithmetic_variants(context: StageContext) -> list[ReadingTally]:
    """Return both arithmetics, the project's first, which the stage itself runs."""
    chosen = str(options_of(context.project)["reading"])
    order = sorted(TITLES, key=lambda name: name != chosen)
    return [
        ReadingTally(name, *TITLES[name], None if name == chosen else computing(context, name))
        for name in order
    ]


def computing(context: StageContext, name: str) -> Callable[[Sample], list[torch.Tensor]]:
    """Return the function that computes the outputs with an arithmetic, sample by sample."""
    observed = copy.deepcopy(context.live("calibrate").module)
    steps = Steps(convert(observed, reading=name))

    def compute(sample: Sample) -> list[torch.Tensor]:
        with plain_attention(when=steps.remembers):
            return steps(sample)

    return compute


# Tolerance for another order of float32 sums: a share of the largest output, and a rounding error
# of values around 1 for outputs close to zero.
_TOLERANCE, _LEAST = 1e-4, 1e-6
_ERRORS_ONLY = 3


def verify(context: StageContext) -> VerifyResult:
    """Run the file on samples: unchanged, compared to torch, and dynamically quantized.

    Raises:
        WorkbenchError: the file differs from the model.
    """
    path = context.path("lower") / MODEL_FILE
    program = float_program(context)
    first = first_state(program)
    session = _session(path.read_bytes())
    plain = FileSteps(session, first)
    readings = _variants(context, path, FileSteps(session, first), first)
    tally = _Agreement()
    limit = context.project.verification.samples
    exported_steps = stepping(program.module(check_guards=False))
    floating_steps = stepping(context.live("export").module(check_guards=False))
    with torch.inference_mode(), exported_steps as exported, floating_steps as floating:
        chosen = itertools.islice(verification_samples(context), limit)
        for number, (sample, _) in enumerate(chosen):
            context.progress(number, limit, f"sample {number + 1}")
            tally.add(exported(sample), plain(sample))
            floats = floating(sample)
            for reading in readings:
                reading.add(sample, floats, floats)
    if tally.is_off:
        raise failure(
            "The exported file differs from the model: outputs differ by up to "
            f"{tally.worst:.3g}; the largest output is {tally.largest:.3g}.",
            "The exporter or the product rewriting causes this. Disable the rewriting.",
            Place(kind="stage", id="verify"),
            code="onnx-differs",
        )
    class_output = context.project.evaluation.class_output or 0
    result = tally.result(context.result("export", ExportResult))
    return result.model_copy(update={"readings": tuple(reading.result(class_output) for reading in readings)})


def _variants(
    context: StageContext, path: Path, plain: FileSteps, first: dict[str, torch.Tensor]
) -> list[ReadingTally]:
    by = f"computed by ONNX Runtime {onnxruntime.__version__} on this machine"
    chosen = options_of(context.project)["reading"]
    emulated = [
        ReadingTally(name, *title, computing(context, name))
        for name, title in sorted(TITLES.items(), key=lambda item: item[0] != chosen)
    ]
    return [
        ReadingTally("onnxruntime", "ONNX Runtime, float", by, plain),
        *emulated,
        ReadingTally(
            "onnxruntime-dynamic",
            "ONNX Runtime, dynamic",
            f"{by}: int8, per tensor",
            FileSteps(_session(_dynamic(path)), first),
        ),
    ]


def _dynamic(path: Path) -> bytes:
    """Return the file with ONNX Runtime's own dynamic quantization of its products."""
    with tempfile.TemporaryDirectory(prefix="nnpa-") as folder:
        written = Path(folder) / MODEL_FILE
        quantize_dynamic(
            path,
            written,
            op_types_to_quantize=["MatMul", "Gemm"],
            per_channel=False,
            weight_type=QuantType.QInt8,
        )
        return written.read_bytes()


def _session(model: bytes) -> Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]:
    """Return what runs a model on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    # Without this, sums of int8 products saturate at 16 bits on x86 processors without VNNI
    # (ONNX Runtime, "Quantize ONNX models", U8S8 and AVX2).
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]

    def run(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        given = {n: t.numpy() for n, t in zip(names, inputs, strict=True)}
        return [torch.from_numpy(np.asarray(output)) for output in session.run(None, given)]

    return run


@dataclass
class _Agreement:
    """The difference between the file's outputs and torch's."""

    samples: int = 0
    elements: int = 0
    exact: int = 0
    same: int = 0
    worst: float = 0.0
    largest: float = 0.0
    finite: bool = True

    def __post_init__(self) -> None:
        self._sums: list[Accumulator] = []

    def add(self, floats: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        """Add the outputs of one sample."""
        self._sums = self._sums or [Accumulator() for _ in floats]
        self.samples += 1
        self.same += bool(floats[0].argmax() == outputs[0].argmax())
        for sums, a, b in zip(self._sums, floats, outputs, strict=True):
            sums.add(a, b)
            self.elements += a.numel()
            self.exact += int((a == b).sum())
            self.largest = max(self.largest, float(a.abs().max()))
            self.worst = max(self.worst, float((a - b).abs().max()))
            self.finite = self.finite and bool(b.isfinite().all() or not a.isfinite().all())

    @property
    def is_off(self) -> bool:
        """Whether the difference exceeds the tolerance."""
        return not self.finite or self.worst > _TOLERANCE * self.largest + _LEAST

    def result(self, exported: ExportResult) -> VerifyResult:
        """Return the figures of the outputs, as the model names them."""
        names = exported.program_output_names(len(self._sums))
        return VerifyResult(
            samples=self.samples,
            elements=self.elements,
            exact=self.exact,
            max_lsb=0,
            argmax_equal=self.same,
            histogram={},
            max_abs_error=self.worst,
            runtime=f"ONNX Runtime {onnxruntime.__version__}",
            outputs=tuple(s.output(name) for name, s in zip(names, self._sums, strict=True)),
        )
