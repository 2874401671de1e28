"""A board chosen in the window sets the target in one step and says whether the program fits."""

from pathlib import Path

from ui.features.memory.memory_panel import BoardFit
from ui.features.memory.sram_budget import SramBudget
from ui.shared.target_form import BoardBox
from ui.shared.theme import DARK
from workbench.deploy.boards import load
from workbench.deploy.fitting import of_program
from workbench.project import edits
from workbench.project.board_files import own_folder
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject

PROGRAM = Path(__file__).parents[2] / "data" / "programs" / "u55.pte"
BROKEN = 'title = "Broken"\n'


def bar_devices(project):
    return {device for npu in load(project.board, Path()).npu for device in npu.devices}


def pick(box, board):
    box.fill()
    box.setCurrentIndex(box.findData(board))
    box.activated.emit(box.currentIndex())


def test_that_a_board_sets_the_target_or_changes_nothing_and_tells_its_verdict(opened, notices, qtbot):
    # A board sets the target in one step.
    box = opened.window.pipeline.board
    before = opened.document.project
    pick(box, "renesas-ra8p1")
    project = opened.document.project
    assert opened.document.undo_stack.undoText() == "Set board to Renesas EK-RA8P1"
    assert project.target.options["system_config"] == "RA8P1"
    assert (box.currentText(), box.currentData()) == ("Renesas EK-RA8P1", "renesas-ra8p1")
    # Only its devices are offered; one that it lacks is marked.
    bar = opened.window.pipeline
    device, goal = bar.target.device, bar.goal
    offered = {device.itemData(row) for row in range(device.count()) if device.model().item(row).isEnabled()}
    assert offered == bar_devices(project)
    assert not goal.property("invalid")
    opened.document.apply("Set", lambda p: edits.set_target(p, TargetChoice(id="ethos-u85-512")))
    assert goal.property("invalid")
    opened.document.undo_stack.undo()
    opened.document.undo_stack.undo()
    assert opened.document.project == before
    assert box.currentText() == "No board"
    # A board file that is broken changes nothing.
    (opened.document.folder / "mine.toml").write_text(BROKEN)
    before = opened.document.project
    opened.window.pipeline.board.chosen.emit("mine.toml")
    assert opened.document.project == before
    notices.take("npu: The value is missing.")
    # The verdict stands with the numbers of each memory.
    for board, words in [("renesas-ra8p1", "Fits Renesas"), ("himax-we2", "size from a secondary source")]:
        pick(opened.window.pipeline.board, board)
        fits = BoardFit(lambda: DARK)
        qtbot.addWidget(fits)
        fit = of_program(OpenProject(opened.document.project, opened.document.folder), PROGRAM.read_bytes())
        fits.render_fit(fit)
        assert words in fits.verdict.text()
        # Each memory of the board is a bar with what it holds.
        assert [bar.name for bar in fits.memories.bars] == [f.name for f in fit.fillings]
        assert "scratch pool" in fits.memories.toolTip()
        assert "computed from the program" in fits.memories.toolTip()
        fits.memories.grab()
        fits.render_fit(None)
        assert fits.isHidden()


def test_that_a_board_that_cannot_be_used_is_offered_with_the_reason_only(qtbot):
    own_folder().mkdir(parents=True)
    (own_folder() / "mine.toml").write_text(BROKEN)
    box = BoardBox()
    qtbot.addWidget(box)
    box.fill()
    row = box.findText("mine: cannot be used")
    assert not box.model().item(row).isEnabled()
    assert "npu: The value is missing." in box.model().item(row).toolTip()
    assert box.findData("corstone-300") > 0


def test_that_a_budget_without_positions_says_why(qtbot):
    budget = SramBudget()
    qtbot.addWidget(budget)
    budget.render_points([], None, "", problem="Nothing runs on the NPU.")
    assert budget.figures.text() == "Nothing runs on the NPU."
    assert budget.slider.isHidden()


def test_that_a_program_that_does_not_fit_is_a_problem(opened, qtbot):
    small = (
        'title = "Small"\n[[npu]]\ndevices = ["ethos-u55-128"]\nsource = "me"\n'
        'system_config = "Ethos_U55_High_End_Embedded"\nmemory_modes = ["Shared_Sram"]\n'
        '[[memory]]\nname = "RAM"\nkind = "sram"\nbytes = 4096\nsource = "me"\n'
        '[[memory]]\nname = "flash"\nkind = "flash"\nbytes = 1048576\nsource = "me"\n'
    )
    (opened.document.folder / "small.toml").write_text(small)
    opened.window.pipeline.board.chosen.emit("small.toml")
    assert opened.window.pipeline.board.currentText() == "Small"
    opened.runs.run_to("lower")
    qtbot.waitUntil(lambda: not opened.runner.running)
    (opened.session.result("lower") / "program.pte").write_bytes(PROGRAM.read_bytes())
    opened.checker.check()
    model = opened.context.problems
    said = [model.index(row, 1).data() for row in range(model.rowCount())]
    assert any("Does not fit Small" in text for text in said)
