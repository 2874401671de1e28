"""The kernels that the project chooses for what the NPU leaves on the CPU."""

from __future__ import annotations

from typing import Any

from workbench.engine.cpu_kernels import with_border_kernels, with_cmsis_nn
from workbench.errors import Place, failure
from workbench.targets.ethos_u_extras import CMSIS_NN_CPUS, CPU_KERNELS


def with_kernels(manager: Any, kernels: str) -> Any:
    """Return the edge program with the kernels that are wanted; ``kernels`` is the option's value.

    Raises:
        WorkbenchError: CMSIS-NN cannot compute what is left for it.
    """
    if kernels not in CMSIS_NN_CPUS:
        return with_border_kernels(manager) if kernels else manager
    try:
        return with_cmsis_nn(manager, CMSIS_NN_CPUS[kernels])
    except Exception as error:  # what a pass raises comes wrapped as nothing but this
        said = str(error.__cause__ or error).splitlines() or [type(error).__name__]
        raise failure(
            f"CMSIS-NN cannot compute what the NPU leaves: {said[0]}",
            "Choose other kernels for the CPU (Options\u2026, On the CPU).",
            Place(kind="option", id=f"target.options.{CPU_KERNELS}"),
        ) from error
