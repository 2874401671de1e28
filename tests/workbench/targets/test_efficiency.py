"""Limits of the device for each operation, and what keeps it from them."""

import pytest

from workbench.results import VelaOperation, VelaReport
from workbench.targets.ethos_u.efficiency import (
    CAUSES,
    by_module,
    efficiency_text,
    excess_cycles,
    module_texts,
    with_limits,
)

U55 = "ethos-u55-128"


def operation(**given):
    fields = {
        "name": "conv",
        "operator": "Conv2D",
        "module": "body",
        "tosa": "",
        "cycles": 1000,
        "cycles_vela": 1000,
        "npu_cycles": 1000,
        "macs": 12_800,
        "sram_cycles": 0,
        "external_cycles": 0,
        "staging_bytes": 0,
        "weight_bytes": 64,
        "input_shape": (8, 8, 16),
        "output_shape": (8, 8, 16),
        "kernel": (3, 3),
        "moved_bytes": 2048,
    }
    return VelaOperation(**fields | given)


def report(*operations, cycles=None):
    total = sum(o.cycles for o in operations) if cycles is None else cycles
    return VelaReport(
        cycles_total=total,
        cycles_vela=total,
        cycles_npu=total,
        inference_ms=1.0,
        sram_bytes=0,
        flash_bytes=0,
        macs=sum(o.macs for o in operations),
        delegate=0,
        weights_bytes=0,
        encoded_weights_bytes=0,
        command_stream_bytes=0,
        scratch_bytes=0,
        operations=operations,
    )


def judged(*operations, device=U55):
    return with_limits(report(*operations), device)


def test_that_the_limit_of_an_operation_is_its_products_or_its_bytes():
    (one,) = judged(operation(moved_bytes=80)).operations
    assert (one.ideal_cycles, one.efficiency) == (100, 0.1)
    (one,) = judged(operation(moved_bytes=4800)).operations
    assert (one.ideal_cycles, one.efficiency, one.cause) == (600, 0.6, "")
    (one,) = judged(operation(moved_bytes=4800, moved_outside=4800)).operations
    assert one.ideal_cycles == 608
    # Twice the products of a cycle, and four times the bytes of SRAM.
    (one,) = judged(operation(moved_bytes=4800), device="ethos-u85-256").operations
    assert one.ideal_cycles == 150


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ({"operator": "Transpose", "weight_bytes": 0}, "layout"),
        ({"operator": "MemoryCopy", "weight_bytes": 0}, "copy"),
        ({"operator": "Mul", "weight_bytes": 0}, "elementwise"),
        ({"operator": "DepthwiseConv2D"}, "depthwise"),
        ({"external_cycles": 1000}, "memory"),
        ({"bound": "weight decoding"}, "weights"),
        ({"bound": "output"}, "output"),
        ({"input_shape": (8, 8, 1)}, "few_channels"),
        ({"output_shape": (8, 8, 9)}, "depth"),
        ({"output_shape": (1, 8, 16)}, "shape"),
        ({"kernel": (512, 1)}, "kernel"),
    ],
)
def test_that_each_cause_is_told(given, cause):
    judgement = judged(operation(**given))
    assert judgement.operations[0].cause == judgement.cause == cause
    assert CAUSES[cause] in efficiency_text(judgement)


def test_that_a_convolution_compiled_column_by_column_is_lost_to_its_stride():
    columns = [operation(macs=128, moved_bytes=2048) for _ in range(20)]
    judgement = judged(*columns)
    assert {one.cause for one in judgement.operations} == {"stride"}
    # Each column has the shapes of the whole, whose bytes are moved once.
    assert [one.ideal_cycles for one in judgement.operations] == [13] * 20
    assert (judgement.ideal_cycles, judgement.efficiency) == (20, 0.001)
    assert dict(excess_cycles(judgement.operations)) == {"stride": 20 * (1000 - 13)}


def test_that_copies_are_no_part_of_the_limit_of_a_program():
    copy = operation(operator="MemoryCopy", weight_bytes=0, cycles=300, moved_bytes=2400)
    judgement = judged(operation(cycles=100, moved_bytes=80), copy)
    assert judgement.operations[1].efficiency == 1.0
    assert (judgement.ideal_cycles, judgement.efficiency) == (100, 0.25)


def test_that_no_efficiency_is_above_one():
    judgement = judged(operation(cycles=10), operation(cycles=0))
    assert [one.efficiency for one in judgement.operations] == [1.0, 1.0]
    assert judgement.efficiency == 1.0
    assert judgement.cause == ""


@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        (0, {"": 150}),
        (1, {"a": 70, "": 30, "b": 50}),
        (2, {"a.x": 30, "": 30, "a.y": 40, "b": 50}),
        (None, {"a.x.1": 10, "a.x.2": 20, "": 30, "a.y": 40, "b": 50}),
    ],
)
def test_that_cycles_roll_up_the_modules_and_none_is_lost(depth, expected):
    names = ("a.x.1", "a.x.2", "", "a.y", "b")
    operations = [operation(module=name, cycles=10 * (n + 1)) for n, name in enumerate(names)]
    modules = by_module(operations, depth)
    assert {module.module: module.cycles for module in modules} == expected
    assert sum(module.share for module in modules) == pytest.approx(1.0)
    assert by_module([], depth) == []


def test_that_a_module_has_the_limits_of_its_operations_and_the_cause_of_most_lost_cycles():
    judgement = judged(
        operation(module="stem", moved_bytes=80),
        operation(module="stem", operator="Mul", weight_bytes=0, cycles=300, moved_bytes=800),
        operation(module="head", cycles=110, moved_bytes=80),
    )
    stem, head = by_module(judgement.operations)
    assert (stem.cycles, stem.ideal_cycles, stem.operations) == (1300, 200, 2)
    assert stem.efficiency == pytest.approx(200 / 1300)
    assert stem.cause == judgement.operations[0].cause != judgement.operations[1].cause
    assert (head.efficiency, head.cause) == (pytest.approx(100 / 110), "")
    (text,) = module_texts([stem, head])
    assert text.startswith("stem: efficiency 15 %, 1,100 cycles lost, most to")


def test_that_no_module_is_named_that_loses_little_of_a_program():
    judgement = judged(
        operation(module="large", cycles=100, moved_bytes=80, macs=12_800),
        *[operation(module="large", cycles=100, moved_bytes=80, macs=12_800) for _ in range(6)],
        operation(module="small", cycles=30, macs=128, moved_bytes=80),
    )
    large, small = by_module(judgement.operations)
    assert small.cause
    assert module_texts([large, small]) == []
