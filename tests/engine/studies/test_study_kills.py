"""Studies whose stored results are forged, whose workers are killed, or whose engine is."""

import os
import resource
import signal
from pathlib import Path

import pytest

from tests.engine.in_process import CALIBRATED, project
from tests.engine.studies.test_search import run
from workbench.engine_process import EngineProcess
from workbench.pipeline.plan import plan
from workbench.project.opened import OpenProject
from workbench.project.trust import named_code
from workbench.protocol import EngineExit, JobFinished, Ready, RunStudy, StageFailed, StudyProgress
from workbench.studies import documents
from workbench.studies.documents import load_study, study_folder, study_key
from workbench.studies.search import Candidate, SearchResult

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]


def kept(engine, made):
    return study_folder(engine.cache, study_key("search", OpenProject(made, engine.folder), engine.cache, {}))


@pytest.mark.slow
def test_that_forged_candidates_of_a_search_do_not_stop_it(engine):
    made = project("small", **CALIBRATED)
    first = run(engine, made, trials=1)
    place = kept(engine, made)
    names = [unit.name for unit in first.units]
    odd = (
        {"choices": {}},
        {"choices": dict.fromkeys(names, "a8w8"), "accuracy": float("nan"), "cycles": 1},
        {"choices": dict.fromkeys(names, "\x1b[2J")},
        {"choices": dict.fromkeys([*names, "x" * 10_000], "float")},
        {"choices": dict.fromkeys(names, "float"), "accuracy": float("inf"), "cycles": 10**30},
    )
    forged = tuple(Candidate(number=-5, origin="search", sram_bytes=1, cpu_nodes=0, **each) for each in odd)
    documents.save_study(first.model_copy(update={"candidates": (*forged, *first.candidates)}), place)
    again = run(engine, made, trials=len(forged) + 2)
    assert len(again.candidates) == len(forged) + 2
    assert again.candidates[-1].figures is not None
    assert sorted(path.name for path in place.iterdir()) == ["study.json"]


def searching(engine, made, trials, on_progress, **options):
    """Run a search on an engine process of its own; return how it ended: a code where it failed."""
    command = RunStudy(
        job="kill",
        study="search",
        project=made,
        folder=str(engine.folder),
        options={"trials": trials, **options},
        plan=plan(OpenProject(made, engine.folder), engine.cache),
        cache_root=str(engine.cache.root),
        code=named_code(OpenProject(made, engine.folder)).digest,
    )
    process = EngineProcess(warm=True)
    ended = "killed"
    for event in process.events():
        match event:
            case Ready():
                process.send(command)
            case StudyProgress():
                on_progress(process, event)
            case StageFailed():
                ended = event.infos[0].code
            case JobFinished():
                ended = event.outcome if event.outcome != "failed" else ended
                process.stop()
            case EngineExit():
                break
    return ended


def children_of(pid):
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    listed = [int(child) for child in found]
    tasks = Path(f"/proc/{pid}/task").iterdir()
    listed += [int(c) for task in tasks for c in (task / "children").read_text().split()]
    return sorted({c for c in listed if b"candidate_workers" in Path(f"/proc/{c}/cmdline").read_bytes()})


@pytest.mark.slow
def test_that_killing_the_engine_at_any_step_of_a_search_loses_the_running_trial_only(engine):
    made = project("small", **CALIBRATED)
    before, total = (), 5
    for _ in range(4):
        known = len(before)

        def kill(process, event, known=known):
            if event.done > known:
                os.kill(process.pid, signal.SIGKILL)

        assert searching(engine, made, total, kill) == "killed"
        found = load_study(SearchResult, kept(engine, made))
        if found is None:
            continue
        assert found.candidates[: len(before)] == before
        assert len(found.candidates) >= known
        before = found.candidates
    assert searching(engine, made, total, lambda *_: None) == "done"
    found = load_study(SearchResult, kept(engine, made))
    assert found.candidates[: len(before)] == before
    assert len(found.candidates) == total
    assert not any(candidate.problem for candidate in found.candidates)
    assert not list((engine.cache.root / "partial").iterdir()) or before


@pytest.mark.slow
def test_that_killing_a_worker_of_a_search_loses_no_candidate(engine):
    made = project("small", **CALIBRATED)
    killed = []

    def kill(process, event):
        if event.done >= 1 and len(killed) < 2 and (workers := children_of(process.pid)):
            killed.append(workers[0])
            os.kill(workers[0], signal.SIGKILL)

    assert searching(engine, made, 5, kill, workers=2) == "done"
    assert killed
    found = load_study(SearchResult, kept(engine, made))
    assert len(found.candidates) == 5
    assert not any(candidate.problem for candidate in found.candidates)


@pytest.mark.slow
def test_that_a_disk_that_fills_up_ends_a_search_in_a_sentence_and_loses_no_candidate(engine):
    made = project("small", **CALIBRATED)
    sizes = []

    def fill(process, event):
        if event.done == 2 and not sizes:
            sizes.append((kept(engine, made) / "study.json").stat().st_size)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (sizes[0], -1))

    assert searching(engine, made, 4, fill) in {"study-not-written", "cache-not-writable"}
    assert sizes
    before = load_study(SearchResult, kept(engine, made)).candidates
    assert len(before) >= 2
    assert searching(engine, made, 4, lambda *_: None) == "done"
    found = load_study(SearchResult, kept(engine, made)).candidates
    assert found[: len(before)] == before
    assert len(found) == 4
