"""The part of the script that loads the model and the data."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

from workbench.escaping import filled
from workbench.project import sources
from workbench.project.checkpoints import form_of, weight_files
from workbench.project.model import Tokenization
from workbench.project.opened import OpenProject
from workbench.project.sources import absolute
from workbench.results import WRAPPERS, WeightsTaken

if TYPE_CHECKING:
    from workbench.project.model import DataSource, ModelSource, Preprocess, Project


_COMPRESSION = Path(__file__).parents[1] / "engine" / "quantization" / "compression.py"
_PROGRAM_OUTPUTS = Path(__file__).parents[1] / "engine" / "fx" / "program_outputs.py"
_BRANCH_MODULES = Path(__file__).parents[1] / "engine" / "fx" / "branch_modules.py"


def load_callable(spec: str, folder: Path, option: str) -> str:
    """Return the expression for the user's callable."""
    reference = sources.callable_reference(spec, folder, option)
    if reference.kind == "package":
        return f"getattr(importlib.import_module({reference.module!r}), {reference.attribute!r})"
    file = spec.rpartition(":")[0]
    return f"from_file({file!r}, {reference.attribute!r})"


def compression_part(project: Project) -> list[str]:
    """Return the functions that remove channels and make weights alike, if the project does."""
    if not project.compressions:
        return []
    text = _COMPRESSION.read_text()
    return [text[text.index("import operator") :]]


def weights_lines(project: Project) -> list[str]:
    """Return the lines that compress ``module``, and put trained weights into it."""
    lines = [f"prune(module, {project.channels()!r})"] if project.channels() else []
    if project.trained_weights:
        lines += [
            f"trained = HERE / {project.trained_weights!r}",
            "trained = importlib.import_module('safetensors.torch').load_file(trained)",
            "held = {**dict(module.named_parameters()), **dict(module.named_buffers())}",
            "for name, value in trained.items():",
            "    held[name].data.copy_(value)",
        ]
    return lines + ([f"cluster(module, {project.clusters()!r})"] if project.clusters() else [])


_FROM_FILE = """
import importlib
import importlib.util


def from_file(name, attribute):
    path = HERE / name
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, attribute)


def as_tuple(value):
    return (value,) if isinstance(value, torch.Tensor) else tuple(value)


# Where the inputs lie in a sample; empty where a sample is the tensors alone.
input_places = []
"""


def _weights(name: str, folder: Path, taken: WeightsTaken | None) -> list[str]:
    """Return the lines that read a weights file and put it into the model.

    Args:
        name: The weights file, as the project names it.
        folder: Base of the project's relative paths.
        taken: Where the state dict was found in it; None if the model was never imported.
    """
    path = absolute(folder, name)
    taken = taken or WeightsTaken(form=form_of(path))
    lines = ["    state = {}"]
    files = [file for file in weight_files(path) if not file.name.endswith(".index.json")]
    for file in files:
        source = Path(name).parent / file.relative_to(path.parent)
        lines.append(f"    state |= {_read_state(source.as_posix(), file, taken)}")
    for key in taken.entry:
        lines.append(f"    state = state[{key!r}]")
    if taken.entry and form_of(path) == "module":
        lines.append("    state = getattr(state, 'state_dict', lambda: state)()")
    if taken.joined:
        lines.append("    state = {f'{part}.{n}': v for part, tensors in state.items()")
        lines.append("             if isinstance(tensors, dict) for n, v in tensors.items()}")
    if taken.unwrapped:
        lines.append(f"    wrappers = {WRAPPERS!r}")
        lines.append("    state = {'.'.join(p for p in n.split('.') if p not in wrappers): v")
        lines.append("             for n, v in state.items()}")
    if taken.prefix or taken.added:
        lines.append(f"    state = {{{taken.added!r} + n.removeprefix({taken.prefix!r}): v")
        lines.append(f"             for n, v in state.items() if n.startswith({taken.prefix!r})}}")
    return [*lines, "    model.load_state_dict(state, strict=False)"]


def _read_state(name: str, file: Path, taken: WeightsTaken) -> str:
    """Return the expression that reads one file as a dictionary."""
    match form_of(file):
        case "safetensors":
            return f"importlib.import_module('safetensors.torch').load_file(HERE / {name!r})"
        case "torchscript":
            return f"torch.jit.load(str(HERE / {name!r}), map_location='cpu').state_dict()"
        case "npz":
            return f"{{k: torch.from_numpy(v) for k, v in np.load(HERE / {name!r}).items()}}"
        case "module":
            read = f"torch.load(HERE / {name!r}, map_location='cpu', weights_only=False)"
            return read if taken.entry else f"{read}.state_dict()"
        case _:
            only = "True" if not taken.entry else "False"
            return f"torch.load(HERE / {name!r}, map_location='cpu', weights_only={only})"


