"""Programs on boards, and the pages that tell firmware where everything lies."""

import dataclasses

import pytest

from tests.fakes.projects import make_project
from tests.fakes.results import result_of
from tests.for_each import for_each
from tests.workbench.deploy.test_boards import PROGRAM, SMALL, write
from tests.workbench.deploy.test_handover import facts_of
from workbench.deploy import boards, fitting
from workbench.deploy.boards import load, why_not_on
from workbench.deploy.firmware_files import components, region_settings
from workbench.deploy.firmware_note import Code, Table, sections
from workbench.deploy.fitting import Demand, fit, sentence
from workbench.deploy.input_header import PictureInput, sentences
from workbench.project import edits
from workbench.project.model import Preprocess, TargetChoice
from workbench.project.opened import OpenProject
from workbench.pte.description import memory
from workbench.results import PROGRAM_FILE, WEIGHTS_FILE, Deliverable, save_result
from workbench.targets.ethos_u.devices import MemoryUse

BOARD = (
    SMALL
    + """
[[memory]]
name = "TCM"
kind = "sram"
bytes = 4096
source = "made up"
confirmed = true
[[memory]]
name = "PSRAM"
kind = "dram"
source = "made up"
confirmed = false
"""
)


@pytest.fixture
def board(tmp_path):
    write(tmp_path, text=BOARD.format(ram=65536, flash=65536))
    return load("mine.toml", tmp_path)


def demand(what, size, *kinds):
    return Demand(what=what, bytes=size, kinds=kinds, origin="test")


def held(found):
    return {d.what: f.name for f in found.fillings for d in f.demands}


def test_that_what_is_wanted_goes_to_the_fullest_memory_with_room(board):
    found = fit(
        board,
        [
            demand("arena", 60000, "sram"),
            demand("cache", 4096, "sram"),
            demand("weights", 100, "flash", "dram"),
        ],
    )
    assert held(found) == {"arena": "RAM", "cache": "TCM", "weights": "flash"}
    assert [(f.used, f.free) for f in found.fillings] == [(60000, 5536), (100, 65436), (4096, 0), (0, None)]
    assert found.fits
    assert found.doubts == ()
    assert sentence(found) == "Fits Small."


def test_that_memory_of_unknown_size_has_room_for_anything_but_is_doubtful(board):
    found = fit(board, [demand("arena", 1 << 30, "sram", "dram")])
    assert held(found) == {"arena": "PSRAM"}
    assert found.doubts == ("PSRAM",)
    assert "PSRAM" in sentence(found)


def test_that_what_finds_no_room_is_named_with_the_room_there_is(board):
    found = fit(board, [demand("first", 60000, "sram"), demand("arena", 8192, "sram")])
    assert [d.what for d in found.homeless] == ["arena"]
    assert not found.fits
    assert sentence(found) == (
        "Does not fit Small: the arena needs 8.0 contiguous KiB, and RAM has 5.4 of 64.0 KiB free, "
        "TCM has 4.0 of 4.0 KiB free."
    )
    both = fit(board, [demand("x", 1 << 20, "sram", "flash")])
    assert "flash has 64.0 of 64.0 KiB free" in sentence(both)


def test_that_only_memories_that_the_placement_allows_are_named(board):
    bound = demand("pool", 1 << 20, "sram", "dram").model_copy(update={"memories": ("TCM",)})
    assert sentence(fit(board, [bound])).endswith("and TCM has 4.0 of 4.0 KiB free.")
    nowhere = bound.model_copy(update={"memories": ("flash",)})
    assert sentence(fit(board, [nowhere])).endswith("and there is no SRAM or DRAM.")


def choice(device="ethos-u55-128", mode="Shared_Sram"):
    options = {"system_config": "Ethos_U55_High_End_Embedded", "memory_mode": mode}
    return TargetChoice(id=device, options=options)


def test_that_a_configuration_fits_a_board_by_its_device_its_mode_and_its_sram(board):
    assert why_not_on(board, choice(), 65536) == ""
    assert why_not_on(board, choice("ethos-u55-256"), 1) == "other NPU"
    assert why_not_on(board, choice(mode="Sram_Only"), 1) == "other memory mode"
    assert why_not_on(board, choice(), 65537) == "too little SRAM"


