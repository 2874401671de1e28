"""An own .ini for Vela: what it holds decides, not where it lies; what it lacks is said."""

import configparser

import pytest

from tests.fakes.projects import write_project
from tests.for_each import for_each
from workbench.deploy.boards import all_boards
from workbench.errors import WorkbenchError
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project import edits, store
from workbench.project.board_files import board_file
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject
from workbench.targets import target_of
from workbench.targets.ethos_u.devices import memory_use
from workbench.targets.ethos_u.vela_ini import ini_path, load, parse, section_for_vela, text_for_vela

SYSTEM = """[System_Config.Mine]
core_clock=400e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale=0.5
OffChipFlash_clock_scale=0.1
"""
MODES = """[Memory_Mode.Flash]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0
[Memory_Mode.Inside]
inherit=Memory_Mode.Flash
const_mem_area=Axi0
[Memory_Mode.Spilling]
inherit=Memory_Mode.Flash
arena_mem_area=Axi1
"""
TARGET = target_of("ethos-u55-128")


def choice(file="own.ini", **options):
    return TargetChoice(id="ethos-u55-128", options={"config_ini": file, **options})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own.ini").write_text(SYSTEM + MODES)
    return tmp_path


def test_that_a_value_is_inherited_over_up_to_twenty_sections():
    def heirs(count):
        chain = (f"[Memory_Mode.M{k}]\ninherit=Memory_Mode.M{k - 1}\n" for k in range(1, count))
        return SYSTEM + MODES.replace("Flash", "M0") + "".join(chain)

    assert parse(heirs(20), "mine.ini").modes["M19"].arena == 0
    with pytest.raises(WorkbenchError) as caught:
        parse(heirs(21), "mine.ini")
    assert {info.code for info in caught.value.infos} == {"vela-config-value-invalid"}


def test_that_a_file_is_checked_where_its_folder_is_known(tmp_path):
    assert TARGET.check(choice("gone.ini")) == []
    given = choice("gone.ini", system_config="Mine", memory_mode="Flash")
    # Names of a file that cannot be read stay as they are, and are the only ones offered.
    options = {o.name: o for o in TARGET.options(given, tmp_path)}
    for name, value in (("system_config", "Mine"), ("memory_mode", "Flash")):
        assert [(c.value, c.title) for c in options[name].choices] == [(value, value)]


def test_that_names_and_clock_come_from_the_file(folder):
    options = {o.name: o for o in TARGET.options(choice(), folder)}
    assert [c.value for c in options["system_config"].choices] == ["Mine"]
    assert "400 MHz" in options["system_config"].choices[0].title
    complete = TARGET.complete(choice(), folder)
    assert (complete.options["system_config"], complete.options["memory_mode"]) == ("Mine", "Flash")
    assert TARGET.check(complete, folder) == []
    assert TARGET.figures(complete, folder)["Clock"] == "400 MHz"


def test_that_a_mode_whose_arena_would_lie_in_flash_is_not_offered(folder):
    options = {o.name: o for o in TARGET.options(choice(), folder)}
    assert [c.value for c in options["memory_mode"].choices] == ["Flash", "Inside"]
    (problem,) = TARGET.check(choice(system_config="Mine", memory_mode="Spilling"), folder)
    assert problem.code == "vela-config-memory-mode-missing"
    assert problem.where.id == "target.options.memory_mode"
    assert "Flash, Inside" in problem.hint


def test_that_velas_names_are_refused_beside_an_own_file(folder):
    (problem,) = TARGET.check(choice(system_config="Ethos_U55_High_End_Embedded"), folder)
    assert problem.where.id == "target.options.system_config"
    assert "It has Mine." in problem.hint


@for_each(
    ("text", "code", "named"),
    [
        ("", "vela-config-section-missing", "System_Config"),
        (SYSTEM, "vela-config-section-missing", "Memory_Mode"),
        (SYSTEM.replace("core_clock=400e6\n", "") + MODES, "vela-config-value-invalid", "core_clock"),
        (
            SYSTEM.replace("Sram_clock_scale=0.5\n", "") + MODES,
            "vela-config-value-invalid",
            "Sram_clock_scale",
        ),
        (SYSTEM.replace("400e6", "nan") + MODES, "vela-config-value-invalid", "core_clock=nan"),
        (SYSTEM.replace("OffChipFlash\n", "Tape\n") + MODES, "vela-config-value-invalid", "Tape"),
        (
            SYSTEM + MODES.replace("arena_mem_area=Axi0\n", ""),
            "vela-config-value-invalid",
            "[Memory_Mode.Flash]",
        ),
        (
            SYSTEM + MODES.replace("const_mem_area=Axi1", "const_mem_area=Sram"),
            "vela-config-value-invalid",
            "const_mem_area=Sram",
        ),
        (
            SYSTEM + MODES.replace("Memory_Mode.Flash\narena", "Memory_Mode.None\narena"),
            "vela-config-value-invalid",
            "[Memory_Mode.None]",
        ),
        (SYSTEM + MODES + "arena_cache_size=lots\n", "vela-config-value-invalid", "arena_cache_size=lots"),
        (SYSTEM.replace(".Mine", ".") + MODES, "vela-config-section-missing", "System_Config"),
        ("core_clock=1\n", "vela-config-invalid", "mine.ini"),
        (SYSTEM + SYSTEM + MODES, "vela-config-invalid", "mine.ini"),
    ],
)
def test_that_what_is_missing_or_wrong_is_said_with_its_section_and_a_hint(text, code, named):
    with pytest.raises(WorkbenchError) as caught:
        parse(text, "mine.ini")
    info = next(i for i in caught.value.infos if named in i.message)
    assert info.code == code
    assert info.message.startswith("mine.ini")
    assert info.hint
    assert info.where.id == "target.options.config_ini"


