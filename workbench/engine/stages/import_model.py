"""Import: load the float model and its example inputs."""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import torch

from workbench.engine.data import open_samples
from workbench.engine.loading.models import LoadedModel, load_model
from workbench.errors import Place, WorkbenchError, failure
from workbench.project import sources
from workbench.results import (
    ARRAYS_FILE,
    ConversionCheck,
    ImportResult,
    TensorSpec,
    WeightsTaken,
    save_result,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.engine.runtime.context import StageContext


def run(context: StageContext) -> None:
    """Load the model; write its description, and its example inputs as arrays."""
    context.progress(0, None, context.project.model.spec)
    loaded = load_model(context.project.model, context.folder, context.project.calibration)
    loaded.eager.start(loaded.example)
    conversion = _conversion(context, loaded)
    state = loaded.module if loaded.module is not None else loaded.program
    assert state is not None
    parameters = list(state.parameters())
    result = ImportResult(
        model_class=_class_name(loaded),
        parameters=sum(p.numel() for p in parameters),
        parameter_bytes=sum(p.numel() * p.element_size() for p in parameters),
        inputs=tuple(_inputs(loaded)),
        weights=loaded.weights,
        random_weights=has_random_weights(state),
        conversion=conversion,
        warnings=tuple(_notes(loaded)),
    )
    _refuse_unstorable(loaded.inputs)
    arrays = {f"input{i}": tensor.numpy() for i, tensor in enumerate(loaded.inputs)}
    np.savez(context.out / ARRAYS_FILE, **arrays)
    save_result(result, context.out)
    context.keep(loaded)


def _conversion(context: StageContext, loaded: LoadedModel) -> ConversionCheck | None:
    """Return how a converted model was checked on the calibration samples; None for others.

    Data that cannot be read is reported when calibration reads it; then the example inputs are the
    samples.

    Raises:
        WorkbenchError: The model differs from its file.
    """
    reference = sources.model_reference(context.project.model.spec, context.folder)
    if reference.kind != "onnx" or reference.path is None or loaded.module is None:
        return None
    from workbench.engine.loading.onnx_import import proof

    context.progress(0, None, "comparing with onnxruntime")
    samples = [loaded.inputs]
    if (data := context.project.calibration) is not None:
        names = [node.name for node in loaded.module.graph.find_nodes(op="placeholder")]
        specs = [tensor_spec(n, t) for n, t in zip(names, loaded.inputs, strict=True)]
        with suppress(WorkbenchError):
            opened = open_samples(data, context.folder, specs, "calibration")
            samples = [sample.inputs for sample in itertools.islice(opened, proof.SAMPLES)]
    return proof.prove(reference.path, loaded.module, samples, context.check_cancelled)


# Weights and values for each channel below which nothing can be said of a layer; weights of a model
# without norms below which nothing can be said of it; the part of the weights that must agree.
_LEAST_CHANNELS, _LEAST_VALUES, _LEAST_WEIGHTS, _MOST = 8, 16, 100_000, 0.95


def has_random_weights(model: torch.nn.Module | torch.export.ExportedProgram) -> bool:
    """Return whether a model looks as if it was never trained.

    Its norms have the values that they begin with, and the channels of its weights spread no more
    than samples of one distribution do: for n values with kurtosis k the standard deviation of a
    channel varies by sqrt((k - 1) / 4n). Channels of trained weights differ by far more.
    """
    if any(not _is_constant(value) for value in _norms(model)):
        return False
    weights = [p.detach() for p in model.parameters() if p.is_floating_point() and p.dim() > 1]
    judged = [w for w in weights if w.shape[0] >= _LEAST_CHANNELS and w[0].numel() >= _LEAST_VALUES]
    total = sum(weight.numel() for weight in judged)
    if not total or (total < _LEAST_WEIGHTS and not any(True for _ in _norms(model))):
        return False
    return sum(w.numel() for w in judged if _is_even(w)) >= _MOST * total


def _norms(model: torch.nn.Module | torch.export.ExportedProgram) -> Iterator[torch.Tensor]:
    """Yield the scales and the running variances of norms."""
    names = [*model.named_parameters(), *model.named_buffers()]
    for name, value in names:
        if value.dim() == 1 and name.rpartition(".")[2] in {"weight", "running_var"}:
            yield value.detach()


def _is_constant(value: torch.Tensor) -> bool:
    return value.numel() == 0 or bool((value == value[0]).all())


def _is_even(weight: torch.Tensor) -> bool:
    values = weight.reshape(weight.shape[0], -1).double()
    spread = values.std(1)
    power = (values**2).mean()
    if not power > 0:
        return True
    kurtosis = float((values**4).mean() / power**2)
    expected = math.sqrt(max(kurtosis - 1, 0.1) / (4 * values.shape[1]))
    return float(spread.std() / spread.mean()) < 1.5 * expected + 0.01


def _refuse_unstorable(inputs: Sequence[torch.Tensor]) -> None:
    """Raise for inputs of a type that numpy does not have."""
    for index, tensor in enumerate(inputs):
        if tensor.dtype == torch.bfloat16:
            raise failure(
                f"Input {index} of the model is of bfloat16.",
                "Devices take float32: call .float() on the model and on its example inputs.",
                Place(kind="option", id="model.inputs"),
                code="input-bfloat16",
            )


def _inputs(loaded: LoadedModel) -> Iterator[TensorSpec]:
    for position, tensor in enumerate(loaded.inputs):
        place = loaded.places[position] if loaded.places else ()
        yield tensor_spec(f"input{position}", tensor).model_copy(update={"place": place})


def _notes(loaded: LoadedModel) -> Iterator[str]:
    """Yield what to know of the inputs that are fixed, and of the weights that were taken."""
    if loaded.fixed:
        yield f"A program takes tensors alone; other inputs are fixed in it: {loaded.fixed}."
    if loaded.weights is not None:
        yield from _notes_on_weights(loaded.weights)


def _notes_on_weights(taken: WeightsTaken) -> Iterator[str]:
    entry = ".".join(taken.entry)
    if taken.others:
        others = ", ".join(taken.others)
        yield f"The weights are those of {entry}; the checkpoint also has {others}."
    if taken.dropped:
        named = ", ".join(taken.dropped[:5])
        yield f"The model does not have these parts of the checkpoint: {named}."


def load(context: StageContext) -> LoadedModel:
    """Load the model again; it is not stored."""
    return load_model(context.project.model, context.folder, context.project.calibration)


def tensor_spec(name: str, tensor: torch.Tensor) -> TensorSpec:
    """Return name, shape and dtype of a tensor."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorSpec(name=name, shape=tuple(tensor.shape), dtype=dtype)


def _class_name(loaded: LoadedModel) -> str:
    if loaded.module is not None:
        return type(loaded.module).__name__
    return "exported program"
