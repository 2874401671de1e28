"""Ethos-U's quantizer, with the corrections that come before calibration."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from executorch.backends.arm.quantizer.quantization_config import TOSAQuantizationConfig
from torch import fx

from .decomposition_tracking import FollowingQuantizer

_ATEN = torch.ops.aten
# The modules that rewrite the float graph, in the order in which they apply.
FLOAT_GRAPH = (
    "transposed_convolutions",
    "constants",
    "undefined_values",
    "masks",
    "unsupported_operators",
    "float_rewrites",
)


# Under this name a module's metadata has the places that each patch changes, by id.
PATCHED = "patched_places"


class CorrectingQuantizer(FollowingQuantizer):
    """Ethos-U's quantizer, with the corrections that come before calibration.

    Attributes:
        corrections: Functions by the module of this package that has them.
        rewrites: By id, further functions that change the float program's graph; they are given
            the graph module and this quantizer, as the corrections are.
        trial: Returns the names of the nodes that stay as they are written, for the graph and the id
            of a rewrite; None where ``as_written`` has them.
        as_written: By id of a rewrite, the names of such nodes.
        left: Those of the rewrite that is applied.
        corrected: By id, the names of the nodes that a correction or rewrite changed.
    """

    corrections: Mapping[str, Sequence[Any]] = MappingProxyType({})
    rewrites: Mapping[str, Any] = MappingProxyType({})
    trial: Any = None
    as_written: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    left: tuple[str, ...] = ()
    corrected: Mapping[str, tuple[str, ...]] = MappingProxyType({})

    def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
        """Rewrite operators, then take operators apart as stock does."""
        for rewrite in (one for module in FLOAT_GRAPH for one in self.corrections.get(module, ())):
            self._note(rewrite.__name__, rewrite(model, self))
        for name, rewrite in self.rewrites.items():
            if self.trial is not None:
                self.left = ()
                self.as_written = {**self.as_written, name: self.trial(model, name)}
            self.left = self.as_written.get(name, ())
            self._note(name, rewrite(model, self))
        contexts = {one.__name__: one(model) for one in self.corrections.get("annotation_contexts", ())}
        contexts |= {one.__name__: one() for one in self.corrections.get("annotation_patches", ())}
        with contextlib.ExitStack() as stack:
            patched = {name: stack.enter_context(context) for name, context in contexts.items()}
            model.meta[PATCHED] = patched
            module: fx.GraphModule = super().transform_for_annotation(model)
        # A module that is remembered brings the places of the time when it was made.
        for name, known in module.meta.pop(PATCHED, patched).items():
            self._note(name, list(known))
        return module

    def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
        """Annotate as stock does, then refine the annotations."""
        refinements = self.corrections.get("small_scales", ())
        is_fine = any(refine.__name__ == "fine_steps" for refine in refinements)
        with _own_grids_of_silu() if is_fine else contextlib.nullcontext():
            annotated: fx.GraphModule = super().annotate(model)
        for refine in refinements:
            self._note(refine.__name__, refine(annotated))
        return annotated

    def _note(self, name: str, nodes: list[str]) -> None:
        known = self.corrected.get(name, ())
        self.corrected = {**self.corrected, name: (*known, *nodes)}


@contextlib.contextmanager
def _own_grids_of_silu() -> Iterator[None]:
    """Let a SiLU have a grid of its own in the block, as it has from ExecuTorch 1.5 on.

    ExecuTorch 1.4 gives it, and what is joined with it, the grid of its input; it reaches half.
    """
    stock = TOSAQuantizationConfig.SHARED_OUTPUT_ACT_QSPEC_PATTERNS
    silu = {_ATEN.silu.default, _ATEN.silu_.default}
    TOSAQuantizationConfig.SHARED_OUTPUT_ACT_QSPEC_PATTERNS = stock - silu
    try:
        yield
    finally:
        TOSAQuantizationConfig.SHARED_OUTPUT_ACT_QSPEC_PATTERNS = stock
