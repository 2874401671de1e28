"""The verb ``silicon``: published rows, the user's own, and what they give estimates."""

import hashlib
import json
import os

import pytest

from tests.fakes.projects import make_project, write_project
from tests.fakes.results import result_of, write_result
from workbench import api
from workbench.analysis import silicon
from workbench.cli import main
from workbench.deploy import boards
from workbench.errors import WorkbenchError
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import plan
from workbench.project import store
from workbench.project.opened import OpenProject
from workbench.results import PROGRAM_FILE, save_result
from workbench.results.simulation import Counter, Measurement, SimulationReport


def printed(capsys, *words, code=0):
    assert main([*words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def compiled(tmp_path):
    """A project on a board, with a compiled program in the cache."""
    path = write_project(tmp_path / "mine")
    project = boards.put(OpenProject(make_project(), path.parent), "corstone-300")
    store.save(project, path)
    cache = Cache(default_root())
    with cache.writing(plan(OpenProject(project, path.parent), cache).key("lower")) as written:
        write_result("lower", written)
        (written / PROGRAM_FILE).write_bytes(b"a program")
    return path


def test_that_published_rows_are_listed_with_their_ratios_and_sources(capsys):
    rows = printed(capsys, "silicon", "list", "--board", "nxp-imx93")["rows"]
    (found,) = [row for row in rows if row["id"] == "im-mbv2"]
    assert found["measured_ms"] == 3.46
    assert found["ratio"] == pytest.approx(3.46 / found["estimate_ms"])
    assert "eiq-model-zoo" in found["source"]
    assert {row["board"] for row in rows} == {"nxp-imx93"}


def test_that_the_check_reports_intervals_and_rows_inside_those_of_the_others(capsys):
    found = printed(capsys, "silicon", "check")
    assert found["problems"] == []
    (group,) = [g for g in found["groups"] if g["board"] == "nxp-imx93"]
    assert group["low"] < group["factor"] < group["high"]
    assert 0 <= group["inside"] <= len(group["rows"])


def test_that_a_measured_time_of_a_project_is_added_with_its_estimate(capsys, compiled):
    words = ("silicon", "add", str(compiled), "--measured-cycles", "1500", "--source", "my desk")
    found = printed(capsys, *words)
    row = found["row"]
    assert found["board"] == "corstone-300"
    assert (row["measured_cycles"], row["estimate_cycles"]) == (1500.0, 1000.0)
    assert row["ratio"] == 1.5
    assert len(row["program_sha256"]) == 64
    assert [r.id for r in silicon.rows_of("corstone-300")][-1] == row["id"]


def test_that_a_time_without_a_project_is_added_by_its_options(capsys):
    words = [
        "--id",
        "one",
        "--network",
        "net",
        "--board",
        "mine",
        "--device",
        "ethos-u55-128",
        "--measured-ms",
        "3",
        "--estimate-ms",
        "2",
        "--source",
        "s",
    ]
    words = ("silicon", "add", *words)
    assert printed(capsys, *words)["row"]["ratio"] == 1.5


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--measured-ms", "3"], "silicon-option-missing"),
        (["--id", "a", "--network", "n", "--board", "b", "--device", "d"], "silicon-not-measured"),
        (
            ["--id", "a", "--network", "n", "--board", "b", "--device", "d", "--measured-ms", "-1"],
            "silicon-invalid",
        ),
        (
            ["--id", "a", "--network", "n", "--board", "b", "--device", "d", "--measured-ms", "nan"],
            "silicon-invalid",
        ),
    ],
)
def test_that_a_row_that_says_nothing_is_refused(capsys, words, error):
    found = printed(capsys, "silicon", "add", *words, "--source", "s", code=2)
    assert found["error"]["code"] == error
    assert not silicon.rows_of("b")


def test_that_a_project_without_a_board_or_a_program_is_refused(capsys, tmp_path, compiled):
    plain = write_project(tmp_path / "plain")
    words = ("--measured-ms", "3", "--source", "s")
    found = printed(capsys, "silicon", "add", str(plain), *words, code=2)
    assert found["error"]["code"] == "board-not-set"
    project = boards.put(OpenProject(store.load(compiled), compiled.parent), "renesas-ra8p1")
    store.save(project, compiled)
    found = printed(capsys, "silicon", "add", str(compiled), *words, code=2)
    assert found["error"]["code"] == "lower-missing"


def test_that_a_damaged_file_of_the_user_fails_the_check(capsys):
    silicon.own_folder().mkdir(parents=True, exist_ok=True)
    (silicon.own_folder() / "mine.toml").write_text("board = 'b'\n[[row]]\nid = 'x'\n")
    found = printed(capsys, "silicon", "check", code=2)
    assert [info["code"] for info in found["problems"]] == ["silicon-invalid"] * 2


def test_that_a_run_is_remembered_with_its_cycles_beats_and_program(compiled):
    beats = Counter(event="AXI0_RD_DATA_BEAT_RECEIVED", total=800)
    measured = Measurement(inferences=2, npu_cycles=3000, counters=(beats,))
    report = SimulationReport.model_construct(measurements=(measured,), simulator="FVP", version="11.27")
    opened = api.open(compiled)
    path = api.remember_run(opened, report, kind="fvp")
    (row,) = silicon.read(path).row
    assert (row.kind, row.measured_cycles, row.estimate_cycles) == ("fvp", 1500.0, 1000.0)
    assert row.axi_beats == {"AXI0_RD_DATA_BEAT_RECEIVED": 400.0}
    assert row.program_sha256 == hashlib.sha256(b"a program").hexdigest()
    assert row.clock_hz == 500_000_000
    # Again: the same program replaces its row.
    api.remember_run(opened, report)
    assert len(silicon.read(path).row) == 1


def test_that_a_run_without_counted_cycles_is_not_remembered(compiled):
    report = SimulationReport.model_construct(
        measurements=(Measurement(inferences=1),), simulator="FVP", version=""
    )
    with pytest.raises(WorkbenchError) as caught:
        api.remember_run(api.open(compiled), report)
    assert caught.value.codes == ("silicon-not-measured",)


def test_that_a_program_alone_is_remembered_for_the_board_of_its_result(compiled):
    report = SimulationReport.model_construct(
        measurements=(Measurement(inferences=1, npu_cycles=1200),), simulator="FVP", version="1"
    )
    with pytest.raises(WorkbenchError) as caught:
        api.remember_program(b"a program", "net", report)
    # The result of the fake has no board.
    assert caught.value.codes == ("silicon-program-unknown",)
    folder = default_root() / "results" / "ff" / "other"
    folder.mkdir(parents=True)
    (folder / PROGRAM_FILE).write_bytes(b"a program")
    save_result(result_of("lower").model_copy(update={"board": "corstone-300"}), folder)
    (row,) = silicon.read(api.remember_program(b"a program", "net", report)).row
    assert (row.kind, row.ratio) == ("fvp", 1.2)


def test_that_a_file_that_cannot_be_read_is_told_where_rows_are_listed(capsys):
    silicon.own_folder().mkdir(parents=True, exist_ok=True)
    os.mkfifo(silicon.own_folder() / "pipe.toml")
    assert main(["silicon", "list"]) == 0
    told = capsys.readouterr()
    assert "pipe.toml" in told.err
    assert "alif-kws-he" in told.out
