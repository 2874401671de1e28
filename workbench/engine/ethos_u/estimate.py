"""Vela estimates for a lowered TOSA program, without writing output files."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from workbench.engine.ethos_u.capture.vela_models import compiled_model
from workbench.engine.ethos_u.corrected_cycles import corrected
from workbench.errors import failure
from workbench.results import VelaTotals
from workbench.targets.ethos_u.checks import flags_of
from workbench.targets.ethos_u.devices import clock_hz
from workbench.targets.ethos_u.vela_ini import OPTION, OWN_INI, parse, section_for_vela, text_for_vela

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from workbench.engine.ethos_u.corrected_cycles import OperationCycles


def totals(model: Any, clock: float, operations: Iterable[OperationCycles]) -> VelaTotals:
    """Return the estimate for one compiled delegate.

    Args:
        model: regor's compiled model.
        clock: Clock of the NPU [Hz]; cycles / clock is the time.
        operations: The cycles of its operations, of ``corrected_cycles.corrected``.
    """
    figures = model.perf_report
    memories = {name.lower(): memory for name, memory in figures.memories.items()}
    counted = list(operations)
    stated = int(figures.totalCycles)
    cycles = stated - sum(operation.vela - operation.cycles for operation in counted)
    return VelaTotals(
        cycles_total=cycles,
        cycles_vela=stated,
        cycles_npu=int(figures.npuCycles) - sum(operation.vela_npu - operation.npu for operation in counted),
        inference_ms=cycles / clock * 1e3,
        sram_bytes=int(memories["sram"].peakUsage) if "sram" in memories else 0,
        flash_bytes=int(figures.readOnlyPeakUsage),
        macs=int(figures.macCount),
    )


def estimate(
    programs: Sequence[bytes], device: str, options: Mapping[str, Any], files: Mapping[str, str]
) -> VelaTotals:
    """Return Vela's estimate for all delegates of a program on a device.

    Cycles, time, constants and MACs are sums; SRAM is the maximum over the delegates.

    Args:
        programs: The TOSA flatbuffer of each delegate.
        device: E.g. ``ethos-u55-128``.
        options: All target options.
        files: The texts of the files that options refer to, by option: an own .ini, or none.

    Raises:
        WorkbenchError: Vela rejected the program; with its output.
    """
    name, ini = str(options["system_config"]), files.get(OPTION)
    clock = parse(ini, OWN_INI).systems[name].clock_hz if ini else clock_hz(name)
    models = [compile_network(tosa, device, options, ini) for tosa in programs]
    totals_of_all = [totals(m, clock, corrected(m, device).values()) for m in models]
    return VelaTotals(
        cycles_total=sum(t.cycles_total for t in totals_of_all),
        cycles_vela=sum(t.cycles_vela for t in totals_of_all),
        cycles_npu=sum(t.cycles_npu for t in totals_of_all),
        inference_ms=sum(t.inference_ms for t in totals_of_all),
        sram_bytes=max((t.sram_bytes for t in totals_of_all), default=0),
        flash_bytes=sum(t.flash_bytes for t in totals_of_all),
        macs=sum(t.macs for t in totals_of_all),
    )


def compile_network(
    network: bytes,
    device: str,
    options: Mapping[str, Any],
    ini: str | None,
    form: Literal["tosa", "tflite"] = "tosa",
) -> Any:
    """Return regor's model of a network, with its debug database.

    Args:
        network: A TOSA flatbuffer, or a TensorFlow Lite file with integers.
        device: E.g. ``ethos-u55-128``.
        options: All target options.
        ini: The text of an own .ini; None for Arm's.
        form: What ``network`` is.

    Raises:
        WorkbenchError: Vela rejected it; with its output.
    """
    captured = io.StringIO()
    with tempfile.TemporaryDirectory(prefix="vela-") as folder:
        file = Path(folder) / f"network.{form}"
        file.write_bytes(network)
        arguments = [*_arguments(Path(folder), device, options, ini, form), str(file)]
        try:
            with contextlib.redirect_stdout(captured), contextlib.redirect_stderr(captured):
                model = compiled_model(arguments)
        except SystemExit as error:
            raise failure(
                f"Vela rejected the options for {device}.",
                "See details for the compiler output.",
                details=captured.getvalue() or f"exit code {error.code}",
                code="vela-options-rejected",
            ) from error
        except (RuntimeError, IndexError, ValueError) as error:
            first = (str(error).strip().splitlines() or ["no reason given"])[0]
            raise failure(
                f"Vela could not compile it: {first}.",
                "See details for the compiler output.",
                details=str(error),
                code="vela-refused",
            ) from error
        if model is not None:
            return model
    words = captured.getvalue().strip().splitlines()
    raise failure(
        f"Vela created no program: {words[-1] if words else 'no output'}.",
        "See the log for Vela's output.",
        code="vela-no-output",
    )


def _arguments(
    folder: Path, device: str, options: Mapping[str, Any], ini: str | None, form: str
) -> list[str]:
    """Return Vela's command line without the network; an own .ini is written to the folder."""
    config, system = "Arm/vela.ini", str(options["system_config"])
    if ini is not None:
        config = str(folder / OWN_INI)
        text = text_for_vela(parse(ini, OWN_INI), system, device)
        Path(config).write_text(text, encoding="utf-8")
        system = section_for_vela(system, device)
    return [
        f"--accelerator-config={device}",
        f"--config={config}",
        f"--output-format={'raw' if form == 'tosa' else form}",
        f"--system-config={system}",
        f"--memory-mode={options['memory_mode']}",
        f"--output-dir={folder}",
        *flags_of(options),
    ]
