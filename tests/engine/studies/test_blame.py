"""What Vela refuses is found, and the rest compiles once it is kept off the NPU."""

from __future__ import annotations

import pytest

from tests.engine.in_process import project, without
from workbench.project import edits
from workbench.project.opened import OpenProject
from workbench.protocol import RunStudy, StudyProgress
from workbench.studies.documents import Blame, load_study, study_folder, study_key

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]


@pytest.fixture
def blamed(engine):
    """A function that runs the search and returns what it found."""

    def run(made):
        engine.send(
            RunStudy(
                job="b",
                study="blame",
                project=made,
                folder=str(engine.folder),
                cache_root=str(engine.cache.root),
            )
        )
        assert engine.follow() == "done", engine.failure
        key = study_key("blame", OpenProject(made, engine.folder), engine.cache, {})
        return load_study(Blame, study_folder(engine.cache, key))

    return run


@pytest.mark.slow
def test_that_the_module_vela_refuses_is_found_and_keeping_it_off_helps(engine, blamed):
    made = without(project("softmax", "a16w8"), "rounded_convolutions")
    assert engine.run(made, "lower", "evaluate") == "failed"
    assert engine.failure.code == "int16-convolution-shared"
    found = blamed(made)
    assert "could not run on NPU" in found.reason
    assert found.is_done
    (culprit,) = found.culprits
    assert "softmax" in culprit.match
    mended = edits.assign(made, culprit.kind, culprit.match, "cpu")
    assert engine.run(mended, "lower", "evaluate") == "done", engine.failure
    assert engine.result(mended, "lower").delegates >= 1


def test_that_a_program_without_anything_to_blame_is_compiled_once_and_tells_where_it_is(engine, blamed):
    found = blamed(project("small"))
    assert (found.reason, found.culprits, found.compilations) == ("", (), 1)
    told = [event for event in engine.events if isinstance(event, StudyProgress)]
    assert told[0].done == 0
    assert told[-1].done == told[-1].total
    inside = [event for event in told if event.done % 100]
    assert any("pass" in event.message for event in inside)
