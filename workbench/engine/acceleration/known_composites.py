"""The list of composite operators is walked once, not once for each namespace of operators."""

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from workbench.engine.acceleration.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def known_composites() -> Iterator[None]:
    """Walk the composite operators again only when one has been registered since."""
    import torch
    from torch._export import utils

    stock = utils._materialize_cpp_cia_ops
    walked: list[str] = []

    def materialize() -> None:
        registered = torch._C._dispatch_get_registrations_for_dispatch_key(
            "CompositeImplicitAutograd"
        )
        if registered != walked:
            stock()
            walked[:] = registered

    with replaced(utils, "_materialize_cpp_cia_ops", materialize):
        yield
