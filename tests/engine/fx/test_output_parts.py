"""The tensors that outputs join: found, described as loops, returned one by one, joined again."""

import copy
import shutil
import subprocess

import numpy as np
import pytest
import torch

from tests.engine import joining_networks as networks
from tests.for_each import for_each
from workbench.deploy.output_header import function, output_header
from workbench.engine.evaluation.model_outputs import ModelOutputs, described
from workbench.engine.fx.functional_writes import with_functional_writes
from workbench.engine.fx.output_factors import with_output_factors
from workbench.engine.fx.output_parts import origins, split_outputs, user_outputs
from workbench.engine.fx.program_outputs import with_tensor_outputs
from workbench.results import ExportResult

pytestmark = pytest.mark.engine
COMPILER = shutil.which("cc")


def exported(model, example):
    with torch.no_grad():
        program = torch.export.export(model, example)
    return with_tensor_outputs(with_functional_writes(program))


def outputs_of(program, positions, factors=None):
    """Return a program with these outputs changed, and how its outputs become the model's."""
    nodes, known, factors = user_outputs(program), origins(program), factors or {}
    program = with_output_factors(program, factors)
    program, ports = split_outputs(program, known, positions)
    names = [f"output {index}" for index in range(len(known))]
    result = ExportResult(
        nodes=0, inputs=(), outputs=(), model_outputs=described(known, nodes, ports, factors, names)
    )
    return program, ModelOutputs(result)


def run(program, example):
    with torch.no_grad():
        given = program.module(check_guards=False)(*copy.deepcopy(example))
    return [t for t in torch.utils._pytree.tree_leaves(given) if isinstance(t, torch.Tensor)]


def parts_of(kind):
    _, outputs = outputs_of(exported(*networks.made(kind)), ())
    return {
        name: part
        for (_, name), part in zip(
            outputs.names, (p for o in outputs.exported.model_outputs for p in o.parts), strict=True
        )
    }


@for_each("kind", networks.IDIOMS)
def test_that_what_is_returned_one_by_one_is_the_models_output_when_joined(kind):
    model, example = networks.made(kind)
    with torch.no_grad():
        wanted = torch.utils._pytree.tree_leaves(model(*copy.deepcopy(example)))
    program, outputs = outputs_of(exported(model, example), (0,))
    given = run(program, example)
    assert len(given) > len(wanted), kind
    for joined, value in zip(outputs.joined(given), wanted, strict=True):
        assert torch.equal(joined, value), kind


DIVISIBLE = (
    networks.AlongChannels,
    networks.LastDimension,
    networks.Stacked,
    networks.Written,
    networks.Scales,
    networks.InDictionary,
    networks.Decoded,
    networks.Flagged,
)


@for_each("kind", DIVISIBLE)
def test_that_parts_divided_by_factors_are_the_models_output_when_multiplied(kind):
    model, example = networks.made(kind)
    with torch.no_grad():
        wanted = torch.utils._pytree.tree_leaves(model(*copy.deepcopy(example)))
    _, outputs = outputs_of(exported(model, example), ())
    (output, *others) = outputs.exported.model_outputs
    assert output.divisible
    factors = {0: [float(2**number) for number in range(len(output.parts))]}
    program, outputs = outputs_of(exported(model, example), (), factors)
    given = run(program, example)
    assert len(given) == len(wanted) == 1 + len(others), kind
    assert not torch.equal(given[0], wanted[0]), kind
    for joined, value in zip(outputs.joined(given), wanted, strict=True):
        assert torch.equal(joined, value), kind


@for_each("kind", [k for k in networks.IDIOMS if k not in DIVISIBLE])
def test_that_what_is_computed_of_joined_parts_is_not_divided(kind):
    _, outputs = outputs_of(exported(*networks.made(kind)), ())
    assert not outputs.exported.model_outputs[0].divisible
    with pytest.raises(ValueError, match="cannot be divided"):
        outputs_of(exported(*networks.made(kind)), (), {0: [2.0, 1.0]})


@for_each("kind", [networks.Plain, networks.Repeated])
def test_that_an_output_of_one_quantity_has_no_parts(kind):
    assert parts_of(kind) == {}, kind


