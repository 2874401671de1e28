"""Another NPU or memory mode for a program lowered before, without lowering it again.

All that Vela reads is the TOSA flatbuffer of each delegate, and targets whose compile specs ask
for the same TOSA get the same flatbuffer. So Vela alone runs again, and its results take the
place of those in a copy of the edge program. Tests compare the .pte with that of a full lowering.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from executorch.backends.arm.ethosu.backend import EthosUBackend

from workbench.engine.fx import programs
from workbench.errors import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

# The entries of a compile spec that Vela reads; all others decide about the TOSA.
_FOR_VELA_ONLY = frozenset(("compile_flags", "target"))


def delegates(manager: Any) -> list[Any]:
    """Return the lowered modules of an edge manager's program, in the order of their calls."""
    return [*programs.delegates(manager.exported_program()).values()]


def has_same_tosa(manager: Any, spec: Any) -> bool:
    """Tell whether every delegate of ``manager`` would have the same TOSA under ``spec``.

    True only if the two compile specs differ in nothing but what Vela reads, so that nothing
    before Vela can tell them apart.
    """
    wanted = _decides_tosa(spec._to_list())
    return all(
        lowered.backend_id == EthosUBackend.__name__
        and lowered._named_data_store_output is None
        and _decides_tosa(lowered.compile_specs) == wanted
        for lowered in delegates(manager)
    )


def recompile_for_device(manager: Any, tosa: Sequence[bytes], make_spec: Callable[[], Any]) -> Any:
    """Return a copy of an edge manager whose delegates are compiled for another target.

    Args:
        manager: Edge manager from ``to_edge_transform_and_lower``, before ``to_executorch``.
        tosa: Flatbuffer of each delegate, as ``capture_tosa`` gave them.
        make_spec: Returns a new ``EthosUCompileSpec`` at every call; the toolchain changes the
            ones it is given.

    Returns:
        An edge manager as from a full lowering for that spec; ``manager`` stays as it is.

    Raises:
        WorkbenchError: The spec asks for other TOSA, the delegates do not match ``tosa``, or Vela
            refused the target.
    """
    if not has_same_tosa(manager, make_spec()):
        raise failure(
            "The program has to be lowered again for this target.",
            "Its operators are translated in another way there.",
            code="target-needs-lowering",
        )
    fresh = copy.deepcopy(manager)
    lowered_modules = delegates(fresh)
    if len(lowered_modules) != len(tosa):
        raise failure(
            f"The program has {len(lowered_modules)} delegates, but {len(tosa)} were captured.",
            "Lower the program again for this target.",
            code="target-needs-lowering",
        )
    for lowered, flatbuffer in zip(lowered_modules, tosa, strict=True):
        lowered._compile_specs = make_spec()._to_list()
        lowered._processed_bytes = _compiled(flatbuffer, make_spec())
    return fresh


def _compiled(flatbuffer: bytes, spec: Any) -> bytes:
    try:
        result = EthosUBackend._compile_tosa_flatbuffer(flatbuffer, spec)
    except SystemExit as error:
        raise failure(
            f"Vela refused the target {spec.target}.",
            "See the log for Vela's output.",
            details=f"Vela ended with code {error.code}.",
            code="vela-target-rejected",
        ) from error
    if result.external_blocks:
        raise failure(
            "Blocks outside the delegate need a full lowering.",
            "Lower the program again.",
            code="target-needs-lowering",
        )
    return bytes(result.processed_bytes)


def _decides_tosa(specs: Sequence[Any]) -> list[tuple[str, bytes]]:
    return sorted((s.key, bytes(s.value)) for s in specs if s.key not in _FOR_VELA_ONLY)
