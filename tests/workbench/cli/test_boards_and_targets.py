"""Verbs that show and set boards, targets, plug-ins, and the plan of a project."""

import json

import pytest

from tests.for_each import for_each
from workbench.cli import main
from workbench.project import store


@pytest.fixture
def asked(capsys):
    """Run a verb; return its exit code and its document, or its lines."""

    def ask(*arguments, as_json=True):
        capsys.readouterr()
        code = main([*map(str, arguments), *(["--json"] if as_json else [])])
        out = capsys.readouterr().out
        if as_json:
            document = json.loads(out)
            return code, document
        return code, [" ".join(line.split()) for line in out.splitlines()]

    return ask


BOARD = """
title = "Mine"
cpu = "Cortex-M55"
zephyr = "mine_board"
notes = ["Handle with care."]

[[npu]]
devices = ["ethos-u55-128"]
system_config = "Ethos_U55_High_End_Embedded"
memory_modes = ["Shared_Sram"]
clock_hz = 400_000_000
confirmed = false
source = "the datasheet"
note = "as fused"

[[memory]]
name = "SRAM"
kind = "sram"
bytes = 2_097_152
address = "0x31000000"
confirmed = true
source = "the manual"

[[memory]]
name = "Flash"
kind = "flash"
confirmed = false
source = "a guess"
"""


