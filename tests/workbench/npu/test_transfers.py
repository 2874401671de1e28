"""Copies between memory regions and the table memory, written by hand."""

import numpy as np
import pytest

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.npu.streams import Stream, dma
from tests.workbench.npu.test_operations import A
from workbench.errors import WorkbenchError
from workbench.npu.machine import Machine
from workbench.npu.state import Limits, Options


def test_that_a_copy_of_the_u65_leaves_gaps():
    settings = dma((0, 0), (1 | 1 << 9, 64), 4) | {"DMA0_SIZE0": 3, "DMA0_SKIP0": 5}
    blob = Stream("u65", 256).set(settings).do("DMA_START").do("STOP").blob(bytes(range(1, 33)))
    found = Machine(blob).run([A.astype(np.int8)]).outputs[0].tolist()
    assert found[:22] == [1, 2, 3, 4, *[0] * 5, 5, 6, 7, 8, *[0] * 5, 9, 10, 11, 12]


def test_that_a_gather_takes_rows_by_their_number():
    indices = np.array([3, 0, 2], np.int32)
    settings = dma((1 << 11 | 0, 16), (1, 64), 8) | {
        "DMA0_SIZE0": 3,
        "DMA0_SRC_STRIDE0": 8,
        "DMA0_DST_STRIDE0": 8,
        "DMA0_IDX_REGION": 0,
        "DMA0_IDX": 0,
        "DMA0_IDX_MAX": 3,
    }
    settings["DMA0_SRC_REGION"] |= 1 << 9
    weights = indices.tobytes() + bytes(4) + bytes(range(32))
    stream = Stream("u85", 256).set(settings).do("DMA_START").do("STOP")
    found = Machine(stream.blob(weights)).run([A.astype(np.int8)]).outputs[0].tolist()
    assert found[:24] == [*range(24, 32), *range(8), *range(16, 24)]
    wrong = stream.blob(np.array([4, 0, 2], np.int32).tobytes() + weights[12:])
    with refused("npu-command"):
        Machine(wrong).run([A.astype(np.int8)])


def test_that_an_index_of_a_gather_may_be_any_of_the_rows():
    settings = dma((1 << 11 | 1 << 9 | 0, 16), (1, 64), 8) | {
        "DMA0_SIZE0": 1,
        "DMA0_SRC_STRIDE0": 8,
        "DMA0_DST_STRIDE0": 8,
        "DMA0_IDX_REGION": 0,
        "DMA0_IDX": 0,
        "DMA0_IDX_MAX": 1,
    }
    stream = Stream("u85", 256).set(settings).do("DMA_START").do("STOP")
    for index, code in ((0, None), (1, None), (2, "npu-command"), (-1, "npu-command")):
        blob = stream.blob(np.array([index, 0, 0, 0], np.int32).tobytes() + bytes(range(16)))
        if code is None:
            found = Machine(blob).run([A.astype(np.int8)]).outputs[0].tolist()
            assert found[:8] == [*range(8 * index, 8 * index + 8)]
        else:
            with refused(code):
                Machine(blob).run([A.astype(np.int8)])


def gathered(settings, indices):
    """Return what a copy with four indices, and rows of the bytes 0 to 31 behind them, leaves."""
    stream = Stream("u85", 256).set(settings).do("DMA_START").do("STOP")
    blob = stream.blob(np.array(indices, np.int32).tobytes() + bytes(range(32)))
    return Machine(blob).run([A.astype(np.int8)]).outputs[0].tolist()


def test_that_any_row_may_be_gathered_where_no_largest_index_is_given():
    settings = dma((1 << 11 | 1 << 9 | 0, 16), (1, 64), 8) | {
        "DMA0_SIZE0": 1,
        "DMA0_SRC_STRIDE0": 8,
        "DMA0_DST_STRIDE0": 8,
        "DMA0_IDX_REGION": 0,
        "DMA0_IDX": 0,
    }
    assert gathered(settings, [3, 0, 0, 0])[:8] == [*range(24, 32)]


@for_each(
    ("family", "settings"),
    [
        ("u55", {"DMA0_LEN": 0}),
        ("u65", {"DMA0_DST_REGION": 1 | 3 << 9}),
        ("u85", {"DMA0_SRC_REGION": 3 << 9}),
    ],
)
def test_that_copies_that_do_not_exist_are_refused(family, settings):
    macs = {"u55": 128, "u65": 256, "u85": 256}[family]
    made = Stream(family, macs).set(dma((0, 0), (1, 64), 4) | {"DMA0_SIZE0": 1} | settings)
    with pytest.raises(WorkbenchError) as caught:
        Machine(made.do("DMA_START").do("STOP").blob()).run([A.astype(np.int8)])
    assert caught.value.codes[0] in {"npu-command", "npu-mode"}


