"""The table of the accelerations: what each replaces, and why that changes no byte."""

from __future__ import annotations

from workbench.engine.acceleration.collector import quiet_collector
from workbench.engine.acceleration.conversion import FOLDED, NAMED, quick_folding, quick_names
from workbench.engine.acceleration.decomposition_cache import decomposition_cache
from workbench.engine.acceleration.decompositions import skip_decomposition, skip_functionalization
from workbench.engine.acceleration.fake_tensor_cache import cached_shapes, fake_tensor_cache
from workbench.engine.acceleration.fast_retrace import fast_retrace
from workbench.engine.acceleration.fx_speedups import (
    lazy_recompile,
    literal_lists,
    pytree_map,
    shared_provenance,
)
from workbench.engine.acceleration.operator_registry import known_composites, plain_kernels
from workbench.engine.acceleration.range_search import SEARCH, quick_search
from workbench.engine.acceleration.saving import CANONICALIZE, plain_saving
from workbench.engine.acceleration.signature_maps import ENTRIES, PROPERTIES, signature_maps
from workbench.engine.acceleration.skip_unchanged_passes import skip_unchanged_passes
from workbench.engine.toolchain_patches.patching import Patch

_FX = "torch.fx"
_FAKE = "torch._subclasses.fake_tensor:FakeTensorMode"
_PROGRAM = "torch.export.exported_program:ExportedProgram"
_PASSES = "executorch.exir.pass_base:_ExportPassBase"
_SIGNATURE = "torch.export.graph_signature"

