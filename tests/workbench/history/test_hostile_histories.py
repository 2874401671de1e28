"""A history that somebody else made: links, pipes, views, triggers and endless contents."""

import os
import sqlite3

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


@pytest.mark.parametrize("suffix", ["", "-journal", "-wal"])
def test_that_a_link_is_neither_read_nor_written(path, tmp_path, suffix):
    victim = tmp_path / "victim"
    victim.write_bytes(b"kept")
    path.with_name(path.name + suffix).symlink_to(victim)
    assert refused(path) == "history-damaged"
    assert victim.read_bytes() == b"kept"


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
