"""Loading of the float model and its example inputs from any supported reference."""

from __future__ import annotations

import math
import os
import random
import tokenize
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.engine import user_code
from workbench.engine.data.arrays import row_blanks
from workbench.engine.data.callables import first_sample
from workbench.engine.fx.usual_forms import with_free_names
from workbench.engine.loading.checkpoints import load_weights
from workbench.engine.loading.eager import EagerModel, example_request
from workbench.engine.loading.forms import refuse_form, refuse_quantized
from workbench.engine.loading.pt2 import load_strictly, load_trusted
from workbench.engine.user_code import code_import
from workbench.errors import Place, failure, reason_of
from workbench.files import MAX_PROGRAM_BYTES, open_regular, read_limited
from workbench.npz import open_npz
from workbench.project import pt2, sources
from workbench.results import WeightsTaken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.project.model import DataSource, ModelSource

Tensors = tuple[torch.Tensor, ...]
# Example inputs beyond this are a mistake.
_MAX_INPUT_ELEMENTS = 1 << 26
_MAX_INPUT_BYTES = 4 * _MAX_INPUT_ELEMENTS
_NO_ARRAYS = (
    OSError,
    ValueError,
    AttributeError,
    TypeError,
    EOFError,
    KeyError,
    SyntaxError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
    tokenize.TokenError,
)


@dataclass
class LoadedModel:
    """A model in evaluation mode: a module, or an already exported program.

    ``weights`` says where its weights were found; None if they came with the model. ``eager`` is
    the model as it was loaded, ``example`` the request for its outputs on ``inputs``.
    """

    module: torch.nn.Module | None
    program: torch.export.ExportedProgram | None
    inputs: Tensors
    weights: WeightsTaken | None = None

    def __post_init__(self) -> None:
        call: Any = self.module
        if self.program is not None:
            call = self.program.module(check_guards=False)
        self.eager = EagerModel(call, [*call.parameters(), *call.buffers()])
        self.example = example_request(self.inputs)


def load_model(model: ModelSource, folder: Path, calibration: DataSource | None = None) -> LoadedModel:
    """Return the model of a project.

    Args:
        model: Where it comes from.
        folder: Base of relative paths.
        calibration: The calibration data; a hint proposes the shapes of its samples.

    Raises:
        WorkbenchError: a file is missing, user code fails, or a value has the wrong type.
    """
    reference = sources.model_reference(model.spec, folder)
    if reference.kind == "program":
        assert reference.path is not None
        return _load_program(reference.path, model, folder)
    if reference.kind == "onnx":
        assert reference.path is not None
        # Environments of other toolchains need no onnx for other models.
        from workbench.engine.loading import onnx_import

        hint = _ways_to_fix_shapes(calibration, folder)
        graph, examples = onnx_import.load(reference.path, _inputs_from_file(model, folder), hint)
        return LoadedModel(graph, None, examples)
    with _seeded():
        function = user_code.load_callable(reference, "model.spec")
        returned = user_code.call(function, reference, "model.spec")
    module, inputs = _take_apart(returned, reference.attribute)
    refuse_form(module)
    _with_plain_weights(module)
    taken = None
    if model.weights:
        taken = load_weights(module, sources.absolute(folder, model.weights))
    given = _inputs_from_file(model, folder)
    if given is None and inputs is None:
        raise failure(
            f"{reference.attribute} returns a model without example inputs.",
            _ways_to_give_inputs(calibration, folder),
            Place(kind="option", id="model.input_shapes"),
            code="model-inputs-missing",
        )
    # Frozen: passes of the toolchain copy what they compute from parameters, and a tensor that
    # would need a gradient cannot be copied. Training makes its own copy trainable.
    module.eval().requires_grad_(False)
    with_free_names(module)
    return LoadedModel(module, None, given if given is not None else inputs or (), taken)


@contextmanager
def _seeded() -> Iterator[None]:
    """Start all random numbers at seed 0: random weights are those of every other loading."""
    kept = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        try:
            yield
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])


def _load_program(path: Path, model: ModelSource, folder: Path) -> LoadedModel:
    where = Place(kind="option", id="model.spec")
    if not os.path.isfile(path):
        raise failure(f"{path.name} does not exist.", "Correct the path.", where, code="model-file-missing")
    try:
        program = _read_program(path)
        program.module(check_guards=False)
    except pt2.DoubtfulArchiveError as doubt:
        raise failure(
            f"{path.name} {doubt}, so that loading it may run code.",
            "Run again, and allow it if you trust its source.",
            where,
            code="code-not-trusted",
        ) from doubt
    except Exception as error:
        raise failure(
            f"{path.name} is not an exported program that torch {torch.__version__} can read.",
            "Save it with torch.export.save. The file may be truncated.",
            where,
            details=str(error),
            code="model-file-unreadable",
        ) from error
    refuse_quantized(program, path.name)
    for parameter in program.parameters():
        parameter.requires_grad_(False)
    given = _inputs_from_file(model, folder)
    example = program.example_inputs
    inputs = given or (tuple(example[0]) if example else None)
    if inputs is None:
        raise failure(
            f"{path.name} contains no example inputs.",
            "Give input_shapes or inputs.",
            where,
            code="model-inputs-missing",
        )
    return LoadedModel(None, program, _tensors(inputs, path.name))


def _read_program(path: Path) -> torch.export.ExportedProgram:
    """Return the program in a file: as torch reads it if the user trusts it, else strictly."""
    with open_regular(path) as file:
        if not zipfile.is_zipfile(file):
            raise pt2.UnreadableArchiveError("it is no archive")
    data = read_limited(path, MAX_PROGRAM_BYTES)
    if code_import.is_trusted_program(data, path):
        return load_trusted(data)
    return load_strictly(data)


