"""Studies, ranges, deliverables and small edits as functions on values."""

import json
import sys
from pathlib import Path

import pytest

import workbench.api as wb
from tests.fakes.engine import Play
from tests.problems import refused
from workbench.errors import ErrorInfo
from workbench.history.store import History, history_path
from workbench.project import store
from workbench.protocol import LogLine
from workbench.studies.search import Limits
from workbench.studies.training import TrainingOptions

PROGRAMS = Path(__file__).parents[2] / "data" / "programs"


@pytest.fixture
def net(project_file):
    return wb.open(project_file)


@pytest.fixture
def calibrated(net, played):
    wb.run(net, "calibrate")
    return net


def numbers(path):
    history = History(history_path(path))
    runs = history.runs()
    history.close()
    return [run.origin for run in runs]


def test_that_a_finished_study_over_as_many_samples_is_read(net, played):
    first = wb.sensitivity(net, 6)
    assert (first.samples, len(played.made)) == (6, 1)
    assert wb.sensitivity(net, 6) == first
    assert len(played.made) == 1
    assert wb.sensitivity(net, 7).samples == 7
    assert len(played.made) == 2


def test_that_the_options_of_a_study_reach_the_engine(net, played, tmp_path):
    from workbench.pipeline.cache import Cache

    cache, seen = Cache(tmp_path / "cache"), []
    wb.search(
        net,
        Limits(accuracy=0.5, cpu=3),
        trials=2,
        workers=4,
        widths=True,
        train=5,
        cache=cache,
        accelerate=False,
        on_event=seen.append,
    )
    command = played.commands[-1]
    assert command.options == {
        "accuracy": 0.5,
        "cycles": None,
        "sram": None,
        "cpu": 3,
        "trials": 2,
        "workers": 4,
        "scheduler": "",
        "widths": True,
        "train": 5,
    }
    assert (command.accelerate, command.cache_root) == (False, str(cache.root))
    assert seen
    wb.search(net, trials=1)
    assert "widths" not in played.commands[-1].options
    assert played.commands[-1].options["workers"] == 1
    wb.search(net, trials=1, widths=True)
    assert played.commands[-1].options["train"] == 0
    assert played.commands[-1].accelerate


def test_that_a_scheduler_is_asked_about(net, played):
    for study in (wb.search, wb.sweep):
        with pytest.raises(wb.TrustRequiredError) as caught:
            study(net, scheduler="tcp://x:1")
        assert caught.value.codes == ("scheduler-trust-required",)
    assert not played.made
    wb.search(net, trials=1, scheduler="tcp://x:1", trust=True)
    assert played.commands[-1].options["scheduler"] == "tcp://x:1"


def test_that_candidates_without_trained_weights_are_kept_in_the_history(net, played):
    wb.search(net, trials=3)
    assert numbers(net.path) == ["search"] * 3
    wb.search(net, trials=3, widths=True, train=1)
    unsaved = wb.OpenProject(net.project, net.folder)
    result = wb.search(unsaved, trials=3, widths=True, train=1)
    assert [bool(c.weights) for c in result.candidates] == [False, True, False]


def test_that_a_history_that_does_not_take_candidates_is_told(net, played):
    history_path(net.path).mkdir()
    seen = []
    assert len(wb.search(net, trials=3, on_event=seen.append).candidates) == 3
    assert [event.level for event in seen if isinstance(event, LogLine)] == ["warning"]
    assert len(wb.search(net, trials=3).candidates) == 3


def test_that_weights_of_a_candidate_are_copied_beside_the_project(net, played):
    result = wb.search(net, trials=3, widths=True, train=1)
    for given in ({}, {"widths": True}, {"train": 1}):
        with refused("trained-weights-not-writable"):
            wb.apply_candidate(net, result, 2, **given)
    applied = wb.apply_candidate(net, result, 2, widths=True, train=1)
    assert applied.project.trained_weights == "trained-1.safetensors"
    assert (net.folder / "trained-1.safetensors").read_bytes() == b"trained"
    assert applied.project.channels() == {"stem.conv": 8}


