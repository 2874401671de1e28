"""Corrections that apply while a quantized program is lowered: which are on, and their passes.

ExecuTorch's own hooks insert a pass before and after those of its pipeline for delegates; the
partitioner is a subclass. The hooks have no way to take a pass back: it is inserted once in a
process, and changes nothing where no correction is on.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import metadata
from typing import Any, NamedTuple

from executorch.backends.arm import _passes
from executorch.backends.arm._passes.arm_pass_manager import (
    register_pass_insertions_after,
    register_pass_insertions_before,
)
from executorch.backends.arm.tosa.specification import get_context_spec
from executorch.exir.pass_base import PassResult
from torch import fx


class Delegate(NamedTuple):
    """What is lowered: whether for a U55 or U65, and its program.

    The program is that of the whole delegate also for the graph of a branch, whose own constants
    are in its ``state_dict`` alone.
    """

    is_u55: bool
    program: Any


class _Lowering:
    """The corrections of the lowering that runs, by place, and the nodes that they changed."""

    def __init__(self) -> None:
        self.corrections: Mapping[str, Sequence[Any]] = {}
        self.changed: dict[str, list[str]] = {}
        self.program: Any = None

    def run(self, place: str, *given: Any) -> bool:
        """Run the corrections of a place; return whether one changed anything."""
        is_changed = False
        for correction in self.corrections.get(place, ()):
            names = list(correction(*given))
            self.changed[correction.__name__].extend(names)
            is_changed = is_changed or bool(names)
        return is_changed

    def rejection(self, node: fx.Node) -> str:
        """Return why a correction leaves an operator to the CPU; "" if none does."""
        for check in self.corrections.get("operator_support", ()):
            if reason := check(node):
                self.changed[check.__name__].append(node.name)
                return str(reason)
        return ""


LOWERING = _Lowering()
# The modules whose corrections run at one place, and are no context managers.
_PLACES = (
    "operator_support",
    "partition",
    "before_fuse",
    "before_pools",
    "before_constants",
    "fewer_operations",
    "after_tosa",
)


class CorrectionPass(_passes.ArmPass):
    """Runs the corrections of one place over the graph of a delegate."""

    # Set by ExecuTorch while a program is transformed, not for the graphs of its branches, which
    # are transformed after it.
    exported_program: Any = None
    _passes_required_after: set[Any] = set()  # noqa: RUF012 - as ArmPass declares it

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        """Return the module, with its graph corrected."""
        if self.exported_program is not None:
            LOWERING.program = self.exported_program
        delegate = Delegate(bool(get_context_spec().is_U55_subset), LOWERING.program)
        is_changed = LOWERING.run(self.place, graph_module.graph, delegate)
        if is_changed:
            graph_module.recompile()
        return PassResult(graph_module, is_changed)


_IS_1_4 = metadata.version("executorch").startswith("1.4.")
# What comes after the last pass of all.
_LAST = (register_pass_insertions_after, "InsertRescalePass" if _IS_1_4 else "EnsureUniqueOutputNodesPass")
# By place, the pass that its corrections come before or after.
_HOOKS = {
    "before_fuse": (register_pass_insertions_before, "FuseQuantizedActivationPass"),
    "before_pools": (register_pass_insertions_before, "RewriteAvgPool2dPass"),
    "before_constants": (register_pass_insertions_before, "ComputeConstantOpsAOTPass"),
    "fewer_operations": _LAST,
    "after_tosa": _LAST,
}
# The places that a release does not have.
ABSENT = {place for place, (_, name) in _HOOKS.items() if not hasattr(_passes, name)}
for _place, (_register, _name) in _HOOKS.items():
    if _place not in ABSENT:
        _register(getattr(_passes, _name), [CorrectionPass(_place)])


@contextmanager
def corrected(corrections: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, list[str]]]:
    """Apply corrections to what is lowered while the block runs.

    Args:
        corrections: The functions by the module of this package that has them.

    Yields:
        By id, the names of the nodes that were changed; the lists grow while programs are lowered.
    """
    before = LOWERING.corrections, LOWERING.changed
    patches = [*corrections.get("int16_tables", ()), *corrections.get("lowering_patches", ())]
    functions = (one for place in _PLACES for one in corrections.get(place, ()))
    with ExitStack() as stack:
        changed = {function.__name__: list[str]() for function in functions}
        changed |= {patch.__name__: stack.enter_context(patch()) for patch in patches}
        LOWERING.corrections, LOWERING.changed = corrections, changed
        try:
            yield changed
        finally:
            LOWERING.corrections, LOWERING.changed = before
            LOWERING.program = None


@contextmanager
def corrected_compiler(corrections: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, list[str]]]:
    """Apply the corrections of Vela while the block runs; entered before what watches Vela.

    Args:
        corrections: The functions by the module of this package that has them.

    Yields:
        By id, the names of the delegates that were changed.
    """
    with ExitStack() as stack:
        patches = corrections.get("vela", ())
        yield {patch.__name__: stack.enter_context(patch()) for patch in patches}
