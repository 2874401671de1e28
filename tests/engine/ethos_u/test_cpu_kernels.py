"""The kernels of what the NPU leaves on the CPU: which library, and that the numbers stay right."""

import numpy as np
import pytest

from tests.engine.in_process import project, without
from workbench.engine.ethos_u.cpu_operators import compute
from workbench.npu.inputs import drawn_inputs
from workbench.npu.program import load
from workbench.project import edits
from workbench.project.model import DataSource, TargetChoice
from workbench.targets.ethos_u.rewrites import STRIDES

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]
WIDE = {"calibration": DataSource(spec="wide_networks.py:samples")}


def with_kernels(model, kernels, config="a8w8", target="ethos-u55-128", **options):
    """Return a project whose stride of 4 is left to the CPU, as it is written."""
    made = project(f"wide_networks.py:{model}", config, target, **WIDE)
    return edits.set_target(
        made,
        TargetChoice(
            id=target, options={**({"cpu_kernels": kernels} if kernels else {}), STRIDES: False, **options}
        ),
    )


def lowered(engine, made):
    assert engine.run(made, "verify", "evaluate") == "done", engine.failure
    assert engine.result(made, "verify").max_lsb <= 1
    return engine.result(made, "lower")


def spaces(result):
    return {kernel.split("::")[0] for kernel in result.kernels}


@pytest.mark.slow
@pytest.mark.parametrize(("kernels", "space"), [("", "quantized_decomposed"), ("cortex_m", "cortex_m")])
def test_that_quantize_and_dequantize_come_from_the_library_that_is_wanted(engine, kernels, space):
    result = lowered(engine, with_kernels("strided", kernels))
    assert f"{space}::quantize_per_tensor.out" in result.kernels
    assert "aten::convolution.out" in result.kernels
    border = next(n for n in result.cpu_nodes if n.op.endswith("quantize_per_tensor.default"))
    assert "at the border" in border.reason


@pytest.mark.slow
@pytest.mark.parametrize("kernels", ["cmsis_nn", pytest.param("cmsis_nn_dsp", marks=pytest.mark.slow)])
def test_that_cmsis_nn_computes_what_the_npu_lacks(engine, kernels):
    result = lowered(engine, with_kernels("strided", kernels, integer_io=True))
    assert result.kernels == ("cortex_m::quantized_conv2d.out",)
    (node,) = result.cpu_nodes
    assert (node.op, node.module) == ("cortex_m.quantized_conv2d.default", "second")
    assert "stride" in node.reason.lower()
    assert result.delegates == 2


def test_that_the_program_carries_the_scratch_of_cmsis_nn_and_the_lines_to_build_it(engine):
    plain, made = with_kernels("strided", ""), with_kernels("strided", "cmsis_nn", integer_io=True)
    for wanted in (plain, made):
        assert engine.run(wanted, "package", "evaluate", "verify") == "done", engine.failure
    folder = engine.path(made, "package")
    assert "EXECUTORCH_BUILD_CORTEX_M ON" in (folder / "strided.cmake").read_text()
    components = (folder / "strided.cproject.yml").read_text()
    assert "ExecuTorch Operators:Cortex-M quantized_conv2d" in components
    assert "ARM::CMSIS:NN Lib" in components
    assert "NN Lib" not in (engine.path(plain, "package") / "strided.cproject.yml").read_text()
    kernels = engine.result(made, "package").kernels
    assert all(kernel.startswith("cortex_m::") for kernel in kernels)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "config", "target"),
    [("strided_contiguous", "a8w8", "ethos-u55-128"), ("strided", "a16w8", "ethos-u65-256")],
)
def test_that_channels_first_and_sixteen_bits_stay_in_float(engine, model, config, target):
    result = lowered(engine, with_kernels(model, "cmsis_nn", config, target))
    assert "aten::convolution.out" in result.kernels
    assert "cortex_m::quantize_per_tensor.out" in result.kernels


@pytest.mark.slow
def test_that_a_convolution_of_one_channel_gives_what_its_readers_expect(engine):
    """An image of one channel is in both layouts, what is computed from it is not."""
    made = edits.assign(with_kernels("one_channel", "cmsis_nn"), "module_name", "first", "cpu")
    assert "aten::convolution.out" in lowered(engine, made).kernels


@pytest.mark.slow
def test_that_the_simulator_gives_kernels_of_cmsis_nn_their_scratch(engine):
    made = with_kernels("strided", "cmsis_nn")
    lowered(engine, made)
    assert engine.run(made, "package") == "done"
    program = load(next(engine.path(made, "package").glob("*.pte")))
    (output,) = program.run(drawn_inputs(program.inputs), operators=compute).outputs
    assert np.isfinite(output).all()


@pytest.mark.slow
def test_that_operators_without_a_kernel_for_integers_are_not_given_any(engine):
    result = lowered(engine, without(with_kernels("mixed", "cmsis_nn"), "plain_operators"))
    assert {"aten::where.self_out", "aten::upsample_bilinear2d.vec_out"} <= set(result.kernels)
    assert "cortex_m::quantized_conv2d.out" in result.kernels


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "kernel"),
    [("a8w8-per-tensor", "cortex_m::quantized_linear.out"), ("a8w8", "aten::linear.out")],
)
def test_that_cmsis_nn_takes_a_linear_that_a_rule_keeps_off_if_its_weights_have_one_grid(
    engine, config, kernel
):
    made = edits.assign(with_kernels("strided", "cmsis_nn", config), "module_name", "fc", "cpu")
    result = lowered(engine, made)
    assert kernel in result.kernels
    causes = {n.cause for n in result.cpu_nodes if n.op.endswith("linear.default")}
    assert causes == {"rule"}


ON_CPU = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3)
    def forward(self, x):
        y = self.conv(x)
        return {value}
def net():
    return Net().eval(), (torch.randn(1, 2, 8, 8),)
"""
# What ExecuTorch has no portable kernel for, and the same with operators that have one.
WITHOUT_KERNEL = [
    ("aten::sort.values", "y.sort(-1).values", "y.topk(6, -1, largest=False).values"),
    (
        "aten::diagonal_scatter.out",
        "y.diagonal_scatter(torch.ones(1, 4, 6), dim1=2, dim2=3)",
        "torch.where(torch.eye(6, dtype=torch.bool), 1.0, y)",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "value", "remedied"), WITHOUT_KERNEL)
def test_that_an_operator_without_a_portable_kernel_is_warned_of_until_it_is_gone(
    engine, kernel, value, remedied
):
    for name, text in (("without", value), ("with_kernel", remedied)):
        (engine.folder / f"{name}.py").write_text(ON_CPU.replace("{value}", text))
    (warning,) = engine.lowered(project("without.py:net")).warnings
    assert kernel in warning
    assert engine.lowered(project("with_kernel.py:net")).warnings == ()


@pytest.mark.slow
def test_that_places_of_64_bits_that_the_cpu_reads_are_not_made_on_the_npu(engine):
    value = "y.scatter_add(1, torch.zeros(1, 1, 6, 6, dtype=torch.long), y[:, 2:3] * 1.5)"
    (engine.folder / "scattered.py").write_text(ON_CPU.replace("{value}", value))
    made = project("scattered.py:net")
    verified = engine.verified(made)
    assert (verified.max_lsb, verified.compiled.whole_refused) == (0, "")
    assert "aten.full.default" in [node.op for node in engine.result(made, "lower").cpu_nodes]
