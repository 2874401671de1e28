"""Compile specs from the project's target choice. Always new, since the pipeline modifies them."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch.backends.arm import ethosu
from executorch.backends.arm.common import pipeline_config
from executorch.backends.arm.common.pipeline_config import (
    ArmPassPipelineConfig,
    LeakyReLULoweringConfig,
    QuantizeInfConfig,
    SoftmaxDecompositionConfig,
)
from executorch.backends.arm.ethosu import EthosUCompileSpec

from workbench.errors import Place, WorkbenchError, failure
from workbench.targets import target_of
from workbench.targets.ethos_u.checks import flags_of
from workbench.targets.ethos_u.devices import EXTERNAL_WEIGHTS
from workbench.targets.ethos_u.options import changed_passes
from workbench.targets.ethos_u.vela_ini import OPTION, OWN_INI, ini_of, section_for_vela, text_for_vela
from workbench.toolchains.versions import tool_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from workbench.project.model import TargetChoice


# The file name, without .ptd, of separate weights.
WEIGHTS = "weights"


def compile_spec(choice: TargetChoice) -> EthosUCompileSpec:
    """Return a new compile spec with explicit system configuration and memory mode.

    Raises:
        WorkbenchError: The release of ExecuTorch does not have what an option asks for, or a flag of
            Vela is refused.
    """
    complete = target_of(choice.id).complete(choice)
    options: dict[str, Any] = dict(complete.options)
    name = str(options["system_config"])
    spec = EthosUCompileSpec(
        complete.id,
        system_config=section_for_vela(name, complete.id) if options.get(OPTION) else name,
        memory_mode=options["memory_mode"],
        extra_flags=flags_of(options) or None,
        config_ini=OWN_INI if options.get(OPTION) else None,
        **(_separate_weights() if options.get(EXTERNAL_WEIGHTS) else {}),
    )
    if passes := changed_passes(options):
        spec.set_pass_pipeline_config(_transformations(spec, passes))
    return spec


def _separate_weights() -> dict[str, Any]:
    """Return the argument that puts the weights into a file of their own.

    Raises:
        WorkbenchError: The release of ExecuTorch has none.
    """
    placements = getattr(ethosu, "VelaExternalBlockPlacements", None)
    if placements is None:
        raise _not_in_release("Separate weights files", EXTERNAL_WEIGHTS)
    return {"external_block_placements": placements(weight_data=WEIGHTS)}


def _not_in_release(what: str, option: str) -> WorkbenchError:
    return failure(
        f"{what} are not in ExecuTorch {tool_version('executorch')}.",
        "Restore the default of the option, or use a toolchain with ExecuTorch 1.5.",
        Place(kind="option", id=f"target.options.{option}"),
        code="toolchain-lacks-option",
    )


def _transformations(spec: EthosUCompileSpec, passes: Mapping[str, Any]) -> ArmPassPipelineConfig:
    """Return the transformations before quantization and compilation."""
    usual = ArmPassPipelineConfig.from_dict(spec._get_pass_pipeline_config().to_dict())  # noqa: SLF001
    if "softmax" in passes:
        usual.softmax = SoftmaxDecompositionConfig[passes["softmax"]]
    if "leaky_relu" in passes:
        usual.leaky_relu = LeakyReLULoweringConfig[passes["leaky_relu"]]
    if "sdpa_guard" in passes:
        policies = getattr(pipeline_config, "SDPASafeSoftmaxGuardPolicy", None)
        if policies is None:
            raise _not_in_release("Policies for the guard of attention", "sdpa_guard")
        usual.sdpa_safe_softmax_guard = policies[passes["sdpa_guard"]]
    usual.quantize_inf = QuantizeInfConfig(
        float(passes.get("negative_infinity", usual.quantize_inf.neg_inf)),
        float(passes.get("positive_infinity", usual.quantize_inf.pos_inf)),
    )
    return usual


@contextlib.contextmanager
def own_ini_at_hand(choice: TargetChoice, folder: Path) -> Iterator[None]:
    """Make the choice's own .ini available to Vela under its name in compile specs.

    The working directory changes inside the block. The compiled program contains Vela's flags, so
    the name must be independent of this machine, and Vela splits its arguments at spaces.

    Args:
        choice: The target choice, possibly with an own .ini.
        folder: Base of the project's relative paths.

    Raises:
        WorkbenchError: the .ini is missing or invalid.
    """
    ini = ini_of(choice, folder)
    if ini is None:
        yield
        return
    with tempfile.TemporaryDirectory() as place:
        text = text_for_vela(ini, str(choice.options["system_config"]), choice.id)
        (Path(place) / OWN_INI).write_text(text, encoding="utf-8")
        with contextlib.chdir(place):
            yield
