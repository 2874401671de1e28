"""A project's program is run on the double of a simulator, and its outputs are compared."""

from __future__ import annotations

import base64
import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.engine.in_process import CALIBRATED, project, without
from tests.fakes import checkout, fvp, runner_elf
from tests.fakes.board import FakeBoard, lines_of
from workbench.deploy.simulators.discovery import BoardLink, MachineSettings, load_settings, save_settings
from workbench.npu.program import load
from workbench.pipeline.plan import plan
from workbench.project import edits
from workbench.project.opened import OpenProject
from workbench.protocol import RunStudy, StageFailed

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]
BINARY = "FVP_Corstone_SSE-300_Ethos-U55"


@pytest.fixture
def machine(tmp_path):
    """Name the double and a runner on this machine."""
    simulator = fvp.install(tmp_path / "simulators", BINARY)
    runner = tmp_path / "runner.elf"
    runner.write_bytes(runner_elf.runner("u55", serves=True))
    save_settings(MachineSettings(simulators={"u55": str(simulator)}, runners=(str(runner),)))


def integer(model):
    made = project(model, **CALIBRATED)
    options = {**made.target.options, "integer_io": True}
    target = made.target.model_copy(update={"options": options})
    verification = made.verification.model_copy(update={"samples": 2})
    return made.model_copy(update={"target": target, "verification": verification})


@pytest.mark.slow
def test_that_a_simulated_program_is_compared_with_what_was_promised(engine, machine, monkeypatch):
    made = integer("small")
    assert engine.run(made, "lower", "evaluate") == "done"
    monkeypatch.setenv("FVP_DOUBLE_LOWERED", str(engine.path(made, "lower")))
    assert plan(OpenProject(made, engine.folder), engine.cache).of("run").state == "stale"
    monkeypatch.setenv("FVP_DOUBLE_FAIL", "kernel")
    assert engine.run(made, "run", "evaluate", "verify") == "failed"
    reason, cause, *_ = next(e.infos for e in engine.events if isinstance(e, StageFailed))
    assert "before the program had finished" in reason.message or "0 of 2" in reason.message
    assert cause.code == "simulation-diagnosis"
    assert "--select_ops_list" in cause.hint

    monkeypatch.setenv("FVP_DOUBLE_FAIL", "")
    assert engine.run(made, "run", "evaluate", "verify") == "done", engine.events
    result = engine.result(made, "run")
    assert result.report.exit_reason.startswith("All 2 samples were computed in one start")
    assert result.against_reference.exact == result.against_reference.elements > 0
    assert result.against_reference.sample_max_lsb == (0, 0)
    assert result.against_quantized.max_lsb <= 2
    assert result.cycles > 0
    assert result.estimated_cycles > 0
    assert "SERVER_INFERENCE_DONE 1" in (engine.path(made, "run") / "uart.log").read_text()
    assert any("SERVER_INFERENCE_DONE" in getattr(e, "text", "") for e in engine.events)


@pytest.mark.slow
def test_that_channels_last_reach_the_simulator_as_they_lie(engine, machine, monkeypatch):
    made = integer("channels_last").model_copy(update={"calibration": None})
    assert engine.run(made, "lower", "evaluate") == "done"
    monkeypatch.setenv("FVP_DOUBLE_LOWERED", str(engine.path(made, "lower")))
    assert engine.run(made, "run", "evaluate", "verify") == "done", engine.events
    result = engine.result(made, "run")
    assert result.against_reference.exact == result.against_reference.elements == 256


def test_that_a_traced_run_measures_every_operation_vela_estimated(engine, machine, monkeypatch):
    made = integer("small")
    save_settings(load_settings().model_copy(update={"trace": True}))
    assert engine.run(made, "lower", "evaluate") == "done"
    monkeypatch.setenv("FVP_DOUBLE_LOWERED", str(engine.path(made, "lower")))
    assert engine.run(made, "run", "evaluate", "verify") == "done", engine.events
    result, (estimate,) = engine.result(made, "run"), engine.result(made, "lower").vela
    assert result.report.exit_reason == "The program ran to its end."
    rows = [(row.operator, row.name, row.module, row.estimated) for row in result.traced]
    assert rows == [(o.operator, o.name, o.module, o.cycles) for o in estimate.operations]
    assert any(row.module for row in result.traced)
    told = [row.cycles for row in result.traced if row.cycles is not None]
    assert 0.5 * result.cycles < sum(told) <= result.cycles + len(estimate.commands)
    assert {c.operation for c in estimate.commands} <= set(range(len(estimate.operations)))


