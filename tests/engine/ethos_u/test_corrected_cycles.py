"""Vela's cycles, corrected: real Vela on small programs, and the pairs that show its faults."""

import shutil
from pathlib import Path

import pytest

from tests.engine.in_process import Engine
from workbench.engine.ethos_u.capture.vela_models import compiled_model
from workbench.engine.ethos_u.corrected_cycles import PERFORMANCE, SHAPES, UNITS, by_id, corrected, number
from workbench.engine.ethos_u.estimate import estimate, totals
from workbench.project import store
from workbench.project.model import TargetChoice
from workbench.targets import target_of
from workbench.targets.ethos_u.cycle_corrections import (
    CYCLE_CORRECTIONS_BY_ID,
    NO_ACTIVATION,
    POOLING,
    TRANSPOSED_READS,
    WEIGHTS_LOADED,
)

TOSA = Path(__file__).parents[2] / "data" / "tosa"
RESOURCES = Path(__file__).parents[3] / "resources"
MOBILENET = RESOURCES / "samples" / "mobilenet_v2" / "mobilenet_v2.qwb"
# Arm's figures for MobileNetV2 on the FVP of Corstone-300, U55-128, Sram_Only [million cycles]:
# pytorch/executorch, pull request 9830.
ON_FVP = 5.5
# As Renesas' AI compiler writes it.
_MEMORY = ["clock_scale=0.5", "burst_length=128", "read_latency=8", "write_latency=8"]
RENESAS = "\n".join(
    [
        "[System_Config.RA8P1]",
        "core_clock=500e6",
        "axi0_port=Sram",
        "axi1_port=OffChipFlash",
        *(f"{name}_{figure}" for name in ("Sram", "OffChipFlash") for figure in _MEMORY),
        "[Memory_Mode.Shared_Sram]",
        "const_mem_area=Axi1",
        "arena_mem_area=Axi0",
        "cache_mem_area=Axi0",
    ]
)


def compile_tosa(name, device, system="Ethos_U55_High_End_Embedded", mode="Shared_Sram", ini="Arm/vela.ini"):
    return compiled_model(
        [
            f"--accelerator-config={device}",
            f"--config={ini}",
            f"--system-config={system}",
            f"--memory-mode={mode}",
            "--output-format=raw",
            str(TOSA / name),
        ]
    )


def of_kind(model, cycles, kind):
    return [cycles[key] for key, row in by_id(model, PERFORMANCE).items() if row["operator"] == kind]


def test_that_an_operation_without_activation_is_not_charged_a_table_look_up(tmp_path):
    # Of Renesas' configuration: with a fused activation, from TFLite, Vela 5.1.0 says 4,111 cycles
    # for this convolution, 10,241 without one from TOSA, for the same registers and blocks. With
    # a plain output the memory takes longer here.
    ini = tmp_path / "own.ini"
    ini.write_text(RENESAS)
    model = compile_tosa("keyword_u55.tosa", "ethos-u55-256", "RA8P1", "Shared_Sram", ini)
    (convolution,) = of_kind(model, corrected(model, "ethos-u55-256"), "Conv2D")
    assert convolution.corrections == (NO_ACTIVATION,)
    assert (convolution.vela_npu, convolution.npu) == (10_775, 4_645)
    assert convolution.npu == convolution.vela_npu - (10_241 - 4_111)


def test_that_pooling_of_8_bits_takes_a_quarter_of_what_vela_says():
    model = compile_tosa("keyword_u55.tosa", "ethos-u55-256")
    cycles = corrected(model, "ethos-u55-256")
    (pool,) = of_kind(model, cycles, "AvgPool")
    assert POOLING in pool.corrections
    stated = next(
        number(units["mac_cycles"])
        for key, units in by_id(model, UNITS).items()
        if by_id(model, PERFORMANCE)[key]["operator"] == "AvgPool"
    )
    # 25 x 5 pixels in parts of 8, 8, 8 and 1 rows: 125 steps for each of eight groups of channels,
    # and a quarter of a cycle for each of 64 outputs.
    assert stated == 125 * 8 * 4 + 64
    assert pool.waits["MACs"] == 125 * 8 + 16


@pytest.mark.parametrize(
    ("name", "device", "system", "mode"),
    [
        ("patches_u55.tosa", "ethos-u55-128", "Ethos_U55_High_End_Embedded", "Shared_Sram"),
        ("patches_u85.tosa", "ethos-u85-256", "Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB"),
    ],
)
def test_that_weights_are_charged_once_where_the_stream_loads_them_once(name, device, system, mode):
    model = compile_tosa(name, device, system, mode)
    cycles = corrected(model, device)
    parts = of_kind(model, cycles, "Conv2D")
    charged = [part for part in parts if WEIGHTS_LOADED not in part.corrections]
    # One part reads the weights where they are, and one is the first that has them loaded.
    assert (len(parts), len(charged)) == (64, 2)
    assert all(part.cycles < part.vela * 0.6 for part in parts if part not in charged)
    assert all(part.cycles == part.vela for part in charged)


