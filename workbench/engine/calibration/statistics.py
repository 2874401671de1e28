"""Keys of calibration statistics, made from everything that feeds an observer.

An observer's statistics follow from the data and from the float sub-graphs before it, so they are
kept under the Merkle hashes of those sub-graphs: operator, arguments, content of constants;
observers pass values on and do not count. An observer that several tensors share has seen them
in turn, so its key is their ordered tuple. Names of nodes are no part of a key: after an edit the
same name may stand for another tensor.
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torchao.quantization.pt2e import ObserverBase
from torchao.quantization.pt2e.observer import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    PerChannelMinMaxObserver,
)

from workbench.engine.calibration.quick_observers import weight_observers
from workbench.engine.fx.observers import FixedRangeObserver, PercentileObserver
from workbench.engine.fx.programs import raw_bytes
from workbench.engine.toolchain_patches.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from workbench.engine.runtime.context import StageContext

State = dict[str, torch.Tensor]

# The statistics depend on these settings of the observers, and on no others.
_KINDS: dict[type, tuple[str, tuple[str, ...]]] = {
    HistogramObserver: ("histogram", ("bins", "upsample_rate")),
    PercentileObserver: ("histogram", ("bins", "upsample_rate")),
    MinMaxObserver: ("minmax", ()),
    MovingAverageMinMaxObserver: ("moving average", ("averaging_constant",)),
    PerChannelMinMaxObserver: ("minmax per channel", ("ch_axis",)),
    FixedRangeObserver: ("fixed", ()),
}
_HASHES = "value hashes"
_FIELDS = ("histogram", "min_val", "max_val")


class _UnknownError(Exception):
    """A graph has a node whose value does not follow from its arguments."""


def statistics_keys(
    prepared: fx.GraphModule, hashes: Mapping[str, str] | None = None
) -> dict[str, str] | None:
    """Return the key of every observer whose statistics can be kept, by the observer's name.

    Observers of plain weights have none, nor have kinds not known here.

    Args:
        prepared: Module from ``prepare_pt2e``.
        hashes: What ``value_hashes`` returns for it, if known.

    Returns:
        None when the graph has control flow, changes tensors in place or draws random numbers:
        then nothing of it may be reused.
    """
    values = hashes or value_hashes(prepared)
    if values is None:
        return None
    seen: dict[int, list[str]] = {}
    names: dict[int, str] = {}
    for node in prepared.graph.nodes:
        if node.op == "call_module":
            observer = prepared.get_submodule(str(node.target))
            seen.setdefault(id(observer), []).append(values[node.name])
            names.setdefault(id(observer), str(node.target))
    weights = {id(watcher) for watcher in weight_observers(prepared).values()}
    keys = {}
    for identity, tensors in seen.items():
        observer = prepared.get_submodule(names[identity])
        if identity not in weights and type(observer) in _KINDS:
            keys[names[identity]] = _key(observer, tensors)
    return keys


def hashes_of_prepared(context: StageContext, prepared: fx.GraphModule) -> dict[str, str] | None:
    """Return ``value_hashes`` of the project's prepared program or of its calibrated copy, made once."""
    key = context.plan.key("prepare")
    known: dict[str, str] | None = context.store.get(_HASHES, key)
    if known is None and (known := value_hashes(prepared)) is not None:
        context.store.keep(_HASHES, key, known)
    return known


def value_hashes(prepared: fx.GraphModule) -> dict[str, str] | None:
    """Return the Merkle hash of every value's float sub-graph, by the node's name.

    Returns:
        None when nothing of the graph may be reused, as for ``statistics_keys``.
    """
    hashes: dict[fx.Node, str] = {}
    try:
        for node in prepared.graph.nodes:
            if node.op != "output":
                hashes[node] = _hash_of(node, prepared, hashes)
    except _UnknownError:
        return None
    return {node.name: digest for node, digest in hashes.items()}


def replay(prepared: fx.GraphModule, known: Mapping[str, State], keys: Mapping[str, str]) -> None:
    """Give observers the statistics they would have after a pass; observe weights.

    Args:
        prepared: Its observers are changed in place.
        known: Statistics by key.
        keys: What ``statistics_keys`` returned.
    """
    for name, key in keys.items():
        if key in known:
            observer = prepared.get_submodule(name)
            for field, value in _seen_fields(observer, known[key]).items():
                observer._buffers[field] = value.clone()  # noqa: SLF001 - sizes may change
    constants = {node: node for node in prepared.graph.nodes if node.op == "get_attr"}
    weights = weight_observers(prepared)
    for node in prepared.graph.nodes:
        if node.op == "call_module" and str(node.target) in weights:
            source = constants[node.all_input_nodes[0]]
            weights[str(node.target)](_constant(prepared, str(source.target)))


