"""The history beside a project: what it keeps, and what happens when it cannot."""

import json
import sqlite3

import pytest

from tests.fakes.projects import make_project
from tests.fakes.results import result_of, write_result
from tests.problems import refused
from workbench.cli import main
from workbench.files import locked
from workbench.history.comparison import (
    difference,
    estimate_warning,
    front_of,
    lowered_of,
    module_changes,
    pareto_front,
    rules_line,
)
from workbench.history.runs import Run, Simulated, run_of
from workbench.history.store import History, history_path
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project import edits
from workbench.project.edits import restore_rules
from workbench.project.opened import OpenProject


@pytest.fixture
def evaluated(tmp_path, project_file):
    """A function that returns the run of a project whose stages ``until`` are in the cache."""
    cache = Cache(tmp_path / "cache")

    def run(project, *stages):
        planned = plan(OpenProject(project, project_file.parent), cache)
        for stage in stages:
            with cache.writing(planned.key(stage)) as folder:
                write_result(stage, folder)
        return run_of(project, planned, cache)

    return run


def with_figures(run: Run, number: int, accuracy: float, cycles: int, sram: int) -> Run:
    quality = run.quality.model_copy(update={"sqnr_db": accuracy})
    time = run.cost.inference_ms * cycles / run.cost.cycles
    cost = run.cost.model_copy(update={"cycles": cycles, "sram_bytes": sram, "inference_ms": time})
    return run.model_copy(update={"number": number, "quality": quality, "cost": cost})


def test_that_a_project_which_was_not_evaluated_gives_no_run(evaluated):
    assert evaluated(make_project(), "export") is None


def test_that_a_run_has_a_verdict_once_its_program_was_verified(evaluated):
    before = evaluated(make_project(), "evaluate", "lower")
    assert (before.number, before.gate) == (0, None)
    assert evaluated(make_project(), "verify").gate is not None


def test_that_a_run_that_was_only_simulated_has_no_samples(evaluated):
    made = evaluated(make_project(), "run")
    assert (made.quality.samples, made.quality.sqnr_db, made.gate) == (0, None, None)
    assert made.simulated is not None


def test_that_a_run_keeps_rules_figures_cost_digests_and_versions(evaluated, project_file):
    project = edits.assign(make_project(), "module_name", "head", "a16w8")
    run = evaluated(project, "evaluate", "lower")
    history = History(history_path(project_file))
    assert history.record(run).number == 1
    history.close()
    (kept,) = History(history_path(project_file)).runs()
    assert kept.rules == project.rules
    assert kept.quality.sqnr_db == 34.5
    assert (kept.cost.cycles, kept.cost.sram_bytes) == (1000, 4096)
    assert {"calibrate", "evaluate"} <= set(kept.digests)
    assert kept.versions["torch"]
    assert kept.layers[0].tensor == "conv2d"
    assert rules_line(kept) == "a8w8, head: a16w8"


def test_that_the_same_configuration_keeps_its_row_and_gains_its_cost(evaluated):
    history = History()
    assert history.record(evaluated(make_project(), "evaluate")).cost is None
    assert history.record(evaluated(make_project(), "lower")).number == 1
    assert history.run(1).cost.cycles == 1000


def test_that_a_damaged_history_is_said_once_left_alone_and_loses_no_new_run(evaluated, project_file):
    path = history_path(project_file)
    path.write_bytes(b"this was a database once " * 100)
    before = path.read_bytes()
    history = History(path)
    assert history.problem.code == "history-damaged"
    assert history.problem.where.id == str(path)
    assert "damaged" in history.problem.message
    assert "damaged" in history.problem.hint
    history.record(evaluated(make_project(), "evaluate"))
    assert len(history.runs()) == 1
    assert path.read_bytes() == before


def test_that_a_read_only_history_is_shown_and_new_runs_live_in_memory(evaluated, project_file):
    path = history_path(project_file)
    history = History(path)
    history.record(evaluated(make_project(), "evaluate"))
    history.close()
    path.chmod(0o555)
    again = History(path)
    assert again.problem.code == "history-not-writable"
    assert "damaged" not in again.problem.message + again.problem.hint
    again.record(evaluated(edits.assign(make_project(), "global", "", "a16w8"), "evaluate"))
    assert [run.number for run in again.runs()] == [1, 2]
    path.chmod(0o644)
    assert len(History(path).runs()) == 1


def test_that_a_run_which_does_not_exist_is_refused_with_those_that_do(evaluated):
    history = History()
    history.record(evaluated(make_project(), "evaluate"))
    with refused("run-unknown"):
        history.run(7)


