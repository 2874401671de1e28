"""Graphs of ``torch.fx`` change in less time: code, arguments, provenance and containers.

- ``lazy_recompile``: a graph module writes its Python when it is read or run.
- ``literal_lists``: long lists of numbers, such as multipliers by channel, enter a graph whole.
- ``shared_provenance``: the history of a node is shared with the nodes made from it.
- ``pytree_map``: tuples, lists and dicts are mapped in one walk.
"""

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

from __future__ import annotations

import copy
import weakref
from contextlib import ExitStack, contextmanager
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from workbench.engine.toolchain_patches.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Visit = Callable[[Any], Any]
    Rebuild = dict[type, Callable[[Visit, Any], Any]]

# What stock ``recompile`` leaves on the instance or on its class, and what reads it.
_ON_INSTANCE = ("_code", "_lineno_map", "_prologue_start")
_ON_CLASS = ("forward", "__reduce__", "__reduce_package__")

# What no tracer changes.
LITERALS: frozenset[type] = frozenset((int, float, bool, str, type(None)))


class _Pending:
    """Stands for one attribute of a module until it is read; then all of them are made."""

    def __init__(self, name: str, module: Any, recompile: Callable[[Any], Any]) -> None:
        self.name = name
        self.module = weakref.ref(module)
        self.recompile = recompile

    def __get__(self, instance: Any, owner: type) -> Any:
        module = self.module()
        if module is None:
            raise AttributeError(self.name)
        _settle(module)
        self.recompile(module)
        return getattr(owner if instance is None else instance, self.name)


class _PendingCode:
    """Stands for the ``PythonCode`` that ``recompile`` returns; hardly anybody reads it."""

    def __init__(self, module: Any, recompile: Callable[[Any], Any]) -> None:
        self._module = module
        self._recompile = recompile

    def __getattr__(self, name: str) -> Any:
        _settle(self._module)
        return getattr(self._recompile(self._module), name)


def _settle(module: Any) -> None:
    """Take the stand-ins off ``module``; every graph module has a class of its own."""
    cls = type(module)
    for name in (*_ON_INSTANCE, *_ON_CLASS):
        if isinstance(vars(cls).get(name), _Pending):
            delattr(cls, name)


@contextmanager
def lazy_recompile() -> Iterator[None]:
    """Let ``GraphModule.recompile`` only note that it is due.

    A module that is still due when the block ends writes its code on first use all the same.
    """
    from torch.fx import _lazy_graph_module, graph, graph_module
    from torch.fx.experimental import _config

    stock = graph_module.GraphModule.recompile

    def recompile(self: Any) -> Any:
        own_way = isinstance(self, _lazy_graph_module._LazyGraphModule)
        if own_way or _config.enrich_profiler_metadata:
            return stock(self)
        codegen = self._graph._codegen
        if isinstance(codegen, graph._PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        cls = type(self)
        if not isinstance(vars(cls).get("forward"), _Pending):
            for name in (*_ON_INSTANCE, *_ON_CLASS):
                self.__dict__.pop(name, None)
                setattr(cls, name, _Pending(name, self, stock))
        self._recompile_submodules()
        return _PendingCode(self, stock)

    with replaced(graph_module.GraphModule, "recompile", recompile):
        yield


def all_literal(values: Any) -> bool:
    """Tell whether every element is a plain number, a text or None: no tracer changes those."""
    return LITERALS.issuperset(map(type, values))


@contextmanager
def literal_lists() -> Iterator[None]:
    """Spare lists of literals the visit of each element when they become arguments of a node."""
    from torch.fx import graph, proxy
    from torch.fx.immutable_collections import immutable_list

    table = proxy._create_arg_bypass
    stock = dict(table)
    for kind, kind_made in ((tuple, tuple), (list, list), (immutable_list, list)):
        table[kind] = _whole(kind_made, stock[kind])
    try:
        with replaced(graph, "pytree", _TreesOfArguments(graph.pytree)):
            yield
    finally:
        table.update(stock)


class _TreesOfArguments:
    """The functions on trees for ``torch.fx.graph``, which looks for raw symbols in arguments.

    It walks all arguments of a node for that (torch 2.13 ``fx/graph.py``, ``create_node``, the one
    use of ``tree_iter`` there); plain numbers, texts and nodes are no symbols.
    """

    def __init__(self, trees: Any) -> None:
        from torch.fx import Node
        from torch.fx.immutable_collections import immutable_dict, immutable_list

        self._trees = trees
        self._lists = frozenset((tuple, list, immutable_list))
        self._dicts = frozenset((dict, immutable_dict))
        self._spared = LITERALS.union((Node,))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trees, name)

    def tree_iter(self, tree: Any) -> Iterator[Any]:
        """Yield the leaves that are not literals or nodes, in the order of the tree."""
        pending = [tree]
        while pending:
            value = pending.pop()
            kind = type(value)
            if kind in self._lists:
                if not self._spared.issuperset(map(type, value)):
                    pending.extend(reversed(value))
            elif kind in self._dicts:
                pending.extend(reversed(value.values()))
            elif kind not in self._spared:
                yield from self._trees.tree_iter(value)