def test_that_a_study_that_fails_raises_its_problems(net, played, monkeypatch):
    from tests.fakes import studies
    from workbench.protocol import JobFinished, StageFailed

    def play(command, held_at=0):
        info = ErrorInfo(message="No.", code="no-luck")
        yield StageFailed(job=command.job, stage=command.study, key="k", elapsed_s=0.1, infos=(info,))
        yield JobFinished(job=command.job, outcome="failed", elapsed_s=0.1)

    monkeypatch.setattr(studies, "play", play)
    with pytest.raises(wb.JobFailedError) as caught:
        wb.blame(net)
    assert caught.value.codes == ("no-luck",)


def test_that_ctrl_c_ends_the_engine_and_the_study(net, played):
    import os
    import signal

    before = signal.getsignal(signal.SIGINT)

    def press(event):
        if type(event).__name__ == "StudyProgress":
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(wb.Cancelled):
        wb.search(net, trials=2, on_event=press)
    assert played.made[0].stopped
    assert signal.getsignal(signal.SIGINT) is before
    assert numbers(net.path) == ["search"] * 2


def test_that_other_studies_are_asked_by_their_names(net, played):
    assert wb.placement(net).is_done
    assert wb.blame(net).compilations == 5
    assert len(wb.sram_budgets(net).points) == 3
    assert [command.study for command in played.commands] == ["placement", "blame", "budget"]


def test_that_trained_weights_are_taken_with_their_function(net, played):
    options = TrainingOptions(epochs=2)
    result = wb.train(net, options)
    assert (len(result.epochs), played.commands[-1].options["epochs"]) == (2, 2)
    used = wb.use_trained_weights(net, net, result, options)
    assert used.project.trained_weights == result.file_name
    assert (net.folder / result.file_name).read_bytes() == b"weights"
    assert used.project.training_function == net.project.training_function
    usual = wb.train(net)
    assert played.commands[-1].options["epochs"] == TrainingOptions().epochs
    assert wb.use_trained_weights(net, net, usual).project.trained_weights == usual.file_name


def test_that_a_sweep_is_asked_for_its_devices_and_values(net, played):
    result = wb.sweep(net, ["ethos-u55"], {"memory_mode": ["all"]}, workers=2)
    assert len(result.points) == 8
    assert played.commands[-1].options == {
        "targets": ["ethos-u55"],
        "axes": {"memory_mode": ["all"]},
        "workers": 2,
        "scheduler": "",
    }
    wb.sweep(net, ["ethos-u55"])
    assert played.commands[-1].options["workers"] == 1


def test_that_methods_are_compared_chosen_and_reset(calibrated):
    net = calibrated
    found = {choice.method for choice in wb.compare_methods(net, "conv2d")}
    assert {"observed", "mse"} <= found or "mse" in found
    for scope, match in (("all", ""), ("module", "stem"), ("tensor", "relu")):
        changed = wb.choose_method(net, scope, match, "mse")
        kept = [(m.scope, m.match, m.method) for m in changed.project.range_methods]
        assert kept == [(scope, match, "mse")]
        assert wb.reset_method(changed, scope, match).project.range_methods == ()
        with refused("range-method-not-set"):
            wb.reset_method(changed, "module", "other")
    for scope, match in (("tensor", "conv"), ("module", "head")):
        with refused("activation-unknown"):
            wb.choose_method(net, scope, match, "mse")
    with refused("activation-unknown") as caught:
        wb.compare_methods(net, "conv2")
    assert "conv2d" in caught.value.infos[0].hint
    chosen = wb.choose_method(net, "module", "stem", "mse")
    for opened, told in ((chosen, "all of stem"), (net, "none")):
        with refused("range-method-not-set") as caught:
            wb.reset_method(opened, "module", "other")
        assert caught.value.infos[0].hint == f"Set for: {told}."
    with refused("activation-unknown") as caught:
        wb.choose_method(net, "module", "head", "mse")
    assert caught.value.infos[0].where.id == "head"
    with refused("activation-unknown") as caught:
        wb.compare_methods(net, "zzz")
    assert "conv2d" not in caught.value.infos[0].hint


