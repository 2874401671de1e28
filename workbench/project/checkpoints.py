"""The forms of model and weight files, recognized by their bytes; no code runs."""

from __future__ import annotations

import itertools
import json
import os
import pickletools
import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from workbench.errors import ErrorInfo, Place
from workbench.files import MAX_TEXT_BYTES, open_regular, read_limited
from workbench.npz import ZIP_ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterator

Form = Literal[
    "safetensors",
    "index",
    "folder",
    "torchscript",
    "module",
    "pickle",
    "npz",
    "program",
    "onnx",
    "tflite",
    "hdf5",
    "keras",
    "savedmodel",
    "gguf",
    "unknown",
]

# Names in a folder that a model's library wrote, in the order in which they are looked for.
_IN_FOLDERS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "diffusion_pytorch_model.safetensors",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
_INDEX = ".index.json"
_MODULE_FIELDS = {"_parameters", "_buffers", "_modules"}

CONVERT_MODULE = (
    "Allow it only if you know where the file comes from (command line: --trust). "
    "Convert it once where its classes can be imported: model = torch.load('{name}', "
    "weights_only=False); torch.save(model.state_dict(), 'weights.pt'). Then use weights.pt."
)
_INSTEAD: dict[Form, str] = {
    "onnx": "An ONNX file is a model with its weights: give it as the model, --model '{name}'.",
    "tflite": "TensorFlow Lite files are quantized and need no workbench: 'vela {name} "
    "--accelerator-config ...' compiles them. 'workbench inspect' shows a compiled one, to compare "
    "it with a .pte. Otherwise use the PyTorch model.",
    "hdf5": "This is a Keras or HDF5 file. Rebuild the network in PyTorch and copy the weights "
    "layer by layer (convolutions: kernel.transpose(3, 2, 0, 1); dense: kernel.T).",
    "keras": "This is a Keras file. Rebuild the network in PyTorch and copy the weights layer by "
    "layer (convolutions: kernel.transpose(3, 2, 0, 1); dense: kernel.T).",
    "savedmodel": "This is a TensorFlow SavedModel. Rebuild the network in PyTorch and copy the "
    "weights layer by layer.",
    "gguf": "GGUF weights are quantized for llama.cpp. Use the checkpoint that they were made of.",
    "torchscript": "TorchScript cannot be exported. Give the Python code of the model as "
    "FILE.py:callable, and this file as its weights.",
    "pickle": "A checkpoint has no program. Give the Python code of the model as FILE.py:callable, "
    "and this file as its weights.",
    "program": "This is an exported program, not weights. Give it as the model.",
}
for _form in ("safetensors", "index", "folder", "module", "npz"):
    _INSTEAD[_form] = _INSTEAD["pickle"]
WEIGHT_FORMS: frozenset[Form] = frozenset(
    {"safetensors", "index", "folder", "torchscript", "module", "pickle", "npz"}
)


def form_of(path: Path) -> Form:
    """Return the form of a file or folder by its content; ``unknown`` if it cannot be read."""
    if os.path.isdir(path):
        return "savedmodel" if (path / "saved_model.pb").exists() else "folder"
    if path.name.endswith(_INDEX):
        return "index"
    try:
        with open_regular(path) as file:
            head = file.read(16)
        length = path.stat().st_size
    except OSError:
        return "unknown"
    if head[:4] == b"PK\x03\x04":
        return _form_of_archive(path)
    signatures: tuple[tuple[bool, Form], ...] = (
        (head[4:8] == b"TFL3", "tflite"),
        (head[:4] == b"\x89HDF", "hdf5"),
        (head[:4] == b"GGUF", "gguf"),
        (head[8:9] == b"{" and int.from_bytes(head[:8], "little") < length, "safetensors"),
        (path.suffix == ".onnx", "onnx"),
    )
    recognized: Form = next((form for is_form, form in signatures if is_form), "unknown")
    if recognized == "unknown" and head[:1] == b"\x80":
        return "module" if _holds_module(path, pickles=4) else "pickle"
    return recognized


class LongPickleError(ValueError):
    """A pickle has more parts than any checkpoint needs."""


# A tensor takes about 40 operations.
_MOST_OPERATIONS = 1_000_000
# Pickles at the beginning of a file of torch's older format: a magic number, its version, facts of
# the system, the object, and the names of the storages.
_OLD_PICKLES = 5


def _form_of_archive(path: Path) -> Form:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            inner = {name.partition("/")[2] for name in names}
            if "archive_format" in inner:
                return "program"
            if "constants.pkl" in inner:
                return "torchscript"
            if "config.json" in names and any(name.endswith(".h5") for name in names):
                return "keras"
            if all(name.endswith(".npy") for name in names):
                return "npz"
            pickles = [name for name in names if name.endswith("data.pkl")]
            with archive.open(pickles[0]) as data:
                return "module" if _fields_in(data) == _MODULE_FIELDS else "pickle"
    except ZIP_ERRORS:
        return "unknown"


