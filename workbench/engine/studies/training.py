"""Training study: quantization-aware training, epoch by epoch, keeping the best weights."""

from __future__ import annotations

import copy
import hashlib
import math
import time
from typing import TYPE_CHECKING

import torch
from torch.export.passes import move_to_device_pass

from workbench.engine.data.evaluation import calibration_samples
from workbench.engine.evaluation.measures import tensors_of
from workbench.engine.evaluation.stateful_execution import refuse_memory
from workbench.engine.fx import programs
from workbench.engine.quantization.float_layers import refuse_present_statistics
from workbench.engine.stages.prepare import improved, pruned
from workbench.engine.targets import toolchain_of
from workbench.engine.training.dataset import TrainingDataset
from workbench.engine.training.model import take_batches
from workbench.engine.training.trainer import (
    load_checkpoint,
    optimizer_of,
    save_checkpoint,
    training_function_of,
)
from workbench.engine.training.weights import put_weights, read_weights, write_tensors
from workbench.errors import Place, failure
from workbench.studies.documents import load_study, save_study
from workbench.studies.sensitivity import Noise
from workbench.studies.training import Epoch, TrainingOptions, TrainingResult, is_over, next_step, options_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.engine.runtime.context import StageContext
    from workbench.engine.studies.study import StudyContext
    from workbench.engine.training.dataset import Batch

_REPORT_EVERY_S = 0.5


def run(study: StudyContext) -> None:
    """Continue from the last checkpoint until all epochs are done or the SQNR stops improving.

    Raises:
        Cancelled: cancelled by the user; the last checkpoint is kept.
        WorkbenchError: there is nothing to train, or the loss is not finite.
    """
    options = options_of(study.options)
    known = load_study(TrainingResult, study.folder)
    if known is not None and is_over(known, options):
        known = known.model_copy(update={"total": options.epochs})
        study.tell(known, len(known.epochs), options.epochs, "")
        return
    if study.stage.project.calibration is None:
        raise failure(
            "Training needs calibration data; the project has only the example input.",
            "Set calibration data in the project. Labels are not needed.",
            Place(kind="option", id="calibration"),
            code="training-data-missing",
        )
    if programs.has_control_flow(study.stage.live("export")):
        raise failure(
            "Training does not support models with branches or loops.",
            "Train the model before you import it.",
            Place(kind="stage", id="export"),
            code="training-branches-not-supported",
        )
    _Training(study, options).run()


