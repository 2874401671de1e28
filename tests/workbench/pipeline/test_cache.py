import os
import time

import pytest

from tests.problems import refused
from workbench.pipeline.cache import Cache, default_root

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


def test_that_a_result_that_is_not_there_can_be_removed(tmp_path):
    Cache(tmp_path).remove(KEY)
    assert not Cache(tmp_path).has(KEY)


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


def studied(cache, key, age_s):
    folder = cache.study_folder(key)
    folder.mkdir(parents=True)
    used = time.time() - age_s
    for place in (folder / "study.json", folder / "optuna.sqlite"):
        place.write_text("x" * 100)
        os.utime(place, (used, used))
    os.utime(folder, (used, used))
    return folder


def indexed(cache, data, age_s):
    index = cache.statistics_index(data)
    index.parent.mkdir(parents=True, exist_ok=True)
    index.write_text("x" * 1000)
    used = time.time() - age_s
    os.utime(index, (used, used))
    return index


def test_that_studies_and_statistics_share_the_limit_and_the_oldest_go_first(tmp_path):
    cache = Cache(tmp_path, limit_bytes=8_000)
    old, young = studied(cache, KEY, 5000), studied(cache, OTHER, 2000)
    indices = [indexed(cache, f"data{age}", age) for age in range(4000, 1000, -200)]
    assert cache.prune() <= 8_000
    assert not old.exists()
    assert young.exists()
    kept = [index.exists() for index in indices]
    assert kept == sorted(kept)
    assert 0 < sum(kept) < len(kept)
    Cache(tmp_path, 0).prune()
    assert not young.exists()
    assert not any(index.exists() for index in indices)


def test_that_findings_which_may_still_grow_are_not_taken_away(tmp_path):
    going_on = studied(Cache(tmp_path), KEY, 5)
    Cache(tmp_path, 0).prune()
    assert (going_on / "optuna.sqlite").exists()


def test_that_a_full_disk_is_one_clear_sentence(tmp_path):
    cache = Cache(tmp_path)

    def write():
        with cache.writing(KEY):
            raise OSError(28, "No space left on device")

    with refused("cache-not-writable"):
        write()
    assert not cache.has(KEY)


def test_that_a_result_is_whole_only_with_a_readable_list_and_every_file(tmp_path):
    cache = Cache(tmp_path)
    assert not cache.has(KEY)
    for spoil in (
        lambda folder: (folder / "result.json").unlink(),
        lambda folder: (folder / "result.json").write_text("x" * 99),
        lambda folder: (folder / "entry.json").write_text("{"),
    ):
        fill(cache, KEY)
        assert cache.has(KEY)
        spoil(cache.folder(KEY))
        assert not cache.has(KEY)
        assert not cache.verify(KEY)
        assert not cache.folder(KEY).exists()


def test_that_a_damaged_result_is_written_again(tmp_path):
    cache = Cache(tmp_path)
    fill(cache, KEY)
    (cache.folder(KEY) / "result.json").write_text("short")
    fill(cache, KEY)
    assert (cache.folder(KEY) / "result.json").read_text() == "x" * 100


def test_that_folders_of_writers_that_were_interrupted_go_after_a_day(tmp_path):
    cache = Cache(tmp_path)
    old, fresh = tmp_path / "partial" / "old", tmp_path / "partial" / "fresh"
    for folder, age in ((old, 86_500), (fresh, 86_300)):
        folder.mkdir(parents=True)
        os.utime(folder, (time.time() - age,) * 2)
    cache.prune()
    assert (old.exists(), fresh.exists()) == (False, True)


def test_that_pruning_tells_how_much_is_left(tmp_path):
    cache = Cache(tmp_path, limit_bytes=1 << 20)
    fill(cache, KEY)
    fill(cache, OTHER)
    size = sum(f.stat().st_size for k in (KEY, OTHER) for f in cache.folder(k).iterdir())
    assert cache.prune() == size
    assert Cache(tmp_path, limit_bytes=size).prune() == size
    assert Cache(tmp_path, limit_bytes=size - 1).prune() == size // 2


def test_that_the_folder_of_the_cache_is_the_one_that_is_set(tmp_path, monkeypatch):
    monkeypatch.setenv("QUANTIZATION_WORKBENCH_CACHE", str(tmp_path / "own"))
    assert default_root() == tmp_path / "own"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUANTIZATION_WORKBENCH_CACHE", "near")
    assert default_root() == tmp_path / "near"
    monkeypatch.delenv("QUANTIZATION_WORKBENCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert default_root() == tmp_path / "user" / "quantization-workbench"


def test_that_an_error_of_another_disk_is_not_told_as_one_of_the_cache(tmp_path):
    cache = Cache(tmp_path / "cache")

    def reads(path):
        with cache.writing(KEY) as out:
            (out / path).read_bytes() if path else (tmp_path / "data.npz").read_bytes()

    with pytest.raises(FileNotFoundError):
        reads("")
    with refused("cache-not-writable"):
        reads("gone")
