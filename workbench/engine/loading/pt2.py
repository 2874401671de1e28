"""Loading of ``.pt2`` programs: strictly, or as torch does when the user has trusted the file."""

from __future__ import annotations

import io
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram
from torch.export.pt2_archive import _package

from workbench.engine.toolchain_patches.plain_pickles import load_plain
from workbench.project import pt2

if TYPE_CHECKING:
    from collections.abc import Iterator

# Example inputs beyond this are no example [elements].
_MAX_SAMPLE_ELEMENTS = 1 << 26


def load_trusted(data: bytes) -> ExportedProgram:
    """Return a program whose bytes the user trusts. Loading it may run code."""
    return torch.export.load(io.BytesIO(data))


def load_strictly(data: bytes) -> ExportedProgram:
    """Return a program without running code: torch reads only what ``pt2.read`` returns.

    Raises:
        UnreadableArchiveError: the bytes are no whole archive.
        DoubtfulArchiveError: the archive holds something that the strict reader does not list.
    """
    records = pt2.read(data).records
    reader = _Records(records)
    with _nothing_unpickled():
        programs = _package._load_exported_programs(  # noqa: SLF001 - it takes any reader
            reader, [pt2.MODEL], None
        )
    program: ExportedProgram = programs["model"]
    return program


class _Records:
    """The part of ``PT2ArchiveReader`` and of its file that the loading of a program uses."""

    def __init__(self, records: dict[str, bytes]) -> None:
        self._records = records
        self._sample_inputs = _sample_inputs(records[pt2.SAMPLE_INPUTS])
        self.archive_file = self

    def get_file_names(self) -> list[str]:
        return list(self._records)

    def read_bytes(self, name: str) -> Any:
        # The loader passes tensors on as they are; it would unpickle bytes.
        return self._sample_inputs if name == pt2.SAMPLE_INPUTS else self._records[name]

    def read_string(self, name: str) -> str:
        return self._records[name].decode()

    def get_record_size(self, name: str) -> int:
        return len(self._records[name])

    def get_storage_from_record(self, name: str, count: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.frombuffer(bytearray(self._records[name]), dtype=dtype, count=count)


def _sample_inputs(data: bytes) -> tuple[Any, ...] | None:
    if not data:
        return None
    loaded = load_plain(io.BytesIO(data))
    if not isinstance(loaded, tuple) or _elements(loaded) > _MAX_SAMPLE_ELEMENTS:
        raise pt2.DoubtfulArchiveError("contains example inputs that are no tensors")
    return loaded


def _elements(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel()
    if isinstance(value, dict):
        return sum(_elements(item) for item in value.values())
    if isinstance(value, tuple | list):
        return sum(_elements(item) for item in value)
    return 0


@contextmanager
def _nothing_unpickled() -> Iterator[None]:
    """Refuse every way in which the loading of a program could unpickle or load a library.

    The strict reader lets none of them be reached; this is the second lock.
    """

    def refuse(*_arguments: Any, **_options: Any) -> Any:
        raise pt2.DoubtfulArchiveError("contains a pickle that can run code")

    native = torch._C  # noqa: SLF001 - the loader takes it from there
    functions = [(torch, "load"), (native, "_pickle_load_obj"), (_package.pickle, "loads")]
    stock = [getattr(owner, name) for owner, name in functions]
    for owner, name in functions:
        setattr(owner, name, refuse)
    try:
        yield
    finally:
        for (owner, name), function in zip(functions, stock, strict=True):
            setattr(owner, name, function)
