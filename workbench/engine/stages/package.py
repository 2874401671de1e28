"""Package: write the deliverables: program, header, bundled program, manifest."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.deploy.boards import with_placement
from workbench.deploy.firmware_files import (
    Facts,
    assembly,
    c_header,
    cmake,
    cproject,
    digest,
    gather,
    kconfig,
)
from workbench.deploy.firmware_note import html, markdown, sections, steps, title
from workbench.deploy.fitting import document
from workbench.deploy.input_header import PictureInput, input_header, is_channels_last
from workbench.deploy.output_header import output_header
from workbench.deploy.program_parts import program_parts
from workbench.engine.data.evaluation import calibration_samples
from workbench.engine.evaluation.bundling import bundle
from workbench.engine.evaluation.measures import tensors_of
from workbench.engine.evaluation.model_outputs import model_outputs
from workbench.engine.evaluation.sample_outputs import SampleOutputs, load_outputs
from workbench.engine.evaluation.stateful_execution import stepping
from workbench.engine.nnpa.package import write_package
from workbench.engine.quantization.ranges import chosen_ranges
from workbench.engine.targets import device_of
from workbench.files import MAX_TEXT_BYTES, read_limited
from workbench.project.pictures import normalized
from workbench.project.sources import is_folder
from workbench.results import (
    PROGRAM_FILE,
    RECORD_FILE,
    WEIGHTS_FILE,
    Deliverable,
    ExportResult,
    LowerResult,
    ModelOutput,
    PackageResult,
    PrepareResult,
    save_result,
)
from workbench.targets import target_of
from workbench.targets.ethos_u.corrections import described
from workbench.targets.ethos_u.rewrites import described_rewrite
from workbench.toolchains.versions import tool_versions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from workbench.engine.runtime.context import StageContext

BUNDLED_SAMPLES = 4
_FOR_INSPECTOR = "what ExecuTorch's Inspector needs to read an ETDump"


def run(context: StageContext) -> None:
    """Write the deliverables; equal projects give equal bytes."""
    lowered = context.result("lower", LowerResult)
    if lowered.exported is not None:
        write_package(context, lowered, lowered.exported)
        return
    source = context.path("lower")
    weights = source / WEIGHTS_FILE
    facts = gather(
        with_placement(context.opened, lowered.placement),
        (source / PROGRAM_FILE).read_bytes(),
        weights.read_bytes() if weights.exists() else None,
    )
    facts = _with_pictures(context, _with_memory(context, _with_borders(context, facts)))
    facts = replace(facts, model_outputs=_model_outputs(context, facts))
    context.progress(0, None, "bundling test vectors")
    tolerances = _tolerances(context)
    written = _written(context, facts, lowered, tolerances)
    manifest = _manifest(context, lowered, written, facts)
    text = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
    written.append(_write(context.out, "manifest.json", text.encode(), "versions and digests"))
    save_result(
        PackageResult(
            files=tuple(written),
            kernels=lowered.kernels,
            method_pool_bytes=facts.needs.method_pool_bytes,
            scratch_pool_bytes=facts.needs.scratch_pool_bytes,
            planned_bytes=facts.needs.planned_bytes,
            parts=program_parts(facts.program, lowered.vela),
            steps=steps(facts, tolerances),
        ),
        context.out,
    )


def _written(
    context: StageContext, facts: Facts, lowered: LowerResult, tolerances: list[dict[str, float]]
) -> list[Deliverable]:
    """Write all files but the manifest, and return them."""
    written = [_write(context.out, *file) for file in _files(facts, _bundle(context, facts))]
    record = context.path("lower") / RECORD_FILE
    if record.exists():
        name = f"{facts.stem}.etrecord"
        written.append(_write(context.out, name, record.read_bytes(), _FOR_INSPECTOR))
    note = sections(facts, lowered, written, tool_versions(), tolerances)
    for suffix, write in (("md", markdown), ("html", html)):
        page = write(title(facts), note).encode()
        name = f"{facts.stem}.{suffix}"
        written.append(_write(context.out, name, page, "the note for the firmware engineer"))
    return written


def _with_borders(context: StageContext, facts: Facts) -> Facts:
    """Return the facts with scale and zero point of integer inputs and outputs."""
    integer_io = bool(context.project.target.options.get("integer_io"))
    into, out_of = device_of(context).io_quantization(context.live("convert").module, integer_io)
    return replace(
        facts,
        inputs=tuple({**p, **g} for p, g in zip(facts.inputs, into, strict=True)),
        outputs=tuple({**p, **g} for p, g in zip(facts.outputs, out_of, strict=True)),
    )


def _with_pictures(context: StageContext, facts: Facts) -> Facts:
    """Return the facts with the conversion of pictures, if the calibration data are pictures."""
    source = context.project.calibration
    settings = source.preprocess if source is not None else None
    if settings is None or source is None or not is_folder(source.spec, context.folder):
        return facts
    port = facts.inputs[0]
    is_last = is_channels_last(settings, port)
    channels = port["shape"][-1 if is_last and "dim_order" not in port else -3]
    codes: tuple[tuple[int, ...], ...] = ()
    if "scale" in port and port["dtype"] in {"int8", "uint8"}:
        pixels = np.repeat(np.arange(256, dtype=np.uint8)[:, None], channels, 1)
        values = torch.from_numpy(normalized(pixels, settings))
        limits = torch.iinfo(getattr(torch, port["dtype"]))
        grid = torch.round(values / port["scale"]) + port["zero_point"]
        table = grid.clamp(limits.min, limits.max).to(torch.int32).T.tolist()
        codes = tuple(map(tuple, table))
    return replace(facts, pictures=PictureInput(settings, port["dtype"], codes, is_last))


def _with_memory(context: StageContext, facts: Facts) -> Facts:
    """Return the facts with the program's state between inferences."""
    kept = context.result("export", ExportResult).state
    first = next(iter(calibration_samples(context)), None)
    return replace(facts, state_buffers=kept, handed_on=first.carried if first else 0)


