"""Samples for calibration and evaluation: streamed, checked against the model before work starts."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.engine import user_code
from workbench.errors import Place, failure
from workbench.project import sources

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.project.model import DataSource, Preprocess
    from workbench.project.sources import Reference
    from workbench.results import TensorSpec

_LABEL_NAMES = ("labels", "label", "y", "targets", "target")


@dataclass(frozen=True)
class Sample:
    """One set of inputs shaped as the model wants them, and its class if one is known."""

    index: int
    inputs: tuple[torch.Tensor, ...]
    label: int | None


@dataclass(frozen=True)
class Samples:
    """A finite, repeatable stream; ``count`` is None where only the end of the stream tells."""

    name: str
    count: int | None
    open: Callable[[], Iterator[Sample]]

    def __iter__(self) -> Iterator[Sample]:
        return self.open()


def open_samples(
    source: DataSource, folder: Path, inputs: Sequence[TensorSpec], option: str
) -> Samples:
    """Return the samples of a data source, checked as far as can be without reading them all.

    Arrays have samples along their first axis; a sample has the model's input shape, with or
    without its leading batch of 1.

    Raises:
        WorkbenchError: wrong shape, dtype or number; iterating raises it for NaN or Inf, with
            the indices of the samples at fault.
    """
    reference = sources.data_reference(source.spec, folder, f"{option}.spec")
    reader = _READERS[reference.kind]
    raw = reader(reference, source, inputs, option)
    labels = _labels(source, folder, option)
    total = raw.count
    if total is not None and labels is not None and len(labels) != total:
        raise failure(
            f"There are {total} samples but {len(labels)} labels.",
            where=Place(kind="option", id=f"{option}.labels"),
        )
    if total == 0:
        raise _wrong(option, f"{raw.name} holds no samples.", "Calibration needs at least one.")
    kept = _kept_count(total, source)
    return Samples(raw.name, kept, lambda: _stream(raw, source, labels, option))


def example_samples(inputs: tuple[torch.Tensor, ...]) -> Samples:
    """Return the example input alone, as a stream of one."""
    return Samples("the example input only", 1, lambda: iter([Sample(0, inputs, None)]))


def _kept_count(total: int | None, source: DataSource) -> int | None:
    if total is None:
        return None
    kept = total - sum(1 for index in set(source.dropped) if index < total)
    return min(kept, source.limit) if source.limit else kept


def _stream(
    raw: Samples, source: DataSource, labels: np.ndarray | None, option: str
) -> Iterator[Sample]:
    dropped, given = set(source.dropped), 0
    iterator = iter(raw)
    for sample in iterator:
        if sample.index in dropped:
            continue
        if not _finite(sample):
            raise _not_finite(sample, iterator, option)
        label = int(labels[sample.index]) if labels is not None else sample.label
        yield Sample(sample.index, sample.inputs, label)
        given += 1
        if source.limit and given >= source.limit:
            return


def _finite(sample: Sample) -> bool:
    return all(not v.is_floating_point() or bool(torch.isfinite(v).all()) for v in sample.inputs)


def _not_finite(first: Sample, rest: Iterator[Sample], option: str) -> Exception:
    found = [first.index]
    for sample in rest:
        if not _finite(sample):
            found.append(sample.index)
        if len(found) == 20:
            break
    listed = ", ".join(map(str, found))
    return failure(
        f"Samples with NaN or Inf: {listed}.",
        "Correct the data, or drop these samples in the project (\"dropped\").",
        Place(kind="sample", id=str(found[0])),
        details=option,
    )


def _wrong(option: str, message: str, hint: str = "") -> Exception:
    return failure(message, hint, Place(kind="option", id=f"{option}.spec"))


def _fit(value: Any, spec: TensorSpec, name: str, option: str) -> torch.Tensor:  # noqa: ANN401
    """Return one sample's tensor in the model's shape and dtype."""
    tensor = value if isinstance(value, torch.Tensor) else torch.from_numpy(np.asarray(value))
    wanted = getattr(torch, spec.dtype)
    if tensor.dtype.is_floating_point != wanted.is_floating_point or tensor.dtype.is_complex:
        raise _wrong(
            option,
            f"{name} has dtype {str(tensor.dtype).removeprefix('torch.')}, "
            f"but the model's input {spec.name} is {spec.dtype}.",
            "Convert the data; integers are not scaled silently.",
        )
    shape = tuple(spec.shape)
    if tuple(tensor.shape) != shape:
        if shape[:1] != (1,) or tuple(tensor.shape) != shape[1:]:
            raise _wrong(
                option,
                f"A sample of {name} has shape {list(tensor.shape)}, "
                f"but the model's input {spec.name} wants {list(shape)}.",
            )
        tensor = tensor.reshape(shape)
    return tensor.to(wanted)


def _labels(source: DataSource, folder: Path, option: str) -> np.ndarray | None:
    """Return one class per sample, from the labels' own file or from the samples' .npz."""
    spec = source.labels or (source.spec if source.spec.endswith(".npz") else None)
    if spec is None:
        return None
    path = sources.absolute(folder, spec)
    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise failure(
            f"The labels in {path.name} cannot be read.",
            "Write them with numpy.save, without objects.",
            Place(kind="option", id=f"{option}.labels"),
        ) from error
    if isinstance(loaded, np.ndarray):
        return loaded.reshape(-1)
    with loaded:
        names = [n for n in loaded.files if n.lower() in _LABEL_NAMES]
        if not names and source.labels and len(loaded.files) == 1:
            names = loaded.files
        return loaded[names[0]].reshape(-1) if names else None


def _read_arrays(
    reference: Reference, source: DataSource, inputs: Sequence[TensorSpec], option: str
) -> Samples:
    del source
    path = reference.path
    assert path is not None
    if not path.is_file():
        raise _wrong(option, f"{path.name} is not there.", "Correct the path.")
    try:
        arrays = _array_streams(path, inputs)
    except (OSError, ValueError, RuntimeError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise _wrong(
            option,
            f"{path.name} cannot be read: {str(error).splitlines()[0]}"[:300],
            "Write it with numpy.save, numpy.savez or torch.save, tensors only.",
        ) from error
    if len(arrays) != len(inputs):
        raise _wrong(
            option,
            f"{path.name} holds {len(arrays)} arrays, but the model has {len(inputs)} inputs.",
        )
    counts = {array.count for array in arrays}
    if len(counts) > 1:
        raise _wrong(option, f"The arrays of {path.name} differ in length: {sorted(counts)}.")
    for array, spec in zip(arrays, inputs, strict=True):
        _fit(np.zeros(array.shape[1:], array.dtype), spec, path.name, option)

    def read() -> Iterator[Sample]:
        rows = zip(*(array.open() for array in arrays), strict=True)
        for index, row in enumerate(rows):
            fitted = (_fit(v, s, path.name, option) for v, s in zip(row, inputs, strict=True))
            yield Sample(index, tuple(fitted), None)

    return Samples(path.name, arrays[0].count, read)


@dataclass(frozen=True)
class _ArrayStream:
    shape: tuple[int, ...]
    dtype: Any
    open: Callable[[], Iterator[np.ndarray]]

    @property
    def count(self) -> int:
        return self.shape[0] if self.shape else 0


def _array_streams(path: Path, inputs: Sequence[TensorSpec]) -> list[_ArrayStream]:
    if path.suffix == ".npy":
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        return [_ArrayStream(array.shape, array.dtype, lambda: (np.array(row) for row in array))]
    if path.suffix == ".npz":
        return _npz_streams(path, inputs)
    value = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    found = list(value.values()) if isinstance(value, dict) else value
    found = list(found) if isinstance(found, tuple | list) else [found]
    if any(not isinstance(tensor, torch.Tensor) for tensor in found):
        raise ValueError("it holds something else than tensors")
    return [_tensor_stream(tensor) for tensor in found]


def _tensor_stream(tensor: torch.Tensor) -> _ArrayStream:
    rows = tensor.numpy()
    return _ArrayStream(rows.shape, rows.dtype, lambda: (np.array(row) for row in rows))


def _npz_streams(path: Path, inputs: Sequence[TensorSpec]) -> list[_ArrayStream]:
    with zipfile.ZipFile(path) as archive:
        names = [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]
    wanted = [spec.name for spec in inputs]
    if not set(wanted) <= set(names):
        wanted = [name for name in names if name.lower() not in _LABEL_NAMES]
    return [_npz_member(path, name) for name in wanted]


def _npz_member(path: Path, name: str) -> _ArrayStream:
    def header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:  # noqa: ANN401
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            read = np.lib.format.read_array_header_2_0
        return read(file)

    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
        shape, fortran, dtype = header(file)
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects")

    def rows() -> Iterator[np.ndarray]:
        if fortran:
            with np.load(path, allow_pickle=False) as loaded:
                yield from loaded[name]
            return
        size = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
            header(file)
            for _ in range(shape[0]):
                yield np.frombuffer(file.read(size), dtype).reshape(shape[1:]).copy()

    return _ArrayStream(shape, dtype, rows)


def _read_pictures(
    reference: Reference, source: DataSource, inputs: Sequence[TensorSpec], option: str
) -> Samples:
    folder = reference.path
    assert folder is not None
    if source.preprocess is None:
        raise _wrong(option, "A folder of pictures needs size, mean and std.", "Set preprocess.")
    if len(inputs) != 1:
        raise _wrong(option, f"Pictures feed one input, but the model has {len(inputs)}.")
    files, settings, spec = sources.pictures(folder), source.preprocess, inputs[0]

    def read() -> Iterator[Sample]:
        for index, file in enumerate(files):
            values = _picture(file, settings, spec.shape[-3] if len(spec.shape) > 2 else 1)
            yield Sample(index, (_fit(values, spec, file.name, option),), None)

    if files:
        next(read())
    return Samples(folder.name, len(files), read)


def _picture(file: Path, settings: Preprocess, channels: int) -> np.ndarray:
    """Return a picture as float32 [C, H, W]."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file) as image:
            mode = "L" if channels == 1 else "RGB"
            height, width = settings.size
            sized = image.convert(mode).resize((width, height), Image.Resampling.BILINEAR)
            values = np.asarray(sized, np.float32) / 255.0
    except (OSError, UnidentifiedImageError, ValueError, Image.DecompressionBombError) as error:
        raise failure(
            f"{file.name} is not a picture that can be read.",
            "Remove it from the folder, or replace it.",
            Place(kind="file", id=file.name),
        ) from error
    values = values[None] if values.ndim == 2 else values.transpose(2, 0, 1)
    mean = np.asarray(settings.mean, np.float32).reshape(-1, 1, 1)
    std = np.asarray(settings.std, np.float32).reshape(-1, 1, 1)
    return ((values - mean) / std).astype(np.float32)


