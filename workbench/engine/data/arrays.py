"""Samples from .npz, .npy and .pt files, read row by row."""

from __future__ import annotations

import math
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.engine.data.labels import LABEL_NAMES
from workbench.engine.data.sample import Sample, Samples, fit, wrong
from workbench.engine.toolchain_patches.plain_pickles import load_plain
from workbench.errors import Place, WorkbenchError, failure
from workbench.npz import array_header, open_npz, refuse_bomb_at
from workbench.project import sources
from workbench.text import plural

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from workbench.project.model import DataSource
    from workbench.project.sources import Reference
    from workbench.results import TensorSpec

# What a tensor may take in any case [bytes], and as a multiple of what the file holds of it.
_FREE_BYTES, _MOST_TIMES = 256 << 20, 50


def row_blanks(source: DataSource, folder: Path) -> list[torch.Tensor]:
    """Return zeros in shape and dtype of one sample, for each input; empty if they are unknown."""
    try:
        reference = sources.data_reference(source.spec, folder, "calibration.spec")
        if reference.kind != "array" or reference.path is None:
            return []
        return [array.blank() for array in _readable_streams(reference.path, (), "calibration")]
    except WorkbenchError:
        return []


def read_arrays(
    reference: Reference, source: DataSource, inputs: Sequence[TensorSpec], option: str
) -> Samples:
    """Return the rows of a file's arrays as samples; shapes and dtypes are checked first."""
    del source
    path = reference.path
    assert path is not None
    if not os.path.isfile(path):
        raise wrong(option, f"{path.name} does not exist.", "Correct the path.", code="data-missing")
    arrays = _readable_streams(path, inputs, option)
    if len(arrays) != len(inputs):
        raise wrong(
            option,
            f"{path.name} contains {plural(len(arrays), 'array')} of inputs, but the model has "
            f"{plural(len(inputs), 'input')}.",
            f"Name the arrays as the inputs: {', '.join(spec.name for spec in inputs)}. An array of "
            f"labels is named {' or '.join(LABEL_NAMES)}.",
            code="data-inputs-mismatch",
        )
    counts = {array.count for array in arrays}
    if len(counts) > 1:
        raise wrong(
            option,
            f"The arrays of {path.name} differ in length: {sorted(counts)}.",
            code="data-lengths-differ",
        )
    for array, spec in zip(arrays, inputs, strict=True):
        fit(array.blank(), spec, path.name, option)

    def read() -> Iterator[Sample]:
        rows = zip(*(array.open() for array in arrays), strict=True)
        for index, row in enumerate(rows):
            fitted = (fit(v, s, path.name, option) for v, s in zip(row, inputs, strict=True))
            yield Sample(index, tuple(fitted), None)

    return Samples(path.name, arrays[0].count, read)


def _readable_streams(path: Path, inputs: Sequence[TensorSpec], option: str) -> list[_ArrayStream]:
    try:
        streams = _array_streams(path, inputs)
        for array in streams:
            # Refuses types and byte orders that a tensor cannot have.
            array.blank()
        return streams
    except Exception as error:
        # numpy and torch raise many kinds for damaged files.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise wrong(
            option,
            f"{path.name} cannot be read: {reason}"[:300],
            "Save it with numpy.save, numpy.savez or torch.save, tensors only.",
            code="data-unreadable",
        ) from error


@dataclass(frozen=True)
class _ArrayStream:
    shape: tuple[int, ...]
    dtype: Any
    open: Callable[[], Iterator[np.ndarray[Any, Any]]]

    @property
    def count(self) -> int:
        return self.shape[0] if self.shape else 0

    def blank(self) -> torch.Tensor:
        """Return zeros in the shape of a row, without memory: the shape is the file's."""
        return torch.from_numpy(np.zeros((), self.dtype)).expand(self.shape[1:])


def _array_streams(path: Path, inputs: Sequence[TensorSpec]) -> list[_ArrayStream]:
    if path.suffix == ".npy":
        with open_npz(path) as array:
            pass
        return [_ArrayStream(array.shape, array.dtype, lambda: (np.array(row) for row in array))]
    if path.suffix == ".npz":
        refuse_bomb_at(path)
        return _npz_streams(path, inputs)
    refuse_bomb_at(path)
    value = load_plain(path, mmap=True)
    streams = list(value.values()) if isinstance(value, dict) else value
    streams = list(streams) if isinstance(streams, tuple | list) else [streams]
    if any(not isinstance(tensor, torch.Tensor) for tensor in streams):
        raise ValueError("it contains other objects than tensors")
    return [_tensor_stream(tensor) for tensor in streams]


def _tensor_stream(tensor: torch.Tensor) -> _ArrayStream:
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        raise ValueError("it contains a tensor that is sparse, quantized or of another device")
    tensor = tensor.detach()
    size = tensor.numel() * tensor.element_size()
    if size > max(_FREE_BYTES, _MOST_TIMES * tensor.untyped_storage().nbytes()):
        raise ValueError("a tensor repeats the same memory")
    dtype = torch.float32 if tensor.dtype == torch.bfloat16 else tensor.dtype
    kind = torch.empty((), dtype=dtype).numpy().dtype
    return _ArrayStream(
        tuple(tensor.shape), kind, lambda: (np.array(row.to(dtype).numpy()) for row in tensor)
    )


def _npz_streams(path: Path, inputs: Sequence[TensorSpec]) -> list[_ArrayStream]:
    with zipfile.ZipFile(path) as archive:
        names = [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]
    wanted = [_named(names, spec.name) for spec in inputs]
    if not wanted or "" in wanted or len(set(wanted)) < len(wanted):
        wanted = [name for name in names if name.lower() not in LABEL_NAMES]
    return [_npz_member(path, name) for name in wanted]


def _named(names: Sequence[str], input_name: str) -> str:
    """Return the array of an input: of its name, or of a name that torch.fx writes in this way.

    Names of ONNX have dots and slashes, and one that Python has itself gets a number: ``input.1``
    and ``input`` are ``input_1``. "" for none.
    """
    if input_name in names:
        return input_name
    written = [(re.sub(r"\W+", "_", name).strip("_"), name) for name in names]
    return next((name for text, name in written if input_name in {text, f"{text}_1"}), "")


def _cut_short(path: Path, name: str) -> WorkbenchError:
    """Return the error for an array that ends before its last row."""
    return failure(
        f"{path.name} cannot be read: {name} is cut short.",
        "Save it again with numpy.savez.",
        Place(kind="file", id=path.name),
        code="data-unreadable",
    )


def _npz_member(path: Path, name: str) -> _ArrayStream:
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
        shape, fortran, dtype = array_header(file)
        held = archive.getinfo(f"{name}.npy").file_size - file.tell()
    if math.prod(shape) * dtype.itemsize != held:
        raise ValueError(f"{name} is cut short")
    if dtype.hasobject:
        raise ValueError(f"{name} contains Python objects")

    def rows() -> Iterator[np.ndarray[Any, Any]]:
        if fortran:
            with np.load(path, allow_pickle=False) as loaded:
                yield from loaded[name]
            return
        size = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
            array_header(file)
            for _ in range(shape[0]):
                data = file.read(size)
                if len(data) != size:
                    raise _cut_short(path, name)
                yield np.frombuffer(data, dtype).reshape(shape[1:]).copy()

    return _ArrayStream(shape, dtype, rows)
