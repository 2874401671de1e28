"""Small files that are remembered between runs."""

import os

import pytest

from workbench import disk_cache


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_cache, "folder", lambda: tmp_path / "cache" / "own")


def test_that_what_is_remembered_is_recalled_unless_it_is_damaged(tmp_path):
    assert disk_cache.recall("a") is None
    assert disk_cache.remember("a", b"content")
    assert disk_cache.recall("a") == b"content"
    assert disk_cache.remember("a", b"")
    assert disk_cache.recall("a") == b""
    path = disk_cache.folder() / "a"
    path.write_bytes(path.read_bytes() + b"x")
    assert disk_cache.recall("a") is None


def test_that_only_the_user_reads_what_is_remembered(tmp_path):
    mask = os.umask(0)
    try:
        assert disk_cache.remember("a", b"content")
    finally:
        os.umask(mask)
    assert (disk_cache.folder() / "a").stat().st_mode & 0o777 == 0o600
    assert disk_cache.folder().stat().st_mode & 0o777 == 0o700
    assert disk_cache.folder().parent.stat().st_mode & 0o777 == 0o700


def test_that_what_cannot_be_written_is_not_remembered(tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert not disk_cache.remember("a", b"content")
    assert disk_cache.recall("a") is None


@pytest.mark.skipif(os.name != "posix", reason="permissions are of POSIX")
def test_that_nothing_is_recalled_that_others_can_change(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_cache, "folder", lambda: tmp_path)
    assert disk_cache.remember("a", b"mine")
    assert disk_cache.recall("a") == b"mine"
    (tmp_path / "a").chmod(0o666)
    assert disk_cache.recall("a") is None
    (tmp_path / "a").chmod(0o600)
    tmp_path.chmod(0o777)
    assert disk_cache.recall("a") is None
