"""Runs a TOSA program for many samples at once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from workbench.engine.ethos_u.tosa import elementwise as e
from workbench.engine.ethos_u.tosa import layouts, windows
from workbench.engine.ethos_u.tosa.arithmetic import Call, rescale, table
from workbench.engine.ethos_u.tosa.program import STORED, Array, Block, NotExecuted, Operator, blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

KERNELS: dict[str, Callable[[Call], Array]] = {
    "ABS": e.absolute,
    "ADD": e.add,
    "ARGMAX": e.argmax,
    "ARITHMETIC_RIGHT_SHIFT": e.arithmetic_shift,
    "AVG_POOL2D": windows.average_pool,
    "BITWISE_AND": e.plain(np.bitwise_and),
    "BITWISE_NOT": e.plain(np.bitwise_not),
    "BITWISE_OR": e.plain(np.bitwise_or),
    "BITWISE_XOR": e.plain(np.bitwise_xor),
    "CAST": e.cast,
    "CLAMP": e.clamp,
    "CLZ": e.leading_zeros,
    "CONCAT": layouts.concat,
    "CONV2D": windows.convolution,
    "CONV3D": windows.convolution,
    "DEPTHWISE_CONV2D": windows.depthwise,
    "EQUAL": e.plain(np.equal),
    "GATHER": layouts.gather,
    "GREATER": e.plain(np.greater),
    "GREATER_EQUAL": e.plain(np.greater_equal),
    "IDENTITY": layouts.identity,
    "INTDIV": e.divide,
    "LOGICAL_AND": e.plain(np.logical_and),
    "LOGICAL_LEFT_SHIFT": e.shift_left,
    "LOGICAL_NOT": e.plain(np.logical_not),
    "LOGICAL_OR": e.plain(np.logical_or),
    "LOGICAL_RIGHT_SHIFT": e.shift_right,
    "LOGICAL_XOR": e.plain(np.logical_xor),
    "MATMUL": windows.matmul,
    "MAXIMUM": e.maximum,
    "MAX_POOL2D": windows.max_pool,
    "MINIMUM": e.minimum,
    "MUL": e.multiply,
    "NEGATE": e.negate,
    "PAD": layouts.pad,
    "REDUCE_ALL": e.reduced(np.all),
    "REDUCE_ANY": e.reduced(np.any),
    "REDUCE_MAX": e.reduced(np.max),
    "REDUCE_MIN": e.reduced(np.min),
    "REDUCE_SUM": e.reduce_sum,
    "RESCALE": rescale,
    "RESHAPE": layouts.reshape,
    "RESIZE": windows.resize,
    "REVERSE": layouts.reverse,
    "SCATTER": layouts.scatter,
    "SELECT": e.select,
    "SLICE": layouts.cut,
    "SUB": e.subtract,
    "TABLE": table,
    "TILE": layouts.tile,
    "TRANSPOSE": layouts.transpose,
    "TRANSPOSE_CONV2D": windows.transposed_convolution,
}
_CONSTANTS = {"CONST", "CONST_SHAPE"}
_CONTROL = {"COND_IF", "WHILE_LOOP"}
_ROUNDS = 1_000_000


class Executor:
    """A TOSA program, read and ready to be run any number of times."""

    def __init__(self, flatbuffer: bytes) -> None:
        """Read a program.

        Raises:
            NotExecuted: an operator or a type of it is not known.
        """
        self._blocks = blocks_of(flatbuffer)
        self._main = next(iter(self._blocks))
        for block in self._blocks.values():
            _demand_known(block)
        self._readers = {name: _readers(block) for name, block in self._blocks.items()}

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return self._blocks[self._main].outputs

    @property
    def visible(self) -> tuple[str, ...]:
        """Names of the computed tensors that can be outputs of a program: not those of 48 bits."""
        tensors = self._blocks[self._main].tensors
        return tuple(name for name in self.computed if tensors[name].dtype != "INT48")

    @property
    def largest_bytes(self) -> int:
        """What the largest tensor of one sample takes [bytes]."""
        return max(
            int(np.prod(tensor.shape, dtype=np.int64)) * np.dtype(STORED[tensor.dtype]).itemsize
            for block in self._blocks.values()
            for tensor in block.tensors.values()
        )

    @property
    def computed(self) -> tuple[str, ...]:
        """Names of all tensors that operators outside of branches and loops compute."""
        operators = self._blocks[self._main].operators
        return tuple(name for o in operators if o.name not in _CONSTANTS for name in o.outputs)

    def run(
        self, inputs: Sequence[Array], extra_names: Collection[str] = (), samples: int = 1
    ) -> dict[str, Array]:
        """Compute the outputs of some samples.

        Args:
            inputs: For each input of the program an array of shape (samples, *shape).
            extra_names: Names of further tensors outside of branches and loops that are wanted.
            samples: Their number, for a program without inputs.

        Returns:
            Outputs and kept tensors by name, each of shape (samples, *shape); INT48 in int64.

        Raises:
            NotExecuted: a value is one for which the specification names no result.
        """
        count = len(inputs[0]) if inputs else samples
        block = self._blocks[self._main]
        wanted = {*block.outputs, *extra_names}
        values = self._block(self._main, list(inputs), wanted)
        return {
            name: np.broadcast_to(values[name], (count, *values[name].shape[1:]))
            for name in wanted & values.keys()
        }

    def _block(self, name: str, inputs: Sequence[Array], names: Collection[str]) -> dict[str, Array]:
        """Return the wanted tensors of a block; others are dropped after their last reader."""
        block, left = self._blocks[name], Counter(self._readers[name])
        values = {constant: array[None] for constant, array in block.constants.items()}
        for place, array in zip(block.inputs, inputs, strict=True):
            kind = STORED[block.tensors[place].dtype]
            same = array if array.dtype == kind else array.view(kind)
            values[place] = same.reshape(len(array), *block.tensors[place].shape)
        for operator in block.operators:
            if operator.name in _CONSTANTS:
                continue
            results = self._results(block, operator, values)
            values.update(zip(operator.outputs, results, strict=True))
            for read in operator.inputs:
                left[read] -= 1
                if not left[read] and read not in names:
                    values.pop(read, None)
        return {key: values[key] for key in names if key in values}

    def _results(self, block: Block, operator: Operator, values: Mapping[str, Array]) -> list[Array]:
        inputs = tuple(values[name] for name in operator.inputs)
        if operator.name in _CONTROL:
            return self._controlled(operator, inputs)
        call = Call(
            operator,
            inputs,
            tuple(block.tensors[name].dtype for name in operator.inputs),
            block.tensors[operator.outputs[0]],
        )
        result = KERNELS[operator.name](call)
        if result.shape[1:] != call.output.shape:
            raise NotExecuted(f"{operator.name} gives another shape")
        return [result]

    def _controlled(self, operator: Operator, inputs: tuple[Array, ...]) -> list[Array]:
        """Run a branch or a loop, for one sample after the other: each may go another way."""
        run = self._branch if operator.name == "COND_IF" else self._loop
        rows = [run(operator, list(one)) for one in zip(*_each(inputs), strict=True)]
        return [np.concatenate(column) for column in zip(*rows, strict=True)]

    def _branch(self, operator: Operator, inputs: list[Array]) -> list[Array]:
        side = "ThenGraph" if bool(inputs[0].all()) else "ElseGraph"
        return self._inner(operator.attributes[side], inputs[1:])

    def _loop(self, operator: Operator, inputs: list[Array]) -> list[Array]:
        condition, body = (operator.attributes[name] for name in ("CondGraph", "BodyGraph"))
        for _ in range(_ROUNDS):
            (goes_on,) = self._inner(condition, inputs)
            if not goes_on.all():
                return inputs
            inputs = self._inner(body, inputs)
        raise NotExecuted("a loop without an end")

    def _inner(self, name: str, inputs: list[Array]) -> list[Array]:
        outputs = self._blocks[name].outputs
        values = self._block(name, inputs, outputs)
        return [values[output] for output in outputs]


def _each(inputs: tuple[Array, ...]) -> list[list[Array]]:
    """Return every input split into its samples, each still with the axis of samples."""
    return [[one[k : k + 1] for k in range(len(one))] for one in layouts.together(inputs)]


def _readers(block: Block) -> Counter[str]:
    return Counter(name for operator in block.operators for name in operator.inputs)


def _demand_known(block: Block) -> None:
    """Check that every operator and type of a block is known.

    Raises:
        NotExecuted: one is not.
    """
    for operator in block.operators:
        if operator.name not in KERNELS.keys() | _CONSTANTS | _CONTROL:
            raise NotExecuted(f"the operator {operator.name}")
        if operator.name not in _CONTROL | _CONSTANTS and len(operator.outputs) != 1:
            raise NotExecuted(f"{operator.name} with {len(operator.outputs)} outputs")
    for name, tensor in block.tensors.items():
        if tensor.dtype not in STORED:
            raise NotExecuted(f"tensors of {tensor.dtype}")
        if tensor.dtype != "SHAPE" and min(tensor.shape, default=1) < 1:
            raise NotExecuted(f"the tensor {name} without elements")
