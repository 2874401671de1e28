"""CORRECTIONS: where stock ExecuTorch gives a program that is not the quantized model.

Each row is on by default, has a switch among the target's options, and is part of the key of the
stages that it changes. With another source than the one it was written for it is not applied, and
the log says so. What is applied lies in ``workbench.engine.toolchain_patches.corrections``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pydantic import JsonValue

    from workbench.results import AppliedCorrection

# Which stage a correction changes, as the facets of the target: "quantizer" or "compile".
Facet = Literal["quantizer", "compile"]

# When its function runs. module: on the float program's module. rewrites: on its graph, before
# ExecuTorch takes operators apart. patches: a context manager, while it does. refinements: on the
# annotated graph. lowering: a context manager, while the quantized program is lowered. compiling: a
# context manager, while Vela compiles; it is entered before those that watch Vela.
Step = Literal["module", "rewrites", "patches", "refinements", "lowering", "compiling"]
GROUP = "Corrections"


@dataclass(frozen=True)
class Correction:
    """One defect of the tools, and what is done instead.

    Attributes:
        id: The name of the option that switches it.
        title: What it does, in a few words.
        fault: What is wrong with the stock tools.
        link: Where the defect is reported; "" where it is not.
        proven: Versions it was proven with, by package.
        network: The smallest network that shows the defect.
        instead: What is done instead.
        why_right: Why the corrected program computes what the quantized model does.
        step: When its function runs.
        function: The name of its function in ``workbench.engine.toolchain_patches``.
    """

    id: str
    title: str
    fault: str
    link: str
    proven: Mapping[str, str]
    network: str
    instead: str
    why_right: str
    step: Step
    function: str

    @property
    def facet(self) -> Facet:
        """Which stage it changes."""
        return "compile" if self.step in {"lowering", "compiling"} else "quantizer"


CLAMPS, FACTORS, TABLES = "keep_relu_clamps", "fine_factors", "fine_tables"
STEPS, ROUNDED, RELEASED = "fine_steps", "rounded_convolutions", "release_passthrough"
QUANTIZED, MOVED = "quantized_where_computed", "layouts_moved_to_values"
TRANSPOSED, SUMS = "zeros_for_transposed", "sums_in_8_bits"
CONSTANTS, OWN_WEIGHTS = "folded_constants", "own_weights"
MINIMA, ONES, ONE_TABLE = "minima_from_maxima", "drop_reductions_of_one", "one_table_in_chain"
OUTPUTS, REARRANGED, SLICES = "outputs_kept", "constants_rearranged", "slices_computed"
TURNED, LAYOUTS = "clamps_before_transposes", "activations_before_layouts"
JOINED, FLIPPED = "joined_computed", "flips_of_copies"
RESCALED, POOLS, ROWS = "rescales_joined", "padded_pools", "clamps_over_rows"
NEGATED, PIXELS = "negations_rescaled", "repeated_pixels"
CELLS, LINEARS, SCALARS = "written_out_cells", "linears_from_addmm", "scalars_beside_parameters"
PLAIN = "plain_operators"
_EXECUTORCH = {"executorch": "1.5.1"}

_VELA = {"ethos-u-vela": "5.1.0"}

CORRECTIONS: tuple[Correction, ...] = (
    Correction(
        id=CLAMPS,
        title="Keep the clamp of a ReLU whose range goes below zero",
        fault="A ReLU behind a convolution or a linear is erased, and only the lower limit of its "
        "grid is set to the zero point. Nothing obeys that limit: where the grid goes below zero, "
        "because cat or a fixed range decides it, negative values pass.",
        link="https://github.com/pytorch/executorch/issues/20486",
        proven=_EXECUTORCH,
        network="torch.cat([torch.relu(conv_a(x)), conv_b(x)], 1) in a8w8",
        instead="The ReLU stays as a clamp of integers where its grid goes below zero.",
        why_right="Its input and output have one grid, so that the clamp at the zero point is "
        "exact; a grid that starts at zero clamps by itself, and such programs stay as they are.",
        step="lowering",
        function="clamps_kept",
    ),
    Correction(
        id=FACTORS,
        title="Give small constant factors a grid of their own",
        fault="Steps of activations are at least 2^-16 in 8 bits and 2^-12 in 16, those of "
        "constants too. The factor 1/N of a norm or a mean over many elements is below that: it "
        "becomes zero or keeps a few steps, and the whole norm is wrong.",
        link="",
        proven={"executorch": "1.5.1", "torchao": "0.18.0"},
        network="torch.nn.GroupNorm(1, 4) over [1, 4, 192, 192] in a8w8",
        instead="The step of a constant factor may be as small as its values ask for, down to "
        "2^-32 in 8 bits and 2^-40 in 16.",
        why_right="The grid of a factor scales the product and nothing else; a product's rescale "
        "takes any such scale. Factors that the stock step represents keep it.",
        step="refinements",
        function="refine_factors",
    ),
    Correction(
        id=STEPS,
        title="Let small activations have small steps",
        fault="Steps of activations are at least 2^-16 in 8 bits and 2^-12 in 16: a 16-bit tensor "
        "within 8 uses a part of its values, and one within 0.01 has 80 of them.",
        link="",
        proven={"executorch": "1.5.1", "torchao": "0.18.0"},
        network="gelu(linear(x)) * torch.full((16,), 1e-3) in a16w8",
        instead="The least step is 2^-24 in 8 bits and 2^-32 in 16, or what keeps every bias of "
        "the program within 2^30 of its own steps.",
        why_right="Stock's limit keeps biases within 32 bits for any network; the new one is "
        "computed from the biases and weights of this network.",
        step="refinements",
        function="refine_steps",
    ),
    Correction(
        id=TABLES,
        title="Give steep 16-bit functions further tables",
        fault="A 16-bit function has 513 values with straight lines between them. Functions that "
        "bend within 128 codes, such as rsqrt of a norm or exp behind a mask, differ by thousands "
        "of steps from the quantized model.",
        link="",
        proven=_EXECUTORCH,
        network="x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) in a16w8",
        instead="Where one table departs by more than 32 steps, up to four further tables over "
        "windows of codes add the difference.",
        why_right="In its window a further table has a value for every code, or for every few; "
        "outside it is zero. The program is compared with the quantized model as ever.",
        step="lowering",
        function="tables_refined",
    ),
    Correction(
        id=ROUNDED,
        title="Round a 16-bit convolution once, for all its readers",
        fault="Readers that compute in 32 bits, such as a residual addition or a mean, get the sum "
        "of a 16-bit convolution before it is rounded. Vela rejects a convolution with two results "
        "for U55 and U65, and the values are not those of the quantized model.",
        link="",
        proven=_EXECUTORCH,
        network="x = conv_a(image); x + conv_b(x) in a16w8 for U55",
        instead="Every reader reads the 16-bit result.",
        why_right="The quantized model rounds the convolution's result for every reader.",
        step="lowering",
        function="convolutions_rounded",
    ),
    Correction(
        id=QUANTIZED,
        title="Quantize a value in the part of the program that computes it",
        fault="Where a delegate's value is read by another one too, behind operators on the CPU, "
        "its quantization may be put beside the reader. The first delegate then gives integers, "
        "and the CPU takes them for floats and quantizes them again.",
        link="",
        proven=_EXECUTORCH,
        network="q, k, v = linear(x).chunk(3, -1); softmax(q @ k.transpose(1, 2), -1) @ v in "
        "a16w8 for U55, as in GPT-2",
        instead="The quantization stays with the operator whose value it quantizes.",
        why_right="The operator's integers are what its quantization gives.",
        step="lowering",
        function="quantized_by_makers",
    ),
    Correction(
        id=RELEASED,
        title="Keep values off the NPU that it would only pass through",
        fault="A value that a partition takes and returns unchanged has no operator in TOSA, and "
        "Vela rejects the whole program.",
        link="",
        proven=_EXECUTORCH,
        network="x @ x.transpose(1, 2) in a16w8 for U55",
        instead="Such a value is quantized on the CPU, and the partition takes it from there.",
        why_right="Quantizing is the same function on the CPU.",
        step="lowering",
        function="passthrough_released",
    ),
    Correction(
        id=TRANSPOSED,
        title="Write transposed convolutions with zeros and a convolution",
        fault="Vela rejects 16-bit transposed convolutions for U55 and U65, ExecuTorch scales "
        "their 4-bit weights along the wrong axis, and takes none over one dimension.",
        link="",
        proven=_EXECUTORCH,
        network="torch.nn.ConvTranspose2d(8, 4, 2, stride=2) in a16w8 for U55",
        instead="Zeros are put between the values, and a convolution with turned weights follows. "
        "Transposed convolutions in 8 bits over two dimensions stay as they are, and those in 16 "
        "bits on U85.",
        why_right="Both compute the same sums of the same products.",
        step="rewrites",
        function="insert_zeros",
    ),
    Correction(
        id=SUMS,
        title="Give cumulative sums a kernel of 8 bits",
        fault="A cumulative sum becomes a convolution with ones, which get the type of what was "
        "summed: 16-bit or float weights, which no device supports.",
        link="",
        proven=_EXECUTORCH,
        network="linear(x).cumsum(1) in a16w8",
        instead="The ones have 8 bits.",
        why_right="A one is a one in 8 bits, and its scale is noted as 8 bits already.",
        step="lowering",
        function="sums_in_eight_bits",
    ),
    Correction(
        id=CONSTANTS,
        title="Compute what depends on no input ahead of time",
        fault="Positions, relative positions and masks that a model makes from nothing are "
        "computed at every run, on the CPU or quantized like activations: an index of 4.99 that "
        "becomes an integer is 4.",
        link="",
        proven=_EXECUTORCH,
        network="embedding(torch.cumsum(torch.ones(1, 12), 1).long() - 1)",
        instead="Such values are computed once, and stand in the program as constants. What is "
        "larger than its parts is left alone.",
        why_right="They are the same at every run.",
        step="rewrites",
        function="fold_constants",
    ),
    Correction(
        id=OWN_WEIGHTS,
        title="Fold a batch norm into weights that are used twice",
        fault="Where a convolution with a batch norm is called twice, as in siamese networks and "
        "heads that levels share, the batch norm of the first call is folded into it and those of "
        "the other calls are lost: the quantized model is another one.",
        link="https://github.com/pytorch/ao/pull/2795",
        proven={"torchao": "0.18.0"},
        network="bn_a(conv(x)) + bn_b(conv(y)) in a8w8",
        instead="Every call has weights of its own before folding; equal ones are one again in "
        "the compiled program.",
        why_right="Each call is folded with its own batch norm.",
        step="module",
        function="separate_weights",
    ),
    Correction(
        id=PLAIN,
        title="Write operators without a pattern with operators that have one",
        fault="The quantizer has no pattern for pools over one dimension or the whole "
        "image, instance norms, softplus, mish, logsigmoid, logsumexp, roll and rrelu: they stay "
        "on the CPU in float, and split the program. A convolution with an even kernel and "
        'padding "same" is padded after quantization, and its program is wrong.',
        link="",
        proven=_EXECUTORCH,
        network="torch.nn.AdaptiveAvgPool1d(1)(conv1d(x))",
        instead="They are written with means, pools over two dimensions, group norms, tables and "
        "slices.",
        why_right="Each is the same function of real numbers, and every part has a grid of its "
        "own.",
        step="rewrites",
        function="write_plainly",
    ),
    Correction(
        id=MINIMA,
        title="Write minima over dimensions as negated maxima",
        fault="For U55 and U65 Vela writes a minimum as -1 minus the maximum of -1 minus the "
        "values. Both subtractions share one constant, which is broadcast for the first; the "
        "second reads it with the wrong shape, and most elements are wrong.",
        link="",
        proven=_VELA,
        network="conv(x).amin(-1) in a8w8 for U55",
        instead="The minimum is written as the negated maximum of the negated values.",
        why_right="Both are the same number.",
        step="rewrites",
        function="write_minima",
    ),
    Correction(
        id=ONES,
        title="Leave out reductions of one element",
        fault="Vela leaves out a maximum or minimum over a dimension of size 1, and the copy or "
        "slice beside it reads with a shape or an offset of another tensor.",
        link="",
        proven=_VELA,
        network="torch.nn.functional.pad(x.amax(3, keepdim=True), (0, 1)) with a last dimension of "
        "size 1, in a8w8",
        instead="Maximum, minimum, mean and sum over dimensions of size 1 are left out before "
        "anything is quantized.",
        why_right="Of one element, all four are the element.",
        step="rewrites",
        function="drop_reductions",
    ),
    Correction(
        id=ONE_TABLE,
        title="Compile without chains where two tables would meet in one",
        fault="For U85 Vela loads all tables of a chain before it, but table memory holds one of "
        "16-bit values: the second load evicts the first, and the first function computes with "
        "the table of the second.",
        link="",
        proven=_VELA,
        network="torch.tanh(torch.sigmoid(conv(x)) * y) in a16w8 for U85; LSTM",
        instead="A delegate with such a chain is compiled again without chains, which costs "
        "cycles and memory traffic.",
        why_right="Without chains, every table is loaded in front of its operation.",
        step="compiling",
        function="tables_kept_apart",
    ),
    Correction(
        id=OUTPUTS,
        title="Keep outputs whose layout is changed back",
        fault="Where a value leaves a delegate and is read inside it too, its layout is changed "
        "for the CPU and changed back. Vela joins the two changes and forgets that the first is an "
        "output: the delegate has an output less, and the program reads wrong values.",
        link="",
        proven={"executorch": "1.5.1", "ethos-u-vela": "5.1.0"},
        network="x = conv(image); torch.cat([x, interpolate(other(adaptive_avg_pool2d(x, 1)))], 1) "
        "for U55, as in DeepLab and PSPNet",
        instead="What reads the changed layout inside the delegate reads the value before it.",
        why_right="Both changes together are one, or none.",
        step="lowering",
        function="outputs_kept",
    ),
    Correction(
        id=REARRANGED,
        title="Transpose constants ahead of time",
        fault="Changes of layout are moved across operators after constants were folded, and some "
        "end behind a constant. For U55 Vela lets the program write the transposed constant into "
        "the constants, which are read-only.",
        link="",
        proven={"executorch": "1.5.1", "ethos-u-vela": "5.1.0"},
        network="conv(layer_norm(conv(x))) in a8w8 for U55, with weights of the norm over "
        "channels, height and width",
        instead="The constant is transposed before Vela gets it.",
        why_right="The values are the same, in the same order.",
        step="lowering",
        function="constants_rearranged",
    ),
    Correction(
        id=RESCALED,
        title="Join equal rescales of a convolution",
        fault="Where a convolution is called twice with one input, ExecuTorch computes it once and "
        "rescales it twice. Vela rejects a 16-bit convolution with two rescales for U55 and U65.",
        link="",
        proven={"executorch": "1.5.1", "ethos-u-vela": "5.1.0"},
        network="torch.maximum(conv(x)[:, :, 2:], conv(x)[:, :, :-2]) in a16w8 for U55",
        instead="Equal rescales of one value are one.",
        why_right="They compute the same integers.",
        step="lowering",
        function="rescales_joined",
    ),
    Correction(
        id=SLICES,
        title="Copy slices before operators that lose their offset",
        fault="Vela lets an operator read a sliced tensor in place. Maxima, minima, sums, means, "
        "matrix products, transposed convolutions, depthwise convolutions with several outputs a "
        "channel, and on U85 convolutions and pools with a stride above three then read with the "
        "wrong offset or shape: other elements, or beyond the memory. ExecuTorch writes a slice "
        "too where rows are left over behind the last window.",
        link="",
        proven={"executorch": "1.5.1", "ethos-u-vela": "5.1.0"},
        network="conv(x)[:, :, 2:].amax(3) in a8w8; q, k, v = linear(x).chunk(3, -1), then "
        "q @ k.transpose(-1, -2) for U55",
        instead="The slice is copied before such an operator reads it, which costs the cycles of "
        "the copy.",
        why_right="The copy is a maximum over windows of one element, which is the element.",
        step="lowering",
        function="slices_computed",
    ),
    Correction(
        id=JOINED,
        title="Copy what would lose its place in a joined tensor",
        fault="Vela lets an operator write its part of a joined or padded tensor in place. A "
        "depthwise convolution with several outputs a channel then loses its place, or Vela "
        "rejects the program; a resize on U55 and U65 reads beyond its input.",
        link="",
        proven={"executorch": "1.5.1", "ethos-u-vela": "5.1.0"},
        network="torch.cat([Conv2d(4, 8, 3, groups=4)(x), conv(x)], 1) in a8w8",
        instead="The result is copied into its place, which costs the cycles of the copy.",
        why_right="The copy is a maximum over windows of one element, which is the element.",
        step="lowering",
        function="joined_computed",
    ),
    Correction(
        id=FLIPPED,
        title="Copy matrix products before they are flipped",
        fault="For U85 Vela joins a matrix product with the flip behind it, and its process ends "
        "for devices of 1,024 and 2,048 MACs.",
        link="",
        proven={"executorch": "1.5.1", "ethos-u-vela": "5.1.0"},
        network="torch.flip(q @ k.transpose(1, 2), [2]) in a8w8 for U85-2048",
        instead="The product is copied before the flip, which costs the cycles of the copy.",
        why_right="The copy is a maximum over windows of one element, which is the element.",
        step="lowering",
        function="flips_of_copies",
    ),
    Correction(
        id=POOLS,
        title="Pad before a maximum with a large stride",
        fault="For U85 Vela splits a max pool with a stride above three and loses its padding: "
        "most elements are wrong.",
        link="",
        proven={"executorch": "1.5.1", "ethos-u-vela": "5.1.0"},
        network="max_pool2d(x, 3, stride=4, padding=1) over [1, 3, 33, 33] in a8w8 for U85",
        instead="A padding with the least integer comes before the pool.",
        why_right="No maximum is below the least integer.",
        step="lowering",
        function="pools_padded",
    ),
    Correction(
        id=ROWS,
        title="Clamp the batches of a convolution as rows",
        fault="Vela computes a pointwise convolution over a batch, which a linear over rows is, as "
        "one over an image. With a clamp of its own between two of them, as a ReLU is in 16 bits "
        "and a hardtanh in 8, all rows but the first are wrong.",
        link="",
        proven={"executorch": "1.5.1", "ethos-u-vela": "5.1.0"},
        network="linear_b(torch.relu(linear_a(x))) over [1, 6, 16] in a16w8",
        instead="The clamp gets the rows of one image.",
        why_right="A reshape moves no value, and a clamp works on each element alone.",
        step="lowering",
        function="clamps_over_rows",
    ),
    Correction(
        id=LAYOUTS,
        title="Compute activations before changes of layout",
        fault="For U85 Vela joins an operator, its activation, a transpose or flip, and the "
        "activation behind it, and computes the first activation alone.",
        link="",
        proven={"executorch": "1.5.1", "ethos-u-vela": "5.1.0"},
        network="torch.sigmoid(torch.flip(torch.tanh(x), [3])) in a8w8 for U85",
        instead="The second activation comes before the change of layout.",
        why_right="An activation works on each element alone.",
        step="lowering",
        function="activations_before_layouts",
    ),
    Correction(
        id=NEGATED,
        title="Rescale negated values to their grid",
        fault="A negation is a negation of integers, which is right where its output has the step "
        "of its input. Where calibration gives another step, every value is off.",
        link="",
        proven=_EXECUTORCH,
        network="-torch.amax(-conv(x), 3) in a8w8",
        instead="The negated integers are rescaled to the grid of the output.",
        why_right="The quantized model rounds the negated value to that grid.",
        step="lowering",
        function="negations_rescaled",
    ),
    Correction(
        id=MOVED,
        title="Move a change of layout to the operand that has a layout",
        fault="Changes of layout are moved up through operators. Before an operator of a number "
        "and a value, such as 1 - x, they are moved to the first operand: where that is the "
        "number, the value keeps the other layout, and all elements are in a wrong order.",
        link="",
        proven=_EXECUTORCH,
        network="1 - conv(x) as an output, in a8w8",
        instead="They are moved to the operand that has more than one element.",
        why_right="A single number is the same in every layout.",
        step="lowering",
        function="layouts_moved_to_values",
    ),
    Correction(
        id=PIXELS,
        title="Repeat a single pixel in place of resizing it",
        fault="Vela's process ends on a resize of one element in 16 bits for U55 and U65, and a "
        "bilinear resize stays on their CPU, also that of a single pixel.",
        link="",
        proven={"executorch": "1.5.1", "ethos-u-vela": "5.1.0"},
        network="interpolate(conv(x).mean((2, 3), keepdim=True), size=(8, 8)) in a16w8 for U55",
        instead="The pixel is repeated.",
        why_right="Every value between equal ones is that value.",
        step="rewrites",
        function="repeat_pixels",
    ),
    Correction(
        id=TURNED,
        title="Clamp before a transpose, where the result is joined with others",
        fault="Vela joins a convolution, the transpose behind it and the clamp behind that, and "
        "loses the place of the result in the joined tensor.",
        link="",
        proven={"executorch": "1.5.1", "ethos-u-vela": "5.1.0"},
        network="torch.cat([x, hardtanh(conv(x), 0.0, 6.0)], 3) in a8w8",
        instead="The clamp comes before the transpose.",
        why_right="A clamp works on each element alone.",
        step="lowering",
        function="clamps_before_transposes",
    ),
    Correction(
        id=CELLS,
        title="Write recurrent cells out",
        fault="The quantizer has no pattern for the cells of GRU, LSTM and RNN as one operator: "
        "they stay on the CPU in float, or quantizing fails.",
        link="",
        proven=_EXECUTORCH,
        network="torch.nn.LSTMCell(6, 8) called in a loop",
        instead="A cell is written with linears and gates, as the layers of the same name are.",
        why_right="These are the formulas of the cell.",
        step="rewrites",
        function="write_out_cells",
    ),
    Correction(
        id=LINEARS,
        title="Take a product with constant weights and a bias as a linear",
        fault="addmm with constant weights and bias, as GPT-2 has it, is taken apart into three "
        "products; quantizing fails on the scalar beside the bias.",
        link="",
        proven=_EXECUTORCH,
        network="torch.addmm(self.bias, x, self.weight)",
        instead="It is written as the linear that it is.",
        why_right="A linear is this product, with weights the other way round.",
        step="rewrites",
        function="write_linears",
    ),
    Correction(
        id=SCALARS,
        title="Let scalars meet parameters",
        fault="Where a pass makes a product of a parameter and a scalar, quantizing fails with "
        "\"'Parameter' object has no attribute 'to_tensor'\".",
        link="",
        proven=_EXECUTORCH,
        network="torch.addmm(self.bias, x, y, beta=0.5)",
        instead="The type is asked of the parameter.",
        why_right="The product is the one that the pass wanted.",
        step="patches",
        function="constants_scaled",
    ),
)
CORRECTIONS_BY_ID = {correction.id: correction for correction in CORRECTIONS}


def described(applied: AppliedCorrection) -> dict[str, Any]:
    """Return what became of a correction, with title and link, for manifests and documents."""
    row = CORRECTIONS_BY_ID[applied.id]
    return {**applied.model_dump(mode="json"), "title": row.title, "link": row.link}


def is_wanted(correction: str, options: Mapping[str, JsonValue]) -> bool:
    """Return whether the options of a target leave a correction on."""
    return options.get(correction) is not False


def wanted_corrections(
    options: Mapping[str, JsonValue], facet: Facet | None = None
) -> tuple[Correction, ...]:
    """Return the corrections that the options of a target leave on, of one facet or of both."""
    return tuple(
        row for row in CORRECTIONS if facet in {None, row.facet} and is_wanted(row.id, options)
    )


def switched_off(options: Mapping[str, JsonValue], facet: Facet) -> list[JsonValue]:
    """Return the ids of the corrections of a facet that the options switch off."""
    return [row.id for row in CORRECTIONS if row.facet == facet and not is_wanted(row.id, options)]