def functional_writes_part() -> str:
    """Return the code that computes in new values of float32, with all rows and without writes."""
    texts = (_OWN_IMPORT.sub("", path.read_text()) for path in _WRITES)
    parts = (text.partition('"""\n')[2].partition(_NAMES_BEGIN)[0].strip("\n") for text in texts)
    return "\n\n".join(parts)


_NAMES_BEGIN = "_RESERVED = "
_OWN_IMPORT = re.compile(r"^from workbench\.\S+ import (\([^)]*\)|[^(\n]*)\n+", re.MULTILINE)
_WRITES = tuple(
    _PROGRAM_OUTPUTS.with_name(f"{name}.py")
    for name in ("aliases", "pieces", "plain_regions", "functional_writes", "usual_forms", "chosen_rows")
)


def split_outputs_part(project: Project) -> list[str]:
    """Return the code that splits outputs or divides their parts, if the project does."""
    names = ["output_parts"] if project.split_outputs or any(project.output_factors) else []
    names += ["output_factors"] if any(project.output_factors) else []
    texts = [_OWN_IMPORT.sub("", _PROGRAM_OUTPUTS.with_name(f"{n}.py").read_text()) for n in names]
    return [text.partition('"""\n')[2].strip("\n") for text in texts]


# The end of a file's description.
_END = '"""\n'


def tensor_outputs_part() -> str:
    """Return the functions that let a model take and return tensors alone, and rename its parts."""
    text = _PROGRAM_OUTPUTS.read_text()
    inputs = _PROGRAM_OUTPUTS.with_name("flat_inputs.py").read_text().partition(_END)[2]
    names = _PROGRAM_OUTPUTS.with_name("usual_forms.py").read_text()
    renaming = f"from torch import fx\n\n{names[names.index(_NAMES_BEGIN) :]}"
    return f"{text.partition(_END)[2]}\n\n{inputs.strip()}\n\n{renaming}"


_FROM_ONNX = """\
    import onnx.inliner
    graph = onnx.load(str(HERE / {spec!r}))
    graph = onnx.inliner.inline_local_functions(graph) if graph.functions else graph
    example_inputs, convert = onnx_converter()
    inputs = example_inputs(graph, inputs)
    model = convert(graph, inputs)
    model.eval().requires_grad_(False)
"""
_ONNX_IMPORT = Path(__file__).parents[1] / "engine" / "loading" / "onnx_import"
_CONVERTERS = ("calls", "layers", "operators", "shapes", "conversion")


def onnx_part(project: Project) -> list[str]:
    """Return the code that converts an ONNX file, if the project's model is one.

    It is one function, so that none of its names replaces another one of the script.
    """
    if not project.model.spec.endswith(sources.ONNX_SUFFIX):
        return []
    texts = (_OWN_IMPORT.sub("", (_ONNX_IMPORT / f"{n}.py").read_text()) for n in _CONVERTERS)
    code = "\n\n".join(text.partition('"""\n')[2].strip("\n") for text in texts)
    future = "from __future__ import annotations\n"
    code = f"{code.replace(future, '')}\n\nreturn example_inputs, convert"
    return [f"def onnx_converter():\n{indent(code, '    ')}"]


_FLAT = (
    "    if inputs is not None:",
    "        args, named = arguments_of(inputs)",
    "        named |= dict(*more)",
    "        inputs, input_places[:] = with_flat_inputs(model, args, named)",
)
_FROZEN = (
    "    for parameter in program.parameters():",
    "        parameter.requires_grad_(False)",
    "    inputs = None",
    "    if program.example_inputs is not None:",
    "        inputs, input_places[:] = with_flat_signature(program)",
)


def _onnx_lines(model: ModelSource) -> list[str]:
    """Return the lines that convert an ONNX file; none for a model of torch."""
    if not model.spec.endswith(sources.ONNX_SUFFIX):
        return []
    is_given = model.inputs or model.input_shapes
    lines = _FROM_ONNX.format(spec=model.spec).splitlines()
    return lines if is_given else ["    inputs = None", *lines]


