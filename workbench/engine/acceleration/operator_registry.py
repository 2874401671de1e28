"""Registries of torch's operators are walked and written in less time."""

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from workbench.engine.toolchain_patches.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def known_composites() -> Iterator[None]:
    """Walk the composite operators again only when one has been registered since.

    That is asked once for all namespaces, whose operators are then collected one after the other:
    whether one is composite is asked before its schema is read.
    """
    import torch
    from torch._export import utils
    from torch.export import decomp_utils, exported_program

    stock, stock_collect = utils._materialize_cpp_cia_ops, utils._collect_all_valid_cia_ops
    walked: list[str] = []
    collecting = [False]

    def collect() -> Any:
        materialize()
        collecting[0] = True
        try:
            return stock_collect()
        finally:
            collecting[0] = False

    def materialize() -> None:
        if collecting[0]:
            return
        registered = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        if registered != walked:
            stock()
            walked[:] = registered

    def is_preservable(op: Any) -> bool:
        known = torch._C._dispatch_has_kernel(op.name())
        return known and utils._is_cia_op(op) and utils._check_valid_to_preserve(op)

    with (
        replaced(utils, "_is_preservable_cia_op", is_preservable),
        replaced(utils, "_materialize_cpp_cia_ops", materialize),
        replaced(utils, "_collect_all_valid_cia_ops", collect),
        replaced(decomp_utils, "_collect_all_valid_cia_ops", collect),
        replaced(exported_program, "_collect_all_valid_cia_ops", collect),
    ):
        yield


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Keep kernels of operators without the annotations of stock ``py_impl``.

    These are evaluated for each of the 10 000 kernels that a decomposition keeps for a while.
    """
    import torch
    from torch._ops import OpOverload

    stock, kinds = OpOverload.py_impl, torch._C.DispatchKey

    def py_impl(self: Any, key: Any) -> Any:
        kernels = self.py_kernels
        if type(key) is not kinds or key == kinds.Python or key in kernels:
            return stock(self, key)

        def keep(kernel: Any) -> Any:
            kernels[key] = kernel
            self._dispatch_cache.clear()
            return kernel

        return keep

    with replaced(OpOverload, "py_impl", py_impl):
        yield
