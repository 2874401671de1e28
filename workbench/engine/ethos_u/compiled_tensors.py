"""Tensors inside a compiled delegate, by the names that they have in its TOSA.

The simulator keeps what every operation writes; Vela's tables give the TOSA tensor that an
operation computes. Vela joins operations and splits others, so some tensors of the TOSA exist
nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tosa_reference_model

from workbench.engine.ethos_u.intermediates import exposed, outer_names, output_names
from workbench.npu.state import Options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.npu.machine import Machine
    from workbench.npu.memory import Access
    from workbench.results import VelaReport

_Array = npt.NDArray[Any]
_BRICK = 16


@dataclass(frozen=True)
class CompiledTensor:
    """What the commands that make one tensor write, in their order."""

    parts: tuple[Access, ...]

    def values_as(self, like: _Array) -> _Array | None:
        """Return the integers in shape and type of a tensor of the TOSA.

        Operations may write slices, every second element or one of several temporary values, so
        the tensor is taken from where it lies. The last operation gives the layout; None if not
        every element of one such tensor was written.
        """
        last = self.parts[-1]
        item = last.values.dtype.itemsize
        if item != like.dtype.itemsize or not like.size:
            return None
        kind = last.values.dtype
        # Temporary values of another width may lie at the same place before.
        written = [a for a in self.parts if a.region == last.region and a.values.dtype == kind]
        addresses = np.concatenate([access.places.reshape(-1) for access in written])
        values = np.concatenate([access.values.reshape(-1) for access in written])
        # Of several values for one place, the last one counts.
        addresses, at = np.unique(addresses[::-1], return_index=True)
        offsets, kept = addresses - addresses[0], values[::-1][at]
        wanted = _offsets(like.shape, item, bricks=last.bricks).reshape(-1)
        positions = np.searchsorted(offsets, wanted)
        if wanted[-1] > offsets[-1] or not np.array_equal(offsets[positions], wanted):
            return None
        return np.asarray(kept[positions].view(like.dtype).reshape(like.shape))


def _offsets(shape: tuple[int, ...], item: int, *, bricks: bool) -> npt.NDArray[np.int64]:
    """Return how far each element of a dense tensor lies behind its first one [bytes]."""
    if not bricks:
        return np.arange(int(np.prod(shape)), dtype=np.int64) * item
    depth, width = shape[-1] if shape else 1, shape[-2] if len(shape) > 1 else 1
    rows = int(np.prod(shape)) // max(depth * width, 1)
    c = np.arange(depth, dtype=np.int64)
    row = width * _BRICK * item
    across = np.add.outer(
        np.arange(width, dtype=np.int64) * _BRICK * item, c // _BRICK * row + c % _BRICK * item
    )
    return np.add.outer(np.arange(rows, dtype=np.int64) * (-(-depth // _BRICK) * row), across)


def compiled_tensors(
    machine: Machine, report: VelaReport, inputs: Sequence[_Array]
) -> dict[str, CompiledTensor]:
    """Return what the operations of a delegate write, in the order of their commands.

    Args:
        machine: The delegate.
        report: Vela's tables of it.
        inputs: Its inputs.

    Returns:
        Each tensor by its name in the TOSA.

    Raises:
        WorkbenchError: a command cannot be carried out.
    """
    offsets = frozenset((machine.index, command.offset) for command in machine.commands)
    outcome = machine.run(inputs, Options(record=offsets))
    rows = {
        command.offset: report.operations[command.operation].name
        for command in report.commands
        if command.operation is not None
    }
    written: dict[str, list[Access]] = {}
    passes: list[Access] = []
    for command in machine.commands:
        accesses = outcome.accesses.get(command.offset, ())
        passes += [access for access in accesses if access.side == "OFM"]
        # Of an operation in several passes, the last one alone has a row.
        if command.offset in rows:
            written.setdefault(rows[command.offset], []).extend(passes)
            passes = []
    return {name: CompiledTensor(tuple(parts)) for name, parts in written.items() if parts}


def reference_tensors(flatbuffer: bytes, inputs: Sequence[_Array], names: Sequence[str]) -> dict[str, _Array]:
    """Return tensors of a TOSA program, as the reference model computes them.

    Args:
        flatbuffer: The program.
        inputs: Its inputs.
        names: The tensors; those inside branches and loops are left out.
    """
    outer, outputs = outer_names(flatbuffer), output_names(flatbuffer)
    inner = [name for name in names if name in outer and name not in outputs]
    wanted = [*outputs, *inner]
    values, status = tosa_reference_model.run(
        exposed(flatbuffer, wanted),
        list(inputs),
        verbosity="NONE",
        initialize_variable_tensor_from_numpy=True,
    )
    if status != tosa_reference_model.GraphStatus.TOSA_VALID:
        return {}
    return {name: np.array(value) for name, value in zip(wanted, values, strict=True)}


def first_difference(compiled: Mapping[str, CompiledTensor], reference: Mapping[str, _Array]) -> str:
    """Return the first tensor that differs, in the order of the commands; "" if none does."""
    for name, tensor in compiled.items():
        expected = reference.get(name)
        if expected is None:
            continue
        values = tensor.values_as(expected)
        if values is not None and not np.array_equal(values, expected):
            return name
    return ""
