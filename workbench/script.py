"""A stand-alone Python file on the plain ExecuTorch API that makes the same ``.pte``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import Place, failure
from workbench.pipeline.plan import tool_versions
from workbench.project import sources
from workbench.project.qconfig import QuantConfig
from workbench.targets import target_of

if TYPE_CHECKING:
    from workbench.project.model import DataSource, Project

_OBSERVERS = Path(__file__).parent / "engine" / "observers.py"
_FACTORIES = {
    ("int8", 8): "get_symmetric_quantization_config",
    ("int16", 8): "get_symmetric_a16w8_quantization_config",
    ("int8", 4): "get_symmetric_a8w4_quantization_config",
}
_EPS = {"int8": "2**-16", "int16": "2**-12", "uint8": "2**-16"}


def script(project: Project, folder: Path, out: Path) -> str:
    """Return the text of the script.

    Args:
        project: What to make.
        folder: Where the project's relative paths start.
        out: Where the script will lie; its paths are relative to that place.

    Raises:
        WorkbenchError: the target makes no ``.pte``.
    """
    if target_of(project.target.id).id != "ethos-u":
        where = Place(kind="option", id="target.id")
        raise failure("Only Ethos-U projects have a script that makes a .pte.", where=where)
    base = os.path.relpath(folder, out.absolute().parent)
    parts = [
        _head(project, base),
        *_observers(project),
        _model(project, folder),
        _data(project, folder),
        _quantizer(project),
        _main(project),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _head(project: Project, base: str) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in tool_versions().items())
    return f'''
"""Makes {project.name}.pte for {project.target.id} on the plain ExecuTorch API.

Written by the Quantization Workbench; the bytes are those of its package with
{versions}.
Usage: python THIS_FILE [OUTPUT.pte]
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
from executorch.backends.arm.quantizer import (
    EthosUQuantizer,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
    get_uint8_io_quantization_config,
)
from executorch.backends.arm.quantizer.arm_quantizer import get_symmetric_a8w4_quantization_config
from executorch.exir import (
    EdgeCompileConfig,
    ExecutorchBackendConfig,
    to_edge_transform_and_lower,
)
from torchao.quantization.pt2e import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
)
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

HERE = (Path(__file__).parent / {base!r}).resolve()
'''


def _observers(project: Project) -> list[str]:
    kinds = {
        config.activation.observer.kind
        for _, _, config in project.quantizer_calls()
        if config is not None
    }
    if not kinds & {"percentile", "fixed"}:
        return []
    text = _OBSERVERS.read_text()
    return [text[text.index("class PercentileObserver") :]]


def _load_callable(spec: str, folder: Path, option: str) -> str:
    reference = sources.callable_reference(spec, folder, option)
    if reference.kind == "package":
        return f"getattr(importlib.import_module({reference.module!r}), {reference.attribute!r})"
    file = spec.rpartition(":")[0]
    return f"from_file({file!r}, {reference.attribute!r})"


_FROM_FILE = '''
import importlib
import importlib.util


