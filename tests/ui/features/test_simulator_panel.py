"""The Simulator panel: what this machine has is named here, and a run is read here."""

import pytest

from tests.fakes import checkout, fvp, results, runner_elf
from tests.fakes.engine import Play
from ui.features.simulator.board_dialog import BoardDialog
from ui.features.simulator.run_view import OPERATIONS, OUTPUTS
from ui.features.simulator.runner_dialog import RunnerDialog
from ui.shared.log_lines import Role
from ui.shared.simulation_text import simulation_cards, simulation_text
from workbench.deploy.emulation.findings import Proof
from workbench.deploy.emulation.proofs import keep_proof
from workbench.deploy.simulators.discovery import MachineSettings, load_settings, save_settings
from workbench.files import file_digest

BINARY = "FVP_Corstone_SSE-300_Ethos-U55"


@pytest.fixture
def panel(opened, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/nowhere")
    return opened.window.reveal("simulator")


@pytest.fixture
def named(panel, opened, qtbot, tmp_path):
    """The panel with a simulator and a runner chosen."""
    functional = opened.session.stage("run").key
    runner = tmp_path / "runner.elf"
    runner.write_bytes(runner_elf.runner("u55"))
    panel.machine.runner_chosen.emit(str(runner))
    panel.machine.simulator_chosen.emit(str(fvp.install(tmp_path / "fvp", BINARY)))
    qtbot.waitUntil(lambda: opened.session.stage("run").key != functional)
    return panel


def lines(panel):
    model = panel.log.model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def test_that_what_is_missing_is_said_and_a_wrong_runner_or_address_is_refused(
    panel, qtbot, notices, tmp_path
):
    # What is missing is said with how to get it.
    qtbot.waitUntil(lambda: bool(panel.machine.hint.text()))
    hint, note = panel.machine.hint.text(), panel.frames["run"].note.label.text()
    assert "https://developer.arm.com" in hint
    assert "Build" in hint
    assert "Simulator panel" not in hint + note
    assert panel.frames["run"].note.button.isVisible()
    # A wrong runner or address is refused.
    # A file that is no runner is refused.
    (tmp_path / "photo.elf").write_bytes(b"JFIF")
    panel.machine.runner_chosen.emit(str(tmp_path / "photo.elf"))
    assert "arm_executor_runner" in notices.take("The runner photo.elf is not an ELF file").hint
    assert load_settings().runners == ()
    # An address must be one.
    dialog = dialog_of(panel)
    dialog.checkout.set_text(str(checkout.make(tmp_path / "executorch")))
    dialog.placement.setCurrentIndex(2)
    dialog.address.setText("nowhere")
    dialog.address.textEdited.emit("nowhere")
    assert "0x62000000" in dialog.state.text()
    assert not dialog.build.isEnabled()


def test_that_firmware_is_shown_as_proven_with_this_program_only(panel, opened, qtbot, tmp_path):
    opened.runs.run_to("package")
    qtbot.waitUntil(lambda: opened.session.result("package") is not None and not opened.runner.running)
    folder, elf = opened.session.result("package"), tmp_path / "app.elf"
    elf.write_bytes(b"firmware")
    program = folder / "net.pte"
    save_settings(MachineSettings(firmware=str(elf)))
    digests = file_digest(program), file_digest(elf)
    proof = Proof("ethos-u55-128", "7.2.22", *digests, delegates=1, driver="1.0.0", exit_code=0)
    proof.jobs.append({"delegate": 0})
    panel.refresh()
    assert panel.machine.firmware.text().endswith("app.elf")
    keep_proof(elf, program, proof)
    panel.refresh()
    assert "proven on an emulated Cortex-M55 with driver 1.0.0" in panel.machine.firmware.text()
    assert digests[0][:16] in panel.machine.firmware.toolTip()
    elf.write_bytes(b"firmware, built again")
    panel.refresh()
    assert panel.machine.firmware.text().endswith("app.elf")


def test_that_measured_cycles_of_a_chosen_simulator_stand_beside_the_estimated_ones(
    named, qtbot, tmp_path, opened, engines
):
    # What the serial port says now is shown while it runs.
    engines.plays = [Play(hold="run")]
    opened.runs.run_to("run")
    qtbot.waitUntil(lambda: bool(lines(named)))
    assert lines(named)[0].endswith("at work on run")
    opened.runs.cancel()
    qtbot.waitUntil(lambda: not opened.runner.running)
    assert lines(named)[0].endswith("at work on run")
    engines.play(Play())
    # A chosen simulator and runner make the run possible.
    assert named.machine.simulator.text() == f"\u2026/fvp/{BINARY}"
    assert named.machine.simulator.toolTip() == str(tmp_path / "fvp" / BINARY)
    assert named.machine.runner.text().endswith("runner.elf")
    assert named.machine.hint.text() == ""
    qtbot.waitUntil(named.frames["run"].note.button.isVisible)
    named.machine.fast.click()
    assert load_settings().fast
    named.machine.fast.click()
    # Measured cycles stand beside the estimated ones.
    named.machine.trace.click()
    assert load_settings().trace
    opened.runs.run_to("run")
    qtbot.waitUntil(lambda: named.has("run"))
    named.view.setCurrentIndex(OPERATIONS)
    model = named.view.traced_table.model()
    shown = [model.index(0, column).data() for column in range(6)]
    assert shown == ["Conv2D", "stem.conv", "900", "1,098", "+198", "+22 %"]
    named.view.setCurrentIndex(OUTPUTS)
    model = named.view.sample_table.model()
    assert [model.index(1, column).data() for column in range(4)] == ["2", "0", "1", "same"]
    assert named.view.to_quantized.counts == {-1: 2, 0: 157, 1: 1}
    named.view.traced_table.selectRow(0)
    assert opened.window.context.selection.value.modules == {"stem.conv"}
    model = named.view.event_table.model()
    assert [model.index(0, c).data() for c in range(4)] == ["add.out", "CPU kernel", "321", "1"]
    named.machine.fast.click()
    assert not named.machine.trace.isEnabled()


def test_that_a_chosen_simulator_shows_measured_figures_and_a_board_takes_its_place(named, opened, qtbot):
    # A run shows measured figures and the serial port.
    opened.runs.run_to("run")
    qtbot.waitUntil(lambda: named.has("run"))
    qtbot.waitUntil(lambda: "NPU cycles: 1,180, measured (FVP 11.27.42)" in named.cards.texts())
    assert "Measured / estimated: 118 %, measured (FVP 11.27.42)" in named.cards.texts()
    assert "Equal to TOSA: 100.00 %, measured (FVP 11.27.42)" in named.cards.texts()
    assert "reading weights bounds the run" in named.view.text.text()
    assert "2 by -1 LSB, 1 by +1 LSB; most in sample 2" in named.view.text.text()
    qtbot.waitUntil(lambda: named.log.model().rowCount() == 3)
    assert lines(named)[0].endswith("Model run: 1")
    assert named.log.model().index(1, 0).data(Role.LEVEL) == "error"
    assert lines(named)[2] == "caf\xe9"
    # A board is set up and takes the place of the simulator.
    with_fvp = opened.session.stage("run").key
    assert not named.machine.on_board.isEnabled()
    named.machine.set_board.click()
    dialog = named.findChild(BoardDialog)
    dialog.port.setEditText(" ")
    assert not dialog.save.isEnabled()
    dialog.port.setEditText("/dev/ttyACM7")
    dialog.flash.setText("probe-rs download {elf}")
    dialog.elf.set_text("build/{name}.elf")
    dialog.save.click()
    qtbot.waitUntil(lambda: opened.session.stage("run").key != with_fvp)
    link = load_settings().board
    assert (link.port, link.flash, link.elf) == (
        "/dev/ttyACM7",
        "probe-rs download {elf}",
        "build/{name}.elf",
    )
    assert named.machine.board.text() == "/dev/ttyACM7"
    assert named.machine.on_board.isChecked()
    assert not named.machine.trace.isEnabled()
    named.machine.on_board.click()
    qtbot.waitUntil(lambda: opened.session.stage("run").key == with_fvp)
    assert named.machine.trace.isEnabled()


def dialog_of(panel):
    panel.parts.show_part(panel.machine)
    panel.machine.build.click()
    return panel.findChild(RunnerDialog)


def test_that_a_build_shows_how_far_it_is_and_can_be_stopped(panel, opened, engines, qtbot, tmp_path):
    # A build shows how far it is and can be stopped.
    opened.runner.warm_up("machine")
    qtbot.waitUntil(lambda: opened.runner.engine_state("machine") == "ready")
    engine = engines.made[-1]
    engine.hold_study_at = 42
    dialog = dialog_of(panel)
    sources = checkout.make(tmp_path / "executorch")
    dialog.checkout.set_text(str(sources))
    dialog.build.click()
    qtbot.waitUntil(lambda: panel.machine.progress.text() == "Building a runner: 42 %")
    assert panel.machine.progress.isVisible()
    opened.runs.run_to("lower")
    qtbot.waitUntil(lambda: opened.session.stage("lower").state == "cached")
    panel.machine.build.click()
    qtbot.waitUntil(lambda: not panel.machine.progress.isVisible())
    assert load_settings().runners == ()


def test_that_a_runner_is_built_from_a_checkout_and_then_used(panel, engines, qtbot, tmp_path):
    sources = checkout.make(tmp_path / "executorch")
    dialog = dialog_of(panel)
    assert not dialog.build.isEnabled()
    assert "git clone" in dialog.state.text()
    dialog.checkout.set_text(str(tmp_path))
    assert "is missing" in dialog.state.text()
    dialog.checkout.set_text(str(sources))
    assert dialog.build.isEnabled()
    dialog.build.click()
    qtbot.waitUntil(lambda: panel.machine.runner.text() == "\u2026/made/arm_executor_runner")
    assert panel.machine.build.text() == "Build\u2026"
    (command,) = [c for c in engines.commands if hasattr(c, "study")]
    assert command.options["wanted"] == "semihosting"
    assert load_settings().executorch == str(sources)


def test_that_figures_of_a_board_are_measured():
    result = results.result_of("run").model_copy(update={"kind": "board"})
    origins = {card.title: card.origin for card in simulation_cards(result)}
    assert origins["NPU cycles"] == "measured (board)"


def test_that_the_text_says_how_many_of_the_verified_samples_were_simulated():
    result = results.result_of("run").model_copy(update={"samples": 1})
    verified = results.result_of("verify").model_copy(update={"samples": 128, "max_lsb": 77})
    text = simulation_text(result, verified)
    assert "1 of 128" in text
    assert "77 LSB" in text
    assert simulation_text(result, verified.model_copy(update={"samples": 1})) == simulation_text(result)
