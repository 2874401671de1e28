"""Placements of boards: the program is compiled for the first whose memories it fits."""

import pytest

from tests.engine.in_process import CALIBRATED, project
from tests.workbench.deploy.test_boards import write_placed
from workbench.deploy import boards
from workbench.engine.ethos_u.estimate import estimate
from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject
from workbench.results import PROGRAM_FILE
from workbench.targets import target_of
from workbench.targets.ethos_u.vela_ini import OPTION

pytestmark = pytest.mark.shared_results


def on_board(engine, flash):
    """Return a project on a board with two placements; ``flash`` is the first's size [bytes]."""
    write_placed(engine.folder, flash)
    return boards.put(OpenProject(project("small", **CALIBRATED), engine.folder), "mine.toml")


def test_that_a_program_that_fits_is_compiled_for_the_first_placement(engine):
    lowered = engine.lowered(on_board(engine, 1 << 20))
    assert (lowered.placement, lowered.system_config) == ("flash", "Ethos_U55_High_End_Embedded")


def test_that_a_program_that_is_too_large_is_compiled_for_the_next_placement(engine):
    net = on_board(engine, 1001)
    lowered = engine.lowered(net)
    assert lowered.placement == "slow flash"
    assert lowered.system_config == "Ethos_U55_Deep_Embedded"
    # The same bytes, cycles and time as of a project that chooses it.
    options = {**net.target.options, "system_config": "Ethos_U55_Deep_Embedded"}
    other = edits.set_target(net, TargetChoice(id=net.target.id, options=options))
    chosen = engine.lowered(other)
    assert chosen.placement == "slow flash"
    assert chosen.vela[0].cycles_total == lowered.vela[0].cycles_total
    paths = [engine.path(p, "lower") / PROGRAM_FILE for p in (net, other)]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_that_a_program_that_fits_no_placement_has_none(engine):
    net = on_board(engine, 1001)
    path = engine.folder / "mine.toml"
    text = path.read_text()
    path.write_text(text.replace('name = "big flash"', 'name = "big flash"\nbytes = 1000'))
    lowered = engine.lowered(net)
    assert (lowered.placement, lowered.system_config) == ("", "Ethos_U55_High_End_Embedded")


def test_that_the_ports_of_an_own_section_are_as_wide_as_those_of_the_device(engine):
    text = """[System_Config.{name}]
core_clock=500e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale=1.0
OffChipFlash_clock_scale=0.125
[Memory_Mode.Shared_Sram]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0
"""
    lowered = engine.path(project("small", **CALIBRATED), "lower")
    if not lowered.is_dir():
        engine.lowered(project("small", **CALIBRATED))
    programs = [path.read_bytes() for path in sorted(lowered.glob("delegate_*.tosa"))]
    complete = target_of("ethos-u55-128").complete(TargetChoice(id="ethos-u55-128")).options
    cycles = {}
    for name in ("Mine", "Ethos_U55_Mine"):
        options = {**complete, "system_config": name, OPTION: "own.ini"}
        files = {OPTION: text.format(name=name)}
        cycles[name] = estimate(programs, "ethos-u55-128", options, files).cycles_vela
    assert cycles["Mine"] == cycles["Ethos_U55_Mine"]
