"""Checkpoints that would take minutes or gigabytes are refused at once, without running code."""

import io
import pickle
import struct
import subprocess
import sys
import zipfile

import pytest
import torch

from tests.for_each import for_each
from tests.problems import refused
from workbench import interpreter
from workbench.engine.data.arrays import read_arrays
from workbench.engine.loading.checkpoint_reading import read_checkpoint
from workbench.errors import WorkbenchError
from workbench.project.checkpoints import LongPickleError, operations
from workbench.project.model import DataSource
from workbench.project.sources import data_reference
from workbench.results import TensorSpec

HEAD = b"\x80\x02"
# A call of a text: the readers' message quotes it.
TEXT = b"X" + struct.pack("<I", 200_000) + b"x" * 200_000
CALL = b")R."
HUGE = b"\x8a\x05\0\0\0\0\x02"
RANGE = b"cbuiltins\nrange\n" + HUGE + b"\x85R"
BOMBS = {
    "a long name in a message": HEAD + TEXT + CALL,
    "a long name of a class": HEAD + b"cmodel\n" + b"N" * 200_000 + b"\n" + CALL,
    "a high number of an object": HEAD + b"}r\xf0\xff\xff\x0f.",
    "a high number after a class with an umlaut": HEAD + "cmodell\nGröße\n".encode() + b"r\xf0\xff\xff\x0f.",
    "a set of a range": HEAD + b"cbuiltins\nset\n" + RANGE + b"\x85R.",
    "a size of a range": HEAD + b"ctorch\nSize\n" + RANGE + b"\x85R.",
    "bytes of a size": HEAD + b"cbuiltins\nbytearray\n" + HUGE + b"\x85R.",
    "a text in a slow encoding": HEAD + b"c_codecs\nencode\n" + TEXT + b"X\x08\0\0\0punycode\x86R.",
}
READ = """
import resource, sys
from pathlib import Path
from workbench.engine.loading.checkpoint_reading import read_checkpoint
from workbench.errors import WorkbenchError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
for name in sys.argv[1:]:
    try:
        read_checkpoint(Path(name))
    except WorkbenchError as error:
        assert error.codes == ("weights-unreadable",), error.codes
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 << 10
"""


def archive(pickled):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("archive/data.pkl", pickled)
        made.writestr("archive/version", "3\n")
    return buffer.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_that_bombs_in_checkpoints_cost_seconds_and_megabytes(tmp_path, packed):
    paths = []
    for number, pickled in enumerate(BOMBS.values()):
        path = tmp_path / f"{number}.pt"
        path.write_bytes(archive(pickled) if packed else pickled)
        paths.append(str(path))
    ended = subprocess.run(
        [sys.executable, "-c", READ, *paths],
        env=interpreter.environment(),
        timeout=300,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]


@for_each("name", ["a high number of an object", "a high number after a class with an umlaut"])
def test_that_a_pickle_that_numbers_objects_high_is_too_long(name):
    with pytest.raises(LongPickleError):
        list(operations(io.BytesIO(BOMBS[name])))


def test_that_a_message_of_the_reader_of_tensors_is_cut(tmp_path):
    path = tmp_path / "data.pt"
    path.write_bytes(archive(HEAD + b"X\x88\x13\0\0" + b"x" * 5000 + CALL))
    source = DataSource(spec="data.pt")
    spec = TensorSpec(name="x", shape=(1, 3), dtype="float32")
    with pytest.raises(WorkbenchError) as caught:
        list(read_arrays(data_reference("data.pt", tmp_path, "calibration"), source, [spec], "c"))
    assert len(str(caught.value)) < 4000


def test_that_an_archive_of_an_unknown_version_is_refused(tmp_path):
    data = bytearray(archive(pickle.dumps({}, 2)))
    at = data.rfind(b"PK\1\2")
    data[at + 6] = 99
    (tmp_path / "w.pt").write_bytes(data)
    with refused("weights-unreadable"):
        read_checkpoint(tmp_path / "w.pt")


def test_that_sets_bytes_and_foreign_names_beside_weights_are_still_read(tmp_path):
    path = tmp_path / "w.pt"
    settings = {"seen": {1, 2}, "kept": frozenset({3}), "raw": bytearray(b"ab"), "steps": range(3)}
    torch.save({"model": {"w": torch.ones(2)}, "settings": settings}, path)
    read = read_checkpoint(path)
    assert read["model"]["w"].equal(torch.ones(2))
    assert read["settings"]["seen"] == {1, 2}
    assert read["settings"]["raw"] == bytearray(b"ab")
