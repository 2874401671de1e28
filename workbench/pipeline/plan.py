"""The plan: the key and state of every stage. Pure and torch-free."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.files import State
from workbench.ids import StageId
from workbench.pipeline.keys import Digests, InputFile, Reading
from workbench.pipeline.stages import STAGES, Stage, stages_needed
from workbench.project import edits, sources
from workbench.project.board_files import board_file
from workbench.project.configs import IMPROVERS
from workbench.project.model import BUILT_IN_METRICS
from workbench.project.opened import OpenProject
from workbench.targets import target_of
from workbench.toolchains.registry import tools_of

if TYPE_CHECKING:
    from pydantic import JsonValue

    from workbench.deploy.simulators.compatibility import Setup
    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project

StageState = Literal["cached", "stale", "blocked", "unavailable"]


@dataclass(frozen=True)
class PlannedStage:
    """A stage with its key; ``reason`` explains why it is blocked or unavailable."""

    id: StageId
    key: str
    state: StageState
    reason: str = ""


@dataclass(frozen=True)
class Plan:
    """All stages in order, the files that their keys describe, and the tools that they are for.

    It is made once for a job and sent with it. ``state`` is that of the moment; keys stay valid
    as long as the files do. ``tools`` are the versions of the packages of the project's toolchain.
    """

    stages: tuple[PlannedStage, ...]
    files: tuple[InputFile, ...] = ()
    tools: Mapping[str, str] = field(default_factory=dict, hash=False)

    def of(self, stage_id: StageId) -> PlannedStage:
        """Return one stage of the plan."""
        return next(stage for stage in self.stages if stage.id == stage_id)

    def key(self, stage_id: StageId) -> str:
        """Return the key of one stage; "" when it has none."""
        return self.of(stage_id).key

    @property
    def is_valid(self) -> bool:
        """Whether all files are as they were when the plan was made."""
        return all(file.is_unchanged for file in self.files)

    def looked_up(self, cache: Cache) -> Plan:
        """Return the same plan with the states that the results in the cache give now."""
        stages = tuple(
            replace(stage, state="cached" if cache.has(stage.key) else "stale")
            if stage.state in {"cached", "stale"}
            else stage
            for stage in self.stages
        )
        return replace(self, stages=stages)

    def check_files(self, stage_id: StageId) -> None:
        """Check that the key of a stage describes the files that the stage has read.

        Raises:
            WorkbenchError: a file that the stage, or one that it needs, reads has changed.
        """
        wanted = set(stages_needed(stage_id))
        for file in self.files:
            if not wanted.isdisjoint(file.stages) and not file.is_unchanged:
                name = Path(file.path).name
                raise failure(
                    f"{name} changed during the run.",
                    "Run again: the stages then read the file as it is now.",
                    Place(kind="file", id=name),
                    code="input-changed",
                )


def _model(reading: Reading) -> JsonValue:
    model = reading.project.model
    named = dict(sources.references(OpenProject(reading.project, reading.folder)))
    used = {name: ref for name, ref in named.items() if name.startswith("model.")}
    read: dict[str, JsonValue] = {
        "shapes": [list(shape) for shape in model.input_shapes],
        "references": {name: reading.reference(name, ref) for name, ref in used.items()},
    }
    if used["model.spec"].kind == "onnx":
        # The converted model is compared with its file on these samples.
        read["samples"] = _calibration_data(reading)
    return read


def _rules(reading: Reading) -> JsonValue:
    calls: list[JsonValue] = [
        [kind, match, config.model_dump(mode="json") if config else None]
        for kind, match, config in reading.project.quantizer_calls()
    ]
    taken = dict.fromkeys(spec for _, _, spec in reading.project.taken_from_plugins())
    is_float = target_of(reading.project.target.id).float_off_device
    off = _rules_placing(reading) if is_float else []
    return [*calls, *(reading.code(spec, "plugins") for spec in taken), *off]


def _improvers(reading: Reading) -> JsonValue:
    sizes = [entry.model_dump(mode="json") for entry in reading.project.compressions]
    compressed: dict[str, JsonValue] = {"compressions": [*sizes]} if sizes else {}
    if trained := reading.project.trained_weights:
        digest = reading.digest(sources.absolute(reading.folder, trained))
        return {"trained": digest, **compressed}
    wanted = [i for i in IMPROVERS if i.id in reading.project.improvers]
    looks = any(improver.needs_data for improver in wanted)
    data = _calibration(reading) if looks else None
    settings: dict[str, JsonValue] = (
        {"settings": reading.project.improving.model_dump(mode="json")} if looks else {}
    )
    return {"ids": [improver.id for improver in wanted], "data": data, **settings, **compressed}


def _training_start(reading: Reading) -> JsonValue:
    """Return the key of the training start, which earlier trained weights do not change."""
    start = _improvers(replace(reading, project=edits.use_trained(reading.project, None)))
    own = reading.project.training_function
    return {"improvers": start, "function": reading.code(own, "training_function")}


def _rules_io(reading: Reading) -> JsonValue:
    calls = reading.project.quantizer_calls()
    return [c.model_dump(mode="json") if c else None for kind, _, c in calls if kind == "io"]


def _rules_placing(reading: Reading) -> list[JsonValue]:
    return [list(pair) for pair in reading.project.cpu_only_rules()]


def _rules_listed(reading: Reading) -> JsonValue:
    project = reading.project
    return [[r.kind, r.match, project.label_of(r)] for r in project.rules if r.enabled]


def _calibration_data(reading: Reading) -> JsonValue:
    return reading.data(reading.project.calibration, "calibration")


def _calibration(reading: Reading) -> JsonValue:
    """Return the key of the calibration samples; evaluation may keep a part of them."""
    data = _calibration_data(reading)
    if isinstance(data, dict) and reading.project.evaluation.holds_out:
        return {**data, "held_out": True}
    return data


def _evaluation_data(reading: Reading) -> JsonValue:
    own = reading.data(reading.project.evaluation.data, "evaluation.data")
    return own or _calibration(reading)


def _evaluation(reading: Reading) -> JsonValue:
    evaluation = reading.project.evaluation
    key: dict[str, JsonValue] = {
        "data": _evaluation_data(reading),
        "metric": reading.code(evaluation.own_metric, "evaluation.metric"),
        "limit": evaluation.limit,
        "class_output": evaluation.class_output,
    }
    if evaluation.metric in BUILT_IN_METRICS:
        key["metric"] = evaluation.metric
        key["decode"] = reading.code(evaluation.decode, "evaluation.decode")
        key["objects"] = evaluation.objects.model_dump(mode="json")
    return key


def _facet(name: str) -> Callable[[Reading], JsonValue]:
    def read(reading: Reading) -> JsonValue:
        choice = reading.project.target
        target = target_of(choice.id)
        value = target.facet(choice, name)
        held = _target_files(reading)
        if not isinstance(value, dict) or not isinstance(held, dict):
            return value
        return {key: held.get(key, default) for key, default in value.items()}

    return read


def _target_files(reading: Reading) -> JsonValue:
    choice = reading.project.target
    files = target_of(choice.id).files(choice, reading.folder)
    return {option: reading.digest(path) for option, path in files.items()}


def _board(reading: Reading) -> JsonValue:
    """Return the board facts that the package note contains."""
    name = reading.project.board
    return reading.digest(board_file(name, reading.folder)) if name else ""


def _placements(reading: Reading) -> JsonValue:
    """Return the placements that a program may be compiled for, and the board's memories.

    None without a board; no placements if the project's choice is not described.
    """
    if not reading.project.board:
        return None
    # Imported late to keep the window's start fast.
    from workbench.deploy.boards import candidates, load

    names = [name for name, _ in candidates(OpenProject(reading.project, reading.folder))]
    if not names:
        return {"board": reading.project.board, "placements": []}
    board = load(reading.project.board, reading.folder)
    npu = board.npu_of(reading.project.target.id)
    placements = npu.placement if npu else ()
    return {
        "board": reading.project.board,
        "placements": [p.model_dump(mode="json") for p in placements if p.name in names],
        "memories": [[m.name, m.kind, m.bytes] for m in board.memory],
    }


def simulator_setup(project: Project) -> Setup | ErrorInfo:
    """Return the simulator setup for the project's program, or the reason why there is none."""
    choice = target_of(project.target.id).complete(project.target)
    # Imported late to keep the window's start fast.
    from workbench.deploy.simulators.compatibility import setup_for

    return setup_for(choice.id, str(choice.options.get("memory_mode", "")))


