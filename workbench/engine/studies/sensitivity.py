"""Sensitivity study: measure every unit alone quantized and alone in float."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch

from workbench.engine.calibration.runs import searching_ranges
from workbench.engine.data.evaluation import evaluation_samples
from workbench.engine.evaluation.measures import class_output, top_k_hit
from workbench.engine.evaluation.model_outputs import model_outputs
from workbench.engine.evaluation.stateful_execution import stepping
from workbench.engine.fx.observers import fix_ranges
from workbench.engine.quantization.per_tensor_switches import SwitchedProgram, SwitchedSteps
from workbench.engine.quantization.ranges import chosen_ranges, copies_of_observers
from workbench.engine.studies.sensitivity_groups import Switching
from workbench.engine.targets import toolchain_of
from workbench.studies.documents import load_study
from workbench.studies.sensitivity import DEFAULT_SAMPLES, Noise, SensitivityResult, UnitSensitivity

if TYPE_CHECKING:
    from workbench.engine.data.sample import Sample
    from workbench.engine.studies.study import StudyContext

# Two switch settings in addition to those of each unit.
_FLOATS, _QUANTIZED = ("floats", 0), ("quantized", 0)


def run(study: StudyContext) -> None:
    """Continue from the measured samples, and write the sums after each one."""
    context = study.stage
    asked = int(str(study.options.get("samples") or DEFAULT_SAMPLES))
    samples = evaluation_samples(context)
    total = min(asked, samples.count or asked, context.project.evaluation.limit)
    result = load_study(SensitivityResult, study.folder)
    if result is not None and result.samples >= total:
        study.tell(_ended(result, asked), result.samples, total, "")
        return
    with searching_ranges(context):
        calibrated = context.live("calibrate").module
        observed = copy.deepcopy(calibrated, copies_of_observers(calibrated))
        fix_ranges(observed, chosen_ranges(context)[0])
        program = SwitchedProgram(observed, toolchain_of(context))
        switching = Switching(program, context.live("export").graph)
    units = tuple(UnitSensitivity(unit=unit) for unit in switching.units)
    if result is None or [u.unit for u in result.units] != list(switching.units):
        result = SensitivityResult(data=samples.name, samples=0, total=total, labelled=True, units=units)
    measured = _measure(study, switching, result.model_copy(update={"total": total}))
    study.tell(_ended(measured, asked), measured.samples, total, "")


def _ended(result: SensitivityResult, asked: int) -> SensitivityResult:
    """Return a result that is finished: it has all samples if there are fewer than asked."""
    has_all = result.has_all or result.samples < asked
    return result.model_copy(update={"total": result.samples, "has_all": has_all})


def _measure(study: StudyContext, switching: Switching, result: SensitivityResult) -> SensitivityResult:
    """Return the result with the remaining samples; write the sums after each one."""
    context, total = study.stage, result.total
    steps = SwitchedSteps(switching.program)
    missed: list[Sample] = []
    with stepping(context.live("export").module(check_guards=False)) as floating:
        for number, sample in enumerate(evaluation_samples(context)):
            if number == total:
                break
            if sample.begins or not steps.remembers(sample):
                missed = []
            missed.append(sample)
            if number < result.samples:
                continue
            # Measured samples are run again only to restore the state of later ones.
            for group in missed:
                with torch.inference_mode():
                    measured = _Measured(study, switching, steps, group, floating(group))
                    added = measured.onto(result, total)
            result, missed = added, []
            study.tell(result, number + 1, total, f"sample {number + 1}")
    return result


class _Measured:
    """One sample through the program with each of its units switched."""

    def __init__(
        self,
        study: StudyContext,
        switching: Switching,
        steps: SwitchedSteps,
        sample: Sample,
        reference: list[torch.Tensor],
    ) -> None:
        self._study, self._switching, self._sample = study, switching, sample
        self._reference, self._steps = reference, steps
        steps.take(sample)
        self._floats = steps.run(_FLOATS, frozenset())
        self._quantized = steps.run(_QUANTIZED, switching.program.switches)

    def onto(self, result: SensitivityResult, total: int) -> SensitivityResult:
        """Return the sums with this sample's added."""
        steps, switches = self._steps, self._switching.program.switches
        units = []
        for index, unit in enumerate(result.units):
            self._study.stage.check_cancelled()
            only = self._switching.only(index)
            opened = self._switching.inside(index)
            alone = steps.rerun(("only", index), self._floats, only, only)
            spared = steps.rerun(("without", index), self._quantized, opened, switches - opened)
            update = {
                "only": unit.only.plus(self._noise(alone)),
                "without": unit.without.plus(self._noise(spared)),
                "per_tensor": self._with_one_scale(index, unit),
            }
            units.append(unit.model_copy(update=update))
        whole = self._noise(steps.outputs(self._quantized))
        hits = Noise(hits=self._hit(self._reference))
        return result.model_copy(
            update={
                "samples": result.samples + 1,
                "total": total,
                "labelled": result.labelled and self._sample.label is not None,
                "quantized": result.quantized.plus(whole),
                "floating": result.floating.plus(hits),
                "units": tuple(units),
            }
        )

    def _with_one_scale(self, index: int, unit: UnitSensitivity) -> Noise | None:
        """Return the noise of the quantized model with one scale for each weight of a unit."""
        program, weights = self._switching.program, self._switching.weights(index)
        if not weights:
            return None
        with program.one_scale(weights):
            outputs = self._steps.rerun(("per tensor", index), self._quantized, weights, program.switches)
        return (unit.per_tensor or Noise()).plus(self._noise(outputs))

    def _noise(self, outputs: list[torch.Tensor]) -> Noise:
        signal = noise = 0.0
        for a, b in zip(self._reference, outputs, strict=True):
            wide = a.to(torch.float64)
            signal += float((wide * wide).sum())
            noise += float(((wide - b.to(torch.float64)) ** 2).sum())
        return Noise(signal=signal, noise=noise, hits=self._hit(outputs))

    def _hit(self, outputs: list[torch.Tensor]) -> int:
        label = self._sample.label
        if label is None:
            return 0
        joined = model_outputs(self._study.stage).joined(outputs)
        asked = self._study.stage.project.evaluation.class_output
        return int(bool(top_k_hit(joined[class_output(joined, label, asked)], label, 1)))
