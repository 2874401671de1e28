"""The whole compiled program on the functional simulator of the NPU. Computed, no device."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from threadpoolctl import ThreadpoolController

from workbench.engine.cpu_operators import compute
from workbench.engine.targets.ethos_u.compiled_program import (
    compiled_finding,
    decoded_program,
    modules_of_commands,
)
from workbench.errors import WorkbenchError
from workbench.npu.state import Options
from workbench.results import LowerResult
from workbench.results.simulation import OperationCounters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.engine.context import StageContext
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


def execute(context: StageContext, inputs: Sequence[Sequence[torch.Tensor]]) -> FunctionalOutputs:
    """Execute the compiled program for each sample; CPU operators are computed by torch.

    Args:
        context: A stage after ``lower``.
        inputs: The samples, in the types of the program.
    """
    outputs, begun = FunctionalOutputs(), time.monotonic()
    reports = context.result("lower", LowerResult).vela
    modules = {report.delegate: modules_of_commands(report) for report in reports}
    # The products are small: a second thread costs more than it gives.
    threads = ThreadpoolController()
    try:
        program = decoded_program(context.hot("lower"))
        for number, sample in enumerate(inputs):
            context.progress(number, len(inputs), f"sample {number + 1}, functional")
            first = number == 0
            options = Options(counters=first, check=first, modules=modules)
            with threads.limit(limits=1, user_api="blas"):
                arrays = [tensor.detach().numpy() for tensor in sample]
                result = program.run(arrays, options, compute)
            outputs.outputs.append([torch.from_numpy(array) for array in result.outputs])
            if first:
                outputs.operations = tuple(
                    OperationCounters.model_validate(one.as_dict()) for one in result.counters
                )
                outputs.findings = tuple(compiled_finding(one) for one in result.findings)
    except WorkbenchError as error:
        info = error.infos[0]
        outputs.refused = f"{info.message} {info.hint}".strip()
        outputs.outputs = []
    outputs.elapsed_s = time.monotonic() - begun
    return outputs
