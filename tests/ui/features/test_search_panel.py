"""The Search panel over fake engines: limits, the front to move along, one step to apply."""

from contextlib import closing

import pytest

from workbench.history.store import History, history_path
from workbench.project import store
from workbench.protocol import RunStudy, StudyProgress
from workbench.studies.documents import save_study, study_folder


@pytest.fixture
def searched(opened, qtbot):
    panel = opened.window.reveal("search")
    panel.limits.trials.setValue(3)
    panel.limits.accuracy.setText("88")
    panel.start.click()
    qtbot.waitUntil(lambda: not opened.runner.running and len(panel.plot.dots) == 3)
    return panel


def test_that_candidates_are_within_limits_moved_along_and_applied(searched, engines, opened, qtbot):
    # Limits, trials and processes are what the engine is told.
    (told,) = [c.options for c in engines.commands if isinstance(c, RunStudy)]
    assert told == {"accuracy": 0.88, "cycles": None, "sram": None, "trials": 3, "workers": 1}
    # The quickest within the limits is chosen first.
    assert searched.title.text() == "Candidate 1"
    assert "within all limits" in searched.about.text()
    assert [dot.is_faint for dot in searched.plot.dots] == [False, True, False]
    # The slider moves along the front within the limits and names the rules that differ.
    assert searched.slider.maximum() == 1
    searched.slider.setValue(1)
    assert searched.title.text() == "Candidate 3"
    assert "breaks" not in searched.about.text()
    # Applying a candidate is one undo step.
    before = opened.document.project
    searched.apply.click()
    rules = opened.document.project.rules
    assert {(r.match, r.config) for r in rules} == {("", "a16w8"), ("stem.conv", "a8w8")}
    assert opened.document.undo_stack.undoText() == "Apply candidate 3"
    opened.document.undo_stack.undo()
    assert opened.document.project == before
    # A candidate survives an edit of the rules.
    searched.apply.click()
    with qtbot.waitSignal(opened.session.planned_anew):
        opened.document.apply("No rules", lambda p: type(p)(**{**dict(p), "rules": ()}))
    searched.refresh()
    assert "former" not in searched.note.text()
    assert len(searched.plot.dots) == 3


def test_that_the_best_candidate_is_shown_until_the_user_chooses_another(searched, opened):
    def save(cycles):
        result = searched.study.result
        candidates = tuple(
            c.model_copy(update={"cycles": cycles.get(c.number, c.cycles)}) for c in result.candidates
        )
        better = result.model_copy(update={"candidates": candidates})
        save_study(better, study_folder(opened.session.cache, searched.study.key))
        searched.refresh()

    assert searched.title.text() == "Candidate 1"
    # As while a search goes on: a later candidate is better.
    save({3: 1})
    assert searched.title.text() == "Candidate 3"
    searched.plot.dot_chosen.emit(0, False)
    save({3: 2})
    assert searched.title.text() == "Candidate 1"


def test_that_a_limit_filters_what_was_found_at_once(searched, qtbot):
    assert searched.limits.unit.text() == "%"
    searched.limits.accuracy.setText("99.9")
    qtbot.waitUntil(lambda: all(dot.is_faint for dot in searched.plot.dots))
    assert not searched.apply.isEnabled()
    assert searched.title.text() == "No candidate within the limits"
    searched.limits.accuracy.setText("1")
    qtbot.waitUntil(lambda: not any(dot.is_faint for dot in searched.plot.dots))
    assert searched.slider.maximum() == 2
    # All three candidates were evaluated: there is nothing to continue.
    assert searched.start.text() == "Search"


@pytest.mark.slow
def test_that_candidates_which_come_together_all_stand_among_the_runs(searched, opened, qtbot):
    qtbot.waitUntil(lambda: len(opened.history.runs) == 3)
    assert {run.origin for run in opened.history.runs} == {"search"}
    rules = [{(r.match, r.config) for r in run.rules} for run in opened.history.runs]
    assert rules == [
        {("", "a8w8")},
        {("", "a8w4"), ("stem.conv", "a8w8")},
        {("", "a16w8"), ("stem.conv", "a8w8")},
    ]