def test_that_an_output_that_is_summed_at_places_has_no_parts():
    class Summed(torch.nn.Module):
        def forward(self, x):
            return torch.zeros(6, 8).index_put_((torch.tensor([0, 2, 2]),), x[:3], accumulate=True) + 1

    program = exported(Summed(), (torch.randn(6, 8),))
    assert [len(origin.pieces) for origin in origins(program)] == [1]


def test_that_parts_have_the_names_of_their_modules_and_of_their_elements():
    assert list(parts_of(networks.AlongChannels)) == ["box", "score"]
    assert list(parts_of(networks.InDictionary)) == ["box", "score"]
    assert list(parts_of(networks.Factors)) == ["score[:, 0:2]", "score[:, 2]"]
    assert list(parts_of(networks.Decoded)) == ["box[:, :, 0]", "box[:, :, 1]"]
    assert parts_of(networks.AlongChannels)["box"].source.startswith("joining_networks.py:")


def test_that_the_elements_of_a_part_are_those_that_it_makes():
    model, example = networks.made(networks.Scales)
    _, outputs = outputs_of(exported(model, example), ())
    with torch.no_grad():
        rows = model(*example)
    values = dict(zip((name for _, name in outputs.names), outputs.parts([rows]), strict=True))
    assert len(values) == 4
    for name, wanted in (("box", rows[:, :, :4]), ("score", rows[:, :, 4:])):
        own = torch.cat([value for key, value in values.items() if key.startswith(name)])
        assert sorted(own.tolist()) == sorted(wanted.reshape(-1).tolist()), name


def test_that_steps_of_one_layer_are_returned_together():
    program, outputs = outputs_of(exported(*networks.made(networks.Flagged)), (0,))
    assert [name for _, name in outputs.names] == ["last", "layer"]
    assert len(user_outputs(program)) == 2


def test_that_what_an_operation_after_the_parts_does_is_kept_in_the_split_program():
    program, _ = outputs_of(exported(*networks.made(networks.Behind)), (0,))
    targets = [str(node.target) for node in program.graph.nodes]
    assert sum("clamp" in target for target in targets) == 2
    assert not any("cat" in target for target in targets)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize(
    ("kind", "factors"),
    [
        (networks.Written, ()),
        (networks.Scales, ()),
        (networks.Decoded, ()),
        (networks.Written, (64.0, 1.0)),
        (networks.Scales, (64.0, 1.0, 32.0, 0.5)),
    ],
)
def test_that_the_c_function_joins_the_codes_to_the_models_output(kind, factors, tmp_path):
    model, example = networks.made(kind)
    split = () if factors else (0,)
    program, outputs = outputs_of(exported(model, example), split, {0: factors} if factors else {})
    ports, codes = [], []
    for number, value in enumerate(run(program, example)):
        grid = {"scale": 0.25 * (number + 1), "zero_point": -3 + number}
        values = torch.round(value / grid["scale"]) + grid["zero_point"]
        codes.append(values.to(torch.int16).numpy())
        ports.append({"shape": list(value.shape), "dtype": "int16", **grid})
    (tmp_path / "net_outputs.h").write_text(output_header(outputs.exported.model_outputs, ports, "net"))
    joined = computed(tmp_path, codes, outputs.exported.model_outputs[0])
    reals = [
        torch.from_numpy((c.astype(np.float32) - p["zero_point"]) * np.float32(p["scale"]))
        for c, p in zip(codes, ports, strict=True)
    ]
    assert np.array_equal(joined, outputs.joined(reals)[0].numpy().reshape(-1)), kind


def computed(folder, codes, output):
    """Return what the function of the header computes, compiled for this machine."""
    arrays = "".join(
        f"static const int16_t p{i}[] = {{{', '.join(map(str, c.reshape(-1)))}}};\n"
        for i, c in enumerate(codes)
    )
    count, parts = int(np.prod(output.shape)), dict.fromkeys(f"p{p.position}" for p in output.ports)
    call = f"{function('net', 0)}({', '.join(parts)}, out);"
    (folder / "main.c").write_text(
        f'#include <stdio.h>\n#include "net_outputs.h"\n{arrays}static float out[{count}];\n'
        f"int main(void) {{ {call} fwrite(out, 4, {count}, stdout); return 0; }}\n"
    )
    subprocess.run(["cc", "-Wall", "-Werror", "-O1", "main.c", "-o", "main"], cwd=folder, check=True)
    done = subprocess.run([str(folder / "main")], capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.float32)
