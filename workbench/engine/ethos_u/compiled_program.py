"""The delegates of the compiled program, executed on the functional simulator of the NPU.

Each delegate gets the integers that its TOSA gets on the reference model, so that a difference
belongs to this delegate alone. No device is involved.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from workbench.engine.ethos_u.compiled_tensors import compiled_tensors, first_difference, reference_tensors
from workbench.engine.ethos_u.intermediates import output_names
from workbench.engine.ethos_u.sample_groups import in_groups
from workbench.engine.fx import programs
from workbench.errors import WorkbenchError
from workbench.graph.snapshot import GraphSnapshot
from workbench.npu.program import Program
from workbench.npu.state import Options
from workbench.pte import program as pte
from workbench.results import GRAPH_FILE, CompiledDifference, CompiledFinding, CompiledProgram, LowerResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.engine.ethos_u.tosa_delegates import TosaCall
    from workbench.engine.runtime.context import StageContext
    from workbench.engine.targets import Lowered
    from workbench.npu.faults import Finding
    from workbench.npu.machine import Machine, MachineResult
    from workbench.results import VelaReport

_Array = npt.NDArray[Any]
_MAX_FINDINGS = 50
# What the simulator raises where a device would read or write elsewhere, or stop.
_FAULTS = frozenset({"npu-address", "npu-command", "npu-mode", "npu-stream", "npu-table"})


@dataclass
class ExecutedCalls:
    """What a whole program has executed, by the index of the delegate, in the order of calls."""

    calls: dict[int, list[tuple[list[_Array], list[MachineResult]]]] = field(default_factory=dict)

    def keep(self, index: int, inputs: Sequence[_Array], results: Sequence[MachineResult]) -> None:
        """Keep a delegate that was executed for all samples."""
        self.calls.setdefault(index, []).append((list(inputs), list(results)))

    def of(self, index: int, inputs: Sequence[_Array], samples: int) -> list[MachineResult] | None:
        """Return the results of a delegate for just these inputs; None if it had none of them."""
        for given, results in self.calls.get(index, ()):
            if len(results) == samples and all(
                one.tobytes() == other.tobytes() for one, other in zip(given, inputs, strict=True)
            ):
                return results
        return None


def execute_delegate(
    machine: Machine, inputs: Sequence[_Array], samples: int, options: Options
) -> list[MachineResult]:
    """Execute a delegate for some samples.

    Raises:
        WorkbenchError: a command cannot be carried out.
    """
    parts = in_groups(
        lambda at: machine.run_samples([v[at] for v in inputs], at.stop - at.start, options),
        samples,
        machine.scratch_bytes,
    )
    return [result for part in parts for result in part]


class CompiledDelegates:
    """Executes delegates and counts the output elements that equal those of their TOSA.

    The first sample also checks reads of memory that nothing wrote, lost tables and missing waits.
    """

    def __init__(self, context: StageContext, lowered: Lowered) -> None:
        self._context = context
        self._reports = context.result("lower", LowerResult).vela
        self._tosa = lowered.tosa
        self._refused = ""
        self._machines: list[Machine | None] = []
        self._modules = {r.delegate: modules_of_commands(r) for r in self._reports}
        self._device = lowered.device_graph
        self._sample = self._elements = self._equal = self._most = 0
        self._first: CompiledDifference | None = None
        self._findings: dict[tuple[int, int, str], CompiledFinding] = {}
        try:
            self._machines = _machines(lowered)
        except WorkbenchError as error:
            self._refused = error.infos[0].message
        if not self._refused and len(self._machines) != len(self._tosa):
            self._refused = (
                f"The program calls {len(self._machines)} delegates, {len(self._tosa)} were "
                "translated to TOSA."
            )

    def compare(
        self, calls: Sequence[TosaCall], first: int, done: ExecutedCalls
    ) -> list[tuple[TosaCall, int]]:
        """Execute delegates of some samples, and compare their outputs with those of their TOSA.

        Args:
            calls: The delegates.
            first: The number of the first of their samples.
            done: What the whole program has executed for the same samples.

        Returns:
            The delegates with a sample, counted from ``first``, where an output differs.
        """
        differing = []
        for call in calls:
            self._sample = first
            machine = None if self._refused else self._machines[call.delegate]
            if machine is None:
                continue
            for at, result in enumerate(self._results(call, machine, done)):
                self._sample = first + at
                if self._differs(call, at, result):
                    differing.append((call, at))
        return differing

    def _results(self, call: TosaCall, machine: Machine, done: ExecutedCalls) -> list[MachineResult]:
        """Return what the compiled delegate gives; nothing if it cannot be executed."""
        count = len(call.outputs[0])
        if (known := done.of(machine.index, call.inputs, count)) is not None:
            return known
        options = Options(check=self._sample == 0, modules=self._modules)
        try:
            return execute_delegate(machine, call.inputs, count, options)
        except WorkbenchError as error:
            info = error.infos[0]
            self._refused = info.message
            if info.code in _FAULTS:
                self._add_fault(call.delegate, info.code, info.message)
            return []

    def _differs(self, call: TosaCall, at: int, result: MachineResult) -> bool:
        """Count the equal elements of one sample; return whether some are not."""
        for finding in result.findings:
            self._keep(finding)
        expected = [values[at] for values in call.outputs]
        names = output_names(self._tosa[call.delegate])
        sizes = [output.size for output in result.outputs]
        if self._refused or self._lacks_outputs(call.delegate, names, sizes, expected):
            return False
        known, differing = self._first, self._elements - self._equal
        for name, data, values in zip(names, result.outputs, expected, strict=True):
            self._count(call.delegate, name, data, values)
        if self._first is not None and known is None:
            self._first = self._located(self._first, [values[at] for values in call.inputs])
        return self._elements - self._equal > differing

    def _lacks_outputs(
        self, delegate: int, names: Sequence[str], sizes: Sequence[int], expected: Sequence[_Array]
    ) -> bool:
        """Note an output that the compiled delegate does not have, or has in another size."""
        wanted = [values.nbytes for values in expected]
        if len(sizes) != len(wanted):
            left = Counter(wanted) - Counter(sizes)
            lost = [
                f"{name}{self._module_of(delegate, name)}"
                for name, size in zip(names, wanted, strict=False)
                if size in left
            ]
            self._refused = (
                f"The compiled delegate {delegate} gives {len(sizes)} of {len(wanted)} outputs: "
                f"{' or '.join(lost) or 'one'} is missing, and the program reads wrong values."
            )
            self._add_fault(delegate, "npu-output-missing", self._refused)
            return True
        for name, size, bytes_wanted in zip(names, sizes, wanted, strict=False):
            if size != bytes_wanted:
                self._refused = (
                    f"Output {name}{self._module_of(delegate, name)} of the compiled delegate "
                    f"{delegate} has {size:,} bytes, its TOSA {bytes_wanted:,}."
                )
                self._add_fault(delegate, "npu-output-size", self._refused)
                return True
        return False

    def _module_of(self, delegate: int, tensor: str) -> str:
        """Return where a tensor of the TOSA comes from, as a part of a sentence."""
        if self._device is None:
            return ""
        known = self._device.nodes_by_id.get(f"delegate_{delegate}/{tensor}")
        if known is None:
            return ""
        origin = known.attrs.get("origin", "")
        module = f" in module {known.module}" if known.module else ""
        return f" ({origin}{module})" if origin else module

    def _count(self, delegate: int, name: str, data: npt.NDArray[np.uint8], values: _Array) -> None:
        expected = np.ascontiguousarray(values).reshape(-1)
        computed = data.view(expected.dtype)
        if np.array_equal(computed, expected):
            self._elements += expected.size
            self._equal += expected.size
            return
        apart = np.abs(computed.astype(np.int64) - expected.astype(np.int64))
        differing = np.flatnonzero(apart)
        self._elements += expected.size
        self._equal += expected.size - differing.size
        self._most = max(self._most, int(apart.max()))
        if self._first is None:
            at = int(differing[0])
            self._first = CompiledDifference(
                sample=self._sample,
                delegate=delegate,
                output=name,
                element=at,
                expected=int(expected[at]),
                computed=int(computed[at]),
            )

    def _add_fault(self, delegate: int, code: str, message: str) -> None:
        fault = CompiledFinding(
            severity="error", code=code, message=message, delegate=delegate, command="", offset=0
        )
        self._findings[delegate, 0, code] = fault

    def _keep(self, finding: Finding) -> None:
        key = finding.delegate, finding.offset, finding.code
        if len(self._findings) < _MAX_FINDINGS:
            self._findings.setdefault(key, compiled_finding(finding))

    def tensors(
        self, delegate: int, inputs: Sequence[_Array], reference: Mapping[str, _Array]
    ) -> dict[str, _Array]:
        """Return tensors of a compiled delegate, in the shapes of those of its TOSA.

        Args:
            delegate: Its number.
            inputs: What it gets.
            reference: Tensors of its TOSA; those that cannot be read back are left out.
        """
        if self._refused or delegate >= len(self._reports):
            return {}
        machine, report = self._machines[delegate], self._reports[delegate]
        if machine is None:
            return {}
        try:
            written = compiled_tensors(machine, report, inputs)
            outputs = machine.run(inputs).outputs
        except WorkbenchError:
            return {}
        values_by_name = {}
        for name, values in reference.items():
            if (read := written[name].values_as(values) if name in written else None) is not None:
                values_by_name[name] = read
        for name, data in zip(output_names(self._tosa[delegate]), outputs, strict=False):
            if name in reference and data.size == reference[name].nbytes:
                like = reference[name]
                values_by_name[name] = data.view(like.dtype).reshape(like.shape)
        return values_by_name

    def _located(self, difference: CompiledDifference, inputs: Sequence[_Array]) -> CompiledDifference:
        """Return a difference with the operation where it begins, by Vela's tables."""
        delegate = difference.delegate
        if delegate >= len(self._reports):
            return difference
        report = self._reports[delegate]
        machine = self._machines[delegate]
        assert machine is not None
        written = compiled_tensors(machine, report, inputs)
        reference = reference_tensors(self._tosa[delegate], inputs, list(written))
        output = first_difference(written, reference) or difference.output
        difference = difference.model_copy(update={"tensor": output})
        rows = [i for i, row in enumerate(report.operations) if row.name == output]
        commands = [c for c in report.commands if c.operation in rows]
        if not commands:
            return difference
        last = commands[-1]
        row = report.operations[rows[-1]]
        names = {command.offset: command.name for command in machine.commands}
        return difference.model_copy(
            update={
                "operation": row.operator,
                "module": row.module,
                "origin": row.root,
                "source_line": self._source_line(row.root),
                "command": names.get(last.offset, ""),
                "offset": last.offset,
            }
        )

    def _source_line(self, node: str) -> str:
        graph = GraphSnapshot.load(self._context.path("export") / GRAPH_FILE)
        return next((n.source for n in graph.nodes if n.id == node), "")

    def result(self, samples: int) -> CompiledProgram:
        """Return the comparison over ``samples`` samples; fewer if one was refused."""
        return CompiledProgram(
            samples=self._sample if self._refused else samples,
            elements=self._elements,
            equal=self._equal,
            max_lsb=self._most,
            first_difference=self._first,
            findings=tuple(self._findings.values()),
            refused=self._refused,
        )


