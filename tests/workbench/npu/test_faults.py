"""What a damaged or wrong program is told, with the command that is at fault."""

import numpy as np
import pytest

from tests.for_each import for_each
from tests.workbench.npu.streams import COPY, SECOND, Stream, compiled, dma
from workbench.errors import WorkbenchError
from workbench.npu.machine import Machine
from workbench.npu.program import load
from workbench.npu.state import Limits, Options

INPUT = np.arange(-16, 16, dtype=np.int8)
CHECKED = Options(check=True)


def run(stream, options=None, **container):
    return Machine(stream.blob(**container)).run([INPUT], options)


def codes(result):
    return [finding.code for finding in result.findings]


def fault(stream, options=None, **container):
    with pytest.raises(WorkbenchError) as raised:
        run(stream, options, **container)
    (info,) = raised.value.infos
    return info


def test_that_a_copy_copies():
    result = run(Stream().set(COPY).do("POOL", 1).do("STOP"), CHECKED)
    assert np.array_equal(result.outputs[0].view(np.int8), INPUT)
    assert result.findings == ()
    (counted,) = result.counters
    assert (counted.read_bytes, counted.written_bytes, counted.ofm) == (32, 32, (1, 4, 8))


@for_each("family", ["u55", "u65", "u85"])
def test_that_tiles_and_negative_strides_lead_to_the_right_elements(family):
    settings = COPY | {"IFM_WIDTH0_M1": 1, "IFM_BASE0": 24, "IFM_BASE1": 8, "IFM_STRIDE_X": (1 << 40) - 8}
    if family == "u85":
        settings |= {"OFM_PRECISION": 1 | 1 << 8, "OFM_SCALE": 1 << 13 << 32 | 1}
    macs = {"u55": 128, "u65": 256, "u85": 256}[family]
    result = run(Stream(family, macs).set(settings).do("POOL", 1).do("STOP"))
    rows = INPUT.reshape(4, 8)
    assert np.array_equal(result.outputs[0].view(np.int8).reshape(4, 8), rows[::-1])


def test_that_bricks_and_rows_hold_the_same_elements():
    values = np.arange(96, dtype=np.int8)
    shape = {"IFM_WIDTH0_M1": 1, "OFM_WIDTH_M1": 1, "OFM_WIDTH0_M1": 1}
    settings = (
        COPY
        | shape
        | {
            "IFM_DEPTH_M1": 23,
            "OFM_DEPTH_M1": 23,
            "IFM_STRIDE_X": 24,
            "IFM_STRIDE_Y": 48,
            "OFM_PRECISION": COPY["OFM_PRECISION"] | 1 << 6,
            "OFM_STRIDE_X": 16,
            "OFM_STRIDE_C": 32,
            "OFM_STRIDE_Y": 64,
        }
    )
    blob = Stream().set(settings).do("POOL", 1).do("STOP").blob(ports=((0, 48), (64, 64)))
    (found,) = Machine(blob).run([values[:48]]).outputs
    pixels = values[:48].reshape(2, 24)
    bricks = found.view(np.int8).reshape(2, 2, 16)
    assert np.array_equal(bricks[0], pixels[:, :16])
    assert np.array_equal(bricks[1, :, :8], pixels[:, 16:])


def test_that_an_unknown_command_is_refused_with_its_offset():
    stream = Stream().set(COPY)
    offset = stream.offset
    stream.words.append(0x0004)
    info = fault(stream)
    assert info.code == "npu-stream"
    assert f"{offset:#x}" in info.message
    assert "0x0004" in info.message


def test_that_an_unknown_setting_is_refused():
    stream = Stream()
    stream.words += [0x01FE, 0]
    assert "0x01fe" in fault(stream).message


def test_that_a_stream_without_an_end_is_refused():
    info = fault(Stream().set(COPY).do("POOL", 1))
    assert info.code == "npu-stream"
    assert "STOP" in info.message


def test_that_a_setting_that_was_never_given_is_named():
    settings = {name: value for name, value in COPY.items() if name != "OFM_SCALE"}
    assert "OFM_SCALE" in fault(Stream().set(settings).do("POOL", 1).do("STOP")).message


