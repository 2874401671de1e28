"""Import: load the float model and its example inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from workbench.engine.model_loading import LoadedModel, load_model
from workbench.errors import Place, failure
from workbench.results import ARRAYS_FILE, ImportResult, TensorSpec, WeightsTaken, save_result

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.engine.context import StageContext


def run(context: StageContext) -> None:
    """Load the model; write its description, and its example inputs as arrays."""
    context.progress(0, None, context.project.model.spec)
    loaded = load_model(context.project.model, context.folder, context.project.calibration)
    loaded.eager.start(loaded.example)
    state = loaded.module if loaded.module is not None else loaded.program
    assert state is not None
    parameters = list(state.parameters())
    result = ImportResult(
        model_class=_class_name(loaded),
        parameters=sum(p.numel() for p in parameters),
        parameter_bytes=sum(p.numel() * p.element_size() for p in parameters),
        inputs=tuple(tensor_spec(f"input{i}", t) for i, t in enumerate(loaded.inputs)),
        weights=loaded.weights,
        warnings=tuple(_notes(loaded.weights)) if loaded.weights else (),
    )
    _refuse_unstorable(loaded.inputs)
    arrays = {f"input{i}": tensor.numpy() for i, tensor in enumerate(loaded.inputs)}
    np.savez(context.out / ARRAYS_FILE, **arrays)
    save_result(result, context.out)
    context.keep(loaded)


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


def _notes(taken: WeightsTaken) -> Iterator[str]:
    """Yield what to know of the weights that were taken."""
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
