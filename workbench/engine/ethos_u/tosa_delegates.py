"""Who computes the TOSA of delegates: the built-in executor, and the reference model as its check.

The reference model computes the first sample of every run, with all tensors inside compared; any
sample where something disagrees; and what the executor does not compute. If the two differ once,
nothing of the executor is used for that program.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.engine.ethos_u.intermediates import exposed, outer_names, output_names
from workbench.engine.ethos_u.sample_groups import in_groups
from workbench.engine.ethos_u.tosa.executor import Executor
from workbench.engine.ethos_u.tosa.program import NotExecuted
from workbench.results import TosaExecutors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from workbench.engine.ethos_u.reference_process import ReferenceProcess

Array = np.ndarray[Any, Any]


class ExecutorDiffers(Exception):
    """The executor and the reference model give different integers for a program."""


@dataclass(frozen=True)
class TosaCall:
    """A delegate that was computed: its number, inputs and outputs, samples as first axis."""

    delegate: int
    inputs: list[Array]
    outputs: list[Array]


@dataclass
class ComputedBy:
    """Which executor computed what.

    Attributes:
        reference: Numbers of the samples of which the reference model computed a delegate.
        executor: The same of the built-in executor.
        tensors: How many tensors both computed, all of them equal.
        left: Why something was left to the reference model.
    """

    reference: set[int] = field(default_factory=set)
    executor: set[int] = field(default_factory=set)
    tensors: int = 0
    left: list[str] = field(default_factory=list)

    def result(self, differs: str) -> TosaExecutors:
        """Return it as a part of a result; ``differs`` names a tensor where the two differ."""
        return TosaExecutors(
            reference_samples=len(self.reference),
            executor_samples=len(self.executor),
            equal_tensors=self.tensors,
            left=tuple(self.left),
            differs=differs,
        )


@dataclass(frozen=True)
class _Pending:
    """What the reference model computes at the moment, and what the executor gave."""

    delegate: int
    names: list[str]
    values: Mapping[str, Array]
    answer: Future[list[Array]]


class TosaDelegates:
    """The TOSA of the delegates of one program."""

    def __init__(
        self, flatbuffers: Sequence[bytes], process: ReferenceProcess, *, trusted: bool = True
    ) -> None:
        """Read the programs.

        Args:
            flatbuffers: TOSA by the number of the delegate.
            process: The reference model.
            trusted: Whether the built-in executor may be used.
        """
        self._flatbuffers, self._process = flatbuffers, process
        self.by = ComputedBy()
        self._executors = [self._executor(flat) if trusted else None for flat in flatbuffers]
        self._pending: list[_Pending] = []
        self._first = 0

    def _executor(self, flatbuffer: bytes) -> Executor | None:
        try:
            return Executor(flatbuffer)
        except NotExecuted as error:
            self._leave(error)
            return None

    def _leave(self, error: NotExecuted) -> None:
        if str(error) not in self.by.left:
            self.by.left.append(str(error))

    def begin(self, first: int) -> None:
        """Set the number of the first sample of those that are computed next.

        Sample 0 is computed by both, with all tensors.
        """
        self._first = first

    def compute(
        self, delegate: int, inputs: Sequence[Array], extra_names: Sequence[str], samples: int
    ) -> tuple[list[Array], dict[str, Array]]:
        """Compute a delegate for some samples.

        Args:
            delegate: Its number.
            inputs: Each of shape (samples, *shape).
            extra_names: Names of tensors inside it that are wanted.
            samples: Their number.

        Returns:
            Its outputs in their order, and the wanted tensors by name, with the samples as first
            axis.

        Raises:
            WorkbenchError: the reference model rejects the program for a sample.
        """
        flatbuffer = self._flatbuffers[delegate]
        executor = self._executors[delegate]
        outputs, inside = output_names(flatbuffer), list(dict.fromkeys(extra_names))
        values: dict[str, Array] | None = None
        if executor is not None:
            wanted = [*outputs, *inside]
            if self._first == 0:
                wanted += self._visible(delegate)
            values = self._executed(executor, inputs, wanted, samples)
        if values is None:
            values = self._by_reference(flatbuffer, inputs, [*outputs, *inside], samples)
        elif self._first == 0:
            self._prove(delegate, inputs, values)
        return [values[name] for name in outputs], {name: values[name] for name in inside}

    def _executed(
        self, executor: Executor, inputs: Sequence[Array], names: Sequence[str], samples: int
    ) -> dict[str, Array] | None:
        """Return tensors by the built-in executor; None if it leaves one of the samples."""
        try:
            parts = in_groups(
                lambda at: executor.run([v[at] for v in inputs], names, at.stop - at.start),
                samples,
                executor.largest_bytes,
            )
        except NotExecuted as error:
            self._leave(error)
            return None
        self.by.executor.update(range(self._first, self._first + samples))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _by_reference(
        self, flatbuffer: bytes, inputs: Sequence[Array], names: Sequence[str], samples: int
    ) -> dict[str, Array]:
        edited = exposed(flatbuffer, names)
        answers = [self._process.submit(edited, [values[at] for values in inputs]) for at in range(samples)]
        rows = [answer.result() for answer in answers]
        self.by.reference.update(range(self._first, self._first + samples))
        columns = zip(names, zip(*rows, strict=True), strict=True)
        return {name: np.stack(column) for name, column in columns}

    def _visible(self, delegate: int) -> list[str]:
        """Return the tensors of a delegate that the reference model can give: not of 48 bits."""
        executor, flatbuffer = self._executors[delegate], self._flatbuffers[delegate]
        assert executor is not None
        outer = outer_names(flatbuffer)
        names = [name for name in executor.visible if name in outer]
        return list(dict.fromkeys([*output_names(flatbuffer), *names]))

    def _prove(self, delegate: int, inputs: Sequence[Array], values: Mapping[str, Array]) -> None:
        """Let the reference model compute the same, beside what follows."""
        names = self._visible(delegate)
        edited = exposed(self._flatbuffers[delegate], names)
        answer = self._process.submit(edited, [one[0] for one in inputs])
        self._pending.append(_Pending(delegate, names, values, answer))
        self.by.reference.add(0)

    def conclude(self) -> None:
        """Wait for the reference model, and compare every tensor with the executor's.

        Raises:
            ExecutorDiffers: they are not equal.
            WorkbenchError: the reference model rejects the program.
        """
        for pending in self._pending:
            answers = pending.answer.result()
            for name, theirs in zip(pending.names, answers, strict=True):
                self._demand_equal(pending.delegate, name, pending.values[name][0], theirs)
                self.by.tensors += 1
        self._pending = []

    def settle(self, call: TosaCall, at: int) -> None:
        """Let the reference model compute a sample again where something disagrees.

        Args:
            call: The delegate.
            at: Which of its samples.

        Raises:
            ExecutorDiffers: the reference model gives something else.
        """
        number = self._first + at
        if self._executors[call.delegate] is None or number in self.by.reference:
            return
        flatbuffer = self._flatbuffers[call.delegate]
        answers = self._process.submit(flatbuffer, [one[at] for one in call.inputs]).result()
        names = output_names(flatbuffer)
        for name, ours, theirs in zip(names, call.outputs, answers, strict=False):
            self._demand_equal(call.delegate, name, ours[at], theirs)

    def settled(self, at: int) -> None:
        """Take note that all delegates of a sample were computed by the reference model too."""
        self.by.reference.add(self._first + at)

    @staticmethod
    def _demand_equal(delegate: int, name: str, ours: Array, theirs: Array) -> None:
        same = ours.size == theirs.size and ours.dtype.itemsize == theirs.dtype.itemsize
        if not same or ours.tobytes() != theirs.tobytes():
            raise ExecutorDiffers(f"tensor {name} of delegate {delegate}")
