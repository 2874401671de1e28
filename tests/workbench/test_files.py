"""Files appear whole or not at all, links are never written through, and pipes are not read."""

import contextlib
import errno
import fcntl
import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults import failing_calls
from tests.for_each import for_each
from workbench import files
from workbench.api.deliverables import Script
from workbench.process_identity import own_name


def test_that_a_link_at_the_target_is_replaced_and_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / "target").symlink_to(victim)
    files.write_file(tmp_path / "target", b"new")
    assert victim.read_text() == "kept"
    assert not (tmp_path / "target").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_that_no_output_goes_through_a_link_to_another_folder(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").symlink_to("elsewhere")
    with pytest.raises(OSError, match="out is a link to another folder"):
        files.make_output_folder(tmp_path / "out")
    # A script brings a folder of what it imports.
    (tmp_path / "corrections").symlink_to("elsewhere")
    script = Script("pass", (), files={"corrections/own.py": "pass"})
    with pytest.raises(OSError, match="corrections is a link to another folder"):
        script.save(tmp_path / "script.py")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    files.make_output_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


@contextlib.contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@for_each(("mask", "mode"), [(0, 0o666), (0o022, 0o644), (0o077, 0o600)])
def test_that_a_new_file_has_the_permissions_of_the_process(tmp_path, mask, mode):
    (tmp_path / "link").symlink_to(tmp_path / "private")
    with umask(mask):
        for name in ("new", "link"):
            files.write_file(tmp_path / name, b"x")
            assert (tmp_path / name).stat().st_mode & 0o777 == mode
        assert os.umask(mask) == mask


def test_that_nobody_else_reads_a_file_while_it_is_written(tmp_path, monkeypatch):
    modes = []
    monkeypatch.setattr(os, "fsync", lambda file: modes.append(os.fstat(file).st_mode & 0o7777))
    with umask(0):
        files.write_part(tmp_path / "a", b"x", 0o644)
    assert modes == [0o600]


def test_that_the_first_error_is_told_also_if_the_part_is_gone(tmp_path, monkeypatch):
    def fails(*_):
        for part in tmp_path.glob(".*.part"):
            part.unlink()
        raise OSError(errno.ENOSPC, "No space left on device")

    for owner, name in ((Path, "replace"), (os, "fsync")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, fails)
            with pytest.raises(OSError, match="No space") as caught:
                files.write_file(tmp_path / "a", b"x")
        assert caught.value.errno == errno.ENOSPC


def test_that_a_private_folder_is_made_with_its_parents_and_one_that_exists_stays(tmp_path, monkeypatch):
    tmp_path.chmod(0o755)
    with umask(0):
        files.make_private_folder(tmp_path / "a" / "b")
    for folder in (tmp_path / "a", tmp_path / "a" / "b"):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    # Another process makes it after this one has looked.
    monkeypatch.setattr(Path, "exists", lambda _: False)
    files.make_private_folder(tmp_path / "a" / "b")


@for_each(
    ("number", "locks"),
    [
        (errno.ENOTSUP, True),
        (errno.ENOLCK, True),
        (errno.EINVAL, True),
        (errno.ENOSYS, True),
        (errno.EIO, False),
    ],
)
def test_that_a_file_system_without_locks_is_not_locked(tmp_path, monkeypatch, number, locks):
    def fails(*_):
        raise OSError(number, "It fails.")

    monkeypatch.setattr(fcntl, "flock", fails)
    done = []
    allowed = contextlib.nullcontext() if locks else contextlib.suppress(OSError)
    with allowed, files.locked(tmp_path / "a"):
        done.append(True)
    assert done == [True] * locks


def test_that_the_permissions_of_the_old_file_are_kept_and_private_ones_are_set(tmp_path):
    path = tmp_path / "a"
    files.write_file(path, b"1", mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600
    files.write_file(path, b"2")
    assert path.stat().st_mode & 0o777 == 0o600


def test_that_a_failure_at_any_call_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    failed = 0
    for fault in failing_calls(lambda: files.write_file(path, b"new content")):
        failed += 1
        # Only a sync of the folder may be left out, where the file is there already.
        expected = {b"old", b"new content"} if fault else {b"new content"}
        assert path.read_bytes() in expected
        path.write_bytes(b"old")
        assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert failed >= 5
    assert path.read_bytes() == b"new content"


def test_that_the_content_is_synced_before_the_rename_and_the_folder_after_it(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace", "rename"):
        stock = getattr(os, name)

        def record(*arguments, stock=stock, name=name):
            calls.append(name)
            return stock(*arguments)

        monkeypatch.setattr(os, name, record)
    files.write_file(tmp_path / "a", b"x")
    assert [c if c == "fsync" else "rename" for c in calls] == ["fsync", "rename", "fsync"]


@for_each("kind", ["fifo", "folder", "device", "nul", "missing"])
def test_that_only_regular_files_are_read(tmp_path, kind):
    path = tmp_path / "a"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "nul":
        path = tmp_path / "a\0b"
    with pytest.raises(OSError, match=r"regular|directory|No such|invalid"):
        files.read_limited(path, 100)


def test_that_a_file_beyond_the_limit_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="larger") as caught:
        files.read_limited(tmp_path / "a", 10)
    assert caught.value.errno == errno.EFBIG


def test_that_a_name_that_is_too_long_is_an_error_of_the_system(tmp_path):
    with pytest.raises(OSError, match="too long"):
        files.write_file(tmp_path / ("x" * 300), b"")


def test_that_parts_of_ended_processes_are_swept_and_others_stay(tmp_path):
    number, place = own_name().split("-")
    dead = tmp_path / f".a.{2**22 - 1}-{place}-0123456789ab.part"
    own = tmp_path / f".a.{number}-{place}-0123456789ab.part"
    # A process of another container has a number of its own.
    elsewhere = tmp_path / f".a.{2**22 - 1}-{'0' * 8}-0123456789ab.part"
    download = tmp_path / "download.part"
    for path in (dead, own, elsewhere, download):
        path.touch()
    files.remove_parts(tmp_path)
    kept = (own, elsewhere, download)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(path.name for path in kept)


@for_each("name", [".a.{dead}-{other}-0123456789ab.part", ".a.{dead}-0123456789ab.part"])
def test_that_parts_of_processes_elsewhere_are_swept_after_a_day(tmp_path, name):
    part = tmp_path / name.format(dead=2**22 - 1, other="0" * 8)
    part.touch()
    files.remove_parts(tmp_path)
    assert part.exists()
    os.utime(part, (time.time() - 90_000,) * 2)
    files.remove_parts(tmp_path)
    assert not part.exists()


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="a system without /proc")
@for_each(
    "name",
    [
        "/proc/self/pagemap",
        "/proc/self/environ",
        "/proc/self/mem",
        "/sys/kernel/mm/page_idle/bitmap",
        "/proc/cpuinfo",
    ],
)
def test_that_files_of_the_system_are_refused_behind_a_link_too(tmp_path, name):
    if not os.access(name, os.R_OK):
        return
    link = tmp_path / "data.npz"
    link.symlink_to(name)
    for read in (files.file_digest, lambda path: files.read_limited(path, 100)):
        with pytest.raises(OSError, match="operating system"):
            read(link)


def test_that_a_file_of_terabytes_that_stores_nothing_is_refused(tmp_path):
    path = tmp_path / "data.npz"
    path.write_bytes(b"x" * 4096)
    os.truncate(path, 1 << 40)
    for read in (files.file_digest, lambda path: files.read_limited(path, 1 << 50)):
        with pytest.raises(OSError, match="1024 GiB"):
            read(path)
    # An empty file, and one with usual holes, are read.
    os.truncate(path, 1 << 20)
    assert len(files.file_digest(path)) == 64
    os.truncate(path, 0)
    assert files.read_limited(path, 10) == b""


def test_that_writing_changes_no_umask(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail(f"umask({mask})"))
    files.write_file(tmp_path / "a", b"x")
    files.write_file(tmp_path / "a", b"x", mode=0o600)


def test_that_processes_and_threads_hold_the_lock_one_after_the_other(tmp_path):
    path = tmp_path / "count"
    path.write_text("0")

    def add(_):
        with files.locked(path):
            files.write_file(path, str(int(path.read_text()) + 1).encode())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert path.read_text() == "40"


@for_each("limit", [files.MAX_PROGRAM_BYTES, files.MAX_TEXT_BYTES, files.MAX_SOURCE_BYTES])
def test_that_programs_texts_and_sources_of_a_usual_size_are_read(tmp_path, limit):
    (tmp_path / "a").write_bytes(bytes(100_000))
    assert len(files.read_limited(tmp_path / "a", limit)) == 100_000


def test_that_a_file_of_exactly_the_limit_is_read(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 10)
    assert files.read_limited(tmp_path / "a", 10) == b"x" * 10


def test_that_a_log_begins_anew_and_replaces_a_link(tmp_path):
    victim, path = tmp_path / "victim", tmp_path / "log"
    victim.write_bytes(b"kept")
    path.symlink_to(victim)
    for text in (b"long first line", b"short"):
        with files.open_log(path) as log:
            log.write(text)
        assert path.read_bytes() == text
    assert victim.read_bytes() == b"kept"
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o111 == 0


def test_that_the_digest_of_a_file_is_the_sha256_of_its_bytes(tmp_path):
    content = bytes(range(256)) * 5000
    (tmp_path / "a").write_bytes(content)
    assert files.file_digest(tmp_path / "a") == hashlib.sha256(content).hexdigest()


def test_that_a_part_of_a_process_number_that_cannot_exist_stays(tmp_path):
    place = own_name().partition("-")[2]
    part = tmp_path / f".a.99999999999999999999-{place}-0123456789ab.part"
    part.touch()
    files.remove_parts(tmp_path)
    assert part.exists()


def test_that_a_name_of_255_bytes_is_written(tmp_path):
    path = tmp_path / ("x" * 255)
    files.write_file(path, b"content")
    assert path.read_bytes() == b"content"


def test_that_the_digest_of_a_large_file_tells_how_far_it_is_and_can_be_ended(tmp_path, monkeypatch):
    class EndError(Exception):
        pass

    monkeypatch.setattr(files, "_WATCHED_BYTES", 1 << 20)
    large, told = tmp_path / "large", []
    large.write_bytes(os.urandom(5 << 19))
    with files.watching_digests(lambda *given: told.append(given)):
        digest = files.file_digest(large)
    assert digest == hashlib.sha256(large.read_bytes()).hexdigest()
    assert told == [(large, n << 19, 5 << 19) for n in (2, 4, 5)]

    def end(*_given):
        raise EndError

    with pytest.raises(EndError), files.watching_digests(end):
        files.file_digest(large)
    # Outside of the block nobody is called.
    assert files.file_digest(large) == digest