def model_part(opened: OpenProject, *, branches: bool, taken: WeightsTaken | None = None) -> str:
    """Return the functions that load the model and its example inputs.

    With ``branches``, module rules also apply inside branches. ``taken`` says where the weights
    were found in their file.
    """
    model = opened.project.model
    body = []
    if model.spec.endswith(".pt2"):
        body.append(f"    program = torch.export.load(str(HERE / {model.spec!r}))")
        body += _FROZEN
    elif not model.spec.endswith(sources.ONNX_SUFFIX):
        maker = load_callable(model.spec, opened.folder, "model.spec")
        body.append("    # Random weights are those that the workbench had.")
        body += ["    random.seed(0)", "    np.random.seed(0)", "    torch.manual_seed(0)"]
        body.append(f"    made = {maker}()")
        body.append("    model, inputs, *more = made if isinstance(made, tuple) else (made, None)")
        if model.weights:
            body += _weights(model.weights, opened.folder, taken)
        # Tensors that are left in float say in the file whether they need a gradient.
        body.append("    model.eval().requires_grad_(False)")
        body += _FLAT
        body.append("    with_free_names(model)")
    if model.inputs:
        body.append(f"    arrays = np.load(HERE / {model.inputs!r})")
        body.append("    inputs = tuple(torch.from_numpy(arrays[n]) for n in arrays.files)")
    elif model.input_shapes:
        body.append("    generator = torch.Generator().manual_seed(0)")
        shapes = f"{[list(s) for s in model.input_shapes]}"
        body.append(f"    inputs = tuple(torch.randn(s, generator=generator) for s in {shapes})")
    body += _onnx_lines(model)
    body.append("    inputs = tuple(v.detach().cpu() for v in as_tuple(inputs))")
    if not model.spec.endswith(".pt2"):
        body.append("    # The checks of torch.distributions look into values, which an export has not.")
        body.append("    torch.distributions.Distribution.set_default_validate_args(False)")
        body.append("    with torch.no_grad():")
        body.append(f"        program = exported_program(model, inputs, strict={model.strict_export})")
    named, kinds = "", {kind for kind, _, _ in opened.project.quantizer_calls()}
    if branches and kinds & {"module_name", "module_type"}:
        text = _BRANCH_MODULES.read_text()
        named = "\n" + text[text.index("from collections") :]
        known = "None" if model.spec.endswith(".pt2") else "model"
        body.append(f"    name_modules(program, {known})")
    body.append("    return with_tensor_outputs(with_free_weights(program)), inputs")
    return named + _FROM_FILE + "\n\ndef load_model():\n" + "\n".join(body)


# The function that yields all samples, where others are kept for evaluation or not.
_NAMES = {True: "all_samples", False: "samples"}
_HELD_OUT = (
    "def samples(inputs):",
    "    # Evaluation keeps every fourth of 32 or more: calibration does not see them.",
    "    is_split = sum(1 for _ in zip(range(32), all_samples(inputs))) == 32",
    "    for number, sample in enumerate(all_samples(inputs)):",
    "        if not is_split or number % 4 != 3:",
    "            yield sample",
    "",
    "",
)


def data_part(opened: OpenProject) -> str:
    """Return the function that yields calibration samples."""
    source = opened.project.calibration
    if source is None:
        return "def samples(inputs):\n    yield inputs"
    holds_out = opened.project.evaluation.holds_out
    lines = [*(_HELD_OUT if holds_out else ()), f"def {_NAMES[holds_out]}(inputs):"]
    lines += _raw_samples(source, opened.folder)
    limited = source.limit is not None
    lines += [
        "    given = 0",
        "    for index, row in enumerate(rows):",
        f"        if index in {set(source.dropped) or '()'}:",
        "            continue",
        *([f"        if given == {source.limit}:", "            return"] if limited else []),
        "        given += 1",
        "        tensors = (torch.as_tensor(np.array(v)) if not isinstance(v, torch.Tensor)"
        " else v for v in row)",
        "        yield tuple(t.reshape(i.shape).to(i.dtype) for t, i in zip(tensors, inputs, strict=True))",
    ]
    return "\n".join(lines)


