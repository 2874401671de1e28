"""Operators that ExecuTorch or Vela take badly, written with others before they are quantized.

A correction changes the graph of a float program and returns the names of the nodes that it
replaced.
"""

from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from .decomposition_tracking import MadeOf
from .graph_writer import Writer, constant_of, finished, floating_calls, quantized_nodes

_ATEN = torch.ops.aten


def minima_from_maxima(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write minima over dimensions as negated maxima.

    Fault: For U55 and U65 Vela writes a minimum as -1 minus the maximum of -1 minus the values.
        Both subtractions share one constant, which is broadcast for the first; the second reads it
        with the wrong shape, and most elements are wrong.
    Instead: The minimum is written as the negated maximum of the negated values.
    Right because: Both are the same number.
    Network: conv(x).amin(-1) in a8w8 for U55
    Tools: ethos-u-vela 5.1.0
    """
    done = list[str]()
    if not quantizer.tosa_spec.is_U55_subset:
        return done
    pairs = [node for node in module.graph.nodes if node.target is _ATEN.min.dim and _has_least_alone(node)]
    for node in (*floating_calls(module, _ATEN.amin.default), *pairs):
        write = Writer(module, node)
        turned = write(_ATEN.mul.Scalar, node.args[0], -1.0)
        most = write(_ATEN.amax.default, turned, *node.args[1:])
        least = write(_ATEN.mul.Scalar, most, -1.0)
        write.replace((least,) if node in pairs else least)
        done.append(node.name)
    return finished(module, done)


def _has_least_alone(pair: fx.Node) -> bool:
    """Return whether only the values of a minimum and its place are read, and are floats."""
    for part in [part for part in pair.users if not part.users]:
        pair.graph.erase_node(part)
    return pair.meta["val"][0].is_floating_point() and all(part.args[1] == 0 for part in pair.users)


_REDUCTIONS = (_ATEN.amax.default, _ATEN.amin.default, _ATEN.mean.dim, _ATEN.sum.dim_IntList)


def drop_reductions_of_one(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Leave out reductions of one element.

    Fault: Vela leaves out a maximum or minimum over a dimension of size 1, and the copy or slice
        beside it reads with a shape or an offset of another tensor.
    Instead: Maximum, minimum, mean and sum over dimensions of size 1 are left out before anything
        is quantized.
    Right because: Of one element, all four are the element.
    Network: torch.nn.functional.pad(conv(x).amax(1, keepdim=True), (0, 0, 1, 1)) with one channel,
        in a8w8 for U55
    Tools: ethos-u-vela 5.1.0
    """
    del quantizer
    done = list[str]()
    for node in floating_calls(module, *_REDUCTIONS):
        value: Any = node.args[0]
        given, result = value.meta["val"], node.meta["val"]
        chosen: Any = (node.args[1] if len(node.args) > 1 else None) or range(given.dim())
        dims = [chosen] if isinstance(chosen, int) else list(chosen)
        kept = [dim for dim in dims if given.shape[dim] != 1]
        if given.dtype != result.dtype or len(kept) == len(dims):
            continue
        write = Writer(module, node)
        if kept:
            value = write(node.target, value, kept, True)
        if value.meta["val"].shape != result.shape:
            value = write(_ATEN.reshape.default, value, [*result.shape])
        write.replace(value)
        done.append(node.name)
    return finished(module, done)


_RESIZES = tuple(
    overload
    for name in ("upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d")
    for overload in (getattr(_ATEN, name).default, getattr(_ATEN, name).vec)
)


def repeated_pixels(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Repeat a single pixel in place of resizing it.

    Fault: Vela's process ends on a resize of one element in 16 bits for U55 and U65, and a bilinear
        resize stays on their CPU, also that of a single pixel.
    Instead: The pixel is repeated.
    Right because: Every value between equal ones is that value.
    Network: interpolate(conv(x).mean((2, 3), keepdim=True), size=(8, 8)) in a16w8 for U55
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    del quantizer
    done = list[str]()
    for node in floating_calls(module, *_RESIZES):
        source: Any = node.args[0]
        if tuple(source.meta["val"].shape[2:]) == (1, 1):
            write = Writer(module, node)
            write.replace(write(_ATEN.expand.default, source, [*node.meta["val"].shape]))
            done.append(node.name)
    return finished(module, done)


def images_sampled_in_float(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Sample images in float, as the CPU does.

    Fault: In 8 bits the image that grid_sample reads, and what it samples, have the range of -1 to
        1, which the shaders of another backend ask for: all else is cut off.
    Instead: grid_sample has no quantization of its own, as in 16 bits.
    Right because: No Ethos-U has the operator. The CPU computes it from floats; what reads the
        result quantizes it with the range that calibration saw.
    Network: grid_sample(4 * x, affine_grid(theta, x.shape)) in a8w8
    Tools: executorch 1.5.1
    """
    sampled = set(floating_calls(module, _ATEN.grid_sampler.default))
    narrow = [node.name for node in sampled & quantized_nodes(module, quantizer, torch.int8)]
    if narrow:
        quantizer.quantizer.set_node_finder(None, MadeOf(tuple(narrow)))
    return narrow


def steps_in_float(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Compute functions with steps in float where values have 16 bits.

    Fault: A 16-bit function has 513 values with straight lines between them: the steps of floor,
        ceil, round, remainders and whole quotients become slopes of 128 codes.
    Instead: They have no quantization of their own.
    Right because: The CPU computes them from floats; what reads the result quantizes it with the
        range that calibration saw.
    Network: torch.floor(4 * linear(x)) in a16w8
    Tools: executorch 1.5.1
    """
    steps = set(floating_calls(module, *_WITH_STEPS)) & quantized_nodes(module, quantizer, torch.int16)
    if steps:
        quantizer.quantizer.set_node_finder(None, MadeOf(tuple(node.name for node in steps)))
    return [node.name for node in steps]


_WITH_STEPS = (
    _ATEN.floor.default,
    _ATEN.ceil.default,
    _ATEN.round.default,
    _ATEN.remainder.Scalar,
    _ATEN.remainder.Tensor,
    _ATEN.floor_divide.default,
    _ATEN.floor_divide.Scalar,
    _ATEN.div.Tensor_mode,
    _ATEN.div.Scalar_mode,
)


def numbers_with_single_values(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Compute and compare a single value and a number as a row of one.

    Fault: A number becomes a tensor of one dimension. With a value that has none, such as the mean
        of all elements, the result has a dimension too many; a comparison that is an output or is
        read by a choice ends the run.
    Instead: The value becomes a row of one element, and the result a value without dimensions.
    Right because: No element is moved or changed.
    Network: linear(x).square().mean() * 0.5 in a8w8
    Tools: executorch 1.5.1
    """
    del quantizer
    done = list[str]()
    for node in [*floating_calls(module, *_WITH_NUMBER), *filter(_is_single, module.graph.nodes)]:
        sides = node.args[:2]
        if node.meta["val"].dim() or not any(isinstance(side, int | float) for side in sides):
            continue
        write = Writer(module, node)
        rows = (write(_ATEN.view.default, s, [1]) if isinstance(s, fx.Node) else s for s in sides)
        result = write(node.target, *rows, *node.args[2:], **node.kwargs)
        write.replace(write(_ATEN.view.default, result, []))
        done.append(node.name)
    return finished(module, done)


_WITH_NUMBER = (
    *(getattr(_ATEN, name).Tensor for name in ("add", "sub", "mul", "div")),
    *(getattr(_ATEN, name).Scalar for name in ("add", "sub", "mul", "div", "rsub")),
)


_COMPARED = tuple(
    getattr(getattr(_ATEN, name), kind)
    for name in ("eq", "ne", "gt", "ge", "lt", "le")
    for kind in ("Scalar", "Tensor")
)


def _is_single(node: fx.Node) -> bool:
    """Return whether a comparison is read as a single value, and not beside every element of another."""
    if node.target not in _COMPARED:
        return False
    tags = {reader: getattr(reader.target, "tags", ()) for reader in node.users}
    return any(torch.Tag.pointwise not in tags[r] or not r.meta["val"].dim() for r in node.users)


def products_of_computed_weights(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Take a linear with computed weights as a product of matrices.

    Fault: A linear whose weights another layer computes, as in hypernetworks, is lowered as a
        convolution, which takes constant weights alone: lowering ends.
    Instead: It is the product with the transposed weights, and a sum with the bias.
    Right because: A linear is this product.
    Network: torch.nn.functional.linear(x, other(z).view(8, 8)) in a8w8
    Tools: executorch 1.5.1
    """
    del quantizer
    done = list[str]()
    for node in floating_calls(module, _ATEN.linear.default):
        x, weight, bias = (*node.args, None)[:3]
        if not isinstance(weight, fx.Node) or weight.op != "call_function":
            continue
        write = Writer(module, node)
        result = write(_ATEN.matmul.default, x, write(_ATEN.transpose.int, weight, 0, 1))
        write.replace(result if bias is None else write(_ATEN.add.Tensor, result, bias))
        done.append(node.name)
    return finished(module, done)


def squares_in_exponents(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write squares in large exponents as products in 16 bits.

    Fault: A 16-bit square is a function with 513 values and straight lines between them: small
        squares are a step too large. An exponential behind a large factor, as in a soft histogram,
        makes a part of its value of that.
    Instead: The value is multiplied by itself.
    Right because: That is its square, which is rounded once.
    Network: torch.exp(-((sigmoid(linear(x))[..., None] - steps) ** 2) / 0.02) in a16w8
    Tools: executorch 1.5.1
    """
    squares = [node for node in floating_calls(module, _ATEN.pow.Tensor_Scalar) if node.args[1] == 2]
    large = {node for node in squares if _factor_in_exponent(module, node) >= _LARGE_IN_EXPONENT}
    done = list[str]()
    for node in large & quantized_nodes(module, quantizer, torch.int16) if large else ():
        write = Writer(module, node)
        write.replace(write(_ATEN.mul.Tensor, node.args[0], node.args[0]))
        done.append(node.name)
    return finished(module, done)


# From this factor on, a step of a square within 8 is a thousandth of the exponential or more.
_LARGE_IN_EXPONENT = 8.0
_EXPONENTIALS = (_ATEN.exp.default, _ATEN.softmax.int, _ATEN.log_softmax.int, _ATEN.logsumexp.default)
_SUMMED_IN_EXPONENT = (_ATEN.neg.default, _ATEN.add.Tensor, _ATEN.sub.Tensor, _ATEN.rsub.Scalar)
_PASSED_IN_EXPONENT = (_ATEN.sum.dim_IntList, _ATEN.unsqueeze.default, _ATEN.squeeze.dim, _ATEN.view.default)


def _factor_in_exponent(module: fx.GraphModule, node: fx.Node) -> float:
    """Return the largest factor that a value has in an exponent; 0 if it is in none."""
    largest = 0.0
    for reader in node.users:
        factor = 1.0
        if reader.target in _EXPONENTIALS:
            return max(largest, 1.0)
        if reader.target in (_ATEN.mul.Tensor, _ATEN.div.Tensor) and reader.args[0] is node:
            number = constant_of(module, reader.args[1])
            number = reader.args[1] if number is None else float(number.abs().max())
            if not isinstance(number, int | float) or not number:
                continue
            factor = abs(number) if reader.target is _ATEN.mul.Tensor else 1 / abs(number)
        elif reader.target not in (*_SUMMED_IN_EXPONENT, *_PASSED_IN_EXPONENT):
            continue
        largest = max(largest, factor * _factor_in_exponent(module, reader))
    return largest


def written_out_cells(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write recurrent cells out.

    Fault: The quantizer has no pattern for the cells of GRU, LSTM and RNN as one operator: they
        stay on the CPU in float, or quantizing fails. The pass that writes out an LSTM ends with an
        error where its hidden state is projected.
    Instead: A cell is written with linears and gates, as the layers of the same name are. An LSTM
        with a projection is written as its cells, each with a linear behind it.
    Right because: These are the formulas of the cell.
    Network: torch.nn.LSTMCell(6, 8) called in a loop; torch.nn.LSTM(8, 12, proj_size=4)
    Tools: executorch 1.5.1
    """
    del quantizer
    done = list[str]()
    for node in floating_calls(module, *_CELLS):
        write = Writer(module, node)
        x, state, *weights = node.args
        weights += [None] * (4 - len(weights))
        write.replace(_CELLS[node.target](write, x, state, weights))
        done.append(node.name)
    for node in floating_calls(module, _ATEN.lstm.input):
        hidden, memory = node.args[1]  # type: ignore[misc]
        if hidden.meta["val"].shape[-1] != memory.meta["val"].shape[-1]:
            write = Writer(module, node)
            write.replace(_projected_lstm(write, *node.args))
            done.append(node.name)
    return finished(module, done)


def _gru(write: Writer, x: Any, state: Any, weights: Any) -> Any:
    into, again, b, c = weights
    given = write(_ATEN.linear.default, x, into, b)
    kept = write(_ATEN.linear.default, state, again, c)
    size, last = state.meta["val"].shape[-1], x.meta["val"].dim() - 1
    parts = [(_slice(write, given, last, i, size), _slice(write, kept, last, i, size)) for i in range(3)]
    reset, update = (write(_ATEN.sigmoid.default, write(_ATEN.add.Tensor, *pair)) for pair in parts[:2])
    fresh = write(_ATEN.mul.Tensor, reset, parts[2][1])
    fresh = write(_ATEN.tanh.default, write(_ATEN.add.Tensor, parts[2][0], fresh))
    change = write(_ATEN.mul.Tensor, update, write(_ATEN.sub.Tensor, state, fresh))
    return write(_ATEN.add.Tensor, fresh, change)


def _lstm(write: Writer, x: Any, state: Any, weights: Any) -> Any:
    hidden, memory = state
    into, again, b, c = weights
    given = write(_ATEN.linear.default, x, into, b)
    gates = write(_ATEN.add.Tensor, given, write(_ATEN.linear.default, hidden, again, c))
    size, last = memory.meta["val"].shape[-1], x.meta["val"].dim() - 1
    kinds = (_ATEN.sigmoid, _ATEN.sigmoid, _ATEN.tanh, _ATEN.sigmoid)
    enter, keep, fresh, leave = (
        write(kind.default, _slice(write, gates, last, i, size)) for i, kind in enumerate(kinds)
    )
    kept, added = write(_ATEN.mul.Tensor, keep, memory), write(_ATEN.mul.Tensor, enter, fresh)
    memory = write(_ATEN.add.Tensor, kept, added)
    return write(_ATEN.mul.Tensor, leave, write(_ATEN.tanh.default, memory)), memory


def _projected_lstm(
    write: Writer, x: Any, states: Any, weights: Any, has_biases: Any, layers: Any, *rest: Any
) -> Any:
    """Return all outputs of an LSTM with projections, and its last states, as torch.nn.LSTM has them."""
    _, _, is_bidirectional, is_batch_first = rest
    time = 1 if is_batch_first else 0
    length, last = x.meta["val"].shape[time], x.meta["val"].dim() - 1
    ends: list[tuple[Any, ...]] = []
    for _ in range(layers):
        sides = list[Any]()
        for is_reversed in (False, True) if is_bidirectional else (False,):
            into, again, *biases = weights[: 4 if has_biases else 2]
            projection = weights[len(biases) + 2]
            weights = weights[len(biases) + 3 :]
            state = tuple(write(_ATEN.select.int, part, 0, len(ends)) for part in states)
            outputs = [None] * length
            for step in reversed(range(length)) if is_reversed else range(length):
                taken = write(_ATEN.select.int, x, time, step)
                hidden, memory = _lstm(write, taken, state, (into, again, *(biases or (None, None))))
                state = write(_ATEN.linear.default, hidden, projection), memory
                outputs[step] = write(_ATEN.unsqueeze.default, state[0], time)
            sides.append(write(_ATEN.cat.default, outputs, time))
            ends.append(state)
        x = write(_ATEN.cat.default, sides, last) if len(sides) > 1 else sides[0]
    return x, *(write(_ATEN.stack.default, list(parts)) for parts in zip(*ends, strict=True))


def _plain(function: Any) -> Any:
    def cell(write: Writer, x: Any, state: Any, weights: Any) -> Any:
        into, again, b, c = weights
        given = write(_ATEN.linear.default, x, into, b)
        kept = write(_ATEN.linear.default, state, again, c)
        return write(function, write(_ATEN.add.Tensor, given, kept))

    return cell


def _slice(write: Writer, value: Any, dim: int, index: int, size: int) -> fx.Node:
    return write(_ATEN.slice.Tensor, value, dim, index * size, (index + 1) * size)


_CELLS: dict[Any, Any] = {
    _ATEN.gru_cell.default: _gru,
    _ATEN.lstm_cell.default: _lstm,
    _ATEN.rnn_tanh_cell.default: _plain(_ATEN.tanh.default),
    _ATEN.rnn_relu_cell.default: _plain(_ATEN.relu.default),
}


def linears_from_addmm(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Take a product with constant weights and a bias, or a constant vector, as a linear.

    Fault: addmm with constant weights and bias, as GPT-2 has it, is taken apart into three
        products; quantizing fails on the scalar beside the bias. A product with a constant vector,
        as box heads of NanoDet and PicoDet have it, leaves a float constant that cannot be lowered,
        or stays on the CPU as a product and a sum.
    Instead: It is written as the linear that it is.
    Right because: A linear is this product, with weights the other way round.
    Network: torch.addmm(self.bias, x, self.weight); x.softmax(-1) @ self.steps
    Tools: executorch 1.5.1
    """
    del quantizer
    done = list[str]()
    for node in floating_calls(module, _ATEN.matmul.default, _ATEN.mv.default):
        vector = constant_of(module, node.args[1])
        if vector is None or vector.dim() != 1 or len(node.args[0].meta["val"].shape) < 2:
            continue
        write = Writer(module, node)
        weight = write.constant(f"{node.name}_weight", vector[None])
        product = write(_ATEN.linear.default, node.args[0], weight)
        write.replace(write(_ATEN.squeeze.dim, product, -1))
        done.append(node.name)
    for node in floating_calls(module, _ATEN.addmm.default):
        bias, weight = constant_of(module, node.args[0]), constant_of(module, node.args[2])
        if bias is None or weight is None or bias.shape != weight.shape[1:] or node.kwargs:
            continue
        write = Writer(module, node)
        turned = write.constant(f"{node.name}_weight", weight.t())
        write.replace(write(_ATEN.linear.default, node.args[1], turned, node.args[0]))
        done.append(node.name)
    return finished(module, done)


def clamps_from_hardtanh(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Take a hardtanh with a lower limit alone as a clamp.

    Fault: An upper limit of 1 is the default of hardtanh, and a program does not name it. Where the
        lower limit is 0, ExecuTorch reads the upper one all the same, and lowering ends ("tuple
        index out of range").
    Instead: It is written as a clamp, which names both limits.
    Right because: Both are the same function.
    Network: torch.nn.Hardtanh(0, 1)(conv(x))
    Tools: executorch 1.5.1
    """
    del quantizer
    done = list[str]()
    for node in floating_calls(module, _ATEN.hardtanh.default, _ATEN.hardtanh_.default):
        if len(node.args) == 2 and not node.kwargs:
            write = Writer(module, node)
            write.replace(write(_ATEN.clamp.default, node.args[0], float(node.args[1]), 1.0))
            done.append(node.name)
    return finished(module, done)


def logarithms_of_sums(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write a log softmax with the logarithm of its sum.

    Fault: ExecuTorch takes a log softmax apart as the logarithm of a softmax. Probabilities of 8
        bits end at 1/256 and those of 16 bits at 1/4,096: a logarithm below -5.5 or -8.3 is lost.
    Instead: It is the value less the largest one, less the logarithm of the sum of exponentials.
        What no rule quantizes stays as it is.
    Right because: Both are the same function of real numbers. The difference and the logarithm have
        grids of their own, and no small number is rounded before its logarithm is taken.
    Network: (20 * normalize(linear(x))).log_softmax(-1), the logits of CLIP
    Tools: executorch 1.5.1
    """
    done = list[str]()
    calls = list(floating_calls(module, _ATEN.log_softmax.int, _ATEN._log_softmax.default))  # noqa: SLF001
    quantized = quantized_nodes(module, quantizer) if calls else set()
    for node in calls:
        if node not in quantized:
            continue
        write = Writer(module, node)
        value, dim = node.args[:2]
        apart = write(_ATEN.sub.Tensor, value, write(_ATEN.amax.default, value, [dim], True))
        total = write(_ATEN.sum.dim_IntList, write(_ATEN.exp.default, apart), [dim], True)
        write.replace(write(_ATEN.sub.Tensor, apart, write(_ATEN.log.default, total)))
        done.append(node.name)
    return finished(module, done)


def logarithms_of_quotients(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write the logarithm of a quotient as a difference of logarithms.

    Fault: A quotient of positive numbers covers several powers of ten, as x / (1 - x) in a logit:
        in 8 bits all but the largest become zero. ExecuTorch writes a logit so.
    Instead: It is the logarithm of the numerator less that of the denominator, where both are
        positive: clamped, a sigmoid, a softmax, an exponential, or with a positive number added to
        what is not negative. What no rule quantizes stays as it is.
    Right because: Both are the same function of positive numbers, and each logarithm has a grid of
        its own.
    Network: torch.logit(torch.sigmoid(3 * linear(x)), eps=1e-3) in a8w8
    Tools: executorch 1.5.1
    """
    done = list[str]()
    calls = list(floating_calls(module, _ATEN.log.default, _ATEN.logit.default))
    quantized = quantized_nodes(module, quantizer) if calls else set()
    for node in (call for call in calls if call in quantized):
        write = Writer(module, node)
        value: Any = node.args[0]
        if node.target is _ATEN.logit.default:
            guard = node.args[1] if len(node.args) > 1 else None
            if guard is not None:
                value = write(_ATEN.clamp.default, value, guard, 1 - guard)  # type: ignore[operator]
            numerator, denominator = value, write(_ATEN.rsub.Scalar, value, 1)
        elif value.target is _ATEN.div.Tensor and all(map(_is_positive, value.args)):
            numerator, denominator = value.args
        else:
            continue
        parts = (write(_ATEN.log.default, part) for part in (numerator, denominator))
        write.replace(write(_ATEN.sub.Tensor, *parts))
        done.append(node.name)
    return finished(module, done)


_POSITIVE = (_ATEN.sigmoid.default, _ATEN.exp.default, _ATEN.softmax.int, _ATEN._softmax.default)  # noqa: SLF001
_NOT_NEGATIVE = (*_POSITIVE, _ATEN.relu.default, _ATEN.abs.default)


def _is_positive(value: Any) -> bool:
    """Return whether a value is above zero whatever the input is."""
    if not isinstance(value, fx.Node):
        return False
    low = value.args[1] if len(value.args) > 1 else None
    is_above = isinstance(low, int | float) and low > 0
    if value.target is _ATEN.rsub.Scalar and is_above:
        part: Any = value.args[0]
        most = part.args[2] if part.target is _ATEN.clamp.default and len(part.args) > 2 else None
        is_below = isinstance(most, int | float) and most < low  # type: ignore[operator]
        return is_below or (part.target is _ATEN.sigmoid.default and low >= 1)  # type: ignore[operator]
    if value.target is _ATEN.add.Tensor and is_above:
        base: Any = value.args[0]
        is_square = base.target is _ATEN.pow.Tensor_Scalar and base.args[1] == 2
        return base.target in _NOT_NEGATIVE or is_square
    return value.target in _POSITIVE or (value.target is _ATEN.clamp.default and is_above)
