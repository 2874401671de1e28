"""Lowering of the quantized program to runtime bytes, with the reasons for CPU operators."""

from __future__ import annotations

import copy
import io
import re
import tempfile
import zipfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

from workbench.deploy.boards import candidates, undescribed
from workbench.deploy.fitting import of_program, sentence
from workbench.engine.ethos_u import vela
from workbench.engine.ethos_u.applied_corrections import correction_functions
from workbench.engine.ethos_u.capture.lowering import capture_tosa, partition_reasons, watched_passes
from workbench.engine.ethos_u.compile_spec import WEIGHTS, compile_spec, own_ini_at_hand
from workbench.engine.ethos_u.corrections.lowering import corrected, corrected_compiler
from workbench.engine.ethos_u.cpu_fallback import (
    cpu_nodes,
    cpu_only_check,
    device_of,
    missing_kernels,
    not_quantized,
)
from workbench.engine.ethos_u.cpu_kernels import with_border_kernels, with_cmsis_nn
from workbench.engine.ethos_u.integer_io import with_integer_borders
from workbench.engine.ethos_u.out_variants import with_out_variants
from workbench.engine.ethos_u.recompile_for_device import has_same_tosa, recompile_for_device
from workbench.engine.ethos_u.refusals import (
    CheckingPartitioner,
    loop_refused,
    lowering_failed,
    refuse_control_flow,
    refuse_custom,
    refuse_unwritable,
    too_many_inputs,
    vela_left,
    vela_refused,
)
from workbench.engine.ethos_u.rewrite_cycles import with_cycles, written_places
from workbench.engine.ethos_u.tosa_graph import tosa_snapshot
from workbench.engine.fx import programs
from workbench.engine.runtime.accelerated import accelerated
from workbench.engine.runtime.forked import Beside
from workbench.engine.targets import Lowered
from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.graph.snapshot import GraphSnapshot
from workbench.pipeline.resolution import resolve_graph, whole_refusals
from workbench.project import sources
from workbench.project.model import Tokenization
from workbench.project.opened import OpenProject
from workbench.results import (
    GRAPH_FILE,
    AppliedCorrection,
    AppliedRewrite,
    CpuNode,
    ExportResult,
    ImportResult,
    LowerResult,
    PrepareResult,
)
from workbench.targets import target_of
from workbench.targets.ethos_u.corrections import switched_off
from workbench.targets.ethos_u.devices import ETRECORD, EXTERNAL_WEIGHTS, clock_of
from workbench.targets.ethos_u.efficiency import with_limits
from workbench.targets.ethos_u.options import CMSIS_NN_CPUS, CPU_KERNELS
from workbench.text import plural
from workbench.toolchains.versions import tool_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from workbench.engine.ethos_u.npu_exclusions import KeptOff
    from workbench.engine.runtime.context import StageContext
    from workbench.project.model import TargetChoice
    from workbench.results import VelaReport


def methods_for_runners(context: StageContext) -> dict[str, int | bool]:
    """Return the constant methods for language model runners; none for other models."""
    project = context.project
    if project.calibration is None or not sources.reads_text(project):
        return {}
    exported = context.result("export", ExportResult)
    length = (project.calibration.tokens or Tokenization()).length
    carried = any(spec.dtype.startswith(("float", "bfloat")) for spec in exported.inputs)
    return {
        "get_max_seq_len": length,
        "get_max_context_len": length,
        "get_vocab_size": exported.outputs[0].shape[-1],
        "use_kv_cache": carried or bool(exported.state),
        "use_sdpa_with_kv_cache": False,
        "enable_dynamic_shape": False,
    }


def with_kernels(manager: Any, kernels: str) -> Any:
    """Return the edge program with the chosen CPU kernels; ``kernels`` is the option's value.

    Raises:
        WorkbenchError: CMSIS-NN does not support the operators on the CPU.
    """
    if kernels not in CMSIS_NN_CPUS:
        return with_border_kernels(manager) if kernels else manager
    try:
        return with_cmsis_nn(manager, CMSIS_NN_CPUS[kernels])
    except Exception as error:  # what a pass raises comes wrapped as nothing but this
        lines = str(error.__cause__ or error).splitlines() or [type(error).__name__]
        raise failure(
            f"CMSIS-NN cannot compute the operators on the CPU: {lines[0]}",
            "Choose other CPU kernels (Options\u2026, On the CPU).",
            Place(kind="option", id=f"target.options.{CPU_KERNELS}"),
            code="cmsis-nn-not-supported",
        ) from error