def test_that_a_program_for_an_npu_that_the_board_lacks_does_not_fit(tmp_path):
    write(tmp_path)
    results = tmp_path / "results"
    results.mkdir()
    save_result(result_of("lower"), results)
    (results / PROGRAM_FILE).write_bytes(PROGRAM)
    project = boards.put(OpenProject(make_project(), tmp_path), "mine.toml")
    wrong = edits.set_target(project, choice("ethos-u55-256"))
    found = fitting.of_results(OpenProject(wrong, tmp_path), results)
    assert (found.fits, found.absent) == (False, "ethos-u55-256")
    assert "ethos-u55-256" in sentence(found)
    assert fitting.of_results(OpenProject(project, tmp_path), results).absent == ""


def test_that_departures_from_a_board_are_told_one_by_one(board, tmp_path):
    assert boards.known_differences(board, choice(), tmp_path) == []
    assert len(boards.known_differences(board, choice("ethos-u55-256"), tmp_path)) == 1
    other = TargetChoice(
        id="ethos-u55-128", options={"system_config": "Ethos_U55_Deep_Embedded", "memory_mode": "Sram_Only"}
    )
    assert len(boards.known_differences(board, other, tmp_path)) == 2
    text = SMALL.replace('source = "made up"', 'clock_hz = 400_000_000\nsource = "made up"', 1)
    write(tmp_path, "slow.toml", text.format(ram=1, flash=1))
    (told,) = boards.known_differences(load("slow.toml", tmp_path), choice(), tmp_path)
    assert "500 MHz" in told
    assert "400 MHz" in told


def test_that_a_result_is_fitted_with_the_weights_beside_it(tmp_path):
    write(tmp_path)
    results = tmp_path / "results"
    results.mkdir()
    save_result(result_of("lower"), results)
    (results / PROGRAM_FILE).write_bytes(PROGRAM)
    project = make_project()
    assert fitting.of_results(OpenProject(project, tmp_path), results) is None
    project = boards.put(OpenProject(project, tmp_path), "mine.toml")
    plain = fitting.of_results(OpenProject(project, tmp_path), results)
    assert plain.fits
    assert sum(f.used for f in plain.fillings if f.kind == "flash") == len(PROGRAM)
    (results / WEIGHTS_FILE).write_bytes(bytes(5000))
    apart = fitting.of_results(OpenProject(project, tmp_path), results)
    assert sum(f.used for f in apart.fillings if f.kind == "flash") == len(PROGRAM) + 5000


def blocks(facts, name, lowered=None, **more):
    pages = sections(
        facts,
        lowered or result_of("lower"),
        more.pop("files", ()),
        {"b": "2", "a": "1"},
        more.pop("tolerances", [{"atol": 0.25}, {"atol": 0.5}]),
    )
    (section,) = [page for page in pages if page.title == name]
    return section.blocks


def test_that_the_program_is_described_with_its_ports_and_its_estimate():
    facts = dataclasses.replace(
        facts_of(), delegates=2, kernels=("a",),
        inputs=({"type": "tensor", "dtype": "int8", "shape": [1, 3, 4, 4], "scale": 0.5,
                 "zero_point": -3, "dim_order": [0, 2, 3, 1]},),
        outputs=({"type": "int"},), weights=b"x", state_buffers=("state",), handed_on=2,
        known_differences=("It departs.",),
    )  # fmt: skip
    first, weights, table, cycles, departs = blocks(facts, "Program")
    assert first.startswith("ethos-u55-128, Ethos_U55_High_End_Embedded, Shared_Sram; ")
    assert "2 delegates on the NPU, 1 kernel on the CPU" in first
    assert "net.ptd" in weights
    assert table == Table(("", "type", "shape", "scaling"), (
        ("input", "int8", "[1, 3, 4, 4], in memory [1, 4, 4, 3]", "(code + 3) * 0.5"),
        ("output", "int", "", "none (float)"),
    ))  # fmt: skip
    assert "1,000 cycles, 0.002 ms" in cycles
    (listed,) = blocks(facts, "What the firmware must do")
    (carry,) = (step.detail for step in listed.steps if step.title == "Carry the state on")
    assert "in 1 buffers of the method pool (state)" in carry
    assert "last 2 outputs are the last 2 inputs" in carry
    assert departs == "It departs."
    plain = dataclasses.replace(facts_of(), delegates=1, kernels=("a", "b"))
    unestimated = result_of("lower").model_copy(update={"vela": ()})
    first, table = blocks(plain, "Program", unestimated)
    assert "1 delegate on the NPU, 2 kernels on the CPU" in first
    assert isinstance(table, Table)