@for_each(
    "settings",
    [
        {"IFM_BASE0": 128},
        {"OFM_BASE0": 97},
        {"OFM_STRIDE_X": 1 << 20},
        {"OFM_REGION": 0},
        {"OFM_REGION": 3},
        {"IFM_STRIDE_X": (1 << 40) - 8},
        {"OFM_WIDTH_M1": 0xFFFF},
    ],
)
def test_that_addresses_outside_of_a_region_are_refused(settings):
    stream = Stream().set(COPY, **settings)
    offset = stream.offset
    info = fault(stream.do("POOL", 1).do("STOP"))
    assert info.code == "npu-address"
    assert f"NPU_OP_POOL at {offset:#x}" in info.message


@for_each(
    ("settings", "operation", "parameter"),
    [
        ({}, "POOL", 5),
        ({}, "ELEMENTWISE", 63),
        ({"OFM_PRECISION": 1 | 1 << 8 | 3 << 14}, "POOL", 1),
        ({"IFM_PRECISION": 1 | 2 << 6}, "POOL", 1),
        ({"ACTIVATION": 3}, "POOL", 1),
        ({"ACTIVATION": 4}, "POOL", 1),
        ({"ACTIVATION": 9}, "POOL", 1),
        ({"ACTIVATION": 7 << 12}, "POOL", 1),
        ({"ACC_FORMAT": 2}, "POOL", 1),
        ({"IFM_UPSCALE": 3}, "POOL", 1),
    ],
)
def test_that_modes_that_do_not_exist_are_refused(settings, operation, parameter):
    info = fault(Stream().set(COPY, **settings).do(operation, parameter).do("STOP"))
    assert info.code == "npu-mode"


def test_that_a_device_that_does_not_exist_is_refused():
    with pytest.raises(WorkbenchError) as raised:
        Machine(Stream("u55", 1024).do("STOP").blob())
    assert raised.value.codes == ("npu-mode",)


def test_that_a_table_that_was_never_loaded_is_refused():
    assert fault(Stream().set(COPY, ACTIVATION=16).do("POOL", 1).do("STOP")).code == "npu-table"


def with_table(macs, *, between=False):
    """A table of x -> -x (and 127 for -128), loaded by a DMA; a copy may stand in between."""
    stream = Stream("u55", macs).set(dma((0, 0), (1 << 8, 14 * 1024), 256)).do("DMA_START")
    stream.do("DMA_WAIT", 0).set(COPY)
    if between:
        stream.do("POOL", 1)
    return stream.set(ACTIVATION=16).do("POOL", 1).do("STOP")


TABLE = np.clip(-np.arange(-128, 128), -128, 127).astype(np.int8).tobytes()


def test_that_a_table_is_looked_up():
    result = run(with_table(128), CHECKED, weights=TABLE)
    assert np.array_equal(result.outputs[0].view(np.int8), -INPUT)
    assert result.findings == ()
    assert result.counters[-1].table_bytes == 256


def test_that_other_operations_destroy_tables_on_small_devices_only():
    for macs in (128, 256):
        result = run(with_table(macs, between=True), weights=TABLE)
        assert np.array_equal(result.outputs[0].view(np.int8), -INPUT)
    for macs in (32, 64):
        assert fault(with_table(macs, between=True), weights=TABLE).code == "npu-table"


def test_that_a_table_lost_before_its_use_is_reported():
    stream = Stream().set(dma((0, 0), (1 << 8, 0), 256)).do("DMA_START")
    first = stream.offset - 4
    stream.do("DMA_WAIT", 0).do("DMA_START").do("DMA_WAIT", 0)
    stream.set(COPY, ACTIVATION=16).do("POOL", 1).do("STOP")
    result = run(stream, CHECKED, weights=TABLE)
    assert codes(result) == ["table-evicted"]
    assert f"{first:#x}" in result.findings[0].message
    assert result.findings[0].delegate == 0


def test_that_a_table_is_lost_although_another_one_was_loaded_since():
    stream = Stream()
    for slot in (0, 256, 0):
        stream.set(dma((0, 0), (1 << 8, slot), 256)).do("DMA_START").do("DMA_WAIT", 0)
    stream.set(COPY, ACTIVATION=16).do("POOL", 1).do("STOP")
    assert codes(run(stream, CHECKED, weights=TABLE)) == ["table-evicted"]


def test_that_memory_that_nothing_wrote_is_reported():
    stream = Stream().set(COPY, IFM_BASE0=32)
    offset = stream.offset
    result = run(stream.do("POOL", 1).do("STOP"), CHECKED)
    (found,) = result.findings
    assert (found.code, found.severity, found.offset) == ("uninitialised-read", "error", offset)
    assert "32 of 32 bytes" in found.message
    assert run(stream).findings == ()


