"""Export of a Python script that creates the same ``.pte`` with ExecuTorch's API."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Literal

from workbench.deploy.firmware_files import file_stem
from workbench.errors import Place, failure
from workbench.escaping import filled, in_python_docstring
from workbench.project import sources
from workbench.project.opened import OpenProject
from workbench.script.model_and_data import (
    QUANTIZE,
    compression_part,
    data_part,
    functional_writes_part,
    model_part,
    onnx_part,
    remembering_parts,
    split_outputs_part,
    steps_part,
    tensor_outputs_part,
    weights_lines,
)
from workbench.script.quantizer import (
    corrections_part,
    cpu_kernels_call,
    cpu_kernels_part,
    cpu_only_part,
    integer_borders_part,
    observers_part,
    out_variants_part,
    own_ini_part,
    plugin_quantizer_part,
    quantizer_part,
    rewrites_part,
)
from workbench.targets import target_of
from workbench.targets.ethos_u.devices import EXTERNAL_WEIGHTS
from workbench.targets.ethos_u.vela_ini import OPTION
from workbench.toolchains.registry import tools_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.project.model import Project
    from workbench.results import WeightsTaken


# How a script calls ExecuTorch.
Form = Literal["plain", "recipe"]


@dataclass(frozen=True)
class KnownResults:
    """What earlier runs of a project know that its script needs.

    Attributes:
        branches: Whether the exported program has branches or loops.
        weights: Where the weights were found in their file; None if the model was never imported.
        as_written: By rewrite, the layers that it leaves as they are written.
    """

    branches: bool = False
    weights: WeightsTaken | None = None
    as_written: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def script(
    opened: OpenProject,
    out: Path,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    known: KnownResults = KnownResults(),
    form: Form = "plain",
) -> str:
    """Return the text of the script.

    Args:
        opened: The project.
        out: Folder of the script; its paths are relative to it.
        ranges: Minimum and maximum by node of each range that the project sets, including those
            of methods from the current calibration; by default the pinned ranges.
        known: What earlier runs know.
        form: Calls of ExecuTorch's functions, or one of its export recipes.

    Raises:
        WorkbenchError: the target does not create a ``.pte``, the form cannot express the project,
            or the project has improvers instead of the weights that they gave.
    """
    project = opened.project
    demand_arm(project)
    if form == "recipe":
        demand_recipe(project)
    if project.improves():
        where = Place(kind="option", id="improvers")
        raise failure(
            "The weights that improvers change are not computed for the current project.",
            "Run: workbench run PROJECT --until calibrate",
            where,
            code="script-improvers",
        )
    base = os.path.relpath(opened.folder, out.absolute().parent)
    parts = [
        _head(project, base),
        *observers_part(project, has_ranges=bool(project.ranges or ranges)),
        tensor_outputs_part(),
        functional_writes_part(),
        *split_outputs_part(project),
        *onnx_part(project),
        model_part(opened, branches=known.branches, taken=known.weights),
        *_data_parts(opened),
        *own_ini_part(opened),
        corrections_part(project),
        rewrites_part(project),
        *cpu_only_part(project),
        *integer_borders_part(project),
        out_variants_part(),
        *cpu_kernels_part(project),
        *plugin_quantizer_part(project),
        *compression_part(project),
        quantizer_part(opened, known.as_written),
        _main(project, project.fixed_ranges() if ranges is None else ranges, form),
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _data_parts(opened: OpenProject) -> list[str]:
    project = opened.project
    source = project.calibration
    if source is None or not sources.reads_text(project):
        return [data_part(opened)]
    return [
        steps_part(source, opened.folder, holds_out=project.evaluation.holds_out),
        *remembering_parts(source),
    ]


def demand_arm(project: Project) -> None:
    """Return if the project's target creates a ``.pte``.

    Raises:
        WorkbenchError: it does not.
    """
    if target_of(project.target.id).id != "ethos-u":
        where = Place(kind="option", id="target.id")
        raise failure(
            "Only Ethos-U projects can be exported as a script that creates a .pte.",
            "Choose an Ethos-U target.",
            where=where,
            code="script-target-not-supported",
        )


def demand_recipe(project: Project) -> None:
    """Return if a recipe can express the project: it calibrates on samples without an order.

    Raises:
        WorkbenchError: it cannot.
    """
    if sources.reads_text(project):
        raise failure(
            "A project that reads a text cannot be exported as a recipe: its states go from step to step.",
            "Leave --form out.",
            Place(kind="option", id="form"),
            code="script-form-not-supported",
        )


def _head(project: Project, base: str) -> str:
    versions = ", ".join(map(" ".join, tools_of(project.toolchain).items()))
    name, target = map(in_python_docstring, (project.name, project.target.id))
    return f'''
"""Makes {name}.pte for {target} on the plain ExecuTorch API.

