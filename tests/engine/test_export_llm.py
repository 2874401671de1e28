"""A decoder comes out as ExecuTorch's own export of language models makes it.

The other side is ``executorch.examples.models.llama.export_llama_lib._export_llama``, all that
``python -m executorch.extension.llm.export.export_llm`` calls once it has read its configuration.
"""

from __future__ import annotations

import hashlib
import json
import operator
import re
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import pytest
import torch

from workbench.cli import main
from workbench.engine.runtime.context import LiveObjectCache
from workbench.engine.studies.candidates import Environment, compute
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project import edits, store
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject
from workbench.pte import vela_stream
from workbench.pte.program import decode
from workbench.results import PROGRAM_FILE
from workbench.targets.ethos_u.corrections import CORRECTIONS
from workbench.targets.ethos_u.rewrites import REWRITES

pytestmark = pytest.mark.engine
PROMPT = "The with"
# One layer of the recipe's two, because ExecuTorch's own export takes its time.
SIZES = {"dim": 64, "n_layers": 1, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 256, "hidden_dim": 192}
CONTEXT = 64
# Token and position, with the alignment of planned memory.
INPUTS_BYTES = 32
# Delegates by scope and caches.
DELEGATES = {("full", "float"): 1, ("full", "int8"): 3, ("linear", "float"): 6, ("linear", "int8"): 7}
# That of static_quantize_kv_cache, where nothing measures others.
CACHE_SCALE = 1 / 127


@dataclass(frozen=True)
class Made:
    """A quantized module and the program for the runtime."""

    module: Any
    program: bytes

    @property
    def delegates(self):
        """What each delegate was told, and what Vela packed: commands, weights, borders, memory."""
        method = next(m for m in decode(self.program).methods if m.name == "forward")
        return [
            {name: bytes(block.data) for name, block in vela_stream.blocks(d.data).items()} | d.specs
            for d in method.delegates
        ]


def is_meant(place, mine):
    """Return whether a difference from ExecuTorch's file has a reason."""
    plan = mine.execution_plan[0]
    value = re.fullmatch(r"execution_plan\[0\]\.values\[(\d+)\]\.val\.(\w+)", place)
    match value.groups() if value else place:
        case (_, "requires_grad"):
            return True  # Weights are frozen when a model is imported.
        case (number, "allocation_info"):
            # Token and position have a place in our plan of memory; their runner brings its own.
            return int(number) in plan.inputs
        case (number, "data_buffer_idx"):
            # Caches begin as zeros and so share them; theirs are as calibration left them.
            return plan.values[int(number)].val.allocation_info is not None
        case "execution_plan[0].non_const_buffer_sizes[1]":
            return True  # That place; how much it is, is asserted below.
        case "execution_plan[0].container_meta_type.encoded_inp_str":
            return True  # They name the position of a token, we give it a place.
        case _:
            # Nothing in a program tells its number of layers.
            return place.startswith("mutable_data") or place == "execution_plan: get_n_layers"


def differences(mine, other, place=""):
    """Yield where two programs for the runtime, read back field by field, are not the same."""
    if type(mine) is not type(other):
        yield place
    elif is_dataclass(mine):
        for field in fields(mine):
            pair = getattr(mine, field.name), getattr(other, field.name)
            yield from differences(*pair, f"{place}.{field.name}".removeprefix("."))
    elif isinstance(mine, list | tuple):
        names = [getattr(each, "name", "") for each in other]
        left = [name for name in names if name not in {getattr(e, "name", "") for e in mine}]
        yield from (f"{place}: {name}" for name in left)
        kept = [each for each in other if getattr(each, "name", "") not in left]
        if len(mine) != len(kept):
            yield place
        for number, pair in enumerate(zip(mine, kept, strict=False)):
            yield from differences(*pair, f"{place}[{number}]")
    elif mine != other:
        yield place


def in_order(program):
    """Return a program whose constants stand in the order of what they are, and name that."""
    plan, stored = program.execution_plan[0], program.constant_buffer
    places = []
    for number, value in enumerate(each.val for each in plan.values):
        if getattr(value, "data_buffer_idx", 0) and value.allocation_info is None:
            content = bytes(stored[value.data_buffer_idx].storage)
            value.data_buffer_idx = hashlib.sha256(content).hexdigest()
            places.append(number)
    ranked = sorted(places, key=lambda number: str(plan.values[number]))
    moved = {place: plan.values[number] for number, place in zip(ranked, places, strict=True)}
    for place, value in moved.items():
        plan.values[place] = value
    now = dict(zip(ranked, places, strict=True))
    for call in (each.instr_args for chain in plan.chains for each in chain.instructions):
        call.args[:] = [now.get(number, number) for number in call.args]
    program.constant_buffer = [len(stored)]
    return program


