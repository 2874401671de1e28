"""CORRECTIONS: where stock ExecuTorch gives a program that is not the quantized model.

Each row is on by default, has a switch among the target's options, and is part of the key of the
stages that it changes. With another source than the one it was written for it is not applied, and
the log says so. What is applied lies in ``workbench.engine.toolchain_patches.corrections``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from workbench.errors import ErrorInfo, Place
from workbench.targets.ethos_u.compiler_corrections import COMPILER_CORRECTIONS
from workbench.targets.ethos_u.correction import (
    CELLS,
    CLAMPS,
    COMPUTED,
    CONSTANTS,
    EXECUTORCH,
    FACTORS,
    LINEARS,
    MASKS,
    NORMS,
    ONE_TYPE,
    OWN_WEIGHTS,
    PLAIN,
    QUANTIZED,
    RELEASED,
    RESHAPED,
    ROUNDED,
    SCALARS,
    SINGLE,
    SIZES,
    STEPS,
    SUMS,
    SWITCHED_OFF,
    TABLES,
    TRANSPOSED,
    ZEROS,
    Correction,
    Facet,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import JsonValue

    from workbench.results import AppliedCorrection

CORRECTIONS: tuple[Correction, ...] = (
    Correction(
        id=CLAMPS,
        title="Keep the clamp of a ReLU whose range goes below zero",
        fault="A ReLU behind a convolution or a linear is erased, and only the lower limit of its "
        "grid is set to the zero point. Nothing obeys that limit: where the grid goes below zero, "
        "because cat or a fixed range decides it, negative values pass.",
        link="https://github.com/pytorch/executorch/issues/20486",
        proven=EXECUTORCH,
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
        "the program within 2^30 of its own steps. A grid that is finer than stock's covers eight "
        "times the calibrated range in 16 bits, and twice in 8, or as much as stock's.",
        why_right="Stock's limit keeps biases within 32 bits for any network; the new one is "
        "computed from the biases and weights of this network. Values that calibration did not "
        "see are not cut off, and no step is larger than stock's.",
        step="refinements",
        function="refine_steps",
    ),
    Correction(
        id=TABLES,
        title="Give steep 16-bit functions further tables",
        fault="A 16-bit function has 513 values with straight lines between them. Functions that "
        "bend within 128 codes, such as rsqrt of a norm or exp behind a mask, differ by thousands "
        "of steps from the quantized model. The values of a table end where the grid of its output "
        "ends, so that the line to the first value beyond is too flat: up to 40 steps in softmax.",
        link="",
        proven=EXECUTORCH,
        network="x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) in a16w8",
        instead="Such a table has half the precision and twice the reach. Where one table departs "
        "by more than 32 steps, up to four further tables over windows of codes add the "
        "difference. Both cost cycles, and are applied where they gain 1 dB or more over the noise "
        "that 8-bit weights leave anyway (53 dB below the values; 85 dB where there are none).",
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
        proven=EXECUTORCH,
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
        proven=EXECUTORCH,
        network="q, k, v = linear(x).chunk(3, -1); softmax(q @ k.transpose(1, 2), -1) @ v in "
        "a16w8 for U55, as in GPT-2",
        instead="The quantization stays with the operator whose value it quantizes.",
        why_right="The operator's integers are what its quantization gives.",
        step="lowering",
        function="quantized_by_makers",
    ),
    Correction(
        id=COMPUTED,
        title="Leave convolutions with computed weights to the CPU",
        fault="A convolution in 8 bits whose weights are computed, as in dynamic convolutions and "
        "trackers that correlate with a template, is taken for the NPU, and ExecuTorch's passes "
        'fail on it ("unsupported param type, call_function").',
        link="",
        proven=EXECUTORCH,
        network="conv2d(x, self.template(y)) in a8w8",
        instead="It runs on the CPU in float.",
        why_right="The CPU computes the float convolution of the quantized values, which is what "
        "the quantized model does.",
        step="lowering",
        function="computed_weights_refused",
    ),
    Correction(
        id=RELEASED,
        title="Keep values off the NPU that it would only pass through",
        fault="A value that a partition takes and returns unchanged has no operator in TOSA, and "
        "Vela rejects the whole program.",
        link="",
        proven=EXECUTORCH,
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
        proven=EXECUTORCH,
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
        proven=EXECUTORCH,
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
        proven=EXECUTORCH,
        network="embedding(torch.cumsum(torch.ones(1, 12), 1).long() - 1)",
        instead="Such values are computed once, and stand in the program as constants. What is "
        "larger than its parts is left alone.",
        why_right="They are the same at every run.",
        step="rewrites",
        function="fold_constants",
    ),
    Correction(
        id=MASKS,
        title="Keep the huge numbers of masks and limits out of ranges",
        fault="A mask of -1e9, -3.4e38 or -10,000, also one that is computed, and a limit of a "
        "clamp that is meant as none, are quantized with the values beside them: their step "
        "becomes so large that nothing else is left. Infinities and the least float alone get "
        "another number, and then a row that is masked everywhere is no longer even.",
        link="",
        proven=EXECUTORCH,
        network="softmax(q @ k.T + (1 - mask) * -3.4e38, -1)",
        instead="What is masked becomes the least of the scores it is compared with, less 14. "
        "A row that is masked everywhere is even or keeps its scores, as in eager mode. A limit "
        "that no value reaches is left out.",
        why_right="What is masked has no weight in a softmax and is no maximum, with any number "
        "that is less than all scores.",
        step="rewrites",
        function="bound_masks",
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
        id=NORMS,
        title="Fold batch norms only where and how they can be folded",
        fault="A batch norm is folded into the convolution or linear before it for all readers of "
        "that, also for those that want the value before the norm, as in residual networks with "
        "norms first: the quantized model is another one. Folding fails for weights that are "
        "buffers or computed, as fixed filters, weight norm and spectral norm have them, for "
        "linears without a bias, for norms without weights behind a linear, and for transposed "
        "convolutions in groups.",
        link="",
        proven={"torchao": "0.18.0"},
        network="x = conv(image); relu(bn(x)) + x; bn(linear(x)) without a bias; "
        "bn(weight_norm(conv)(x))",
        instead="A norm that cannot be folded becomes a convolution with one weight a channel, or "
        "a product and a sum. The others are given parameters before folding.",
        why_right="Both are the same functions of real numbers.",
        step="module",
        function="fit_norms",
    ),
    Correction(
        id=PLAIN,
        title="Write operators without a pattern with operators that have one",
        fault="The quantizer has no pattern for pools over one dimension or the whole "
        "image, instance norms, RMSNorm, softplus, mish, logsigmoid, logsumexp, roll, rrelu, std, "
        "clamp_min, expand_as, max and min of two tensors or of all, square, lerp, addcmul, "
        "pairwise_distance, channel_shuffle, log2, exp2 and nearest interpolation over one "
        "dimension: they stay on the CPU in float, and split the program. A convolution with an "
        'even kernel and padding "same" is padded after quantization, and its program is wrong. '
        "An input that is padded by nothing is passed through, and Vela rejects the program. A "
        "padding by less than nothing, as in the time shift of RWKV, cannot be lowered. A product "
        "of a tensor and a computed vector is compiled wrongly. Maxima whose places are read are "
        "not prepared, and a division by whole numbers, as by a length, is not lowered. "
        "Interpolations that are bicubic, or linear over one or three dimensions, become up to 164 "
        "operators on the CPU.",
        link="",
        proven=EXECUTORCH,
        network="torch.nn.AdaptiveAvgPool1d(1)(conv1d(x)); x @ x.mean((0, 1))",
        instead="They are written with means, pools over two dimensions, group norms, tables and "
        "slices; paddings by nothing are left out, those by less are slices; a vector becomes a "
        "matrix of one column or row; places are found apart on the CPU, and whole numbers become "
        "floats before they divide; an interpolation is a product with a matrix along each "
        "dimension.",
        why_right="Each is the same function of real numbers, and every part has a grid of its "
        "own.",
        step="rewrites",
        function="write_plainly",
    ),
    *COMPILER_CORRECTIONS,
    Correction(
        id=CELLS,
        title="Write recurrent cells out",
        fault="The quantizer has no pattern for the cells of GRU, LSTM and RNN as one operator: "
        "they stay on the CPU in float, or quantizing fails.",
        link="",
        proven=EXECUTORCH,
        network="torch.nn.LSTMCell(6, 8) called in a loop",
        instead="A cell is written with linears and gates, as the layers of the same name are.",
        why_right="These are the formulas of the cell.",
        step="rewrites",
        function="write_out_cells",
    ),
    Correction(
        id=LINEARS,
        title="Take a product with constant weights and a bias, or a constant vector, as a linear",
        fault="addmm with constant weights and bias, as GPT-2 has it, is taken apart into three "
        "products; quantizing fails on the scalar beside the bias. A product with a constant "
        "vector, as box heads of NanoDet and PicoDet have it, leaves a float constant that cannot "
        "be lowered, or stays on the CPU as a product and a sum.",
        link="",
        proven=EXECUTORCH,
        network="torch.addmm(self.bias, x, self.weight); x.softmax(-1) @ self.steps",
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
        proven=EXECUTORCH,
        network="torch.addmm(self.bias, x, y, beta=0.5)",
        instead="The type is asked of the parameter.",
        why_right="The product is the one that the pass wanted.",
        step="patches",
        function="constants_scaled",
    ),
    Correction(
        id=ZEROS,
        title="Give average pools the zero points of their grids",
        fault="The zero points of an average pool are quantized like real numbers. Input and "
        "output get the same wrong one, which cancels, but a mean that lies halfway between two "
        "integers goes up or down by the sign of a sum that is shifted.",
        link="",
        proven=EXECUTORCH,
        network="AvgPool2d(2) of values on both sides of zero in a8w8",
        instead="The zero points are those of the grid.",
        why_right="TOSA subtracts them before it sums, and halves go away from zero for real.",
        step="lowering",
        function="zero_points_kept",
    ),
    Correction(
        id=SIZES,
        title="Write sizes of constants as numbers",
        fault="Attention whose queries or keys are constants is taken apart with operators that "
        'ask a constant for its size, and the quantizer fails on numbers among tensors ("Could '
        'not get device from 4").',
        link="",
        proven=EXECUTORCH,
        network="scaled_dot_product_attention(self.query, key(x), value(x)), as in DETR",
        instead="The constants have the sizes that they have.",
        why_right="The sizes of constants do not change.",
        step="patches",
        function="sizes_fixed",
    ),
    Correction(
        id=RESHAPED,
        title="Reshape where a view is not possible",
        fault="Einsum and attention are taken apart into operators whose results lie in another "
        'order in memory, and the views behind them fail ("Cannot view a tensor").',
        link="",
        proven=EXECUTORCH,
        network="(torch.einsum('bhwc,hkc->bhwk', x, self.rel) + y).view(b, -1, k), as in MViTv2",
        instead="Such a view is a reshape.",
        why_right="Both give the same values.",
        step="patches",
        function="views_reshaped",
    ),
    Correction(
        id=ONE_TYPE,
        title="Write values into a tensor in its own type",
        fault="Constants of 64-bit integers are made 32 bits wide, and torch refuses to write them "
        'into a tensor that is still 64 bits wide ("Index put requires the source and '
        'destination dtypes match").',
        link="",
        proven=EXECUTORCH,
        network="inverse = torch.empty_like(order); inverse[order] = torch.arange(8), as in "
        "mixtures of experts",
        instead="What is written gets the type of the tensor.",
        why_right="Only integers whose values fit are made narrower.",
        step="patches",
        function="written_in_one_type",
    ),
    Correction(
        id=SINGLE,
        title="Keep single numbers of loops without dimensions",
        fault="Numbers in comparisons and sums get one dimension. What a loop asks for and carries "
        'gets it with them, and torch refuses the loop ("cond_fn must return a boolean scalar").',
        link="",
        proven=EXECUTORCH,
        network="while_loop(lambda y: y.abs().sum() > 1, lambda y: (y * 0.5,), (conv(x).relu(),)) "
        "for U85",
        instead="The dimension is taken off before the loop reads the value.",
        why_right="The value is one number with and without it.",
        step="patches",
        function="loops_kept_single",
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


# What ExecuTorch, torchao and Vela end with where they fail on a program.
_TOOLS_FAILED = {"unexpected", "preparing-failed", "lowering-failed", "vela-compile-failed"}


def with_switches(
    infos: tuple[ErrorInfo, ...], options: Mapping[str, JsonValue]
) -> tuple[ErrorInfo, ...]:
    """Return the problems of a stage; failures of the tools name the corrections that are off.

    Args:
        infos: The problems that stopped the stage.
        options: Options of the target.
    """
    off = [row for row in CORRECTIONS if not is_wanted(row.id, options)]
    if not off or any(info.code == SWITCHED_OFF for info in infos):
        return infos
    return tuple(_blamed(info, off) if info.code in _TOOLS_FAILED else info for info in infos)


def _blamed(info: ErrorInfo, off: list[Correction]) -> ErrorInfo:
    """Return a failure of the tools with the switches of corrections as its likely cause."""
    one, *others = off
    which = "one of the corrections that are off" if others else f"that {one.title!r} is off"
    message = f"The tools fail: {info.message}" if info.code == "unexpected" else info.message
    return info.model_copy(
        update={
            "message": message[:600],
            "hint": f"The likely cause is {which}. Switch {'them' if others else 'it'} on "
            f"({switching_on(row.id for row in off)}).",
            "where": Place(kind="option", id=f"target.options.{one.id}"),
            "code": SWITCHED_OFF,
        }
    )


def switching_on(corrections: Iterable[str]) -> str:
    """Return the command that switches corrections on."""
    return f"workbench target PROJECT {' '.join(f'{name}=true' for name in corrections)}"