Written by the Quantization Workbench; the bytes are those of its package with
{versions}.
Usage: python THIS_FILE [OUTPUT.pte]
"""

import contextlib
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from executorch.backends.arm import ethosu
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.backends.arm.quantizer import (
    EthosUQuantizer,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
    get_uint8_io_quantization_config,
)
from executorch.backends.arm.quantizer.arm_quantizer import get_symmetric_a8w4_quantization_config
from executorch.exir import (
    EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower,
)
from torchao.quantization.pt2e import (
    DerivedObserverOrFakeQuantize, HistogramObserver, MinMaxObserver, MovingAverageMinMaxObserver,
)
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

HERE = (Path(__file__).parent / {base!r}).resolve()
'''


_TAKEN = """# Numbers that the methods chosen for ranges gave when this was written: with other
# calibration data, weights or precisions, have the workbench write the script again.
"""
_QUANTIZE = """
def quantize(program, inputs):
    # Guards become a call_module node, on which the Arm passes fail.
    module = program.module(check_guards=False)
{changes}    loops = ("cond", "while_loop")
    if any(getattr(node.target, "__name__", "") in loops for node in module.graph.nodes):
        if RANGES:
            sys.exit("No range can be fixed here beside torch.cond or while_loop.")
        with torch.inference_mode():
            data = list(samples(inputs))
        return quantizer()._quantize_with_submodules(module, data)
    prepared = prepare_pt2e(module, quantizer())
    with torch.inference_mode():
        for sample in samples(inputs):
            prepared(*sample)
{fix}    return convert_pt2e(prepared)
"""

_FLOW = """
{ranges}


{quantize}


def main():
    global input_names
    torch.set_num_threads(1)  # the last bits of ranges depend on it
    program, inputs = load_model()
{buffers}
{split}    input_names = [str(name) for name in program.graph_signature.user_inputs]
    with torch.no_grad():
        quantized = torch.export.export(quantize(program, inputs), inputs)
{lower}"""

_RECIPE_FLOW = """
{ranges}


class Exported(torch.nn.Module):
    # A session quantizes modules; it takes a graph for one that is quantized already.
    def __init__(self, program):
        super().__init__()
        self.program = program.module(check_guards=False)

    def forward(self, *inputs):
        return self.program(*inputs)


def recipe(program, inputs):
    def before_prepare(_captured):
        # What was exported before: it has the names of modules, and no guards.
        module = program.module(check_guards=False)
{changes}        loops = ("cond", "while_loop")
        if any(getattr(node.target, "__name__", "") in loops for node in module.graph.nodes):
            sys.exit("A recipe cannot calibrate torch.cond and while_loop: write the plain form.")
        return module

    def before_convert(prepared):
{fix}        return prepared

    base = ExportRecipe.get_recipe(ArmRecipeType.{kind}, macs={macs})
    return replace(
        base,
        quantization_recipe=QuantizationRecipe(
            quantizers=[quantizer()],
            calibration_inputs_fn=lambda: samples(inputs),
            pre_prepare_passes=[before_prepare],
            pre_convert_passes=[before_convert],
        ),
        lowering_recipe=LoweringRecipe(
            partitioners=[OrderedPartitioner(compile_spec(){checks})],
            edge_compile_config=EdgeCompileConfig(_check_ir_validity=False),
        ),
        pipeline_stages=[
            StageType.QUANTIZE, StageType.TORCH_EXPORT, StageType.TO_EDGE_TRANSFORM_AND_LOWER,
        ],
        strict=False,
    )


def main():
    global input_names
    torch.set_num_threads(1)  # the last bits of ranges depend on it
    program, inputs = load_model()
{buffers}
{split}    input_names = [str(name) for name in program.graph_signature.user_inputs]
    session = ExportSession(Exported(program), [inputs], recipe(program, inputs))
{lower}"""
_RECIPE_IMPORTS = """
from executorch.backends.arm.recipes import ArmRecipeType
from executorch.export import (
    ExportRecipe, ExportSession, LoweringRecipe, QuantizationRecipe, StageType,
)
"""
_RECIPE_RUN = """    with torch.no_grad():
        session.export()
    edge = session.get_edge_program_manager()
