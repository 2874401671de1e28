"""Verbs that run stages and studies, over engines that play their events."""

import json

import pytest

from tests.fakes.engine import Play
from tests.for_each import for_each
from tests.workbench.targets.test_vela_ini import MODES, SYSTEM
from workbench.cli import main
from workbench.errors import ErrorInfo
from workbench.history.store import History, history_path
from workbench.project import edits, store
from workbench.project.configs import IMPROVERS
from workbench.project.opened import OpenProject


@pytest.fixture
def asked(project_file, played, capsys):
    """Run a verb on the project; return its exit code and its document, or its lines."""

    def ask(verb, *arguments, as_json=True):
        capsys.readouterr()
        code = main([verb, str(project_file), *arguments, *(["--json"] if as_json else [])])
        out = capsys.readouterr().out
        if as_json:
            document = json.loads(out)
            return code, document
        return code, [" ".join(line.split()) for line in out.splitlines()]

    return ask


def options_of(played):
    return played.commands[-1].options


def test_that_a_run_prints_its_document_and_writes_the_deliverables(asked, played, tmp_path, capsys, codes):
    code, document = asked("run", "--skip", "run", "--out", str(tmp_path / "out"))
    assert code == 0
    assert document["package"]["pte"]["path"] == str(tmp_path / "out" / "net.pte")
    command = played.commands[0]
    assert (command.until, command.skip, command.accelerate) == ("package", ("run",), True)
    assert asked("run", "--until", "evaluate", "--no-cache", "--no-acceleration")[0] == 0
    assert (played.commands[-1].until, played.commands[-1].accelerate) == ("evaluate", False)
    assert played.commands[-1].cache_root != command.cache_root
    code, lines = asked("run", "--skip", "run", "--fail-if", "lsb>0", as_json=False)
    assert code == 4
    assert any(line.startswith("Verdict Compiled program differs") for line in lines)
    assert codes == []


def test_that_a_program_that_differs_is_withheld_unless_it_is_allowed(asked, tmp_path, capsys):
    strict = ("--skip", "run", "--fail-if", "lsb>0", "--out", str(tmp_path / "out"))
    code, document = asked("run", *strict)
    assert code == 4
    assert document["package"]["withheld"]
    assert not (tmp_path / "out").exists()
    code, document = asked("run", *strict, "--allow-differences")
    assert code == 4
    assert not document["package"]["withheld"]
    assert (tmp_path / "out" / "net.pte").exists()


def test_that_a_stage_that_fails_ends_a_run_with_1(asked, played):
    played.plays = [Play(fail="lower", infos=(ErrorInfo(message="No.", code="no"),))]
    code, document = asked("run")
    assert code == 1
    assert document["stages"][-1]["error"]["code"] == "no"


def test_that_progress_is_printed_line_by_line(project_file, played, capsys):
    def printed():
        lines = [" ".join(line.split()) for line in capsys.readouterr().err.splitlines()]
        return [line for line in lines if not line.startswith(("warning:", "Choose "))]

    assert main(["run", str(project_file), "--until", "export", "--verbose"]) == 0
    assert printed() == [
        "info: at work on import_model",
        "Load done 0.20 s",
        "info: at work on export",
        "Export done 0.20 s",
    ]
    played.plays = [Play(fail="prepare", infos=(ErrorInfo(message="No.", code="no"),))]
    assert main(["run", str(project_file), "--until", "prepare"]) == 1
    assert printed()[:3] == ["Load cached 0.00 s", "Export cached 0.00 s", "Prepare failed 0.10 s"]


def test_that_weights_beside_the_program_change_the_target_of_this_run_only(asked, played, project_file):
    before = project_file.read_bytes()
    assert asked("run", "--until", "export", "--external-weights")[0] == 0
    assert played.commands[0].project.target.options["external_weights"] is True
    assert project_file.read_bytes() == before


def test_that_sensitivity_lists_the_worst_module_first(asked, played):
    code, document = asked("sensitivity", "--samples", "4")
    assert code == 0
    assert (document["samples"], document["data"]) == (4, "data.npz")
    assert [u["name"] for u in document["units"]] == ["head", "stem.conv"]
    head, conv = document["units"]
    assert head["only_db"] == pytest.approx(20.969, abs=1e-3)
    assert head["without_db"] == pytest.approx(30.0)
    assert head["gain_db"] == pytest.approx(10.0)
    assert conv["gain_db"] == pytest.approx(0.4576, abs=1e-3)
    assert document["quantized"]["sqnr_db"] == pytest.approx(20.0)
    code, lines = asked("sensitivity", "--samples", "4", as_json=False)
    assert code == 0
    assert len(played.made) == 1
    assert lines[1:] == [
        "head 20.97 30.00 10.00 - 8",
        "stem.conv 30.00 20.46 0.46 - 8",
        "Whole model: 20.00 dB over 4 samples.",
    ]
    assert played.commands[-1].accelerate
    slow = asked("sensitivity", "--samples", "5", "--no-acceleration")[1]
    assert (slow["samples"], played.commands[-1].accelerate) == (5, False)
    assert len(played.made) == 2


