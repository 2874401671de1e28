"""A network in TensorFlow Lite, compiled by Vela for a target choice, and its estimate.

Run as a program, it is the process that compiles.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.engine.ethos_u import vela
from workbench.engine.ethos_u.corrected_cycles import PERFORMANCE, rows
from workbench.engine.ethos_u.cpu_operators import compute
from workbench.engine.ethos_u.estimate import compile_network
from workbench.engine.fx.modules import Location
from workbench.engine.workers.processes import WorkerProcesses, serve
from workbench.errors import Place, WorkbenchError, failure
from workbench.npu.program import load
from workbench.npu.state import Options
from workbench.pte.description import memory_of
from workbench.pte.tflite_model import VELA_OPERATOR, TfliteModel, read_tflite
from workbench.pte.vela_stream import blocks, commands
from workbench.pte.vela_tflite import decode_tflite
from workbench.results import VelaOperation, VelaReport
from workbench.studies.tflite import SideTotals
from workbench.targets import target_of
from workbench.targets.ethos_u.devices import clock_of
from workbench.targets.ethos_u.efficiency import with_limits
from workbench.targets.ethos_u.vela_ini import OPTION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from workbench.engine.workers.cluster import Answer
    from workbench.npu.counters import Counters
    from workbench.npu.program import Program
    from workbench.project.model import TargetChoice

_SOURCE = "source"
_POLL_S, _LONGEST_S = 0.2, 600
_WHERE = Place(kind="option", id="file")
# A tensor that the converter made of several has the names of all; names are paths of scopes.
_JOINED, _SCOPES = ";", 2
_OPERATORS = {"CONV": "Conv2D", "DEPTHWISE": "DepthwiseConv2D", "POOL": "Pool", "RESIZE": "Resize"}


@dataclass(frozen=True)
class TfliteSide:
    """A compiled file: its NPU operations in order, its totals, and itself ready to be executed.

    ``model`` describes the file that was given. Cycles are estimates of Vela where it was compiled
    here, else the device's limits.
    """

    model: TfliteModel
    operations: tuple[VelaOperation, ...]
    totals: SideTotals
    program: Program
    compiled_here: bool


def tflite_side(
    content: bytes, choice: TargetChoice, folder: Path, check: Callable[[], None] = lambda: None
) -> TfliteSide:
    """Return a TensorFlow Lite file as it runs on a device.

    Args:
        content: The file, compiled by Vela for that device or not compiled.
        choice: The device with all its options.
        folder: Base of the project's relative paths.
        check: Called while Vela compiles; ends it by raising.

    Raises:
        WorkbenchError: It has no integers, was compiled for another device, Vela puts nothing of it
            on the NPU or refuses it, or it is damaged.
    """
    model = read_tflite(content)
    if model.is_compiled:
        return _compiled_before(content, model, choice)
    if not model.integer_operators:
        raise failure(
            "This TensorFlow Lite network is in float: the NPU computes integers of 8 or 16 bits.",
            "Convert it with full integer quantization: a representative data set, and "
            "TFLITE_BUILTINS_INT8 as its only operators.",
            _WHERE,
            code="tflite-float",
        )
    ini = target_of(choice.id).files(choice, folder).get(OPTION)
    text = ini.read_text(encoding="utf-8") if ini is not None else None
    clock = clock_of(choice, folder)
    asked = {"device": choice.id, "options": dict(choice.options), "ini": text, "clock": clock}
    result, report = _compiled(content, asked, check)
    after = read_tflite(result)
    if not after.is_compiled:
        raise failure(
            f"Vela puts no operator of this network on {choice.id}.",
            "Run vela --show-cpu-operations on the file: it names the reason for each operator.",
            _WHERE,
            code="tflite-all-on-cpu",
        )
    totals = SideTotals(
        cycles=report.cycles_total,
        cycles_vela=report.cycles_vela,
        inference_ms=report.inference_ms,
        sram_bytes=report.sram_bytes,
        constant_bytes=report.flash_bytes,
        macs=report.macs,
        operations=sum(1 for operation in report.operations if operation.cycles),
        delegates=after.operators.count(VELA_OPERATOR),
        cpu=after.on_cpu,
    )
    return TfliteSide(model, report.operations, totals, load(result), compiled_here=True)


def _compiled(content: bytes, asked: dict[str, Any], check: Callable[[], None]) -> tuple[bytes, VelaReport]:
    """Return what Vela makes of a file, in a process of its own: a damaged file may end it.

    Raises:
        WorkbenchError: Vela refused it, ended, or did not end.
    """
    with tempfile.TemporaryDirectory() as place, WorkerProcesses(__name__, 1) as workers:
        network, result = Path(place) / "network.tflite", Path(place) / "compiled.tflite"
        network.write_bytes(content)
        future = workers.submit({**asked, "network": str(network), "result": str(result)})
        limit = time.monotonic() + _LONGEST_S
        while True:
            check()
            try:
                answer = future.result(timeout=_POLL_S)
            except TimeoutError:
                if time.monotonic() > limit:
                    raise _ended(f"did not end within {_LONGEST_S // 60} minutes") from None
                continue
            except WorkbenchError as error:
                if error.codes == ("worker-ended",):
                    raise _ended("ended") from error
                raise
            return result.read_bytes(), VelaReport.model_validate(answer["report"])


def _ended(how: str) -> WorkbenchError:
    return failure(
        f"Vela {how} while it compiled this file.",
        "The file is damaged, or Vela has a fault with it: run vela on the file itself to see.",
        _WHERE,
        code="tflite-vela-ended",
    )


def _answered(asked: dict[str, Any]) -> Answer:
    """Compile the file that a request names; the answer is the estimate."""
    content = Path(asked["network"]).read_bytes()
    compiled = compile_network(content, asked["device"], asked["options"], asked["ini"], "tflite")
    result = bytes(compiled.model)
    Path(asked["result"]).write_bytes(result)
    report = _report(compiled, result, asked["device"], asked["clock"])
    return {"report": report.model_dump(mode="json")}


def _report(compiled: Any, result: bytes, device: str, clock: float) -> VelaReport:
    """Return the estimate; the module of an operation is the tensor that its operator gives."""
    streams = []
    if read_tflite(result).is_compiled:
        streams = [commands(blocks(d.data)) for d in decode_tflite(result).method().delegates]
    known = SimpleNamespace(
        perf_report=compiled.perf_report,
        opt_database=compiled.opt_database,
        # Places in the stream are told apart only where there is one.
        command_stream=streams[0] if len(streams) == 1 else b"",
        scratch=SimpleNamespace(size=0),
    )
    kinds = {row["id"]: str(row["operator"]) for row in rows(compiled, _SOURCE)}
    performance, origins = list(rows(compiled, PERFORMANCE)), vela.Origins()
    names = {row["source_id"]: str(row["name"]) for row in performance}
    for row in performance:
        source = row["source_id"]
        kind = kinds.get(source, "")
        place = Location(f"{kind} {_short(names[source])}".strip())
        origins[str(row["name"])] = vela.Origin(kind, place, source)
    return with_limits(vela.report(0, known, clock, origins, device), device)


def _short(name: str) -> str:
    return "/".join(name.partition(_JOINED)[0].split("/")[-_SCOPES:])


def _compiled_before(content: bytes, model: TfliteModel, choice: TargetChoice) -> TfliteSide:
    """Return a file that Vela has compiled elsewhere, with the device's limits as cycles."""
    program = load(content)
    devices = {str(machine.device) for machine in program.machines}
    if devices != {choice.id}:
        raise failure(
            f"This file was compiled for {', '.join(sorted(devices))}, the project's device is {choice.id}.",
            "Give the .tflite from before Vela, which is compiled for the project's device here, or "
            f"run vela with --accelerator-config={choice.id}.",
            _WHERE,
            code="tflite-other-device",
        )
    inputs = [np.zeros(tensor.shape, tensor.dtype) for tensor in program.inputs]
    counted = program.run(inputs, Options(counters=True), compute).counters
    report = with_limits(_counted_report(counted), choice.id)
    operations = tuple(o.model_copy(update={"cycles": o.ideal_cycles}) for o in report.operations)
    method = decode_tflite(content).method()
    delegates = [blocks(delegate.data) for delegate in method.delegates]
    constants = sum(len(parts["weight_data"].data) for parts in delegates)
    totals = SideTotals(
        cycles=sum(operation.cycles for operation in operations),
        cycles_vela=None,
        inference_ms=None,
        sram_bytes=max(memory_of(method).planned_bytes, default=0),
        constant_bytes=constants,
        macs=report.macs,
        operations=len(operations),
        delegates=len(program.machines),
        cpu=model.on_cpu,
    )
    return TfliteSide(model, operations, totals, program, compiled_here=False)