def _holds_module(path: Path, pickles: int) -> bool:
    """Return whether a stream of pickles has an object with the fields of ``torch.nn.Module``.

    Archives have one pickle; torch's older format begins with a magic number, its version, facts of
    the system, and the object.
    """
    holders: set[str] = set()
    try:
        with open_regular(path) as file:
            for _ in range(pickles):
                holders |= _fields_in(file)
    except (OSError, ValueError, IndexError):
        # The end of the file, or tensors.
        pass
    return holders == _MODULE_FIELDS


def _fields_in(data: IO[bytes]) -> set[str]:
    return {
        str(argument)
        for opcode, argument in operations(data)
        if "UNICODE" in opcode.name and argument in _MODULE_FIELDS
    }


_OPERATIONS = {opcode.code.encode("latin-1"): opcode for opcode in pickletools.opcodes}
_LONGEST_NAME = 4096


def operations(data: IO[bytes]) -> Iterator[tuple[Any, Any]]:
    """Yield the operations of one pickle, with their arguments.

    Names of classes may have any letters, as for ``pickle`` and other than for ``pickletools``.

    Raises:
        LongPickleError: it has too many, or numbers its objects higher.
        ValueError: it is damaged.
    """
    for number in itertools.count():
        if number == _MOST_OPERATIONS:
            raise LongPickleError(f"it has more than {_MOST_OPERATIONS} parts")
        opcode = _OPERATIONS.get(data.read(1))
        if opcode is None:
            raise ValueError("it has an unknown operation, or ends within a pickle")
        argument = None
        if opcode.name in {"GLOBAL", "INST"}:
            lines = [data.readline(_LONGEST_NAME) for _ in range(2)]
            if not all(line.endswith(b"\n") for line in lines):
                raise ValueError("it has a name that does not end")
            argument = b" ".join(lines).decode(errors="replace")
        elif opcode.arg is not None:
            argument = opcode.arg.reader(data)
        if opcode.name in _NUMBERED and int(argument) > _MOST_OPERATIONS:  # type: ignore[arg-type]
            raise LongPickleError(f"it numbers an object {argument}")
        yield opcode, argument
        if opcode.name == "STOP":
            return


_NUMBERED = ("PUT", "BINPUT", "LONG_BINPUT")


def refuse_long_pickles(path: Path) -> None:
    """Refuse a checkpoint whose description would become millions of objects.

    Raises:
        LongPickleError: it has too many parts.
        OSError: it cannot be read, or is not regular.
    """
    try:
        if not zipfile.is_zipfile(path):
            with open_regular(path) as file:
                for _ in range(_OLD_PICKLES):
                    for _ in operations(file):
                        pass
            return
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(".pkl"):
                    with archive.open(name) as data:
                        for _ in operations(data):
                            pass
    except LongPickleError:
        raise
    except OSError:
        raise
    except ZIP_ERRORS:
        # The end of the file, tensors, or damage that the reader reports.
        return


def weight_files(path: Path) -> list[Path]:
    """Return the files that hold a model's weights: one, or an index with its shards."""
    if os.path.isdir(path):
        files = [path / name for name in _IN_FOLDERS if (path / name).is_file()]
        return weight_files(files[0]) if files else []
    if not path.name.endswith(_INDEX):
        return [path]
    return [path, *(shard for shard in shards(path) if os.path.isfile(shard))]


def shards(index: Path) -> list[Path]:
    """Return the files that an index names, beside it; none if it cannot be read."""
    try:
        named = json.loads(read_limited(index, MAX_TEXT_BYTES))["weight_map"].values()
        names = [Path(str(name)).name for name in sorted(set(named))]
        # An index among the shards could name itself.
        return [index.parent / name for name in names if not name.endswith(_INDEX)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def foreign(path: Path, option: str) -> ErrorInfo | None:
    """Return why a file cannot be the model or the weights, and what to use instead.

    Args:
        path: The file or folder.
        option: ``model.spec`` or ``model.weights``.
    """
    form = form_of(path)
    accepted = WEIGHT_FORMS if option == "model.weights" else {"program"}
    if form in accepted or form == "unknown":
        return None
    return ErrorInfo(
        message=f"{path.name} cannot be {'the weights' if 'weights' in option else 'the model'}.",
        hint=_INSTEAD[form].replace("{name}", path.name),
        where=Place(kind="option", id=option),
        code=f"model-form-{form}" if option == "model.spec" else f"weights-form-{form}",
    )
