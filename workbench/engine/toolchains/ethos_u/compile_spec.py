"""A compile spec from the project's choice. Always a new one: the pipeline changes what it gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from executorch.backends.arm.ethosu import EthosUCompileSpec

from workbench.engine.compilers.vela import flags as vela_flags
from workbench.targets import target_of

if TYPE_CHECKING:
    from workbench.project.model import TargetChoice


def compile_spec(choice: TargetChoice) -> EthosUCompileSpec:
    """Return a new compile spec; system configuration and memory mode are always explicit."""
    complete = target_of(choice.id).complete(choice)
    options: dict[str, Any] = dict(complete.options)
    return EthosUCompileSpec(
        complete.id,
        system_config=options["system_config"],
        memory_mode=options["memory_mode"],
        extra_flags=vela_flags(options) or None,
    )