@pytest.fixture
def board(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(BOARD)
    return path


def test_that_a_board_is_described_with_the_source_of_each_figure(asked, board):
    code, lines = asked("boards", board, as_json=False)
    assert code == 0
    assert lines == [
        "Mine",
        "CPU Cortex-M55",
        "Zephyr mine_board",
        "NPU ethos-u55-128, 400 MHz",
        "Ethos_U55_High_End_Embedded; Shared_Sram",
        "not confirmed: the datasheet",
        "as fused",
        "SRAM SRAM, 2,048 KiB at 0x31000000",
        "confirmed: the manual",
        "FLASH Flash, ? KiB",
        "not confirmed: a guess",
        "Note Handle with care.",
    ]
    document = asked("boards", board)[1]
    assert (document["id"], document["title"]) == (str(board), "Mine")
    assert [m["bytes"] for m in document["memory"]] == [2097152, None]


def test_that_all_boards_are_listed_and_broken_ones_told(asked, tmp_path, codes):
    folder = tmp_path / "own" / "config" / "boards"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(BOARD)
    (folder / "broken.toml").write_text("title = 3")
    code, document = asked("boards")
    assert code == 0
    assert "himax-we2" in {b["id"] for b in document["boards"]}
    mine = next(b for b in document["boards"] if b["title"] == "Mine")
    assert mine["npu"][0]["devices"] == ["ethos-u55-128"]
    assert len(document["broken"]) == 1
    assert document["broken"][0]["problems"]
    lines = asked("boards", as_json=False)[1]
    row = next(line for line in lines if " Mine " in line)
    assert row.endswith("ethos-u55-128? SRAM 2,048, Flash ?")


def test_that_a_board_is_put_under_a_project(asked, board, project_file, codes):
    code, document = asked("boards", board, "--put", project_file)
    assert code == 0
    saved = store.load(project_file)
    assert document == {"version": 1, "board": saved.board, "target": saved.target.model_dump(mode="json")}
    assert saved.target.options["memory_mode"] == "Shared_Sram"
    line = asked("boards", board, "--put", project_file, "--device", "ethos-u55-128", as_json=False)[1][0]
    assert "ethos-u55-128, Ethos_U55_High_End_Embedded, Shared_Sram" in line
    limited = saved.target.options["arena_cache_bytes"]
    assert ("at most" in line) == bool(limited)
    assert asked("boards", "--put", project_file)[0] == 2
    assert codes == ["board-not-given"]


def test_that_target_options_are_shown_and_set_in_their_type(asked, project_file, codes):
    document = asked("target", project_file)[1]
    assert document["id"] == "ethos-u55-128"
    code, changed = asked("target", project_file, "optimise=Size", "arena_cache_bytes=65536")
    assert code == 0
    assert changed["options"] == {**document["options"], "optimise": "Size", "arena_cache_bytes": 65536}
    assert store.load(project_file).target.options["arena_cache_bytes"] == 65536
    lines = asked("target", project_file, as_json=False)[1]
    row = next(line for line in lines if line.startswith("optimise "))
    assert row.startswith('optimise "Size"')
    assert row.endswith("Performance, Size")
    before = project_file.read_bytes()
    for wrong in ("nonsense=1", "optimise", "optimise=Speed", "arena_cache_bytes=many"):
        assert asked("target", project_file, wrong)[0] == 2
    assert codes[:2] == ["target-option-invalid"] * 2
    assert len(codes) == 4
    assert project_file.read_bytes() == before


def test_that_the_plan_is_listed_with_keys_and_reasons(asked, project_file):
    code, document = asked("plan", project_file)
    assert code == 0
    assert document["project"] == "net"
    lines = asked("plan", project_file, as_json=False)[1]
    for stage, line in zip(document["stages"], lines[1:-1], strict=True):
        parts = [stage["id"], stage["state"], stage["key"][:12], stage["reason"]]
        assert line == " ".join(part for part in parts if part)
    assert lines[-1] == f"Next workbench run {project_file} --out dist"


def test_that_a_check_says_whether_a_project_is_valid(asked, project_file):
    assert asked("check", project_file, as_json=False) == (
        0,
        ["Valid: net for ethos-u55-128.", f"Next workbench run {project_file} --out dist"],
    )
    document = asked("check", project_file)[1]
    assert (document["project"], document["valid"], document["matches_checked"]) == ("net", True, False)
    assert [(p["level"], p["code"]) for p in document["problems"]] == [("warning", "calibration-missing")]
    (project_file.parent / "net.pt2").unlink()
    assert asked("check", project_file, as_json=False) == (2, ["Invalid."])
    code, document = asked("check", project_file)
    assert (code, document["valid"]) == (2, False)


@for_each(
    ("arguments", "code"),
    [
        ((), "model-not-given"),
        (("--model", "net.pt2"), "target-not-given"),
        (("--model", "net.pt2", "--target", "ethos-u55-128", "--input-shape", "0x3"), "shape-invalid"),
    ],
)
def test_that_a_new_project_needs_a_model_and_a_target(asked, project_file, codes, arguments, code):
    codes.clear()
    assert asked("new", project_file.parent / "other.qwb", *arguments)[0] == 2
    assert codes == [code]


@for_each("given", [("--model", "net.pt2"), ("--recipe", "image_classifier")])
def test_that_a_new_project_in_a_missing_folder_tells_how_to_create_it(asked, tmp_path, codes, given):
    codes.clear()
    folder = tmp_path / "no folder"
    assert asked("new", folder / "net.qwb", *given, as_json=False)[0] == 2
    assert codes == ["folder-missing"]
    assert not folder.exists()


def test_that_a_new_project_has_all_that_it_is_given(asked, project_file, board):
    path = project_file.parent / "other.qwb"
    (project_file.parent / "metric.py").write_text("def score(outputs, labels): ...\n")
    (project_file.parent / "x.npz").write_bytes(b"")
    (project_file.parent / "labels.npy").write_bytes(b"")
    code, document = asked(
        "new", path, "--model", "net.pt2", "--board", board, "--input-shape", "1x3x8X8",
        "--calibration", "x.npz", "--evaluation", "x.npz", "--labels", "labels.npy",
        "--metric", "metric.py:score", "--inputs", "x.npz", "--config", "a16w8", "--name", "mine",
        "--option", "optimise=Size", "--memory-mode", "Shared_Sram",
    )  # fmt: skip
    assert code == 0
    made = store.load(path)
    assert document == {"version": 1, "project": str(path), "target": made.target.model_dump(mode="json")}
    assert (made.name, made.board) == ("mine", str(board))
    assert (made.model.spec, made.model.inputs) == ("net.pt2", "x.npz")
    assert made.model.input_shapes == ((1, 3, 8, 8),)
    assert made.evaluation.data.labels == "labels.npy"
    assert made.evaluation.metric == "metric.py:score"
    assert made.target.id == "ethos-u55-128"
    assert made.target.options["optimise"] == "Size"
    assert [r.config for r in made.rules] == ["a16w8"]
    assert asked("new", path, "--model", "net.pt2", "--target", "ethos-u85-256", "--force",
                 as_json=False)[0] == 0  # fmt: skip
    assert store.load(path).target.id == "ethos-u85-256"


def test_that_plugins_are_listed_with_their_items(asked, project_file):
    own = 'def narrow(*, is_qat):\n    """Fewer codes."""\n\nCONFIGS = [narrow]\n'
    (project_file.parent / "mine.py").write_text(own)
    assert asked("plugins", project_file)[1]["plugins"] == []
    added = asked("plugins", project_file, "--add", "mine.py")[1]
    assert added["plugins"] == ["mine.py"]
    assert [i for i in added["items"] if i["reference"].startswith("mine.py")] == [
        {"kind": "config", "reference": "mine.py:narrow", "title": "Fewer codes"}
    ]
    assert store.load(project_file).plugins == ("mine.py",)
    lines = asked("plugins", project_file, as_json=False)[1]
    assert "config narrow Fewer codes mine.py" in lines
    assert asked("plugins", project_file, "--remove", "mine.py")[1]["plugins"] == []
    assert store.load(project_file).plugins == ()