def from_file(name, attribute):
    path = HERE / name
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(f"user_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, attribute)


def as_tuple(value):
    return (value,) if isinstance(value, torch.Tensor) else tuple(value)
'''


def _model(project: Project, folder: Path) -> str:
    model = project.model
    body = []
    if model.spec.endswith(".pt2"):
        body.append(f"    program = torch.export.load(str(HERE / {model.spec!r}))")
        body.append("    inputs = program.example_inputs[0]")
    else:
        maker = _load_callable(model.spec, folder, "model.spec")
        body.append(f"    made = {maker}()")
        body.append("    model, inputs = made if isinstance(made, tuple) else (made, None)")
        if model.weights and model.weights.endswith(".safetensors"):
            body.append("    from safetensors.torch import load_file")
            body.append(f"    model.load_state_dict(load_file(HERE / {model.weights!r}))")
        elif model.weights:
            read = f"torch.load(HERE / {model.weights!r}, map_location='cpu', weights_only=True)"
            body.append(f"    model.load_state_dict({read})")
        body.append("    model.eval()")
    if model.inputs:
        body.append(f"    arrays = np.load(HERE / {model.inputs!r})")
        body.append("    inputs = tuple(torch.from_numpy(arrays[n]) for n in arrays.files)")
    elif model.input_shapes:
        body.append("    generator = torch.Generator().manual_seed(0)")
        shapes = f"{[list(s) for s in model.input_shapes]}"
        body.append(
            f"    inputs = tuple(torch.randn(s, generator=generator) for s in {shapes})"
        )
    body.append("    inputs = tuple(v.detach().cpu() for v in as_tuple(inputs))")
    if not model.spec.endswith(".pt2"):
        body.append("    with torch.no_grad():")
        body.append(
            f"        program = torch.export.export(model, inputs, strict={model.strict_export})"
        )
    body.append("    return program, inputs")
    return _FROM_FILE + "\n\ndef load_model():\n" + "\n".join(body)


def _data(project: Project, folder: Path) -> str:
    source = project.calibration
    lines = ["def samples(inputs):"]
    if source is None:
        return "\n".join([*lines, "    yield inputs"])
    lines += _raw_samples(source, folder)
    lines += [
        "    given = 0",
        "    for index, row in enumerate(rows):",
        f"        if index in {set(source.dropped) or '()'}:",
        "            continue",
        f"        if {source.limit!r} is not None and given >= {source.limit or 0}:",
        "            return",
        "        given += 1",
        "        tensors = (torch.as_tensor(np.array(v)) if not isinstance(v, torch.Tensor)"
        " else v for v in row)",
        "        yield tuple(t.reshape(i.shape).to(i.dtype)"
        " for t, i in zip(tensors, inputs, strict=True))",
    ]
    return "\n".join(lines)


def _raw_samples(source: DataSource, folder: Path) -> list[str]:
    reference = sources.data_reference(source.spec, folder, "calibration.spec")
    if reference.kind == "pictures":
        return _picture_rows(source)
    if reference.runs_code:
        maker = _load_callable(source.spec, folder, "calibration.spec")
        return [
            "    def rows_of(items):",
            "        for item in items:",
            "            if isinstance(item, (tuple, list)) and len(item) == 2"
            " and np.ndim(item[1]) == 0:",
            "                item = item[0]",
            "            yield tuple(item) if isinstance(item, (tuple, list)) else (item,)",
            f"    rows = rows_of({maker}())",
        ]
    if source.spec.endswith(".npz"):
        return [
            f"    arrays = np.load(HERE / {source.spec!r})",
            "    labels = ('labels', 'label', 'y', 'targets', 'target')",
            "    names = [n for n in arrays.files if n.lower() not in labels]",
            "    wanted = [n for n in input_names if n in arrays.files]",
            "    names = wanted if len(wanted) == len(inputs) else names",
            "    rows = zip(*(arrays[n] for n in names), strict=True)",
        ]
    if source.spec.endswith(".npy"):
        return [f"    rows = ((row,) for row in np.load(HERE / {source.spec!r}, mmap_mode='r'))"]
    return [
        f"    value = torch.load(HERE / {source.spec!r}, map_location='cpu', weights_only=True)",
        "    value = list(value.values()) if isinstance(value, dict) else value",
        "    value = list(value) if isinstance(value, (tuple, list)) else [value]",
        "    rows = zip(*value, strict=True)",
    ]


def _picture_rows(source: DataSource) -> list[str]:
    settings = source.preprocess
    assert settings is not None
    height, width = settings.size
    return [
        "    from PIL import Image",
        f"    suffixes = {sources.PICTURE_SUFFIXES!r}",
        f"    folder = HERE / {source.spec!r}",
        "    files = sorted((p for p in folder.rglob('*') if p.suffix.lower() in suffixes),",
        "                   key=lambda p: p.relative_to(folder).as_posix())",
        "    channels = inputs[0].shape[-3] if inputs[0].ndim > 2 else 1",
        "    def picture(file):",
        "        image = Image.open(file).convert('L' if channels == 1 else 'RGB')",
        f"        image = image.resize(({width}, {height}), Image.Resampling.BILINEAR)",
        "        x = np.asarray(image, np.float32) / 255.0",
        "        x = x[None] if x.ndim == 2 else x.transpose(2, 0, 1)",
        f"        mean = np.asarray({list(settings.mean)!r}, np.float32).reshape(-1, 1, 1)",
        f"        std = np.asarray({list(settings.std)!r}, np.float32).reshape(-1, 1, 1)",
        "        return ((x - mean) / std).astype(np.float32)",
        "    rows = ((picture(file),) for file in files)",
    ]


def _config(config: QuantConfig | None) -> str:
    if config is None:
        return "None"
    activation, per_channel = config.activation, config.weight.per_channel
    if activation.dtype == "uint8":
        stock = "get_uint8_io_quantization_config(is_qat=False)"
    else:
        factory = _FACTORIES[activation.dtype, config.weight.bits]
        stock = f"{factory}(is_per_channel={per_channel}, is_qat=False)"
    usual = activation.symmetric == (activation.dtype == "int16")
    if activation.observer.kind == "histogram" and usual:
        return stock
    scheme = "per_tensor_symmetric" if activation.symmetric else "per_tensor_affine"
    return f"with_observer({stock}, torch.{scheme}, {_observer(config)})"


def _observer(config: QuantConfig) -> str:
    observer, eps = config.activation.observer, _EPS[config.activation.dtype]
    made: dict[str, Any] = {
        "histogram": "None",
        "minmax": f"MinMaxObserver.with_args(eps={eps})",
        "moving_average": "MovingAverageMinMaxObserver.with_args("
        f"averaging_constant={observer.averaging_constant!r}, eps={eps})",
        "percentile": f"PercentileObserver.with_args(percentile={observer.percentile!r}, eps={eps})",
        "fixed": f"FixedRangeObserver.with_args(minimum={observer.minimum!r}, "
        f"maximum={observer.maximum!r}, eps={eps})",
    }
    return str(made[observer.kind])


_WITH_OBSERVER = '''
def with_observer(config, scheme, observer):
    spec = config.input_activation
    observer = observer or spec.observer_or_fake_quant_ctr
    spec = replace(spec, qscheme=scheme, observer_or_fake_quant_ctr=observer)
    return replace(config, input_activation=spec, output_activation=spec)
'''


def _quantizer(project: Project) -> str:
    complete = target_of(project.target.id).complete(project.target)
    options: dict[str, Any] = dict(complete.options)
    flags = []
    if options["optimise"] != "Performance":
        flags.append(f"--optimise={options['optimise']}")
    if options["arena_cache_bytes"]:
        flags.append(f"--arena-cache-size={options['arena_cache_bytes']}")
    flags += str(options["extra_flags"]).split()
    lines = [
        _WITH_OBSERVER,
        "",
        "def compile_spec():",
        "    # Always a new one: lowering changes the object it is given.",
        f"    return EthosUCompileSpec({complete.id!r}, system_config={options['system_config']!r},",
        f"        memory_mode={options['memory_mode']!r}, extra_flags={flags or None!r})",
        "",
        "",
        "def quantizer():",
        "    made = EthosUQuantizer(compile_spec())",
        *(f"    {_call(*call)}" for call in project.quantizer_calls()),
        "    return made",
    ]
    return "\n".join(lines)


def _call(kind: str, match: str, config: QuantConfig | None) -> str:
    value = _config(config)
    if kind in {"global", "io"}:
        return f"made.set_{kind}({value})"
    if kind == "module_type":
        module, _, name = match.rpartition(".")
        stand_in = f"type({name!r}, (), {{'__module__': {module!r}, '__qualname__': {name!r}}})"
        return f"made.set_module_type({stand_in}, {value})"
    if kind == "node_target":
        return f"made.set_node_target(torch.ops.{match.removeprefix('torch.ops.')}, {value})"
    return f"made.set_{kind}({match!r}, {value})"


def _main(project: Project) -> str:
    integer_io = bool(project.target.options.get("integer_io"))
    border = """
    from executorch.exir.passes.quantize_io_pass import QuantizeInputs, QuantizeOutputs
    signature = edge.exported_program().graph_signature
    ins, outs = range(len(signature.user_inputs)), range(len(signature.user_outputs))
    edge = edge.transform(passes=[QuantizeInputs(edge, list(ins)), QuantizeOutputs(edge, list(outs))])
"""
    text = '''
def quantize(program, inputs):
    # Guards become a call_module node, on which the Arm passes fail.
    module = program.module(check_guards=False)
    if any(n.op == "call_function" and getattr(n.target, "__name__", "") in ("cond", "while_loop")
           for n in module.graph.nodes):
        with torch.inference_mode():
            data = list(samples(inputs))
        return quantizer()._quantize_with_submodules(module, data)
    prepared = prepare_pt2e(module, quantizer())
    with torch.inference_mode():
        for sample in samples(inputs):
            prepared(*sample)
    return convert_pt2e(prepared)


def main():
    global input_names
    program, inputs = load_model()
    input_names = [str(name) for name in program.graph_signature.user_inputs]
    with torch.no_grad():
        quantized = torch.export.export(quantize(program, inputs), inputs)
    edge = to_edge_transform_and_lower(
        quantized,
        partitioner=[EthosUPartitioner(compile_spec())],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
'''
    tail = f'''
    config = ExecutorchBackendConfig(extract_delegate_segments=False)
    out = Path(sys.argv[1] if len(sys.argv) > 1 else {project.name + ".pte"!r})
    out.write_bytes(edge.to_executorch(config=config).buffer)
    print(f"wrote {{out}}: {{out.stat().st_size}} bytes")


if __name__ == "__main__":
    main()
'''
    return text.rstrip() + (border.rstrip() if integer_io else "") + "\n" + tail.lstrip("\n")
