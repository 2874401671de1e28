"""The maps of a program's signature are made again only after an entry of it changed."""

from __future__ import annotations

import operator
import weakref
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from workbench.engine.toolchain_patches.patching import replaced, sources_match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# By property: the list of entries it reads, and the digest of its source. Each gives a read-only
# mapping. The others together take a tenth of the time of these two.
PROPERTIES = {
    "inputs_to_parameters": ("input_specs", "1d8ea77f4235615e"),
    "inputs_to_buffers": ("input_specs", "3f2d52b5ad042d51"),
}
ENTRIES = (
    "InputSpec",
    "OutputSpec",
    "TensorArgument",
    "ConstantArgument",
    "SymIntArgument",
    "SymFloatArgument",
    "SymBoolArgument",
    "CustomObjArgument",
    "TokenArgument",
)
_SIGNATURE = "torch.export.graph_signature:ExportGraphSignature"
PINS = tuple((f"{_SIGNATURE}.{name}", digest) for name, (_, digest) in PROPERTIES.items())


@contextmanager
def signature_maps() -> Iterator[None]:
    """Remember the maps of each signature while the block runs.

    A map is used again if the list holds the very same entries and no entry of any signature has
    been written to since; the entries' classes count their writes for that.
    """
    from torch.export import graph_signature

    if not sources_match("The memory of signatures", PINS):
        yield
        return
    memory = _Maps()
    signature = graph_signature.ExportGraphSignature
    with ExitStack() as stack:
        for name in ENTRIES:
            entry = getattr(graph_signature, name)
            stack.enter_context(replaced(entry, "__setattr__", memory.counted(entry)))
        for name, (field, _) in PROPERTIES.items():
            stock = vars(signature)[name].fget
            stack.enter_context(replaced(signature, name, memory.property(name, field, stock)))
        yield


class _Maps:
    """The maps of all signatures, by signature and property."""

    def __init__(self) -> None:
        self._writes = 0
        self._known: dict[int, tuple[Any, dict[str, tuple[int, list[Any], Any]]]] = {}

    def counted(self, entry: Any) -> Callable[[Any, str, Any], None]:
        """Return a ``__setattr__`` for ``entry`` that counts the writes to its instances."""
        stock = entry.__setattr__

        def write(instance: Any, name: str, value: Any) -> None:
            # An attribute written for the first time belongs to an entry nobody knows yet.
            if name in instance.__dict__:
                self._writes += 1
            stock(instance, name, value)

        return write

    def property(self, name: str, field: str, original: Callable[[Any], Any]) -> property:
        """Return a property that answers from memory if it can, and like ``original`` if not."""

        def read(signature: Any) -> Any:
            entries = getattr(signature, field)
            maps = self._of(signature)
            known = maps.get(name)
            if (
                known is not None
                and known[0] == self._writes
                and len(known[1]) == len(entries)
                and all(map(operator.is_, known[1], entries))
            ):
                return known[2]
            signature_map = original(signature)
            maps[name] = (self._writes, list(entries), signature_map)
            return signature_map

        return property(read)

    def _of(self, signature: Any) -> dict[str, tuple[int, list[Any], Any]]:
        # By identity: a signature has no hash.
        known = self._known.get(id(signature))
        if known is None or known[0]() is not signature:
            known = self._known[id(signature)] = (weakref.ref(signature), {})
        return known[1]