def _raw_samples(source: DataSource, folder: Path) -> list[str]:
    reference = sources.data_reference(source.spec, folder, "calibration.spec")
    if reference.kind == "pictures":
        return _picture_rows(source)
    if reference.runs_code:
        maker = load_callable(source.spec, folder, "calibration.spec")
        return [
            "    def rows_of(items):",
            "        for item in items:",
            "            if input_places and (found := sample_at(item, input_places)):",
            "                item = found",
            "            if isinstance(item, (tuple, list)) and len(item) == 2 and np.ndim(item[1]) == 0:",
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
    return [
        "    from PIL import Image",
        f"    suffixes = {sources.PICTURE_SUFFIXES!r}",
        f"    folder = HERE / {source.spec!r}",
        "    files = sorted((p for p in folder.rglob('*') if p.suffix.lower() in suffixes),",
        "                   key=lambda p: p.relative_to(folder).as_posix())",
        "    shape = inputs[0].shape",
        f"    last = {_LAST[settings.order]}",
        "    channels = shape[-1] if last else shape[-3] if len(shape) > 2 else 1",
        f"    gray = {_GRAY.get(settings.layout, 'False')}",
        "    def picture(file):",
        "        image = Image.open(file).convert('L' if gray else 'RGB')",
        *_resized(settings),
        "        x = np.array(image, np.uint8)",
        "        x = x[:, :, None] if x.ndim == 2 else x",
        *(["        x = x[:, :, ::-1]"] if settings.layout == "bgr" else []),
        *_normalized(settings),
        "        return np.ascontiguousarray(x if last else x.transpose(2, 0, 1))",
        "    rows = ((picture(file),) for file in files)",
    ]


# Expressions for settings that may follow the model's input.
_LAST = {
    "auto": "len(shape) > 2 and shape[-3] not in {1, 3} and shape[-1] in {1, 3}",
    "first": "False",
    "last": "True",
}
_GRAY = {"auto": "channels == 1", "gray": "True"}


def _resized(settings: Preprocess) -> list[str]:
    """Return the lines that resize ``image``, and crop it or put it into a border."""
    height, width = settings.size
    way = f"Image.Resampling.{settings.filter.upper()}"
    if settings.letterbox is not None:
        return [
            f"        if image.width * {height} <= image.height * {width}:",
            f"            scale = {height} / image.height",
            "        else:",
            f"            scale = {width} / image.width",
            "        sizes = round(image.width * scale), round(image.height * scale)",
            "        sized = max(1, sizes[0]), max(1, sizes[1])",
            f"        border = ({settings.letterbox},) * len(image.mode)",
            f"        whole = Image.new(image.mode, ({width}, {height}), border)",
            f"        corner = ({width} - sized[0]) // 2, ({height} - sized[1]) // 2",
            f"        whole.paste(image.resize(sized, {way}), corner)",
            "        image = whole",
        ]
    if settings.crop is None:
        return [f"        image = image.resize(({width}, {height}), {way})"]
    rows, columns = settings.crop
    return [
        f"        if image.width * {height} <= image.height * {width}:",
        f"            sized = {width}, max({height}, image.height * {width} // image.width)",
        "        else:",
        f"            sized = max({width}, image.width * {height} // image.height), {height}",
        f"        top = round((sized[1] - {rows}) / 2)",
        f"        left = round((sized[0] - {columns}) / 2)",
        f"        image = image.resize(sized, {way})",
        f"        image = image.crop((left, top, left + {columns}, top + {rows}))",
    ]


def _normalized(settings: Preprocess) -> list[str]:
    """Return the lines that convert the pixels ``x``."""
    if settings.dtype == "uint8":
        return []
    if settings.dtype == "int8":
        return ["        x = (x.astype(np.int16) - 128).astype(np.int8)"]
    return [
        f"        x = x.astype(np.float32) / np.float32({settings.scale!r})",
        f"        mean = np.asarray({list(settings.mean)!r}, np.float32)",
        f"        std = np.asarray({list(settings.std)!r}, np.float32)",
        "        x = ((x - mean) / std).astype(np.float32)",
    ]


_STEPS = '''
def tokens():
    text = (HERE / {spec}).read_bytes().decode("utf-8")
{ids}


def {name}(inputs):
    """Give the steps through the text, and whether a sequence begins with each."""
    ids, given, ended, at_once = tokens(), 0, -1, inputs[0].numel()
    calls = [
        (start, place)
        for start in range(0, len(ids) - 1, {length})
        for place in range(start, min(start + {length}, len(ids) - 1) - at_once + 1, at_once)
    ]
    for number, (start, place) in enumerate(calls):
{ends}        if ended != start:
            places = list(range(place - start, place - start + at_once))
            numbers, given = iter((ids[place : place + at_once], places)), given + 1
            yield place == start, tuple(
                torch.zeros_like(i)
                if i.is_floating_point()
                else torch.tensor(next(numbers)[: i.numel()], dtype=i.dtype).reshape(i.shape)
                for i in inputs
            )
'''

_REMEMBERED = '''
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from torch.nn.attention import SDPBackend, sdpa_kernel


def caches(module):
    """Return the buffers that a graph writes, with what is in them now."""
    written = (n.args[0] for n in module.graph.nodes if n.target is torch.ops.aten.copy_.default)
    return {n.target: module.get_buffer(n.target).clone() for n in written if n.op == "get_attr"}


def plain_attention(module):
    """Take attention apart, as ExecuTorch's export of language models does, beside caches."""
    return sdpa_kernel([SDPBackend.MATH]) if caches(module) else contextlib.nullcontext()


def put_back(module, first):
    for name, value in first.items():
        module.get_buffer(name).copy_(value)
'''

QUANTIZE = """
def quantize(program, inputs):
    # Guards become a call_module node, on which the Arm passes fail.
    module = program.module(check_guards=False)
{changes}    with plain_attention(module):
        prepared = prepare_pt2e(module, quantizer())
    first = caches(prepared)
    handed_on = sum(value.is_floating_point() for value in inputs)
    with torch.inference_mode(), plain_attention(prepared):
        for begins, step in samples(inputs):
            if begins:
                put_back(prepared, first)
            elif handed_on:
                step = (*step[:-handed_on], *given[-handed_on:])
            given = as_tuple(prepared(*step))
        put_back(prepared, first)
{fix}    return convert_pt2e(prepared)
"""

_RUNNERS = '''
def methods_for_runners(program, inputs):
    """Return what runners of language models ask, as methods that return a constant."""
    logits = next(iter(program.graph_signature.user_outputs))
    shape = next(n for n in program.graph.nodes if n.name == logits).meta["val"].shape
    return {
        "get_max_seq_len": {length},
        "get_max_context_len": {length},
        "get_vocab_size": shape[-1],
        "use_kv_cache": any(v.is_floating_point() for v in inputs)
        or bool(program.graph_signature.buffers_to_mutate),
        "use_sdpa_with_kv_cache": False,
        "enable_dynamic_shape": False,
    }


def runtime_form(program):
    """Let caches begin as they are, or the runtime leaves their memory as it finds it."""
    signature = program.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    written = sorted(n for n, b in signature.inputs_to_buffers.items() if b in changed)
    return ExecutorchBackendConfig(
        extract_delegate_segments=False, do_quant_fusion_and_const_prop=True,
        passes=[InitializedMutableBufferPass(written)] if written else [],
    )
'''


_HELD_OUT_STEPS = """

def samples(inputs):
    # Evaluation keeps every fourth of 32 or more sequences: calibration does not see them.
    is_split = sum(begins for begins, _ in all_samples(inputs)) >= 32
    number = -1
    for begins, step in all_samples(inputs):
        number += begins
        if not is_split or number % 4 != 3:
            yield begins, step
"""


def steps_part(source: DataSource, folder: Path, *, holds_out: bool) -> str:
    """Return the functions that yield the steps of a text.

    Args:
        source: The text.
        folder: Where its path starts.
        holds_out: Whether evaluation keeps a part of the sequences.
    """
    settings = source.tokens or Tokenization()
    dropped = f"number in {set(source.dropped)}" if source.dropped else ""
    limit = f"given == {source.limit}" if source.limit else ""
    ends = " or ".join(end for end in (dropped, limit) if end)
    values = {
        "spec": repr(source.spec),
        "ids": _ids(settings, folder),
        "length": str(settings.length),
        "name": _NAMES[holds_out],
        "ends": f"        if {ends}:\n            ended = start\n" if ends else "",
    }
    return filled(_STEPS, values) + (_HELD_OUT_STEPS if holds_out else "")


def _ids(settings: Tokenization, folder: Path) -> str:
    """Return the lines that convert ``text`` to token ids."""
    if not settings.tokenizer:
        return "    return list(text.encode())"
    option = "calibration.tokens.tokenizer"
    reference = sources.tokenizer_reference(settings.tokenizer, folder, option)
    if reference.runs_code:
        return f"    return list({load_callable(settings.tokenizer, folder, option)}(text))"
    return (
        "    from tokenizers import Tokenizer\n"
        f"    return Tokenizer.from_file(str(HERE / {settings.tokenizer!r})).encode(text).ids"
    )


def remembering_parts(source: DataSource) -> list[str]:
    """Return the functions for the decoder's state."""
    length = (source.tokens or Tokenization()).length
    return [_REMEMBERED, filled(_RUNNERS, {"length": str(length)})]
