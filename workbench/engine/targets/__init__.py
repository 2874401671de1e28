"""The torch side of every target. mypy compares each with the protocol that its stages use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.engine.ethos_u import toolchain as ethos_u
    from workbench.engine.targets.base import CompilingToolchain, DeviceToolchain, Toolchain
    from workbench.engine.targets.formats import toolchain as formats
    from workbench.engine.targets.nnpa import toolchain as nnpa

    _ETHOS_U: DeviceToolchain = ethos_u
    _NNPA: CompilingToolchain = nnpa
    _FORMATS: Toolchain = formats
