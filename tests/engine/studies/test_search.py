"""A search under limits with real evaluation and Vela's cost, on the smallest network."""

import shutil
from pathlib import Path

import pytest

from tests.engine import improved_networks
from tests.engine.in_process import CALIBRATED, Engine, project
from tests.problems import refused
from workbench.engine.studies.candidate_workers import CandidateWorkers
from workbench.pipeline.cache import Cache
from workbench.project.model import DataSource
from workbench.project.opened import OpenProject
from workbench.protocol import RunStudy, StudyProgress
from workbench.studies.documents import load_study, study_folder, study_key
from workbench.studies.search import TRANSFORMS, SearchResult, take_weights, with_candidate, with_choices

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]


def run(engine, made, **options):
    command = RunStudy(
        job="test",
        study="search",
        project=made,
        folder=str(engine.folder),
        options=options,
        cache_root=str(engine.cache.root),
    )
    engine.events = []
    engine.send(command)
    assert engine.follow() == "done", engine.events
    told = [event for event in engine.events if isinstance(event, StudyProgress)]
    return load_study(SearchResult, study_folder(engine.cache, told[-1].key))


def test_that_a_search_goes_on_judges_anew_and_its_figures_are_real(engine):
    made = project("small", **CALIBRATED)
    first = run(engine, made, trials=1)
    assert [c.number for c in first.candidates] == [1]
    assert all(c.is_within for c in first.measured() if c.cpu_nodes == first.enforced.cpu)
    assert set(first.candidates[0].choices.values()) == {"a8w8"}
    # A storage of Optuna in the folder is not read.
    key = study_key("search", OpenProject(made, engine.folder), engine.cache, {})
    storage = study_folder(engine.cache, key) / "optuna.sqlite"
    storage.write_bytes(b"SQLite format 3\0" + bytes(4000))
    again = run(engine, made, trials=2, accuracy=1000.0)
    assert [c.choices for c in again.candidates[:1]] == [c.choices for c in first.candidates]
    assert len(again.candidates) == 2
    assert again.best() is None
    candidate = again.candidates[1]
    applied = with_choices(made, again.units, candidate.choices)
    assert engine.run(applied, "lower") == "done"
    assert engine.result(applied, "evaluate").top1_quantized == candidate.accuracy
    assert engine.computed == []


@pytest.mark.slow
def test_that_a_search_tries_one_scale_for_each_weight_of_all_modules_and_of_fewer(engine):
    result = run(engine, project("clamped", **CALIBRATED), trials=6)
    coarse = [
        [name for name, config in candidate.choices.items() if config == "a8w8-per-tensor"]
        for candidate in result.candidates[:3]
    ]
    names = [unit.name for unit in result.units]
    assert len(names) == 2
    assert coarse == [[], names, names[1:]]
    figures = [candidate.flash_bytes for candidate in result.candidates[:3]]
    assert 0 < figures[1] <= figures[2] <= figures[0]


@pytest.mark.slow
def test_that_a_search_of_widths_tries_and_trains_fewer_channels(engine):
    made = project("wide_networks.py:tabular", **CALIBRATED)
    found = run(engine, made, trials=3, widths=True, train=1)
    module, widths = next(iter(found.widths.items()))
    assert [c.channels[module] for c in found.candidates[:2]] == list(widths[:2])
    wide, narrow = found.candidates[:2]
    assert narrow.cycles < wide.cycles
    assert wide.weights == ""
    assert narrow.weights.startswith("trained-")
    options = {"widths": True, "train": 1}
    key = study_key("search", OpenProject(made, engine.folder), engine.cache, options)
    take_weights(narrow, study_folder(engine.cache, key), engine.folder)
    applied = with_candidate(made, found, narrow)
    assert applied.channels() == {module: widths[1]}
    assert engine.run(applied, "lower", "evaluate") == "done", engine.failure
    assert engine.result(applied, "lower").vela[0].cycles_total == narrow.cycles
    # Without the option it is another search.
    assert run(engine, made, trials=1).candidates[0].channels == {}


@pytest.mark.slow
def test_that_a_search_of_weight_transforms_tries_each_and_applies_the_best(engine):
    shutil.copy(Path(improved_networks.__file__), engine.folder)
    samples = DataSource(spec="improved_networks.py:samples")
    made = project("uneven", "a8w4", calibration=samples)
    found = run(engine, made, trials=len(TRANSFORMS), transforms=True)
    assert [c.transforms for c in found.candidates] == [*TRANSFORMS]
    best = max(found.candidates, key=lambda c: c.accuracy)
    assert best.accuracy > found.candidates[0].accuracy
    applied = with_candidate(made, found, best)
    assert applied.improvers == TRANSFORMS[best.transforms]
    assert engine.run(applied, "evaluate") == "done", engine.failure
    assert engine.result(applied, "evaluate").sqnr_db == best.accuracy


def test_that_a_search_with_training_and_workers_is_refused(engine):
    command = RunStudy(
        job="test",
        study="search",
        project=project("small", **CALIBRATED),
        folder=str(engine.folder),
        cache_root=str(engine.cache.root),
        options={"trials": 2, "widths": True, "train": 1, "workers": 2},
    )
    engine.events = []
    engine.send(command)
    assert engine.follow() == "failed"
    assert engine.failure.code == "search-training-in-workers"


@pytest.mark.slow
def test_that_a_dask_cluster_evaluates_candidates_to_the_same_figures(engine, tmp_path_factory):
    distributed = pytest.importorskip("distributed")
    made = project("small", **CALIBRATED)
    here = run(engine, made, trials=2)
    other = Engine(tmp_path_factory.mktemp("cluster"))
    try:
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, dashboard_address=None, processes=True
        ) as cluster:
            there = run(other, made, trials=2, scheduler=cluster.scheduler_address)
            assert cluster.scheduler.transition_counter > 0
    finally:
        other.close()
    figures = {c.number: (c.choices, c.figures, c.problem) for c in here.candidates}
    assert {c.number: (c.choices, c.figures, c.problem) for c in there.candidates} == figures


def test_that_a_search_says_what_a_cluster_lacks(tmp_path):
    distributed = pytest.importorskip("distributed")
    cache = Cache(tmp_path / "cache")
    with distributed.LocalCluster(n_workers=0, dashboard_address=None, processes=False) as cluster:
        address = cluster.scheduler_address
        with refused("cluster-without-workers"):
            CandidateWorkers(1, tmp_path, cache, accelerate=True, scheduler=address)
        cluster.scale(1)
        cluster.wait_for_workers(1)
        with refused("cluster-folder-not-shared"):
            CandidateWorkers(1, tmp_path / "elsewhere", cache, accelerate=True, scheduler=address)
