"""Corrections of what the compiler makes of programs: rows of ``corrections``."""

from __future__ import annotations

from workbench.targets.ethos_u.correction import (
    EXECUTORCH,
    FLIPPED,
    JOINED,
    LAYOUTS,
    MINIMA,
    MOVED,
    NEGATED,
    ONE_TABLE,
    ONES,
    OUTPUTS,
    PIXELS,
    POOLS,
    REARRANGED,
    RESCALED,
    ROWS,
    SLICES,
    TURNED,
    VELA,
    Correction,
)

COMPILER_CORRECTIONS: tuple[Correction, ...] = (
    Correction(
        id=MINIMA,
        title="Write minima over dimensions as negated maxima",
        fault="For U55 and U65 Vela writes a minimum as -1 minus the maximum of -1 minus the "
        "values. Both subtractions share one constant, which is broadcast for the first; the "
        "second reads it with the wrong shape, and most elements are wrong.",
        link="",
        proven=VELA,
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
        proven=VELA,
        network="torch.nn.functional.pad(conv(x).amax(1, keepdim=True), (0, 0, 1, 1)) with one "
        "channel, in a8w8 for U55",
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
        proven=VELA,
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
        title="Copy slices and pads before operators that lose their offset",
        fault="Vela lets an operator read a sliced tensor in place. Maxima, minima, sums, means, "
        "matrix products, transposed convolutions, depthwise convolutions with several outputs "
        "a channel, convolutions with a dilation above two, all convolutions of a batch, and on "
        "U85 convolutions and pools with a stride above three then read with the wrong offset or "
        "shape: other elements, or beyond the memory. ExecuTorch writes a slice too where rows are "
        "left over behind the last window, and for each of several groups. For U55 and U65 Vela's "
        "process ends where an operator on each element reads a slice of five dimensions. For U85 "
        "Vela computes several operators on elements in a chain, and one behind the first reads a "
        "slice that it repeats, as for all rows, from the start of the sliced tensor. A "
        "padding with zeros becomes that of the convolution behind it; where a reshape between "
        "them makes other images, as for a batch in one dimension, it reads other elements.",
        link="",
        proven={"executorch": "1.5.1", "ethos-u-vela": "5.1.0"},
        network="conv(x)[:, :, 2:].amax(3) in a8w8; q, k, v = linear(x).chunk(3, -1), then "
        "q @ k.transpose(-1, -2) for U55; q, k, v = qkv.unbind(0), then q * scale with windows as "
        "a batch, as in Swin; x * scale + shift in a8w8 for U85, with scale and shift from "
        "chunk(2, -1), as in a diffusion transformer; Conv1d(4, 4, 3)(pad(x, (2, 0))) over a "
        "batch in a16w8",
        instead="The slice or pad is copied before such an operator reads it, which costs the "
        "cycles of the copy.",
        why_right="The copy is a maximum over windows of one element, which is the element.",
        step="lowering",
        function="slices_computed",
    ),
    Correction(
        id=JOINED,
        title="Copy what would lose its place in a joined tensor",
        fault="Vela lets an operator write its part of a joined or padded tensor in place. A "
        "depthwise convolution with several outputs a channel then loses its place, or Vela "
        "rejects the program. On U55 and U65 a resize reads beyond its input, and a matrix product "
        "in four dimensions loses its place.",
        link="",
        proven={"executorch": "1.5.1", "ethos-u-vela": "5.1.0"},
        network="torch.cat([Conv2d(4, 8, 3, groups=4)(x), conv(x)], 1) in a8w8; "
        "pad(q @ k.transpose(2, 3), (1, 0)) for U55, as in relative attention",
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
        title="Compute clamps and functions of batches as rows",
        fault="Vela computes a pointwise convolution over a batch, which a linear over rows is, as "
        "one over an image. With a clamp of its own between two of them, as a ReLU is in 16 bits "
        "and a hardtanh in 8, all rows but the first are wrong. So they are where a ReLU of a sum, "
        "a product or a pool is read by a linear over rows, in 8 and 16 bits, and where a function "
        "or clamp reads sums or maxima of a batch of images.",
        link="",
        proven={"executorch": "1.5.1", "ethos-u-vela": "5.1.0"},
        network="linear_b(torch.relu(linear_a(x))) over [1, 6, 16] in a16w8; "
        "linear_b(torch.relu(linear_a(x) + x)) in a8w8, as residual blocks of linears have it; "
        "x / (x.norm(dim=1, keepdim=True) + 0.1) over [3, 6, 6, 12]",
        instead="The clamp or function gets the rows of one image.",
        why_right="A reshape moves no value, and both work on each element alone.",
        step="lowering",
        function="clamps_over_rows",
    ),
    Correction(
        id=LAYOUTS,
        title="Compute activations before changes of layout",
        fault="For U85 Vela joins an operator, its activation, a transpose or flip, and the "
        "activation behind it, and computes the first activation alone. Where the result is a part "
        "of a joined tensor, it joins a convolution, a transpose and the activation too: it splits "
        "the channels, computes the first of them twice, and reads weights beyond their end. "
        "On all devices an 8-bit activation is joined with a transpose of five dimensions, which "
        "Vela computes in steps, and is written to wrong places.",
        link="",
        proven={"executorch": "1.5.1", "ethos-u-vela": "5.1.0"},
        network="torch.sigmoid(torch.flip(torch.tanh(x), [3])) in a8w8 for U85; "
        "torch.cat([torch.sigmoid(Conv2d(4, 1, 1)(x)), torch.sigmoid(Conv2d(4, 4, 1)(x))], 1), as "
        "in the heads of YOLOX; Conv2d(3, 24, 1)(x).view(1, 3, 8, 4, 4).permute(0, 1, 3, 4, 2)"
        ".sigmoid() in a8w8, as in the rows of YOLOv5",
        instead="The second activation comes before the change of layout. Behind a transpose of "
        "five dimensions the result is copied first, which costs the cycles of the copy.",
        why_right="An activation works on each element alone. The copy is a maximum over windows "
        "of one element, which is the element.",
        step="lowering",
        function="activations_before_layouts",
    ),
    Correction(
        id=NEGATED,
        title="Rescale negated values to their grid",
        fault="A negation is a negation of integers, which is right where its output has the step "
        "of its input. Where calibration gives another step, every value is off.",
        link="",
        proven=EXECUTORCH,
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
        proven=EXECUTORCH,
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
)