def _model_outputs(context: StageContext, facts: Facts) -> tuple[ModelOutput, ...]:
    """Return how the outputs become those of the model; empty where they are the same."""
    outputs = model_outputs(context)
    return outputs.in_memory(facts.outputs) if outputs.is_split else ()


def _files(facts: Facts, bundled: bytes) -> Iterator[tuple[str, bytes, str]]:
    stem = facts.stem
    yield f"{stem}.pte", facts.program, "the program for the ExecuTorch runtime"
    if facts.weights is not None:
        yield f"{stem}.ptd", facts.weights, "its weights"
    yield f"{stem}.h", c_header(facts.program, stem), "the program as a C array for flash"
    yield f"{stem}.S", assembly(facts), "the same as assembler source that includes the binary"
    yield f"{stem}.bpte", bundled, "the program with test vectors"
    yield f"{stem}.cmake", cmake(facts).encode(), "pools and kernels for CMake"
    yield f"{stem}.conf", kconfig(facts).encode(), "pools for Zephyr"
    yield f"{stem}.cproject.yml", cproject(facts).encode(), "components of the CMSIS-Pack"
    if facts.pictures is not None and facts.pictures.codes:
        text = input_header(facts.pictures, stem)
        yield f"{stem}_input.h", text.encode(), "the codes of a camera's bytes"
    if facts.model_outputs:
        text = output_header(facts.model_outputs, facts.outputs, stem)
        yield f"{stem}_outputs.h", text.encode(), "joins the outputs into those of the model"
    kernels = "".join(f"{kernel}\n" for kernel in facts.kernels)
    yield f"{stem}.kernels.txt", kernels.encode(), "the kernels the runtime must link"


def _write(folder: Path, name: str, data: bytes, purpose: str) -> Deliverable:
    (folder / name).write_bytes(data)
    return Deliverable(name=name, bytes=len(data), sha256=digest(data), purpose=purpose)


def _bundle(context: StageContext, facts: Facts) -> bytes:
    """Return a bundled program: inputs and the quantized model's outputs for a few samples."""
    module = context.live("convert").module
    integer_io = bool(context.project.target.options.get("integer_io"))
    cases: list[tuple[list[torch.Tensor], list[torch.Tensor]]] = []
    device = device_of(context)
    samples = calibration_samples(context)
    with torch.no_grad(), stepping(module) as steps:
        # Every test starts from the initial state, so no later step can be a test.
        alone = steps.remembers or samples.spell is not None
        evaluated = SampleOutputs() if alone else load_outputs(context)
        for sample in itertools.islice(samples, 1 if alone else BUNDLED_SAMPLES):
            known = evaluated.get(sample)
            outputs = known.quantized if known else tensors_of(module(*sample.inputs))
            cases.append(device.runtime_values(module, sample.inputs, outputs, integer_io))
    return bundle(facts.program, cases)


def _tolerances(context: StageContext) -> list[dict[str, float]]:
    return device_of(context).tolerance(context.live("convert").module)


def _options(context: StageContext, lowered: LowerResult) -> dict[str, Any]:
    """Return the target's options, with the digests of files instead of their paths."""
    choice = with_placement(context.opened, lowered.placement).project.target
    files = target_of(choice.id).files(choice, context.folder)
    return choice.options | {name: digest(read_limited(path, MAX_TEXT_BYTES)) for name, path in files.items()}


def _manifest(
    context: StageContext, lowered: LowerResult, files: list[Deliverable], facts: Facts
) -> dict[str, Any]:
    project = context.project
    return {
        "project": project.name,
        "target": {"id": lowered.target, "options": _options(context, lowered)},
        "board": document(facts.fit) if facts.fit else None,
        "placement": lowered.placement,
        "tools": tool_versions(),
        "rules": [
            {"call": kind, "match": match, "config": config.model_dump() if config else None}
            for kind, match, config in project.quantizer_calls()
        ],
        "ranges": [
            {"tensor": tensor, "minimum": low, "maximum": high}
            for tensor, (low, high) in chosen_ranges(context)[0].items()
        ],
        "range_methods": [chosen.model_dump() for chosen in project.range_methods],
        "files": [file.model_dump() for file in files],
        "corrections": [
            described(correction)
            for result in (context.result("prepare", PrepareResult), lowered)
            for correction in result.corrections
        ],
        "rewrites": [described_rewrite(rewrite) for rewrite in lowered.rewrites],
        "off_the_npu": [{"kind": kind, "match": match} for kind, match in project.cpu_only_rules()],
        "inputs": list(facts.inputs),
        "outputs": list(facts.outputs),
        "model_outputs": [output.model_dump(mode="json") for output in facts.model_outputs],
        "kernels": list(lowered.kernels),
        "memory": {
            "method_pool_bytes": facts.needs.method_pool_bytes,
            "scratch_pool_bytes": facts.needs.scratch_pool_bytes,
            "planned_bytes": list(facts.needs.planned_bytes),
        },
        "test_vectors": {"tolerance": _tolerances(context)},
    }
