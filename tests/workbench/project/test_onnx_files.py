"""The files with the weights of an ONNX model, by a file of somebody else."""

import mmap

import pytest

from tests.for_each import for_each
from tests.problems import refused
from workbench.project import onnx_files
from workbench.project.onnx_files import external_files


def field(number, content):
    """Return a field of bytes, as Protocol Buffers write it."""
    length, rest = len(content), b""
    while length >= 0x80:
        rest += bytes([length & 0x7F | 0x80])
        length >>= 7
    return bytes([number << 3 | 2]) + rest + bytes([length]) + content


def model(*locations):
    weights = b"".join(
        field(5, field(13, field(1, b"location") + field(2, name.encode()))) for name in locations
    )
    return field(7, weights)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "net.data").write_bytes(b"weights")
    (tmp_path / "outside").mkdir()
    return tmp_path / "net.onnx"


def test_that_files_in_the_folder_of_the_model_are_found(path):
    path.write_bytes(model("net.data", "net.data", "missing", "../net.data", "/etc/passwd", ""))
    assert external_files(path) == [path.with_name("net.data")]


@for_each(
    "content", (b"", b"\xff" * 40, b"\x0b", b"\x3a\xff\xff\xff\xff\x0f", model("net.data")[:-3], b"\x3d\0")
)
def test_that_a_damaged_model_has_none(content, path):
    path.write_bytes(content)
    assert external_files(path) == []


def test_that_a_model_of_very_many_fields_is_refused(path, monkeypatch):
    monkeypatch.setattr(onnx_files, "_MAX_FIELDS", 1000)
    path.write_bytes(b"\x08\x07" * 990 + model("net.data"))
    assert external_files(path) == [path.with_name("net.data")]
    path.write_bytes(b"\x08\x07" * 1001 + model("net.data"))
    with refused("model-file-unreadable"):
        external_files(path)


def test_that_long_names_are_not_read(path):
    entry = field(1, b"location" * 1000) + field(2, b"net.data")
    path.write_bytes(field(7, field(5, field(13, entry))))
    assert external_files(path) == []


def test_that_a_model_is_not_mapped_into_memory(path, monkeypatch):
    """A file that is cut while it is mapped ends the process."""
    monkeypatch.setattr(mmap, "mmap", None)
    path.write_bytes(model("net.data"))
    assert external_files(path) == [path.with_name("net.data")]
