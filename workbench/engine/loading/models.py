"""Loading of the float model and its example inputs from any supported reference."""

from __future__ import annotations

import math
import os
import random
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils import _pytree

from workbench.engine import user_code
from workbench.engine.data.arrays import row_blanks
from workbench.engine.data.callables import first_sample
from workbench.engine.fx.flat_inputs import (
    Steps,
    arguments_of,
    values_of_arguments,
    with_flat_inputs,
    with_flat_signature,
)
from workbench.engine.fx.usual_forms import with_free_names, with_free_weights
from workbench.engine.loading.checkpoints import load_weights
from workbench.engine.loading.eager import EagerModel, example_request
from workbench.engine.loading.forms import refuse_form, refuse_quantized, refuse_weights
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
# By position and by name.
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
# Lengths of what a callable returns: with example inputs, and with others by name.
_WITH_INPUTS, _WITH_NAMED = 2, 3
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
    the model as it was loaded, ``example`` the request for its outputs on ``inputs``. ``places`` are
    those of its inputs in a sample, if they are not tensors by position alone; ``fixed`` are the
    numbers and texts that it is always called with.
    """

    module: torch.nn.Module | None
    program: torch.export.ExportedProgram | None
    inputs: Tensors
    weights: WeightsTaken | None = None
    places: list[Steps] = field(default_factory=list)
    fixed: str = ""

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
    module, arguments = _take_apart(returned, reference.attribute)
    refuse_form(module)
    _with_plain_weights(module)
    taken = None
    if model.weights:
        taken = load_weights(module, sources.absolute(folder, model.weights))
    refuse_weights(module, "model.weights" if model.weights else "model.spec")
    given = _inputs_from_file(model, folder)
    if given is None and arguments is None:
        raise failure(
            f"{reference.attribute} returns a model without example inputs.",
            _ways_to_give_inputs(calibration, folder),
            Place(kind="option", id="model.input_shapes"),
            code="model-inputs-missing",
        )
    # Frozen: passes of the toolchain copy what they compute from parameters, and a tensor that
    # would need a gradient cannot be copied. Training makes its own copy trainable.
    module.eval().requires_grad_(False)
    inputs, places, fixed = given or (), list[Steps](), ""
    if arguments is not None and _counts(arguments, given):
        fixed = _fixed(arguments)
        inputs, places = with_flat_inputs(module, *arguments)
    with_free_names(module)
    return LoadedModel(module, None, given or inputs, taken, places, fixed)


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
        program = with_free_weights(_read_program(path))
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
    refuse_weights(program, "model.spec")
    for parameter in program.parameters():
        parameter.requires_grad_(False)
    given = _inputs_from_file(model, folder)
    if given is None and program.example_inputs is None:
        raise failure(
            f"{path.name} contains no example inputs.",
            "Give input_shapes or inputs.",
            where,
            code="model-inputs-missing",
        )
    if program.example_inputs is None:
        return LoadedModel(None, program, given or ())
    arguments = _plain_arguments(program.example_inputs, path.name)
    fixed = _fixed(arguments)
    inputs, places = with_flat_signature(program)
    inputs = tuple(map(_plain_input, inputs))
    return LoadedModel(None, program, given or inputs, places=places, fixed=fixed)


def _read_program(path: Path) -> torch.export.ExportedProgram:
    """Return the program in a file: as torch reads it if the user trusts it, else strictly."""
    with open_regular(path) as file:
        if not zipfile.is_zipfile(file):
            raise pt2.UnreadableArchiveError("it is no archive")
    data = read_limited(path, MAX_PROGRAM_BYTES)
    if code_import.is_trusted_program(data, path):
        return load_trusted(data)
    return load_strictly(data)


def _take_apart(returned: Any, name: str) -> tuple[torch.nn.Module, Arguments | None]:
    """Return a model and its example arguments, by position and by name; None without any."""
    where = Place(kind="option", id="model.spec")
    arguments: Arguments | None = None
    if isinstance(returned, tuple) and len(returned) == _WITH_NAMED and isinstance(returned[2], Mapping):
        returned, arguments = returned[0], (arguments_of(returned[1])[0], dict(returned[2]))
    elif isinstance(returned, tuple) and len(returned) == _WITH_INPUTS:
        returned, inputs = returned
        arguments = None if inputs is None else arguments_of(inputs)
    if not isinstance(returned, torch.nn.Module):
        raise failure(
            f"{name} returned {type(returned).__name__}, not a torch.nn.Module.",
            "Return the model, (model, example_inputs), or (model, example_inputs, inputs_by_name).",
            where,
            code="model-not-module",
        )
    return returned, None if arguments is None else _plain_arguments(arguments, name)


def _plain_arguments(arguments: Arguments, name: str) -> Arguments:
    """Return example arguments whose tensors are plain ones.

    Raises:
        WorkbenchError: They hold no tensor, an empty one, or something that no call can be given.
    """
    values = values_of_arguments(*arguments)
    if not any(isinstance(value, torch.Tensor) for value in values.values()):
        kind = type(next(iter(values.values()))).__name__ if values else "empty"
        raise failure(
            f"The example inputs of {name} are {kind}, not tensors.",
            "Return a tensor, a tuple of the inputs by position, or a dictionary of the inputs by name.",
            Place(kind="option", id="model.spec"),
            code="model-inputs-invalid",
        )
    for steps, value in values.items():
        keys = [step for step in steps if not isinstance(step, int | str)]
        _refuse_input(_input_at(steps), keys[0] if keys else value, name)
    plain: Arguments = _pytree.tree_map_only(torch.Tensor, _plain_input, arguments)
    return plain


def _input_at(steps: Steps) -> str:
    """Return the name of an example input in messages, by where it lies."""
    first, *rest = steps[1:]
    return "".join((f"{first}" if isinstance(first, int) else f"{first!r}", *(f"[{s!r}]" for s in rest)))


def _refuse_input(label: str, value: Any, name: str) -> None:
    kind = type(value).__name__
    if not isinstance(value, torch.Tensor | int | float | str | None):
        raise failure(
            f"Example input {label} of {name} is {kind}, which torch.export does not take.",
            "Give tensors, in tuples, lists, dictionaries or dataclasses; wrap the model in a module whose "
            f"forward makes {kind} from them.",
            Place(kind="option", id="model.spec"),
            code="model-input-not-tensor",
        )
    if isinstance(value, torch.Tensor) and not value.numel():
        raise failure(
            f"Example input {label} of {name} has no elements: {_size(value)}.",
            "Return one of the size that the program gets, with a batch of 1.",
            Place(kind="option", id="model.spec"),
            code="model-input-empty",
        )


def _plain_input(value: torch.Tensor) -> torch.Tensor:
    return value.detach().cpu().as_subclass(torch.Tensor)


def _counts(arguments: Arguments, given: Tensors | None) -> bool:
    """Return whether example arguments have as many tensors as the inputs that the project names."""
    values = values_of_arguments(*arguments).values()
    return given is None or len(given) == sum(isinstance(value, torch.Tensor) for value in values)


def _fixed(arguments: Arguments) -> str:
    """Return the numbers and texts in example arguments, which a program cannot be given; "" without."""
    others = {s: v for s, v in values_of_arguments(*arguments).items() if isinstance(v, int | float | str)}
    return ", ".join(f"{_input_at(steps)} = {value!r}" for steps, value in others.items())


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
        "Return (model, inputs), or set the shapes (setting model.input_shapes, for example "
        "1x3x224x224). Inputs that are not float need an .npz file with one array for each: workbench "
        "settings PROJECT model.inputs=FILE.npz"
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
