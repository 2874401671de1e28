"""The contents of a ``.pte`` file: path, digest and decoded program."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import Place, WorkbenchError, failure
from workbench.pte import npu_commands, vela_stream
from workbench.pte.description import memory_of, program_bytes, read_program
from workbench.pte.npu_commands import CommandStream, NpuTensor
from workbench.pte.program import Delegate, Program

TFLITE_SUFFIX = ".tflite"


@dataclass(frozen=True)
class Contents:
    """A file and its decoded contents."""

    path: Path
    bytes: int
    sha256: str
    program: Program

    @property
    def form(self) -> str:
        """What kind of program the file holds."""
        is_tflite = self.path.suffix == TFLITE_SUFFIX
        return "TensorFlow Lite, compiled by Vela" if is_tflite else "ExecuTorch program"


@dataclass(frozen=True)
class NpuCode:
    """The NPU commands of a delegate, and the tensors they access."""

    stream: CommandStream
    tensors: tuple[NpuTensor, ...]


def read(path: Path) -> Contents | WorkbenchError:
    """Return the contents of a file, or the error. Does not raise, because it runs in a thread."""
    where = Place(kind="file", id=str(path))
    try:
        data = program_bytes(path)
        program = read_program(data)
        # Decoded now, so that a damaged part is reported when the file is opened.
        for method in (program.method(), *program.methods):
            memory_of(method)
            method.tensors((*method.inputs, *method.outputs))
    except OSError as error:
        return failure(
            f"{path.name} cannot be read: {error.strerror or error}.",
            "Choose another file.",
            where,
            code="file-unreadable",
        )
    except WorkbenchError as error:
        first = error.infos[0]
        return failure(f"{path.name}: {first.message}", first.hint, where, code=first.code)
    return Contents(path, len(data), hashlib.sha256(data).hexdigest(), program)


def npu_code(delegate: Delegate) -> NpuCode | WorkbenchError | None:
    """Return a delegate's commands; None if it has none, or the error if they are damaged."""
    if delegate.backend != vela_stream.ETHOS_U:
        return None
    try:
        blocks = vela_stream.blocks(delegate.data)
        commands = vela_stream.commands(blocks)
        if commands is None:
            return None
        stream = npu_commands.decode(commands)
        ports = (vela_stream.ports(blocks, side) for side in ("inputs", "outputs"))
        return NpuCode(stream, tuple(npu_commands.tensors(stream, *ports)))
    except WorkbenchError as error:
        return error
