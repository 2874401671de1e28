"""Suggestions that save NPU cycles or SRAM."""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from workbench.graph.labels import operator_name
from workbench.suggestions.suggestion import ExpectedGain, Suggestion, Written, with_option
from workbench.targets.ethos_u.rewrites import (
    DILATIONS,
    FACTORS,
    GROUPS,
    KERNELS,
    LINEARS,
    MEANS,
    NORMS_AS_ONE,
    NORMS_FORWARD,
    PADS,
    PARTS,
    PATCHES,
    POOL_PADS,
    POOLS,
    REWRITES,
    REWRITES_BY_ID,
    SHUFFLES,
    STRIDES,
    TAILS,
    TRANSPOSED,
)
from workbench.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.deploy.fitting import Fit
    from workbench.graph.snapshot import GraphSnapshot, Node
    from workbench.project.model import ModelSource, Project
    from workbench.results import LowerResult, VelaOperation
    from workbench.results.cost import CycleCause


_PICTURE_RANK = 4
_TRANSPOSE = "Transpose"


def channels_last(project: Project, lowered: LowerResult, program: GraphSnapshot) -> Iterator[Suggestion]:
    """Yield the suggestion of channels-last example inputs if a delegate starts with transposes.

    Without a callable that creates the example input there is no line to change.
    """
    rows = [
        row
        for report in lowered.vela
        for row in _leading(report.operations, _readers(program), alone=len(lowered.vela) == 1)
    ]
    location = _example_source(project.model)
    if not rows or not location:
        return
    cycles = sum(row.cycles for row in rows)
    total = sum(report.cycles_total for report in lowered.vela)
    yield Suggestion(
        id="channels_last",
        title="Use a channels-last example input",
        evidence=f"{plural(len(rows), 'transpose')} at the input only change the memory "
        "layout. The program is exported for the layout of the example input; the "
        "application must then provide channels-last pixels.",
        expected=f"These transposes take {cycles:,} of {total:,} cycles, estimated (Vela "
        f"{lowered.vela_version}); the layout of later operators can change too.",
        gain=ExpectedGain(cycles=cycles),
        written=(Written(location, "", "x = x.to(memory_format=torch.channels_last)"),),
    )


def _readers(program: GraphSnapshot) -> frozenset[str]:
    """Return the modules that read an input picture of the program."""
    return frozenset(
        user.module
        for node in program.nodes
        if node.kind == "input" and node.outputs and len(node.outputs[0].shape) == _PICTURE_RANK
        for user in program.consumers(node.id)
    )


def _leading(rows: Sequence[VelaOperation], readers: frozenset[str], *, alone: bool) -> list[VelaOperation]:
    """Return the transposes at the start of a delegate that reads an input."""
    transposes = list(takewhile(lambda row: row.operator == _TRANSPOSE, rows))
    reads = any(row.module and row.module in readers for row in transposes)
    return transposes if reads or (alone and "" in readers) else []


def _example_source(model: ModelSource) -> str:
    """Return where the example input is created; "" if not in code."""
    if model.inputs or model.input_shapes or ".py:" not in model.spec:
        return ""
    file, _, name = model.spec.rpartition(":")
    return f"{file}, {name}()"


# What operations lose cycles to that a rewrite takes away.
_REMOVED_CAUSES: dict[str, frozenset[CycleCause]] = {
    STRIDES: frozenset(("stride",)),
    KERNELS: frozenset(("few_channels", "kernel", "shape", "depth", "output")),
    TAILS: frozenset(("copy", "stride")),
}
# The operators of the float program that the others change.
_CHANGED_OPERATORS: dict[str, frozenset[str]] = {
    PADS: frozenset(("pad", "constant_pad_nd")),
    POOL_PADS: frozenset(("pad", "constant_pad_nd")),
    LINEARS: frozenset(("linear", "conv1d", "conv2d")),
    PATCHES: frozenset(("im2col", "pixel_unshuffle", "permute", "transpose")),
    SHUFFLES: frozenset(("pixel_shuffle",)),
    TRANSPOSED: frozenset(("conv_transpose1d", "conv_transpose2d")),
    POOLS: frozenset(("max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d")),
    NORMS_FORWARD: (_NORMS := frozenset(("batch_norm", "layer_norm", "group_norm", "instance_norm"))),
    NORMS_AS_ONE: _NORMS,
    PARTS: frozenset(("permute", "transpose")),
    FACTORS: frozenset(("scaled_dot_product_attention", "mul", "div")),
    GROUPS: frozenset(("group_norm", "instance_norm")),
    MEANS: frozenset(("layer_norm",)),
    DILATIONS: frozenset(("conv1d",)),
}


def switch_on_rewrites(
    project: Project, lowered: LowerResult, program: GraphSnapshot
) -> Iterator[Suggestion]:
    """Yield suggestions to switch on rewrites that may save cycles; they are to be tried."""
    operators = {node.id: operator_name(node.op) for node in program.nodes}
    total = sum(report.cycles_total for report in lowered.vela)
    for row in REWRITES:
        if project.target.options.get(row.id) is not False:
            continue
        lost = sum(
            operation.cycles - operation.ideal_cycles
            for report in lowered.vela
            for operation in report.operations
            if (
                operation.cause in _REMOVED_CAUSES[row.id]
                if row.id in _REMOVED_CAUSES
                else operators.get(operation.root) in _CHANGED_OPERATORS[row.id]
            )
        )
        if lost:
            yield Suggestion(
                id=f"faster:{row.id}",
                title=f"Switch on: {row.title}",
                evidence=f"{row.fault} The rewrite is off.",
                expected=f"The same function in fewer cycles: such operations take {lost:,} of "
                f"{total:,} cycles more than the device's limit.",
                gain=ExpectedGain(cycles=lost),
                edit=partial(with_option, name=row.id, value=True),
                improves="cycles",
            )


