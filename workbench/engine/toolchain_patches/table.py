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
_CONVOLUTION = "executorch.backends.arm._passes.rewrite_conv_pass:RewriteConvPass"
_TABLES = "executorch.backends.arm._passes.insert_table_ops:InsertTableOpsPass"
_PARTITIONER = "executorch.backends.arm.tosa.partitioner:TOSAPartitioner"
_TRANSFORMS = "executorch.backends.transforms"
_SCALARS = f"{_TRANSFORMS}.replace_scalar_with_tensor:ReplaceScalarWithTensorArgPass"
_CONVOLVING = "executorch.backends.arm.operator_support.convolution_support:ConvolutionSupported"
_MOVES = "executorch.backends.arm._passes:PropagateViewCopyPermuteUpPass._move_node"
_ARM = "executorch.backends.arm._passes"
_FUSION = f"{_ARM}.fuse_quantized_activation_pass:FuseQuantizedActivationPass"
_ATTENTION = f"{_ARM}.decompose_sdpa_pass:DecomposeScaledDotProductAttentionPass"
_INTEGERS = (
    f"{_ARM}.insert_int32_casts_after_int64_placeholders:InsertInt32CastsAfterInt64PlaceholdersPass"
)
_LOOPS = f"{_ARM}.normalize_while_initial_args_pass:NormalizeWhileInitialArgsPass"
_OBSERVER = "torchao.quantization.pt2e.observer"
_BACKEND_PASSES = f"{_ARM}.arm_pass_manager:ArmPassManager.transform_to_backend_pipeline"