def test_that_a_copy_of_memory_that_nothing_wrote_is_reported_where_it_is_used():
    """A transfer is rounded up to 16 bytes; what it brings too much may stay unused."""
    copied = Stream().set(dma((1, 24), (1, 96), 16)).do("DMA_START").do("DMA_WAIT", 0)
    unused = run(copied.set(COPY, OFM_BASE0=64).do("POOL", 1).do("STOP"), CHECKED)
    assert codes(unused) == []
    used = Stream().set(dma((1, 24), (1, 96), 16)).do("DMA_START").do("DMA_WAIT", 0)
    used.set(COPY, IFM_BASE0=96, IFM_WIDTH0_M1=1, OFM_WIDTH_M1=1)
    offset = used.offset
    (found,) = run(used.do("POOL", 1).do("STOP"), CHECKED).findings
    assert (found.code, found.offset) == ("uninitialised-read", offset)
    assert "8 of 16 bytes" in found.message


def copied_then_used(*, wait):
    """A DMA brings the operands of an addition; the wait for it may be missing."""
    stream = Stream().set(dma((0, 0), (1, 32), 32)).do("DMA_START").set(COPY).set(SECOND)
    if wait:
        stream.do("DMA_WAIT", 0)
    return stream.do("ELEMENTWISE", 1).do("STOP")


def test_that_a_missing_wait_for_a_copy_is_reported():
    weights = bytes(range(32))
    waiting = run(copied_then_used(wait=True), CHECKED, weights=weights)
    assert waiting.findings == ()
    result = run(copied_then_used(wait=False), CHECKED, weights=weights)
    assert codes(result) == ["missing-wait"]
    assert np.array_equal(result.outputs[0], waiting.outputs[0])
    assert np.array_equal(result.outputs[0].view(np.int8), INPUT + np.arange(32, dtype=np.int8))


@for_each(("wait", "found"), [(None, ["missing-wait"]), (0, []), (1, ["missing-wait"])])
def test_that_a_copy_must_wait_for_the_kernel_that_reads_its_destination(wait, found):
    stream = Stream().set(COPY).do("POOL", 1)
    if wait is not None:
        stream.do("KERNEL_WAIT", wait)
    stream.set(dma((0, 0), (1, 0), 16)).do("DMA_START").do("STOP")
    assert codes(run(stream, CHECKED)) == found


def test_that_a_kernel_that_is_long_done_needs_no_wait():
    stream = Stream().set(COPY).do("POOL", 1).set(IFM_BASE0=64, OFM_BASE0=96)
    stream.do("POOL", 1).do("POOL", 1).set(dma((0, 0), (1, 0), 16)).do("DMA_START").do("STOP")
    assert codes(run(stream, CHECKED)) == []


def test_that_programs_end():
    stream = Stream("u85", 256).do("BRANCH", 0, 0).do("STOP")
    info = fault(stream, Options(limits=Limits(steps=1000)))
    assert info.code == "npu-limit"


def test_that_a_branch_into_a_command_is_refused():
    assert fault(Stream("u85", 256).do("BRANCH", 0, 2).do("STOP")).code == "npu-stream"


def test_that_work_and_memory_are_limited():
    copy = Stream().set(COPY).do("POOL", 1).do("STOP")
    assert fault(copy, Options(limits=Limits(work=10))).code == "npu-limit"
    assert fault(copy, Options(limits=Limits(memory_bytes=100))).code == "npu-limit"
    assert fault(copy, scratch=0xFFFFFFFF).code == "npu-limit"


def test_that_tensors_larger_than_a_run_may_have_are_refused_at_once():
    settings = COPY | {"IFM_REGION": 2, "OFM_REGION": 2, "OFM_HEIGHT_M1": 0xFFFF, "OFM_WIDTH_M1": 0xFFFF}
    assert fault(Stream().set(settings).do("POOL", 1).do("STOP")).code == "npu-limit"


