"""Archives of numpy: what is opened, what is mapped, and what unpacks to too much."""

import io
import random
import zipfile

import numpy as np
import pytest

from tests.for_each import for_each
from workbench import npz
from workbench.npz import open_npz, refuse_bomb_at


def archived(path, records, kind=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    return path


@for_each("order", ["C", "F"])
@for_each("version", [(1, 0), (2, 0)])
def test_that_an_array_is_mapped_in_its_order(tmp_path, order, version):
    values = np.asarray(np.arange(12, dtype=np.int16).reshape(3, 4), order=order)
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        np.lib.format.write_array(file, values, version)
    with open_npz(path) as found:
        assert isinstance(found, np.memmap)
        assert found.dtype == np.int16
        assert found.tolist() == values.tolist()
        assert not found.flags.writeable


@for_each("shape", [(0,), (3, 0, 2)])
def test_that_an_array_without_elements_is_read(tmp_path, shape):
    np.save(tmp_path / "a.npy", np.zeros(shape, np.float32))
    with open_npz(tmp_path / "a.npy") as found:
        assert (found.shape, found.dtype) == (shape, np.float32)


def test_that_an_array_of_one_byte_keeps_its_value(tmp_path):
    np.save(tmp_path / "a.npy", np.array([7], np.int8))
    with open_npz(tmp_path / "a.npy") as found:
        assert found.tolist() == [7]


def test_that_the_arrays_of_an_archive_are_read_by_name(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.ones(2))
    with open_npz(tmp_path / "a.npz") as found:
        assert {name: found[name].tolist() for name in found.files} == {"x": [0, 1, 2], "y": [1.0, 1.0]}


def test_that_objects_are_not_read(tmp_path):
    objects = np.asarray([{"a": 1}], object)
    np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects"), open_npz(tmp_path / "a.npy"):
        pass
    buffer = io.BytesIO()
    np.save(buffer, objects, allow_pickle=True)
    archived(tmp_path / "a.npz", {"x.npy": buffer.getvalue()})
    with pytest.raises(ValueError, match="allow_pickle"), open_npz(tmp_path / "a.npz") as found:
        assert found["x"] is None


def test_that_a_cut_array_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(1000))
    data = (tmp_path / "a.npy").read_bytes()
    for length in (len(data) - 1, 100, 20, 7, 0):
        (tmp_path / "cut.npy").write_bytes(data[:length])
        with pytest.raises((ValueError, EOFError)), open_npz(tmp_path / "cut.npy"):
            pass


def test_that_an_archive_may_unpack_to_fifty_times_its_size_beyond_what_is_free(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "_FREE_BYTES", 1000)
    stored = archived(tmp_path / "stored.zip", {"x": bytes(5000)}, zipfile.ZIP_STORED)
    refuse_bomb_at(stored)
    free = archived(tmp_path / "free.zip", {"x": bytes(1000)})
    refuse_bomb_at(free)
    # Compressed, but not to a fiftieth.
    mixed = archived(tmp_path / "mixed.zip", {"x": random.Random(0).randbytes(1000) + bytes(20_000)})
    assert mixed.stat().st_size + 50 < 21_000 < 50 * mixed.stat().st_size
    refuse_bomb_at(mixed)
    bomb = archived(tmp_path / "bomb.zip", {"x": bytes(200_000)})
    assert 50 * bomb.stat().st_size < 200_000
    with pytest.raises(ValueError, match="times its size"):
        refuse_bomb_at(bomb)
    with pytest.raises(ValueError, match="times its size"), open_npz(bomb):
        pass
    monkeypatch.setattr(npz, "_FREE_BYTES", 200_000)
    refuse_bomb_at(bomb)
    monkeypatch.setattr(npz, "_FREE_BYTES", 199_999)
    with pytest.raises(ValueError, match="times its size"):
        refuse_bomb_at(bomb)


def test_that_any_archive_may_unpack_to_a_mebibyte(tmp_path):
    refuse_bomb_at(archived(tmp_path / "a.zip", {"x": bytes(1 << 20)}))


def test_that_an_archive_of_very_many_records_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "_MOST_RECORDS", 5)
    refuse_bomb_at(archived(tmp_path / "a.zip", {str(k): b"" for k in range(5)}))
    with pytest.raises(ValueError, match="6 records"):
        refuse_bomb_at(archived(tmp_path / "b.zip", {str(k): b"" for k in range(6)}))


def test_that_what_is_no_archive_is_not_judged_and_a_damaged_one_is_refused(tmp_path):
    (tmp_path / "plain").write_bytes(b"plain")
    refuse_bomb_at(tmp_path / "plain")
    (tmp_path / "cut.zip").write_bytes(b"PK\3\4 and no more")
    with pytest.raises(zipfile.BadZipFile):
        refuse_bomb_at(tmp_path / "cut.zip")
    with pytest.raises(FileNotFoundError):
        refuse_bomb_at(tmp_path / "absent")


def test_that_judging_an_archive_leaves_the_file_where_it_was(tmp_path):
    path = archived(tmp_path / "a.zip", {"x": b"abc"})
    with path.open("rb") as file:
        file.read(2)
        npz.refuse_bomb(file)
        assert file.tell() == 2