def test_that_at_most_three_like_names_are_suggested(calibrated, monkeypatch):
    current = wb.ranges(calibrated)
    names = [f"relu_{number}" for number in range(5)]
    first = next(row for row in current.tensors if row.kind == "activation")
    rows = tuple(first.model_copy(update={"node": name, "id": f"o_{name}"}) for name in names)
    changed = wb.Ranges(rows, current.chosen, current.methods, current.folder)
    monkeypatch.setattr(sys.modules["workbench.api.ranges"], "ranges", lambda *_: changed)
    with refused("activation-unknown") as caught:
        wb.compare_methods(calibrated, "relu_9")
    assert caught.value.infos[0].hint.count("relu_") == 3


def test_that_a_weight_has_no_range_to_set(calibrated, monkeypatch):
    current = wb.ranges(calibrated)
    weight = current.tensors[0].model_copy(update={"node": "w", "kind": "weight", "id": "w"})
    rows = (*current.tensors, weight)
    changed = wb.Ranges(rows, current.chosen, current.methods, current.folder)
    monkeypatch.setattr(sys.modules["workbench.api.ranges"], "ranges", lambda *_: changed)
    for verb in (
        lambda: wb.pin_range(calibrated, "w", -1.0, 1.0),
        lambda: wb.compare_methods(calibrated, "w"),
        lambda: wb.choose_method(calibrated, "tensor", "w", "mse"),
    ):
        with refused("range-of-weight"):
            verb()
    assert wb.choose_method(calibrated, "all", "", "mse").project.range_methods


def test_that_pins_are_removed_one_by_one_or_all_with_the_methods(calibrated):
    pinned = wb.pin_range(wb.pin_range(calibrated, "conv2d", -1.0, 1.0), "relu", 0.0, 2.0)
    one = wb.unpin_ranges(pinned, ["relu"])
    assert set(one.project.fixed_ranges()) == {"conv2d"}
    chosen = wb.choose_method(pinned, "all", "", "mse")
    none = wb.unpin_ranges(chosen).project
    assert (none.ranges, none.range_methods) == ((), ())
    assert wb.ranges(wb.OpenProject(pinned.project, pinned.folder)).chosen["relu"] == (0.0, 2.0)


def test_that_samples_are_left_out_and_taken_again(net):
    import numpy as np

    np.savez(net.folder / "data.npz", x=np.zeros((4, 1, 8, 8), np.float32))
    data = wb.set_settings(net, {"calibration": "data.npz"})
    less = wb.exclude_samples(data, [1, 3])
    assert less.project.calibration.dropped == (1, 3)
    assert wb.include_samples(less, [3]).project.calibration.dropped == (1,)


def test_that_small_edits_are_made_and_taken_back(net, tmp_path):
    on = wb.set_improver(net, "bias")
    assert on.project.improvers == ("bias",)
    assert wb.set_improver(on, "bias", on=False).project.improvers == ()
    assert wb.use_improver_preset(on, "rounding+clips").project.improvers == ("clips", "rounding")
    assert wb.set_improving(on, seed=2, time_limit_s=9).project.improving.time_limit_s == 9
    small = wb.compress(net, "stem.conv", channels=8, clusters=15)
    assert small.project.channels() == {"stem.conv": 8}
    assert wb.clear_compression(small).project.compressions == ()
    (net.folder / "own.py").write_text("def narrow(*, is_qat): ...\nCONFIGS = [narrow]\n")
    added = wb.add_plugin(net, "own.py")
    assert added.project.plugins == ("own.py",)
    assert wb.remove_plugin(added, "own.py").project.plugins == ()
    with refused("plugin-missing"):
        wb.add_plugin(net, "gone.py")
    board = wb.set_board(net, "alif-ensemble-e8", "ethos-u85-256")
    assert (board.project.board, board.project.target.id) == ("alif-ensemble-e8", "ethos-u85-256")
    moved = wb.set_target(net, "ethos-u85-256", {"optimise": "Size"})
    assert moved.project.target.options["optimise"] == "Size"
    with refused("target-unknown"):
        wb.set_target(net, "ethos-u1-1")


