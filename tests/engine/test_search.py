"""A search under limits with real evaluation and Vela's cost, on the smallest network."""

import pytest

from tests.engine.in_process import CALIBRATED, project
from workbench.protocol import RunStudy, StudyProgress
from workbench.studies.documents import load_study, study_folder
from workbench.studies.search import SearchResult, with_choices

pytestmark = pytest.mark.engine


def run(engine, made, **options):
    command = RunStudy(
        job="test", study="search", project=made, folder=str(engine.folder),
        options=options, cache_root=str(engine.cache.root),
    )  # fmt: skip
    engine.events = []
    engine.send(command)
    assert engine.follow() == "done", engine.events
    told = [event for event in engine.events if isinstance(event, StudyProgress)]
    return load_study(SearchResult, study_folder(engine.cache, told[-1].key))


def test_that_a_search_goes_on_judges_anew_and_its_figures_are_real(engine):
    made = project("small", **CALIBRATED)
    first = run(engine, made, trials=3)
    assert [c.number for c in first.candidates] == [1, 2, 3]
    assert all(c.is_within for c in first.measured() if c.cpu_nodes == first.enforced.cpu)
    assert set(first.candidates[0].choices.values()) == {"a8w8"}
    again = run(engine, made, trials=4, accuracy=1000.0)
    assert [c.choices for c in again.candidates[:3]] == [c.choices for c in first.candidates]
    assert len(again.candidates) == 4
    assert again.best() is None
    candidate = again.candidates[1]
    applied = with_choices(made, again.units, candidate.choices)
    assert engine.run(applied, "lower") == "done"
    assert engine.result(applied, "evaluate").top1_quantized == candidate.accuracy
    assert engine.computed == []
