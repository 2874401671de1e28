"""Nested tuples, lists and dicts are mapped in one walk, not taken apart and put together again."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from workbench.engine.acceleration.literal_lists import LITERALS, all_literal
from workbench.engine.acceleration.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Visit = Callable[[Any], Any]
    Rebuild = dict[type, Callable[[Visit, Any], Any]]


@contextmanager
def direct_trees() -> Iterator[None]:
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


def _spares_literals(kinds: Any) -> bool:
    """Tell whether ``kinds`` is a type, or a tuple of types, that no literal is an instance of."""
    each = kinds if isinstance(kinds, tuple) else (kinds,)
    return all(
        isinstance(kind, type) and not any(issubclass(plain, kind) for plain in LITERALS)
        for kind in each
    )


def _rebuilders() -> Rebuild:
    from torch.fx.immutable_collections import immutable_dict, immutable_list

    return {
        tuple: lambda walk, node: tuple([walk(child) for child in node]),
        list: lambda walk, node: [walk(child) for child in node],
        dict: lambda walk, node: {key: walk(child) for key, child in node.items()},
        immutable_list: lambda walk, node: immutable_list([walk(child) for child in node]),
        immutable_dict: lambda walk, node: immutable_dict(
            {key: walk(child) for key, child in node.items()}
        ),
    }