class _Training:
    """Model, data and optimiser of one run."""

    def __init__(self, study: StudyContext, options: TrainingOptions) -> None:
        context = study.stage
        self._study, self._options = study, options
        self._train = training_function_of(context.project.training_function, context.folder, options)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        study.report(0, options.epochs, "preparing")
        teacher = _float_module(context, device)
        refuse_memory(teacher, calibration_samples(context), "Training", "training")
        self._qat_model = toolchain_of(context).qat_model(_start(context, device), context.opened)
        if not self._qat_model.parameters:
            raise failure(
                "The model has no weights to train.",
                "Training needs a model with weights.",
                Place(kind="stage", id="export"),
                code="training-without-weights",
            )
        if clusters := context.project.clusters():
            self._qat_model.cluster(clusters)
        study.report(0, options.epochs, "running the float model")
        self._dataset = TrainingDataset(context, teacher, self._qat_model.run_in_float, device)
        self._optimizer = optimizer_of(
            options.optimizer, list(self._qat_model.parameters.values()), options.learning_rate
        )
        weights = self._qat_model.weights()
        self._untrained = {name: tensor.detach().clone() for name, tensor in weights.items()}
        checkpoint = load_checkpoint(study.folder, self._qat_model, self._optimizer)
        self._result = checkpoint or self._first(device)
        self._last_report = 0.0

    def run(self) -> None:
        """Train."""
        options = self._options
        result = self._result = self._result.model_copy(update={"total": options.epochs})
        self._study.tell(result, len(result.epochs), options.epochs, "")
        while not is_over(self._result, options):
            self._epoch(len(self._result.epochs) + 1)

    def _first(self, device: str) -> TrainingResult:
        """Return the result before the first epoch."""
        dataset = self._dataset
        self._see()
        return TrainingResult(
            data=dataset.name,
            device=device,
            samples=len(dataset.used),
            held_out=dataset.held_out,
            one_by_one=dataset.one_by_one,
            total=self._options.epochs,
            start_db=self._sqnr(),
        )

    def _go_back(self) -> None:
        """Restore the best weights, and reset the optimiser's state."""
        result, qat_model = self._result, self._qat_model
        best = read_weights(self._study.folder / result.weights) if result.best else self._untrained
        qat_model.take(best)
        self._optimizer.state.clear()
        self._see()

    def _see(self) -> None:
        """Set the ranges of activations by all samples one by one, as calibration does."""
        self._qat_model.see(sample.inputs for sample in self._dataset.all)

    def _epoch(self, number: int) -> None:
        options, qat_model = self._options, self._qat_model
        rate, goes_back = next_step(self._result, options)
        if goes_back:
            self._go_back()
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        normalizes = number <= options.batch_norm and not self._dataset.one_by_one
        qat_model.switch(normalizes=normalizes)
        with torch.enable_grad():
            loss = self._train(qat_model.module, self._batches(number), self._optimizer)
        if number <= options.observe:
            self._see()
        sqnr = self._sqnr() if math.isfinite(loss) else math.nan
        if not math.isfinite(sqnr):
            raise self._not_a_number(number)
        epoch = Epoch(number=number, loss=loss, sqnr_db=sqnr, learning_rate=rate)
        result = self._result.model_copy(update={"epochs": (*self._result.epochs, epoch)})
        if sqnr > self._result.best_db:
            result = self._keep_best(result, number)
        save_checkpoint(self._study.folder, qat_model, self._optimizer, result)
        self._result = result
        save_study(result, self._study.folder)
        # Not before, because the former document names the former weights.
        for former in self._study.folder.glob("best-*.safetensors"):
            if former.name != result.weights:
                former.unlink()
        self._study.tell(result, number, options.epochs, f"epoch {number}")

    def _batches(self, number: int) -> Iterator[Batch]:
        options = self._options
        for index, batch in enumerate(self._dataset.batches(options.batch, options.seed, number)):
            self._study.stage.check_cancelled()
            if time.monotonic() - self._last_report > _REPORT_EVERY_S:
                self._last_report = time.monotonic()
                self._study.report(number - 1, options.epochs, f"epoch {number}, step {index + 1}")
            yield batch

    def _sqnr(self) -> float:
        """Return the SQNR [dB] of the model's outputs against the float model's."""
        self._qat_model.switch(normalizes=False)
        sums = Noise()
        with torch.no_grad():
            for batch in self._dataset.together(self._dataset.validation, self._options.batch):
                self._study.stage.check_cancelled()
                for mine, target in zip(
                    tensors_of(self._qat_model.module(*batch.inputs)), batch.targets, strict=True
                ):
                    wide = target.to(torch.float64)
                    error = wide - mine.to(torch.float64)
                    sums = sums.plus(Noise(signal=float((wide**2).sum()), noise=float((error**2).sum())))
        if not math.isfinite(sums.noise):
            return math.nan
        return sums.sqnr_db if sums.sqnr_db is not None else 0.0

    def _keep_best(self, result: TrainingResult, number: int) -> TrainingResult:
        folder = self._study.folder
        folder.mkdir(parents=True, exist_ok=True)
        name = f"best-{number}.safetensors"
        write_tensors(self._qat_model.weights(), folder / name)
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        return result.model_copy(update={"best": number, "weights": name, "digest": digest})

    def _not_a_number(self, number: int) -> Exception:
        best = self._result.best
        kept = f"The weights of epoch {best} were saved" if best else "No weights were saved"
        return failure(
            f"Training stopped in epoch {number}: the loss is NaN or infinite.",
            f"{kept}. Start again with a lower learning rate.",
            Place(kind="option", id="learning_rate"),
            code="training-diverged",
        )


def _float_module(context: StageContext, device: str) -> torch.fx.GraphModule:
    program = context.live("export")
    moved = program if device == "cpu" else move_to_device_pass(copy.deepcopy(program), device)
    module: torch.fx.GraphModule = moved.module(check_guards=False)
    take_batches(module)
    return module


def _start(context: StageContext, device: str) -> torch.fx.GraphModule:
    """Return the float module to train, with its own memory, after improvers.

    Raises:
        WorkbenchError: a batch norm that is folded has no running statistics.
    """
    module, _ = pruned(context, copy.deepcopy(_float_module(context, device)))
    refuse_present_statistics(module)
    if context.project.improvers:
        narrow, _ = pruned(context, _float_module(context, "cpu"))
        better, _ = improved(context, narrow)
        put_weights(module, {**dict(better.named_parameters()), **dict(better.named_buffers())})
    programs.write_nowhere(module)
    return module