def unexplained(mine, other):
    """Return the differences between two files that no reason is known of."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    a, b = (deserialize_pte_binary(program) for program in (mine, other))
    found = [
        *differences(in_order(a.program), in_order(b.program)),
        *differences(a.mutable_data, b.mutable_data, "mutable_data"),
        *differences(a.named_data, b.named_data, "named_data"),
    ]
    assert "execution_plan: get_n_layers" in found
    sizes = [side.program.execution_plan[0].non_const_buffer_sizes for side in (a, b)]
    assert len(sizes[0]) == len(sizes[1]) == 2
    assert 0 <= sizes[0][1] - sizes[1][1] <= INPUTS_BYTES
    return [place for place in found if not is_meant(place, a.program)]


@pytest.fixture
def begun(tmp_path):
    """Return what begins a project with the recipe, with one layer and a prompt to calibrate."""

    def begin(mode, scope, caches):
        from safetensors.torch import load_file, save_file

        path = tmp_path / "mine.qwb"
        options = ["--recipe", "llm_decoder", "--mode", mode, "--scope", scope, "--caches", caches]
        assert main(["new", str(path), *options]) == 0
        code, weights = tmp_path / "mine_model.py", tmp_path / "mine_weights.safetensors"
        code.write_text(code.read_text().replace('"n_layers": 2', '"n_layers": 1'))
        tensors = {
            name: torch.full_like(v, CACHE_SCALE) if name.endswith("_cache_scales") else v
            for name, v in load_file(weights).items()
            if ".layers.1." not in name
        }
        save_file(tensors, weights)
        # The last token of a text is read by nobody: it is what follows.
        (tmp_path / "mine_calibration.txt").write_text(PROMPT + ".")
        project = store.load(path)
        # Stock ExecuTorch corrects nothing.
        stock = {row.id: False for row in (*CORRECTIONS, *REWRITES)}
        options = {**project.target.options, **stock, "optimise": "Size"}
        return edits.set_target(project, TargetChoice(id=project.target.id, options=options))

    return begin


def ours(folder, project):
    cache, live = Cache(folder / "cache"), LiveObjectCache()
    compute(project, Environment(folder, cache, live), ("lower",))
    planned = plan(OpenProject(project, folder), cache)
    program = cache.folder(planned.key("lower")) / PROGRAM_FILE
    return Made(live.get("convert", planned.key("convert")).module, program.read_bytes())


def theirs(folder, project, mode, scope, caches):
    from executorch.examples.models.llama import export_llama_lib
    from executorch.extension.llm.export.config import llm_config as config
    from safetensors.torch import load_file

    weights = load_file(folder / project.model.weights)
    named = {
        name.removeprefix("transformer."): value
        for name, value in weights.items()
        if not name.endswith("_cache_scales")
    }
    torch.save(named, folder / "weights.pth")
    (folder / "params.json").write_text(json.dumps(SIZES))
    write_byte_tokenizer(folder / "tokenizer.json")
    made = config.LlmConfig()
    made.base.params, made.base.checkpoint = f"{folder}/params.json", f"{folder}/weights.pth"
    made.base.tokenizer_path = f"{folder}/tokenizer.json"
    made.model.use_kv_cache, made.model.enable_dynamic_shape = True, False
    made.model.static_quantize_kv_cache = caches == "int8"
    made.model.static_quantize_kv_cache_scale = CACHE_SCALE
    made.export.max_seq_length = made.export.max_context_length = CONTEXT
    made.export.output_dir, made.export.output_name = str(folder), f"{folder}/theirs.pte"
    made.quantization.pt2e_quantize = config.Pt2eQuantize(mode)
    made.quantization.quantize_scope = config.QuantizeScope(scope)
    made.quantization.calibration_data = PROMPT
    made.quantization.calibration_seq_length = len(PROMPT)
    made.backend.ethosu = config.EthosUConfig(
        enabled=True,
        target=project.target.id,
        system_config=project.target.options["system_config"],
        memory_mode=project.target.options["memory_mode"],
        extra_flags=["--optimise=Size"],
    )
    builder = export_llama_lib._export_llama(made)
    return Made(builder.pre_autograd_graph_module, (folder / "theirs.pte").read_bytes())


def write_byte_tokenizer(path):
    """Write a tokenizer for which every byte is a token of its own number."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [number for number in range(256) if number not in shown]
    letters = {number: chr(number) for number in shown}
    letters |= {number: chr(256 + place) for place, number in enumerate(hidden)}
    tokenizer = Tokenizer(models.BPE({letters[number]: number for number in range(256)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.save(str(path))


class Hash(str):
    """Stands for a node among the arguments of another."""


def meaning(module):
    """Return hashes of all that a module gives and remembers, whatever its nodes are called."""
    hashes, given, inputs = {}, set(), 0
    for node in module.graph.nodes:
        said = repr(torch.fx.map_arg((node.args, node.kwargs), lambda n: Hash(hashes[n])))
        if node.op == "placeholder":
            said, inputs = f"input {inputs}", inputs + 1
        elif node.op == "get_attr":
            value = operator.attrgetter(node.target)(module).detach()
            # Of a cache its place counts: what calibration left in it is nobody's.
            content = node.target.removeprefix("transformer.").encode()
            if not node.target.endswith("_cache"):
                content = value.contiguous().numpy().tobytes()
            said = f"{value.dtype} {tuple(value.shape)} {hashlib.sha256(content).hexdigest()}"
        hashes[node] = hashlib.sha256(f"{node.op} {_name(node)} {said}".encode()).hexdigest()
        if node.op == "output" or "copy_" in str(node.target):
            given.add(hashes[node])
    return given


def _name(node):
    return str(node.target) if node.op == "call_function" else ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "scope", "caches"),
    [
        ("ethosu_16a8w", "linear", "float"),
        ("ethosu_16a8w", "linear", "int8"),
        ("ethosu_16a8w", "full", "int8"),
        # A minute each.
        pytest.param("ethosu_8a8w", "linear", "float", marks=pytest.mark.benchmark),
        pytest.param("ethosu_8a8w", "full", "float", marks=pytest.mark.benchmark),
        pytest.param("ethosu_16a8w", "full", "float", marks=pytest.mark.benchmark),
        pytest.param("ethosu_8a8w", "linear", "int8", marks=pytest.mark.benchmark),
        pytest.param("ethosu_8a8w", "full", "int8", marks=pytest.mark.benchmark),
    ],
)
def test_that_export_llm_makes_the_same_program(begun, tmp_path, monkeypatch, mode, scope, caches):
    from workbench.engine.ethos_u.corrections.partitioner import OrderedPartitioner

    # Several delegates have another order there in every process.
    place = "executorch.backends.arm.ethosu.partitioner.EthosUPartitioner"
    monkeypatch.setattr(place, OrderedPartitioner)
    project = begun(mode, scope, caches)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        mine, other = ours(tmp_path, project), theirs(tmp_path, project, mode, scope, caches)
    finally:
        torch.set_num_threads(threads)
    assert meaning(mine.module) == meaning(other.module)
    assert len(mine.delegates) == DELEGATES[scope, caches]
    assert mine.delegates == other.delegates
    assert unexplained(mine.program, other.program) == []
    assert all(b"--optimise=Size" in each["compile_flags"] for each in mine.delegates)


@pytest.mark.slow
def test_that_export_llm_makes_no_second_method_for_prompts_on_ethos_u():
    """The guide says so; a second program reads prompts here."""
    from executorch.examples.models.llama import export_llama_lib
    from executorch.extension.llm.export.config import llm_config as config

    made = config.LlmConfig()
    made.model.use_kv_cache, made.model.enable_dynamic_shape = True, False
    made.backend.ethosu = config.EthosUConfig(enabled=True, target="ethos-u85-256")
    made.quantization.pt2e_quantize = config.Pt2eQuantize.ethosu_8a8w
    methods = [config.MethodConfig("decode"), config.MethodConfig("prefill", export_seq_len=8)]
    made.multimethod = config.MultimethodConfig(methods=methods, share_mutable_buffers=True)
    with pytest.raises(ValueError, match="multimethod"):
        export_llama_lib._export_llama(made)
