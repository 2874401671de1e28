"""How far streams reach into memory: the simulator, and a reader of its own, of the driver's facts."""

from pathlib import Path

from tests.for_each import for_each
from tests.stream_reader import reaches
from workbench.npu.inputs import drawn_inputs
from workbench.npu.program import load
from workbench.pte import npu_commands, vela_stream
from workbench.pte.description import read_program

PROGRAMS = Path(__file__).parents[2] / "data" / "programs"
WITH_NPU = ("u55.pte", "u65.pte", "u85.pte", "resize_u85_vela.tflite")


def streams(name):
    """Return the family and the commands of each delegate."""
    for delegate in read_program((PROGRAMS / name).read_bytes()).method().delegates:
        payload = bytes(vela_stream.commands(vela_stream.blocks(delegate.data)))
        yield npu_commands.decode(payload).family, payload


@for_each("name", WITH_NPU)
def test_that_the_simulator_touches_memory_as_far_as_the_second_reader_says(name):
    program = load(PROGRAMS / name)
    peak = program.run(drawn_inputs(program.inputs)).peak
    for number, (family, payload) in enumerate(streams(name)):
        reach, written = reaches(payload, family)
        assert {region: end for region, end in peak[number].items() if end} == reach
        # Constants are never written, and what is read of scratch is inside of it.
        assert 0 not in written
        assert reach.get(1, 0) <= program.machines[number].scratch_bytes


def test_that_an_output_that_is_moved_reaches_further():
    family, payload = next(streams("u55.pte"))
    base = (0x4010).to_bytes(4, "little")
    at = max(n for n in range(0, len(payload), 4) if payload[n : n + 4] == base) + 4
    address = int.from_bytes(payload[at : at + 4], "little") + (1 << 16)
    moved = payload[:at] + address.to_bytes(4, "little") + payload[at + 4 :]
    assert reaches(moved, family)[0][1] > reaches(payload, family)[0][1] + (1 << 15)


def test_that_the_linux_driver_would_ask_for_too_much_memory_where_axes_are_exchanged():
    # Its computation of this stream is 3,060 bytes in a region of 1,024: exchanged axes of U85.
    family, payload = next(streams("resize_u85_vela.tflite"))
    assert reaches(payload, family)[0][1] == 1024
    assert reaches(payload, family, as_driver=True)[0][1] == 3060