def test_that_the_functional_simulator_runs_beside_the_fvp(engine, machine, monkeypatch):
    made = integer("small")
    assert engine.run(made, "lower", "evaluate") == "done"
    monkeypatch.setenv("FVP_DOUBLE_LOWERED", str(engine.path(made, "lower")))
    assert engine.run(made, "run", "evaluate", "verify") == "done", engine.events
    result = engine.result(made, "run")
    assert result.kind == "fvp"
    for found in (result.functional.against_simulator, result.functional.against_reference):
        assert found.exact == found.elements == result.against_reference.elements > 0


@pytest.mark.slow
def test_that_a_machine_without_a_fitting_runner_simulates_functionally(engine, machine):
    made = project("small", target="ethos-u85-256", **CALIBRATED)
    assert engine.run(made, "run", "evaluate") == "done", engine.events
    result = engine.result(made, "run")
    assert (result.kind, result.cycles, result.runner) == ("functional", None, "")
    assert result.against_reference.exact == result.against_reference.elements > 0
    assert "No runner on this machine is built for ethos-u85-256" in result.report.notes[0]
    with_fvp = plan(OpenProject(made, engine.folder), engine.cache).of("run").key
    save_settings(MachineSettings())
    assert plan(OpenProject(made, engine.folder), engine.cache).of("run").key == with_fvp


def test_that_operators_on_the_cpu_are_simulated_too(engine):
    made = edits.assign(project("small", **CALIBRATED), "module_name", "fc", "cpu")
    assert engine.run(made, "run", "evaluate") == "done", engine.events
    result = engine.result(made, "run")
    kernels = {node.op for node in engine.result(made, "lower").cpu_nodes}
    assert any("linear" in op or "addmm" in op for op in kernels)
    assert result.functional.refused == ""
    assert result.against_reference.exact == result.against_reference.elements > 0


@pytest.mark.parametrize(
    "wanted", [*(pytest.param(n, marks=pytest.mark.slow) for n in ("semihosting", "embedded")), "address"]
)
def test_that_a_runner_built_for_the_program_runs_it(engine, machine, monkeypatch, tmp_path, wanted):
    made = integer("small")
    tools = checkout.tools(tmp_path / "tools")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    save_settings(load_settings().model_copy(update={"runners": ()}))
    options = {"checkout": str(checkout.make(tmp_path / "executorch")), "wanted": wanted}
    engine.send(
        RunStudy(
            job="b",
            study="runner",
            project=made,
            folder=str(engine.folder),
            options={**options, "address": "0x62000000"},
            cache_root=str(engine.cache.root),
        )
    )
    assert engine.follow() == "done", engine.events
    built = Path(load_settings().runners[0])
    assert built.parent.name.startswith(f"ethos-u55-128-shared_sram-{wanted}")
    monkeypatch.setenv("FVP_DOUBLE_LOWERED", str(engine.path(made, "lower")))
    assert engine.run(made, "run", "evaluate", "verify") == "done", engine.events
    result = engine.result(made, "run")
    assert result.cycles > 0
    assert (result.against_reference.elements > 0) == (wanted != "address")
    assert result.against_reference.exact == result.against_reference.elements


