"""Data of a foreign project in the forms of the window: shown or told, and nothing blocks or grows."""

import io
import os
import resource
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from PIL import Image

from tests.for_each import for_each
from ui.features.project.data_preview import summary_of

READER = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from ui.features.project.data_preview import summary_of
print(summary_of(Path(sys.argv[1])).text)
"""


def summary_elsewhere(path):
    """Return the text of a summary that another process makes: it may not wait or take memory."""
    command = [sys.executable, "-c", READER, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.npz", "a.npy"])
def test_that_a_pipe_and_a_file_of_the_system_are_told_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    assert "cannot be read" in summary_elsewhere(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    assert "cannot be read" in summary_elsewhere(tmp_path / name)


@pytest.mark.slow
def test_that_arrays_of_gigabytes_are_described_by_their_headers(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"shape": (6, 3, 5000, 5000), "fortran_order": False, "descr": "<f4"}
    )
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        # More than the size of the archive allows is refused, less is not unpacked.
        archive.writestr("x.npy", header.getvalue() + bytes(200 << 20))
    assert "6 samples: x 3x5000x5000 float32" in summary_elsewhere(tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "b.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(300 << 20))
    assert "times its size" in summary_elsewhere(tmp_path / "b.npz")


@for_each(
    "dtype", [[("a", "<i4"), ("b", "<f4")], "datetime64[s]", "U3", "complex64", "V8", "bool", "float16"]
)
def test_that_arrays_of_other_types_are_told(tmp_path, dtype):
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 3, 8, 8), dtype))
    assert summary_of(tmp_path / "a.npz").text


def test_that_values_that_are_no_numbers_are_shown(tmp_path):
    values = np.zeros((4, 3, 8, 8), np.float32)
    values[0, 0, 0, 0], values[1, 0, 0, 0], values[2, 0, 0, :2] = np.nan, np.inf, (3e38, -3e38)
    np.savez(tmp_path / "a.npz", x=values)
    assert len(summary_of(tmp_path / "a.npz").images) == 4


def test_that_records_that_are_no_arrays_and_thousands_of_arrays_are_left_out(tmp_path):
    np.savez(tmp_path / "a.npz", **{f"x{number}": np.zeros((2, 3)) for number in range(3000)})
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("readme.txt", b"text")
    assert len(summary_of(tmp_path / "a.npz").text) < 1000


def test_that_pictures_that_block_or_take_minutes_are_left_out(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    os.mkfifo(folder / "a.png")
    stream = io.BytesIO()
    Image.new("RGB", (64, 64)).save(stream, "JPEG", progressive=True)
    plain = stream.getvalue()
    scan = plain[plain.rfind(b"\xff\xda") : -2]
    (folder / "b.jpg").write_bytes(plain[:-2] + scan * 100 + b"\xff\xd9")
    (folder / "c.png").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"/>')
    Image.new("RGB", (30, 90), "red").save(folder / "d.png")
    assert "pictures" in summary_elsewhere(folder)
    (image,) = summary_of(folder).images
    assert (image.width(), image.height(), image.pixelColor(5, 5).red()) == (27, 80, 255)


def test_that_folders_of_any_depth_are_walked(tmp_path):
    depth, at = 1100, os.open(tmp_path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    try:
        assert "0 pictures" in summary_of(tmp_path).text
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_that_a_preview_of_large_arrays_takes_little_memory(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((1000, 3, 128, 128), np.float32))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(summary_of(tmp_path / "a.npy").images) == 4
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000
