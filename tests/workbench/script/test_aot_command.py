"""A command line becomes a project, or a sentence that says why not."""

from __future__ import annotations

import shlex

import numpy as np
import pytest

from tests.fakes.projects import make_project
from tests.for_each import for_each
from tests.problems import refused
from workbench.cli import main
from workbench.errors import WorkbenchError
from workbench.project import edits, store
from workbench.project.model import DataSource, Rule, TargetChoice
from workbench.project.opened import OpenProject
from workbench.script.aot_arm_compiler import give_command, take_command
from workbench.targets import target_of

TOOL = "python3 -m executorch.backends.arm.scripts.aot_arm_compiler"


def taken(tmp_path, words):
    return take_command(f"{TOOL} {words}", tmp_path, "mine")


def test_that_a_full_command_becomes_a_project(tmp_path):
    made = taken(
        tmp_path,
        "--model_name=net.py --delegate --quantize -t ethos-u85-256 \\\n --direct_drive "
        "--system_config Ethos_U85_SYS_DRAM_Mid --memory_mode Dedicated_Sram_384KB "
        "--non_strict_export --calibration_data data --model_input in.pt --bundleio",
    )
    project = made.project
    assert project.model.spec == "mine_model.py:model"
    assert not project.model.strict_export
    assert project.calibration.spec == "mine_model.py:calibration"
    assert [(r.kind, r.config) for r in project.rules] == [("global", "a8w8")]
    assert project.target.options["memory_mode"] == "Dedicated_Sram_384KB"
    assert project.target.options["cop_format"] == "COP2"
    assert target_of(project.target.id).check(project.target) == []
    code = made.files["mine_model.py"]
    compile(code, "mine_model.py", "exec")
    assert "from net import ModelUnderTest" in code
    assert "'in.pt'" in code
    assert any("bundled program" in note for note in made.notes)


@for_each("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-512"])
def test_that_what_the_command_leaves_open_is_what_executorch_takes(tmp_path, target):
    project = taken(tmp_path, f"-m mv2 -t {target}").project
    assert target_of(target).check(project.target) == []
    modes = {"u55": "Shared_Sram", "u65": "Dedicated_Sram_384KB", "u85": "Sram_Only"}
    assert project.target.options["memory_mode"] == modes[target.split("-")[1]]
    assert project.model.strict_export


def test_that_what_is_missing_is_said(tmp_path):
    notes = taken(tmp_path, "-m mv2").notes
    assert any("nothing is quantized" in note for note in notes)
    assert any("Without --delegate" in note for note in notes)
    assert taken(tmp_path, "-m mv2").project.rules == ()

    def lacks_data(words):
        return any("--calibration_data" in note for note in taken(tmp_path, words).notes)

    assert lacks_data("-m mv2 -d -q")
    assert not lacks_data("-m mv2 -d")
    assert not lacks_data("-m net.py -d -q --calibration_data data")


@for_each(
    ("words", "code"),
    [
        ("-m mv2 -t vgf", "aot-option-not-supported"),
        ("-m mv2 -t cortex-m55", "aot-option-not-supported"),
        ("-m mv2 -s ops.so", "aot-option-not-supported"),
        ("-m mv2 --calibration_data x", "aot-option-not-supported"),
        ("-m net.pt -q", "aot-option-not-supported"),
        ("-m other/net.py -q", "aot-model-not-beside-project"),
        ("-m net-1.py -q", "aot-model-not-beside-project"),
        ("-q", "aot-command-invalid"),
        ("-m mv2 --fast", "aot-command-invalid"),
        ("-m mv2 --quantize=yes", "aot-command-invalid"),
        ("-h", "aot-command-invalid"),
        ("-m 'mv2", "aot-command-unreadable"),
        ("-m mv2 -t ethos-u55-99", "target-unknown"),
    ],
)
def test_that_what_cannot_be_taken_over_is_a_sentence(tmp_path, words, code):
    with pytest.raises(WorkbenchError) as caught:
        taken(tmp_path, words)
    assert caught.value.infos[0].code == code


def test_that_another_command_is_no_such_command(tmp_path):
    with refused("aot-command-other-tool"):
        take_command("vela net.tflite", tmp_path, "mine")