@dataclass(frozen=True)
class _Edge:
    """An edge program before border and runtime conversion, reused by other targets."""

    manager: Any
    tosa: list[bytes]
    reasons: dict[str, str]
    origins: list[vela.Origins]
    corrections: tuple[AppliedCorrection, ...] = ()
    record: Any = None


def lower(context: StageContext) -> tuple[Lowered, LowerResult]:
    """Compile the quantized program for the project's device, and for a placement that it fits.

    Raises:
        WorkbenchError: Vela rejected the program; with its message and a remedy.
    """
    described = candidates(context.opened)
    projects = described or [("", context.project)]
    untimed = "" if described else undescribed(context.opened)
    attempts: list[tuple[Lowered, LowerResult]] = []
    for name, project in projects:
        lowered, result = _lower(context, target_of(project.target.id).complete(project.target))
        update = {"board": project.board, "placement": name, "untimed": untimed}
        attempts.append((lowered, result.model_copy(update=update)))
        beside = len(lowered.weights or b"")
        placed = of_program(OpenProject(project, context.folder), lowered.pte, beside) if name else None
        if placed is None or placed.fits:
            return attempts[-1]
        context.log(f"{sentence(placed)} Placement: {name}.")
    # The program fits none: that of the project's choice, without a placement and without a time.
    lowered, result = attempts[0]
    untimed = "No time: the program fits no placement that the board's file describes."
    return lowered, result.model_copy(update={"placement": "", "untimed": untimed})


def _lower(context: StageContext, choice: TargetChoice) -> tuple[Lowered, LowerResult]:
    """Compile the quantized program for a complete choice.

    A program that was compiled for another device of the same TOSA specification is not lowered
    again: only Vela runs.
    """
    refuse_control_flow(context, choice)
    refuse_custom(context.live("convert").module)
    forecasts = _forecasts(context)
    off = context.project.cpu_only_rules()
    key = f"{context.plan.key('convert')} {off} {switched_off(choice.options, 'compile')}"
    known: _Edge | None = context.store.get("edge", key) if context.accelerate else None
    retargeted = known is not None and has_same_tosa(known.manager, compile_spec(choice))
    progress = _Progress(context.progress)
    progress.reach(0.0, "compiling" if retargeted else "decomposing operators")
    try:
        with _compiling(context, choice) as compiled:
            if known is not None and retargeted:
                make_spec = partial(compile_spec, choice)
                manager = recompile_for_device(known.manager, known.tosa, make_spec)
                edge = replace(known, manager=manager)
            else:
                watched, methods = (cpu_only_check(context, off), progress), methods_for_runners(context)
                edge = _lowered(context.live("convert").program, choice, compiled, watched, methods)
            progress.reach(_DELEGATED, "planning memory and writing the program")
            context.store.keep("edge", key, edge)
            lowered, runtime = _runtime(edge, choice, is_decoder=sources.reads_text(context.project))
    except SystemExit as error:
        raise vela_left(error) from error
    except RuntimeError as error:
        refused = too_many_inputs(context.live("convert").program.graph_module) or vela_refused(error).infos
        raise WorkbenchError([*forecasts, *refused]) from error
    except (WorkbenchError, OSError):
        raise
    except Exception as error:
        # A pass manager wraps what a pass raises, also the end that the user asked for.
        context.check_cancelled()
        if error_info := loop_refused(error):
            raise error_info from error
        failed = lowering_failed(error, foretold=bool(forecasts))
        raise WorkbenchError([*forecasts, failed]) from error
    with _record(context, edge, runtime) as record:
        result = _result(context, choice, lowered, compiled, edge, runtime)
        lowered.record = record()
    warnings = (*result.warnings, *(f"{info.message} {info.hint}" for info in forecasts))
    return lowered, result.model_copy(update={"retargeted": retargeted, "warnings": warnings})


def _rewrites_with_cycles(
    context: StageContext, choice: TargetChoice, reports: Sequence[VelaReport]
) -> tuple[AppliedRewrite, ...]:
    """Return the rewrites with Vela's estimates of what they replaced and of what is there now.

    Without estimates where the operations as they were written cannot be compiled.
    """
    rewrites = context.result("prepare", PrepareResult).rewrites
    progress = _Progress(lambda *_: context.check_cancelled())
    try:
        written = written_places(context, rewrites)
        if written is None:
            return rewrites
        with _compiling(context, choice) as compiled:
            plain = choice.model_copy(update={"options": {**choice.options, ETRECORD: False}})
            _lowered(written.program, plain, compiled, (None, progress))
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the tools raise for what is not delivered
        context.check_cancelled()
        context.log(f"The cycles before rewriting are unknown: {error}")
        return rewrites
    clock = clock_of(choice, context.folder)
    before = _vela_reports(compiled, compiled.origins, clock, choice.id)
    operations = (
        [operation for report in given for operation in report.operations] for given in (before, reports)
    )
    return tuple(with_cycles(rewrites, written, *operations))