def statistics(prepared: fx.GraphModule, name: str) -> State:
    """Return what an observer has seen."""
    observer = prepared.get_submodule(name)
    kept = _seen_fields(observer, observer._buffers)  # noqa: SLF001 - no public name
    return {field: value.detach().clone() for field, value in kept.items()}


def unanswered(prepared: fx.GraphModule, keys: Mapping[str, str], known: Collection[str]) -> bool:
    """Return whether an observer is left that must still see data."""
    weights = {id(observer) for observer in weight_observers(prepared).values()}
    answered = {id(prepared.get_submodule(n)) for n, key in keys.items() if key in known}
    for module in prepared.modules():
        is_observer = isinstance(module, ObserverBase) and hasattr(module, "min_val")
        if is_observer and id(module) not in weights | answered:
            return True
    return False


@contextmanager
def only_missing(prepared: fx.GraphModule, keys: Mapping[str, str], known: Collection[str]) -> Iterator[None]:
    """Let observers whose statistics are known pass values on while the block runs."""
    with ExitStack() as stack:
        for name, key in keys.items():
            if key in known:
                observer = prepared.get_submodule(name)
                stack.enter_context(replaced(observer, "forward", _pass_on))
        yield


def _seen_fields(observer: Any, fields: Mapping[str, Any]) -> State:
    """Return those fields that are seen; a fixed range was given."""
    if isinstance(observer, FixedRangeObserver):
        return {}
    return {name: fields[name] for name in _FIELDS if name in fields}


def _pass_on(x: torch.Tensor) -> torch.Tensor:
    return x


def _key(observer: Any, tensors: list[str]) -> str:
    kind, settings = _KINDS[type(observer)]
    parts = [kind, *(repr(getattr(observer, name)) for name in settings), *tensors]
    # Such an observer sees less, and sees it otherwise in more than 8 bits.
    if hasattr(observer, "observed_below"):
        parts.append(repr((observer.observed_below, observer.dtype)))
    return _digest(*parts)


def _hash_of(node: fx.Node, prepared: fx.GraphModule, hashes: dict[fx.Node, str]) -> str:
    match node.op:
        case "placeholder":
            value = node.meta.get("val")
            index = [n for n in prepared.graph.nodes if n.op == "placeholder"].index(node)
            shape = tuple(getattr(value, "shape", ()))
            return _digest("input", str(index), str(shape), str(getattr(value, "dtype", "")))
        case "get_attr":
            return _content(_constant(prepared, str(node.target)))
        case "call_module":
            observer = prepared.get_submodule(str(node.target))
            if not isinstance(observer, ObserverBase):
                raise _UnknownError
            return hashes[node.all_input_nodes[0]]
        case "call_function":
            _refuse_unsteady(node)
            text = fx.map_arg((node.args, node.kwargs), lambda source: _Hashed(hashes[source]))
            return _digest("call", str(node.target), repr(text))
    raise _UnknownError


class _Hashed:
    """Stands for a node among arguments; written as the node's hash."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return f"<{self._text}>"


def _refuse_unsteady(node: fx.Node) -> None:
    """Raise for operators that change a tensor or give other values each time."""
    operator = node.target
    if not isinstance(operator, torch._ops.OpOverload):  # noqa: SLF001 - its only name
        if getattr(operator, "__module__", "") in {"_operator", "operator"}:
            return
        raise _UnknownError
    is_idle = "dropout" in operator.name() and node.args[-1] is False
    trains = "batch_norm" in operator.name() and True in node.args[5:6]
    is_random = torch.Tag.nondeterministic_seeded in operator.tags and not is_idle
    if operator._schema.is_mutable or is_random or trains:  # noqa: SLF001
        raise _UnknownError


def _constant(module: fx.GraphModule, name: str) -> torch.Tensor:
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part)
    if not isinstance(value, torch.Tensor):
        raise _UnknownError
    return value


def _content(tensor: torch.Tensor) -> str:
    digest = hashlib.sha256(f"constant {tensor.dtype} {tuple(tensor.shape)}".encode())
    digest.update(raw_bytes(tensor))
    return digest.hexdigest()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
