"""Architectures and reported failures become the outcomes that the guide tells."""

import pytest

from tests.zoo import runs
from tests.zoo.cases import ARCHITECTURES, FAILURES, networks
from workbench.guide import REFERENCE

RECORDED = runs.recorded()


def test_that_the_pages_are_what_the_results_say():
    for name, text in runs.pages().items():
        assert (REFERENCE / name).read_text(encoding="utf-8") == text


def test_that_every_reported_failure_has_a_result():
    assert {case.id for case in FAILURES} <= set(RECORDED)
    assert {case.network for case in FAILURES} == set(networks("tracker_networks"))


def test_that_every_result_is_of_a_case():
    assert set(RECORDED) <= {case.id for case in (*FAILURES, *ARCHITECTURES)}


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    made = runs.engine_for(tmp_path_factory.mktemp("zoo"))
    yield made
    made.close()


@pytest.mark.engine
@pytest.mark.parametrize("case", FAILURES[:1], ids=lambda case: case.id)
def test_that_a_reported_failure_becomes_what_is_recorded(engine, case):
    assert runs.outcome(engine, case) == RECORDED[case.id]


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [case for case in (*FAILURES[1:], *ARCHITECTURES) if case.id in RECORDED],
    ids=lambda case: case.id,
)
def test_that_a_case_becomes_what_is_recorded(engine, case):
    if case.file == "transformers_models":
        pytest.importorskip("transformers")
    found, known = runs.outcome(engine, case), RECORDED[case.id]
    assert (found["outcome"], found.get("code")) == (known["outcome"], known.get("code"))