def test_that_the_command_line_writes_it_and_overwrites_nothing(tmp_path, capsys):
    path = tmp_path / "mine.qwb"
    assert main(["new", str(path), "--aot", f"{TOOL} -m mv2 -d -q"]) == 0
    assert store.load(path).name == "mine"
    assert "mine_model.py" in capsys.readouterr().out
    assert main(["new", str(path), "--aot", f"{TOOL} -m mv2 -d -q"]) == 2
    assert "mine.qwb" in capsys.readouterr().err
    assert main(["new", str(tmp_path / "x.qwb"), "--target", "ethos-u55-128"]) == 2


def test_that_a_command_is_read_as_the_shell_would(tmp_path):
    two = taken(tmp_path, "-m 'net.py' -d -q \\\n-t ethos-u55-64\n -i inter -o out.pte")
    assert two.project.target.id == "ethos-u55-64"
    assert len(two.notes) == 3
    bare = take_command("aot_arm_compiler -m mv2", tmp_path, "mine")
    assert bare.project.name == "mine"
    assert bare.project.target.id == "ethos-u55-128"


def test_that_a_command_up_to_the_longest_is_read(tmp_path):
    from workbench.script.aot_arm_compiler import _MOST_CHARACTERS

    words = f"{TOOL} -m mv2"
    padded = words + " " * (_MOST_CHARACTERS - len(words))
    assert take_command(padded, tmp_path, "mine").project
    with refused("aot-command-too-long"):
        take_command(padded + " ", tmp_path, "mine")


@for_each(
    "option",
    [
        "--etrecord",
        "--intermediates x",
        "--enable_debug_mode x",
        "--evaluate",
        "--debug",
        "--evaluate_config x",
        "--bundleio",
        "--enable_qdq_fusion_pass",
    ],
)
def test_that_an_option_without_an_equal_is_noted(tmp_path, option):
    plain = set(taken(tmp_path, "-m mv2 -d -q").notes)
    (note,) = set(taken(tmp_path, f"-m mv2 -d -q {option}").notes) - plain
    assert note.startswith(option.split()[0])


def test_that_kernels_and_regions_follow_from_direct_drive(tmp_path):
    usual = taken(tmp_path, "-m mv2").project.target.options
    direct = taken(tmp_path, "-m mv2 --direct_drive").project.target.options
    assert (usual["cpu_kernels"], direct.get("cpu_kernels")) == ("cortex_m", None)
    assert (direct["cop_format"], direct["separate_io_regions"]) == ("COP2", True)
    assert not usual.get("separate_io_regions")
    own = taken(tmp_path, "-m mv2 --config mine.ini --system_config A --memory_mode B").project
    assert own.target.options["config_ini"] == "mine.ini"
    assert own.target.options["system_config"] == "A"
    assert own.target.options["memory_mode"] == "B"
    assert not usual.get("config_ini")


@for_each(
    ("words", "code"),
    [
        ("-m net.py", "from net import ModelInputs as inputs\n    from net import ModelUnderTest"),
        ("-m mv2", "MODEL_NAME_TO_MODEL['mv2']"),
        ("-m net.pt --model_input in.pt", "torch.load(HERE / 'net.pt', weights_only=False)"),
        ("-m net.pth --model_input in.pt", "torch.load(HERE / 'in.pt', weights_only=True)"),
    ],
)
def test_that_the_model_is_made_as_the_compiler_makes_it(tmp_path, words, code):
    files = taken(tmp_path, words).files
    text = files["mine_model.py"]
    compile(text, "mine_model.py", "exec")
    assert code in text
    assert "def calibration" not in text


def test_that_absolute_paths_become_relative_to_the_project(tmp_path):
    inner = tmp_path / "inner"
    text = take_command(f"{TOOL} -m mv2 -q --calibration_data {tmp_path}/data", inner, "mine").files[
        "mine_model.py"
    ]
    assert "named = HERE / '../data'" in text


def test_that_files_that_are_there_are_named_and_replaced_only_on_demand(tmp_path):
    from workbench.script.aot_arm_compiler import write_taken

    made, path = taken(tmp_path, "-m mv2 -d -q"), tmp_path / "mine.qwb"
    (tmp_path / "mine_model.py").write_text("own")
    with refused("file-exists"):
        write_taken(made, path)
    assert not path.exists()
    assert (tmp_path / "mine_model.py").read_text() == "own"
    write_taken(made, path, overwrite=True)
    assert store.load(path) == made.project
    assert (tmp_path / "mine_model.py").read_text() == made.files["mine_model.py"]
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine_model.py").mkdir()
    with refused("folder-not-writable"):
        write_taken(made, tmp_path / "folder" / "mine.qwb", overwrite=True)


