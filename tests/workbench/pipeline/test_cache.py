import os

import pytest

from workbench.errors import WorkbenchError
from workbench.pipeline.cache import Cache

KEY, OTHER = "ab" * 32, "cd" * 32


def fill(cache, key, text="x" * 100):
    with cache.writing(key) as out:
        (out / "result.json").write_text(text)


def test_that_a_writer_that_fails_leaves_nothing(tmp_path):
    cache = Cache(tmp_path)

    def interrupted():
        with cache.writing(KEY) as out:
            (out / "result.json").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert not cache.has(KEY)
    assert not list((tmp_path / "partial").iterdir())


def test_that_damage_of_the_same_size_is_noticed_by_digest_and_removed(tmp_path):
    cache = Cache(tmp_path)
    fill(cache, KEY)
    assert cache.verify(KEY)
    (cache.folder(KEY) / "result.json").write_text("y" * 100)
    assert cache.has(KEY)
    assert not cache.verify(KEY)
    assert not cache.has(KEY)


def test_that_the_second_writer_of_a_key_is_no_error(tmp_path):
    cache = Cache(tmp_path)
    with cache.writing(KEY) as out:
        (out / "result.json").write_text("first")
        fill(cache, KEY, "second")
    assert (cache.folder(KEY) / "result.json").read_text() == "second"


def test_that_pruning_removes_what_was_used_longest_ago(tmp_path):
    cache = Cache(tmp_path, limit_bytes=250)
    for age, key in enumerate((KEY, OTHER)):
        fill(cache, key)
        os.utime(cache.folder(key) / "entry.json", (age, age))
    cache.prune()
    assert not cache.has(KEY)
    assert cache.has(OTHER)


def test_that_a_full_disk_is_one_clear_sentence(tmp_path):
    cache = Cache(tmp_path)

    def write():
        with cache.writing(KEY):
            raise OSError(28, "No space left on device")

    with pytest.raises(WorkbenchError, match="No space left"):
        write()
    assert not cache.has(KEY)
