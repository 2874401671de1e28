"""Which kernels begin too early, against jobs that are written out one by one."""

from itertools import product

import numpy as np
import pytest

from tests.for_each import for_each
from tests.workbench.npu.streams import COPY, SECOND, Stream
from workbench.npu.block_dependency import KernelAccess, too_early
from workbench.npu.machine import Machine
from workbench.npu.memory import areas_of
from workbench.npu.registers import Registers, device
from workbench.npu.state import Options

CHECKED = Options(check=True)


def jobs(shape, block):
    """Return the elements (y, x, c) of each job: depth first, then to the right, then down."""
    counts = [-(-size // step) for size, step in zip(shape, block, strict=True)]
    for y, x, c in product(*map(range, counts)):
        yield set(
            product(
                *(
                    range(at * step, min((at + 1) * step, size))
                    for at, step, size in zip((y, x, c), block, shape, strict=True)
                )
            )
        )


def addresses(elements, strides, base, bricks):
    for y, x, c in elements:
        if bricks:
            yield base + y * strides[0] + (c >> 4) * strides[2] + x * strides[1] + (c & 15)
        else:
            yield base + y * strides[0] + x * strides[1] + c


def begins_early(shape, blocks, strides, shift, dependency, *, bricks=False):
    """Return whether a job of the second kernel reads what an unfinished job writes."""
    written = [set(addresses(job, strides, 0, bricks)) for job in jobs(shape, blocks[0])]
    read = [set(addresses(job, strides, shift, bricks)) for job in jobs(shape, blocks[1])]
    for number, wanted in enumerate(read[:dependency]):
        unfinished = written[-(dependency - number) :]
        if any(wanted & job for job in unfinished):
            return True
    return False


def tensor(side, shape, base, block, *, bricks):
    height, width, depth = shape
    strides = (width * -(-depth // 16) * 16, 16, width * 16) if bricks else (width * depth, depth, 1)
    return strides, {
        f"{side}_BASE0": base,
        f"{side}_STRIDE_Y": strides[0],
        f"{side}_STRIDE_X": strides[1],
        f"{side}_STRIDE_C": strides[2],
        f"{side}_WIDTH0_M1": width - 1,
        f"{side}_HEIGHT0_M1": height - 1,
        f"{side}_HEIGHT1_M1": height - 1,
        f"{side}_PRECISION": COPY[f"{side}_PRECISION"] | int(bricks) << 6,
        f"{side}_DEPTH_M1": depth - 1,
    } | (
        {
            "OFM_HEIGHT_M1": height - 1,
            "OFM_WIDTH_M1": width - 1,
            "OFM_BLK_HEIGHT_M1": block[0] - 1,
            "OFM_BLK_WIDTH_M1": block[1] - 1,
            "OFM_BLK_DEPTH_M1": block[2] - 1,
        }
        if side == "OFM"
        else {}
    )


@pytest.mark.parametrize("bricks", [False, True])
@pytest.mark.parametrize("operation", ["POOL", "ELEMENTWISE"])
@pytest.mark.parametrize("count", [16, pytest.param(40, marks=pytest.mark.slow)])
def test_that_a_kernel_is_reported_where_its_jobs_read_too_early(count, operation, bricks):
    rng = np.random.default_rng(int(bricks))
    early = 0
    for _ in range(count):
        shape = (*tuple(int(rng.integers(1, 5)) for _ in range(2)), int(rng.integers(1, 40)))
        blocks = [(*(int(n) for n in rng.integers(1, 4, 2)), int(rng.choice([8, 16, 32]))) for _ in range(2)]
        dependency = int(rng.integers(0, 4))
        room = 4 * 4 * 48
        strides, first = tensor("OFM", shape, room, blocks[0], bricks=bricks)
        shift = int(rng.choice([0, strides[0], -strides[0], strides[1]]))
        # The input is as large as everything that is read beside what the first one wrote.
        stream = Stream().set(COPY | SECOND | {"KERNEL_WIDTH_M1": 0, "BLOCKDEP": 0} | first)
        stream.set(tensor("IFM", shape, 0, None, bricks=bricks)[1]).do("POOL", 0)
        stream.set(tensor("IFM", shape, room + shift, None, bricks=bricks)[1])
        stream.set(tensor("OFM", shape, 4 * room, blocks[1], bricks=bricks)[1])
        stream.set(BLOCKDEP=dependency, IFM2_BROADCAST=1 << 7, IFM2_SCALAR=0)
        stream.do(operation, 0 if operation == "POOL" else 1).do("STOP")
        blob = stream.blob(scratch=6 * room, ports=((0, 3 * room), (4 * room, 16)))
        found = Machine(blob).run([np.zeros(3 * room, np.uint8)], CHECKED).findings
        wanted = begins_early(shape, blocks, strides, shift, dependency, bricks=bricks)
        codes = [finding.code for finding in found]
        assert codes == ["missing-block-dependency"] * wanted, (shape, blocks, shift, dependency)
        early += wanted
    assert count / 8 < early < 7 * count / 8


def access(side, shape, base, *, kind="NPU_OP_CONV", family=("ethos-u55", 128), **settings):
    """Return registers and what a kernel that reads or writes one tensor accesses."""
    registers = Registers(device(*family))
    laid = tensor(side, shape, base, settings.pop("block", (1, 1, 8)), bricks=False)[1]
    plain = {"OFM_PRECISION": 1} if family[0] == "ethos-u85" else {}
    for name, value in {**COPY, **laid, **plain, **settings}.items():
        registers.set(name, value)
    made, entry = KernelAccess(kind), (registers.feature_map(side), shape)
    if side == "OFM":
        made.writes = entry
        made.conclude(registers)
    else:
        made.reads.append(entry)
    return registers, made


@for_each(
    ("settings", "family", "depth"),
    [
        ({}, ("ethos-u55", 128), 32),
        ({"KERNEL_STRIDE": 4}, ("ethos-u55", 128), 16),
        ({"IFM_PRECISION": 1 | 1 << 2}, ("ethos-u55", 128), 16),
        ({"IFM_PRECISION": 1 | 1 << 2}, ("ethos-u85", 256), 32),
        ({"KERNEL_STRIDE": 4}, ("ethos-u85", 256), 16),
    ],
)
def test_that_a_convolution_reads_blocks_of_as_many_channels_as_the_hardware(settings, family, depth):
    """Job 0 reads the first channels; the last job before writes those behind ``depth``."""
    item = 2 if settings.get("IFM_PRECISION", 1) & 4 else 1
    for first, early in ((depth, False), (depth - 1, True)):
        written = access("OFM", (1, 1, 8), first * item, family=family)[1]
        registers, read = access("IFM", (1, 1, 64), 0, family=family, BLOCKDEP=1, **settings)
        found = too_early(written, read, registers)
        assert (found is not None) == early


def test_that_a_window_reads_what_its_block_covers():
    """A block of 2 rows reads 2 + 3 - 1 rows with a window of 3."""
    for row, early in ((3, True), (4, False)):
        written = access("OFM", (1, 4, 8), row * 32)[1]
        registers, read = access("IFM", (8, 4, 8), 0, BLOCKDEP=1, KERNEL_HEIGHT_M1=2)
        for name, value in {"OFM_BLK_HEIGHT_M1": 1, "OFM_BLK_WIDTH_M1": 3, "OFM_BLK_DEPTH_M1": 7}.items():
            registers.set(name, value)
        assert (too_early(written, read, registers) is not None) == early


def test_that_what_vela_does_not_follow_is_no_error():
    """Transposed or reversed feature maps, and maps that are laid out in another way."""
    u85 = {"family": ("ethos-u85", 256)}
    registers, read = access("IFM", (2, 2, 8), 0, BLOCKDEP=1, **u85)
    block = {"block": (2, 2, 8)}
    plain = access("OFM", (2, 2, 8), 0, **u85, **block)[1]
    assert too_early(plain, read, registers).is_sure
    turned = access("OFM", (2, 2, 8), 0, OFM_PRECISION=1 | 1 << 11, **u85, **block)[1]
    assert turned.moves
    assert not too_early(turned, read, registers).is_sure
    for axis in ("X", "Y"):
        wide = access("OFM", (2, 2, 8), 0, **{f"OFM_STRIDE_{axis}": 48}, **u85, **block)[1]
        assert not too_early(wide, read, registers).is_sure
    single = access("OFM", (1, 1, 8), 0, OFM_STRIDE_X=48, OFM_STRIDE_Y=99, **u85, **block)[1]
    registers, one = access("IFM", (1, 1, 8), 0, BLOCKDEP=1, **u85)
    assert too_early(single, one, registers).is_sure


def test_that_only_the_last_jobs_are_kept():
    for family, most in ((("ethos-u55", 128), 3), (("ethos-u65", 256), 3), (("ethos-u85", 256), 7)):
        written = access("OFM", (3, 4, 8), 0, family=family)[1]
        areas = [area for job in written.last_jobs for area in job]
        assert [area.base for area in areas] == [8 * (11 - back) for back in range(most)]
        assert areas == [
            one
            for back in range(most)
            for one in areas_of(
                *written.writes,
                (
                    slice((11 - back) // 4, (11 - back) // 4 + 1),
                    slice((11 - back) % 4, (11 - back) % 4 + 1),
                    slice(0, 8),
                ),
            )
        ]


def test_that_a_kernel_that_writes_nothing_to_memory_is_waited_for_by_none():
    registers, read = access("IFM", (1, 1, 8), 0, BLOCKDEP=3)
    nothing = KernelAccess("NPU_OP_CONV")
    nothing.conclude(registers)
    assert too_early(nothing, read, registers) is None
    other = access("OFM", (1, 1, 8), 8)[1]
    assert too_early(other, read, registers) is None
    registers.set("OFM_REGION", 2)
    there = access("OFM", (1, 1, 8), 0, OFM_REGION=2)[1]
    assert too_early(there, read, registers) is None


def test_that_jobs_of_several_bricks_are_counted_in_the_order_of_the_npu():
    written = access("OFM", (3, 4, 16), 0)[1]
    areas = [area for job in written.last_jobs for area in job]
    # The last pixel has two jobs of eight channels; before them comes the pixel to the left.
    assert [area.base for area in areas] == [11 * 16 + 8, 11 * 16, 10 * 16 + 8]


@for_each("precision", [1 | 1 << 9, 1 | 2 << 9, 1 | 1 << 11, 1 | 4 << 11])
def test_that_a_feature_map_that_is_turned_is_one_job(precision):
    shape = (2, 7, 3)
    turned = access("OFM", shape, 0, family=("ethos-u85", 256), OFM_PRECISION=precision)[1]
    assert turned.moves
    whole = tuple(slice(0, size) for size in shape)
    assert turned.last_jobs == [list(areas_of(*turned.writes, whole))]


def test_that_a_kernel_may_read_more_than_the_one_before_it_wrote():
    """A row of four pixels, of which the first or the last was written."""
    for base in (0, 24):
        written = access("OFM", (1, 1, 8), base)[1]
        registers, read = access("IFM", (1, 4, 8), 0, BLOCKDEP=1, OFM_BLK_WIDTH_M1=3, OFM_BLK_DEPTH_M1=7)
        found = too_early(written, read, registers)
        assert found is not None
        assert found.is_sure