def _read_callable(
    reference: Reference, source: DataSource, inputs: Sequence[TensorSpec], option: str
) -> Samples:
    del source
    function = user_code.load_callable(reference, f"{option}.spec")
    name = reference.attribute

    def read() -> Iterator[Sample]:
        made = user_code.call(function, reference, f"{option}.spec")
        try:
            for index, item in enumerate(made):
                values, label = _item(item, len(inputs))
                if len(values) != len(inputs):
                    raise _wrong(
                        option,
                        f"{name} gave {len(values)} inputs for sample {index}, "
                        f"but the model has {len(inputs)}.",
                    )
                fitted = (_fit(v, s, name, option) for v, s in zip(values, inputs, strict=True))
                yield Sample(index, tuple(fitted), label)
        except (TypeError, ValueError, RuntimeError, KeyError, IndexError) as error:
            where = Place(kind="option", id=f"{option}.spec")
            raise user_code.user_failure(
                error, "gave something unusable", where, reference.path
            ) from error

    return Samples(name, None, read)


def _item(item: Any, inputs: int) -> tuple[tuple[Any, ...], int | None]:  # noqa: ANN401
    """Take apart what a user's generator yields: inputs, or (inputs, label)."""
    if isinstance(item, tuple | list) and len(item) == 2:
        first, second = item
        scalar = isinstance(second, int | np.integer) or (
            getattr(second, "ndim", None) == 0 or getattr(second, "numel", lambda: 0)() == 1
        )
        if scalar and (inputs == 1 or isinstance(first, tuple | list)):
            return _item(first, inputs)[0], int(second)
    if isinstance(item, tuple | list):
        return tuple(item), None
    return (item,), None


_READERS: dict[str, Callable[..., Samples]] = {
    "array": _read_arrays,
    "pictures": _read_pictures,
    "file": _read_callable,
    "package": _read_callable,
}
