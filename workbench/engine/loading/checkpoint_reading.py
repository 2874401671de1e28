"""The state dicts of checkpoint files in every form, read without running code of theirs.

Only whole pickled modules are unpickled for real, and they need trust.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.engine.toolchain_patches.plain_pickles import BOUNDED, load_plain
from workbench.engine.user_code import code_import
from workbench.errors import Place, WorkbenchError, failure
from workbench.files import MAX_PROGRAM_BYTES, MAX_TEXT_BYTES, open_regular, read_limited
from workbench.npz import ZIP_ERRORS, ZIP_MARK, open_npz, refuse_bomb_at
from workbench.project.checkpoints import (
    CONVERT_MODULE,
    form_of,
    operations,
    refuse_long_pickles,
    shards,
    weight_files,
)

if TYPE_CHECKING:
    from pathlib import Path

Tensors = dict[str, torch.Tensor]
WHERE = Place(kind="option", id="model.weights")
# How deep state dicts lie in checkpoints.
_DEPTH = 3


def read_checkpoint(path: Path) -> Any:
    """Return the content of a file: a state dict, or what holds one."""
    files = weight_files(path)
    if not files:
        raise failure(
            f"{path.name} contains no weights.",
            "Convert a distributed checkpoint with torch.distributed.checkpoint.format_utils."
            "dcp_to_torch_save."
            if os.path.isdir(path) and any(path.glob("*.distcp"))
            else "A folder needs model.safetensors, pytorch_model.bin or the index of one of them.",
            WHERE,
            code="weights-not-state-dict",
        )
    if files[0].name.endswith(".index.json"):
        return _read_shards(files[0])
    try:
        return _read_file(files[0])
    except WorkbenchError:
        raise
    except Exception as error:
        raise failure(
            f"{files[0].name} contains no weights that can be read without running code.",
            _remedy_for_bytes(files[0]),
            WHERE,
            details=str(error),
            code="weights-unreadable",
        ) from error


# The first bytes of files that are taken for weights, and what to do.
_NO_WEIGHTS = (
    (b"version https://git-lfs", "It is a pointer of Git LFS: run git lfs pull in its folder."),
    (b"<!DOCTYPE", "It is a web page: the download failed, perhaps for want of a login."),
    (b"<html", "It is a web page: the download failed, perhaps for want of a login."),
    (b"\x1f\x8b", "It is compressed: unpack it with gunzip."),
    (b"7z\xbc\xaf", "It is compressed: unpack it."),
)


def _remedy_for_bytes(file: Path) -> str:
    """Return what to do with a file that cannot be read, by how it begins."""
    try:
        with open_regular(file) as opened:
            begin = opened.read(64)
    except OSError:
        return ""
    if not begin:
        return "The file is empty."
    if begin.startswith(b"PK") and (inner := _packed_checkpoint(file)):
        return f"It is an archive with {inner}: unpack it."
    known = (remedy for start, remedy in _NO_WEIGHTS if begin.startswith(start))
    usual = "Save a safetensors file, or a state dict with torch.save. The file may be truncated."
    return next(known, usual)


def _packed_checkpoint(file: Path) -> str:
    """Return the first checkpoint in a zip archive, by its name; "" if there is none."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except ZIP_ERRORS:
        return ""
    ends = (".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".tar")
    return next((name for name in names if name.endswith(ends)), "")


def _read_file(file: Path) -> Any:
    refuse_bomb_at(file)
    match form_of(file):
        case "safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        case "npz":
            with open_npz(file) as arrays:
                return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
        case "torchscript":
            return _read_torchscript(file)
        case "module":
            return _read_module(file)
        case _:
            return _read_inert(file)


def _read_shards(index: Path) -> Tensors:
    merged: Tensors = {}
    files = shards(index)
    if not files:
        raise failure(
            f"{index.name} names no shards.",
            "It needs a weight_map from tensors to files.",
            WHERE,
            code="weights-unreadable",
        )
    if missing := [file.name for file in files if not os.path.isfile(file)]:
        raise failure(
            f"{index.name} names files that are not beside it: {', '.join(missing[:3])}.",
            f"Copy all {len(files)} shards into its folder.",
            WHERE,
            code="weights-shard-missing",
        )
    for file in files:
        part = read_checkpoint(file)
        if not isinstance(part, Mapping):
            raise failure(
                f"{file.name} contains no tensors by name.",
                "Save a state dict there: torch.save(model.state_dict(), file).",
                where=WHERE,
                code="weights-unreadable",
            )
        merged |= {k: v for k, v in part.items() if isinstance(v, torch.Tensor)}
    wanted = set(json.loads(read_limited(index, MAX_TEXT_BYTES))["weight_map"])
    if lost := sorted(wanted - set(merged)):
        raise failure(
            f"The shards of {index.name} lack {len(lost)} tensors ({', '.join(lost[:3])}).",
            "Copy all shards of one and the same checkpoint.",
            WHERE,
            code="weights-shard-missing",
        )
    return merged


def _read_module(file: Path) -> Any:
    """Return a pickled module if the user allowed exactly these bytes, else its plain content.

    Raises:
        WorkbenchError: Its classes cannot be imported here, and its tensors are not plain.
    """
    data = read_limited(file, MAX_PROGRAM_BYTES)
    try:
        if not code_import.is_trusted_program(data, file):
            raise PermissionError(f"{file.name} is not the file that was allowed to run code")
        return torch.load(io.BytesIO(data), map_location="cpu", weights_only=False)
    except Exception as error:
        content = _read_inert(file)
        if any(True for _ in state_dicts(content)):
            return content
        raise failure(
            f"{file.name} is a pickled module, and its classes cannot be imported here.",
            CONVERT_MODULE.replace("{name}", file.name),
            WHERE,
            details=str(error),
            code="weights-pickled-module",
        ) from error


class _Inert:
    """An object of a class that is not imported; it keeps what it was given and does nothing."""

    def __new__(cls, *arguments: Any, **named: Any) -> _Inert:
        """Return an object that keeps no arguments."""
        del arguments, named
        module = super().__new__(cls)
        module.items = {}
        return module

    def __init__(self, *arguments: Any, **named: Any) -> None:
        del arguments, named
        self.items: dict[Any, Any]

    def __setstate__(self, state: Any) -> None:
        """Keep the object's fields."""
        parts = state if isinstance(state, tuple) else (state,)
        for part in parts:
            if isinstance(part, dict):
                self.items |= part

    def __setitem__(self, key: Any, value: Any) -> None:
        """Keep an item of a class made from dict."""
        self.items[key] = value

    def append(self, value: Any) -> None:
        """Keep an item of a class made from list."""
        self.items[len(self.items)] = value

    def extend(self, values: Any) -> None:
        """Keep items of a class made from list."""
        for value in values:
            self.append(value)

    def __call__(self, *arguments: Any, **named: Any) -> _Inert:
        """Return another such object: the result of a function that is not called."""
        return _Inert(*arguments, **named)


_UNREADABLE = (
    pickle.UnpicklingError,
    RuntimeError,
    AttributeError,
    TypeError,
    ValueError,
    EOFError,
    ImportError,
    KeyError,
)
# What pickles of tensors call; nothing else is imported.
_KNOWN = {
    "torch": {"device", "Tensor"},
    "torch._utils": {
        "_rebuild_tensor",
        "_rebuild_tensor_v2",
        "_rebuild_tensor_v3",
        "_rebuild_parameter",
        "_rebuild_parameter_with_state",
        "_rebuild_device_tensor_from_numpy",
    },
    "torch._tensor": {"_rebuild_from_type_v2"},
    "torch.nn.parameter": {"Parameter", "Buffer"},
    "torch.storage": {"UntypedStorage", "TypedStorage"},
    "numpy": {"ndarray", "dtype"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.numeric": {"_frombuffer"},
    "numpy._core.numeric": {"_frombuffer"},
    "builtins": {"slice", "complex"},
}


def _rebuilt_storage(data: bytes) -> Any:
    """Return the storage that a tensor in a plain pickle carries as bytes."""
    return load_plain(io.BytesIO(data))


class _InertUnpickler(pickle.Unpickler):
    """Imports what tensors need; every other class or function becomes an inert object.

    The whole pickle is examined before it is read: its own memory of objects has the size that a
    number in it says.
    """

    def __init__(self, file: Any, **named: Any) -> None:
        begin = file.tell()
        for _ in operations(file):
            pass
        file.seek(begin)
        super().__init__(file, **named)

    def find_class(self, module: str, name: str) -> Any:
        """Return a known class, or one whose objects do nothing."""
        if module == "torch.storage" and name == "_load_from_bytes":
            return _rebuilt_storage
        if module == "__builtin__":
            module = "builtins"
        if (bounded := BOUNDED.get(f"{module}.{name}")) is not None:
            return bounded
        if name in _KNOWN.get(module, ()):
            return super().find_class(module, name)
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        if module == "torch" and name.endswith("Storage"):
            return super().find_class(module, name)
        return type(name.rpartition(".")[2], (_Inert,), {})


class _InertPickle:
    """The functions of the module ``pickle`` that torch uses, with the inert unpickler."""

    Unpickler = _InertUnpickler

    @staticmethod
    def load(file: Any, **named: Any) -> Any:
        """Return the object of one pickle."""
        return _InertUnpickler(file, **named).load()


def _read_inert(file: Path) -> Any:
    """Return a checkpoint's content without running code; foreign objects are inert."""
    refuse_long_pickles(file)
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            return load_plain(file)
    except _UNREADABLE as refused:
        # Something beside tensors is inside. torch would run a script, also as a plain pickle.
        if _is_script(file):
            raise
        try:
            return torch.load(file, map_location="cpu", weights_only=False, pickle_module=_InertPickle)
        except (pickle.UnpicklingError, RuntimeError, AttributeError):
            # Not written by torch.save.
            with open_regular(file) as stream:
                if stream.read(1) != b"\x80":
                    raise refused from None
                stream.seek(0)
                return _InertPickle.load(stream)


def _is_script(file: Path) -> bool:
    """Return whether torch's own reader finds a script in an archive."""
    with suppress(RuntimeError), open_regular(file) as content:
        if content.read(len(ZIP_MARK)) == ZIP_MARK:
            return bool(torch._C.PyTorchFileReader(str(file)).has_record("constants.pkl"))  # noqa: SLF001
    return False


_STORAGES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}


def _read_torchscript(file: Path) -> Any:
    """Return the object of a TorchScript archive; its code is not run."""
    with zipfile.ZipFile(file) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("/data.pkl") and n.count("/") == 1)
        folder = name.partition("/")[0]

        class Unpickler(_InertUnpickler):
            def find_class(self, module: str, name: str) -> Any:
                """Return the type of a storage, or what other pickles may use."""
                if module == "torch" and name in _STORAGES:
                    return _STORAGES[name]
                return super().find_class(module, name)

            def persistent_load(self, saved: Any) -> Any:
                """Return a storage of the archive."""
                _, dtype, key, _, _ = saved
                data = bytearray(archive.read(f"{folder}/data/{key}"))
                held = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0)
                return torch.storage.TypedStorage(
                    wrap_storage=held.untyped_storage(), dtype=dtype, _internal=True
                )

        return Unpickler(io.BytesIO(archive.read(name))).load()


