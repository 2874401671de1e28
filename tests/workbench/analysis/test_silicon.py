"""Measured times: the rows, what they give an estimate, and the user's own."""

import math

import pytest

from tests.fakes.results import result_of
from workbench.analysis import silicon
from workbench.analysis.gate import figures
from workbench.analysis.silicon import SiliconFile, SiliconRow, add_row, groups, read, time_of
from workbench.deploy import boards
from workbench.errors import WorkbenchError
from workbench.project.board_files import listed

FLASH = "weights in flash"


def row(number, ratio, **fields):
    values = {
        "id": f"r{number}",
        "network": f"net {number}",
        "device": "ethos-u55-128",
        "placement": FLASH,
        "measured_ms": 2.0 * ratio,
        "estimate_ms": 2.0,
        "source": "a page",
        **fields,
    }
    return SiliconRow.model_validate(values)


def keep(ratios, board="mine"):
    for number, ratio in enumerate(ratios):
        add_row(board, row(number, ratio))


def lowered(**fields):
    update = {"board": "mine", "placement": FLASH, "target": "ethos-u55-128", **fields}
    return result_of("lower").model_copy(update=update)


def test_that_without_rows_a_time_is_estimated_and_says_that_there_is_no_data():
    time = time_of(lowered())
    assert (time.ms, time.origin, time.rows) == (0.002, "estimated", ())
    assert (time.low_ms, time.high_ms, time.most_ms) == (None, None, 0.002)
    assert "No measured data" in time.sentence


def test_that_one_to_four_rows_are_shown_and_change_nothing():
    keep([0.9, 1.2])
    time = time_of(lowered())
    assert (time.ms, time.origin, time.low_ms) == (0.002, "estimated", None)
    assert [r.ratio for r in time.rows] == pytest.approx([0.9, 1.2])
    assert time.sentence == "2 programs of this board: 0.90 and 1.20 times the estimate."


def test_that_five_rows_give_an_interval_from_what_the_others_predict():
    ratios = [0.8, 0.9, 1.0, 1.1, 1.6]
    keep(ratios)
    time = time_of(lowered())
    assert time.origin == "anchored"
    factor = math.prod(ratios) ** (1 / 5)
    assert time.ms == pytest.approx(0.002 * factor)
    errors = [r / (math.prod(ratios) / r) ** (1 / 4) for r in ratios]
    assert time.low_ms == pytest.approx(0.002 * factor * min(errors))
    assert time.high_ms == pytest.approx(0.002 * factor * max(errors))
    assert time.low_ms < time.ms < time.high_ms
    assert [r.others for r in time.rows] == pytest.approx(
        [(math.prod(ratios) / r) ** (1 / 4) for r in ratios]
    )
    (group,) = [g for g in groups() if g.board == "mine"]
    # The interval that the other four give does not hold for the largest.
    assert (len(group.rows), group.inside) == (5, 3)


@pytest.mark.parametrize(
    "change", [{"placement": "other"}, {"target": "ethos-u55-256"}, {"board": "other"}, {"board": ""}]
)
def test_that_rows_of_another_board_device_or_placement_say_nothing(change):
    keep([1.0] * 6)
    assert time_of(lowered(**change)).origin == "estimated"


def test_that_a_row_that_is_not_used_is_in_no_interval():
    keep([1.0] * 5)
    add_row("mine", row(9, 7.0, used=False, doubt="not explained"))
    time = time_of(lowered())
    assert [r.id for r in time.rows] == ["r0", "r1", "r2", "r3", "r4"]
    assert time.high_ms == pytest.approx(0.002)


def test_that_a_program_without_a_described_placement_has_cycles_only():
    time = time_of(lowered(placement="", untimed="No time: not described."))
    assert (time.ms, time.origin, time.most_ms) == (None, "", None)
    assert time.sentence == "No time: not described."
    known = figures(None, lowered(untimed="No time."), None)
    assert "ms" not in known
    assert known["cycles"] == 1000


def test_that_a_limit_of_time_holds_for_the_upper_end():
    keep([0.8, 0.9, 1.0, 1.1, 1.6])
    assert figures(None, lowered(), None)["ms"] == time_of(lowered()).high_ms


def test_that_what_is_beside_the_npu_is_a_line_of_its_own():
    (node,) = result_of("lower").cpu_nodes[:1]
    border = node.model_copy(update={"cause": "border"})
    result = lowered(cpu_nodes=(node, border), border_elements=150_528, delegates=2)
    operators, conversion, driver = time_of(result).beside
    assert operators == "1 operator on the CPU: not estimated."
    timed = node.model_copy(update={"cycles": 5000})
    assert next(iter(time_of(lowered(cpu_nodes=(timed,))).beside)) == (
        "1 operator on the CPU: roughly 5,000 cycles of a Cortex-M55."
    )
    assert "150,528 floats" in conversion
    assert "1,370,000 cycles" in conversion
    assert driver == "Not included: the time of 2 driver calls."


def test_that_a_row_comes_back_from_its_file_as_it_was_and_replaces_an_equal_id():
    odd = row(
        1,
        1.1,
        network='a "quoted" \\ name\n\u00e9',
        axi_beats={"AXI0_RD": 12.5},
        measured_cycles=1e6,
        program_sha256="ab" * 32,
    )
    path = add_row("my board/../x", odd)
    assert path.parent == silicon.own_folder()
    assert read(path) == SiliconFile(board="my board/../x", row=(odd,))
    other = odd.model_copy(update={"measured_ms": 5.0})
    assert read(add_row("my board/../x", other)).row == (other,)


@pytest.mark.parametrize("text", ["board = 1", "[[row]]\nid = 'a'", "x = [", "\x00", "a = 1"])
def test_that_a_damaged_file_is_named_and_hides_no_other(text):
    keep([1.0])
    (silicon.own_folder() / "broken.toml").write_text(text)
    (error,) = [f for f in silicon.files().values() if isinstance(f, WorkbenchError)]
    assert all("broken.toml" in info.message for info in error.infos)
    assert len(silicon.rows_of("mine")) == 1


def test_that_the_published_rows_have_sources_and_name_what_boards_describe(tmp_path):
    rows = [(file.board, r) for file in silicon.shipped().values() for r in file.row]
    assert len(rows) == 65
    assert len({r.id for _, r in rows}) == 65
    assert not list(silicon.problems())
    for board, r in rows:
        if not (board and r.used and r.ratio):
            continue
        assert board in listed()
        npu = boards.load(board, tmp_path).npu_of(r.device)
        described = [p.name for p in npu.placement]
        assert r.placement in described, r.id


def test_that_the_times_of_published_programs_are_within_the_bars():
    bars = {"nxp-imx93": (0.7, 1.5), "alif-ensemble-e8": (0.7, 1.5), "corstone-300": (0.85, 1.2)}
    for group in groups(shipped_only=True):
        if group.board in bars:
            least, most = bars.pop(group.board)
            factor = 1.0 if group.low is None else group.factor
            for r in group.rows:
                assert least <= factor / r.ratio <= most, (r.id, factor / r.ratio)
    assert not bars
