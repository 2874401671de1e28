"""Build settings as ready lines: pools for CMake and Zephyr, kernels, CMSIS-Pack components."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.handover.facts import Facts

# Source: ExecuTorch 1.5.1, examples/arm/executor_runner/CMakeLists.txt (pools of the Arm runner)
# and zephyr/Kconfig (pools of the Zephyr module, which takes the cache as a definition); the NPU's
# own line as in Arm's learning path for Corstone-320; the list of kernels is of selective build.
_METHOD = "ET_ARM_BAREMETAL_METHOD_ALLOCATOR_POOL_SIZE"
_SCRATCH = "ET_ARM_BAREMETAL_SCRATCH_TEMP_ALLOCATOR_POOL_SIZE"
_FAST = "ET_ARM_BAREMETAL_FAST_SCRATCH_TEMP_ALLOCATOR_POOL_SIZE"
_KERNELS = "EXECUTORCH_SELECT_OPS_LIST"
# Source: ExecuTorch 1.5.1, tools/cmake/preset; the presets for bare metal and Zephyr switch it on.
_CORTEX_M = "EXECUTORCH_BUILD_CORTEX_M"
# Source: ExecuTorch 1.5.1, backends/arm/cmsis_pack: one component for each op_*.cpp.
_BASE = (
    "ARM::CMSIS:CORE",
    "Machine Learning:ExecuTorch:Runtime",
    "Machine Learning:ExecuTorch:Kernel Utils",
    "Machine Learning:ExecuTorch:Kernel Registration",
)
# Source: the same, test/all_ops/gen_cproject.py: what the operators of Cortex-M stand on.
_CMSIS_NN = "ARM::CMSIS:NN Lib"
_CATEGORIES = {"aten": "Portable", "quantized_decomposed": "Quantized", "cortex_m": "Cortex-M"}


def _has_cortex_m(facts: Facts) -> bool:
    return any(kernel.startswith("cortex_m::") for kernel in facts.kernels)


def cmake(facts: Facts) -> str:
    """Return settings for the CMake build of ExecuTorch's Arm runner; sizes in bytes."""
    lines = [f"# {facts.stem} for {facts.where}: pools and kernels, computed from the program."]
    lines += [f'set({name} {size} CACHE STRING "{why}" FORCE)' for name, size, why in _pools(facts)]
    kernels = ",".join(facts.kernels)
    lines.append(f'set({_KERNELS} "{kernels}" CACHE STRING "all that it calls on the CPU" FORCE)')
    if _has_cortex_m(facts):
        lines.append(f'set({_CORTEX_M} ON CACHE BOOL "the kernels cortex_m::" FORCE)')
    return "\n".join(lines) + "\n"


def _pools(facts: Facts) -> Iterator[tuple[str, int, str]]:
    yield _METHOD, facts.needs.method_pool_bytes, "planned buffers and loaded structures"
    if facts.delegates:
        yield _SCRATCH, facts.needs.scratch_pool_bytes, "scratch of the largest delegate"
    if facts.use.cache_bytes:
        yield _FAST, facts.use.cache_bytes, "the cache that the memory mode sets"


def kconfig(facts: Facts) -> str:
    """Return settings for a Zephyr application; sizes in bytes."""
    lines = [
        f"# {facts.stem} for {facts.where}: pools, computed from the program.",
        "CONFIG_EXECUTORCH=y",
        f"CONFIG_EXECUTORCH_METHOD_ALLOCATOR_POOL_SIZE={facts.needs.method_pool_bytes}",
    ]
    if facts.delegates:
        lines += [
            "CONFIG_ETHOS_U=y",
            f"CONFIG_{facts.choice.id.replace('-', '_').upper()}=y",
            f"CONFIG_EXECUTORCH_TEMP_ALLOCATOR_POOL_SIZE={facts.needs.scratch_pool_bytes}",
        ]
    if facts.use.cache_bytes:
        lines.append(
            f"# In CMakeLists.txt: add_compile_definitions({_FAST}={facts.use.cache_bytes})"
        )
    return "\n".join(lines) + "\n"


def components(facts: Facts) -> list[str]:
    """Return the components of the CMSIS-Pack PyTorch::ExecuTorch that the program needs.

    The operators' are called after their source files, which are found here by the operator's
    name; kernels of other libraries than the pack's have none.
    """
    found = list(_BASE)
    if _has_cortex_m(facts):
        found.append(_CMSIS_NN)
    if facts.delegates:
        family = facts.choice.id.split("-")[1].upper()
        found += [
            "Machine Learning:ExecuTorch:Backend EthosU",
            f"Machine Learning:NPU Support:Ethos-U Driver&Generic {family}",
        ]
    return found + list(dict.fromkeys(filter(None, map(_component, facts.kernels))))


def _component(kernel: str) -> str:
    space, _, operator = kernel.partition("::")
    if space not in _CATEGORIES:
        return ""
    name = operator.split(".")[0].lstrip("_")
    # One source holds all kinds of these two.
    for several in ("dequantize", "quantize"):
        if space == "quantized_decomposed" and name.startswith(f"{several}_per_"):
            name = several
    return f"Machine Learning:ExecuTorch Operators:{_CATEGORIES[space]} {name}"


def cproject(facts: Facts) -> str:
    """Return the part of a CMSIS csolution project that names pack and components."""
    packs = ["PyTorch::ExecuTorch", *(["ARM::CMSIS-NN"] if _has_cortex_m(facts) else [])]
    lines = ["project:", "  packs:", *(f"    - pack: {pack}" for pack in packs), "  components:"]
    lines += [f"    - component: {each}" for each in components(facts)]
    return "\n".join(lines) + "\n"