# Those of preparing, quantizing and lowering, in the order in which they are switched on.
LOWERING: tuple[Patch, ...] = (
    Patch(
        "lazy-recompile",
        "Write code when it is read",
        "acceleration",
        (f"{_FX}.graph_module:GraphModule.recompile",),
        "A changed graph module notes that its Python is due and writes it on first use.",
        "The same code comes from the same graph, only later; most of it nobody ever reads.",
        apply=lazy_recompile,
    ),
    Patch(
        "shared-provenance",
        "Share the history of nodes",
        "acceleration",
        (f"{_FX}.traceback:copy",),
        "A node's history points to that of its ancestors: no copies.",
        "Nothing changes an entry of the history once it is made, so a copy equals the original.",
        apply=shared_provenance,
    ),
    Patch(
        "skip-decomposition",
        "Decompose once",
        "acceleration",
        (f"{_PROGRAM}.run_decompositions",),
        "A program fresh from one decomposition skips the next if no operator is left to it.",
        "Retracing plain functions outside the table gives the same nodes with the same names.",
        apply=skip_decomposition,
    ),
    Patch(
        "skip-functionalization",
        "Leave functional programs as they are",
        "acceleration",
        (
            f"{_PROGRAM}.run_decompositions",
            "executorch.exir.program._program:_gen_edge_manager_for_partitioners",
        ),
        "The pass that makes programs functional is skipped before Arm's decomposition if it can.",
        "Without changes in place it has nothing to do that the decomposition does not do again.",
        apply=skip_functionalization,
    ),
    Patch(
        "quiet-collector",
        "Collect garbage less often",
        "acceleration",
        (),
        "The collector's thresholds are raised while a program is lowered.",
        "When memory is given back decides nothing about what is computed.",
        apply=quiet_collector,
    ),
    Patch(
        "literal-lists",
        "Pass lists of numbers whole",
        "acceleration",
        (f"{_FX}.proxy:_create_arg_bypass", f"{_FX}.graph:pytree"),
        "A list of plain numbers becomes an argument of a node without a visit to each.",
        "A plain number stands for itself in every tracer.",
        apply=literal_lists,
    ),
    Patch(
        "pytree-map",
        "Map containers in one walk",
        "acceleration",
        tuple(f"torch.utils._pytree:{n}" for n in ("tree_map", "tree_map_only", "tree_leaves")),
        "Tuples, lists and dicts are mapped directly instead of being flattened and rebuilt.",
        "The same function meets the same leaves in the same order.",
        apply=pytree_map,
    ),
    Patch(
        "cached-shapes",
        "Remember shapes of quantized values",
        "acceleration",
        tuple(f"{_FAKE}.{n}" for n in ("_validate_cache_key", "_cache_key")),
        "The cache of fake tensors takes in the quantize and dequantize operators.",
        "Shape and type of their results follow from the arguments, which are the cache's key.",
        apply=cached_shapes,
    ),
    Patch(
        "known-composites",
        "Walk the list of operators once",
        "acceleration",
        (
            "torch._export.utils:_materialize_cpp_cia_ops",
            "torch._export.utils:_collect_all_valid_cia_ops",
            "torch.export.decomp_utils:_collect_all_valid_cia_ops",
            "torch.export.exported_program:_collect_all_valid_cia_ops",
            "torch._export.utils:_is_preservable_cia_op",
        ),
        "The composite operators are made known again only after a new one was registered.",
        "Making a known operator known has no effect.",
        apply=known_composites,
    ),
    Patch(
        "plain-kernels",
        "Keep kernels of operators in less time",
        "acceleration",
        ("torch._ops:OpOverload.py_impl",),
        "A kernel of an operator is kept without evaluating annotations.",
        "The same kernel is kept under the same key; every other case is stock.",
        apply=plain_kernels,
    ),
    Patch(
        "operator-memory",
        "Remember results of operators",
        "acceleration",
        (
            "executorch.exir.dialects.edge._ops:EdgeOpOverload.__call__",
            f"{_FX}.interpreter:Interpreter.call_function",
        ),
        "An operator called again with the same metadata returns a new fake tensor at once.",
        "The key holds all that the result depends on; anything else is computed as ever.",
        apply=fake_tensor_cache,
    ),
    Patch(
        "functional-memory",
        "Remember operators of a decomposition",
        "acceleration",
        (f"{_PROGRAM}.run_decompositions", f"{_FX}.interpreter:Interpreter.call_function"),
        "An operator of a functional program is not wrapped and unwrapped again for each call.",
        "Without changes in place it becomes the node that it became before, with a new result.",
        apply=decomposition_cache,
    ),
    Patch(
        "lean-retrace",
        "Retrace with less work for each node",
        "acceleration",
        (f"{_PASSES}._fx", f"{_PASSES}.placeholder", f"{_PASSES}.ExportInterpreter.run_node"),
        "A pass builds its new graph without texts, generators and copies that nobody reads.",
        "The same operators are called in the same order and give the same nodes and metadata.",
        apply=fast_retrace,
    ),
    Patch(
        "idle-retraces",
        "Skip retraces that change nothing",
        "acceleration",
        (f"{_PASSES}.call",),
        "A pass that changes nothing of a graph that a retrace left as it was gives it back.",
        "A retrace follows from its graph and its pass; this one gave the same graph before.",
        apply=skip_unchanged_passes,
    ),
    Patch(
        "signature-maps",
        "Remember the maps of a signature",
        "acceleration",
        (
            *(f"{_SIGNATURE}:ExportGraphSignature.{name}" for name in PROPERTIES),
            *(f"{_SIGNATURE}:{name}.__setattr__" for name in ENTRIES),
        ),
        "The maps of inputs and outputs are made again only after an entry was changed.",
        "They follow from the entries alone, and every write to an entry is counted.",
        apply=signature_maps,
    ),
    Patch(
        "quick-folding",
        "Fold constants without a walk over all arguments",
        "acceleration",
        FOLDED,
        "Of a quantized program only what follows from constants is visited whole.",
        "What follows from an input is no constant, and a dequantized constant is never folded.",
        apply=quick_folding,
    ),
    Patch(
        "quick-names",
        "Find free names in the tables of a module",
        "acceleration",
        NAMED,
        "For the name of a new observer or constant, the module's tables are read directly.",
        "A module has an attribute if one of its tables or its class has it; the count is the same.",
        apply=quick_names,
    ),
)

# Those that are asked for by their ids.
OTHERS: tuple[Patch, ...] = (
    Patch(
        "quick-search",
        "Search the range of a histogram with numbers",
        "acceleration",
        (SEARCH,),
        "Of up to 100,000 steps those that lead to the same bins are left out.",
        "The comparisons are the same, in float32; the errors are computed by the stock function.",
        apply=quick_search,
    ),
    Patch(
        "plain-saving",
        "Save programs without a second form",
        "acceleration",
        (CANONICALIZE,),
        "The canonical form of a program that is saved is not made.",
        "torch makes it to see whether it can, and drops it.",
        apply=plain_saving,
    ),
)
