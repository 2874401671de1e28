"""Settings of a project by key, options of its target, and how its pictures become inputs."""

import pytest
from PIL import Image

import workbench.api as wb
from tests.for_each import for_each
from tests.problems import refused
from workbench.project.model import DataSource, Preprocess, TargetChoice

MEMORY = "target.options.memory_mode"


@pytest.fixture
def net(project_file):
    """A project beside a folder of pictures."""
    (project_file.parent / "pics").mkdir()
    Image.new("RGB", (8, 8)).save(project_file.parent / "pics" / "a.png")
    return wb.open(project_file)


def test_that_an_option_is_set_and_an_unknown_one_refused(tmp_path):
    choice = TargetChoice(id="ethos-u55-128")
    changed = wb.set_options(choice, {"memory_mode": "Sram_Only"}, tmp_path)
    assert changed.options["memory_mode"] == "Sram_Only"
    assert changed.options["optimise"]
    with refused("target-option-invalid") as caught:
        wb.set_options(choice, {"memory_mood": "Sram_Only"}, tmp_path)
    assert caught.value.infos[0].where.id == "target.memory_mood"
    with refused("vela-optimise-invalid"):
        wb.set_options(choice, {"optimise": "Speed"}, tmp_path)


@for_each(
    ("name", "text", "value"),
    [
        ("integer_io", "on", True),
        ("integer_io", "OFF", False),
        ("integer_io", "true", True),
        ("arena_cache_bytes", "4096", 4096),
        ("optimise", "Size", "Size"),
        ("optimise", "", "Performance"),
        ("extra_flags", "7", "7"),
        ("extra_flags", "", ""),
    ],
)
def test_that_a_text_is_read_in_the_type_of_its_option(tmp_path, name, text, value):
    choice = wb.set_options(TargetChoice(id="ethos-u85-256"), {"integer_io": True}, tmp_path)
    assert wb.set_options(choice, {name: text}, tmp_path).options[name] == value


def test_that_a_value_is_taken_as_it_is(tmp_path):
    choice = TargetChoice(id="ethos-u85-256")
    assert wb.set_options(choice, {"integer_io": True}, tmp_path).options["integer_io"] is True
    for wrong in ({"integer_io": 1}, {"integer_io": "perhaps"}, {"arena_cache_bytes": "many"}):
        with pytest.raises(wb.WorkbenchError) as caught:
            wb.set_options(choice, wrong, tmp_path)
        assert caught.value.codes == ("target-option-type",)


def test_that_settings_are_listed_with_the_options_behind_the_target(net):
    found = wb.settings(net)
    keys = [row.key for row in found.rows]
    at = keys.index("target.id")
    assert keys[at + 1].startswith("target.options.")
    assert found["target.id"] == "ethos-u55-128"
    assert found[MEMORY] == found.values[MEMORY] == "Shared_Sram"
    by_key = {row.key: row for row in found.rows}
    assert by_key[MEMORY].takes == "Sram_Only or Shared_Sram"
    assert by_key["target.options.integer_io"].takes == "a switch"
    assert by_key["target.options.integer_io"].value is False
    with pytest.raises(KeyError):
        found["gate.colour"]
    html = found._repr_html_()
    assert f"<td>{MEMORY}</td><td>Shared_Sram</td>" in html


def test_that_what_is_listed_can_be_set_again(net):
    opened = wb.set_settings(
        net, {"calibration": "pics", "calibration.preprocess": Preprocess(size=(8, 8), mean=(0.5,))}
    )
    assert opened.project.calibration.preprocess.mean == (0.5,)
    listed = {k: v for k, v in wb.settings(opened).values.items() if v is not None}
    assert wb.set_settings(opened, listed).project.calibration == opened.project.calibration


