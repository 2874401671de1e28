"""The form of a checkpoint file, told from its bytes and names alone."""

import zipfile

import pytest

from workbench.project.checkpoints import form_of


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b"\0\0\0\0TFL3", "tflite"), (b"\x89HDF\r\n", "hdf5"), (b"GGUF\x03", "gguf"),
        ((2).to_bytes(8, "little") + b"{}", "safetensors"),
        ((99).to_bytes(8, "little") + b"{}", "unknown"), (b"", "unknown"),
    ],
)  # fmt: skip
def test_that_a_file_is_told_by_its_first_bytes(tmp_path, data, form):
    path = tmp_path / "weights"
    path.write_bytes(data)
    assert form_of(path) == form