def test_that_a_comparison_with_tflite_shows_layers_causes_and_what_limits_it(asked, played, tmp_path):
    file = tmp_path / "deployed.tflite"
    file.write_bytes(b"\0\0\0\0TFL3, not read by an engine that is played")
    code, document = asked("tflite", str(file))
    assert code == 0
    assert (document["file"], document["kind"], document["difference"]) == (
        "deployed.tflite",
        "estimated",
        30,
    )
    assert [(row["cause"], row["cycles"]) for row in document["causes"]] == [
        ("layout", 50),
        ("elementwise", -20),
    ]
    assert [layer["difference"] for layer in document["layers"]] == [50, -20]
    assert "+50" in document["answer"]
    # An output that is far from the model's is remarked on.
    assert len(document["remarks"]) == 1
    options = played.commands[-1].options
    assert (options["file"], len(options["digest"])) == (str(file), 64)
    code, lines = asked("tflite", str(file), as_json=False)
    assert code == 0
    assert "stem.conv (4x4x8) Conv2D stem (4x4x8) 150 100 +50 transposes +50" in lines
    assert "- Add sum (4x4x8) - 20 -20 elementwise operations -20" in lines
    assert "aten.mul.Tensor head 70 It is in float." in lines
    # The same file is read from the cache, a changed one is not.
    assert len(played.made) == 1 or played.commands[-1].options == options
    file.write_bytes(b"\0\0\0\0TFL3, another")
    asked("tflite", str(file))
    assert played.commands[-1].options["digest"] != options["digest"]


def test_that_a_tflite_file_that_is_missing_is_named(asked, tmp_path, capsys, project_file):
    assert main(["tflite", str(project_file), str(tmp_path / "none.tflite")]) == 2
    assert "none.tflite" in capsys.readouterr().err


def test_that_a_search_keeps_its_candidates_and_applies_the_best(asked, played, project_file):
    limits = ("--accuracy-at-least", "92%", "--cycles-at-most", "5000", "--sram-at-most", "9000",
              "--cpu-operators-at-most", "3", "--trials", "3", "--workers", "2")  # fmt: skip
    code, document = asked("search", *limits)
    assert code == 0
    assert options_of(played) == {
        "accuracy": 0.92, "cycles": 5000.0, "sram": 9000.0, "cpu": 3, "trials": 3, "workers": 2,
        "scheduler": "",
    }  # fmt: skip
    assert document["best"] == 3
    assert sorted(document["front"]) == [1, 2, 3]
    code, lines = asked("search", *limits, "--apply", as_json=False)
    assert code == 0
    assert lines[1:] == [
        "1 * 90.00 % 1,000 4.0 - 1 broken staircase a8w8",
        "2 * 85.00 % 800 4.0 - 1 broken staircase a8w4, stem.conv: a8w8",
        "3 * 95.00 % 1,400 4.0 - 1 kept search a16w8, stem.conv: a8w8",
        "Best within limits: candidate 3, 1,400 cycles (estimated).",
    ]
    assert {(r.match, r.config) for r in store.load(project_file).rules} == {
        ("", "a16w8"), ("stem.conv", "a8w8"),
    }  # fmt: skip
    history = History(history_path(project_file))
    assert [run.origin for run in history.runs()] == ["search"] * 3
    history.close()


def test_that_a_search_without_a_candidate_within_limits_ends_with_1(asked, project_file):
    before = project_file.read_bytes()
    code, lines = asked("search", "--accuracy-at-least", "0.99", "--trials", "2", "--apply", as_json=False)
    assert code == 1
    assert lines[-1].startswith("No candidate")
    assert project_file.read_bytes() == before