def test_that_fast_scratch_grows_to_the_addresses_that_are_named():
    stream = Stream().set(COPY, OFM_REGION=2, OFM_BASE0=5000).do("POOL", 1)
    stream.set(IFM_REGION=2, IFM_BASE0=5000, OFM_REGION=1, OFM_BASE0=64).do("POOL", 1).do("STOP")
    result = run(stream, CHECKED)
    assert np.array_equal(result.outputs[0].view(np.int8), INPUT)
    assert result.peak == {0: 0, 1: 96, 2: 5032}
    assert result.findings == ()


def test_that_the_module_of_a_command_is_named():
    stream = Stream().set(COPY, IFM_BASE0=128)
    options = Options(modules={0: {stream.offset: "features.3.conv"}})
    info = fault(stream.do("POOL", 1).do("STOP"), options)
    assert (info.where.kind, info.where.id) == ("module", "features.3.conv")


def test_that_sums_that_no_accumulator_holds_are_reported():
    case = compiled()["u55_a8_linear_0"]
    machine = Machine(case.blob)
    assert not machine.run(case.inputs, CHECKED).findings
    # The bias of the first channel becomes 2**38.
    records = bytearray(case.blob)
    offset = next(command.value for command in machine.commands if command.name == "NPU_SET_SCALE_BASE")
    at = case.blob.index(b"weight_data") + 32 + offset
    records[at : at + 5] = (1 << 38).to_bytes(5, "little")
    found = Machine(bytes(records)).run(case.inputs, CHECKED).findings
    assert {finding.code for finding in found} == {"accumulator-range"}


def test_that_inputs_that_do_not_fit_are_refused():
    program = load(Stream().set(COPY).do("POOL", 1).do("STOP").blob())
    for inputs in ([], [INPUT[:31]], [INPUT.astype(np.int16)], [INPUT.astype(np.float32)]):
        with pytest.raises(WorkbenchError):
            program.run(inputs)
    assert program.run([INPUT.view(np.uint8)]).outputs[0].dtype == np.int8


def two_copies(dependency, block=(0, 1)):
    """A copy and a copy of it; blocks have as many rows and columns, less one, as are given."""
    blocks = {"OFM_BLK_HEIGHT_M1": block[0], "OFM_BLK_WIDTH_M1": block[1], "OFM_BLK_DEPTH_M1": 7}
    stream = Stream().set(COPY | blocks, BLOCKDEP=0).do("POOL", 1)
    stream.set(IFM_BASE0=64, OFM_BASE0=96, BLOCKDEP=dependency)
    offset = stream.offset
    return stream.do("POOL", 1).do("STOP"), offset


@for_each(
    ("dependency", "block", "early"),
    [
        (0, (0, 3), False),
        (1, (0, 3), True),
        (1, (0, 1), False),
        (2, (0, 1), True),
        (3, (0, 0), False),
        (4, (0, 0), True),
    ],
)
def test_that_a_kernel_that_may_begin_too_early_is_reported(dependency, block, early):
    stream, offset = two_copies(dependency, block)
    found = run(stream, CHECKED).findings
    told = [(finding.code, finding.severity) for finding in found]
    assert told == [("missing-block-dependency", "error")] * early
    assert all(finding.offset == offset for finding in found)
    assert run(stream).findings == ()


def test_that_a_kernel_of_other_memory_may_begin_at_once():
    stream = Stream().set(COPY, BLOCKDEP=0).do("POOL", 1).set(OFM_BASE0=96, BLOCKDEP=3)
    assert codes(run(stream.do("POOL", 1).do("STOP"), CHECKED)) == []


@for_each(("macs", "found"), [(64, ["missing-block-dependency"]), (128, [])])
def test_that_shared_table_memory_needs_an_operation_to_end(macs, found):
    stream = with_table(macs)
    stream.words.pop()
    stream.set(ACTIVATION=0, OFM_BASE0=96, BLOCKDEP=2).do("POOL", 1).do("STOP")
    result = run(stream, CHECKED, weights=TABLE)
    assert codes(result) == found
    assert all(finding.severity == "error" for finding in result.findings)


def test_that_modules_hints_and_places_of_a_fault_are_told():
    info = fault(Stream().set(COPY, IFM_BASE0=128).do("POOL", 1).do("STOP"))
    assert (info.where.kind, info.where.id) == ("file", "program")
    assert info.hint.startswith("The program is damaged")
    own = fault(Stream().set(COPY).do("POOL", 1))
    assert own.hint == "It is cut short."
    early = fault(Stream().do("STOP"), scratch=0xFFFFFFFF)
    assert "NPU_OP" not in early.message