def test_that_a_file_that_cannot_be_read_is_a_problem_of_the_option(folder):
    (folder / "binary.ini").write_bytes(b"\xff\xfe\x00")
    for name in ("gone.ini", "binary.ini", "."):
        (problem,) = TARGET.check(choice(name), folder)
        assert problem.where.id == "target.options.config_ini"


def test_that_every_problem_is_told_at_once():
    with pytest.raises(WorkbenchError) as caught:
        parse("[System_Config.A]\n[Memory_Mode.B]\n", "x.ini")
    assert len(caught.value.infos) == 2


def test_that_the_name_of_the_file_changes_no_key_and_its_content_does(folder, tmp_path):
    path = write_project(folder / "project")

    def key(name):
        project = edits.set_target(store.load(path), TARGET.complete(choice(f"../{name}"), path.parent))
        return plan(OpenProject(project, path.parent), Cache(tmp_path / "cache")).key("lower")

    (folder / "other name.ini").write_text(SYSTEM + MODES)
    (folder / "slower.ini").write_text(SYSTEM.replace("0.5", "0.25") + MODES)
    assert key("own.ini") == key("other name.ini") != key("slower.ini")


def test_that_inherited_sizes_of_a_cache_are_read(folder):
    sized = MODES + "arena_cache_size=65536\n[Memory_Mode.Heir]\ninherit=Memory_Mode.Spilling\n"
    (folder / "own.ini").write_text(SYSTEM + sized)
    assert load(folder / "own.ini").modes["Heir"].cache_bytes == 65536


def test_that_a_file_may_lie_beside_a_board(folder, tmp_path):
    assert ini_path("own.ini", tmp_path) == tmp_path / "own.ini"
    board = next(name for name in all_boards() if board_file(name, tmp_path))
    assert ini_path(f"board:{board}/own.ini", tmp_path).name == "own.ini"
    assert ini_path(f"board:{board}/own.ini", tmp_path).parent == board_file(board, tmp_path).parent
    with pytest.raises(WorkbenchError):
        ini_path("board:nobody/own.ini", tmp_path)


def test_that_without_its_system_configuration_every_memory_mode_is_offered():
    found = parse(SYSTEM + MODES, "own.ini")
    assert found.fitting("Mine") == ["Flash", "Inside"]
    assert found.fitting("Another") == ["Flash", "Inside", "Spilling"]


@for_each("clock", ["fast", "0", "-1", "inf", "nan", "%(x)s"])
def test_that_a_clock_is_a_positive_number(clock):
    with pytest.raises(WorkbenchError):
        parse(SYSTEM.replace("400e6", clock) + MODES, "own.ini")


def test_that_ports_of_an_own_file_tell_what_lies_in_sram(folder):
    def use(mode, system="Mine"):
        complete = TARGET.complete(choice(system_config=system, memory_mode=mode), folder)
        options = {**complete.options, "memory_mode": mode, "system_config": system}
        found = memory_use(complete.model_copy(update={"options": options}), folder)
        return found.constants_in_sram, found.arena_in_sram, found.cache_bytes

    assert use("Flash") == (False, True, 0)
    assert use("Inside") == (True, True, 0)
    assert use("Spilling") == (False, False, 0)
    other = SYSTEM.replace("axi1_port=OffChipFlash", "axi1_port=Sram").replace("Mine", "Both")
    (folder / "own.ini").write_text(SYSTEM + other + MODES)
    assert use("Flash", "Both") == (True, True, 0)


NARROW = """[System_Config.Base]
core_clock=400e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale=0.5
OffChipFlash_clock_scale=0.25
[System_Config.Mine]
inherit=System_Config.Base
OffChipFlash_clock_scale=0.125
[Memory_Mode.Shared_Sram]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0
"""


def test_that_a_section_has_the_name_that_vela_takes_for_the_device():
    ini = parse(NARROW, "own.ini")
    assert section_for_vela("Mine", "ethos-u55-128") == "Ethos_U55_Mine"
    assert section_for_vela("Ethos_U55_Mine", "ethos-u55-128") == "Ethos_U55_Mine"
    assert section_for_vela("Mine", "ethos-u85-256") == "Mine"
    assert section_for_vela("Ethos_U55_Mine", "ethos-u65-256") == "Own_Ethos_U55_Mine"
    assert text_for_vela(ini, "Mine", "ethos-u65-256") == NARROW
    written = configparser.ConfigParser()
    written.optionxform = str
    written.read_string(text_for_vela(ini, "Mine", "ethos-u55-128"))
    # With what it inherits, and nothing else changed.
    assert dict(written["System_Config.Ethos_U55_Mine"]) == {
        "core_clock": "400e6",
        "axi0_port": "Sram",
        "axi1_port": "OffChipFlash",
        "Sram_clock_scale": "0.5",
        "OffChipFlash_clock_scale": "0.125",
    }
    assert text_for_vela(ini, "Mine", "ethos-u55-128").startswith(NARROW.rstrip())