def test_that_the_front_holds_the_points_that_no_other_beats():
    points = [(90, 10, 5), (80, 10, 5), (95, 20, 5), (90, 9, 9), None, (90, 10, 5)]
    assert pareto_front(points) == {0, 2, 3, 5}


def test_that_runs_are_compared_by_accuracy_cycles_and_memory(evaluated):
    run = evaluated(make_project(), "evaluate", "lower")
    runs = [with_figures(run, 1, 30, 100, 10), with_figures(run, 2, 29, 120, 10)]
    assert front_of(runs) == {1}


def test_that_a_difference_names_rules_figures_and_layers(evaluated):
    a = evaluated(make_project(), "evaluate", "lower")
    layers = tuple(x.model_copy(update={"sqnr_db": 20.0}) for x in a.layers)
    project = edits.assign(make_project(), "module_name", "head", "float")
    b = with_figures(a, 2, 30.0, 900, 4096).model_copy(update={"rules": project.rules, "layers": layers})
    found = difference(a, b)
    assert [(c.what, c.before, c.after) for c in found.rules] == [("head", "", "float")]
    assert [c.what for c in found.figures] == ["SQNR", "cycles", "time"]
    assert [(c.what, c.after) for c in found.layers] == [("conv2d", "20.00 dB")]


def test_that_restoring_takes_the_rules_and_the_presets_they_name(evaluated):
    mine = make_project().config_of(make_project().rules[0])
    kept = edits.assign(edits.save_preset(make_project(), "mine", mine), "global", "", "mine")
    restored = restore_rules(make_project(), kept)
    assert restored.rules == kept.rules
    fixed = edits.fix_range(kept, "relu", 0.0, 6.0)
    restored = restore_rules(make_project(), edits.use_trained(fixed, "trained.safetensors"))
    assert restored.ranges == fixed.ranges
    assert restored.trained_weights == "trained.safetensors"
    assert restored.presets == {"mine": mine}


def test_that_a_run_from_before_methods_were_kept_is_read_and_restored(evaluated):
    chosen = edits.choose_method(make_project(), "tensor", "relu", "mse")
    chosen = edits.fix_range(chosen, "conv2d", -1.0, 1.0)
    run = evaluated(chosen, "evaluate", "lower")
    assert rules_line(run).endswith("Least error (MSE) for relu, 1 fixed range")
    raw = run.model_dump(mode="json")
    del raw["range_methods"]
    raw["ranges"] = [
        {**raw["ranges"][0], "by": ""},
        {"tensor": "relu", "minimum": 0.0, "maximum": 3.0, "by": "mse"},
    ]
    assert Run.model_validate(raw) == run
    plain = evaluated(make_project(), "evaluate")
    assert [(c.what, c.after) for c in difference(plain, run).rules] == [
        ("range of relu", "Least error (MSE)"),
        ("range of conv2d", "-1 to 1"),
    ]
    restored = restore_rules(make_project(), run)
    assert (restored.ranges, restored.range_methods) == (chosen.ranges, chosen.range_methods)


def simulated(run, cycles, version="11.27"):
    figures = Simulated(
        simulator="FVP",
        version=version,
        runner="runner",
        samples=4,
        cycles=cycles,
        estimated_cycles=900,
        exact=1.0,
        max_lsb=0,
        argmax_equal=4,
    )
    return run.model_copy(update={"simulated": figures})


def test_that_measured_cycles_give_way_to_measured_ones_only(evaluated):
    history, run = History(), evaluated(make_project(), "evaluate")
    history.record(simulated(run, 1180.0))
    history.record(run)
    history.record(simulated(run, None))
    assert history.runs()[0].simulated.cycles == 1180.0
    history.record(simulated(run, 1200.0, "11.28"))
    (kept,) = history.runs()
    assert (kept.simulated.cycles, kept.simulated.version) == (1200.0, "11.28")


def test_that_two_runs_are_compared_by_what_the_simulator_measured(evaluated):
    run = evaluated(make_project(), "evaluate", "lower")
    found = difference(run, simulated(run, 1180.0))
    assert ("measured cycles", "", "1180") in [(c.what, c.before, c.after) for c in found.figures]


def test_that_runs_without_accuracy_leave_the_front_to_the_others(evaluated):
    run = with_figures(evaluated(make_project(), "evaluate", "lower"), 1, 30.0, 1000, 10)
    bare = run.model_copy(update={"number": 2})
    nothing = bare.quality.model_copy(update={"sqnr_db": None, "metric_name": "F1"})
    assert front_of([run, bare.model_copy(update={"quality": nothing})]) == {1}


