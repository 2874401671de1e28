"""The form of a checkpoint file, told from its bytes and names alone."""

import json
import pickle
import zipfile

import pytest

from tests.for_each import for_each
from workbench.project import checkpoints
from workbench.project.checkpoints import form_of


@for_each(
    ("names", "form"),
    [
        (("net/archive_format", "net/data"), "program"),
        (("net/constants.pkl", "net/data.pkl"), "torchscript"),
        (("config.json", "model.weights.h5"), "keras"),
        (("config.json", "model.bin"), "unknown"),
        (("readme.txt", "model.weights.h5"), "unknown"),
    ],
)
def test_that_an_archive_is_told_by_the_names_in_it(tmp_path, names, form):
    path = tmp_path / "weights.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    assert form_of(path) == form


@for_each(
    ("data", "form"),
    [
        (b"\0\0\0\0TFL3", "tflite"),
        (b"\0\0\0\0TFL3\0\0", "tflite"),
        (b"\x89HDF\r\n", "hdf5"),
        (b"GGUF\x03", "gguf"),
        ((2).to_bytes(8, "little") + b"{}", "safetensors"),
        ((99).to_bytes(8, "little") + b"{}", "unknown"),
        # A header as long as the whole file leaves no room for its length.
        ((9).to_bytes(8, "little") + b"{}", "safetensors"),
        ((10).to_bytes(8, "little") + b"{}", "unknown"),
        (b"", "unknown"),
    ],
)
def test_that_a_file_is_told_by_its_first_bytes(tmp_path, data, form):
    path = tmp_path / "weights"
    path.write_bytes(data)
    assert form_of(path) == form


FIELDS = ("_parameters", "_buffers", "_modules")


class Module:
    """An object with the fields of a torch module."""

    def __init__(self, fields=FIELDS):
        for field in fields:
            setattr(self, field, {})


def archive(path, **records):
    with zipfile.ZipFile(path, "w") as zipped:
        for name, data in records.items():
            zipped.writestr(name.replace("__", "/").replace("_dot_", "."), data)
    return path


@for_each(
    ("value", "form"),
    [
        (Module(), "module"),
        (Module((*FIELDS, "training")), "module"),
        ({"a": 1}, "pickle"),
        (Module(("_buffers", "_modules")), "pickle"),
        ({"_parameters": 1, "_buffers": 2}, "pickle"),
    ],
)
def test_that_a_pickled_module_is_told_from_a_state_dict(tmp_path, value, form):
    data = pickle.dumps(value, 2)
    assert form_of(archive(tmp_path / "a.pt", net__data_dot_pkl=data)) == form
    old = tmp_path / "old.pt"
    # torch's older format: a magic number, its version and facts of the system come first.
    old.write_bytes(b"".join(pickle.dumps(part, 2) for part in (1, 1001, {})) + data)
    assert form_of(old) == form
    fifth = tmp_path / "fifth.pt"
    fifth.write_bytes(b"".join(pickle.dumps(part, 2) for part in (1, 2, 3, 4)) + data)
    assert form_of(fifth) == "pickle"


def test_that_arrays_folders_and_onnx_files_are_told(tmp_path):
    assert form_of(archive(tmp_path / "a.npz", a_dot_npy=b"x", b_dot_npy=b"y")) == "npz"
    assert form_of(archive(tmp_path / "b.npz", a_dot_npy=b"x", b_dot_txt=b"y")) == "unknown"
    assert form_of(tmp_path) == "folder"
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert form_of(tmp_path) == "savedmodel"
    (tmp_path / "net.onnx").write_bytes(b"\x08\x07")
    assert form_of(tmp_path / "net.onnx") == "onnx"
    (tmp_path / "model.safetensors.index.json").write_bytes(b"")
    assert form_of(tmp_path / "model.safetensors.index.json") == "index"
    assert form_of(tmp_path / "absent.pt") == "unknown"
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04rest")
    assert form_of(tmp_path / "cut.zip") == "unknown"