def test_that_a_sweep_gives_every_point_with_its_figures(asked, played):
    code, document = asked(
        "sweep", "--targets", "ethos-u55-128", "ethos-u55-256", "--memory-modes",
        "Shared_Sram,Sram_Only", "--arena-cache", "65536", "--workers", "1",
    )  # fmt: skip
    assert code == 0
    assert options_of(played)["targets"] == ["ethos-u55-128", "ethos-u55-256"]
    assert options_of(played)["axes"] == {
        "memory_mode": ["Shared_Sram", "Sram_Only"], "arena_cache_bytes": [65536],
    }  # fmt: skip
    assert (document["kind"], document["tool"]) == ("estimated", "Vela 5.1.0")
    points = document["points"]
    assert len(points) == 4
    assert {(p["target"], p["memory_mode"]) for p in points} == {
        (t, m) for t in ("ethos-u55-128", "ethos-u55-256") for m in ("Shared_Sram", "Sram_Only")
    }
    first = points[0]
    assert first["cycles_total"] == 10**6 // 128
    assert first["arena_cache_bytes"] == 65536
    assert first["problem"] is None
    front = document["front"]
    assert [points[i]["target"] for i in front] == ["ethos-u55-256"]
    code, lines = asked(
        "sweep", "--targets", "ethos-u55-128", "--memory-modes", "Shared_Sram",
        "--arena-cache", "65536", as_json=False,
    )  # fmt: skip
    assert lines[1].startswith(
        "ethos-u55-128 * Ethos_U55_High_End_Embedded Shared_Sram 64 Performance 7,812 7.812 4.0 1.0"
    )
    assert lines[2] == "Estimated by Vela 5.1.0; * marks the Pareto front."


def test_that_a_sweep_lists_what_cannot_be_combined_with_the_reason(asked, codes):
    code, lines = asked(
        "sweep",
        "--targets",
        "ethos-u55-128",
        "--memory-modes",
        "Shared_Sram",
        "Dedicated_Sram",
        as_json=False,
    )
    assert code == 0
    assert any(line.startswith("skipped: ethos-u55-128:") for line in lines)
    assert any(line.endswith("- - - -") for line in lines)
    points = asked("sweep", "--targets", "ethos-u55-128", "--memory-modes", "Shared_Sram", "Dedicated_Sram")[
        1
    ]["points"]
    assert [bool(point["problem"]) for point in points] == [False, True]
    assert asked("sweep", "--memory-modes", "Dedicated_Sram")[0] == 2
    assert codes


@for_each("given", [("--targets", "all"), ("--arena-cache", "1024")])
def test_that_sram_budgets_choose_their_own_points(asked, codes, given):
    codes.clear()
    assert asked("sweep", "--sram-budgets", *given)[0] == 2
    assert codes == ["option-conflict"]


def test_that_sram_budgets_go_from_the_smallest_to_the_fastest(asked, played):
    code, document = asked("sweep", "--sram-budgets")
    assert code == 0
    assert played.commands[-1].study == "budget"
    assert sorted(p["sram_bytes"] for p in document["points"]) == [2048, 4096, 8192]


def test_that_a_number_of_processes_is_at_least_one(asked):
    assert asked("sweep", "--workers", "0")[0] == 2


def test_that_placement_lists_what_stays_on_the_cpu(asked):
    code, document = asked("placement")
    assert code == 0
    assert [bool(d["cpu"]) for d in document["devices"]] == [True, False, False]
    code, lines = asked("placement", as_json=False)
    assert code == 0
    assert lines[0].endswith("7 operators on the NPU, 1 on the CPU")
    assert lines[1] == "aten.bmm.default head: It has 16 bits."
    assert lines[2].endswith("7 operators on the NPU, 0 on the CPU")
    assert lines[3].endswith("No branches there.")


def test_that_a_study_tells_what_it_does_before_the_engine_is_there(
    project_file, played, capsys, monkeypatch
):
    monkeypatch.setattr("workbench.cli.output.PLAIN_PERIOD_S", 0)
    assert main(["blame", str(project_file)]) == 0
    first, *rest = (" ".join(line.split()) for line in capsys.readouterr().err.splitlines())
    assert first == "Engine starting"
    assert any(line.startswith("blame 100%") for line in rest)


def test_that_blame_names_the_modules_to_keep_off(asked):
    code, document = asked("blame")
    assert code == 0
    assert (document["culprits"][0]["match"], document["compilations"]) == ("head", 5)
    code, (reason, call, count) = asked("blame", as_json=False)
    assert code == 0
    assert (reason, count) == ("Vela said no.", "Found in 5 compilations.")
    assert call.endswith('("head")')