def test_that_the_first_wait_of_a_copy_in_table_memory_is_named():
    stream = Stream().set(dma((0, 0), (1 << 8, 0), 256)).do("DMA_START")
    stream.set(COPY, ACTIVATION=16).do("POOL", 1).do("STOP")
    (found,) = run(stream, CHECKED, weights=TABLE).findings
    assert found.code == "missing-wait"
    assert "table memory" in found.message
    (other,) = run(copied_then_used(wait=False), CHECKED, weights=bytes(32)).findings
    assert "region 1" in other.message


def test_that_a_program_may_take_as_many_steps_as_it_has_commands():
    stream = Stream().set(COPY).do("POOL", 1).do("STOP")
    steps = len(COPY) + 2
    assert np.array_equal(run(stream, Options(limits=Limits(steps=steps))).outputs[0].view(np.int8), INPUT)
    assert fault(stream, Options(limits=Limits(steps=steps - 1))).code == "npu-limit"


def test_that_memory_may_be_as_large_as_the_limit():
    stream = Stream().set(COPY).do("POOL", 1).do("STOP")
    needed = 4096 + 16
    assert run(stream, Options(limits=Limits(memory_bytes=needed)), scratch=4096).outputs
    small = Options(limits=Limits(memory_bytes=needed - 1))
    assert fault(stream, small, scratch=4096).code == "npu-limit"


@for_each("inputs", [[], [INPUT, INPUT], [INPUT[:31]], [np.append(INPUT, INPUT[:1])]])
def test_that_a_delegate_takes_its_inputs_and_no_others(inputs):
    machine = Machine(Stream().set(COPY).do("POOL", 1).do("STOP").blob())
    with pytest.raises(WorkbenchError) as raised:
        machine.run(inputs)
    assert raised.value.codes == ("npu-command",)


def test_that_the_u55_resizes_nothing():
    # The code of an operation that only the U85 has.
    code = Stream("u85", 256)._codes["NPU_OP_RESIZE"]
    stream = Stream().set(COPY)
    stream.words.append(code)
    assert fault(stream.do("STOP")).code.startswith("npu-")


def test_that_a_value_of_fast_scratch_that_nothing_wrote_is_reported():
    settings = COPY | {
        "IFM_REGION": 2,
        "IFM_WIDTH0_M1": 0,
        "IFM_DEPTH_M1": 0,
        "OFM_WIDTH_M1": 0,
        "OFM_WIDTH0_M1": 0,
        "OFM_DEPTH_M1": 0,
        "OFM_BASE0": 64,
    }
    result = run(Stream().set(settings).do("POOL", 1).do("STOP"), CHECKED)
    assert "uninitialised-read" in codes(result)
    assert result.peak[2] == 1


def test_that_the_first_operation_waits_for_no_table():
    stream = Stream("u55", 64).set(COPY, BLOCKDEP=3).do("POOL", 1).do("STOP")
    assert codes(run(stream, CHECKED)) == []


@for_each(("family", "macs", "most"), [("u55", 128, 1), ("u65", 256, 2), ("u85", 256, 4)])
def test_that_as_many_copies_are_under_way_as_the_npu_can_have(family, macs, most):
    """The first of the copies brings what a kernel reads; a later one begins when it is done."""
    settings = COPY | {"IFM_BASE0": 16, "IFM_WIDTH0_M1": 1, "OFM_WIDTH_M1": 1, "OFM_BASE0": 32}
    if family == "u85":
        settings |= {"OFM_PRECISION": 1 | 1 << 8, "OFM_SCALE": 1 << 13 << 32 | 1}
    for count, found in ((most, ["missing-wait"]), (most + 1, [])):
        stream = Stream(family, macs)
        for number in range(count):
            stream.set(dma((0, 0), (1, 16 if not number else 48 + 16 * number), 16))
            stream.do("DMA_START")
        stream.set(settings).do("POOL", 1).do("STOP")
        assert codes(run(stream, CHECKED, weights=bytes(16), scratch=256)) == found


def test_that_copies_of_one_place_wait_for_each_other():
    for target, found in ((32, ["missing-wait"]), (64, [])):
        stream = Stream("u65", 256).set(dma((0, 0), (1, 32), 16)).do("DMA_START")
        stream.set(DMA0_DST=target).do("DMA_START").do("STOP")
        assert codes(run(stream, CHECKED, weights=bytes(16))) == found