def test_that_what_was_searched_before_stands_among_the_runs_once(searched, opened, qtbot, project_file):
    qtbot.waitUntil(lambda: len(opened.history.runs) == 3)
    file = history_path(project_file)
    file.unlink()
    opened.files.open_path(project_file)

    def kept():
        with closing(History(file)) as history:
            return len(history.runs())

    qtbot.waitUntil(lambda: file.exists() and kept() == 3)


def test_that_a_search_without_other_candidates_is_not_offered_to_go_on(opened, qtbot):
    panel = opened.window.reveal("search")
    panel.start.click()
    qtbot.waitUntil(lambda: panel.study.job is None and panel.study.result is not None)
    panel.limits.trials.setValue(500)
    qtbot.waitUntil(lambda: panel.start.text() == "Continue")
    ended = panel.study.result.model_copy(update={"is_exhausted": True})
    save_study(ended, study_folder(opened.session.cache, panel.study.key))
    panel.refresh()
    assert panel.start.text() == "Search"


@pytest.mark.slow
def test_that_a_search_which_goes_on_for_a_closed_project_is_not_shown_in_the_next(
    opened, qtbot, engines, project_file, tmp_path
):
    opened.runner.warm_up("background")
    qtbot.waitUntil(lambda: opened.runner.engine_state("background") == "ready")
    engines.made[-1].hold_study_at = 1
    panel = opened.window.reveal("search")
    panel.start.click()
    qtbot.waitUntil(lambda: len(panel.plot.dots) == 1)
    other = tmp_path / "other.qwb"
    project = store.load(project_file)
    store.save(project.model_copy(update={"name": "other", "rules": ()}), other)
    (job,) = opened.runner.running
    opened.files.open_path(other)
    assert panel.study.job is None
    opened.runner.received.emit(
        StudyProgress(job=job.id, study="search", key=panel.study.key, done=2, total=3)
    )
    assert panel.study.result is None
    opened.runner.cancel()
    qtbot.waitUntil(lambda: not opened.runner.running)


def test_that_channels_are_searched_and_applied_with_their_trained_weights(opened, engines, qtbot):
    panel = opened.window.reveal("search")
    panel.limits.trials.setValue(3)
    assert not panel.limits.train.isEnabled()
    panel.limits.widths.click()
    panel.limits.train.setValue(5)
    panel.start.click()
    qtbot.waitUntil(lambda: not opened.runner.running and len(panel.plot.dots) == 3)
    (told,) = [c.options for c in engines.commands if isinstance(c, RunStudy)]
    assert (told["widths"], told["train"]) == (True, 5)
    panel.slider.setValue(0)
    assert "stem.conv: 16 \u2192 8 channels" in panel.about.text()
    panel.apply.click()
    project = opened.document.project
    assert project.channels() == {"stem.conv": 8}
    assert (opened.document.folder / project.trained_weights).read_bytes() == b"trained"
    opened.document.undo_stack.undo()
    assert opened.document.project.channels() == {}


def test_that_a_search_without_a_measured_candidate_shows_no_empty_chart(searched, opened, qtbot):
    assert searched.plot.isVisible()
    none = searched.study.result.model_copy(update={"candidates": ()})
    save_study(none, study_folder(opened.session.cache, searched.study.key))
    searched.refresh()
    assert not searched.plot.isVisible()
    assert "Dashed" not in searched.note.text()
    assert "0 of 3 candidates" in searched.note.text()


def test_that_every_field_of_the_search_is_explained(searched):
    form = searched.limits
    for field in (form.accuracy, form.cycles, form.sram, form.cpu, form.trials, form.workers):
        assert field.toolTip()
    for field in (form.widths, form.train, form.transforms):
        assert field.toolTip()
    assert form.train.text() == "not at all"
    form.widths.click()
    form.train.setValue(3)
    assert form.train.text() == "3 epochs"


def test_that_a_low_search_panel_cuts_no_line_of_a_candidate(searched, qtbot):
    searched.about.setText("\n".join(f"line {number}" for number in range(30)))
    searched._split.setFixedHeight(200)
    qtbot.waitUntil(lambda: searched._split.height() == 200)
    qtbot.waitUntil(lambda: searched.about.height() >= searched.about.heightForWidth(searched.about.width()))
    # What applies it stays above the text.
    assert searched.apply.geometry().bottom() < 200
