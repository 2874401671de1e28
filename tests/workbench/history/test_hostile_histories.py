"""A history that somebody else made: links, pipes, views, triggers and endless contents."""

import os
import sqlite3
import struct

import pytest

from workbench.history.store import History, history_path


@pytest.fixture
def path(tmp_path):
    return history_path(tmp_path / "net.qwb")


def refused(path):
    """Return why a history is not used; its rows are none."""
    history = History(path)
    try:
        assert history.runs() == []
        return history.problem.code if history.problem else ""
    finally:
        history.close()


def test_that_a_link_is_neither_read_nor_written(path, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"kept")
    path.symlink_to(victim)
    assert refused(path) == "history-damaged"
    assert victim.read_bytes() == b"kept"


def write_hot_journal(path, victim):
    """Write a rollback journal that SQLite would play back, and then delete the file it names.

    Source: sqlite.org/fileformat2.html, section 3, and the "super-journal" of atomic commits.
    """
    data = path.read_bytes()
    size, nonce, sector = 4096, 7, 512
    page = data[:size]
    check = nonce + sum(page[i] for i in range(size - 200, 0, -200))
    magic = bytes.fromhex("d9d505f920a163d7")
    header = magic + struct.pack(">IIIII", 1, nonce, len(data) // size, sector, size)
    name = os.fsencode(victim)
    path.with_name(path.name + "-journal").write_bytes(
        header.ljust(sector, b"\0")
        + struct.pack(">I", 1)
        + page
        + struct.pack(">I", check)
        + struct.pack(">I", (1 << 30) // size + 1)
        + name
        + struct.pack(">II", len(name), sum(name))
        + magic
    )


def test_that_a_journal_beside_a_history_deletes_no_file(path, tmp_path):
    History(path).close()
    victim = tmp_path / "thesis.txt"
    victim.write_text("kept")
    write_hot_journal(path, victim)
    assert refused(path) == ""
    assert victim.read_text() == "kept"


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "text"])
def test_that_nothing_beside_a_history_is_opened_or_changed(path, tmp_path, suffix, kind):
    History(path).close()
    victim = tmp_path / "victim"
    victim.write_text("kept")
    beside = path.with_name(path.name + suffix)
    make = {
        "link": lambda: beside.symlink_to(victim),
        "pipe": lambda: os.mkfifo(beside),
        "folder": beside.mkdir,
        "text": lambda: beside.write_text("text"),
    }
    make[kind]()
    before = beside.lstat()
    assert refused(path) == ""
    assert victim.read_text() == "kept"
    assert beside.lstat() == before


def test_that_a_history_with_a_write_ahead_log_is_refused(path):
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA journal_mode = WAL")
    file.close()
    before = path.read_bytes()
    assert refused(path) == "history-damaged"
    assert path.read_bytes() == before


def test_that_a_pipe_does_not_hang(path):
    os.mkfifo(path)
    assert refused(path) == "history-damaged"


ENDLESS = (
    "CREATE VIEW runs AS WITH RECURSIVE r(number, key, run) AS (SELECT 1, 'a', 'b' UNION ALL "
    "SELECT number + 1, key, run FROM r) SELECT * FROM r"
)
OTHERS = (
    ENDLESS,
    "CREATE TABLE runs (number INTEGER, key TEXT, run TEXT GENERATED ALWAYS AS (zeroblob(1e9)))",
    "CREATE TABLE runs (number, key, run, CHECK (length(randomblob(1000000000)) > 0))",
    "CREATE TABLE other (x)",
)


@pytest.mark.parametrize("text", OTHERS)
def test_that_another_table_or_view_is_refused(path, text):
    with sqlite3.connect(path) as file:
        file.execute(text)
    file.close()
    assert refused(path) == "history-damaged"


def test_that_a_trigger_is_refused(path):
    History(path).close()
    with sqlite3.connect(path) as file:
        file.execute("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END")
    file.close()
    assert refused(path) == "history-damaged"


def test_that_a_trigger_after_ten_rows_of_the_schema_is_refused(path):
    History(path).close()
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA writable_schema = ON")
        index = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master WHERE type = 'index'"
        row = file.execute(index).fetchone()
        trigger = "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END"
        rows = [row] * 9 + [("trigger", "t", "runs", 0, trigger)]
        file.executemany("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", rows)
    file.close()
    assert refused(path) == "history-damaged"


def test_that_a_doubled_index_is_refused(path):
    History(path).close()
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA writable_schema = ON")
        file.execute("DELETE FROM sqlite_master WHERE name = 'sqlite_sequence'")
        file.execute(
            "INSERT INTO sqlite_master SELECT type, name, tbl_name, rootpage, sql "
            "FROM sqlite_master WHERE type = 'index'"
        )
    file.close()
    assert refused(path) == "history-damaged"


def test_that_pages_which_share_their_children_are_refused(path):
    History(path).close()
    with sqlite3.connect(path) as file:
        (root,) = file.execute("SELECT rootpage FROM sqlite_master WHERE name = 'runs'").fetchone()
    file.close()
    data, size = bytearray(path.read_bytes()), 4096
    number, levels = len(data) // size, 4
    leaf = bytes(data[(root - 1) * size : root * size])
    data[(root - 1) * size : root * size] = interior_page(number + 1)
    for level in range(levels):
        data += interior_page(number + 2 + level)
    data += leaf
    struct.pack_into(">I", data, 28, len(data) // size)
    path.write_bytes(data)
    assert refused(path) == "history-damaged"


def interior_page(child, cells=400, size=4096):
    """Return an interior page of a table whose children are all one page."""
    page, offset = bytearray(size), size
    page[0] = 5
    for i in range(cells):
        key = i + 1
        varint = bytes([key]) if key < 128 else bytes([0x80 | key >> 7, key & 127])
        cell = struct.pack(">I", child) + varint
        offset -= len(cell)
        page[offset : offset + len(cell)] = cell
        page[12 + 2 * i : 14 + 2 * i] = struct.pack(">H", offset)
    page[3:5], page[5:7] = struct.pack(">H", cells), struct.pack(">H", offset)
    page[8:12] = struct.pack(">I", child)
    return bytes(page)


def test_that_rows_beyond_the_limit_are_left_out(path, monkeypatch):
    monkeypatch.setattr("workbench.history.store._MAX_ROWS", 20)
    History(path).close()
    with sqlite3.connect(path) as file:
        file.executemany("INSERT INTO runs (key, run) VALUES (?, '')", [(n,) for n in range(50)])
    file.close()
    assert refused(path) == "history-too-large"


def test_that_a_huge_history_is_read_as_far_as_the_limit(path, monkeypatch):
    monkeypatch.setattr("workbench.history.store._MAX_READ_BYTES", 1000)
    History(path).close()
    with sqlite3.connect(path) as file:
        rows = [(str(n), "x" * 100) for n in range(50)]
        file.executemany("INSERT INTO runs (key, run) VALUES (?, ?)", rows)
    file.close()
    assert refused(path) == "history-too-large"


def test_that_a_history_may_be_as_large_as_the_limit(path, monkeypatch):
    History(path).close()
    monkeypatch.setattr("workbench.history.store._MAX_BYTES", path.stat().st_size)
    assert refused(path) == ""
    monkeypatch.setattr("workbench.history.store._MAX_BYTES", path.stat().st_size - 1)
    assert refused(path) == "history-damaged"


def test_that_an_own_history_is_used(path):
    assert refused(path) == ""
    assert refused(path) == ""