def test_that_a_new_device_gets_options_of_its_own(net):
    sized = wb.set_settings(net, {"target.options.optimise": "Size"})
    assert sized.project.target.options["optimise"] == "Size"
    opened = wb.set_settings(sized, {"target.id": "ethos-u85-256"})
    assert opened.project.target.options["system_config"] == "Ethos_U85_SYS_DRAM_Mid"
    assert opened.project.target.options["optimise"] == "Performance"
    both = wb.set_settings(net, {"target.id": "ethos-u85-256", MEMORY: "Sram_Only"})
    assert both.project.target.options["memory_mode"] == "Sram_Only"
    assert net.project.target.id == "ethos-u55-128"


def test_that_a_board_sets_its_target_and_no_board_leaves_it(net):
    opened = wb.set_settings(net, {"board": "alif-ensemble-e8"})
    assert opened.project.board == "alif-ensemble-e8"
    assert opened.project.target.id in {"ethos-u55-128", "ethos-u55-256", "ethos-u85-256"}
    chosen = wb.set_settings(net, {"board": "alif-ensemble-e8", "target.id": "ethos-u85-256"})
    assert chosen.project.target.id == "ethos-u85-256"
    assert not wb.check(opened).errors
    left = wb.set_settings(chosen, {"board": ""})
    assert (left.project.board, left.project.target.id) == ("", "ethos-u85-256")
    assert left.project.target.options == chosen.project.target.options


def test_that_a_device_that_is_chosen_later_has_the_options_of_no_board(net):
    board = wb.set_settings(net, {"board": "renesas-ra8p1"})
    assert board.project.target.options["system_config"] == "RA8P1"
    chosen = wb.set_settings(board, {"target.id": "ethos-u55-256"}).project.target
    assert chosen.options["system_config"] == "Ethos_U55_High_End_Embedded"


def test_that_only_a_device_that_is_named_must_be_on_the_board(net):
    away = wb.set_settings(net, {"target.id": "ethos-u85-256"})
    assert wb.set_settings(away, {"board": "himax-we2"}).project.target.id == "ethos-u55-64"
    with refused("board-device-unknown"):
        wb.set_settings(net, {"board": "himax-we2", "target.id": "ethos-u85-256"})


def test_that_only_new_problems_refuse_a_change(net):
    (net.folder / "net.pt2").unlink()
    opened = wb.set_settings(net, {"gate.lsb": 1})
    assert opened.project.gate.lsb == 1
    with refused("source-file-missing"):
        wb.set_settings(net, {"calibration": "gone.npz"})
    unknown = net.edited(
        lambda project: project.model_copy(update={"target": TargetChoice(id="ethos-u99-1")})
    )
    assert wb.set_settings(unknown, {"name": "other"}).project.name == "other"


def test_that_preprocessing_is_set_for_the_pictures_that_are_named(net):
    both = wb.set_settings(net, {"calibration": "pics", "evaluation.data": "pics"})
    text, made = "size=8,layout=bgr", Preprocess(size=(8, 8), layout="bgr")
    for data, wanted in (
        (("calibration", "evaluation"), (made, made)),
        (("calibration",), (made, None)),
        (("evaluation",), (None, made)),
    ):
        project = wb.set_preprocess(both, text, data).project
        assert (project.calibration.preprocess, project.evaluation.data.preprocess) == wanted
        assert wb.set_preprocess(both, made, data).project == project
    assert wb.set_preprocess(both, made).project.evaluation.metric == both.project.evaluation.metric
    removed = wb.set_preprocess(wb.set_preprocess(both, text), None).project
    assert removed.calibration.preprocess is removed.evaluation.data.preprocess is None


def test_that_preprocessing_needs_a_folder_of_pictures(net):
    one = wb.set_settings(net, {"evaluation.data": "pics"})
    assert wb.set_preprocess(one, "size=8").project.calibration is None
    for opened, data in ((net, ("calibration", "evaluation")), (one, ("calibration",))):
        with refused("pictures-missing"):
            wb.set_preprocess(opened, "size=8", data)
    (net.folder / "x.npz").write_bytes(b"")
    arrays = net.edited(lambda project: project.model_copy(update={"calibration": DataSource(spec="x.npz")}))
    with refused("pictures-missing"):
        wb.set_preprocess(arrays, "size=8")
