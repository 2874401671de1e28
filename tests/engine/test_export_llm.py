"""A decoder comes out as ExecuTorch's own export of language models makes it.

The other side is ``executorch.examples.models.llama.export_llama_lib._export_llama``, all that
``python -m executorch.extension.llm.export.export_llm`` calls once it has read its configuration.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from workbench.cli import main
from workbench.engine.candidates import Means, compute
from workbench.engine.context import HotStore
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project import edits, store
from workbench.project.model import TargetChoice
from workbench.pte import vela_stream
from workbench.pte.program import decode
from workbench.results import PROGRAM_FILE

pytestmark = pytest.mark.engine
PROMPT = "The with"
# One layer of the recipe's two, because ExecuTorch's own export takes its time.
SIZES = {"dim": 64, "n_layers": 1, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 256,
         "hidden_dim": 192}  # fmt: skip
CONTEXT = 64


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
            {name: bytes(block.data) for name, block in vela_stream.blocks(d.data).items()}
            | d.specs
            for d in method.delegates
        ]


@pytest.fixture
def begun(tmp_path):
    """Return what begins a project with the recipe, with one layer and a prompt to calibrate."""

    def begin(mode, scope):
        from safetensors.torch import load_file, save_file

        path = tmp_path / "mine.qwb"
        options = ["--recipe", "llm_decoder", "--mode", mode, "--scope", scope]
        assert main(["new", str(path), *options]) == 0
        code, weights = tmp_path / "mine_model.py", tmp_path / "mine_weights.safetensors"
        code.write_text(code.read_text().replace('"n_layers": 2', '"n_layers": 1'))
        kept = {name: v for name, v in load_file(weights).items() if ".layers.1." not in name}
        save_file(kept, weights)
        # The last token of a text is read by nobody: it is what follows.
        (tmp_path / "mine_calibration.txt").write_text(PROMPT + ".")
        project = store.load(path)
        options = {**project.target.options, "optimise": "Size"}
        return edits.set_target(project, TargetChoice(id=project.target.id, options=options))

    return begin


def ours(folder, project):
    cache, hot = Cache(folder / "cache"), HotStore()
    compute(project, Means(folder, cache, hot), ("lower",))
    planned = plan(project, folder, cache)
    program = cache.folder(planned.key("lower")) / PROGRAM_FILE
    return Made(hot.get("convert", planned.key("convert")).module, program.read_bytes())


def theirs(folder, project, mode, scope):
    from executorch.examples.models.llama import export_llama_lib
    from executorch.extension.llm.export.config import llm_config as config
    from safetensors.torch import load_file

    weights = load_file(folder / project.model.weights)
    named = {name.removeprefix("transformer."): value for name, value in weights.items()}
    torch.save(named, folder / "weights.pth")
    (folder / "params.json").write_text(json.dumps(SIZES))
    write_byte_tokenizer(folder / "tokenizer.json")
    made = config.LlmConfig()
    made.base.params, made.base.checkpoint = f"{folder}/params.json", f"{folder}/weights.pth"
    made.base.tokenizer_path = f"{folder}/tokenizer.json"
    made.model.use_kv_cache, made.model.enable_dynamic_shape = True, False
    made.export.max_seq_length = made.export.max_context_length = CONTEXT
    made.export.output_dir, made.export.output_name = str(folder), f"{folder}/theirs.pte"
    made.quantization.pt2e_quantize = config.Pt2eQuantize(mode)
    made.quantization.quantize_scope = config.QuantizeScope(scope)
    made.quantization.calibration_data = PROMPT
    made.quantization.calibration_seq_length = len(PROMPT)
    made.backend.ethosu = config.EthosUConfig(
        enabled=True, target=project.target.id,
        system_config=project.target.options["system_config"],
        memory_mode=project.target.options["memory_mode"], extra_flags=["--optimise=Size"],
    )  # fmt: skip
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
    constants = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for node in module.graph.nodes:
        said = repr(torch.fx.map_arg((node.args, node.kwargs), lambda n: Hash(hashes[n])))
        if node.op == "placeholder":
            said, inputs = f"input {inputs}", inputs + 1
        elif node.op == "get_attr":
            value = constants[node.target].detach()
            # Of a cache its place counts: what calibration left in it is nobody's.
            content = node.target.removeprefix("transformer.").encode()
            if "_cache" not in node.target:
                content = value.contiguous().numpy().tobytes()
            said = f"{value.dtype} {tuple(value.shape)} {hashlib.sha256(content).hexdigest()}"
        hashes[node] = hashlib.sha256(f"{node.op} {_name(node)} {said}".encode()).hexdigest()
        if node.op == "output" or "copy_" in str(node.target):
            given.add(hashes[node])
    return given


def _name(node):
    return str(node.target) if node.op == "call_function" else ""


@pytest.mark.parametrize(
    ("mode", "scope"),
    [
        ("ethosu_16a8w", "linear"),
        # A minute each.
        pytest.param("ethosu_8a8w", "linear", marks=pytest.mark.benchmark),
        pytest.param("ethosu_8a8w", "full", marks=pytest.mark.benchmark),
        pytest.param("ethosu_16a8w", "full", marks=pytest.mark.benchmark),
    ],
)
def test_that_export_llm_makes_the_same_program(begun, tmp_path, mode, scope):
    project = begun(mode, scope)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        mine, other = ours(tmp_path, project), theirs(tmp_path, project, mode, scope)
    finally:
        torch.set_num_threads(threads)
    assert meaning(mine.module) == meaning(other.module)
    assert len(mine.delegates) == (1 if scope == "full" else 6)
    assert mine.delegates == other.delegates
    assert all(b"--optimise=Size" in each["compile_flags"] for each in mine.delegates)
