"""What the counters of a run mean, each for one inference, and what bounds the NPU."""

from tests.for_each import for_each
from workbench.deploy.simulators.counters import EVENTS, explain
from workbench.deploy.simulators.discovery import SIMULATORS, device_of
from workbench.results.simulation import Counter, Measurement

FVP = device_of("ethos-u55-128").simulator


def told(cycles=1000, inferences=1, *, fast=False, **totals):
    """Return the sentences about a measurement; counters are given by their event."""
    counters = tuple(Counter(event=event, total=total) for event, total in totals.items())
    measurement = Measurement(inferences=inferences, npu_cycles=cycles, counters=counters)
    return explain(measurement, FVP, fast=fast)


def test_that_totals_are_divided_by_the_inferences_and_beats_are_bytes_too():
    beats, macs, _ = told(2000, 4, SRAM_RD_DATA_BEAT_RECEIVED=8_192_000, MAC_ACTIVE=400)
    assert beats.startswith("SRAM_RD_DATA_BEAT_RECEIVED: 2,048,000 per inference")
    # 2,048,000 beats of 8 bytes are 16,384,000 bytes.
    assert "; 16,000.0 KiB if a beat is 8 bytes wide" in beats
    assert macs == f"MAC_ACTIVE: 100 per inference, {EVENTS['MAC_ACTIVE']}."


def test_that_no_inference_counts_as_one_and_unknown_events_are_passed_over():
    assert len(told(0, 0, MAC_ACTIVE=7, OTHER=3)) == 1
    assert told(0, 0, MAC_ACTIVE=7)[0].startswith("MAC_ACTIVE: 7 per")


def test_that_a_fast_run_and_one_without_cycles_tell_no_bound():
    assert len(told(fast=True, MAC_ACTIVE=900)) == 1
    assert "MAC_ACTIVE" not in told(fast=True, MAC_ACTIVE=900)[0]
    assert len(told(None, MAC_ACTIVE=900)) == len(told(0, MAC_ACTIVE=900)) == 1
    assert len(told(MAC_ACTIVE=900)) == 2


@for_each(
    ("totals", "part"),
    [
        ({"MAC_ACTIVE": 900}, "90%"),
        ({"WD_ACTIVE": 700, "MAC_ACTIVE": 600}, "70%"),
        ({"EXT_RD_DATA_BEAT_RECEIVED": 800}, "0.80"),
        ({"MAC_ACTIVE": 500}, "50%"),
        ({"AXI1_RD_DATA_BEAT_RECEIVED": 1500}, "1.50"),
        ({"NPU_IDLE": 501}, "50%"),
        ({"NPU_IDLE": 800, "MAC_ACTIVE": 900}, "80%"),
    ],
)
def test_that_the_largest_share_bounds_unless_the_npu_idles(totals, part):
    assert part in told(**totals)[-1]


def test_that_a_beat_is_as_wide_as_the_ports_of_the_npu():
    """Arm's technical reference manuals: 64 bits in Ethos-U55, 128 bits in U65 and U85."""
    widths = {simulator.family: simulator.bus_bytes for simulator in SIMULATORS}
    assert widths == {"u55": 8, "u65": 16, "u85": 16}


def test_that_a_counter_that_was_not_read_bounds_nothing():
    assert told(1, NPU_IDLE=0)[-1] == told(1000, NPU_IDLE=0)[-1]


def test_that_an_npu_without_a_counter_of_idle_cycles_does_not_idle():
    assert told(1, MAC_ACTIVE=1)[-1] == told(1000, MAC_ACTIVE=1000)[-1]


def test_that_nothing_bounds_below_half_of_the_cycles():
    least = told(MAC_ACTIVE=499, WD_ACTIVE=300, NPU_IDLE=500)[-1]
    assert not any(character.isdigit() for character in least)
