"""The deliverables for an external compiler: model, commands, test vectors, manifest."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.deploy.firmware_files import digest, file_stem
from workbench.engine.data.evaluation import calibration_samples
from workbench.engine.evaluation.measures import tensors_of
from workbench.engine.evaluation.stateful_execution import stepping
from workbench.escaping import in_comment
from workbench.results import CONFIG_FILE, MODEL_FILE, Deliverable, LowerResult, PackageResult, save_result
from workbench.targets import target_of
from workbench.toolchains.versions import tool_versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.engine.data import Sample
    from workbench.engine.evaluation.stateful_execution import Steps
    from workbench.engine.runtime.context import StageContext
    from workbench.results import ExportedModel

VECTORS = 4


def write_package(context: StageContext, lowered: LowerResult, exported: ExportedModel) -> None:
    """Write the deliverables; equal projects give equal bytes."""
    written = []
    for name, data, purpose in _files(context, exported):
        (context.out / name).write_bytes(data)
        written.append(Deliverable(name=name, bytes=len(data), sha256=digest(data), purpose=purpose))
    manifest = json.dumps(_manifest(context, lowered, exported, written), indent=2, sort_keys=True)
    data = f"{manifest}\n".encode()
    (context.out / "manifest.json").write_bytes(data)
    written.append(
        Deliverable(
            name="manifest.json", bytes=len(data), sha256=digest(data), purpose="versions and digests"
        )
    )
    emulation = target_of(context.project.target.id).emulation
    result = PackageResult(
        files=tuple(written),
        kernels=(),
        method_pool_bytes=0,
        scratch_pool_bytes=0,
        planned_bytes=(),
        note="The compiler runs elsewhere, with the commands beside the model. Numbers "
        f"are {emulation}. {exported.check.sentence}",
    )
    save_result(result, context.out)


def _files(context: StageContext, exported: ExportedModel) -> Iterator[tuple[str, bytes, str]]:
    source, stem = context.path("lower"), file_stem(context.project.name)
    yield f"{stem}.onnx", (source / MODEL_FILE).read_bytes(), "the model for the compiler"
    if exported.config:
        yield f"{stem}.json", (source / CONFIG_FILE).read_bytes(), "the compiler's exclusions"
    yield f"{stem}.commands.sh", _commands(exported, stem).encode(), "the compile commands"
    yield f"{stem}.vectors.npz", _vectors(context), "inputs with float and emulated outputs"


def _commands(exported: ExportedModel, stem: str) -> str:
    """Return the command lines as a script; all but the first are comments."""
    lines = ["#!/bin/sh", "set -e"]
    for number, (title, text) in enumerate(exported.commands):
        shown = text.replace(MODEL_FILE, f"{stem}.onnx").replace(CONFIG_FILE, f"{stem}.json")
        shown = shown.replace("-o model ", f"-o {stem} ")
        lines += ["", f"# {in_comment(title)}", f"# {in_comment(shown)}" if number else shown]
    lines += ["", *(f"# {in_comment(note)}" for note in exported.notes)]
    return "\n".join(lines) + "\n"


def _vectors(context: StageContext) -> bytes:
    """Return a few inputs, the float model's outputs and those of the main arithmetic.

    State comes after the program's own inputs and outputs; samples are consecutive, and each
    program continues from its own state.
    """
    program = context.live("export")
    kept = tuple(program.graph_signature.buffers_to_mutate.values())
    floats, emulated = program.module(check_guards=False), context.live("convert").module
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    with torch.no_grad(), stepping(floats) as ours, stepping(emulated) as theirs:
        for number, sample in enumerate(calibration_samples(context)):
            if number == VECTORS:
                break
            inputs, outputs = _step(ours, sample, kept)
            vectors = {"input": inputs, "float": outputs, "emulated": _step(theirs, sample, kept)[1]}
            for name, tensors in vectors.items():
                arrays |= {f"{number}/{name}{i}": t.numpy() for i, t in enumerate(tensors)}
    written = io.BytesIO()
    np.savez(written, **arrays)
    return written.getvalue()


def _step(
    steps: Steps, sample: Sample, buffers: Sequence[str]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return all inputs and outputs of the next step, with the state last."""
    inputs = steps.inputs(sample)
    before = [steps.module.get_buffer(name).clone() for name in buffers]
    outputs = tensors_of(steps.module(*inputs))
    steps.took(sample, outputs)
    after = [steps.module.get_buffer(name).clone() for name in buffers]
    return [*tensors_of(inputs), *before], [*outputs, *after]


def _manifest(
    context: StageContext, lowered: LowerResult, exported: ExportedModel, files: list[Deliverable]
) -> dict[str, Any]:
    project = context.project
    target = target_of(project.target.id)
    return {
        "project": project.name,
        "target": {"id": lowered.target, "options": target.complete(project.target).options},
        "numbers": target.emulation,
        "tools": tool_versions(),
        "rules": [
            {"call": kind, "match": match, "config": config.model_dump() if config else None}
            for kind, match, config in project.quantizer_calls()
        ],
        "files": [file.model_dump() for file in files],
        "onnx": {"opset": exported.opset, "ir_version": exported.ir_version},
        "products": [product.model_dump() for product in exported.products],
        "commands": dict(exported.commands),
        "notes": list(exported.notes),
    }
