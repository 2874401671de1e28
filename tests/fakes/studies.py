"""Findings of studies, as an engine would leave them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.fakes import runner_elf
from tests.fakes.results import write_result
from workbench.deploy.simulators.discovery import adopt_runner, runners_folder
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject
from workbench.protocol import JobFinished, StudyProgress
from workbench.results import CpuNode, VelaTotals
from workbench.studies.documents import Blame, Culprit, load_study, save_study, study_folder, study_key
from workbench.studies.matrix import DevicePlacement, Placement, one_of_each_kind
from workbench.studies.sample import INPUT, SampleTensor, save_values
from workbench.studies.search import Candidate, Limits, SearchResult, with_choices
from workbench.studies.sensitivity import Noise, SensitivityResult, Unit, UnitSensitivity
from workbench.studies.sweep import SweepResult, between, ends, points
from workbench.studies.tflite import (
    CauseShare,
    ComparedLayer,
    CpuOperator,
    LayerSide,
    OutputAgreement,
    SideTotals,
    TfliteComparison,
)
from workbench.studies.training import Epoch, TrainingResult
from workbench.targets import target_of


def unit(name, only, without):
    """Return a unit with the noise of each view; the signal is 100."""
    made = Unit(name=name, kind="module_name", matches=(name,), operators=("conv2d",), weights=8)
    return UnitSensitivity(
        unit=made, only=Noise(signal=100.0, noise=only), without=Noise(signal=100.0, noise=without)
    )


def sensitivity(samples, total, *, has_all=False):
    """Return findings in which ``head`` is the worst module."""
    return SensitivityResult(
        data="data.npz",
        samples=samples,
        total=total,
        labelled=False,
        has_all=has_all,
        quantized=Noise(signal=100.0, noise=1.0),
        units=(unit("stem.conv", 0.1, 0.9), unit("head", 0.8, 0.1)),
    )


def _play_sample(command, key, folder):
    """Yield what an engine says of one tensor of one sample."""
    values = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
    sides = {"float": values, "quantized": values + 0.5}
    if command.options["integer"]:
        sides["integer"] = values + 0.25
        sides["compiled"] = np.where(values > 29, values, values + 0.25)
    tensor = str(command.options["tensor"])
    save_values({**sides, INPUT: np.zeros((1, 3, 8, 8), np.float32)}, folder)
    found = SampleTensor(
        sample=command.options["sample"],
        tensor=tensor,
        module="stem",
        op="aten.relu.default",
        shape=values.shape,
        sides=tuple(sides),
        note="" if len(sides) > 2 else "Not compiled.",
        compiled_apart=2 if len(sides) > 2 else None,
        label=3,
        classes={side: 3 if side == "float" else 5 for side in sides},
    )
    save_study(found, folder)
    yield StudyProgress(job=command.job, study=command.study, key=key, done=1, total=1)
    yield JobFinished(job=command.job, outcome="done", elapsed_s=0.1)


def _play_sweep(command, key, folder):
    """Yield what an engine says of a sweep: the more MACs, the quicker; no SRAM, the larger."""
    target = target_of(command.project.target.id)
    base = target.complete(command.project.target)
    asked = points(target, base, command.options["targets"], command.options["axes"])
    done = []
    for number, point in enumerate(asked):
        macs = int(point.target.id.rsplit("-", 1)[1])
        sram = 4096 if point.target.options["memory_mode"] == "Shared_Sram" else 65536
        totals = VelaTotals(
            cycles_total=10**6 // macs,
            cycles_vela=10**6 // macs,
            cycles_npu=1,
            inference_ms=1000 / macs,
            sram_bytes=sram,
            flash_bytes=1024,
            macs=7,
        )
        done.append(point if point.problem else point.model_copy(update={"totals": totals}))
        save_study(SweepResult(tool="Vela 5.1.0", total=len(asked), points=tuple(done)), folder)
        yield StudyProgress(job=command.job, study=command.study, key=key, done=number + 1, total=len(asked))
    yield JobFinished(job=command.job, outcome="done", elapsed_s=0.1)


def tflite_comparison(file="net.tflite"):
    """Return a comparison: a transpose more here, and an add that only the other side has."""
    sides = [
        SideTotals(
            cycles=cycles,
            cycles_vela=cycles + 5,
            inference_ms=cycles / 1000,
            sram_bytes=4096,
            constant_bytes=512,
            macs=640,
            operations=2,
            delegates=1,
            cpu=cpu,
            cpu_cycles=cpu_cycles,
        )
        for cycles, cpu, cpu_cycles in ((150, {"aten.mul.Tensor": 1}, 70), (120, {}, None))
    ]

    def side(name, cycles, *operators):
        shape = {"output_shape": (4, 4, 8), "kernel": (3, 3), "fused": (), "macs": 640}
        return LayerSide(name=name, cycles=cycles, operators=operators, **shape)

    return TfliteComparison(
        file=file,
        compiled_here=True,
        target="ethos-u55-128",
        system_config="Ethos_U55_High_End_Embedded",
        memory_mode="Shared_Sram",
        program=sides[0],
        tflite=sides[1],
        layers=(
            ComparedLayer(
                ours=side("stem.conv", 150, "Conv2D", "Transpose"),
                theirs=side("Conv2D stem", 100, "Conv2D"),
                shares=(CauseShare(cause="layout", cycles=50),),
            ),
            ComparedLayer(
                ours=None,
                theirs=side("Add sum", 20, "Add"),
                shares=(CauseShare(cause="elementwise", cycles=-20),),
            ),
        ),
        on_cpu=(CpuOperator(op="aten.mul.Tensor", module="head", reason="It is in float.", cycles=70),),
        samples=4,
        outputs=(OutputAgreement(name="out", elements=4, program_db=30.0, tflite_db=3.0, between_db=2.5),),
    )


def _play_tflite(command, key, folder):
    """Yield what an engine says of a comparison with TensorFlow Lite."""
    save_study(tflite_comparison(Path(command.options["file"]).name), folder)
    yield StudyProgress(job=command.job, study=command.study, key=key, done=3, total=3)
    yield JobFinished(job=command.job, outcome="done", elapsed_s=0.1)


def _play_budget(command, key, folder):
    """Yield what an engine says of SRAM budgets: half the SRAM costs a tenth more cycles."""
    base = TargetChoice.model_validate(command.options["base"])
    fast, small = ends(base)
    costs = [(fast, 8192, 1000), (small, 2048, 1200), (between(base, 2048, 8192)[0], 4096, 1100)]
    done = [
        point.model_copy(
            update={
                "totals": VelaTotals(
                    cycles_total=cycles,
                    cycles_vela=cycles,
                    cycles_npu=1,
                    inference_ms=cycles / 1000,
                    sram_bytes=sram,
                    flash_bytes=1024,
                    macs=7,
                )
            }
        )
        for point, sram, cycles in costs
    ]
    save_study(SweepResult(tool="Vela 5.1.0", total=3, points=tuple(done)), folder)
    yield StudyProgress(job=command.job, study=command.study, key=key, done=3, total=3)
    yield JobFinished(job=command.job, outcome="done", elapsed_s=0.1)


def _play_placement(command, key, folder):
    """Yield what an engine says of placement: U55 leaves ``head`` on the CPU."""
    left = CpuNode(node="head", op="aten.bmm.default", module="head", reason="It has 16 bits.")
    devices = [
        DevicePlacement(kind=kind, target=choice.id, npu=7, cpu=(left,) if "U55" in kind else ())
        for kind, choice in one_of_each_kind(command.project.target)
    ]
    devices[-1] = devices[-1].model_copy(update={"problem": "No branches there.", "npu": 0})
    save_study(Placement(devices=tuple(devices), is_done=True), folder)
    yield StudyProgress(job=command.job, study=command.study, key=key, done=3, total=3)
    yield JobFinished(job=command.job, outcome="done", elapsed_s=0.1)


def _play_runner(command, key, held_at):
    """Yield what an engine says of a build, which stays after ``held_at`` per cent."""
    for percent in (0, 42, 100):
        yield StudyProgress(job=command.job, study=command.study, key=key, done=percent, total=100)
        if held_at and percent >= held_at:
            return
    place = runners_folder() / "made" / "arm_executor_runner"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(runner_elf.runner("u55"))
    adopt_runner(place)
    yield JobFinished(job=command.job, outcome="done", elapsed_s=0.1)


def training(done, total):
    """Return what ``done`` epochs gave, each better than the one before."""
    epochs = tuple(
        Epoch(number=n, loss=1 / n, sqnr_db=10.0 + n, learning_rate=0.001) for n in range(1, done + 1)
    )
    return TrainingResult(
        data="calibration.npz",
        device="cpu",
        samples=8,
        held_out=2,
        one_by_one=False,
        total=total,
        start_db=10.0,
        epochs=epochs,
        best=done,
        weights="best.safetensors",
        digest=f"{done:064x}"[::-1],
    )


def _play_training(command, key, held_at):
    folder = study_folder(Cache(Path(command.cache_root)), key)
    known = load_study(TrainingResult, folder)
    total = command.options["epochs"]
    for done in range(len(known.epochs) + 1 if known else 1, total + 1):
        save_study(training(done, total), folder)
        (folder / "best.safetensors").write_bytes(b"weights")
        yield StudyProgress(job=command.job, study="training", key=key, done=done, total=total)
        if done == held_at:
            return
    yield JobFinished(job=command.job, outcome="done", elapsed_s=0.1)


_AT_ONCE = {
    "sample": _play_sample,
    "placement": _play_placement,
    "sweep": _play_sweep,
    "budget": _play_budget,
    "tflite": _play_tflite,
}


# More samples than this there are not.
DATA_SAMPLES = 50


def play(command, held_at=0):
    """Yield what an engine says of a study, which stays after ``held_at`` samples."""
    cache = Cache(Path(command.cache_root))
    folder = Path(command.folder)
    key = study_key(command.study, OpenProject(command.project, folder), cache, command.options, command.plan)
    if command.study in {"runner", "training"}:
        held = {"runner": _play_runner, "training": _play_training}[command.study]
        yield from held(command, key, held_at)
        return
    if command.study == "blame":
        culprit = Culprit(kind="module_name", match="head")
        document = Blame(reason="Vela said no.", culprits=(culprit,), compilations=5, is_done=True)
        save_study(document, study_folder(cache, key))
        yield StudyProgress(job=command.job, study=command.study, key=key, done=5, total=5)
        yield JobFinished(job=command.job, outcome="done", elapsed_s=0.1)
        return
    if command.study in _AT_ONCE:
        yield from _AT_ONCE[command.study](command, key, study_folder(cache, key))
        return
    asked = int(command.options.get("samples") or command.options["trials"])
    total = min(asked, DATA_SAMPLES)
    for done in range(1, total + 1):
        document = sensitivity(done, total, has_all=done == total < asked)
        if command.study == "search":
            limits = Limits(accuracy=command.options["accuracy"])
            document = search(done, total, limits, widths=bool(command.options.get("widths")))
            if document.candidates[-1].weights:
                study_folder(cache, key).mkdir(parents=True, exist_ok=True)
                weights = study_folder(cache, key) / document.candidates[-1].weights
                weights.write_bytes(b"trained")
            _leave_results(command, cache, document)
        save_study(document, study_folder(cache, key))
        yield StudyProgress(job=command.job, study=command.study, key=key, done=done, total=total)
        if done == held_at:
            return
    yield JobFinished(job=command.job, outcome="done", elapsed_s=0.1)


def _leave_results(command, cache, found):
    """Leave in the cache what evaluating the newest candidate leaves there."""
    made = with_choices(command.project, found.units, found.candidates[-1].choices)
    planned = plan(OpenProject(made, Path(command.folder)), cache)
    for stage in ("evaluate", "lower"):
        with cache.writing(planned.key(stage)) as folder:
            write_result(stage, folder)


def search(done, total, limits, *, widths=False):
    """Return candidates of which the second is quicker and the third more accurate.

    With ``widths``, the second lost channels and was trained.
    """
    figures = ((0.90, 1000), (0.85, 800), (0.95, 1400))
    candidates = tuple(
        Candidate(
            number=number,
            origin="staircase" if number < 3 else "search",
            choices={
                "head": "a8w8" if number == 1 else "a16w8" if number == 3 else "a8w4",
                "stem.conv": "a8w8",
            },
            channels={"stem.conv": 8 if number == 2 else 16} if widths else {},
            weights="trained-1.safetensors" if widths and number == 2 else "",
            accuracy=accuracy,
            accuracy_name="top-1",
            cycles=cycles,
            sram_bytes=4096,
            cpu_nodes=1,
            is_within=accuracy >= (limits.accuracy or 0.0),
        )
        for number, (accuracy, cycles) in enumerate(figures[:done], 1)
    )
    units = tuple(unit(name, 0.1, 0.1).unit for name in ("head", "stem.conv"))
    return SearchResult(
        limits=limits,
        total=total,
        units=units,
        candidates=candidates,
        widths={"stem.conv": (16, 8)} if widths else {},
    )