# State dicts in what was read


@dataclass(frozen=True)
class StateDict:
    """A state dict with its path in the checkpoint; ``joined`` if it is several dictionaries."""

    entry: tuple[str, ...]
    tensors: Tensors
    joined: bool = False


def state_dicts(content: Any, entry: tuple[str, ...] = ()) -> Iterator[StateDict]:
    """Yield every state dict in a checkpoint."""
    if isinstance(content, torch.nn.Module):
        yield StateDict(entry, dict(content.state_dict()))
        return
    if isinstance(content, _Inert):
        if tensors := dict(_tensors_of(content.items, "")):
            yield StateDict(entry, tensors)
        content = content.items
    if not isinstance(content, Mapping):
        return
    own = {str(k): t for k, v in content.items() if (t := _tensor(v)) is not None}
    if own:
        yield StateDict(entry, own)
    nested = {str(k): v for k, v in content.items() if isinstance(v, Mapping)}
    if len(nested) > 1 and (flat := dict(_flat(nested, ""))):
        yield StateDict(entry, own | flat, joined=True)
    if len(entry) < _DEPTH:
        for key, value in content.items():
            if isinstance(value, Mapping | _Inert | torch.nn.Module):
                yield from state_dicts(value, (*entry, str(key)))


def _tensor(value: Any) -> torch.Tensor | None:
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return torch.from_numpy(np.array(value))
    return value.detach() if isinstance(value, torch.Tensor) else None


def _tensors_of(fields: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of a module that was not imported, by their names in its state dict."""
    grouped = [fields.get(name) for name in ("_parameters", "_buffers")]
    groups = [group for group in grouped if isinstance(group, Mapping)]
    children = fields.get("_modules", fields)
    # Modules of TorchScript have their tensors and children as plain fields.
    for group in groups or [fields]:
        for name, value in group.items():
            if (tensor := _tensor(value)) is not None:
                yield f"{prefix}{name}", tensor
    if isinstance(children, Mapping):
        for name, child in children.items():
            if isinstance(child, _Inert):
                yield from _tensors_of(child.items, f"{prefix}{name}.")


def _flat(nested: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in nested.items():
        if isinstance(value, Mapping):
            yield from _flat({str(k): v for k, v in value.items()}, f"{prefix}{name}.")
        elif (tensor := _tensor(value)) is not None:
            yield f"{prefix}{name}", tensor


def contents_of(content: Any) -> str:
    """Return in words what a file holds."""
    if isinstance(content, Mapping):
        named = ", ".join(f"{k} ({type(v).__name__})" for k, v in list(content.items())[:8])
        return named or "an empty dict"
    return f"an object of the class {type(content).__name__}"
