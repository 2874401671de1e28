import errno
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.for_each import for_each
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


def test_that_results_lie_in_folders_of_the_first_two_letters_of_their_keys(tmp_path):
    assert Cache(tmp_path).folder(KEY) == tmp_path / "results" / "ab" / KEY


def test_that_results_of_usual_size_are_kept_by_default(tmp_path):
    fill(Cache(tmp_path), KEY)
    Cache(tmp_path).prune()
    assert Cache(tmp_path).has(KEY)


def test_that_an_age_at_a_limit_is_not_beyond_it(tmp_path, monkeypatch):
    """Folders of writers go after a day; studies of ten minutes may be removed."""
    now = 2_000_000_000
    monkeypatch.setattr("workbench.pipeline.cache.time.time", lambda: now)
    cache, day = Cache(tmp_path, 0), 24 * 60 * 60
    folders = [tmp_path / "partial" / name for name in ("at", "beyond")]
    for folder, age in zip(folders, (day, day + 1), strict=True):
        folder.mkdir(parents=True)
        os.utime(folder, (now - age,) * 2)
    studies = [studied(cache, key, age) for key, age in ((KEY, 600), (OTHER, 599))]
    cache.prune()
    assert [folder.exists() for folder in folders] == [True, False]
    assert [folder.exists() for folder in studies] == [False, True]


def test_that_what_another_process_removes_in_between_is_no_error(tmp_path, monkeypatch):
    cache = Cache(tmp_path, 0)
    fill(cache, KEY)
    index = indexed(cache, "data", 5000)
    old = tmp_path / "partial" / "old"
    old.mkdir(parents=True)
    os.utime(old, (0, 0))
    really, unlink = shutil.rmtree, Path.unlink

    def second(remove):
        def removed(place, **options):
            remove(place)
            return remove(place, **options)

        return removed

    with monkeypatch.context() as patch:
        patch.setattr("workbench.pipeline.cache.shutil.rmtree", second(really))
        patch.setattr(Path, "unlink", second(unlink))
        assert cache.prune() == 0
    assert not cache.folder(KEY).exists()
    assert not index.exists()
    assert not old.exists()


def test_that_a_result_that_another_engine_finishes_at_the_same_time_is_taken(tmp_path, monkeypatch):
    cache, rename = Cache(tmp_path), Path.rename

    with monkeypatch.context() as patch:

        def late(self, target):
            patch.undo()
            fill(cache, KEY, "second")
            return rename(self, target)

        patch.setattr(Path, "rename", late)
        fill(cache, KEY, "first")
    assert (cache.folder(KEY) / "result.json").read_text() == "second"


def test_that_a_result_that_cannot_be_moved_to_its_place_is_an_error(tmp_path, monkeypatch):
    def refuses(self, target):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuses)
    with pytest.raises(PermissionError):
        fill(Cache(tmp_path), KEY)


def test_that_a_list_of_files_that_is_nested_or_endless_is_no_result(tmp_path):
    cache = Cache(tmp_path)
    for spoil in (
        lambda manifest: manifest.write_text("[" * 100_000),
        lambda manifest: manifest.write_text('{"\\ud800": {"bytes": 1, "sha256": ""}}'),
        lambda manifest: manifest.write_text('{"a\\u0000": {"bytes": 1, "sha256": ""}}'),
        lambda manifest: (manifest.unlink(), manifest.symlink_to("/dev/zero")),
        lambda manifest: (manifest.unlink(), os.mkfifo(manifest)),
    ):
        fill(cache, KEY)
        spoil(cache.folder(KEY) / "entry.json")
        assert not cache.has(KEY)
        assert not cache.verify(KEY)


def test_that_a_folder_that_others_can_change_gives_and_takes_no_results(tmp_path):
    """Programs in the cache run code when they are loaded."""
    cache = Cache(tmp_path)
    fill(cache, KEY)
    tmp_path.chmod(0o777)
    assert not cache.has(KEY)
    assert not cache.verify(KEY)
    with refused("cache-open-to-others"):
        fill(cache, OTHER)
    assert not list((tmp_path / "partial").iterdir())
    tmp_path.chmod(0o775)
    assert cache.verify(KEY)


@for_each("name", ("results", "studies", "statistics", "partial"))
def test_that_nothing_is_deleted_through_a_link_of_somebody_else(name, tmp_path):
    elsewhere = tmp_path / "mine" / "aa" / "old" / "entry.json"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_text("{}")
    for path in (elsewhere, *elsewhere.parents[:3]):
        os.utime(path, (0, 0))
    cache = Cache(tmp_path / "cache", 0)
    cache.root.mkdir()
    cache.root.chmod(0o777)
    levels = {"results": 3, "studies": 2, "statistics": 1, "partial": 2}
    (cache.root / name).symlink_to([elsewhere, *elsewhere.parents][levels[name]])
    (elsewhere.parent / "index.json").write_text("{}")
    assert cache.prune() == 0
    assert elsewhere.read_text() == (elsewhere.parent / "index.json").read_text() == "{}"
    with refused("cache-open-to-others"):
        fill(cache, KEY)
    assert elsewhere.read_text() == "{}"


def test_that_a_clock_that_was_set_back_leaves_the_limit_and_the_newest_results(tmp_path):
    cache, ahead = Cache(tmp_path), time.time() + 10 * 365 * 86_400
    for key in (KEY, OTHER):
        fill(cache, key)
    os.utime(cache.folder(KEY) / "entry.json", (ahead, ahead))
    finished = studied(cache, "ef" * 32, 0)
    for path in (*finished.iterdir(), finished):
        os.utime(path, (ahead, ahead))
    partial = tmp_path / "partial" / "left"
    partial.mkdir(parents=True)
    os.utime(partial, (ahead, ahead))
    size = sum(file.stat().st_size for file in cache.folder(OTHER).iterdir())
    Cache(tmp_path, size).prune()
    assert cache.has(OTHER)
    assert not cache.has(KEY)
    assert not finished.exists()
    assert not partial.exists()
