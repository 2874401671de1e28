"""A graph that a verifier has passed is not verified again while it stays as it is.

``to_edge_transform_and_lower`` verifies the same program up to five times in a row: each exported
program checks its graph when it is made, and so does every pass manager before and after its
passes, also where these have changed nothing. A verifier changes nothing itself. What it says
depends on its settings, on the nodes of the graph, and on their arguments and values.

The check is left out only if:

- The last checks of an edge program were of this graph, and one passed with the same settings.
- No node, argument or value was exchanged since.
- The graph is plain: no submodules, parameters, buffers or attributes.
"""

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

from __future__ import annotations

import operator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from workbench.engine.toolchain_patches.patching import replaced, sources_match

if TYPE_CHECKING:
    from collections.abc import Iterator

_EDGE = "executorch.exir.verification.verifier"
PINS = (
    ("torch._export.verifier:Verifier._check_graph_module", "b46b7f8b06e3595d"),
    ("torch._export.verifier:_check_val", "8715e7053032108a"),
    ("torch.fx.graph:Graph.lint", "d32f632006015c7a"),
    (f"{_EDGE}:EXIREdgeDialectVerifier", "b1fe0df6a3d2148b"),
    (f"{_EDGE}:_check_tensors_are_contiguous", "219b4e71388ba33f"),
    (f"{_EDGE}:_check_tensor_args_matching_op_allowed_dtype", "c53c527ef89462af"),
    ("executorch.exir.verification.arg_validator:EdgeOpArgValidator", "9f2fac5562736c8d"),
)
# What a verifier of edge programs reads of itself.
_LISTS = ("_core_aten_ops_exception_list", "_preserve_ops")
_SETTINGS = ("enable", "use_dim_order")
_MADE_OF_THEM = {"aten_op_verifier", "check_valid_aten_op", "check_valid_op"}


@contextmanager
def verifier_cache() -> Iterator[None]:
    """Leave out checks of the edge program that was checked last while the block runs."""
    from torch._export.verifier import Verifier

    if not sources_match("The memory of verified graphs", PINS):
        yield
        return
    stock = Verifier._check_graph_module
    # The last graph that passed, and the settings that it passed with. It is one alone, because
    # its state holds the whole graph.
    state: tuple[Any, ...] = ()
    passed: list[tuple[Any, ...]] = []

    def check(self: Any, module: Any) -> None:
        nonlocal state
        settings, now = _settings(self), _state(module)
        if not now or not _is_same(now, state):
            state = ()
            passed.clear()
        if any(_is_same(settings, one) for one in passed):
            return
        stock(self, module)
        if settings and now:
            state = now
            passed.append(settings)

    with replaced(Verifier, "_check_graph_module", check):
        yield


def _is_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(one) == len(other) and all(map(operator.is_, one, other))


def _settings(verifier: Any) -> tuple[Any, ...]:
    """Return all that a check reads of its verifier, to be compared by identity; () if unknown."""
    own = vars(verifier)
    if verifier.dialect != "EDGE" or own.keys() != {*_SETTINGS, *_LISTS, *_MADE_OF_THEM}:
        return ()
    settings = [type(verifier), *(own[name] for name in _SETTINGS)]
    for name in _LISTS:
        settings += (name, *own[name])
    return tuple(settings)


def _state(module: Any) -> tuple[Any, ...]:
    """Return all that a check reads of a graph, to be compared by identity; () if it has more."""
    if module._modules or module._parameters or module._buffers:
        return ()
    state = [module, module.graph]
    for node in module.graph.nodes:
        if node.op not in ("placeholder", "call_function", "output"):
            return ()
        state += (node, node.name, node.target, node.args, node.kwargs, node.meta.get("val"))
    return tuple(state)