def test_that_kernels_and_components_are_listed_or_their_absence_is():
    facts = dataclasses.replace(facts_of(), kernels=("aten::add.out", "aten::mul.out"))
    _, kernels, _, listed = blocks(facts, "Kernels and components")
    assert kernels == Code("aten::add.out\naten::mul.out")
    assert listed == Code("\n".join(components(facts)))
    assert len(blocks(dataclasses.replace(facts, kernels=()), "Kernels and components")) == 3


def test_that_the_regions_of_the_npu_are_told_where_it_is_used():
    facts = dataclasses.replace(facts_of(), delegates=1)

    def of_driver(facts):
        (listed,) = blocks(facts, "What the firmware must do")
        return [step.detail for step in listed.steps if step.title == "Configure the NPU driver"]

    assert of_driver(facts) == [region_settings(facts.use)]
    assert of_driver(dataclasses.replace(facts, delegates=0)) == []


def test_that_the_note_says_how_a_picture_becomes_the_input():
    picture = PictureInput(Preprocess(size=(4, 6)), "uint8", (tuple(range(256)),), is_last=False)
    plain = dataclasses.replace(picture, codes=())
    for pictures, count in ((picture, 3), (plain, 1)):
        told = blocks(dataclasses.replace(facts_of(), pictures=pictures), "Pictures")
        assert told[0] == " ".join(sentences(pictures))
        assert len(told) == count
        if count > 1:
            assert told[2] == Code("net_fill_input(pixels, input);")


@for_each(
    ("mode", "kinds"),
    [
        ("Sram_Only", {"program": ("sram",), "scratch pool": ("sram",), "method pool": ("sram", "dram")}),
        (
            "Shared_Sram",
            {"program": ("flash", "dram"), "scratch pool": ("sram",), "method pool": ("sram", "dram")},
        ),
        (
            "Dedicated_Sram_384KB",
            {
                "program": ("flash", "dram"),
                "scratch pool": ("dram",),
                "method pool": ("dram", "sram"),
                "NPU cache": ("sram",),
            },
        ),
    ],
)
def test_that_each_memory_mode_allows_its_kinds_in_order(tmp_path, mode, kinds):
    options = {"system_config": "Ethos_U65_High_End", "memory_mode": mode}
    target = TargetChoice(id="ethos-u65-256", options=options)
    found = fitting.demands(target, (1000, 0), memory(PROGRAM), tmp_path)
    assert {demand.what: demand.kinds for demand in found} == kinds
    assert [d.bytes for d in found] == sorted((d.bytes for d in found), reverse=True)


def test_that_the_widest_step_of_all_outputs_is_tolerated():
    (last,) = blocks(facts_of(), "What the firmware must do")
    assert "ET_ATOL to 0.5:" in last.steps[-1].detail
    (last,) = blocks(facts_of(), "What the firmware must do", tolerances=[])
    assert "ET_ATOL to 0:" in last.steps[-1].detail


def test_that_files_and_tools_are_tables():
    file = Deliverable(name="net.pte", bytes=12345, sha256="ab" * 32, purpose="program")
    (table,) = blocks(facts_of(), "Files", files=(file,))
    assert table.rows == (("net.pte", "12,345", "program", "ab" * 8),)
    (table,) = blocks(facts_of(), "Made with")
    assert table.rows == (("a", "1"), ("b", "2"))


def test_that_needs_without_a_board_name_every_pool():
    facts = facts_of(weights=b"12345")
    _, table = blocks(facts, "Does it fit?")
    needs = dict(table.rows)
    assert needs["program"] == f"{len(facts.program):,}"
    assert needs["weights"] == "5"
    assert needs["scratch pool"] == f"{facts.needs.scratch_pool_bytes:,}"
    assert "NPU cache" not in needs
    cached = dataclasses.replace(facts, weights=None, use=MemoryUse(False, False, 4096))
    needs = dict(blocks(cached, "Does it fit?")[1].rows)
    assert needs["NPU cache"] == "4,096"
    assert "weights" not in needs


@for_each(
    ("use", "told"),
    [
        (MemoryUse(True, True, 0), "NPU_QCONFIG=1"),
        (MemoryUse(False, False, 9), "NPU_QCONFIG=3"),
        (MemoryUse(True, False, 9), "NPU_QCONFIG=3"),
        (MemoryUse(False, True, 0), "default"),
    ],
)
def test_that_regions_follow_from_where_constants_and_tensors_lie(use, told):
    assert told in region_settings(use)


