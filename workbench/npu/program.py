"""A whole compiled program: delegates, the CPU operators between them, and control flow.

``load`` opens a ``.pte``, a ``.bpte`` or a raw delegate of Vela; ``Program.run`` computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.errors import Place, WorkbenchError, failure
from workbench.npu.counters import Counters
from workbench.npu.cpu import CpuOperators, Output, run_kernel
from workbench.npu.faults import Finding
from workbench.npu.machine import Machine, MachineResult
from workbench.npu.memory import Access
from workbench.npu.state import Options, WeightCache
from workbench.pte import vela_stream
from workbench.pte.description import program_bytes
from workbench.pte.program import Call, Delegate, Method, Value, VectorTensor, decode, decode_named_data
from workbench.pte.tflite_model import MARK
from workbench.pte.vela_stream import Port
from workbench.pte.vela_tflite import decode_tflite

_Array = npt.NDArray[Any]

# How a list of tensors names none.
_NO_TENSOR = -1
_RAW_MARK = vela_stream.HEADER.encode()
_RAW_TYPES = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


@dataclass(frozen=True)
class Tensor:
    """A tensor at the border of a program.

    ``exact``: whether an input must have this very shape. A raw delegate knows how many
    elements it takes, but not in which shape the program around it has them.
    """

    dtype: str
    shape: tuple[int, ...]
    exact: bool = True


@dataclass(frozen=True)
class Case:
    """A test vector that a ``.bpte`` carries."""

    inputs: tuple[_Array, ...]
    expected: tuple[_Array, ...]


@dataclass(frozen=True)
class Result:
    """What one run of a program gives.

    Attributes:
        outputs: In the order of the program, in its types and shapes.
        counters: One entry for each operation of the delegates, in the order they ran.
        findings: Remarks on single commands; those of severity "error" only with ``check``.
        peak: By delegate, the highest address touched in each memory region [bytes].
        accesses: Tensors of the operations that ``Options.record`` names, by delegate and offset.
        state: Mutable buffers after the run, by value, for the next one.
    """

    outputs: tuple[_Array, ...]
    counters: tuple[Counters, ...]
    findings: tuple[Finding, ...]
    peak: Mapping[int, Mapping[int, int]]
    accesses: Mapping[tuple[int, int], tuple[Access, ...]]
    state: Mapping[int, _Array]


class Program:
    """A compiled program, decoded, to be run any number of times. Weights are decoded once."""

    def __init__(
        self,
        method: Method,
        constants: Sequence[memoryview] = (),
        named: Mapping[str, memoryview] | None = None,
        cases: tuple[Case, ...] = (),
        *,
        initial: Sequence[memoryview] = (),
        exact: bool = True,
    ) -> None:
        """Decode the delegates of a method.

        Args:
            method: The entry point.
            constants: Constant buffers by their index.
            named: Data with names, of the program and of files beside it.
            cases: Test vectors.
            initial: First contents of mutable buffers by their index.
            exact: Whether inputs must have the shapes of the method.

        Raises:
            WorkbenchError: a delegate is for another backend, or damaged.
        """
        self._method, self._constants, self._initial = method, constants, initial
        self.inputs = tuple(_border(value, exact) for value in method.tensors(method.inputs))
        self.outputs = tuple(_border(value, exact) for value in method.tensors(method.outputs))
        self.cases = cases
        weights = WeightCache()
        self.machines = tuple(
            _machine(index, delegate, named or {}, weights) for index, delegate in enumerate(method.delegates)
        )

    def run(
        self,
        inputs: Sequence[_Array],
        options: Options | None = None,
        operators: CpuOperators | None = None,
        state: Mapping[int, _Array] | None = None,
    ) -> Result:
        """Compute the outputs.

        Args:
            inputs: One array for each input, of its type and shape; of a raw delegate, integers
                of its width.
            options: How to run.
            operators: Computes CPU operators other than quantizing and dequantizing.
            state: Of the run before; without it, mutable buffers have their first contents.

        Raises:
            WorkbenchError: an input does not fit; an operator is not simulated; a command of a
                delegate cannot be carried out.
        """
        chosen = options or Options()
        steps = self._steps(inputs, chosen, operators, state)
        try:
            call = next(steps)
            while True:
                call = steps.send(self.machines[call.index].run(call.inputs, chosen))
        except StopIteration as ended:
            result: Result = ended.value
            return result

    def run_samples(
        self, samples: Sequence[Sequence[_Array]], execute: Executed, operators: CpuOperators | None = None
    ) -> list[Result]:
        """Compute the outputs of several samples; calls of one delegate are executed together.

        Args:
            samples: For each sample its inputs, as of ``run``.
            execute: Executes a delegate for some of the samples.
            operators: Computes CPU operators other than quantizing and dequantizing.

        Raises:
            WorkbenchError: as of ``run``.
        """
        runs = [self._steps(inputs, Options(), operators) for inputs in samples]
        results: dict[int, Result] = {}
        calls: dict[int, DelegateCall] = {}
        answers: dict[int, MachineResult | None] = dict.fromkeys(range(len(runs)))
        while answers:
            for number, answer in answers.items():
                try:
                    calls[number] = runs[number].send(answer)  # type: ignore[arg-type]
                except StopIteration as ended:
                    results[number] = ended.value
            answers = {}
            # Samples may go different ways and wait for different delegates.
            for index in dict.fromkeys(call.index for call in calls.values()):
                numbers = [number for number, call in calls.items() if call.index == index]
                given = zip(*(calls.pop(number).inputs for number in numbers), strict=True)
                executed = execute(index, numbers, [np.stack(column) for column in given])
                answers.update(zip(numbers, executed, strict=True))
        return [results[number] for number in range(len(runs))]

    def _steps(
        self,
        inputs: Sequence[_Array],
        options: Options,
        operators: CpuOperators | None,
        state: Mapping[int, _Array] | None = None,
    ) -> Steps:
        data = (self._constants, self._initial)
        run = _Run(self._method, data, self.machines, options, operators)
        return run.all(_checked(self.inputs, inputs), state or {})


@dataclass(frozen=True)
class DelegateCall:
    """A delegate that a run wants executed: which one, and its inputs in their memory order."""

    index: int
    inputs: list[_Array]


Steps = Generator[DelegateCall, MachineResult, Result]
# Executes a delegate: its index, which samples, and each input with the samples as first axis.
Executed = Callable[[int, Sequence[int], Sequence[_Array]], Sequence[MachineResult]]


class _Run:
    """One run: values of the method by their index."""

    def __init__(
        self,
        method: Method,
        data: tuple[Sequence[memoryview], Sequence[memoryview]],
        machines: Sequence[Machine],
        options: Options,
        operators: CpuOperators | None,
    ) -> None:
        self._method, self._machines = method, machines
        self._constants, self._initial = data
        self._options, self._operators = options, operators
        self._values: dict[int, Any] = {}
        # By planned address, the tensor that was written there last.
        self._written: dict[tuple[int, int], int] = {}
        self._counters: list[Counters] = []
        self._findings: list[Finding] = []
        self._peak: dict[int, Mapping[int, int]] = {}
        self._accesses: dict[tuple[int, int], tuple[Access, ...]] = {}

    def all(self, inputs: Sequence[_Array], state: Mapping[int, _Array]) -> Steps:
        """Yield the delegates to be executed, and take what they give; return the outputs."""
        for index, content in state.items():
            self._write(index, content)
        for index, given in zip(self._method.inputs, inputs, strict=True):
            self._write(index, given)
        calls, at, steps = self._method.calls, 0, 0
        while at < len(calls):
            call = calls[at]
            at, steps = at + 1, steps + 1
            if steps > self._options.limits.steps:
                raise _damaged(f"it takes more than {self._options.limits.steps:,} instructions")
            if call.kind == "jump":
                if not np.any(self._value(call.values[0])):
                    at = call.index
                    if at < 0:
                        raise _damaged("a jump goes before its first instruction")
            elif call.kind == "delegate":
                yield from self._delegate(call)
            else:
                self._perform(call, at - 1)
        outputs = tuple(np.asarray(self._value(index)) for index in self._method.outputs)
        return Result(
            outputs, tuple(self._counters), tuple(self._findings), self._peak, self._accesses, self._state()
        )

    def _state(self) -> dict[int, _Array]:
        """Return the mutable buffers: buffers that begin alike have one first content."""
        return {
            index: np.array(self._values[index])
            for index, value in enumerate(self._method.values)
            if value.memory_id >= 0 and value.constant > 0 and index in self._values
        }

    def _perform(self, call: Call, number: int) -> None:
        if call.kind == "kernel":
            self._kernel(call)
        elif call.kind == "move":
            self._write(call.values[1], self._value(call.values[0]))
        elif call.kind != "free":
            raise _damaged(f"instruction {number} is of a kind that is not known")

    def _delegate(self, call: Call) -> Generator[DelegateCall, MachineResult, None]:
        if not 0 <= call.index < len(self._machines):
            raise _damaged("a delegate is called that does not exist")
        machine = self._machines[call.index]
        count = len(machine.inputs)
        given, taken = call.values[:count], call.values[count:]
        if len(given) != count or len(taken) != len(machine.outputs):
            raise _damaged(f"delegate {call.index} is called with too few or too many tensors")
        arrays = [
            _in_memory_order(self._value(index), value)
            for index, value in zip(given, self._method.tensors(given), strict=True)
        ]
        outputs = yield DelegateCall(call.index, arrays)
        for index, value, data in zip(taken, self._method.tensors(taken), outputs.outputs, strict=True):
            self._write(index, _from_memory(data, value.dtype, value.shape, value.dim_order))
        self._counters += outputs.counters
        self._findings += outputs.findings
        self._peak[call.index] = outputs.peak
        self._accesses.update({(call.index, at): kept for at, kept in outputs.accesses.items()})

    def _kernel(self, call: Call) -> None:
        if not 0 <= call.index < len(self._method.kernels) or not call.values:
            raise _damaged("a kernel is called that does not exist")
        name = self._method.kernels[call.index]
        targets = self._targets(call)
        count = len(call.values)
        while count and self._is_ending(call.values[count - 1], targets):
            count -= 1
        is_cortex_m = name.startswith("cortex_m::")
        arguments = [self._argument(index, is_cortex_m) for index in call.values[:count]]
        try:
            planned = [Output(v.dtype, v.shape) for v in self._method.tensors(targets)]
            results = run_kernel(name, arguments, planned, self._operators)
        except (TypeError, ValueError, OverflowError) as error:
            raise _damaged(f"{name} is called with arguments it does not take: {error}") from error
        if len(results) != len(targets):
            raise _damaged(f"{name} gives {len(results)} outputs, {len(targets)} are expected")
        for index, result in zip(targets, results, strict=True):
            self._write(index, np.asarray(result))

    def _argument(self, index: int, is_cortex_m: bool) -> Any:
        """Return an argument. What kernels of cortex_m get as uint8 is memory for their own use."""
        (value,) = self._method.tensors((index,))
        if is_cortex_m and value.dtype == "uint8" and index not in self._values:
            return np.zeros(value.shape, np.uint8)
        return self._value(index)

    def _targets(self, call: Call) -> tuple[int, ...]:
        """Return the values a kernel writes: its last one, or those in the list that is last."""
        last = call.values[-1]
        return self._listed(last) or (last,)

    def _listed(self, index: int) -> tuple[int, ...]:
        """Return the values of a list of tensors; nothing for other values."""
        (value,) = self._method.tensors((index,))
        if value.kind == "list of tensors" and isinstance(value.content, tuple):
            return tuple(int(item) for item in value.content)
        return ()

    def _is_ending(self, index: int, targets: tuple[int, ...]) -> bool:
        """Return whether an argument names what a kernel writes; a list may have two values."""
        return index in targets or self._listed(index) == targets

    def _value(self, index: int) -> Any:
        if index in self._values:
            return self._values[index]
        (value,) = self._method.tensors((index,))
        if value.kind == "tensor":
            return self._constant(value) if value.constant > 0 else self._view(value)
        if value.kind in {"list of int", "list of tensors"}:
            items = value.content if isinstance(value.content, tuple) else ()
            # A list of indices has no tensor for the dimensions that are taken whole.
            return [self._value(int(item)) if item != _NO_TENSOR else None for item in items]
        return list(value.content) if isinstance(value.content, tuple) else value.content

    def _write(self, index: int, content: Any) -> None:
        self._values[index] = content
        (value,) = self._method.tensors((index,))
        if value.kind == "tensor" and value.memory_id >= 0:
            self._written[value.memory_id, value.offset] = index

    def _view(self, value: Value) -> _Array:
        """Return a tensor that no instruction writes: it lies where another one lies.

        Source: ExecuTorch 1.5.1 ``exir/emit/_emitter.py``, which emits nothing for a static view.
        """
        index = self._written.get((value.memory_id, value.offset))
        if index is None:
            raise _damaged("a tensor is read that nothing has computed")
        (base,) = self._method.tensors((index,))
        if (base.dtype, base.bytes) != (value.dtype, value.bytes):
            raise _damaged("a tensor is read where another type or size was written")
        data = _in_memory_order(self._values[index], base).ravel().view(np.uint8)
        return _from_memory(data, value.dtype, value.shape, value.dim_order)

    def _constant(self, value: Value) -> _Array:
        buffers = self._constants if value.memory_id < 0 else self._initial
        if value.constant >= len(buffers):
            raise _damaged("a constant is read that the program does not have")
        data = np.frombuffer(buffers[value.constant], np.uint8)
        return _from_memory(data, value.dtype, value.shape, value.dim_order)


def load(source: Path | bytes, method: str = "", data: Sequence[Path] | None = None) -> Program:
    """Return a compiled program.

    Args:
        source: A ``.pte``, a ``.bpte``, a ``.tflite`` that Vela compiled, or a raw delegate of
            Vela, as a file or its bytes.
        method: The entry point; "" is the first.
        data: Files of weights; by default every ``.ptd`` in the folder of the program.

    Raises:
        WorkbenchError: the file cannot be read, is no program, or is damaged; it has no such
            method; weights outside of the program are missing.
    """
    content = source if isinstance(source, bytes) else _read(source)
    if content.startswith(_RAW_MARK):
        return _raw(content)
    if content[4:8] == MARK:
        return _tflite(content, method)
    program = decode(content)
    chosen = program.method(method)
    named = dict(program.named_data)
    if any(_is_external(delegate) for delegate in chosen.delegates):
        beside = data
        if beside is None and isinstance(source, Path):
            beside = sorted(source.absolute().parent.glob("*.ptd"))
        for path in beside or ():
            named.update(decode_named_data(_read(path)))
    cases = tuple(
        Case(tuple(map(_vector, case.inputs)), tuple(map(_vector, case.expected)))
        for case in program.cases
        if case.method == chosen.name
    )
    return Program(chosen, program.constant_data, named, cases, initial=program.initial_data)


def _read(path: Path) -> bytes:
    try:
        return program_bytes(path)
    except OSError as error:
        raise failure(
            f"{path} cannot be read: {error.strerror or error}.",
            "Correct the path, or set the file's permissions.",
            where=Place(kind="file", id=str(path)),
            code="file-not-readable",
        ) from error


def _is_external(delegate: Delegate) -> bool:
    return delegate.backend == vela_stream.ETHOS_U and any(
        block.external for block in vela_stream.blocks(delegate.data).values()
    )


def _machine(
    index: int, delegate: Delegate, named: Mapping[str, memoryview], weights: WeightCache
) -> Machine:
    if delegate.backend != vela_stream.ETHOS_U:
        raise failure(
            f"Delegate {index} of the program is for {delegate.backend}, not for an Ethos-U.",
            "Only programs for Ethos-U NPUs can be simulated.",
            Place(kind="file", id="program"),
            code="npu-other-backend",
        )
    return Machine(delegate.data, external=named, weights=weights, index=index)


def _raw(blob: bytes) -> Program:
    """Return a program that has one delegate and nothing else."""
    blocks = vela_stream.blocks(blob)
    sides = [vela_stream.ports(blocks, side) for side in ("inputs", "outputs")]
    values = tuple(_raw_value(port) for side in sides for port in side)
    inputs = tuple(range(len(sides[0])))
    outputs = tuple(range(len(inputs), len(values)))
    delegate = Delegate(vela_stream.ETHOS_U, memoryview(blob), {})
    calls = (Call("delegate", 0, (*inputs, *outputs)),)
    method = Method("forward", values, inputs, outputs, (), (delegate,), calls, ())
    return Program(method, exact=False)


def _tflite(content: bytes, name: str) -> Program:
    """Return a program whose CPU operators are named by their number, with the file they are of."""
    program = decode_tflite(content)
    method = program.method(name)
    calls = tuple(
        replace(call, index=number) if call.kind == "kernel" else call
        for number, call in enumerate(method.calls)
    )
    kernels = tuple(f"tflite::{number}" for number in range(len(calls)))
    chosen = replace(method, kernels=kernels, calls=calls)
    return _TfliteProgram(chosen, program.constant_data, content)


class _TfliteProgram(Program):
    """A program whose CPU operators get the bytes of the file before their arguments."""

    def __init__(self, method: Method, constants: Sequence[memoryview], content: bytes) -> None:
        super().__init__(method, constants)
        self._model = np.frombuffer(content, np.uint8)

    def run(
        self,
        inputs: Sequence[_Array],
        options: Options | None = None,
        operators: CpuOperators | None = None,
        state: Mapping[int, _Array] | None = None,
    ) -> Result:
        """Compute the outputs."""

        def others(name: str, arguments: Sequence[Any], outputs: Sequence[Output]) -> Any:
            assert operators is not None, "given with others"
            return operators(name, [self._model, *arguments], outputs)

        return super().run(inputs, options, None if operators is None else others, state)


def _raw_value(port: Port) -> Value:
    """Return the tensor at a port; of the leading axes of length one, one is kept."""
    if port.item_bytes not in _RAW_TYPES or any(length < 1 for length in port.shape):
        raise _damaged("a tensor at the border of the delegate has a size that cannot be")
    shape = port.shape
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) < len(port.shape):
        shape = (1, *shape)
    return Value("tensor", _RAW_TYPES[port.item_bytes], shape, tuple(range(len(shape))))


def _border(value: Value, exact: bool) -> Tensor:
    if value.kind != "tensor":
        raise failure(
            f"The program takes or gives a {value.kind}; only tensors can be simulated.",
            "Make a program whose inputs and outputs are tensors.",
            where=Place(kind="file", id="program"),
            code="program-value-not-tensor",
        )
    return Tensor(value.dtype, value.shape, exact)


def _checked(tensors: Sequence[Tensor], inputs: Sequence[_Array]) -> list[_Array]:
    """Return inputs in the types of the program.

    Raises:
        WorkbenchError: their number, a type or a shape differs.
    """
    if len(tensors) != len(inputs):
        raise failure(
            f"The program takes {len(tensors)} inputs, {len(inputs)} are given.",
            "Give them as in0, in1 and so on.",
            Place(kind="option", id="inputs"),
            code="npu-input",
        )
    return [
        _checked_one(number, tensor, np.asarray(given))
        for number, (tensor, given) in enumerate(zip(tensors, inputs, strict=True))
    ]


def _checked_one(number: int, tensor: Tensor, array: _Array) -> _Array:
    wanted = _dtype(tensor.dtype)
    both_float = wanted.kind == "f" and array.dtype.kind == "f"
    both_whole = wanted.kind in "iub" and array.dtype.kind in "iub"
    same_width = both_whole and wanted.itemsize == array.dtype.itemsize
    if tensor.exact:
        fits = array.shape == tensor.shape
    else:
        fits = array.size == int(np.prod(tensor.shape, dtype=np.int64))
    if not (both_float or same_width) or not fits:
        raise failure(
            f"in{number} is {array.dtype} {array.shape}, the program takes {tensor.dtype} {tensor.shape}.",
            "Convert the array to that type and shape; an axis of samples may be in front.",
            Place(kind="option", id=f"in{number}"),
            code="npu-input",
        )
    values = array.reshape(tensor.shape)
    return values.astype(wanted) if both_float else np.asarray(values, order="C").view(wanted)


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError as error:
        raise failure(
            f"The program has a tensor of {name}, which is not simulated.",
            where=Place(kind="file", id="program"),
            code="tensor-type-not-simulated",
        ) from error


def _axes(order: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return a tensor's axes as they lie in memory."""
    return order if sorted(order) == list(range(rank)) else tuple(range(rank))


def _in_memory_order(values: Any, tensor: Value) -> _Array:
    array = np.asarray(values)
    return np.asarray(array.transpose(_axes(tensor.dim_order, array.ndim)), order="C")


def _from_memory(data: _Array, dtype: str, shape: tuple[int, ...], order: tuple[int, ...]) -> _Array:
    """Return a tensor from its bytes."""
    kind, axes = _dtype(dtype), _axes(order, len(shape))
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize if min(shape, default=1) >= 0 else -1
    if size < 0 or data.size < size:
        raise _damaged(f"a tensor of {dtype} {shape} has {data.size:,} bytes of data")
    lying = data[:size].view(kind).reshape([shape[axis] for axis in axes])
    return np.ascontiguousarray(lying.transpose(np.argsort(axes))) if shape else lying.reshape(())


def _vector(tensor: VectorTensor) -> _Array:
    data = np.frombuffer(tensor.data, np.uint8)
    return _from_memory(data, tensor.dtype, tensor.shape, tensor.dim_order)


def _damaged(what: str) -> WorkbenchError:
    return failure(
        f"The program is damaged: {what}.",
        "Compile it again, or compare its digest.",
        Place(kind="file", id="program"),
        code="program-damaged",
    )
