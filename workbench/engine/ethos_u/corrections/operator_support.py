"""Corrections of what ExecuTorch takes for the NPU.

A correction gets a node, and returns why it stays on the CPU; "" if it leaves that to ExecuTorch.
"""

from typing import Any

from executorch.backends.arm.constants import DQ_OPS
from executorch.exir.dialects._ops import ops as exir_ops
from torch import fx


def computed_weights_on_cpu(node: fx.Node) -> str:
    """Leave convolutions with computed weights to the CPU.

    Fault: A convolution in 8 bits whose weights are computed, as in dynamic convolutions and
        trackers that correlate with a template, is taken for the NPU, and ExecuTorch's passes fail
        on it ("unsupported param type, call_function").
    Instead: It runs on the CPU in float.
    Right because: The CPU computes the float convolution of the quantized values, which is what the
        quantized model does.
    Network: conv2d(x, self.template(y)) in a8w8
    Tools: executorch 1.5.1
    """
    if node.target != exir_ops.edge.aten.convolution.default:
        return ""
    weights: Any = node.args[1]
    while weights.target in DQ_OPS:
        weights = weights.args[0]
    is_computed = weights.op == "call_function"
    return "Its weights are computed; the NPU needs constants." if is_computed else ""