def _vela_reports(
    compiled: vela.Recording, origins: Sequence[vela.Origins], clock: float, device: str
) -> tuple[VelaReport, ...]:
    return tuple(
        vela.report(index, model, clock, origins[index], device)
        for index, model in enumerate(compiled.models)
    )


def _forecasts(context: StageContext) -> list[ErrorInfo]:
    """Return and log what ``check`` foretells of the program, before it is compiled."""
    graph = GraphSnapshot.load(context.path("export") / GRAPH_FILE)
    prepared = context.result("prepare", PrepareResult)
    resolution = resolve_graph(context.project, graph, prepared)
    forecasts = list(whole_refusals(context.project, graph, resolution, prepared))
    for info in forecasts:
        context.log(f"Forecast: {info.message} {info.hint}")
    return forecasts


@contextmanager
def _compiling(context: StageContext, choice: TargetChoice) -> Iterator[vela.Recording]:
    functions, _ = correction_functions(choice.options, "compile")
    with ExitStack() as stack:
        stack.enter_context(own_ini_at_hand(choice, context.folder))
        stack.enter_context(accelerated(context.accelerate))
        changed = stack.enter_context(corrected_compiler(functions))
        compiled = stack.enter_context(vela.recorded())
        compiled.corrected = changed
        yield compiled


def tosa_on_npu(program: Any, choice: TargetChoice) -> list[bytes]:
    """Return the TOSA of the delegates of a quantized program; none if an operator is on the CPU."""
    functions, _ = correction_functions(choice.options, "compile")
    plain = choice.model_copy(update={"options": {**choice.options, ETRECORD: False}})
    with corrected_compiler(functions), vela.recorded() as compiled:
        edge = _lowered(program, plain, compiled, (None, _Progress(lambda *_: None)))
    on_cpu = cpu_nodes(edge.manager.exported_program(), edge.reasons, {}, device_of(choice))
    return edge.tosa if {node.cause for node in on_cpu} <= {"border", "conversion"} else []


def refusal(
    context: StageContext, off: Sequence[tuple[str, str]], report: Callable[[float, str], None]
) -> str:
    """Return why the quantized program cannot be compiled with these parts off the NPU, or "".

    Args:
        context: The context of the study that asks.
        off: Kinds and matches of rules, as ``Project.cpu_only_rules`` gives them.
        report: Called with the part of the lowering that is done and what is done next.
    """

    def report_progress(done: int, total: int | None, message: str) -> None:
        context.check_cancelled()
        report(done / (total or 1), message)

    progress = _Progress(report_progress)
    choice = target_of(context.project.target.id).complete(context.project.target)
    check = cpu_only_check(context, off)
    try:
        with _compiling(context, choice) as compiled:
            _lowered(context.live("convert").program, choice, compiled, (check, progress))
    except SystemExit as error:
        return vela_left(error).infos[0].message
    except RuntimeError as error:
        return vela_refused(error).infos[0].message
    except WorkbenchError as error:
        return error.infos[0].message
    except ValueError as error:
        # Error type of the passes before Vela.
        return str(error)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - a pass manager raises nothing else
        context.check_cancelled()
        return lowering_failed(error, foretold=False).message
    return ""


# Where a lowering is after each of its parts: shares of the time of a CNN and a transformer.
_DECOMPOSED, _EDGE, _PARTITIONED, _DELEGATED = 0.2, 0.32, 0.36, 0.95
_STEPS = 1000


class _Progress:
    """The part of a lowering that is done: never less than before, and 1 only at the end.

    Args:
        report: Takes done, total and a message, as ``StageContext.progress`` does.
    """

    def __init__(self, report: Callable[[int, int | None, str], None]) -> None:
        self._report = report
        self._share, self._delegates, self._compiled = 0.0, 1, 0

    def reach(self, share: float, message: str) -> None:
        """Report a share of the work, or what was reported before if that is more."""
        self._share = max(self._share, share)
        self._report(int(self._share * _STEPS), _STEPS, message)

    def edge(self, done: bool) -> None:
        """Report the conversion to the edge dialect."""
        if done:
            self.reach(_EDGE, "partitioning")
        else:
            self.reach(_DECOMPOSED, "converting to the edge dialect")

    def counted(self, delegates: int) -> None:
        """Take the number of delegates, which the passes are counted over."""
        self._delegates = max(1, delegates)
        self.reach(_PARTITIONED, f"{plural(delegates, 'delegate')} to compile")

    def passes(self, name: str, index: int, total: int) -> None:
        """Report the next of ``total`` passes over the present delegate."""
        part = min((self._compiled + index / total) / self._delegates, 1.0)
        number = min(self._compiled + 1, self._delegates)
        where = f"delegate {number} of {self._delegates}"
        if index == total:
            self._compiled += 1
        step = f"pass {index + 1} of {total} ({name})" if index < total else "compiling"
        self.reach(_PARTITIONED + part * (_DELEGATED - _PARTITIONED), f"{where}: {step}")