def _whole(kind: type, original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def create_arg(self: Any, values: Any) -> Any:
        return kind(values) if all_literal(values) else original(self, values)

    return create_arg


@contextmanager
def shared_provenance() -> Iterator[None]:
    """Let ``NodeSource`` copy the list of its ancestors, not the ancestors themselves."""
    from torch.fx import traceback

    shallow = SimpleNamespace(copy=copy.copy, deepcopy=copy.copy)
    with replaced(traceback, "copy", shallow):
        yield


@contextmanager
def pytree_map() -> Iterator[None]:
    """Map plain containers directly; every other registered container goes the stock way."""
    from torch.utils import _pytree

    rebuild = _rebuilders()
    with ExitStack() as stack:
        for make in (_tree_map, _tree_map_only, _tree_leaves):
            function = make(_pytree, rebuild)
            stack.enter_context(replaced(_pytree, function.__name__, function))
        yield


def _tree_map(pytree: Any, rebuild: Rebuild) -> Callable[..., Any]:
    stock, registered = pytree.tree_map, pytree.SUPPORTED_NODES

    def tree_map(func: Visit, tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
        def walk(node: Any) -> Any:
            kind = type(node)
            if kind in rebuild:
                return rebuild[kind](walk, node)
            if kind in registered or isinstance(node, tuple):
                return stock(func, node)
            return func(node)

        if rests or is_leaf is not None:
            return stock(func, tree, *rests, is_leaf=is_leaf)
        return walk(tree)

    return tree_map


def _tree_map_only(pytree: Any, rebuild: Rebuild) -> Callable[..., Any]:
    stock, registered = pytree.tree_map_only, pytree.SUPPORTED_NODES

    def tree_map_only(kinds: Any, func: Visit, tree: Any, is_leaf: Any = None) -> Any:
        def walk(node: Any) -> Any:
            kind = type(node)
            if kind in LITERALS:
                return node
            if kind in rebuild:
                whole = kind in (tuple, list) and all_literal(node)
                return kind(node) if whole else rebuild[kind](walk, node)
            if kind in registered or isinstance(node, tuple):
                return stock(kinds, func, node)
            return func(node) if isinstance(node, kinds) else node

        if is_leaf is not None or not _spares_literals(kinds):
            return stock(kinds, func, tree, is_leaf)
        return walk(tree)

    return tree_map_only


def _tree_leaves(pytree: Any, rebuild: Rebuild) -> Callable[..., Any]:
    stock, registered = pytree.tree_leaves, pytree.SUPPORTED_NODES

    def tree_leaves(tree: Any, is_leaf: Any = None) -> list[Any]:
        leaves: list[Any] = []

        def walk(node: Any) -> None:
            kind = type(node)
            if kind in rebuild:
                for child in node.values() if isinstance(node, dict) else node:
                    walk(child)
            elif kind in registered or isinstance(node, tuple):
                leaves.extend(stock(node))
            else:
                leaves.append(node)

        if is_leaf is not None:
            return list(stock(tree, is_leaf))
        walk(tree)
        return leaves

    return tree_leaves


@cache
def _spares_literals(kinds: Any) -> bool:
    """Tell whether ``kinds`` is a type, or a tuple of types, that no literal is an instance of."""
    allowed = kinds if isinstance(kinds, tuple) else (kinds,)
    return all(
        isinstance(kind, type) and not any(issubclass(plain, kind) for plain in LITERALS) for kind in allowed
    )


def _rebuilders() -> Rebuild:
    from torch.fx.immutable_collections import immutable_dict, immutable_list

    return {
        tuple: lambda walk, node: tuple([walk(child) for child in node]),
        list: lambda walk, node: [walk(child) for child in node],
        dict: lambda walk, node: {key: walk(child) for key, child in node.items()},
        immutable_list: lambda walk, node: immutable_list([walk(child) for child in node]),
        immutable_dict: lambda walk, node: immutable_dict({key: walk(child) for key, child in node.items()}),
    }