@for_each("family", ["u65", "u85"])
def test_that_planes_of_a_copy_have_gaps_of_their_own(family):
    if family == "u65":
        settings = dma((0, 0), (1 | 2 << 9, 64), 2) | {
            "DMA0_SIZE0": 2,
            "DMA0_SKIP0": 1,
            "DMA0_SIZE1": 2,
            "DMA0_SKIP1": 3,
        }
    else:
        settings = dma((2 << 9, 0), (1, 64), 2) | {
            "DMA0_SIZE0": 2,
            "DMA0_SRC_STRIDE0": 2,
            "DMA0_DST_STRIDE0": 3,
            "DMA0_SIZE1": 2,
            "DMA0_SRC_STRIDE1": 4,
            "DMA0_DST_STRIDE1": 9,
        }
    stream = Stream(family, 256).set(settings).do("DMA_START").do("STOP")
    result = Machine(stream.blob(bytes(range(1, 17)))).run([A.astype(np.int8)])
    assert result.outputs[0].tolist()[:14] == [1, 2, 0, 3, 4, 0, 0, 0, 0, 5, 6, 0, 7, 8]
    assert result.counters[0].copied_bytes == 8


def test_that_a_gather_in_planes_has_a_list_for_each_plane():
    settings = dma((1 << 11 | 2 << 9 | 0, 16), (1, 64), 8) | {
        "DMA0_SIZE0": 1,
        "DMA0_SIZE1": 2,
        "DMA0_SRC_STRIDE0": 8,
        "DMA0_SRC_STRIDE1": 16,
        "DMA0_DST_STRIDE0": 8,
        "DMA0_DST_STRIDE1": 8,
        "DMA0_IDX_REGION": 0,
        "DMA0_IDX": 0,
        "DMA0_IDX_SKIP1": 4,
    }
    assert gathered(settings, [1, 9, 0, 9])[:16] == [*range(8, 16), *range(16, 24)]


def test_that_a_copy_takes_bytes_out_of_the_table_memory():
    """The table was loaded from scratch; on the U55 its memory lies at the end of 16 KiB."""
    for family, macs, at in (("u55", 128, 14 * 1024 + 256), ("u85", 256, 256)):
        stream = Stream(family, macs).set(dma((1, 16), (1 << 8, at), 16)).do("DMA_START")
        stream.do("DMA_WAIT").set(dma((1 << 8, at), (1, 64), 16)).do("DMA_START").do("STOP")
        result = Machine(stream.blob()).run([A.astype(np.int8)])
        assert result.outputs[0][:16].view(np.int8).tolist() == A[16:].tolist()
        assert [one.copied_bytes for one in result.counters] == [16, 16]


def test_that_copies_spend_work_for_their_bytes():
    for length, fits in ((30_000, True), (70_000, False)):
        stream = Stream().set(dma((1, 0), (1, 70_000), length)).do("DMA_START").do("STOP")
        machine = Machine(stream.blob(scratch=140_000, ports=((0, 70_000), (70_000, 16))))
        options = Options(limits=Limits(work=65_536))
        if fits:
            assert machine.run([np.zeros(70_000, np.int8)], options).outputs
        else:
            with refused("npu-limit"):
                machine.run([np.zeros(70_000, np.int8)], options)


def test_that_indices_of_a_gather_may_lie_in_scratch():
    settings = dma((1 << 11 | 1 << 9 | 0, 0), (1, 64), 8) | {
        "DMA0_SIZE0": 2,
        "DMA0_SRC_STRIDE0": 8,
        "DMA0_DST_STRIDE0": 8,
        "DMA0_IDX_REGION": 1,
        "DMA0_IDX": 8,
        "DMA0_IDX_MAX": 3,
    }
    stream = Stream("u85", 256).set(settings).do("DMA_START").do("STOP")
    indices = np.array([9, 9, 3, 1, 9, 9, 9, 9], np.int32).view(np.int8)
    found = Machine(stream.blob(bytes(range(32)))).run([indices]).outputs[0].tolist()
    assert found[:16] == [*range(24, 32), *range(8, 16)]