@for_each("is_archive", [True, False])
def test_that_a_pickle_of_too_many_parts_is_refused(tmp_path, monkeypatch, is_archive):
    monkeypatch.setattr(checkpoints, "_MOST_OPERATIONS", 50)
    path = tmp_path / "long.pt"

    def write(value):
        data = pickle.dumps(value, 2)
        if is_archive:
            archive(path, net__data_dot_pkl=data)
        else:
            path.write_bytes(b"".join(pickle.dumps(part, 2) for part in (1, 2, 3, 4)) + data)

    write(list(range(10)))
    checkpoints.refuse_long_pickles(path)
    write([[k] for k in range(40)])
    with pytest.raises(checkpoints.LongPickleError):
        checkpoints.refuse_long_pickles(path)


def test_that_damage_and_other_records_are_left_to_the_reader(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_MOST_OPERATIONS", 50)
    long = pickle.dumps([[k] for k in range(40)], 2)
    checkpoints.refuse_long_pickles(archive(tmp_path / "a.pt", net__data_dot_txt=long))
    path = tmp_path / "cut.pt"
    path.write_bytes(pickle.dumps([1, 2], 2)[:-2])
    checkpoints.refuse_long_pickles(path)
    # The sixth pickle of a file belongs to the storages.
    path.write_bytes(b"".join(pickle.dumps(part, 2) for part in (1, 2, 3, 4, 5)) + long)
    checkpoints.refuse_long_pickles(path)


def test_that_an_index_names_the_shards_beside_it(tmp_path):
    index = tmp_path / "model.safetensors.index.json"
    names = {"a": "two.safetensors", "b": "one.safetensors", "c": "two.safetensors"}
    index.write_text(json.dumps({"weight_map": {**names, "d": "../../outside.safetensors"}}))
    assert [path.name for path in checkpoints.shards(index)] == [
        "outside.safetensors",
        "one.safetensors",
        "two.safetensors",
    ]
    assert all(path.parent == tmp_path for path in checkpoints.shards(index))
    (tmp_path / "one.safetensors").write_bytes(b"")
    assert checkpoints.weight_files(index) == [index, tmp_path / "one.safetensors"]
    assert checkpoints.weight_files(tmp_path) == [index, tmp_path / "one.safetensors"]
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert checkpoints.weight_files(tmp_path) == [tmp_path / "model.safetensors"]
    other = tmp_path / "weights.pt"
    assert checkpoints.weight_files(other) == [other]
    (tmp_path / "empty").mkdir()
    assert checkpoints.weight_files(tmp_path / "empty") == []


@for_each("text", ["", "[]", "{}", '{"weight_map": []}', '{"weight_map": 1}', "["])
def test_that_a_damaged_index_names_nothing(tmp_path, text):
    index = tmp_path / "x.index.json"
    index.write_text(text)
    assert checkpoints.shards(index) == []


@for_each(
    ("data", "option", "code"),
    [
        (b"\0\0\0\0TFL3", "model.spec", "model-form-tflite"),
        (b"\0\0\0\0TFL3", "model.weights", "weights-form-tflite"),
        (b"GGUF", "model.weights", "weights-form-gguf"),
        ((2).to_bytes(8, "little") + b"{}", "model.spec", "model-form-safetensors"),
        ((2).to_bytes(8, "little") + b"{}", "model.weights", None),
        (b"nothing known", "model.spec", None),
    ],
)
def test_that_a_foreign_file_is_refused_with_what_to_use_instead(tmp_path, data, option, code):
    path = tmp_path / "net.bin"
    path.write_bytes(data)
    info = checkpoints.foreign(path, option)
    assert (info and info.code) == code
    if info:
        assert info.where.id == option
        assert "net.bin" in info.message
        assert "{name}" not in info.hint
        assert info.hint


def test_that_a_program_is_a_model_and_no_weights(tmp_path):
    path = archive(tmp_path / "net.pt2", net__archive_format=b"pt2")
    assert checkpoints.foreign(path, "model.spec") is None
    assert checkpoints.foreign(path, "model.weights").code == "weights-form-program"