def test_that_two_programs_are_compared_module_by_module():
    a = result_of("lower")
    operation = a.vela[0].operations[0]
    slower = operation.model_copy(update={"cycles": 1900, "staging_bytes": 2048})
    report = a.vela[0].model_copy(update={"operations": (slower,)})
    b = a.model_copy(update={"vela": (report,), "cpu_nodes": ()})
    assert [(c.what, c.before, c.after) for c in module_changes(a, b)] == [
        ("stem.conv", "900 cycles, 0.5 KiB of SRAM", "1,900 cycles, 2.0 KiB of SRAM"),
        ("head", "1 on the CPU", ""),
    ]
    assert module_changes(a, a) == []


def test_that_a_run_finds_its_program_in_the_cache_as_long_as_it_is_there(evaluated, tmp_path):
    run, cache = evaluated(make_project(), "evaluate", "lower"), Cache(tmp_path / "cache")
    assert lowered_of(run, cache) == result_of("lower")
    assert lowered_of(run, Cache(tmp_path / "other")) is None


def test_that_estimates_of_two_versions_are_warned_of(evaluated):
    run = evaluated(make_project(), "evaluate", "lower")
    other = run.model_copy(update={"cost": run.cost.model_copy(update={"vela_version": "5.0.0"})})
    assert estimate_warning(run, run) == ""
    assert "Vela 5.1.0 (corrected) and 5.0.0" in estimate_warning(run, other)


def test_that_a_rule_for_place_is_told_beside_one_for_precision(evaluated):
    plain = edits.assign(make_project(), "module_name", "head", "a16w8")
    off = edits.assign(plain, "module_name", "head", "cpu")
    found = difference(evaluated(plain, "evaluate"), evaluated(off, "evaluate"))
    assert [(c.what, c.after) for c in found.rules] == [("head, off the NPU", "on")]


def test_that_a_history_that_is_locked_while_it_is_used_keeps_its_runs(evaluated, project_file, monkeypatch):
    path = history_path(project_file)
    history = History(path)
    history.record(evaluated(make_project(), "evaluate"))
    monkeypatch.setattr("workbench.files._LOCK_S", 0.0)
    # Another program holds the lock for good.
    with locked(path):
        wide = evaluated(edits.assign(make_project(), "global", "", "a16w8"), "evaluate")
        assert history.record(wide).number >= 1
        assert history.problem is not None
        assert wide.key in {run.key for run in history.runs()}
    assert [run.number for run in History(path).runs()] == [1]


def test_that_two_programs_add_to_one_history_and_see_each_others_runs(evaluated, project_file):
    path = history_path(project_file)
    first, second = History(path), History(path)
    narrow, wide = configured(evaluated, "a8w8", "a16w8")
    assert first.record(narrow).number == 1
    assert second.record(wide).number == 2
    assert [run.number for run in first.runs()] == [1, 2]
    assert first.problem is second.problem is None


def test_that_rows_of_another_version_are_left_out_and_told_of(evaluated, project_file):
    path = history_path(project_file)
    history = History(path)
    for config in ("a8w8", "a16w8"):
        history.record(evaluated(edits.assign(make_project(), "global", "", config), "evaluate"))
    history.close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE runs SET run = '{}' WHERE number = 1")
    again = History(path)
    assert [run.number for run in again.runs()] == [2]
    assert again.problem.code == "history-runs-unsupported"
    assert again.problem.message.startswith("1 ")
    assert again.problem.where.id == str(path)
    again.runs()
    assert again.problem.code == "history-runs-unsupported"
    # A row that nothing can read gives way to the run of the same configuration.
    first = evaluated(edits.assign(make_project(), "global", "", "a8w8"), "evaluate")
    assert again.record(first).number == 1
    assert [run.number for run in again.runs()] == [1, 2]


def test_that_a_run_whose_numbers_fit_no_float_is_left_out(evaluated, project_file, capsys):
    path = history_path(project_file)
    history = History(path)
    for config in ("a8w8", "a16w8"):
        history.record(evaluated(edits.assign(make_project(), "global", "", config), "evaluate", "lower"))
    history.close()
    with sqlite3.connect(path) as other:
        run = json.loads(other.execute("SELECT run FROM runs WHERE number = 1").fetchone()[0])
        run["cost"]["cycles"] = 10**400
        other.execute("UPDATE runs SET run = ? WHERE number = 1", (json.dumps(run),))
    again = History(path)
    assert [run.number for run in again.runs()] == [2]
    assert again.problem.code == "history-runs-unsupported"
    assert main(["runs", str(project_file)]) == 0
    assert main(["report", str(project_file), "--out", str(project_file.with_suffix(".html"))]) == 0
    assert "error" not in capsys.readouterr().err