def test_that_training_lists_its_epochs_and_applies_the_best_weights(asked, played, project_file):
    code, document = asked("train", "--epochs", "3", "--learning-rate", "0.01", "--batch", "4")
    assert code == 0
    assert options_of(played)["epochs"] == 3
    assert options_of(played)["learning_rate"] == 0.01
    assert options_of(played)["batch"] == 4
    assert (document["best_db"], document["trained_weights"]) == (13.0, None)
    code, lines = asked("train", "--epochs", "3", "--apply", as_json=False)
    assert lines[1:4] == ["1 1 11.00 0.001", "2 0.5 12.00 0.001", "3 0.3333 13.00 0.001 best"]
    assert lines[4].startswith("Before training 10.00 dB, best 13.00 dB")
    used = store.load(project_file).trained_weights
    assert (project_file.parent / used).read_bytes() == b"weights"


def test_that_a_study_that_fails_ends_with_1_and_its_problems(asked, played, monkeypatch):
    from tests.fakes import studies
    from workbench.protocol import JobFinished

    def fail(command, held_at=0):
        yield JobFinished(job=command.job, outcome="failed", elapsed_s=0.1)

    monkeypatch.setattr(studies, "play", fail)
    for verb in ("sensitivity", "search", "sweep", "placement", "blame", "train"):
        assert asked(verb) == (1, {"version": 1, "error": None, "errors": [], "exit_code": 1})


def test_that_the_history_lists_compares_and_restores_runs(asked, project_file):
    assert asked("runs", as_json=False)[1][0].startswith("No runs yet")
    asked("run", "--skip", "run")
    asked("rules", "add", "--kind", "module-name", "--match", "head", "--config", "a16w8", as_json=False)
    asked("run", "--skip", "run")
    runs = asked("runs")[1]["runs"]
    assert [(r["number"], r["best"]) for r in runs] == [(1, True), (2, True)]
    lines = asked("runs", as_json=False)[1]
    assert "34.5 SQNR 34.50 1,000 - 4.0 right accurate enough *" in lines[1]
    changes = asked("runs", "--diff", "1", "2")[1]
    assert (changes["a"], changes["b"]) == (1, 2)
    assert changes["rules"] == [{"what": "head", "before": "", "after": "a16w8"}]
    table = asked("runs", "--diff", "1", "2", as_json=False)[1]
    assert table[:3] == ["rules:", "run 1 run 2", "head - a16w8"]
    assert asked("runs", "--diff", "1", "1", as_json=False) == (0, [])
    assert asked("runs", "--restore", "1", as_json=False)[0] == 0
    assert [r.match for r in store.load(project_file).rules] == [""]
    history = History(history_path(project_file))
    assert len(history.runs()) == 2
    history.close()


def test_that_layers_are_compressed_and_listed(asked, project_file, codes):
    assert asked("compress")[1] == {"version": 1, "compressions": [], "layers": []}
    given = ["--channels", "body.conv=8", "--clusters", "15", "--clusters", "head=31"]
    code, document = asked("compress", *given)
    assert code == 0
    assert document["compressions"] == [
        {"module": "", "channels": None, "clusters": 15},
        {"module": "body.conv", "channels": 8, "clusters": None},
        {"module": "head", "channels": None, "clusters": 31},
    ]
    assert store.load(project_file).channels() == {"body.conv": 8}
    lines = asked("compress", as_json=False)[1]
    assert any(line.startswith("body.conv 8") for line in lines)
    for wrong in (["--channels", "8"], ["--clusters", "many"], ["--clusters", "2"]):
        assert asked("compress", *wrong)[0] == 2
    assert codes == ["compression-unreadable", "compression-unreadable", "compression-invalid"]
    assert asked("compress", "--clear")[1]["compressions"] == []


def test_that_improvers_are_switched_and_listed(asked, project_file):
    assert asked("improve")[1]["improvers"] == []
    assert asked("improve", "--on", "bias")[1]["improvers"] == ["bias"]
    assert store.load(project_file).improvers == ("bias",)
    code, lines = asked("improve", as_json=False)
    assert code == 0
    states = {line.split()[1]: line.split()[0] for line in lines[1:]}
    assert [*states] == [improver.id for improver in IMPROVERS]
    assert [name for name, state in states.items() if state == "on"] == ["bias"]
    assert asked("improve", "--off", "bias")[1]["improvers"] == []


def test_that_a_preset_and_settings_of_improvers_are_chosen(asked, project_file):
    asked("improve", "--on", "gptq")
    told = asked("improve", "--preset", "rounding+clips", "--seed", "3", "--time-limit", "0")[1]
    assert told["improvers"] == ["clips", "rounding"]
    assert told["settings"] == {"seed": 3, "samples": 128, "time_limit_s": None}
    assert store.load(project_file).improving.time_limit_s is None
    assert asked("improve", "--samples", "3")[0] != 0
    assert store.load(project_file).improving.samples == 128