def _machine(reading: Reading) -> JsonValue:
    # Imported late to keep the window's start fast.
    from workbench.deploy.firmware_files import file_stem
    from workbench.deploy.simulators.discovery import simulating_board

    link = simulating_board()
    if link is not None:
        firmware = link.firmware(file_stem(reading.project.name))
        is_there = firmware is not None and os.path.isfile(firmware)
        elf = reading.digest(firmware) if firmware is not None and is_there else None
        return {"board": link.model_dump(mode="json", exclude={"simulate"}), "elf": elf}
    setup = simulator_setup(reading.project)
    if isinstance(setup, ErrorInfo):
        return "functional"
    return {
        "simulator": reading.digest(setup.installed.path),
        "runner": reading.digest(setup.runner.path),
        "fast": setup.settings.fast,
        "trace": setup.settings.trace and not setup.settings.fast,
    }


READERS: Mapping[str, Callable[[Reading], JsonValue]] = {
    "name": lambda r: r.project.name,
    "model": _model,
    "model.strict_export": lambda r: r.project.model.strict_export,
    "model.split_outputs": lambda r: list(r.project.split_outputs),
    "model.output_factors": lambda r: [list(row) for row in r.project.output_factors],
    "rules": _rules,
    "improvers": _improvers,
    "training": _training_start,
    "rules.io": _rules_io,
    "rules.listed": _rules_listed,
    "rules.placing": _rules_placing,
    "ranges": lambda r: [[f.tensor, f.minimum, f.maximum] for f in r.project.ranges],
    "range_methods": lambda r: [m.model_dump() for m in r.project.range_methods],
    "calibration": _calibration,
    "calibration.data": _calibration_data,
    "evaluation": _evaluation,
    "evaluation.data": _evaluation_data,
    "verification": lambda r: r.project.verification.model_dump(mode="json"),
    "target.quantizer": _facet("quantizer"),
    "target.trials": _facet("trials"),
    "target.compile": _facet("compile"),
    "target.files": _target_files,
    "board": _board,
    "board.placements": _placements,
    "machine": _machine,
}