def _after_passes(name: str, title: str, what: str, why_safe: str) -> Patch:
    """Return a correction that changes the graph of a delegate after ExecuTorch's passes."""
    return Patch(
        name, title, "correction", (_BACKEND_PASSES,), what, why_safe,
        proven={"executorch": "1.5.1", "ethos-u-vela": "5.1.0"},
        pins=((_BACKEND_PASSES, "c46a1a60bfe6a3d2"),),
    )  # fmt: skip


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
    _after_passes(
        "outputs_kept", "Keep outputs whose layout is changed back",
        "After stock's passes, a change of layout that reads an output reads what is before it.",
        "Two changes of layout together are one, or none.",
    ),
    _after_passes(
        "constants_rearranged", "Transpose constants ahead of time",
        "After stock's passes, a transpose of a constant becomes a transposed constant.",
        "The values are the same, in the same order.",
    ),
    _after_passes(
        "rescales_joined", "Join equal rescales of a value",
        "After stock's passes, a rescale that equals one before it is left out.",
        "Both compute the same integers of the same value.",
    ),
    _after_passes(
        "slices_computed", "Copy slices and pads before operators that lose their offset",
        "After stock's passes, a copy follows a slice or pad that such an operator reads.",
        "The copy is the largest value over windows of one element.",
    ),
    _after_passes(
        "joined_computed", "Copy what would lose its place in a joined tensor",
        "After stock's passes, a copy stands between such an operator and cat or pad.",
        "The copy is the largest value over windows of one element.",
    ),
    _after_passes(
        "flips_of_copies", "Copy matrix products before they are flipped",
        "After stock's passes, a copy stands between a matrix product and a flip.",
        "The copy is the largest value over windows of one element.",
    ),
    _after_passes(
        "padded_pools", "Pad before a maximum with a large stride",
        "After stock's passes, a padding stands before a max pool with a stride above three.",
        "The padding holds the least integer, which no maximum is below.",
    ),
    _after_passes(
        "clamps_over_rows", "Compute clamps and functions of batches as rows",
        "After stock's passes, reshapes are around a clamp or function that loses a batch.",
        "A reshape moves no value, and both work on each element alone.",
    ),
    _after_passes(
        "activations_before_layouts", "Compute activations before changes of layout",
        "After stock's passes, an activation behind a change of layout moves or reads a copy.",
        "An activation works on each element alone.",
    ),
    _after_passes(
        "clamps_before_transposes", "Clamp before a transpose that is joined",
        "After stock's passes, a clamp that is read by cat comes before the transpose it reads.",
        "A clamp works on each element alone.",
    ),
    Patch(
        "one_table_in_chain", "Compile without chains where two tables would meet in one",
        "correction", ("ethosu.vela.vela:regor",),
        "A delegate with two tables of 2 KiB in one chain is compiled again without chains.",
        "Only the option disable_feature=Grouping is added, which Vela has for that.",
        proven=_VELA,
        pins=(("ethosu.vela.vela:process_regor", "57e307738a1b2d2d"),),
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
        "negations_rescaled", "Rescale negated values to their grid", "correction",
        (f"{_FUSION}.call",),
        "Behind a negation whose grid is another one stands the mirrored grid of its input.",
        "Stock negates onto the mirrored grid, and rescales from it as between any two grids.",
        proven={"executorch": "1.5.1"},
        pins=((f"{_FUSION}.call", "47cc087df1edb725"),),
    ),
    Patch(
        "keep_relu_clamps", "Keep the clamp of a ReLU whose range goes below zero", "correction",
        (f"{_FUSION}.call",),
        "Between such a ReLU and its input stands the grid of its output, so that both stay.",
        "Stock runs after that; ReLUs whose grid starts at zero are left to it.",
        proven={"executorch": "1.5.1"},
        pins=(
            (f"{_FUSION}.call", "47cc087df1edb725"),
            (f"{_FUSION}._is_fuseable_quantized_activation", "4652a58377fea885"),
            (f"{_FUSION}._is_fuseable_input", "a19ebe148c5f6ffc"),
        ),
    ),
    Patch(
        "fine_steps", "Let small activations have small steps", "correction",
        ("executorch.backends.arm.quantizer.quantization_config:"
         "TOSAQuantizationConfig.SHARED_OUTPUT_ACT_QSPEC_PATTERNS",),
        "A SiLU does not share the grid of its input, which ExecuTorch 1.4 lets it do.",
        "Newer releases give it a grid of its own too.",
        otherwise="refused",
        proven={"executorch": "1.5.1"},
    ),
    Patch(
        "rounded_convolutions", "Round a 16-bit convolution once, for all its readers",
        "correction",
        (f"{_CONVOLUTION}._insert_a16w8_output_branches",),
        "The branches that take a convolution's sum before it is rounded are not made.",
        "Every reader reads the 16-bit result, as in the quantized model.",
        proven={"executorch": "1.5.1"},
        pins=(
            (f"{_CONVOLUTION}._insert_a16w8_output_branches", "1bc543015206f09f"),
            (f"{_CONVOLUTION}._get_direct_int32_rescale_users", "6aa17b8c7c9ce3e6"),
            (f"{_CONVOLUTION}._get_permute_int32_rescale_users", "de207257cce5fb76"),
        ),
    ),
    Patch(
        "fine_tables", "Give steep 16-bit functions further tables", "correction",
        (f"{_TABLES}.call", f"{_TABLES}.generate_16_bit_table_values"),
        "A first table reaches beyond the grid where that is nearer, and functions that it is too "
        "coarse for get further tables before stock runs.",
        "Stock makes the first table; the others add what it lacks, computed for every code.",
        proven={"executorch": "1.5.1"},
        pins=(
            (f"{_TABLES}.call", "1b8b18cf14e0e183"),
            (f"{_TABLES}.generate_16_bit_table_values", "fb092bec6a0e77d7"),
        ),
    ),
    Patch(
        "quantized_where_computed", "Quantize a value in the part of the program that computes it",
        "correction",
        (f"{_PARTITIONER}.partition",),
        "A quantization without a mark gets that of the operator whose value it quantizes.",
        "What is marked computes integers, and these are the quantized value.",
        proven={"executorch": "1.5.1"},
        pins=((f"{_PARTITIONER}.partition", "36870befe58b85bd"),),
    ),
    Patch(
        "layouts_moved_to_values", "Move a change of layout to the operand that has a layout",
        "correction",
        (_MOVES,),
        "Where stock moves a change of layout to a single number, it is moved to the value.",
        "A single number is the same in every layout; stock runs for everything else.",
        proven={"executorch": "1.5.1"},
        pins=((_MOVES, "822b4f8059f9d107"),),
    ),
    Patch(
        "computed_weights_on_cpu", "Leave convolutions with computed weights to the CPU",
        "correction",
        (f"{_CONVOLVING}.is_node_tosa_supported",),
        "Convolutions whose weights are no constant are rejected.",
        "Stock decides on all others; the CPU computes those that it would fail on.",
        proven={"executorch": "1.5.1"},
        pins=((f"{_CONVOLVING}.is_node_tosa_supported", "ca303f943327d449"),),
    ),
    Patch(
        "release_passthrough", "Keep values off the NPU that it would only pass through",
        "correction",
        (f"{_PARTITIONER}.partition",),
        "Nodes through which a partition would pass a value unchanged lose their mark.",
        "What is left in the partition is what stock found; the nodes run on the CPU.",
        proven={"executorch": "1.5.1"},
        pins=((f"{_PARTITIONER}.partition", "36870befe58b85bd"),),
    ),
    Patch(
        "sums_in_8_bits", "Give cumulative sums a kernel of 8 bits", "correction",
        (
            "executorch.backends.arm._passes.decompose_cumsum_pass:create_constant_placeholder",
            "executorch.backends.arm._passes.decompose_cumsum_pass:DecomposeCumsumPass.call",
        ),
        "The ones of the kernel are written in 8 bits.",
        "Their scale is noted as 8 bits by stock.",
        proven={"executorch": "1.5.1"},
        pins=(
            ("executorch.backends.arm._passes.decompose_cumsum_pass:DecomposeCumsumPass.call",
             "cc16e3501a6e6d61"),
        ),
    ),
    Patch(
        "scalars_beside_parameters", "Let scalars meet parameters", "correction",
        (f"{_SCALARS}.get_replacement",),
        "The type of a scalar beside a parameter is asked of the parameter itself.",
        "Stock runs for everything else.",
        proven={"executorch": "1.5.1"},
        pins=((f"{_SCALARS}.get_replacement", "8f5003d615f1e748"),),
    ),
    Patch(
        "pool_zero_points", "Give average pools the zero points of their grids", "correction",
        (f"{_ARM}.arm_pass:ArmPass.call_scalar",),
        "The zero points of an average pool are written without the notes of its grids.",
        "Nothing quantizes them again; stock runs for all other numbers.",
        proven={"executorch": "1.5.1"},
        pins=(
            (f"{_ARM}.arm_pass:ArmPass.call_scalar", "b8ed9d230815ae29"),
            (f"{_ARM}.rewrite_avg_pool2d_pass:RewriteAvgPool2dPass.call_operator",
             "4a937b8b9b1418ad"),
        ),
    ),
    Patch(
        "static_sizes", "Fix the sizes of constants in attention", "correction",
        (f"{_ATTENTION}.call",),
        "Constants that attention reads have fixed sizes before stock's pass.",
        "The sizes of constants do not change.",
        proven={"executorch": "1.5.1"},
        pins=((f"{_ATTENTION}.call", "706ec489ca39c298"),),
    ),
    Patch(
        "views_reshaped", "Reshape where a view is not possible", "correction",
        (f"{_PASSES}._fx",),
        "A view that would fail is traced as a reshape.",
        "Both give the same values; stock runs for everything else.",
        proven={"executorch": "1.5.1"},
        pins=((f"{_PASSES}._fx", "a59bba4c2defa944"),),
    ),
    Patch(
        "written_in_one_type", "Write values into a tensor in its own type", "correction",
        (f"{_INTEGERS}.call",),
        "Behind stock's passes, values that are written get the type of the tensor.",
        "Stock narrows integers only where their values fit, so that widening gives them back.",
        proven={"executorch": "1.5.1"},
        pins=((f"{_INTEGERS}.call", "2191b840d9fe0206"),),
    ),
    Patch(
        "loops_of_single_numbers", "Keep single numbers of loops without dimensions", "correction",
        (f"{_LOOPS}.call",),
        "Behind stock's pass over loops, results of one number lose the dimension they got.",
        "The value is one number with and without it.",
        proven={"executorch": "1.5.1"},
        pins=((f"{_LOOPS}.call", "ab45fc66d6bce5a2"),),
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