def given(project, tmp_path):
    (tmp_path / "net.pt2").write_bytes(b"")
    return give_command(OpenProject(project, tmp_path), tmp_path / "out" / "my model.py")


def test_that_a_plain_project_is_one_command(tmp_path):
    project = edits.set_target(
        make_project(), target_of("ethos-u55-128").complete(TargetChoice(id="ethos-u55-128"))
    )
    (command,), text = given(project, tmp_path)
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "executorch.backends.arm.scripts.aot_arm_compiler"]
    assert words[3:] == [
        "--model_name=my model.py",
        "--delegate",
        "--quantize",
        "--target=ethos-u55-128",
        "--system_config=Ethos_U55_High_End_Embedded",
        "--memory_mode=Shared_Sram",
        *(["--non_strict_export"] if not project.model.strict_export else []),
        "--output=net.pte",
    ]
    compile(text, "model.py", "exec")
    assert "'..'" in text
    strict = project.model.model_copy(update={"strict_export": True})
    (command,), _ = given(edits.set_model(project, strict), tmp_path)
    assert "--non_strict_export" not in command
    np.savez(tmp_path / "data.npz", x=np.zeros((4, 1)))
    data = edits.set_calibration(project, DataSource(spec="data.npz", limit=4))
    commands, text = given(data, tmp_path)
    assert commands[0] == "python 'my model.py'"
    assert "--calibration_data=my model_samples" in shlex.split(commands[1])
    taken_back = take_command(commands[1].replace("my model.py", "net.py"), tmp_path, "mine")
    assert taken_back.project.target.id == "ethos-u55-128"
    direct = with_options(project, cop_format="COP2", separate_io_regions=True)
    assert "--direct_drive" in given(direct, tmp_path)[0][0]


def with_options(project, **options):
    choice = TargetChoice(id=project.target.id, options={**project.target.options, **options})
    return edits.set_target(project, choice)


BASE = make_project()


@for_each(
    "project",
    [
        edits.assign(BASE, "global", "", "a16w8"),
        edits.assign(BASE, "io", "", "uint8"),
        edits.remove_rule(BASE, "r1"),
        edits.assign(BASE, "global", "", "cpu"),
        BASE.model_copy(update={"rules": (Rule(id="r1", kind="module_name", match="body", config="a8w8"),)}),
        edits.fix_range(BASE, "relu", 0.0, 1.0),
        edits.choose_method(BASE, "all", "", "mse"),
        edits.set_improver(BASE, "bias", on=True),
        with_options(BASE, optimise="Size"),
        with_options(BASE, integer_io=True),
        with_options(BASE, extra_flags="--x"),
        with_options(BASE, arena_cache_bytes=4096),
        with_options(BASE, cop_format="COP2"),
        edits.set_calibration(BASE, DataSource(spec="data.npz", limit=1001)),
        edits.set_calibration(BASE, DataSource(spec="data.npz", limit=None)),
    ],
)
def test_that_what_the_command_cannot_say_is_refused_with_every_reason(project, tmp_path):
    with refused("aot-not-supported"):
        given(project, tmp_path)
    both = edits.fix_range(edits.set_improver(project, "equalize", on=True), "x", 0.0, 1.0)
    with pytest.raises(WorkbenchError) as caught:
        given(both, tmp_path)
    assert len(caught.value.infos) in {2, 3}


@for_each(("options", "named"), [({"optimise": "Size"}, "optimise"), ({"config_ini": "own.ini"}, ".ini")])
def test_that_an_option_the_command_lacks_is_named(options, named, tmp_path):
    with pytest.raises(WorkbenchError) as caught:
        given(with_options(BASE, **options), tmp_path)
    assert named in caught.value.infos[0].message


def test_that_a_thousand_samples_can_be_given(tmp_path):
    np.savez(tmp_path / "data.npz", x=np.zeros((4, 1)))
    project = edits.set_calibration(BASE, DataSource(spec="data.npz", limit=1000))
    assert len(given(project, tmp_path)[0]) == 2
    off = Rule(id="r7", kind="module_name", match="head", config="a16w8", enabled=False)
    project = project.model_copy(update={"rules": (*project.rules, off)})
    assert len(given(project, tmp_path)[0]) == 2
    assert given(with_options(BASE, cpu_kernels="cortex_m"), tmp_path)