def _counted_report(counted: tuple[Counters, ...]) -> VelaReport:
    operations = tuple(_counted(counted))
    macs = sum(operation.macs for operation in operations)
    return VelaReport(
        delegate=0,
        cycles_total=1,
        cycles_vela=1,
        cycles_npu=1,
        inference_ms=0.0,
        sram_bytes=0,
        flash_bytes=0,
        macs=macs,
        weights_bytes=0,
        encoded_weights_bytes=0,
        command_stream_bytes=0,
        scratch_bytes=0,
        operations=operations,
    )


def _counted(counted: tuple[Counters, ...]) -> Iterator[VelaOperation]:
    """Yield the operations that a run has counted; transfers of weights are part of them."""
    for number, one in enumerate(counted):
        if one.copied_bytes:
            continue
        kind = one.command.removeprefix("NPU_OP_")
        yield VelaOperation(
            name=f"{one.offset:#x}",
            operator=_OPERATORS.get(kind, kind.capitalize()),
            module=f"command {one.offset:#x}",
            root=str(number),
            tosa="",
            cycles=1 << 62,
            cycles_vela=0,
            npu_cycles=0,
            macs=one.macs,
            sram_cycles=0,
            external_cycles=0,
            staging_bytes=0,
            weights=one.weights,
            weight_bytes=one.weight_bytes,
            output_shape=one.ofm[-3:],
            moved_bytes=one.read_bytes + one.written_bytes - one.weight_bytes - one.scale_bytes,
        )


if __name__ == "__main__":
    serve(lambda: _answered)
