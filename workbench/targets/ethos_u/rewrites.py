"""REWRITES: the same network with fewer cycles on the NPU.

Each row is on by default, has a switch among the target's options, and is part of the key of the
stage *Prepare*. A rewrite computes the same function in real numbers, with the same grids for
activations; the functions are in ``workbench.engine.ethos_u.rewrites``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from workbench.results import AppliedRewrite

GROUP = "Faster programs"


@dataclass(frozen=True)
class Rewrite:
    """One form of a network that costs cycles for nothing, and the one that is written instead.

    Attributes:
        id: The name of the option that switches it.
        title: What it does, in a few words.
        fault: Why the network as it was written is slow.
        network: The smallest network that shows it.
        instead: What is written instead, and where it is not.
        why_exact: Why both compute the same function.
        module: Its file in ``workbench.engine.ethos_u.rewrites``.
        function: The name of its function there.
    """

    id: str
    title: str
    fault: str
    network: str
    instead: str
    why_exact: str
    module: str
    function: str


PADS, LINEARS, SHUFFLES = "pads_into_convolutions", "linear_maps_merged", "shuffles_as_convolutions"
STRIDES, KERNELS, TAILS = "strides_to_channels", "taps_to_channels", "cut_unread_tails"
PATCHES = "patches_to_convolutions"
TRANSPOSED, POOL_PADS, POOLS = "transposed_to_channels", "pads_into_pools", "pools_to_rows"
NORMS_FORWARD, NORMS_AS_ONE = "norms_into_next_layer", "norms_as_one_operation"
GROUPS, MEANS, DILATIONS = "groups_of_channels", "means_into_layers", "dilations_to_rows"
PARTS, FACTORS = "parts_before_layouts", "factors_into_layers"

# In the order in which they are applied.
REWRITES: tuple[Rewrite, ...] = (
    Rewrite(
        id=PADS,
        title="Take zeros into the padding of convolutions",
        fault="Zeros around a tensor are a copy of it, though convolutions pad for nothing.",
        network="Conv2d(16, 16, 3)(pad(relu(Conv2d(16, 16, 1)(x)), (1, 1, 1, 1))) for x of [1, 16, 32, 32]",
        instead="The convolutions that read it pad. Not where the zeros differ between both sides of "
        "an axis, or reach beyond the kernel.",
        why_exact="Padding of a convolution is zeros.",
        module="layers",
        function="take_pads",
    ),
    Rewrite(
        id=POOL_PADS,
        title="Take pads into pools",
        fault="What is padded before a pool is a copy of the tensor. The least number, as it is padded "
        "before a largest value, leaves no steps for the others in 8 bits.",
        network="max_pool2d(pad(relu(Conv2d(8, 16, 3)(x)), (0, 1, 0, 1), value=-inf), 3, 2) "
        "for x of [1, 8, 50, 50]",
        instead="The pool pads, or its last windows end beyond the tensor. A mean over windows of up to 3 "
        "with zeros is a convolution of each channel. Zeros are taken into a pool of largest values "
        "only where no value is below zero.",
        why_exact="Padding of such a pool is less than every value, and padding of a convolution is zeros.",
        module="pools",
        function="take_pool_pads",
    ),
    Rewrite(
        id=LINEARS,
        title="Merge layers without a function between them",
        fault="Two linears or convolutions in a row compute what one of them can, and the tensor between "
        "them is written and read.",
        network="Linear(64, 32)(Linear(64, 64)(x)) for x of [1, 16, 64]",
        instead="One layer with the product of their weights, where that has at most as many weights, with "
        "8 bits throughout. Of two convolutions one has a kernel of one place.",
        why_exact="W (V x + b) + c = (W V) x + (W b + c). The tensor between them is rounded no more.",
        module="layers",
        function="merge_linear_maps",
    ),
    Rewrite(
        id=PATCHES,
        title="Write layers over gathered patches as convolutions",
        fault="Patches that views and permutations, unfolding or pixel unshuffles cut out of a picture "
        "are several changes of layout, each of the whole picture.",
        network="Linear(768, 96)(Unfold(16, stride=16)(x).transpose(1, 2)) for x of [1, 3, 224, 224]",
        instead="The linear or 1 x 1 convolution is a convolution over the picture. Not where patches "
        "leave out places, are in another order than row by row, or something else reads them.",
        why_exact="Every product is the same: the numbers of the places are moved to find them.",
        module="patches",
        function="write_patches",
    ),
    Rewrite(
        id=SHUFFLES,
        title="Write pixel shuffles as convolutions",
        fault="A pixel shuffle is a dozen changes of layout, on U85 each of up to 20 cycles an element.",
        network="pixel_shuffle(Conv2d(16, 64, 3, padding=1)(x), 2) for x of [1, 16, 32, 32]",
        instead="The convolution before it is one for each row of the results, with its outputs in the "
        "order in which memory has the places. Without one before it, convolutions with weights of zero "
        "and one move the values.",
        why_exact="The outputs are the same, or each is one value times one.",
        module="layers",
        function="write_shuffles",
    ),
    Rewrite(
        id=TRANSPOSED,
        title="Write transposed convolutions as convolutions",
        fault="Between the values of a transposed convolution are zeros, and Vela multiplies them too: with "
        "a stride of 2 three of four products. On U85 larger strides are one operation for each column, "
        "on U55 and U65 they run on the CPU.",
        network="ConvTranspose2d(16, 8, 8, stride=4, padding=2)(relu(Conv2d(8, 16, 3, padding=1)(x))) "
        "for x of [1, 8, 24, 24]",
        instead="Of a stride of n, n results in a row become channels of a convolution with the stride 1. "
        "In memory these channels are places already; each of n rows is a convolution by itself.",
        why_exact="Every product is one of the transposed convolution, or has the weight zero.",
        module="layers",
        function="write_transposed",
    ),
    Rewrite(
        id=PARTS,
        title="Take parts of channels before the layout is changed",
        fault="Queries, keys and values of one product are channels beside each other. Where their axis "
        "is moved to the front first, the whole tensor is moved in memory, row by row for U55, and each "
        "part once more.",
        network="q, k, v = Linear(96, 288)(x).reshape(1, 64, 3, 4, 24).permute(2, 0, 3, 1, 4).unbind(0)",
        instead="The channels of each part are taken first, which the NPU reads where they are, and the "
        "layout of each is changed once. Not where something else reads the moved tensor, or a part is "
        "not of channels beside each other.",
        why_exact="The elements are the same.",
        module="parts",
        function="take_parts_first",
    ),
    Rewrite(
        id=FACTORS,
        title="Take constant factors into layers",
        fault="ExecuTorch multiplies queries and keys of an attention by the root of its factor, each an "
        "operation over the whole tensor with conversions of its own.",
        network="scaled_dot_product_attention(q, k, v) with q, k, v = "
        "(Linear(96, 96)(x).view(1, 64, 4, 24).transpose(1, 2) for three layers)",
        instead="An attention without a mask has one factor, of the queries. A factor of what a layer "
        "computes, also behind changes of layout, goes into its weights and its bias. Not where something "
        "else reads what the layer computes.",
        why_exact="(s q) k = s (q k), and s (W x + b) = (s W) x + s b. The weights of an output and their "
        "grid have the same factor.",
        module="factors",
        function="take_factors",
    ),
    Rewrite(
        id=GROUPS,
        title="Take norms over groups from the means of channels",
        fault="The channels of a group become rows of one axis. The layout of the whole tensor is changed "
        "for that several times, and the weight and the bias are read anew for every row.",
        network="Conv1d(32, 32, 3)(relu(GroupNorm(4, 32)(Conv1d(12, 32, 7)(x)))) for x of [1, 12, 503]",
        instead="Means are taken of each channel, and a small product makes those of groups of them. Where "
        "a pool of largest values follows, and all weights are above zero, only what it leaves is divided. "
        "Not for more than one sample at once.",
        why_exact="Groups have channels of one size: their mean is the mean of the means. The largest "
        "value is the largest behind a factor above zero, too.",
        module="norm_groups",
        function="write_group_norms",
    ),
    Rewrite(
        id=TAILS,
        title="Do not compute places that nothing reads",
        fault="Where the places of a tensor do not divide by the stride of the layer that reads "
        "it, the last ones are computed, and the tensor is copied without them.",
        network="max_pool1d(relu(Conv1d(1, 32, 80, 4)(x)), 4) for x of [1, 1, 16000]",
        instead="The tensor is cut at an earlier layer or at the input, where that copies at most "
        "half as many elements. Layers with padding in between prevent it.",
        why_exact="What is cut contributes to no output.",
        module="tails",
        function="cut_unread_tails",
    ),
    Rewrite(
        id=POOLS,
        title="Write pools with strides above 3 as pools of single windows",
        fault="Means with a stride above 3 run on the CPU of U55 and U65, and largest values with such a "
        "stride are computed at every place, then most are left out.",
        network="AvgPool2d((1, 8))(relu(Conv2d(8, 16, 1)(x))) for x of [1, 8, 4, 256]",
        instead="Where windows are beside each other, each is a row of an image by itself. In memory its "
        "values are in that order already. Not on U85 for more than 384 Ki values, "
        "which its SRAM does not hold.",
        why_exact="Each result is of the same values.",
        module="pools",
        function="write_pools_of_rows",
    ),
    Rewrite(
        id=NORMS_FORWARD,
        title="Take norms behind activations and of inputs into the next layer",
        fault="A batch norm that follows no convolution costs four operations over the whole "
        "tensor: a difference, two products and a sum. An input that is normalized costs two, and so do "
        "the weight and the bias of a layer norm or group norm.",
        network="Conv1d(8, 8, 3)(BatchNorm1d(8)(relu(Conv1d(12, 8, 3)(x))))",
        instead="The convolutions without padding and linears that read it, also behind pools and "
        "means, take its factor and summand into their weights and biases, and so do they with sums, "
        "differences, products and quotients with constants, and with weights and biases of norms over "
        "values. Not where a reader cannot, or where the "
        "8-bit weights would make more noise: 9 dB beside 8-bit activations, none beside 16-bit ones.",
        why_exact="W (a x + b) + c = (W a) x + (W b + c). Padding would be zeros behind the norm.",
        module="norms",
        function="fold_norms_forward",
    ),
    Rewrite(
        id=NORMS_AS_ONE,
        title="Compute other norms with one operation",
        fault="A batch norm that can be taken into no layer costs four operations over the whole tensor, "
        "and several operations with constants in a row, as of inputs, cost one each. The weight and the "
        "bias of a layer norm or group norm are read anew for every row: up to 25 cycles an element.",
        network="Conv1d(8, 8, 3, padding=1)(BatchNorm1d(8)(relu(Conv1d(12, 8, 3)(x))))",
        instead="It is a convolution with one weight for each channel. Operations with constants stay on "
        "U85, where they take fewer cycles, and behind layers; on U85 so do weights of norms over values.",
        why_exact="An evaluated batch norm is a factor and a summand for each channel.",
        module="norms",
        function="write_norms_as_one",
    ),
    Rewrite(
        id=MEANS,
        title="Take the means of layer norms into the layers before",
        fault="A layer norm takes the mean over the channels off every value, 1.5 cycles an element "
        "on U55-128.",
        network="LayerNorm(64)(Linear(32, 64)(x)) for x of [1, 100, 32]",
        instead="The weights and the bias of the linears and convolutions before it have no mean over "
        "their outputs. Sums, changes of layout and constants may be in between, as between the layers "
        "of transformers. Not where something but such a norm reads what they compute.",
        why_exact="The mean over the outputs of a linear map is linear. The norm is the same for "
        "values with another mean.",
        module="norm_means",
        function="take_means",
    ),
    Rewrite(
        id=DILATIONS,
        title="Write dilated convolutions over sequences as ones over images",
        fault="Dilations of the NPU end at 2. Vela compiles a larger one as several convolutions, and copies "
        "their results together.",
        network="Conv1d(24, 24, 2, dilation=8)(x) for x of [1, 24, 512]",
        instead="The sequence becomes an image whose rows are as long as the dilation, and the kernel "
        "one column. In memory the values are in that order already. Not with a stride.",
        why_exact="Values that are a dilation apart are below each other in the image. Every product is one "
        "of the convolution as it was written, or one with a zero.",
        module="dilations",
        function="write_dilations",
    ),
    Rewrite(
        id=STRIDES,
        title="Write strides above 3 as channels",
        fault="Strides of the NPU end at 3. Vela compiles a larger one as one operation for each "
        "column of the result, which multiplies one value where 128 or more fit.",
        network="Conv2d(3, 96, 4, stride=4)(x) for x of [1, 3, 224, 224]",
        instead="Positions along the axis become channels, and the taps of the kernel with them: "
        "a convolution with the stride 1, or a linear where the patches do not overlap. Patches "
        "are gathered by copies of whole rows, on U85 of each of up to 16 channels of an input.",
        why_exact="Every product is one of the convolution as it was written, or has the weight "
        "zero. The weights of an output are the same numbers, so that their grid is the same.",
        module="strides",
        function="write_strides",
    ),
    Rewrite(
        id=KERNELS,
        title="Write large kernels over few channels as channels",
        fault="The NPU multiplies 8 channels at once. With one channel, seven of eight products "
        "are with nothing.",
        network="Conv1d(1, 32, 251)(x) for x of [1, 1, 4000]",
        instead="Several positions become channels, and as many results at once the outputs, for "
        "kernels of 16 taps or more where that takes at most half the products. Not for the first layer "
        "over a sequence of one channel on U85, with a stride of 1: there reading weights takes longest.",
        why_exact="Every product is one of the convolution as it was written, or has the weight "
        "zero. The weights of an output are the same numbers, so that their grid is the same.",
        module="strides",
        function="write_large_kernels",
    ),
)
REWRITES_BY_ID = {rewrite.id: rewrite for rewrite in REWRITES}


def enabled_rewrites(options: Mapping[str, JsonValue]) -> tuple[Rewrite, ...]:
    """Return the rewrites that the options of a target leave on."""
    return tuple(row for row in REWRITES if options.get(row.id) is not False)


def rewrites_off(options: Mapping[str, JsonValue]) -> list[JsonValue]:
    """Return the ids of the rewrites that the options of a target switch off."""
    return [row.id for row in REWRITES if options.get(row.id) is False]


def described_rewrite(applied: AppliedRewrite) -> dict[str, Any]:
    """Return what became of a rewrite, with its title, for manifests and documents."""
    return {**applied.model_dump(mode="json"), "title": REWRITES_BY_ID[applied.id].title}
