"""What a runner prints is understood whole, in pieces, with carriage returns and with damage."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.for_each import for_each
from workbench.deploy.simulators import log_parser
from workbench.deploy.simulators.log_parser import FAILURES, UartReader, level_of

PREFIX = "I [executorch:arm_perf_monitor.cpp:180 StopMeasurements()] "
RUNNER = "I [executorch:arm_executor_runner.cpp:700 main()] "
RUN = f"""{RUNNER}PTE @ 0x70000000 [----ET12]
{PREFIX}NPU Inferences : 2
{PREFIX}NPU delegations: 4 (2.00 per inference)
{PREFIX}ethos-u : cycle_cnt : 9999 cycles (4999.50 per inference)
{PREFIX}cpu_wait_for_npu_cntr : 8888 CPU cycles (4444.00 per inference)
{PREFIX}Ethos-U PMU report:
{PREFIX}ethosu_pmu_cycle_cntr :  20000 (10000.00 per inference)
{PREFIX}ethosu_pmu_cntr0 : 11 (5.50 per inference)
{PREFIX}ethosu_pmu_cntr1 : 22 (11.00 per inference)
{PREFIX}ethosu_pmu_cntr2 : 33 (16.50 per inference)
{PREFIX}ethosu_pmu_cntr3 : 44 (22.00 per inference)
{PREFIX}Ethos-U PMU Events:[ETHOSU_PMU_AXI0_RD_DATA_BEAT_RECEIVED, \
ETHOSU_PMU_AXI1_RD_DATA_BEAT_RECEIVED, ETHOSU_PMU_AXI0_WR_DATA_BEAT_WRITTEN, ETHOSU_PMU_NPU_IDLE]
{RUNNER}2 inferences finished
Output[0][0]: (float) -0.500000
{RUNNER}Model run: 1
{RUNNER}input_file_allocator_used: 5000 / 62914560 free: 62909560 ( used: 0 % )
{RUNNER}method_allocator_used:     4192 / 62914560  free: 62910368 ( used: 0 % )
{RUNNER}method_allocator_planned:  1504 bytes
{RUNNER}temp_allocator:            2097152
{RUNNER}Program complete, exiting.
"""


def read(text):
    reader = UartReader()
    reader.feed(text)
    reader.close()
    return reader


def counts(reader):
    return [{c.event: c.total for c in m.counters} for m in reader.measurements]


def found(reader):
    return (
        reader.measurements,
        reader.pools,
        reader.completed,
        reader.model_ok,
        reader.diagnoses,
        reader.lines,
    )


def test_that_a_run_is_read():
    reader = read(RUN)
    (measurement,) = reader.measurements
    assert measurement.npu_cycles == 20000
    assert measurement.cycles_per_inference == 10000
    assert measurement.delegations == 4
    assert measurement.of("NPU_IDLE") == 44
    pools = {pool.name: (pool.used, pool.given) for pool in reader.pools.values()}
    assert pools == {"files": (5000, 62914560), "method": (4192, 62914560), "scratch": (None, 2097152)}
    assert reader.completed
    assert reader.model_ok
    assert not reader.diagnoses


@given(size=st.integers(1, 200))
@settings(max_examples=30)
def test_that_text_in_pieces_of_any_size_reads_as_the_whole(size):
    reader = UartReader()
    for at in range(0, len(RUN), size):
        reader.feed(RUN[at : at + size])
    reader.close()
    assert found(reader) == found(read(RUN))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "  \r\r\n"),
        lambda text: "".join(line.partition(" (")[0] + "\n" for line in text.splitlines()),
        lambda text: text.replace("cntr0", "cntrzd").replace("cntr1", "cntrzd"),
        lambda text: text.replace(" : ", "   :  "),
    ],
    ids=["carriage returns", "stray spaces", "old runner", "literal zd", "wide"],
)
def test_that_older_and_other_runners_give_the_same_counters(change):
    changed = change(RUN.replace(" (unknown", "("))
    assert counts(read(changed)) == counts(read(RUN))
    assert read(changed).measurements[0].npu_cycles == 20000


def test_that_counters_follow_the_list_of_events_and_not_their_numbers():
    swapped = RUN.replace("cntr0 :", "cntr9 :").replace("cntr3 :", "cntr0 :")
    assert counts(read(swapped)) == counts(read(RUN))


def test_that_a_line_without_its_number_means_one_inference_or_the_first_test():
    reader = read(f"{RUNNER}NPU Inferences :\n{RUNNER}TEST: BundleIO Test_result: PASS\n")
    assert [m.inferences for m in reader.measurements] == [1]
    assert [(c.index, c.passed) for c in reader.bundle] == [(0, True)]


def test_that_lines_are_counted_as_they_are_and_empty_ones_are_not():
    reader = read(f"{RUNNER}one\n\n  \nplain\nE [executorch:a.cpp:1 f()] two\nOutput[0][0]: (int) 1")
    assert (reader.lines, reader.runner_lines, reader.errors) == (4, 2, 1)


def test_that_a_line_without_an_end_is_waited_for_up_to_a_length():
    reader = UartReader()
    assert reader.feed("x" * 2000) == []
    assert reader.feed("x") == ["x" * 2001]
    assert reader.lines == 1
    reader.close()
    assert reader.lines == 1


STOPPED = "Info: Simulation is stopping. Reason: "


@for_each(
    ("lines", "is_over"),
    [
        ([f"{STOPPED}CPU time has been exceeded."], True),
        ([f"{STOPPED}CPU time has been exceeded.", f"{STOPPED}User."], True),
        ([f"{STOPPED}User."], False),
        (["The time has been exceeded."], False),
    ],
)
def test_that_only_the_simulators_own_words_tell_that_the_time_is_over(lines, is_over):
    assert read("\n".join(lines)).out_of_time is is_over


@for_each(
    ("line", "count"),
    [
        ("Hello.", 0),
        ("Error: x", 1),
        ("the executor stopped", 1),
        (f"{STOPPED}User.", 1),
        (f"{RUNNER}Malformed vela_bin_stream found", 0),
        (f"{RUNNER}something failed", 0),
        (f"{RUNNER}kernel 'a' not found.", 1),
        ("E [executorch:a.cpp:1 f()] fine", 1),
    ],
)
def test_that_a_line_is_a_failure_if_it_is_loud_or_known(line, count):
    assert len(read(line).diagnoses) == count


def test_that_no_more_counters_are_taken_than_any_npu_could_have():
    given = [f"{PREFIX}ethosu_pmu_cntr{i} : {i} (0.00)" for i in range(70)]
    events = f"{PREFIX}Ethos-U PMU Events:[{', '.join(f'E{i}' for i in range(70))}]"
    (counted,) = counts(read("\n".join([*given[:3], f"{PREFIX}ethosu_other : 9", *given[3:], events])))
    assert counted == {f"E{i}": i for i in range(64)}


@for_each(
    "line",
    [
        "temp_allocator: none",
        "method_allocator_used: none",
        "temp_attic_used: 1 / 2",
        "method_allocator_used: 5 / none",
        "method_allocator_used: 5 of 6",
    ],
)
def test_that_a_pool_without_a_name_or_a_size_is_passed_over(line):
    assert read(RUNNER + line).pools == {}


def test_that_only_so_many_verdicts_and_measurements_are_kept(monkeypatch):
    monkeypatch.setattr(log_parser, "_KEPT_MEASUREMENTS", 2)
    reader = read("".join(f"{RUNNER}TEST: BundleIO index[{i}] Test_result: PASS\n" for i in range(4)))
    assert [check.index for check in reader.bundle] == [0, 1]
    events = f"{PREFIX}Ethos-U PMU Events:[]\n"
    reader = read("".join(f"{PREFIX}NPU Inferences : {i}\n{events}" for i in range(4)))
    assert [measurement.inferences for measurement in reader.measurements] == [0, 1]


def test_that_missing_parts_leave_the_rest():
    lines = [line for line in RUN.splitlines() if "Events" not in line and "method_" not in line]
    reader = read("\n".join(lines))
    assert reader.measurements[0].npu_cycles == 20000
    assert counts(reader) == [{}]
    assert set(reader.pools) == {"files", "scratch"}


def test_that_every_inference_of_a_server_is_kept_apart():
    once = RUN[: RUN.index("2 inferences finished") - len(RUNNER)]
    text = once + f"{RUNNER}SERVER_INFERENCE_DONE 0\n" + once.replace("20000", "30000")
    reader = read(text + "SERVER_INFERENCE_DONE 1\n")
    assert [m.npu_cycles for m in reader.measurements] == [20000, 30000]
    assert reader.served == 2


def test_that_a_bundles_verdict_is_read_with_its_error():
    reader = read(
        f"{RUNNER}=== Error stats for testset 0 ===\n"
        f"{RUNNER} max_absolute_error:  0.023437\n"
        f"{RUNNER}TEST: BundleIO index[0] Test_result: PASS\n"
        f"E [executorch:a.cpp:1 f()] TEST: BundleIO index[1] Test_result: FAIL\n"
    )
    assert [(c.index, c.passed) for c in reader.bundle] == [(0, True), (1, False)]
    assert reader.bundle[0].max_absolute_error == 0.023437
    assert "tolerance" in reader.diagnoses[0].cause


LINES = {
    "E [executorch:a.h:1 f()] Memory allocation failed: 999B requested (adjusted for alignment), "
    "5B available": "pools is too small",
    "F [executorch:a.cpp:1 f()] Could not allocate memory for planned buffer with mem_id=1, size 9 "
    "in SLOW_MEMORY_REGION": "method pool",
    "F [executorch:a.cpp:1 f()] Planned buffer 2 uses mem_id=3/FAST_MEMORY_REGION, but "
    "ET_ARM_BAREMETAL_PLANNED_FAST_MEMORY_SIZE is not set": "fast memory",
    "E [executorch:E.cpp:1 f()] Failed to allocate scratch buffer of 9 bytes from "
    "temp_allocator": "scratch pool",
    "E [executorch:o.cpp:1 f()] kernel 'aten::add.out' not found.": "not linked",
    "E [executorch:m.cpp:1 f()] There are 2 instructions don't have corresponding operator "
    "registered": "not linked",
    "E [executorch:m.cpp:1 f()] Backend EthosUBackend is not registered.": "without the Ethos-U",
    "E [executorch:E.cpp:1 f()] Malformed vela_bin_stream found": "damaged or not aligned",
    "E [executorch:E.cpp:1 f()] Ethos-U invocation failed error (-1)": "another NPU",
    "E [executorch:m.cpp:1 f()] Init failed for backend EthosUBackend: 0x21": "memory allocation",
    "E [executorch:r.cpp:1 f()] input size (4) and tensor size (8) mismatch!": "another size",
    "F [executorch:r.cpp:1 f()] Not right number of parameters!": "command line",
    "E [executorch:r.cpp:1 f()] Could not open file i0.bin (errno: 2) for reading, "
    "exiting!": "did not find its files",
    "I [executorch:r.cpp:1 f()] Loading of method forward failed with status 0x14": "operator missing",
    "Info: Simulation is stopping. Reason: CPU time has been exceeded.": "time limit",
    "Hard fault. irq=-13": "fault",
    "E [executorch:r.cpp:1 f()] something never heard of": "reported an error",
}


@for_each(("line", "cause"), LINES.items())
def test_that_a_line_of_failure_is_told_with_cause_and_remedy(line, cause):
    (diagnosis,) = read(f"{RUNNER}fine\r\n{line}\r\n{RUNNER}fine\r\n").diagnoses
    assert cause in diagnosis.cause
    assert diagnosis.line == line
    assert diagnosis.remedy


def test_that_every_row_of_failures_can_be_told():
    assert all(failure.cause.endswith(".") and failure.remedy for failure in FAILURES)


@given(noise=st.binary(max_size=300))
@settings(max_examples=25)
def test_that_noise_on_the_line_hurts_nothing(noise):
    reader = read(noise.decode("latin-1") + "\n" + RUN)
    assert reader.measurements[-1].npu_cycles == 20000


def test_that_memory_stays_bounded_whatever_is_printed():
    reader = UartReader()
    for _ in range(2000):
        reader.feed("E [executorch:a.cpp:1 f()] again and again\n" + "x" * 5000)
    assert len(reader.diagnoses) <= 50
    assert len(reader.last_lines) <= 40
    assert max(map(len, reader.last_lines)) <= 2000


@for_each(
    ("line", "level"),
    [
        (RUNNER + "x", "info"),
        ("D [executorch:a:1 f()] x", "debug"),
        ("F [executorch:a:1 f()] x", "error"),
        ("Hard fault.", "error"),
        ("Warning: x", "warning"),
        ("Output[0][1]: (char) 3", "plain"),
    ],
)
def test_that_lines_have_levels(line, level):
    assert level_of(line) == level


# Names in runtime/core/error.h of ExecuTorch 1.5.1.
STATUSES = {
    1: "Internal",
    2: "InvalidState",
    3: "EndOfMethod",
    4: "AlreadyLoaded",
    16: "NotSupported",
    17: "NotImplemented",
    18: "InvalidArgument",
    19: "InvalidType",
    20: "OperatorMissing",
    21: "RegistrationExceedingMaxKernels",
    22: "RegistrationAlreadyRegistered",
    32: "NotFound",
    33: "MemoryAllocationFailed",
    34: "AccessFailed",
    35: "InvalidProgram",
    36: "InvalidExternalData",
    37: "OutOfResources",
    48: "DelegateInvalidCompatibility",
    49: "DelegateMemoryAllocationFailed",
    50: "DelegateInvalidHandle",
}


@for_each(("status", "name"), STATUSES.items())
def test_that_every_status_of_the_runtime_is_told_in_words(status, name):
    line = f"{RUNNER}Loading of method forward failed with status 0x{status:x}\r\n"
    (diagnosis,) = read(line).diagnoses
    words = re.findall("[A-Z][a-z]+", name)
    assert diagnosis.cause.endswith(
        f"The status means: {' '.join(words).lower().replace('delegate ', 'delegate: ')}."
        if status != 1
        else "The status means: internal error."
    )