def test_that_layers_with_channels_are_those_of_the_export(net, played):
    assert wb.channel_layers(net) == ()
    wb.run(net, "export")
    assert [layer.module for layer in wb.channel_layers(net)] == ["stem.conv", "head"]


def test_that_rules_are_exchanged_as_functions(net, tmp_path):
    (tmp_path / "args.json").write_text(
        json.dumps(
            {
                "by": "type",
                "default": {
                    "config": {
                        "name": "integer",
                        "data_in_width": 8,
                        "data_in_frac_width": 4,
                        "weight_width": 8,
                        "weight_frac_width": 4,
                        "bias_width": 8,
                        "bias_frac_width": 4,
                    }
                },
            }
        )
    )
    formats = wb.new("net.pt2", "formats", folder=net.folder)
    taken, notes = wb.import_pass_args(formats, tmp_path / "args.json")
    assert taken.project.rules
    assert isinstance(list(notes), list)
    plain, compatible = (
        wb.import_pass_args(formats, tmp_path / "args.json", mase_compatible=asked)[0].project
        for asked in (False, True)
    )
    assert taken.project == plain != compatible
    assert wb.export_pass_args(taken)["by"] == "type"


def test_that_scripts_need_a_calibration_only_for_methods(net, played, tmp_path):
    # Whether the model has branches is not known before it is exported.
    by_module = wb.set_module_name(net, "head", "a16w8")
    assert "name_modules" in wb.script(by_module, tmp_path / "a.py").text
    wb.run(by_module, "export")
    assert "name_modules" not in wb.script(by_module, tmp_path / "a.py").text
    plain = wb.script(net, tmp_path / "a.py")
    assert plain.commands == [f"python {tmp_path / 'a.py'}"]
    wb.run(net, "calibrate")
    chosen = wb.choose_method(net, "all", "", "mse")
    assert "FixedRangeObserver" in wb.script(chosen, tmp_path / "a.py").text
    other = wb.set_global(chosen, "a16w8")
    with refused("calibration-outdated"):
        wb.script(other, tmp_path / "a.py")
    given = wb.script(net, tmp_path / "a.py", aot=True)
    assert "aot_arm_compiler" in given.commands[-1]
    assert "ModelUnderTest" in given.text


def test_that_commands_of_delegates_are_listed_and_found(tmp_path):
    path = PROGRAMS / "u55.pte"
    plain = wb.inspect(path)
    assert plain.listings == []
    assert "calls" not in plain.description
    (every,) = wb.inspect(path, commands=True).listings
    (some,) = wb.inspect(path, find="npu_op_conv").listings
    assert set(some) == {line for line in every if "NPU_OP_CONV" in line}
    assert wb.inspect(path, plan=True).description["calls"]
    assert wb.inspect(PROGRAMS / "xnnpack.pte", commands=True).listings == []
    (tmp_path / "folder.pte").mkdir()
    with refused("file-unreadable"):
        wb.inspect(tmp_path / "folder.pte")


def test_that_a_stage_that_fails_fails_the_rules_that_need_it(net, played):
    played.plays = [Play(fail="export", infos=(ErrorInfo(message="No.", code="no"),))]
    with pytest.raises(wb.JobFailedError) as caught:
        wb.resolve_rules(net)
    assert caught.value.codes == ("no",)
    assert store.load(net.path) == net.project