"""

_REFUSE_BUFFERS = """\
    program = with_float32(with_instance_norms(with_functional_writes(with_all_rows(program))))
    if program.run_decompositions({}).graph_signature.buffers_to_mutate:
        sys.exit("This program keeps buffers from run to run: take the workbench's own package.")"""
_KEEP_BUFFERS = (
    "    program = with_float32(with_instance_norms(with_functional_writes(with_all_rows(program))))"
)

_LOWER = """    edge = to_edge_transform_and_lower(
        quantized,
        partitioner=[OrderedPartitioner(compile_spec(){checks})],{methods}
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
"""

_METHODS = "\n        constant_methods=methods_for_runners(program, inputs),"
_RUNTIME_FORM = {
    False: "ExecutorchBackendConfig(extract_delegate_segments=False)",
    True: "runtime_form(edge.exported_program())",
}


def _checks(project: Project) -> str:
    """Return the partitioner arguments for rules that keep parts off the NPU."""
    if not project.cpu_only_rules():
        return ""
    return f", additional_checks=[\n            KeptOff({project.cpu_only_rules()!r})]"


def _flow(
    project: Project, ranges: Mapping[str, tuple[float, float]], form: Form, *, reads_text: bool
) -> str:
    """Return the functions that quantize and lower."""
    fix = "    fix_ranges(prepared, RANGES)\n" if ranges else ""
    taken = any(tensor not in project.fixed_ranges() for tensor in ranges)
    methods = _METHODS if reads_text else ""
    lower = filled(_LOWER, {"checks": _checks(project), "methods": methods})
    if form == "recipe":
        lower = _RECIPE_RUN
    corrected = "    with corrected_compiler(CORRECTIONS), corrected(CORRECTIONS):\n"
    lower = corrected + indent(lower, "    ")
    if project.target.options.get(OPTION):
        lower = "    with own_ini_at_hand():\n" + indent(lower, "    ")
    changes = "".join(f"    {line}\n" for line in weights_lines(project))
    changes += '    made_foldable(module, CORRECTIONS.get("batch_norm_folding", ()))\n'
    template = QUANTIZE if reads_text else _QUANTIZE
    quantize = filled(template, {"fix": fix, "changes": changes})
    split = project.split_outputs
    factors = {i: row for i, row in enumerate(project.output_factors) if row}
    family, _, macs = project.target.id.rpartition("-")
    values = {
        "kind": f"{family.upper().replace('-', '_')}_INT8",
        "macs": macs,
        "changes": indent(changes, "    "),
        "fix": indent(fix, "    "),
        "checks": _checks(project),
        "ranges": f"{_TAKEN if taken else ''}RANGES = {dict(ranges)!r}",
        "quantize": quantize.strip("\n"),
        "split": (f"    program = with_output_factors(program, {factors})\n" if factors else "")
        + (f"    program = with_split_outputs(program, {split})\n" if split else ""),
        "buffers": _KEEP_BUFFERS if reads_text else _REFUSE_BUFFERS,
        "lower": lower,
    }
    return filled(_RECIPE_FLOW if form == "recipe" else _FLOW, values)


def _main(project: Project, ranges: Mapping[str, tuple[float, float]], form: Form) -> str:
    reads_text = sources.reads_text(project)
    integer_io = bool(project.target.options.get("integer_io"))
    kernels = cpu_kernels_call(project)
    apart = ""
    if project.target.options.get(EXTERNAL_WEIGHTS):
        apart = "    made.write_tensor_data_to_file(out.parent)  # the weights: weights.ptd\n"
    tail = f"""
    config = {_RUNTIME_FORM[reads_text]}
    out = Path(sys.argv[1] if len(sys.argv) > 1 else {file_stem(project.name) + ".pte"!r})
    made = edge.to_executorch(config=config)
    out.write_bytes(made.buffer)
{apart}    print(f"wrote {{out}}: {{out.stat().st_size}} bytes")


if __name__ == "__main__":
    main()
"""
    flow = _flow(project, ranges, form, reads_text=reads_text)
    if form == "recipe":
        flow = f"{_RECIPE_IMPORTS.strip()}\n\n\n{flow.lstrip()}"
    border = "\n    edge = with_integer_borders(edge)" if integer_io else ""
    border += "\n    edge = with_out_variants(edge)"
    return flow.rstrip() + border + kernels + "\n" + tail.lstrip("\n")
