"""The stages, one module each. mypy compares each target with the protocol that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.engine.ethos_u import toolchain as ethos_u
    from workbench.engine.formats import toolchain as formats
    from workbench.engine.nnpa import toolchain as nnpa
    from workbench.engine.targets import CompilingToolchain, DeviceToolchain, Toolchain

    _ETHOS_U: DeviceToolchain = ethos_u
    _NNPA: CompilingToolchain = nnpa
    _FORMATS: Toolchain = formats
