"""The table of all patches of third-party libraries: what each replaces, and why that is safe."""

from __future__ import annotations

from workbench.engine.toolchain_patches.constant_values import quick_constants
from workbench.engine.toolchain_patches.decompositions import (
    skip_decomposition,
    skip_functionalization,
)
from workbench.engine.toolchain_patches.functional_memory import functional_memory
from workbench.engine.toolchain_patches.fx_graphs import (
    lazy_recompile,
    literal_lists,
    pytree_map,
    quick_dead_code,
    shared_provenance,
    short_stacks,
)
from workbench.engine.toolchain_patches.idle_retraces import idle_retraces
from workbench.engine.toolchain_patches.imports import known_composites, plain_kernels
from workbench.engine.toolchain_patches.interpreter import quiet_collector
from workbench.engine.toolchain_patches.lean_retrace import lean_retrace
from workbench.engine.toolchain_patches.norm_fusion import FUSION
from workbench.engine.toolchain_patches.norm_fusion import PINS as FUSION_PINS
from workbench.engine.toolchain_patches.onnx_registry import PINS as REGISTRY_PINS
from workbench.engine.toolchain_patches.onnx_registry import REGISTRY
from workbench.engine.toolchain_patches.operator_memory import cached_shapes, operator_memory
from workbench.engine.toolchain_patches.patching import Patch
from workbench.engine.toolchain_patches.range_search import PINS as SEARCH_PINS
from workbench.engine.toolchain_patches.range_search import SEARCH
from workbench.engine.toolchain_patches.signature_maps import ENTRIES, PROPERTIES, signature_maps
from workbench.engine.toolchain_patches.verified_graphs import verified_graphs

_VELA = {"ethos-u-vela": "5.1.0", "executorch": "1.5.1"}
_FX = "torch.fx"
_READER = "torch._weights_only_unpickler"
_FAKE = "torch._subclasses.fake_tensor:FakeTensorMode"
_PROGRAM = "torch.export.exported_program:ExportedProgram"
_PASSES = "executorch.exir.pass_base:_ExportPassBase"
_SIGNATURE = "torch.export.graph_signature"
_OBSERVER = "torchao.quantization.pt2e.observer"