def switch_off_rewrites(lowered: LowerResult) -> Iterator[Suggestion]:
    """Yield suggestions to switch off rewrites whose operations take more cycles than the written ones.

    A rewrite is chosen by its products and copies; here Vela's estimates of both forms disagree.
    """
    for applied in lowered.rewrites:
        before, after = applied.cycles_before, applied.cycles_after
        if before is None or after is None or after <= before:
            continue
        row = REWRITES_BY_ID[applied.id]
        yield Suggestion(
            id=f"faster:{row.id}",
            title=f"Switch off: {row.title}",
            evidence=f"By Vela's estimate the operations that it wrote take {after:,} cycles, those of the "
            f"network {before:,}.",
            expected=f"The same function in {after - before:,} cycles less.",
            gain=ExpectedGain(cycles=after - before),
            edit=partial(with_option, name=row.id, value=False),
            improves="cycles",
        )


_CONVOLUTION = "Conv2D"
# The NPU computes output channels in blocks of 8. Measured with Vela 5.1.0 on U55-128 and U85-256:
# a convolution with 9 to 16 output channels takes one number of cycles, with 17 to 24 the next.
_BLOCK = 8
_MOST_USED = 2
_LEAST_SHARE = 0.01


def wasted_channels(lowered: LowerResult, program: GraphSnapshot) -> Iterator[Suggestion]:
    """Yield suggestions for convolutions whose last block of channels is nearly empty.

    Channels of a result of the program stay, since they are its classes or boxes.
    """
    total = sum(report.cycles_total for report in lowered.vela)
    for row in (row for report in lowered.vela for row in report.operations):
        node = program.nodes_by_id.get(row.root)
        if row.operator != _CONVOLUTION or row.bound != "MACs" or node is None:
            continue
        channels = _channels(node)
        if channels is None:
            continue
        blocks, used = -(-channels // _BLOCK), channels % _BLOCK
        saved = row.cycles // max(blocks, 1)
        is_wasted = blocks > 1 and 0 < used <= _MOST_USED
        if is_wasted and saved >= _LEAST_SHARE * total and _is_read(program, node.id):
            yield Suggestion(
                id=f"channels:{node.id}",
                title=f"Use {channels - used} channels in {row.module or node.id}, not {channels}",
                evidence=f"The NPU computes output channels in blocks of {_BLOCK}: {channels} take "
                f"as long as {blocks * _BLOCK}.",
                expected=f"Up to {saved:,} of {total:,} cycles less, estimated from its blocks "
                f"(Vela {lowered.vela_version}). The network must be trained again.",
                gain=ExpectedGain(cycles=saved),
                written=(
                    Written(
                        node.source.partition(": ")[0].split(" in ")[0],
                        "",
                        f"{channels - used} output channels",
                    ),
                )
                if node.source
                else (),
            )


def _channels(node: Node) -> int | None:
    """Return the number of output channels of a convolution or linear; None for other nodes."""
    shape = node.outputs[0].shape if node.outputs else ()
    name = operator_name(node.op)
    index = len(shape) - 1 if name == "linear" else 1 if name.startswith("conv") else len(shape)
    channels = shape[index] if index < len(shape) else None
    return channels if isinstance(channels, int) else None


def _is_read(program: GraphSnapshot, node: str) -> bool:
    """Return whether another convolution or linear reads a value, directly or not."""
    seen, waiting = set[str](), [node]
    while waiting:
        for reader in program.consumers(waiting.pop()):
            if operator_name(reader.op) in {"conv1d", "conv2d", "linear"}:
                return True
            if reader.id not in seen:
                seen.add(reader.id)
                waiting.append(reader.id)
    return False


# Rewrites that gather their inputs by copies.
_COPYING = {STRIDES, KERNELS}


def fit_memory(project: Project, lowered: LowerResult, fit: Fit | None) -> Iterator[Suggestion]:
    """Yield what may take less SRAM if the scratch pool has no room on the board."""
    options = project.target.options
    pools = [demand for demand in fit.homeless if demand.what == "scratch pool"] if fit is not None else []
    if fit is None or not pools or not lowered.vela:
        return
    no_room = f"The scratch pool of {pools[0].bytes:,} bytes has no room on {fit.board}."
    if options.get("optimise") != "Size":
        yield Suggestion(
            id="optimise_size",
            title="Compile for size",
            evidence=f"{no_room} Vela then takes a schedule with less SRAM, usually with more cycles.",
            expected="Less SRAM, unknown before it is compiled: use Preview.",
            edit=partial(with_option, name="optimise", value="Size"),
        )
    for applied in lowered.rewrites:
        if applied.places and applied.id in _COPYING:
            row = REWRITES_BY_ID[applied.id]
            yield Suggestion(
                id=f"memory:{row.id}",
                title=f"Switch off: {row.title}",
                evidence=f"{no_room} What it writes holds a copy of its inputs beside them.",
                expected="Perhaps less SRAM, with more cycles; unknown before it is compiled: use Preview.",
                edit=partial(with_option, name=row.id, value=False),
            )