def part_inputs(opened: OpenProject, cache: Cache, name: str) -> JsonValue:
    """Return the inputs that determine a result of this part of the project.

    Raises:
        WorkbenchError: a referenced file is missing.
    """
    memory = Digests(cache.root / "digests.json")
    return READERS[name](Reading(opened.project, opened.folder, memory))


def stage_key(
    stage: Stage, inputs: Mapping[str, JsonValue], upstream: list[str], tools: Mapping[str, str]
) -> str:
    """Return the content key of a stage's result, in hex.

    Args:
        stage: The stage.
        inputs: The parts of the project that it reads.
        upstream: The keys of the stages that it needs.
        tools: The versions of the packages of the toolchain that runs it.
    """
    content = {
        "stage": stage.id,
        "version": stage.version,
        "reads": {name: inputs[name] for name in stage.reads},
        "needs": upstream,
        "tools": {name: tools[name] for name in stage.tools},
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def plan(opened: OpenProject, cache: Cache, digests: Digests | None = None) -> Plan:
    """Return the plan for a project.

    Args:
        opened: The project.
        cache: Cache that is searched for results; read only.
        digests: Cached file digests; by default those stored next to the cache.
    """
    project = opened.project
    memory = digests or Digests(cache.root / "digests.json")
    reading = Reading(project, opened.folder, memory)
    offered = _offered(project)
    try:
        tools = tools_of(project.toolchain)
    except WorkbenchError as error:
        reason = error.infos[0].message
        return Plan(tuple(PlannedStage(stage.id, "", "blocked", reason) for stage in STAGES))
    done: dict[StageId, PlannedStage] = {}
    readers: dict[tuple[str, State], list[StageId]] = {}
    for stage in STAGES:
        own = replace(reading, seen={})
        done[stage.id] = _plan_stage(stage, own, done, cache, _Setting(offered, tools))
        for path, state in own.seen.items():
            readers.setdefault((path, state), []).append(stage.id)
    memory.remember()
    files = tuple(InputFile(*read, tuple(stages)) for read, stages in readers.items())
    return Plan(tuple(done.values()), files, tools)


def _offered(project: Project) -> tuple[StageId, ...]:
    try:
        return target_of(project.target.id).stages
    except WorkbenchError:
        return tuple(stage.id for stage in STAGES)


@dataclass(frozen=True)
class _Setting:
    """The stages that the target offers, and the versions of the tools."""

    offered: tuple[StageId, ...]
    tools: Mapping[str, str]


def _plan_stage(
    stage: Stage, reading: Reading, done: Mapping[StageId, PlannedStage], cache: Cache, setting: _Setting
) -> PlannedStage:
    if stage.id not in setting.offered:
        return PlannedStage(stage.id, "", "unavailable", "Not available for this target.")
    upstream = [done[need] for need in stage.needs]
    for before in upstream:
        if before.state == "blocked":
            return PlannedStage(stage.id, "", "blocked", before.reason)
    try:
        readings = {name: READERS[name](reading) for name in stage.reads}
    except WorkbenchError as error:
        return PlannedStage(stage.id, "", "blocked", str(error.infos[0].message))
    key = stage_key(stage, readings, [before.key for before in upstream], setting.tools)
    return PlannedStage(stage.id, key, "cached" if cache.has(key) else "stale")
