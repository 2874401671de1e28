"""Kernels that a program calls on the CPU and ExecuTorch does not have for microcontrollers."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.text import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.results import CpuNode

# Entries of ExecuTorch's list of portable kernels: of aten's operators, and of its own ones.
_ENTRY = re.compile(r"^- (?:op|func): ([\w.:]+)", re.MULTILINE)
_ATEN = "aten::"
# Numbers, which the runtime itself computes.
_BUILT_IN = (f"{_ATEN}sym_", f"{_ATEN}_local_scalar_dense")


def missing_kernels(kernels: Sequence[str], on_cpu: Sequence[CpuNode]) -> Iterator[str]:
    """Yield a warning for the operators that no portable kernel computes.

    Args:
        kernels: Names of the kernels that a program calls, e.g. ``aten::sort.values``.
        on_cpu: The operators on the CPU.
    """
    known = _portable()
    missing = [
        name
        for name in kernels
        if name.startswith(_ATEN) and not name.startswith(_BUILT_IN) and name not in known
    ]
    if not missing or not known:
        return
    operators = {name: [n.node for n in on_cpu if _operator(n.op) == _operator(name)] for name in missing}
    named = listed([f"{name} ({', '.join(nodes)})" if nodes else name for name, nodes in operators.items()])
    yield (
        f"ExecuTorch has no portable kernel for {named}: the program does not load on a device whose "
        "firmware has none of its own. Write it with other operators, or so that the NPU takes it."
    )


def _operator(name: str) -> str:
    """Return an operator's name without namespace and overload."""
    return re.split(r"::|\.", name)[1]


@cache
def _portable() -> frozenset[str]:
    """Return the names of the portable kernels; nothing where the package has no list of them."""
    package = importlib.util.find_spec("executorch.kernels.portable")
    for folder in (package.submodule_search_locations or ()) if package is not None else ():
        path = Path(folder) / "functions.yaml"
        if path.is_file():
            names = _ENTRY.findall(path.read_text(encoding="utf-8"))
            return frozenset(name if "::" in name else f"{_ATEN}{name}" for name in names)
    return frozenset()
