"""Random programs: compiled and executed, they equal the reference model, but for known faults."""

import json
from pathlib import Path

import pytest

from tests.npu_programs import Case, drawn
from tests.npu_search import WRONG, Isolated, minimised

pytestmark = pytest.mark.engine
FAULTS = json.loads((Path(__file__).parents[1] / "data" / "npu" / "faults.json").read_text())


@pytest.fixture(scope="module")
def find():
    return Isolated()


def word(outcome):
    return outcome.split(":")[0]


def test_that_every_known_fault_of_the_compiler_is_found(find):
    """The guide lists these faults; one that is mended shall leave the list."""
    for fault in FAULTS:
        case = Case.from_json(json.dumps(fault["case"]))
        assert word(find(case)) == fault["outcome"], fault["fault"]


def test_that_random_programs_compute_what_the_reference_model_does(find):
    outcomes = [word(find(drawn(seed))) for seed in range(5_100_000, 5_100_080)]
    assert outcomes.count("equal") > 40
    assert not set(WRONG) & set(outcomes)


def test_that_a_program_that_differs_is_reduced(find):
    fault = next(f for f in FAULTS if f["fault"] == "reduce-min")["case"]
    table = ("table", fault["operations"][0][1])
    larger = {**fault, "shape": [1, 2, 4, 3], "operations": [table, *fault["operations"]]}
    case = Case.from_json(json.dumps(larger))
    assert word(find(case)) == "differs"
    small = minimised(case, find)
    assert word(find(small)) == "differs"
    assert small.operations == tuple((name, p) for name, p in fault["operations"])
    assert small.shape == (1, 1, 2, 1)


def is_known(case):
    """Whether a reduced program has one of the patterns that the guide lists."""
    names = [name for name, _ in case.operations]
    u85 = case.device.startswith("ethos-u85")
    joins = {"pad", "concat"} & set(names)
    multiplied = any(n == "depthwise" and p["multiplier"] > 1 for n, p in case.operations)
    reduced = any(name.startswith("reduce") for name in names)
    sliced = "slice" in names
    moved = {"reverse", "transpose"} & set(names)
    return (
        (not u85 and "reduce min" in names)
        or (reduced and (bool(joins) or sliced or names.count("transpose") > 1))
        or (not u85 and "resize" in names and (bool(joins) or max(case.shape) == 1))
        or (multiplied and (bool(joins) or sliced))
        or (sliced and bool({"transpose conv", "matmul"} & set(names)))
        or (case.dtype == "INT16" and names.count("table") > 1)
        or (u85 and bool(moved) and sum(name in {"table", "clamp"} for name in names) > 1)
        or {"matmul", "reverse"} <= set(names)
        or (case.shape[0] > 1 and bool({"clamp", "table"} & set(names)))
        or any(name == "depthwise" and max(p["dilation"]) > 2 for name, p in case.operations)
    )


@pytest.mark.slow
def test_that_random_programs_end_equal_refused_or_in_a_known_fault(find):
    for seed in range(6_000_000, 6_001_500):
        case = drawn(seed)
        if word(find(case)) in WRONG:
            small = minimised(case, find)
            assert is_known(small), small