def test_that_a_history_of_a_newer_program_is_left_alone(evaluated, project_file):
    path = history_path(project_file)
    History(path).close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 999")
    history = History(path)
    assert history.problem is not None
    history.record(evaluated(make_project(), "evaluate"))
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT count(*) FROM runs").fetchone() == (0,)


def test_that_the_numbers_of_runs_that_there_are_stand_in_the_hint(evaluated):
    history = History()
    with refused("run-unknown") as none:
        history.run(1)
    assert "none" in none.value.infos[0].hint
    history.record(evaluated(make_project(), "evaluate"))
    with refused("run-unknown") as some:
        history.run(2)
    assert "1 to 1" in some.value.infos[0].hint


def configured(evaluated, *configs):
    """Return a run for each config of all modules."""
    return [evaluated(edits.assign(make_project(), "global", "", config), "evaluate") for config in configs]


def test_that_figures_of_a_configuration_stay_until_newer_ones_come(evaluated):
    history = History()
    first = evaluated(make_project(), "evaluate", "lower", "verify")
    named = first.model_copy(update={"origin": "search"})
    history.record(named)
    nothing = first.quality.model_copy(update={"samples": 0, "sqnr_db": None})
    bare = first.model_copy(update={"quality": nothing, "layers": (), "gate": None, "origin": "x"})
    history.record(bare)
    (kept,) = history.runs()
    assert (kept.quality, kept.layers, kept.gate) == (first.quality, first.layers, first.gate)
    assert kept.origin == "search"
    better = first.quality.model_copy(update={"sqnr_db": 40.0})
    other = first.gate.model_copy(update={"reason": "another"})
    history.record(first.model_copy(update={"quality": better, "layers": (), "gate": other}))
    (kept,) = history.runs()
    assert (kept.quality, kept.layers, kept.gate) == (better, (), other)


def test_that_a_run_gets_the_origin_that_an_earlier_one_lacks(evaluated):
    history = History()
    run = evaluated(make_project(), "evaluate")
    history.record(run)
    history.record(run.model_copy(update={"origin": "search"}))
    assert history.run(1).origin == "search"


def quick(path):
    """Return a history that does not wait for the disk."""
    history = History(path)
    history._rows.execute("PRAGMA synchronous = OFF")
    return history


class Breaking:
    """The rows of a history, which break off when they are read or written."""

    def __init__(self, rows, *, read=None, written=False):
        self._rows, self._read, self._written = rows, read, written

    def execute(self, text, *values):
        if self._written and not text.startswith("SELECT number, run FROM runs ORDER"):
            raise sqlite3.DatabaseError("malformed")
        return self._broken(self._rows.execute(text, *values))

    def _broken(self, rows):
        for number, row in enumerate(rows):
            if number == self._read:
                raise sqlite3.DatabaseError("malformed")
            yield row

    def __enter__(self):
        return self._rows.__enter__()

    def __exit__(self, *error):
        return self._rows.__exit__(*error)

    def close(self):
        self._rows.close()


def test_that_runs_before_a_damaged_one_are_shown_in_their_order(evaluated, project_file):
    history = quick(history_path(project_file))
    for run in configured(evaluated, "a8w8", "a16w8", "a8w4", "float"):
        history.record(run)
    history._rows = Breaking(history._rows, read=3)
    assert [run.number for run in history.runs()] == [2, 3, 4]
    assert history.problem.code == "history-damaged"


def test_that_runs_of_a_history_that_breaks_are_kept_in_their_order(evaluated, project_file):
    history = quick(history_path(project_file))
    *first, last = configured(evaluated, "a8w8", "a16w8", "a8w4", "float")
    for run in first:
        history.record(run)
    history._rows = Breaking(history._rows, written=True)
    assert history.record(last).number == 4
    assert [run.key for run in history.runs()] == [run.key for run in (*first, last)]


def test_that_a_history_is_listed_up_to_the_limit(evaluated, project_file, monkeypatch):
    path = history_path(project_file)
    history = quick(path)
    for run in configured(evaluated, "a8w8", "a16w8"):
        history.record(run)
    history.close()
    with sqlite3.connect(path) as file:
        (size,) = file.execute("SELECT sum(length(run)) FROM runs").fetchone()
        assert file.execute("PRAGMA user_version").fetchone() == (1,)
    history = History(path)
    for most, numbers, code in ((size, [1, 2], None), (size - 1, [2], "history-too-large")):
        monkeypatch.setattr("workbench.history.store._MAX_READ_BYTES", most)
        assert [run.number for run in history.runs()] == numbers
        assert (history.problem.code if history.problem else None) == code