def test_that_a_transpose_of_u85_reads_its_input_once():
    model = compile_tosa("mean_u85.tosa", "ethos-u85-256", "Ethos_U85_SYS_DRAM_Mid", "Sram_Only")
    cycles, shapes = corrected(model, "ethos-u85-256"), by_id(model, SHAPES)
    # The mean of 672 maps of 14 x 14: a transpose of 14 columns with a depth of 9,408 bytes.
    key = max(cycles, key=lambda key: cycles[key].vela)
    assert number(shapes[key]["SramFeatureMap_read"]) > 500 * 14 * 9408
    assert set(cycles[key].corrections) == {TRANSPOSED_READS, POOLING}
    assert cycles[key].cycles == cycles[key].npu < cycles[key].vela_npu
    # 16 bytes from two ports in each cycle: no less than one read and one write of the tensor.
    assert 2 * 14 * 9408 / 32 <= cycles[key].cycles < cycles[key].vela / 20


def test_that_convolutions_and_sums_of_u85_keep_their_cycles():
    model = compile_tosa(
        "keyword_u55.tosa", "ethos-u85-256", "Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB"
    )
    cycles = corrected(model, "ethos-u85-256")
    (convolution,) = of_kind(model, cycles, "Conv2D")
    assert convolution.cycles == convolution.vela
    assert not convolution.corrections


def test_that_pools_and_transposes_of_u85_take_a_quarter_of_the_steps_that_vela_charges():
    model = compile_tosa("mean_u85.tosa", "ethos-u85-256", "Ethos_U85_SYS_DRAM_Mid", "Sram_Only")
    cycles, units = corrected(model, "ethos-u85-256"), by_id(model, UNITS)
    changed = [key for key in cycles if POOLING in cycles[key].corrections]
    assert changed
    for key in changed:
        # A cycle or two of each block are those of the output.
        stated = number(units[key]["mac_cycles"])
        assert 0.24 * stated < cycles[key].waits["MACs"] < 0.45 * stated


@pytest.mark.parametrize("device", ["ethos-u55-32", "ethos-u55-64", "ethos-u65-256", "ethos-u65-512"])
def test_that_corrected_cycles_are_never_more_than_vela_says_nor_less_than_memory(device):
    u65 = ("Ethos_U65_High_End", "Dedicated_Sram_384KB") if "u65" in device else ()
    model = compile_tosa("keyword_u55.tosa", device, *u65)
    cycles = corrected(model, device)
    for operation in cycles.values():
        assert max(operation.memory.values()) <= operation.cycles <= operation.vela
        assert operation.npu <= operation.cycles
        assert set(operation.corrections) <= set(CYCLE_CORRECTIONS_BY_ID)
    figures = totals(model, 1e9, cycles.values())
    assert figures.cycles_vela == int(model.perf_report.totalCycles)
    assert figures.cycles_total == sum(c.cycles for c in cycles.values())
    # The smallest device has no table slower than its output, and its pools no factor for bits.
    assert (figures.cycles_total < figures.cycles_vela) == (device != "ethos-u55-32")


def test_that_the_sweep_estimates_corrected_cycles():
    choice = target_of("ethos-u55-128").complete(TargetChoice(id="ethos-u55-128"))
    program = (TOSA / "keyword_u55.tosa").read_bytes()
    figures = estimate([program, program], "ethos-u55-128", choice.options, {})
    model = compile_tosa("keyword_u55.tosa", "ethos-u55-128")
    cycles = corrected(model, "ethos-u55-128").values()
    assert figures.cycles_total == 2 * sum(c.cycles for c in cycles)
    assert figures.cycles_vela == 2 * sum(c.vela for c in cycles)
    assert figures.inference_ms == pytest.approx(figures.cycles_total / 500e6 * 1e3)


@pytest.mark.slow
def test_that_mobilenet_is_within_the_bar_of_what_the_fvp_counts(tmp_path):
    folder = shutil.copytree(MOBILENET.parent, tmp_path / "net")
    net = store.load(folder / MOBILENET.name)
    options = {**net.target.options, "memory_mode": "Sram_Only"}
    net = net.model_copy(update={"target": TargetChoice(id="ethos-u55-128", options=options)})
    engine = Engine(folder)
    try:
        (report,) = engine.lowered(net).vela
    finally:
        engine.close()
    assert 0.85 < report.cycles_total / 1e6 / ON_FVP < 1.2
    assert report.cycles_vela / 1e6 / ON_FVP > 1.4
