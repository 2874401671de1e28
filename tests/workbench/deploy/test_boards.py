"""Boards: each makes a target that Vela takes, fits or not in numbers, and a bad file is told."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.fakes.projects import make_project
from tests.for_each import for_each
from tests.problems import refused
from workbench.cli import main
from workbench.deploy import boards, fitting
from workbench.deploy.boards import Board, all_boards, load, read
from workbench.deploy.fitting import fit, of_program, sentence
from workbench.errors import WorkbenchError
from workbench.project import edits, store
from workbench.project.board_files import SHIPPED, own_folder
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject
from workbench.pte.description import memory
from workbench.targets import target_of
from workbench.targets.ethos_u.vela_ini import OPTION

PROGRAM = (Path(__file__).parents[2] / "data" / "programs" / "u55.pte").read_bytes()
SHIPPED_IDS = sorted(path.stem for path in SHIPPED.glob("*.toml"))
SMALL = """
title = "Small"
[[npu]]
devices = ["ethos-u55-128"]
system_config = "Ethos_U55_High_End_Embedded"
memory_modes = ["Shared_Sram"]
source = "made up"
confirmed = true
[[memory]]
name = "RAM"
kind = "sram"
bytes = {ram}
source = "made up"
confirmed = true
[[memory]]
name = "flash"
kind = "flash"
bytes = {flash}
source = "made up"
confirmed = true
"""


def write(folder, name="mine.toml", text=SMALL, ram=1 << 20, flash=1 << 20):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text.format(ram=ram, flash=flash) if text is SMALL else text)
    return folder / name


@for_each("name", SHIPPED_IDS)
def test_that_every_device_of_a_board_makes_a_complete_and_valid_target(name, tmp_path):
    board = load(name, tmp_path)
    for device in (d for npu in board.npu for d in npu.devices):
        made = boards.choice_for(name, board, tmp_path, device=device)
        usual, *others = board.npu_of(device).memory_modes
        assert made.options["memory_mode"] == usual
        assert target_of(device).complete(made, tmp_path) == made
        for mode in (usual, *others):
            choice = TargetChoice(id=device, options={**made.options, "memory_mode": mode})
            assert target_of(device).check(choice, tmp_path) == []
            assert boards.lacking(board, choice, tmp_path) == []
            assert boards.known_differences(board, choice, tmp_path) == boards.known_differences(
                board, made, tmp_path
            )


def test_that_the_boards_of_the_issue_are_there_and_say_what_is_not_confirmed():
    assert len(SHIPPED_IDS) == 12
    found = all_boards()
    assert all(isinstance(board, Board) for board in found.values())
    doubtful = [n for n, b in found.items() if not all(m.confirmed for m in (*b.memory, *b.npu))]
    assert {"himax-we2", "infineon-psoc-edge-e84", "nuvoton-m55m1", "nxp-imx93"} <= set(doubtful)


def test_that_the_guide_lists_every_figure_that_is_not_confirmed():
    page = (Path(__file__).parents[3] / "resources" / "guide" / "user" / "boards.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    for board in all_boards().values():
        name = board.title.split(" (")[0].split()[-1]
        mine = [row for row in rows if name in row.split("|")[1]]
        for npu in board.npu:
            assert npu.confirmed or any(npu.devices[0] in row for row in mine), board.title
        for area in board.memory:
            is_listed = any(area.name in row for row in mine)
            assert area.confirmed or is_listed, (board.title, area.name)


def test_that_a_board_keeps_the_device_that_it_has_and_else_takes_its_first(tmp_path):
    text = SMALL.format(ram=1 << 20, flash=1 << 20)
    text = text.replace('["ethos-u55-128"]', '["ethos-u55-64", "ethos-u55-128"]')
    begin, end = text.index("[[npu]]"), text.index("[[memory]]")
    second = text[begin:end].replace("u55-64", "u85-256").replace("u55-128", "u85-512")
    second = second.replace("Ethos_U55_High_End_Embedded", "Ethos_U85_SYS_DRAM_Mid")
    board = load(write(tmp_path, text=text[:end] + second + text[end:]).name, tmp_path)

    def chosen(present="", device=""):
        choice = TargetChoice(id=present, options={}) if present else None
        return boards.choice_for("mine.toml", board, tmp_path, choice, device).id

    assert chosen() == "ethos-u55-64"
    assert chosen("ethos-u55-128") == "ethos-u55-128"
    assert chosen("ethos-u85-512") == "ethos-u85-512"
    assert chosen("ethos-u65-256") == "ethos-u55-64"
    assert chosen("ethos-u85-512", "ethos-u55-128") == "ethos-u55-128"
    with refused("board-device-unknown"):
        chosen("ethos-u55-64", "ethos-u65-256")


LEAST = """
title = "A"
[[npu]]
devices = ["ethos-u55-128"]
clock_hz = 1
system_config = "S"
memory_modes = ["M"]
source = "s"
[[memory]]
name = "R"
kind = "sram"
bytes = 1
source = "s"
"""


def test_that_a_board_needs_no_more_than_a_word_for_everything_and_is_then_not_confirmed(tmp_path):
    board = read(write(tmp_path, text=LEAST))
    assert (board.npu[0].clock_hz, board.memory[0].bytes) == (1, 1)
    assert not board.npu[0].confirmed
    assert not board.memory[0].confirmed


@for_each(
    ("given", "spoilt"),
    [
        ('"A"', '""'),
        ('["ethos-u55-128"]', "[]"),
        ("clock_hz = 1", "clock_hz = 0"),
        ('"S"', '""'),
        ('["M"]', "[]"),
        ('"s"', '""'),
        ('"R"', '""'),
        ("bytes = 1", "bytes = 0"),
        (LEAST[LEAST.index("[[memory]]") :], "memory = []"),
        (LEAST[LEAST.index("[[npu]]") : LEAST.index("[[memory]]")], "npu = []\n"),
    ],
)
def test_that_an_empty_word_or_no_amount_is_refused(tmp_path, given, spoilt):
    assert given in LEAST
    with pytest.raises(WorkbenchError) as caught:
        read(write(tmp_path, text=LEAST.replace(given, spoilt)))
    assert set(caught.value.codes) == {"board-invalid"}


def test_that_the_kinds_of_memory_are_told_where_a_kind_is_wrong(tmp_path):
    for text, told in ((LEAST.replace('"sram"', '"rom"'), True), (f"colour = 1{LEAST}", False)):
        with pytest.raises(WorkbenchError) as caught:
            read(write(tmp_path, text=text))
        assert ("flash" in caught.value.infos[0].hint) == told
        assert caught.value.infos[0].hint


def test_that_choosing_a_board_sets_everything_and_keeps_what_no_board_decides(tmp_path):
    before = make_project()
    own = {**before.target.options, "integer_io": True, "arena_cache_bytes": 1024}
    before = edits.set_target(before, TargetChoice(id=before.target.id, options=own))
    after = boards.put(OpenProject(before, tmp_path), "renesas-ra8p1")
    assert (after.board, after.target.id) == ("renesas-ra8p1", "ethos-u55-256")
    options = after.target.options
    assert (options["system_config"], options["memory_mode"]) == ("RA8P1", "Shared_Sram")
    assert options["arena_cache_bytes"] == 1664 * 1024
    assert options["integer_io"] is True


def test_that_removing_a_board_removes_what_it_set(tmp_path):
    choice = TargetChoice(id="ethos-u55-256", options={"integer_io": True})
    before = edits.set_target(make_project(), target_of(choice.id).complete(choice, tmp_path))
    for name in ("renesas-ra8p1", "alif-ensemble-e6"):
        placed = boards.put(OpenProject(before, tmp_path), name)
        assert placed.target != before.target
        assert boards.put(OpenProject(placed, tmp_path), "") == before
    own = {**placed.target.options, OPTION: "mine.ini"}
    placed = edits.set_target(placed, TargetChoice(id=placed.target.id, options=own))
    away = boards.put(OpenProject(placed, tmp_path), "").target.options
    assert away == {**own, "arena_cache_bytes": None}


def test_that_a_board_without_the_memory_a_mode_needs_is_refused_with_what_it_has(tmp_path):
    text = SMALL.format(ram=1 << 20, flash=1 << 20).replace("u55-128", "u85-256")
    text = text.replace("Ethos_U55_High_End_Embedded", "Ethos_U85_SYS_DRAM_Mid")
    path = write(tmp_path, text=text.replace('["Shared_Sram"]', '["Dedicated_Sram_384KB"]'))
    with pytest.raises(WorkbenchError) as caught:
        boards.put(OpenProject(make_project(), tmp_path), path.name)
    (problem,) = caught.value.infos
    assert problem.code == "board-memory-missing"
    assert "RAM (sram), flash (flash)" in problem.hint


def test_that_a_mode_changed_later_to_one_the_board_cannot_do_is_a_problem(tmp_path):
    write(tmp_path)
    project = boards.put(OpenProject(make_project(), tmp_path), "mine.toml")
    assert list(boards.problems(OpenProject(project, tmp_path))) == []
    options = {"system_config": "Ethos_U65_High_End", "memory_mode": "Dedicated_Sram"}
    moved = edits.set_target(project, TargetChoice(id="ethos-u65-256", options=options))
    assert next(boards.problems(OpenProject(moved, tmp_path))).code == "board-memory-missing"
    assert next(boards.warnings_of(OpenProject(moved, tmp_path))).code == "board-target-differs"


def test_that_a_board_sets_its_usual_memory_mode_whatever_was_set_before(tmp_path):
    project = boards.put(OpenProject(make_project(), tmp_path), "nxp-imx93")
    assert project.target.options["memory_mode"] == "Dedicated_Sram_384KB"
    assert project.target.options["arena_cache_bytes"] is None


def test_that_another_clock_than_the_configurations_is_told(tmp_path):
    text = SMALL.replace('source = "made up"', 'clock_hz = 220_000_000\nsource = "made up"', 1)
    write(tmp_path, text=text.format(ram=1 << 20, flash=1 << 20))
    on_mine = boards.put(OpenProject(make_project(), tmp_path), "mine.toml")
    (oddity,) = boards.warnings_of(OpenProject(on_mine, tmp_path))
    assert all(clock in oddity.message for clock in ("500 MHz", "220 MHz"))


PLACED = """
[[npu.placement]]
name = "flash"
system_config = "Ethos_U55_High_End_Embedded"
memory_mode = "Shared_Sram"
weights = ["flash"]
tensors = ["RAM"]
reserved_bytes = 1000
source = "made up"
[[npu.placement]]
name = "slow flash"
system_config = "Ethos_U55_Deep_Embedded"
memory_mode = "Shared_Sram"
weights = ["big flash"]
tensors = ["RAM"]
source = "made up"
[[memory]]
name = "big flash"
kind = "flash"
source = "made up"
"""


def write_placed(folder, flash):
    """Write a board with two placements; the second has a flash of unknown size."""
    text = SMALL.format(ram=1 << 20, flash=flash)
    at = text.index("[[memory]]")
    return write(folder, text=text[:at] + PLACED + text[at:])


def test_that_a_program_is_fitted_to_the_memories_of_its_placement(tmp_path):
    write_placed(tmp_path, len(PROGRAM) + 1000)
    project = boards.put(OpenProject(make_project(), tmp_path), "mine.toml")
    found = of_program(OpenProject(project, tmp_path), PROGRAM)
    assert found.fits
    (flash,) = [f for f in found.fillings if f.name == "flash"]
    assert {demand.what: demand.bytes for demand in flash.demands} == {
        "program": len(PROGRAM),
        "firmware": 1000,
    }
    # A byte less does not fit, although the other flash has room: its placement is another one.
    write_placed(tmp_path, len(PROGRAM) + 999)
    assert [d.what for d in of_program(OpenProject(project, tmp_path), PROGRAM).homeless] == ["firmware"]


def test_that_the_placements_of_a_project_begin_with_its_own(tmp_path):
    write_placed(tmp_path, 1 << 20)
    project = boards.put(OpenProject(make_project(), tmp_path), "mine.toml")
    (first, same), (second, other) = boards.candidates(OpenProject(project, tmp_path))
    assert (first, second) == ("flash", "slow flash")
    assert same == project
    assert other.target.options["system_config"] == "Ethos_U55_Deep_Embedded"
    assert boards.with_placement(OpenProject(project, tmp_path), "slow flash").project == other
    assert [name for name, _ in boards.candidates(OpenProject(other, tmp_path))] == ["slow flash"]
    options = {**project.target.options, "memory_mode": "Sram_Only"}
    undescribed = project.model_copy(update={"target": TargetChoice(id="ethos-u55-128", options=options)})
    assert boards.candidates(OpenProject(undescribed, tmp_path)) == []


def test_that_placements_of_the_shipped_boards_name_memories_and_configurations_that_are_there(tmp_path):
    for name in SHIPPED_IDS:
        board = load(name, tmp_path)
        memories = {memory.name for memory in board.memory}
        for npu in board.npu:
            for placement in npu.placement:
                assert memories >= {*placement.weights, *placement.tensors}, placement
                assert placement.memory_mode in npu.memory_modes, placement
            project = boards.put(OpenProject(make_project(), tmp_path), name, npu.devices[0])
            for _, other in boards.candidates(OpenProject(project, tmp_path)):
                assert not target_of(other.target.id).check(other.target, tmp_path)


def test_that_what_fits_and_what_does_not_is_told_per_memory_in_numbers(tmp_path):
    needs = memory(PROGRAM)
    pools = needs.method_pool_bytes + needs.scratch_pool_bytes
    project = make_project(board="mine.toml")
    write(tmp_path, ram=pools, flash=len(PROGRAM))
    found = of_program(OpenProject(project, tmp_path), PROGRAM)
    assert found.fits
    assert {f.name: f.free for f in found.fillings} == {"RAM": 0, "flash": 0}
    assert sentence(found) == "Fits Small."
    assert fitting.document(found)["sentence"] == "Fits Small."
    assert fitting.document(found)["fits"] is True
    assert [each["name"] for each in fitting.document(found)["fillings"]] == ["RAM", "flash"]
    write(tmp_path, ram=pools - 1, flash=len(PROGRAM) - 1)
    found = of_program(OpenProject(project, tmp_path), PROGRAM)
    assert not found.fits
    assert f"the program needs {len(PROGRAM) / 1024:,.1f} contiguous KiB" in sentence(found)
    assert f"flash has {(len(PROGRAM) - 1) / 1024:,.1f} of" in sentence(found)


def test_that_what_has_no_room_has_a_remedy_that_is_not_taken_yet(tmp_path):
    write(tmp_path, ram=1000, flash=1 << 20)
    project = make_project(board="mine.toml")
    options = {**project.target.options, "optimise": "Performance", "integer_io": False}

    def remedies(**given):
        target = TargetChoice(id=project.target.id, options={**options, **given})
        return of_program(OpenProject(edits.set_target(project, target), tmp_path), PROGRAM).remedies

    assert [r.rpartition("PROJECT ")[2] for r in remedies()] == ["optimise=Size.", "integer_io=true."]
    assert [r.rpartition("PROJECT ")[2] for r in remedies(optimise="Size")] == ["integer_io=true."]
    (last,) = remedies(optimise="Size", integer_io=True)
    assert "smaller inputs" in last
    write(tmp_path, ram=1 << 20, flash=10)
    assert "workbench compress" in remedies()[0]


def test_that_without_delegates_no_scratch_is_asked_for(tmp_path):
    write(tmp_path)
    program = (Path(__file__).parents[2] / "data" / "programs" / "no_delegate.pte").read_bytes()
    found = of_program(OpenProject(make_project(board="mine.toml"), tmp_path), program)
    names = {d.what for f in found.fillings for d in f.demands}
    assert names == {"program", "method pool"}


def test_that_sizes_that_nobody_confirmed_put_the_verdict_in_doubt(tmp_path):
    text = SMALL.format(ram=1 << 20, flash=1 << 20).replace("confirmed = true", "confirmed = false")
    write(tmp_path, text=text)
    found = of_program(OpenProject(make_project(board="mine.toml"), tmp_path), PROGRAM)
    assert "secondary source: RAM, flash" in sentence(found)
    assert not fit(read(tmp_path / "mine.toml"), []).doubts


BAD_FILES = [
    ("title =", "is not TOML"),
    ("", "title: The value is missing."),
    (SMALL.replace('source = "made up"', "", 1), "npu[0].source: The value is missing."),
    (SMALL.replace('kind = "sram"', 'kind = "rom"'), "memory[0].kind"),
    (SMALL.replace("bytes = {ram}", "bytes = -1"), "memory[0].bytes"),
    (SMALL.replace("bytes = {ram}", "bytes = nan"), "memory[0].bytes"),
    (SMALL + "colour = 1\n", "memory[1].colour"),
]


def test_that_a_bad_file_is_told_once_and_the_rest_still_load(capsys):
    for number, (text, _) in enumerate(BAD_FILES):
        write(own_folder(), f"bad-{number}.toml", text=text.format(ram=1, flash=1))
    write(own_folder(), "good.toml")
    found = all_boards()
    assert found["good"].title == "Small"
    assert main(["boards"]) == 0
    said = capsys.readouterr()
    assert "good" in said.out
    told = Counter(words for _, words in BAD_FILES)
    for number, (_, words) in enumerate(BAD_FILES):
        assert words in str(found[f"bad-{number}"])
        assert said.err.count(words) == told[words]


def test_that_an_own_board_brings_its_own_ini(tmp_path, capsys):
    (tmp_path / "b").mkdir()
    text = SMALL.format(ram=1 << 20, flash=1 << 20).replace(
        'system_config = "Ethos_U55_High_End_Embedded"', 'ini = "x.ini"\nsystem_config = "Mine"'
    )
    write(tmp_path / "b", text=text.replace('["Shared_Sram"]', '["M"]'))
    (tmp_path / "b" / "x.ini").write_text(
        "[System_Config.Mine]\ncore_clock=1e8\naxi0_port=Sram\naxi1_port=OnChipFlash\n"
        "Sram_clock_scale=1\nOnChipFlash_clock_scale=1\n[Memory_Mode.M]\nconst_mem_area=Axi1\n"
        "arena_mem_area=Axi0\ncache_mem_area=Axi0\n"
    )
    path = tmp_path / "net.qwb"
    store.save(make_project(), path)
    assert main(["boards", "b/mine.toml", "--put", str(path), "--json"]) == 0
    target = json.loads(capsys.readouterr().out)["target"]
    assert target["options"]["config_ini"] == "board:b/mine.toml/x.ini"
    assert target_of(target["id"]).check(TargetChoice(**target), tmp_path) == []


def test_that_the_command_line_describes_boards_with_their_sources(capsys):
    assert main(["boards", "himax-we2"]) == 0
    said = capsys.readouterr().out
    assert "not confirmed: notes of users" in said
    assert main(["boards", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["boards"]) == 12
    assert main(["boards", "nowhere"]) == 2
    assert "Known: alif" in capsys.readouterr().err


def test_that_a_new_project_can_be_made_for_a_board(tmp_path, capsys):
    (tmp_path / "model.py").write_text("def net(): ...\n")
    path = tmp_path / "net.qwb"
    new = ["new", str(path), "--model", "model.py:net"]
    assert main([*new, "--board", "corstone-300", "--target", "ethos-u65-256"]) == 0
    made = store.load(path)
    assert (made.board, made.target.id) == ("corstone-300", "ethos-u65-256")
    assert made.target.options["memory_mode"] == "Dedicated_Sram_384KB"
    assert main([*new, "--force", "--board", "himax-we2", "--target", "ethos-u85-256"]) == 2
    assert main([*new, "--force"]) == 2
    said = capsys.readouterr().err
    assert "has no device ethos-u85-256" in said
    assert "No target or board given" in said


@for_each(("release", "differs"), [("1.3", True), ("1.5", False), ("1.5.9", False)])
def test_that_another_executorch_in_the_boards_sdk_is_told(tmp_path, release, differs, capsys):
    text = SMALL.format(ram=1 << 20, flash=1 << 20)
    write(own_folder(), text=f'executorch = "{release}"\n{text}')
    project = boards.put(OpenProject(make_project(), tmp_path), "mine")
    codes = [info.code for info in boards.warnings_of(OpenProject(project, tmp_path))]
    assert ("board-executorch-differs" in codes) == differs
    main(["doctor", "--json"])
    names = [f["name"] for f in json.loads(capsys.readouterr().out)["findings"]]
    assert ("board mine" in names) == differs


def test_that_a_release_that_is_no_version_is_refused(tmp_path):
    text = SMALL.format(ram=1, flash=1)
    path = write(tmp_path, text=f'executorch = "latest"\n{text}')
    with pytest.raises(WorkbenchError):
        read(path)


def test_that_a_board_file_has_a_size_and_must_be_there(tmp_path, monkeypatch):
    path = write(tmp_path)
    monkeypatch.setattr(boards, "_MOST_BYTES", path.stat().st_size)
    assert read(path).title == "Small"
    monkeypatch.setattr(boards, "_MOST_BYTES", path.stat().st_size - 1)
    with refused("board-file-too-large"):
        read(path)
    with refused("board-unreadable"):
        read(tmp_path / "none.toml")


def test_that_a_project_whose_board_is_gone_has_one_problem_and_no_oddity(tmp_path):
    project = edits.set_board(make_project(), "nobody", make_project().target)
    (problem,) = boards.problems(OpenProject(project, tmp_path))
    assert "nobody" in problem.message
    assert list(boards.warnings_of(OpenProject(project, tmp_path))) == []