def test_that_one_component_holds_all_kinds_of_quantizing():
    kernels = (
        "quantized_decomposed::quantize_per_tensor.out",
        "aten::_softmax.out",
        "aten::add.out",
        "quantized_decomposed::dequantize_per_channel.out",
        "aten::quantize_per_tensor.out",
        "quantized_decomposed::embedding_byte.out",
        "cortex_m::quantized_add.out",
    )
    facts = dataclasses.replace(facts_of(), kernels=kernels)
    named = [c.rpartition(":")[2] for c in components(facts) if "Operators:" in c]
    assert named == [
        "Quantized quantize",
        "Portable softmax",
        "Portable add",
        "Quantized dequantize",
        "Portable quantize_per_tensor",
        "Quantized embedding_byte",
        "Cortex-M quantized_add",
    ]
    assert "ARM::CMSIS:NN Lib" in components(facts)
    assert "ARM::CMSIS:NN Lib" not in components(dataclasses.replace(facts, kernels=kernels[:3]))


def test_that_a_target_elsewhere_has_no_board(tmp_path):
    project = edits.set_target(make_project(), choice())
    assert fitting.of_results(OpenProject(project, tmp_path), tmp_path) is None


MEMORIES = {
    "sram": '[[memory]]\nname = "S"\nkind = "sram"\nbytes = 4096\nsource = "x"\nconfirmed = true\n',
    "flash": '[[memory]]\nname = "F"\nkind = "flash"\nsource = "x"\nconfirmed = true\n',
    "dram": '[[memory]]\nname = "D"\nkind = "dram"\nsource = "x"\nconfirmed = true\n',
}
HEAD = SMALL[: SMALL.index("[[memory]]")]


@for_each(
    ("kinds", "mode", "lacking"),
    [
        ("sram", "Sram_Only", []),
        ("flash", "Sram_Only", ["tensors in SRAM"]),
        ("sram flash", "Shared_Sram", []),
        ("sram dram", "Shared_Sram", []),
        ("sram", "Shared_Sram", ["weights in flash or DRAM"]),
        ("dram", "Shared_Sram", ["tensors in SRAM"]),
        ("sram dram", "Dedicated_Sram_384KB", []),
        ("sram flash", "Dedicated_Sram_384KB", ["tensors in DRAM"]),
        ("dram", "Dedicated_Sram_384KB", ["a cache in SRAM"]),
        ("sram", "Dedicated_Sram_384KB", ["tensors in DRAM", "weights in flash or DRAM"]),
    ],
)
def test_that_memory_that_a_mode_needs_and_a_board_lacks_is_named(tmp_path, kinds, mode, lacking):
    write(tmp_path, text=HEAD + "".join(MEMORIES[kind] for kind in kinds.split()))
    options = {"system_config": "Ethos_U65_High_End", "memory_mode": mode}
    target = TargetChoice(id="ethos-u65-256", options=options)
    board = load("mine.toml", tmp_path)
    infos = boards.lacking(board, target, tmp_path)
    assert {info.code for info in infos} <= {"board-memory-missing"}
    assert [info.message.split("places ")[1].split(",")[0] for info in infos] == lacking
    limit = 4096 if "sram" in kinds and mode != "Dedicated_Sram_384KB" else None
    assert boards.sram_limit(board, target, tmp_path) == limit


def test_that_the_fit_of_a_board_names_the_source_of_every_size():
    facts = facts_of(board="himax-we2")
    told, table, npu, *notes = blocks(facts, "Does it fit?")
    assert told == sentence(facts.fit)
    assert [row[0] for row in table.rows] == [memory.name for memory in facts.board.memory]
    for row, filling in zip(table.rows, facts.fit.fillings, strict=True):
        assert row[1] == (", ".join(f"{d.what} ({d.origin})" for d in filling.demands) or "-")
        assert row[2] == f"{filling.used:,}"
        assert row[3] == ("not known" if filling.bytes is None else f"{filling.bytes:,}")
        assert row[4].startswith("not confirmed: ") is not filling.confirmed
    assert npu.startswith("NPU: ")
    assert tuple(notes) == tuple(facts.board.notes)
    elsewhere = dataclasses.replace(facts, choice=choice("ethos-u85-256"))
    assert len(blocks(elsewhere, "Does it fit?")) == len(notes) + 2