def _lowered(
    program: Any,
    choice: TargetChoice,
    compiled: vela.Recording,
    watched: tuple[KeptOff | None, _Progress],
    methods: Mapping[str, int | bool] | None = None,
) -> _Edge:
    check, progress = watched
    partitioner = CheckingPartitioner(compile_spec(choice), [check] if check else None, progress.counted)
    functions, states = correction_functions(choice.options, "compile")
    with ExitStack() as stack:
        tosa = stack.enter_context(capture_tosa())
        reasons = stack.enter_context(partition_reasons())
        changed = stack.enter_context(corrected(functions))
        stack.enter_context(watched_passes(progress.edge, progress.passes))
        manager = to_edge_transform_and_lower(
            program,
            partitioner=[partitioner],
            constant_methods=dict(methods or {}),
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
            generate_etrecord=bool(choice.options.get(ETRECORD, True)),
        )
    corrections = tuple(
        row.model_copy(update={"places": tuple(dict.fromkeys(names)), "times": len(names)})
        for row, names in ((row, changed.get(row.id, ())) for row in states)
    )
    record = _take_record(manager)
    return _Edge(manager, list(tosa), reasons, compiled.origins, corrections, record)


def _runtime(edge: _Edge, choice: TargetChoice, *, is_decoder: bool) -> tuple[Lowered, Any]:
    """Return the compiled program with its bytes; ``edge`` is unchanged."""
    manager = copy.deepcopy(edge.manager)
    if choice.options["integer_io"]:
        manager = with_integer_borders(manager)
    manager = with_kernels(with_out_variants(manager), str(choice.options.get(CPU_KERNELS, "")))
    refuse_unwritable(manager)
    program = copy.deepcopy(manager).exported_program()
    runtime = manager.to_executorch(config=_runtime_config(program, is_decoder))
    graph = tosa_snapshot(edge.tosa, edge.origins)
    lowered = Lowered(program, edge.tosa, bytes(runtime.buffer), graph)
    if choice.options.get(EXTERNAL_WEIGHTS):
        lowered.weights = _weights(runtime)
    return lowered, runtime


@contextmanager
def _record(context: StageContext, edge: _Edge, runtime: Any) -> Iterator[Callable[[], bytes | None]]:
    """Write the record in a copy of the engine; yield a function that waits for its bytes."""
    if edge.record is None:
        yield lambda: None
        return
    with Beside(partial(_written_record, edge.record, runtime), context.check_cancelled) as writing:
        yield writing.result


def _runtime_config(program: Any, is_decoder: bool) -> ExecutorchBackendConfig:
    """Return the runtime configuration; mutable buffers are initialised from the program.

    Otherwise the runtime leaves their memory uninitialised, and a NaN there survives any mask. A
    decoder's constants are computed ahead of time, as in ExecuTorch's export of language models.
    """
    signature = program.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    written = sorted(n for n, target in signature.inputs_to_buffers.items() if target in changed)
    passes = [InitializedMutableBufferPass(written)] if written else []
    return ExecutorchBackendConfig(
        extract_delegate_segments=False, passes=passes, do_quant_fusion_and_const_prop=is_decoder
    )


def _weights(runtime: Any) -> bytes | None:
    """Return the separate weights file; None if no delegate has weights."""
    with tempfile.TemporaryDirectory() as folder:
        runtime.write_tensor_data_to_file(folder)
        path = Path(folder) / f"{WEIGHTS}.ptd"
        return path.read_bytes() if path.exists() else None


