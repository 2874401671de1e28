"""The workbench on a network, in a process of its own: its stages, as without a window."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree

from tests.engine.in_process import allowed
from tests.float_search.oracle import Outputs, loaded, unseen
from workbench.engine.jobs.job import EngineJob
from workbench.engine.runtime.context import LiveObjectCache
from workbench.engine.runtime.interpreter import run_with_big_stack
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project import edits
from workbench.project.model import DataSource, Evaluation, ModelSource, Project, TargetChoice
from workbench.project.opened import OpenProject
from workbench.protocol import RunUntil, StageFailed
from workbench.results import RESULTS, load_result

_PROGRAM = "program.pte"


@dataclass
class Answer:
    """What became of a network.

    Attributes:
        refused: Code, place, message and hint of each problem that stopped it.
        quantized: Outputs of the quantized model for the unseen samples.
        delivered: Outputs of the compiled program, if it was compiled and executed.
        verdict: Of the acceptance check, with the limits that are broken.
    """

    refused: list[tuple[str, str, str, str]] = field(default_factory=list)
    quantized: Outputs = field(default_factory=list)
    delivered: Outputs | None = None
    verdict: str = ""


class _Work:
    """The folder with the results of this process; live objects of the last stages."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="float-search-"))
        self.cache = Cache(self.folder / "cache")
        self.store = LiveObjectCache(capacity=12)
        self.numbers = count()


_works: list[_Work] = []


def answer(source: str, target: str, config: str, *, deliver: bool) -> Answer:
    """Return what the workbench makes of a network.

    Args:
        source: Text of a module with ``net`` and ``samples``.
        target: Id of the device.
        config: Preset of the whole model.
        deliver: Also compile it, verify it and execute the delivered program.
    """
    if not _works:
        _works.append(_Work())
    work = _works[0]
    path = work.folder / f"net{next(work.numbers)}.py"
    path.write_text(source)
    project = edits.assign(
        Project(
            name=path.stem,
            model=ModelSource(spec=f"{path.name}:net"),
            calibration=DataSource(spec=f"{path.name}:samples"),
            # Stock calibrates on all samples, and what is judged is unseen anyway.
            evaluation=Evaluation(hold_out=False),
            target=TargetChoice(id=target),
        ),
        "global",
        "",
        config,
    )
    try:
        return _answer(work, project, path, deliver=deliver)
    finally:
        path.unlink()


def _answer(work: _Work, project: Project, path: Path, *, deliver: bool) -> Answer:
    made = Answer(refused=_run(work, project, "convert"))
    if made.refused:
        return made
    samples = unseen(loaded(path))
    planned = plan(OpenProject(project, work.folder), work.cache)
    module = work.store.get("convert", planned.key("convert")).module
    with torch.no_grad():
        for sample in samples:
            outputs = module(*(tensor.clone() for tensor in sample))
            made.quantized.append([v.clone() for v in _pytree.tree_leaves(outputs)])
    if deliver:
        made.refused = _run(work, project, "verify")
        if not made.refused:
            made.delivered, made.verdict = _delivered(work, planned, samples)
    return made


def _run(work: _Work, project: Project, until: str) -> list[tuple[str, str, str, str]]:
    events: list[Any] = []
    command = RunUntil(
        job="search",
        project=project,
        folder=str(work.folder),
        until=until,
        skip=("evaluate",),
        cache_root=str(work.cache.root),
    )
    job = EngineJob(allowed(command), work.store, events.append)
    run_with_big_stack(job.run)
    infos = [info for event in events if isinstance(event, StageFailed) for info in event.infos]
    return [(i.code, str(i.where or ""), f"{i.message}\n{i.details}"[-6000:], i.hint) for i in infos]


def _delivered(
    work: _Work, planned: Any, samples: list[tuple[torch.Tensor, ...]]
) -> tuple[Outputs | None, str]:
    """Execute the delivered file on the functional simulator, and return the verdict on it."""
    from workbench.analysis.gate import verdict
    from workbench.engine.ethos_u.cpu_operators import compute
    from workbench.npu.program import load
    from workbench.npu.state import Options
    from workbench.project.model import Gate

    folder = work.cache.folder(planned.key("verify"))
    gate = verdict(Gate(), verified=load_result(RESULTS["verify"], folder))
    broken = ", ".join(f"{limit.name} {limit.value}" for limit in gate.limits if limit.held is False)
    text = f"{gate.verdict} {broken or gate.reason}".strip()
    program = load(work.cache.folder(planned.key("lower")) / _PROGRAM)
    outputs = []
    for sample in samples:
        result = program.run([tensor.numpy() for tensor in sample], Options(), compute)
        outputs.append([torch.from_numpy(array.copy()) for array in result.outputs])
    return outputs, text