PATCHES: tuple[Patch, ...] = (
    Patch(
        "lazy-recompile", "Write code when it is read", "acceleration",
        (f"{_FX}.graph_module:GraphModule.recompile",),
        "A changed graph module notes that its Python is due and writes it on first use.",
        "The same code comes from the same graph, only later; most of it nobody ever reads.",
        apply=lazy_recompile,
    ),
    Patch(
        "shared-provenance", "Share the history of nodes", "acceleration",
        (f"{_FX}.traceback:copy",), "A node's history points to that of its ancestors: no copies.",
        "Nothing changes an entry of the history once it is made, so a copy equals the original.",
        apply=shared_provenance,
    ),
    Patch(
        "skip-decomposition", "Decompose once", "acceleration",
        (f"{_PROGRAM}.run_decompositions",),
        "A program fresh from one decomposition skips the next if no operator is left to it.",
        "Retracing plain functions outside the table gives the same nodes with the same names.",
        apply=skip_decomposition,
    ),
    Patch(
        "skip-functionalization", "Leave functional programs as they are", "acceleration",
        (
            f"{_PROGRAM}.run_decompositions",
            "executorch.exir.program._program:_gen_edge_manager_for_partitioners",
        ),
        "The pass that makes programs functional is skipped before Arm's decomposition if it can.",
        "Without changes in place it has nothing to do that the decomposition does not do again.",
        apply=skip_functionalization,
    ),
    Patch(
        "quiet-collector", "Collect garbage less often", "acceleration", (),
        "The collector's thresholds are raised while a program is lowered.",
        "When memory is given back decides nothing about what is computed.",
        apply=quiet_collector,
    ),
    Patch(
        "literal-lists", "Pass lists of numbers whole", "acceleration",
        (f"{_FX}.proxy:_create_arg_bypass", f"{_FX}.graph:pytree"),
        "A list of plain numbers becomes an argument of a node without a visit to each.",
        "A plain number stands for itself in every tracer.",
        apply=literal_lists,
    ),
    Patch(
        "pytree-map", "Map containers in one walk", "acceleration",
        tuple(f"torch.utils._pytree:{n}" for n in ("tree_map", "tree_map_only", "tree_leaves")),
        "Tuples, lists and dicts are mapped directly instead of being flattened and rebuilt.",
        "The same function meets the same leaves in the same order.",
        apply=pytree_map,
    ),
    Patch(
        "quick-dead-code", "Look for side effects of unread nodes only", "acceleration",
        (f"{_FX}.graph:Graph.eliminate_dead_code",),
        "The removal of dead code does not ask nodes that are read for side effects.",
        "What is read is never removed, whatever the answer is.",
        apply=quick_dead_code,
    ),
    Patch(
        "short-stacks", "Format the frames that are noted", "acceleration",
        (
            "executorch.backends.arm._passes.arm_pass:traceback",
            "executorch.backends.arm._passes.arm_pass_utils:traceback",
            "executorch.backends.transforms.aten_to_dialect_pass:traceback",
        ),
        "A pass that notes its caller in a node does not format the rest of the stack.",
        "The entry that is noted is the same; the others were thrown away.",
        apply=short_stacks,
    ),
    Patch(
        "quick-constants", "Compute quantized weights without wide integers", "acceleration",
        ("torchao.quantization.pt2e.constant_fold:ConstantFolder.call_function",),
        "The folding of constants dequantizes weights whose zero points are zero directly.",
        "An integer less zero is that integer, and has the same float from 8 or 64 bits.",
        apply=quick_constants,
    ),
    Patch(
        "cached-shapes", "Remember shapes of quantized values", "acceleration",
        tuple(f"{_FAKE}.{n}" for n in ("_validate_cache_key", "_cache_key")),
        "The cache of fake tensors takes in the quantize and dequantize operators.",
        "Shape and type of their results follow from the arguments, which are the cache's key.",
        apply=cached_shapes,
    ),
    Patch(
        "known-composites", "Walk the list of operators once", "acceleration",
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
        "plain-kernels", "Keep kernels of operators in less time", "acceleration",
        ("torch._ops:OpOverload.py_impl",),
        "A kernel of an operator is kept without evaluating annotations.",
        "The same kernel is kept under the same key; every other case is stock.",
        apply=plain_kernels,
    ),
    Patch(
        "operator-memory", "Remember results of operators", "acceleration",
        (
            "executorch.exir.dialects.edge._ops:EdgeOpOverload.__call__",
            f"{_FX}.interpreter:Interpreter.call_function",
        ),
        "An operator called again with the same metadata returns a new fake tensor at once.",
        "The key holds all that the result depends on; anything else is computed as ever.",
        apply=operator_memory,
    ),
    Patch(
        "functional-memory", "Remember operators of a decomposition", "acceleration",
        (f"{_PROGRAM}.run_decompositions", f"{_FX}.interpreter:Interpreter.call_function"),
        "An operator of a functional program is not wrapped and unwrapped again for each call.",
        "Without changes in place it becomes the node that it became before, with a new result.",
        apply=functional_memory,
    ),
    Patch(
        "lean-retrace", "Retrace with less work for each node", "acceleration",
        (
            f"{_PASSES}._fx",
            f"{_PASSES}.placeholder",
            f"{_PASSES}.ExportInterpreter.run_node",
        ),
        "A pass builds its new graph without texts, generators and copies that nobody reads.",
        "The same operators are called in the same order and give the same nodes and metadata.",
        apply=lean_retrace,
    ),
    Patch(
        "idle-retraces", "Skip retraces that change nothing", "acceleration",
        (f"{_PASSES}.call",),
        "A pass that changes nothing of a graph that a retrace left as it was gives it back.",
        "A retrace follows from its graph and its pass; this one gave the same graph before.",
        apply=idle_retraces,
    ),
    Patch(
        "verified-graphs", "Verify a graph once", "acceleration",
        ("torch._export.verifier:Verifier._check_graph_module",),
        "A graph that passed its check and has not changed since is not checked again.",
        "A check changes nothing, and follows from its settings and the nodes of the graph.",
        apply=verified_graphs,
    ),
    Patch(
        "signature-maps", "Remember the maps of a signature", "acceleration",
        (
            *(f"{_SIGNATURE}:ExportGraphSignature.{name}" for name in PROPERTIES),
            *(f"{_SIGNATURE}:{name}.__setattr__" for name in ENTRIES),
        ),
        "The maps of inputs and outputs are made again only after an entry was changed.",
        "They follow from the entries alone, and every write to an entry is counted.",
        apply=signature_maps,
    ),
    Patch(
        "late-imports", "Import what few programs need when one does", "acceleration",
        ("sys:modules",),
        "Three modules are stood in for while the toolchain is imported.",
        "The stand-in imports the module when something of it is needed.",
    ),
    Patch(
        "plain-sources", "Tell the source of a registration from its frame", "acceleration",
        ("inspect:getframeinfo", "inspect:getmodule"),
        "Registering an operator does not search the sources of all modules.",
        "Those who ask take the file, the line and the module only, which the frame holds.",
    ),
    Patch(
        "parsed-edge-table", "Parse the table of edge operators once", "acceleration",
        ("ruamel.yaml:YAML.load",),
        "The parsed table is kept on disk by the digest of its text.",
        "Another text is parsed as ever; what is kept equals what the parser returned.",
    ),
    Patch(
        "frozen-weight-observers", "Observe weights once", "acceleration",
        (f"{_OBSERVER}:MinMaxObserver.forward", f"{_OBSERVER}:PerChannelMinMaxObserver.forward"),
        "An observer of weights works at its first call only; replaced on single instances.",
        "The extremes of values seen before do not change when they are seen again.",
    ),
    Patch(
        "quick-histograms", "Count a histogram without comparing scalars", "acceleration",
        (f"{_OBSERVER}:HistogramObserver.forward",),
        "A tensor within the known range only adds its counts.",
        "That is what the stock code does after its comparisons.",
    ),
    Patch(
        "quick-search", "Search the range of a histogram with numbers", "acceleration",
        (SEARCH,),
        "Of up to 100,000 steps those that lead to the same bins are left out.",
        "The comparisons are the same, in float32; the errors are computed by the stock function.",
        pins=SEARCH_PINS,
    ),
    Patch(
        "onnx-registry", "Make the table of ONNX functions once", "acceleration",
        (REGISTRY,),
        "Exports of one process share the entries of the table, in lists of their own.",
        "The table depends on the opset alone, and exports only read its entries.",
        pins=REGISTRY_PINS,
    ),
    Patch(
        "norm-patterns", "Trace the patterns of batch norms that can occur", "acceleration",
        (FUSION,),
        "For training, patterns of convolutions that the program does not have are left out.",
        "A pattern matches only where its convolution is; the rest of the function still runs.",
        pins=FUSION_PINS,
    ),
    Patch(
        "only-missing", "Let known observers rest", "acceleration",
        (f"{_OBSERVER}:ObserverBase.forward",),
        "Observers whose statistics are known pass values on; replaced on single instances.",
        "The statistics come from memory, where their key is all that they depend on.",
    ),
    Patch(
        "range-memory", "Search the range of a histogram once", "acceleration",
        (f"{_OBSERVER}:HistogramObserver.calculate_qparams",),
        "A search answered before is answered from memory.",
        "The key holds all that the search reads.",
    ),
    Patch(
        "transform-memory", "Transform for annotation once", "acceleration",
        ("executorch.backends.arm._passes.arm_pass_manager:"
         "ArmPassManager.transform_for_annotation_pipeline",),
        "The passes before annotation are answered from memory with a copy.",
        "They read the graph, the specification and one mark, all of which are the key.",
    ),
    Patch(
        "watched-observers", "Watch the values at observers", "interception",
        (f"{_OBSERVER}:ObserverBase.forward",),
        "Values that an observer sees are seen by the workbench too; replaced on single instances.",
        "The stock function is called with the same value and its result returned.",
        otherwise="refused",
    ),
    Patch(
        "captured-tosa", "Keep the TOSA of each delegate", "interception",
        ("executorch.backends.arm.ethosu.backend:EthosUBackend._compile_tosa_flatbuffer",),
        "The flatbuffer that Vela compiles is kept for another target.",
        "The stock function is called with the same arguments.",
        otherwise="refused", proven=_VELA,
    ),
    Patch(
        "vela-models", "Keep what Vela compiled", "interception",
        ("ethosu.vela.vela:regor",),
        "Vela's compiler keeps its model and its debug database; or ends once there is a model.",
        "The database changes no byte of the result, which tests compare.",
        otherwise="refused", proven=_VELA,
    ),
    Patch(
        "tosa-origins", "Note where each TOSA tensor comes from", "interception",
        ("executorch.backends.arm.tosa.backend:process_call_function",),
        "The node that is translated is noted before the stock function translates it.",
        "The stock function is called with the same arguments.",
        otherwise="refused", proven=_VELA,
    ),
    Patch(
        "partition-reasons", "Keep why operators stay on the CPU", "interception",
        ("executorch.backends.arm.tosa.partitioner:WhyNoPartitionReporter",),
        "The partitioner's reports are kept, which it has no way to return.",
        "The reporter is a subclass that adds itself to a list.",
        otherwise="refused", proven=_VELA,
    ),
    Patch(
        "watched-passes", "Tell how far lowering is", "interception",
        (
            "executorch.exir.program._program:_generate_edge_program",
            "executorch.backends.arm._passes.arm_pass_manager:ArmPassManager._transform",
            "executorch.backends.arm._passes.arm_pass_manager:"
            "_ExportedProgramGraphPassAdapter.call",
        ),
        "Each pass over a delegate is counted before it runs.",
        "The stock functions are called with the same arguments and their results returned.",
        otherwise="stock", proven=_VELA,
    ),
    Patch(
        "vela-folder", "Compile in a folder without spaces", "correction",
        ("tempfile:tempdir",),
        "Temporary folders of Vela lie where their path has no space.",
        "ExecuTorch 1.5.1 joins Vela's arguments with spaces and splits them again.",
        otherwise="refused", proven=_VELA,
    ),
    Patch(
        "decomposition-tracking", "Track which node each part was made of", "correction",
        ("executorch.backends.arm._passes.arm_pass_manager:GraphModulePassManager",),
        "Parts of an operator carry the name and module of the float node they were made of.",
        "Only metadata that stock leaves empty or wrong is written; the passes run as ever.",
        otherwise="refused", proven={"executorch": "1.5.1"},
    ),
    Patch(
        "ordered-partitions", "Give delegates one order", "correction",
        ("executorch.backends.arm.tosa.partitioner:TOSAPartitioner.partition",),
        "A subclass returns the partitions in the order of the program, not of a set of texts.",
        "The partitions are those of stock; only their order, random in stock, is fixed.",
        otherwise="refused", proven={"executorch": "1.5.1"},
    ),
    Patch(
        "own-grids-of-silu", "Let small activations have small steps", "correction",
        ("executorch.backends.arm.quantizer.quantization_config:"
         "TOSAQuantizationConfig.SHARED_OUTPUT_ACT_QSPEC_PATTERNS",),
        "A SiLU does not share the grid of its input, which ExecuTorch 1.4 lets it do.",
        "Newer releases give it a grid of its own too.",
        otherwise="refused",
        proven={"executorch": "1.5.1"},
    ),
    Patch(
        "folded-weights", "Leave the weights of the float program alone", "correction",
        ("executorch.backends.arm._passes.fold_scalar_mul_into_conv_pass:"
         "FoldScalarMulIntoConvPass._set_get_attr_tensor",),
        "A factor behind a convolution is folded into new weights instead of the given ones.",
        "The folded weights are those of stock; only the float program keeps its own.",
        otherwise="refused", proven={"executorch": "1.5.1"},
    ),
    Patch(
        "user-modules", "Import the files of a project under their own names", "interpreter",
        ("sys:modules", "sys:path", "sys:path_hooks", "sys:path_importer_cache"),
        "A user's file is a module of the bytes that were read; its folder is searched last.",
        "A name that an installed module has is refused.",
        otherwise="refused", proven={"python": "3.11, 3.12"},
    ),
    Patch(
        "no-unpickling", "Refuse pickles while a program that is not trusted is loaded",
        "interception", ("torch:load", "torch._C:_pickle_load_obj", "pickle:loads"),
        "The strict reader passes no pickle on; torch's loader could reach them for others.",
        "A program with a pickle is refused.",
        otherwise="refused", proven={"torch": "2.13.0"},
    ),
    Patch(
        "bounded-pickles", "Bound what torch's reader of tensors may cost", "interception",
        (f"{_READER}:UnpicklingError", f"{_READER}:_get_allowed_globals"),
        "Containers and bytes are made of what the file holds; messages are cut.",
        "What torch.save has written is read as before.",
        otherwise="refused", proven={"torch": "2.13.0"},
    ),
)  # fmt: skip

PATCHES_BY_ID = {patch.id: patch for patch in PATCHES}

# The accelerations of lowering, in the order in which they are switched on.
LOWERING = tuple(patch for patch in PATCHES if patch.apply is not None)