def _result(
    context: StageContext,
    choice: TargetChoice,
    lowered: Lowered,
    compiled: vela.Recording,
    edge: _Edge,
    runtime: Any,
) -> LowerResult:
    delegates = programs.delegates(lowered.edge)
    graphs = [module.original_module.graph for module in delegates.values()]
    on_cpu = tuple(cpu_nodes(lowered.edge, edge.reasons, not_quantized(context), device_of(choice)))
    inside = sum(1 for g in graphs for n in g.nodes if n.op == "call_function")
    kernels = tuple(_kernels(runtime))
    clock = clock_of(choice, context.folder)
    reports = tuple(
        with_limits(report, choice.id) for report in _vela_reports(compiled, edge.origins, clock, choice.id)
    )
    return LowerResult(
        target=choice.id,
        system_config=str(choice.options["system_config"]),
        memory_mode=str(choice.options["memory_mode"]),
        delegates=len(delegates),
        delegated_nodes=inside,
        cpu_nodes=on_cpu,
        random_weights=context.result("import_model", ImportResult).random_weights,
        border_elements=_border_elements(lowered.edge, on_cpu),
        kernels=kernels,
        vela=reports,
        rewrites=_rewrites_with_cycles(context, choice, reports),
        pte_bytes=len(lowered.pte),
        accelerated=context.accelerate,
        corrections=tuple(
            row.model_copy(update={"places": tuple(compiled.corrected[row.id])})
            if row.id in compiled.corrected
            else row
            for row in edge.corrections
        ),
        vela_version=tool_version("ethos-u-vela"),
        warnings=(
            *_over_sram_limit(choice, reports),
            *(() if delegates else ("Nothing runs on the NPU: no operator was delegated.",)),
            *missing_kernels(kernels, on_cpu),
        ),
    )


def _over_sram_limit(choice: TargetChoice, reports: Sequence[VelaReport]) -> tuple[str, ...]:
    """Return a warning if the NPU needs more SRAM than the target's limit, which Vela then exceeds."""
    limit = choice.options.get("arena_cache_bytes")
    needed = max((report.sram_bytes for report in reports), default=0)
    if not isinstance(limit, int) or needed <= limit:
        return ()
    return (
        f"The NPU needs {needed / 1024:,.1f} KiB of SRAM, more than the SRAM limit of "
        f"{limit / 1024:,.1f} KiB (arena_cache_bytes): Vela found no schedule with less. Give the "
        "network smaller inputs, or raise the limit.",
    )


def _border_elements(program: Any, on_cpu: Sequence[CpuNode]) -> int:
    """Return the number of floats that are converted at the ends of a program."""
    names = {node.node for node in on_cpu if node.cause == "border"}
    values = (n.meta.get("val") for n in program.graph.nodes if n.name in names)
    return sum(int(value.numel()) for value in values if hasattr(value, "numel"))


def _kernels(runtime: Any) -> list[str]:
    """Return the names of the kernels a runtime must link, e.g. ``aten::add.out``."""
    plan = runtime.executorch_program.execution_plan[0]
    names = (f"{op.name}.{op.overload}" if op.overload else op.name for op in plan.operators)
    return sorted(set(names))


# Entries of equal programs are equal: they have no date.
_DATE = (1980, 1, 1, 0, 0, 0)
_FOLDER = re.compile(r'File "[^"]*[\\/]([^"\\/]+)"')


def _take_record(manager: Any) -> Any:
    """Return the ETRecord that an edge manager holds, and remove it there; None if it has none.

    ExecuTorch's Inspector names the events of a run with it: it has the edge program before its
    operators went to the NPU, and the numbers by which the runtime names instructions. Source:
    ExecuTorch 1.5.1, ``devtools/etrecord``.

    The program of torch is left out: the Inspector reads the edge program. Folders are left out of
    the lines of source, so that equal models in other folders give equal records.
    """
    record = manager._etrecord  # noqa: SLF001 - ``get_etrecord`` asks the compiled program
    manager._etrecord = None  # noqa: SLF001
    if record is None:
        return None
    record.exported_program = record.export_graph_id = None
    # Example inputs are a sample of the user's data; the Inspector does not need them.
    record.edge_dialect_program._example_inputs = None  # noqa: SLF001
    for node in record.edge_dialect_program.graph.nodes:
        # Ids of objects in memory, which differ from run to run.
        node.meta.pop("from_node", None)
        if trace := node.meta.get("stack_trace"):
            node.meta["stack_trace"] = _FOLDER.sub(r'File "\1"', trace)
    return record


def _written_record(record: Any, runtime: Any) -> bytes:
    """Return the file of a record for a compiled program; equal programs give equal bytes.

    Args:
        record: As ``_take_record`` returned it.
        runtime: The compiled program (``ExecutorchProgramManager``).
    """
    own = record.copy()
    own.add_executorch_program(runtime)
    plain, packed = io.BytesIO(), io.BytesIO()
    own.save(plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(packed, "w") as target:
        for name in source.namelist():
            entry = zipfile.ZipInfo(name, _DATE)
            target.writestr(entry, source.read(name), zipfile.ZIP_DEFLATED, 1)
    return packed.getvalue()