@pytest.mark.parametrize("fails", ["", "cut-events"])
def test_that_recorded_events_are_read_by_executorchs_inspector(
    engine, machine, monkeypatch, tmp_path, fails
):
    made = integer("small")
    runner = tmp_path / "recording.elf"
    runner.write_bytes(runner_elf.runner("u55", etdump=True))
    save_settings(load_settings().model_copy(update={"runners": (str(runner),)}))
    assert engine.run(made, "lower", "evaluate") == "done"
    monkeypatch.setenv("FVP_DOUBLE_LOWERED", str(engine.path(made, "lower")))
    monkeypatch.setenv("FVP_DOUBLE_FAIL", fails)
    assert engine.run(made, "run", "evaluate", "verify") == "done", engine.events
    result = engine.result(made, "run")
    if fails:
        assert result.events == ()
        assert any("cannot be read" in note for note in result.report.notes)
        return
    kernels = [event.name for event in result.events if event.kind == "cpu"]
    assert kernels == ["convolution.out", "relu.out", "mean.out", "permute_copy.out", "addmm.out"]
    assert all(event.cycles > 0 and event.calls == 1 for event in result.events)


def bundled_outputs(bundle):
    """Return what the program computes for its first test vector."""
    program = load(bundle)
    (output,) = program.run(list(program.cases[0].inputs)).outputs
    return output.ravel().tolist()


ETDUMP = Path(__file__).parents[2] / "data" / "etdump.bin"


def test_that_simulate_runs_on_the_board_that_is_switched_on(engine, machine, tmp_path):
    made = integer("small")
    flashed = tmp_path / "flashed"
    code = f"import shutil, sys; shutil.copy(sys.argv[1], {str(flashed)!r})"
    flash = f"{sys.executable} -c {shlex.quote(code)} {{bpte}}"
    with_fvp = plan(OpenProject(made, engine.folder), engine.cache).of("run").key
    dump = base64.b64encode(ETDUMP.read_bytes()).decode()
    values = [0]
    for _ in range(2):
        flashed.unlink(missing_ok=True)
        lines = lines_of([("char", values)], cycles=4321)
        lines.insert(-3, f'echo "{dump}" | base64 -d >etdump.bin')
        with FakeBoard(flashed, lines, piece=512) as fake:
            # Another limit, since a result of the same board would not be computed again.
            limit = 60 + len(values)
            link = BoardLink(port=fake.port, flash=flash, simulate=True, timeout_s=limit)
            save_settings(load_settings().model_copy(update={"board": link}))
            assert engine.run(made, "run", "evaluate", "verify") == "done", engine.events
        result = engine.result(made, "run")
        assert (result.kind, result.samples, result.cycles) == ("board", 1, 4321)
        if values == [0]:
            # An incomplete output is not compared.
            assert result.against_reference.elements == 0
        values = bundled_outputs(flashed)
    assert {"cpu"} <= {event.kind for event in result.events}
    for found in (result.functional.against_simulator, result.against_reference):
        assert found.exact == found.elements == len(values)
    assert result.functional.samples == 2
    assert "Output[0][1]" in (engine.path(made, "run") / "uart.log").read_text()
    link = link.model_copy(update={"simulate": False})
    save_settings(load_settings().model_copy(update={"board": link}))
    assert plan(OpenProject(made, engine.folder), engine.cache).of("run").key == with_fvp


def test_that_a_board_that_cannot_be_read_fails_simulate_with_its_cause(engine):
    link = BoardLink(port="/dev/no-such-port", simulate=True)
    save_settings(MachineSettings(board=link))
    assert engine.run(integer("small"), "run", "evaluate", "verify") == "failed"
    (info,) = next(e.infos for e in engine.events if isinstance(e, StageFailed))
    assert info.code == "serial-port-unusable"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "config", "kernel"),
    [
        # A change of shape before the product: no instruction, the result lies at its address.
        ("attending", "a16w8", "aten.bmm.default"),
        # One operator with a list of outputs.
        ("wide_networks.py:gru_cell", "a8w8", "aten.split_with_sizes_copy.default"),
    ],
)
def test_that_views_and_lists_between_operators_on_the_cpu_are_simulated(engine, network, config, kernel):
    made = without(project(network, config), "written_out_cells")
    assert engine.run(made, "run", "evaluate") == "done", engine.events
    result = engine.result(made, "run")
    assert kernel in {node.op for node in engine.result(made, "lower").cpu_nodes}
    assert result.report.succeeded, result.report.exit_reason
    assert result.against_reference.exact == result.against_reference.elements > 0
