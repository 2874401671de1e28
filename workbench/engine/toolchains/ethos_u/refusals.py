"""What Vela and the partitioner say when they refuse, in words and with what helps."""

from __future__ import annotations

import re

from workbench.engine.keeping_off import KeptOff
from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.results import CpuCause


def vela_left(error: SystemExit) -> WorkbenchError:
    """Return an error for a Vela that did not understand its arguments."""
    info = ErrorInfo(
        message=f"Vela refused its arguments and left with exit code {error.code}.",
        hint="Check the additional Vela flags; the log has Vela's own words.",
        where=Place(kind="option", id="target.options.extra_flags"),
    )
    return WorkbenchError([info])


def vela_refused(error: RuntimeError) -> WorkbenchError:
    """Return an error for a program that Vela refused as a whole, with what usually helps."""
    text = str(error).strip().splitlines()
    first = text[0] if text else type(error).__name__
    hint = "The log has the details."
    if "could not run on NPU" in str(error):
        hint = (
            "Vela has no way back to the CPU. Usual cause: a config the device cannot compute, "
            "such as 16-bit softmax on U55 and U65. Set the module to a8w8 or float; Run, "
            "Find what the compiler refuses (workbench blame) tells which it is."
        )
    info = ErrorInfo(
        message=f"The program could not be compiled: {first}"[:600],
        hint=hint,
        where=Place(kind="stage", id="lower"),
        details=str(error),
    )
    return WorkbenchError([info])


def loop_refused(error: BaseException) -> WorkbenchError | None:
    """Return an error for a loop that ExecuTorch's passes fail on; None for all else.

    Source: ExecuTorch 1.5.1, which folds quantization into a loop and then finds the value that
    goes in to be float and the one that comes back to be integer. It does after some operators
    before the loop (ReLU alone, sigmoid) and not after others (convolution, pool, abs).
    """
    said: BaseException | None = error
    while said is not None and "carried_inputs and body_output" not in str(said):
        said = said.__cause__
    if said is None:
        return None
    loop = re.search(r"%(while_loop\w*)", str(said))
    name = loop[1] if loop else "while_loop"
    info = ErrorInfo(
        message=f"ExecuTorch cannot lower {name}: with what stands before it, the loop would take "
        "float and give integers.",
        hint="A convolution with its ReLU, a pool or an absolute value right before the loop can "
        "be lowered; a ReLU or a sigmoid alone cannot.",
        where=Place(kind="node", id=name),
        details=str(said),
    )
    return WorkbenchError([info])


_KNOWN: dict[str, tuple[CpuCause, str]] = {
    "Node was not marked as quantized in the Arm backend.":
        ("float", "It was not quantized: no rule covers it, or the quantizer has no pattern for "
         "it."),
    "One or more inputs were not quantized.": ("beside", "One of its inputs is float."),
    "Not included in BaseTOSASupportList or a registered tosa_support_check":
        ("float", "The NPU has no such operator for float tensors, and this one was not "
         "quantized."),
    "Partition contained only ops which are removed in the TOSA lowering, leading to an empty "
    "partition.":
        ("empty", "It only changes the shape: alone, there is nothing for the NPU to compute."),
}  # fmt: skip
_CONVERSIONS: dict[CpuCause, str] = {
    "border": "Converts between float and integer at the border of the program; integer input "
    "and output avoids it.",
    "conversion": "Converts between integer and float for an operator on the CPU, and goes with "
    "it.",
}


# An operator as ExecuTorch prints it, with its signature.
_SCHEMA = re.compile(r"<EdgeOpOverload: ([\w.]+)>: schema = \S+\(.*\) -> [\w()\[\], ]+")
_REMEMBERED = (
    "Converts what the program keeps for its next run: caches stay real numbers, and the NPU "
    "computes with integers."
)


def in_words(
    reason: str, op: str, *, at_border: bool, remembered: bool = False
) -> tuple[CpuCause, str]:
    """Return the partitioner's reason for leaving an operator on the CPU: its cause, and in words.

    Args:
        reason: The partitioner's own; "" where it gave none.
        op: The operator.
        at_border: Whether it takes an input of the program or gives one of its outputs.
        remembered: Whether it reads or makes what the program keeps for its next run.
    """
    if KeptOff.__name__ in reason:
        return "rule", "A rule keeps it off the NPU."
    if "quantize_per" in op and remembered:
        return "conversion", _REMEMBERED
    if "quantize_per" in op and not reason.startswith("Op "):
        cause: CpuCause = "border" if at_border else "conversion"
        return cause, _CONVERSIONS[cause]
    if "fp dtype" in reason:
        return "beside", f"Its input is float, and the NPU takes integers only. ({reason})"
    if "unsupported dtype torch.int16" in reason:
        return "int16", f"This device computes it in 8 bit only, and it has 16. ({reason})"
    plain = _SCHEMA.sub(r"\1", reason)
    return _KNOWN.get(reason, ("other", plain or "The partitioner gave no reason."))
