"""The whole compiled program on the functional simulator of the NPU. Computed, no device."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.ethos_u.compiled_program import (
    ExecutedCalls,
    compiled_finding,
    decoded_program,
    execute_delegate,
    modules_of_commands,
)
from workbench.engine.ethos_u.cpu_operators import compute
from workbench.engine.ethos_u.sample_groups import SAMPLES_AT_ONCE, one_thread_for_products
from workbench.errors import WorkbenchError
from workbench.npu.state import Options
from workbench.results import LowerResult
from workbench.results.simulation import OperationCounters

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from workbench.engine.runtime.context import StageContext
    from workbench.npu.machine import MachineResult
    from workbench.npu.program import Program
    from workbench.results import CompiledFinding


@dataclass
class FunctionalOutputs:
    """What the program computed.

    Attributes:
        outputs: For each sample, in the types and shapes of the program.
        operations: Counters of each operation of the delegates, from the first sample.
        findings: Remarks on commands, from the first sample.
        refused: Why the program was not executed; "" if it was.
    """

    outputs: list[list[torch.Tensor]] = field(default_factory=list)
    operations: tuple[OperationCounters, ...] = ()
    findings: tuple[CompiledFinding, ...] = ()
    refused: str = ""
    elapsed_s: float = 0.0


class WholeProgram:
    """The compiled program with its CPU operators, executed for samples in their order."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self.outputs, self._done = FunctionalOutputs(), 0
        reports = context.result("lower", LowerResult).vela
        self._modules = {report.delegate: modules_of_commands(report) for report in reports}
        self._program: Program | None = None
        begun = time.monotonic()
        try:
            self._program = decoded_program(context.live("lower"))
        except WorkbenchError as error:
            self._refuse(error)
        self.outputs.elapsed_s = time.monotonic() - begun

    def execute(self, samples: Sequence[Sequence[torch.Tensor]]) -> ExecutedCalls:
        """Execute the next samples; CPU operators are computed by torch.

        The first of all samples runs by itself: it is counted and checked.

        Args:
            samples: For each sample its inputs, in the types of the program.

        Returns:
            What each delegate got and gave, where all of the samples went the same way.
        """
        calls, begun = ExecutedCalls(), time.monotonic()
        arrays = [[tensor.detach().numpy() for tensor in sample] for sample in samples]
        groups = [arrays] if self._done else [arrays[:1], arrays[1:]]
        for group in groups:
            if group and not self.outputs.refused:
                calls = self._group(group)
        self.outputs.elapsed_s += time.monotonic() - begun
        return calls

    def _group(self, samples: list[list[npt.NDArray[Any]]]) -> ExecutedCalls:
        calls, is_first, program = ExecutedCalls(), not self._done, self._program
        assert program is not None, "refused otherwise"
        options = Options(counters=is_first, check=is_first, modules=self._modules)

        def delegate(
            index: int, numbers: Sequence[int], inputs: Sequence[npt.NDArray[Any]]
        ) -> list[MachineResult]:
            results = execute_delegate(program.machines[index], inputs, len(numbers), options)
            calls.keep(index, inputs, results)
            return results

        try:
            results = program.run_samples(samples, delegate, compute)
        except WorkbenchError as error:
            self._refuse(error)
            return calls
        self._done += len(samples)
        outputs = self.outputs
        outputs.outputs += [[torch.from_numpy(a) for a in result.outputs] for result in results]
        if is_first:
            outputs.operations = tuple(
                OperationCounters.model_validate(one.as_dict()) for one in results[0].counters
            )
            outputs.findings = tuple(compiled_finding(one) for one in results[0].findings)
        return calls

    def _refuse(self, error: WorkbenchError) -> None:
        info = error.infos[0]
        self.outputs.refused = f"{info.message} {info.hint}".strip()
        self.outputs.outputs = []


def execute(context: StageContext, inputs: Sequence[Sequence[torch.Tensor]]) -> FunctionalOutputs:
    """Execute the compiled program for each sample; CPU operators are computed by torch.

    Args:
        context: A stage after ``lower``.
        inputs: The samples, in the types of the program.
    """
    program = WholeProgram(context)
    with one_thread_for_products():
        for first in range(0, len(inputs), SAMPLES_AT_ONCE):
            context.progress(first, len(inputs), f"sample {first + 1}, functional")
            program.execute(inputs[first : first + SAMPLES_AT_ONCE])
    return program.outputs
