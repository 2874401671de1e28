"""Settings of a project by key, preprocessing, and the document of a verb that fails."""

import json

import numpy as np
import pytest
from PIL import Image

from tests.for_each import for_each
from tests.schemas import checked
from workbench import api
from workbench.cli import main
from workbench.project import store
from workbench.project.model import Preprocess


@pytest.fixture
def project(project_file, capsys):
    """A project beside a folder of pictures."""
    (project_file.parent / "pics").mkdir()
    Image.new("RGB", (8, 8)).save(project_file.parent / "pics" / "a.png")
    return project_file


def document(capsys, name):
    """Return the document on stdout, checked with its schema."""
    return checked(json.loads(capsys.readouterr().out), name)


def test_that_every_field_of_the_project_file_can_be_listed_and_set(project, capsys):
    assert main(["settings", str(project), "--json"]) == 0
    listed = document(capsys, "settings")["settings"]
    assert {
        "name",
        "model.spec",
        "calibration.preprocess.mean",
        "evaluation.metric",
        "gate.lsb",
        "verification.samples",
        "target.options.memory_mode",
        "notes",
    } <= set(listed)
    given = {
        "name": "mine",
        "model.input_shapes": "1x3x8x8,1x4",
        "model.strict_export": "on",
        "calibration": "pics",
        "calibration.preprocess": "size=8,layout=bgr",
        "calibration.limit": "5",
        "evaluation.limit": "7",
        "gate.lsb": "none",
        "gate.fail_if": "cycles>9,top1<0.5",
        "verification.samples": "3",
        "target.options.memory_mode": "Sram_Only",
        "notes": "none",
    }
    assert main(["settings", str(project), *(f"{k}={v}" for k, v in given.items())]) == 0
    made = store.load(project)
    assert made.model.input_shapes == ((1, 3, 8, 8), (1, 4))
    assert made.calibration.preprocess == Preprocess(size=(8, 8), layout="bgr")
    assert (made.calibration.limit, made.gate.lsb) == (5, None)
    assert made.gate.fail_if == ("cycles>9", "top1<0.5")
    assert made.target.options["memory_mode"] == "Sram_Only"
    assert made.notes == "none"
    assert main(["settings", str(project), "calibration=", "gate.lsb=", "notes="]) == 0
    made = store.load(project)
    assert (made.calibration, made.gate.lsb, made.notes) == (None, 3, "")


@for_each(
    ("given", "code"),
    [
        ("calibraton=pics", "setting-unknown"),
        ("gate.lsb=some", "setting-invalid"),
        ("model.strict_export=perhaps", "setting-invalid"),
        ("calibration.limit", "setting-invalid"),
        ("calibration.limit=0", "project-field-invalid"),
        ("calibration.preprocess=size=8,layot=rgb", "preprocess-invalid"),
        ("evaluation=pics", "setting-invalid"),
        ("calibration=nowhere.npz", "source-file-missing"),
        ("gate.fail_if=lsb~3", "project-field-invalid"),
        ("model.spec=", "project-field-invalid"),
        ("target.id=ethos-u99", "target-unknown"),
        ("target.options.colour=red", "target-option-invalid"),
        ("target.options.memory_mode=Nowhere", "vela-memory-mode-unfit"),
        ("board=nowhere", "board-unknown"),
    ],
)
def test_that_a_wrong_setting_is_refused_and_writes_nothing(project, codes, capsys, given, code):
    codes.clear()
    before = project.read_text()
    capsys.readouterr()
    assert main(["settings", str(project), given, "--json"]) == 2
    assert project.read_text() == before
    assert code in codes
    assert document(capsys, "error")["error"]["code"] in codes


PREPROCESS = "size=256,crop=224,mean=0.485/0.456/0.406,std=0.229/0.224/0.225,layout=rgb"


def test_that_new_and_preprocess_write_the_same_settings(project):
    path = project.parent / "other.qwb"
    words = ["new", str(path), "--model", "net.pt2", "--target", "ethos-u55-128"]
    assert main([*words, "--calibration", "pics", "--preprocess", PREPROCESS]) == 0
    made = store.load(path).calibration.preprocess
    assert made == Preprocess(
        size=(256, 256), crop=(224, 224), layout="rgb", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)
    )
    assert main(["settings", str(project), "calibration=pics", "evaluation.data=pics"]) == 0
    found = api.check(api.open(project)).warnings
    assert "pictures-preprocess-missing" in {info.code for info in found}
    assert main(["preprocess", str(project), PREPROCESS]) == 0
    changed = store.load(project)
    assert changed.calibration.preprocess == changed.evaluation.data.preprocess == made


@for_each(("flags", "is_set"), [([], False), (["--preprocess", PREPROCESS], True)])
def test_that_only_folders_of_pictures_are_preprocessed(project, flags, is_set):
    path = project.parent / "other.qwb"
    path.unlink(missing_ok=True)
    np.savez(project.parent / "data.npz", x=np.zeros((4, 3)))
    words = ["new", str(path), "--model", "net.pt2", "--target", "ethos-u55-128", *flags]
    assert main([*words, "--calibration", "data.npz", "--evaluation", "pics"]) == 0
    made = store.load(path)
    assert made.calibration.preprocess is None
    assert (made.evaluation.data.preprocess is not None) == is_set


def test_that_preprocess_needs_a_folder_of_pictures(project, codes):
    assert main(["preprocess", str(project), "size=8"]) == 2
    path = project.parent / "other.qwb"
    words = ["new", str(path), "--model", "net.pt2", "--target", "ethos-u55-128"]
    assert main([*words, "--preprocess", "size=8"]) == 2
    assert codes == ["pictures-missing"] * 2


@for_each("words", [["run"], ["check", "--colour"], ["gibberish"]])
def test_that_a_wrong_command_line_gives_a_document_too(capsys, words):
    assert main([*words, "--json"]) == 2
    found = document(capsys, "error")
    assert (found["error"]["code"], found["exit_code"]) == ("usage-invalid", 2)


def test_that_a_project_without_trust_gives_a_document_with_its_exit_code(project, capsys):
    (project.parent / "model.py").write_text("def net(): ...\n")
    opened = api.open(project)
    api.save(api.set_settings(opened, {"model.spec": "model.py:net"}))
    assert main(["run", str(project), "--json"]) == 3
    assert document(capsys, "error")["exit_code"] == 3
