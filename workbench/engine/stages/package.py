"""Put together what leaves the workbench: program, header, bundled program, manifest."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.bundling import bundle
from workbench.engine.chosen_ranges import chosen_ranges
from workbench.engine.quality import tensors_of
from workbench.engine.samples import calibration_samples
from workbench.pipeline.plan import tool_versions
from workbench.pte.description import Memory, memory
from workbench.results import Deliverable, LowerResult, PackageResult, save_result

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.engine.context import StageContext

BUNDLED_SAMPLES = 4
_LINE = 12
# Source: ExecuTorch's pte_to_header.py: section and alignment that the NPU driver wants.
_SECTION, _ALIGNMENT = "network_model_sec", 16


def run(context: StageContext) -> None:
    """Leave the deliverables; the same project gives the same bytes."""
    program = (context.path("lower") / "program.pte").read_bytes()
    lowered = context.result("lower", LowerResult)
    stem = file_stem(context.project.name)
    needs = memory(program)
    context.progress(0, None, "bundling test vectors")
    files = {
        f"{stem}.pte": (program, "the program for the ExecuTorch runtime"),
        f"{stem}.h": (c_header(program, stem), "the program as a C array for flash"),
        f"{stem}.bpte": (_bundle(context, program), "the program with test vectors"),
    }
    written = [_write(context.out, name, data, why) for name, (data, why) in files.items()]
    manifest = _manifest(context, lowered, written, needs)
    text = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
    written.append(_write(context.out, "manifest.json", text.encode(), "what made it"))
    save_result(
        PackageResult(
            files=tuple(written),
            kernels=lowered.kernels,
            method_pool_bytes=needs.method_pool_bytes,
            scratch_pool_bytes=needs.scratch_pool_bytes,
            planned_bytes=needs.planned_bytes,
        ),
        context.out,
    )


def file_stem(name: str) -> str:
    """Return a project's name as a C identifier and file name."""
    kept = "".join(c if c.isascii() and c.isalnum() else "_" for c in name).strip("_")
    return kept if kept and not kept[0].isdigit() else f"model_{kept}".rstrip("_")


def c_header(program: bytes, stem: str) -> bytes:
    """Return a C header that places the program in the model section, aligned for the NPU."""
    lines = (program[i : i + _LINE].hex(" ") for i in range(0, len(program), _LINE))
    body = "0x" + "\n".join(lines).replace(" ", ", 0x").replace("\n", ",\n    0x")
    guard = f"{stem.upper()}_PTE_H"
    return (
        f"#ifndef {guard}\n#define {guard}\n\n"
        f"/* {len(program)} bytes, sha256 {hashlib.sha256(program).hexdigest()} */\n"
        f'__attribute__((section("{_SECTION}"), aligned({_ALIGNMENT})))\n'
        f"const unsigned char {stem}_pte[] = {{\n    {body}\n}};\n"
        f"const unsigned int {stem}_pte_len = {len(program)}u;\n\n#endif\n"
    ).encode()


def _write(folder: Path, name: str, data: bytes, purpose: str) -> Deliverable:
    (folder / name).write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    return Deliverable(name=name, bytes=len(data), sha256=digest, purpose=purpose)


def _bundle(context: StageContext, program: bytes) -> bytes:
    """Return a bundled program: inputs and the quantized model's outputs for a few samples."""
    module = context.hot("convert").module
    integer_io = bool(context.project.target.options.get("integer_io"))
    cases: list[tuple[list[torch.Tensor], list[torch.Tensor]]] = []
    toolchain = context.toolchain()
    with torch.no_grad():
        for sample in calibration_samples(context):
            outputs = tensors_of(module(*sample.inputs))
            cases.append(toolchain.runtime_values(module, sample.inputs, outputs, integer_io))
            if len(cases) == BUNDLED_SAMPLES:
                break
    return bundle(program, cases)


def _manifest(
    context: StageContext, lowered: LowerResult, files: list[Deliverable], needs: Memory
) -> dict[str, Any]:
    project = context.project
    return {
        "project": project.name,
        "target": {"id": lowered.target, "options": context.project.target.options},
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
        "kernels": list(lowered.kernels),
        "memory": {
            "method_pool_bytes": needs.method_pool_bytes,
            "scratch_pool_bytes": needs.scratch_pool_bytes,
            "planned_bytes": list(needs.planned_bytes),
        },
        "test_vectors": {"tolerance": context.toolchain().tolerance(context.hot("convert").module)},
    }