def compiled_finding(finding: Finding) -> CompiledFinding:
    """Return a remark of the simulator as a part of a result."""
    return CompiledFinding(
        severity=finding.severity,
        code=finding.code,
        message=finding.message,
        delegate=finding.delegate,
        command=finding.command,
        offset=finding.offset,
        module=finding.module,
    )


def decoded_program(lowered: Lowered) -> Program:
    """Return the compiled program, ready to be executed.

    Raises:
        WorkbenchError: it has a delegate that the functional simulator cannot execute.
    """
    decoded = pte.decode(lowered.pte)
    named = dict(decoded.named_data)
    if lowered.weights is not None:
        named.update(pte.decode_named_data(lowered.weights))
    return Program(decoded.method(), decoded.constant_data, named, initial=decoded.initial_data)


def _machines(lowered: Lowered) -> list[Machine | None]:
    """Return the delegates in the order of their TOSA; None for one that the program lost.

    Checks of values are removed after the delegates are compiled, and with them a delegate that
    nothing else reads.
    """
    method = pte.decode(lowered.pte).method()
    machines = decoded_program(lowered).machines
    called = [call.index for call in method.calls if call.kind == "delegate"]
    if len(called) >= len(lowered.tosa):
        return [machines[index] for index in called]
    compiled = {bytes(method.delegates[index].data): machines[index] for index in called}
    modules = programs.delegates(lowered.edge).values()
    ordered = [compiled.get(module.processed_bytes) for module in modules]
    return ordered if len({*map(id, filter(None, ordered))}) == len(compiled) else []


def modules_of_commands(report: VelaReport) -> dict[int, str]:
    """Return the module of each command of a delegate by its offset [bytes]."""
    return {
        command.offset: report.operations[command.operation].module
        for command in report.commands
        if command.operation is not None
    }
