"""What differs between releases of ExecuTorch: digests of the code of functions that changed.

Each was judged by reading the change; a new release is a set of digests for what changed.
"""

from __future__ import annotations

from workbench.engine.toolchain_patches.patching import Pins

_ARM = "executorch.backends.arm._passes"
_FUSION = f"{_ARM}.fuse_quantized_activation_pass:FuseQuantizedActivationPass"
_TABLES = f"{_ARM}.insert_table_ops:InsertTableOpsPass"
_PARTITION = "executorch.backends.arm.tosa.partitioner:TOSAPartitioner.partition"

# By correction, the pins for releases other than that of ``table.PATCHES``.
#
# ExecuTorch 1.4.1: activations are erased for grids that start at zero only, also a hardtanh whose
# limit is inside the grid; the last value of a 16-bit table ends with the grid; a partition is made
# without a context; an average pool asks otherwise for its stride; a convolution with readers in 32
# bits gives its whole sum to all of them.
EARLIER_PINS: dict[str, tuple[Pins, ...]] = {
    "negations_rescaled": (((f"{_FUSION}.call", "fb0ac4c301141d0a"),),),
    "keep_relu_clamps": ((
        (f"{_FUSION}.call", "fb0ac4c301141d0a"),
        (f"{_FUSION}._is_fuseable_quantized_activation", "d8c84d9ae2b9a747"),
        (f"{_FUSION}._is_fuseable_input", "a19ebe148c5f6ffc"),
    ),),
    "rounded_convolutions": ((
        (f"{_ARM}.rewrite_conv_pass:RewriteConvPass._has_int32_rescale_user", "4901c8c33b3a916c"),
        (f"{_ARM}.rewrite_conv_pass:RewriteConvPass._insert_output_conversion", "14882866a6fb770b"),
    ),),
    "fine_tables": ((
        (f"{_TABLES}.call", "1b8b18cf14e0e183"),
        (f"{_TABLES}.generate_16_bit_table_values", "64bdfba110fccb44"),
    ),),
    "quantized_where_computed": (((_PARTITION, "991264287eeea321"),),),
    "release_passthrough": (((_PARTITION, "991264287eeea321"),),),
    "pool_zero_points": ((
        (f"{_ARM}.arm_pass:ArmPass.call_scalar", "b8ed9d230815ae29"),
        (f"{_ARM}.rewrite_avg_pool2d_pass:RewriteAvgPool2dPass.call_operator", "3f4bf98980c91575"),
    ),),
}  # fmt: skip