def _take_apart(returned: Any, name: str) -> tuple[torch.nn.Module, Tensors | None]:
    where = Place(kind="option", id="model.spec")
    inputs: Any = None
    if isinstance(returned, tuple) and len(returned) == 2:
        returned, inputs = returned
    if not isinstance(returned, torch.nn.Module):
        raise failure(
            f"{name} returned {type(returned).__name__}, not a torch.nn.Module.",
            "Return the model or (model, example_inputs).",
            where,
            code="model-not-module",
        )
    return returned, None if inputs is None else _tensors(inputs, name)


def _tensors(inputs: Any, name: str) -> Tensors:
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if not isinstance(inputs, tuple | list) or not inputs:
        kind = type(inputs).__name__
        raise failure(
            f"The example inputs of {name} are {kind}, not tensors.",
            "Return a tensor or a tuple of tensors. Arguments by name: wrap the model in a module with "
            "def forward(self, image): return self.model(image=image).",
            Place(kind="option", id="model.spec"),
            code="model-inputs-invalid",
        )
    for position, value in enumerate(inputs):
        if not isinstance(value, torch.Tensor):
            kind = "None" if value is None else type(value).__name__
            raise failure(
                f"Example input {position} of {name} is {kind}, not a tensor.",
                f"Wrap the model in a module whose forward takes tensors, and makes or passes {kind} itself.",
                Place(kind="option", id="model.spec"),
                code="model-input-not-tensor",
            )
        if not value.numel():
            raise failure(
                f"Example input {position} of {name} has no elements: {_size(value)}.",
                "Return one of the size that the program gets, with a batch of 1.",
                Place(kind="option", id="model.spec"),
                code="model-input-empty",
            )
    return tuple(value.detach().cpu().as_subclass(torch.Tensor) for value in inputs)


def _size(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape))


def _with_plain_weights(module: torch.nn.Module) -> None:
    """Make plain tensors of weights whose class is the user's, or that inference mode made.

    torch cannot copy the first, nor let the second be written or read by what may need a gradient.
    """
    plain = dict[torch.Tensor, torch.Tensor]()
    for part in module.modules():
        for name, weight in part._parameters.items():  # noqa: SLF001 - torch offers no other way
            if weight is not None and (type(weight) is not torch.nn.Parameter or weight.is_inference()):
                plain.setdefault(weight, torch.nn.Parameter(_plain(weight), requires_grad=False))
                part._parameters[name] = plain[weight]  # type: ignore[assignment]  # noqa: SLF001
        for name, buffer in part._buffers.items():  # noqa: SLF001
            if buffer is not None and buffer.is_inference():
                part._buffers[name] = plain.setdefault(buffer, _plain(buffer))  # noqa: SLF001


def _plain(weight: torch.Tensor) -> torch.Tensor:
    tensor = weight.detach().as_subclass(torch.Tensor)
    return tensor.clone() if weight.is_inference() else tensor


def _inputs_of_data(calibration: DataSource | None, folder: Path) -> list[torch.Tensor]:
    """Return the inputs of a calibration sample, without a batch axis; empty if they are unknown."""
    if calibration is None:
        return []
    return row_blanks(calibration, folder) or first_sample(calibration, folder)


def _shapes_of(samples: Sequence[torch.Tensor]) -> str:
    """Return the shapes of the inputs of a sample, as a setting."""
    return ",".join("x".join(map(str, (1, *sample.shape))) for sample in samples)


def _ways_to_fix_shapes(calibration: DataSource | None, folder: Path) -> str:
    """Return how to fix the shapes of a model whose file does not."""
    if shapes := _shapes_of(_inputs_of_data(calibration, folder)):
        return (
            "Set the shapes that the calibration data has: workbench settings PROJECT "
            f"model.input_shapes={shapes}"
        )
    return (
        "Give the shapes of all inputs: --input-shape 1x3x224x224 of new, or workbench settings "
        "PROJECT model.input_shapes=1x3x224x224"
    )


def _ways_to_give_inputs(calibration: DataSource | None, folder: Path) -> str:
    samples = _inputs_of_data(calibration, folder)
    if samples and all(sample.is_floating_point() for sample in samples):
        return (
            "Return (model, inputs), or set the shapes that the calibration data has: workbench "
            f"settings PROJECT model.input_shapes={_shapes_of(samples)}"
        )
    return (
        "Return (model, inputs), or set the input shapes (model.input_shapes, e.g. 1x3x224x224). "
        "Inputs that are not float need an .npz with one array for each (model.inputs)."
    )


def _inputs_from_file(model: ModelSource, folder: Path) -> Tensors | None:
    if model.inputs:
        path = sources.absolute(folder, model.inputs)
        where = Place(kind="option", id="model.inputs")
        try:
            with open_npz(path) as arrays:
                if sum(entry.file_size for entry in arrays.zip.infolist()) > _MAX_INPUT_BYTES:
                    raise ValueError("they are too large for example inputs")
                return tuple(torch.from_numpy(arrays[name]) for name in arrays.files)
        except _NO_ARRAYS as error:
            raise failure(
                f"{path.name} contains no example inputs: {reason_of(error)}.",
                "Save it with numpy.savez, one array per input, in order.",
                where,
                code="model-inputs-unreadable",
            ) from error
    if model.input_shapes:
        if sum(math.prod(shape) for shape in model.input_shapes) > _MAX_INPUT_ELEMENTS:
            raise failure(
                f"The example inputs have more than {_MAX_INPUT_ELEMENTS:,} elements.",
                "Correct input_shapes.",
                Place(kind="option", id="model.input_shapes"),
                code="model-inputs-too-large",
            )
        generator = torch.Generator().manual_seed(0)
        return tuple(torch.randn(shape, generator=generator) for shape in model.input_shapes)
    return None