def test_that_rules_are_resolved_once_the_model_is_exported(asked, played):
    code, document = asked("rules", "--resolve")
    assert code == 0
    assert [c.until for c in played.commands] == ["export"]
    assert document["modules"][1] == {
        "module": "stem",
        "type": "net.Block",
        "config": "a8w8",
        "rule": "r1",
        "overridden": [],
    }
    assert {"node": "linear", "config": "a8w8", "rule": "r1"} in document["nodes"]
    assert document["rules"]["r1"]["loses"] == 0
    lines = asked("rules", "--resolve", as_json=False)[1]
    assert len(played.made) == 1
    assert lines[1] == "(model) Sequential a8w8 r1"
    assert lines[2] == "stem Block a8w8 r1"


def test_that_rules_that_need_an_export_that_fails_end_with_1(asked, played):
    played.plays = [Play(fail="export", infos=(ErrorInfo(message="No.", code="no"),))]
    code, document = asked("rules", "--resolve")
    assert (code, document["error"]["code"], document["exit_code"]) == (1, "no", 1)


def test_that_a_matrix_runs_each_project_also_when_one_fails(asked, played, project_file, monkeypatch):
    from tests.fakes import studies
    from workbench.pipeline.cache import Cache
    from workbench.protocol import JobFinished
    from workbench.studies.documents import save_study, study_folder, study_key
    from workbench.studies.matrix import Cell, MatrixResult

    def play(command, held_at=0):
        from pathlib import Path

        if command.project.name == "broken":
            yield JobFinished(job=command.job, outcome="failed", elapsed_s=0.1)
            return
        cache = Cache(Path(command.cache_root))
        key = study_key(
            "matrix", OpenProject(command.project, Path(command.folder)), cache, command.options, command.plan
        )
        cells = (
            Cell(
                target="ethos-u55-128",
                config="a8w8",
                max_lsb=1,
                exact=0.905,
                cycles=1234,
                cpu_nodes=2,
                verdict="right",
            ),
            Cell(target="ethos-u55-128", config="a8w4", problem="Broken.", warned=True),
            Cell(target="ethos-u55-128", config="a8w8-qat", exact=1.0, gain_db=1.5),
            Cell(target="ethos-u55-128", config="a16w8-qat", gain_db=0.0),
        )
        save_study(MatrixResult(total=4, cells=cells), study_folder(cache, key))
        yield JobFinished(job=command.job, outcome="done", elapsed_s=0.1)

    monkeypatch.setattr(studies, "play", play)
    code, lines = asked("matrix", "--configs", "a8w8,a8w4", "--qat-epochs", "2", as_json=False)
    assert code == 0
    assert options_of(played)["configs"] == ["a8w8", "a8w4"]
    assert options_of(played)["qat_epochs"] == 2
    assert lines[0] == "net:"
    assert lines[2].endswith("right, 90.5 % equal, at most 1 LSB, 1,234 cycles, 2 on the CPU")
    assert lines[3].endswith("no: Broken. (predicted)")
    assert lines[4].endswith("100.0 % equal, at most 0 LSB, 0 cycles, trained: +1.5 dB, predicted")
    assert lines[5].endswith("- equal, at most 0 LSB, 0 cycles, trained: no gain")
    assert asked("matrix")[1]["net"]["total"] == 4
    assert asked("matrix", "--markdown", as_json=False)[1][0].startswith("| model |")
    broken = project_file.with_name("broken.qwb")
    store.save(edits.rename(store.load(project_file), "broken"), broken)
    code, document = asked("matrix", str(broken))
    assert (code, list(document)) == (1, ["version", "net"])


def test_that_a_sweep_takes_configurations_of_another_file(asked, played, tmp_path, codes):
    ini = tmp_path / "own.ini"
    ini.write_text(SYSTEM + MODES)
    assert asked("sweep", "--ini", str(ini))[0] == 0
    options = played.commands[-1].project.target.options
    assert (options["config_ini"], options["system_config"]) == (str(ini), "Mine")
    assert main(["sweep", "net.qwb", "--ini", str(tmp_path / "gone.ini")]) == 2
    assert len(codes) == 1


def test_that_training_in_a_search_needs_widths(asked, codes):
    for words in (("--train", "3"), ("--train", "-1", "--widths")):
        assert asked("search", *words)[0] == 2
    assert codes == ["search-training-without-widths"] * 2


def test_that_training_may_take_the_function_of_the_user(asked, played, project_file):
    (project_file.parent / "mine.py").write_text("def train(model, data): ...\n")
    assert asked("train", "--function", "mine.py:train", "--trust")[0] == 0
    assert played.commands[-1].project.training_function == "mine.py:train"
