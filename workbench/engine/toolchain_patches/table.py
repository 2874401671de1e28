"""The table of all patches but corrections and accelerations: what each replaces, and why."""

from __future__ import annotations

from workbench.engine.toolchain_patches.patching import Patch

_VELA = {"ethos-u-vela": "5.1.0", "executorch": "1.5.1"}
_READER = "torch._weights_only_unpickler"
_OBSERVER = "torchao.quantization.pt2e.observer"

PATCHES: tuple[Patch, ...] = (
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
        on_mismatch="error",
    ),
    Patch(
        "captured-tosa", "Keep the TOSA of each delegate", "interception",
        ("executorch.backends.arm.ethosu.backend:EthosUBackend._compile_tosa_flatbuffer",),
        "The flatbuffer that Vela compiles is kept for another target.",
        "The stock function is called with the same arguments.",
        on_mismatch="error", proven=_VELA,
    ),
    Patch(
        "vela-models", "Keep what Vela compiled", "interception",
        ("ethosu.vela.vela:regor",),
        "Vela's compiler keeps its model and its debug database; or ends once there is a model.",
        "The database changes no byte of the result, which tests compare.",
        on_mismatch="error", proven=_VELA,
    ),
    Patch(
        "tosa-origins", "Note where each TOSA tensor comes from", "interception",
        ("executorch.backends.arm.tosa.backend:process_call_function",),
        "The node that is translated is noted before the stock function translates it.",
        "The stock function is called with the same arguments.",
        on_mismatch="error", proven=_VELA,
    ),
    Patch(
        "partition-reasons", "Keep why operators stay on the CPU", "interception",
        ("executorch.backends.arm.tosa.partitioner:WhyNoPartitionReporter",),
        "The partitioner's reports are kept, which it has no way to return.",
        "The reporter is a subclass that adds itself to a list.",
        on_mismatch="error", proven=_VELA,
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
        on_mismatch="stock", proven=_VELA,
    ),
    Patch(
        "vela-folder", "Compile in a folder without spaces", "correction",
        ("tempfile:tempdir",),
        "Temporary folders of Vela lie where their path has no space.",
        "ExecuTorch 1.5.1 joins Vela's arguments with spaces and splits them again.",
        on_mismatch="error", proven=_VELA,
    ),
    Patch(
        "decomposition-tracking", "Track which node each part was made of", "correction",
        ("executorch.backends.arm._passes.arm_pass_manager:GraphModulePassManager",),
        "Parts of an operator carry the name and module of the float node they were made of.",
        "Only metadata that stock leaves empty or wrong is written; the passes run as ever.",
        on_mismatch="error", proven={"executorch": "1.5.1"},
    ),
    Patch(
        "ordered-partitions", "Give delegates one order", "correction",
        ("executorch.backends.arm.tosa.partitioner:TOSAPartitioner.partition",),
        "A subclass returns the partitions in the order of the program, not of a set of texts.",
        "The partitions are those of stock; only their order, random in stock, is fixed.",
        on_mismatch="error", proven={"executorch": "1.5.1"},
    ),
    Patch(
        "own-grids-of-silu", "Let small activations have small steps", "correction",
        ("executorch.backends.arm.quantizer.quantization_config:"
         "TOSAQuantizationConfig.SHARED_OUTPUT_ACT_QSPEC_PATTERNS",),
        "A SiLU does not share the grid of its input, which ExecuTorch 1.4 lets it do.",
        "Newer releases give it a grid of its own too.",
        on_mismatch="error",
        proven={"executorch": "1.5.1"},
    ),
    Patch(
        "folded-weights", "Leave the weights of the float program alone", "correction",
        ("executorch.backends.arm._passes.fold_scalar_mul_into_conv_pass:"
         "FoldScalarMulIntoConvPass._set_get_attr_tensor",),
        "A factor behind a convolution is folded into new weights instead of the given ones.",
        "The folded weights are those of stock; only the float program keeps its own.",
        on_mismatch="error", proven={"executorch": "1.5.1"},
    ),
    Patch(
        "user-modules", "Import the files of a project under their own names", "interpreter",
        ("sys:modules", "sys:path", "sys:path_hooks", "sys:path_importer_cache"),
        "A user's file is a module of the bytes that were read; its folder is searched last.",
        "A name that an installed module has is refused.",
        on_mismatch="error", proven={"python": "3.11, 3.12"},
    ),
    Patch(
        "no-unpickling", "Refuse pickles while a program that is not trusted is loaded",
        "interception", ("torch:load", "torch._C:_pickle_load_obj", "pickle:loads"),
        "The strict reader passes no pickle on; torch's loader could reach them for others.",
        "A program with a pickle is refused.",
        on_mismatch="error", proven={"torch": "2.13.0"},
    ),
    Patch(
        "bounded-pickles", "Bound what torch's reader of tensors may cost", "interception",
        (f"{_READER}:UnpicklingError", f"{_READER}:_get_allowed_globals"),
        "Containers and bytes are made of what the file holds; messages are cut.",
        "What torch.save has written is read as before.",
        on_mismatch="error", proven={"torch": "2.13.0"},
    ),
)  # fmt: skip

PATCHES_BY_ID = {patch.id: patch for patch in PATCHES}
