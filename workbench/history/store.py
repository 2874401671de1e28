"""The run history of a project: one SQLite file beside it.

A file that cannot be read or written is left unchanged; the runs are then kept in memory, and
``History.problem`` explains it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from workbench.errors import ErrorInfo, Place, failure
from workbench.history.runs import Run

if TYPE_CHECKING:
    from collections.abc import Iterable

SUFFIX = ".runs.sqlite"
SCHEMA_VERSION = 1
_BUSY_S = 3.0
# A damaged file may also hold names that are no text, or numbers beyond 64 bits.
_DAMAGED = (sqlite3.Error, OSError, UnicodeDecodeError, OverflowError, TypeError)
# A run takes about 20 kB.
_MAX_BYTES = 256 << 20
_MAX_VALUE_BYTES = 16 << 20
_MAX_READ_BYTES = 64 << 20
_TABLE = """CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    run TEXT NOT NULL)"""


def history_path(project: Path) -> Path:
    """Return the path of a project file's history."""
    return project.with_name(project.name + SUFFIX)


class History:
    """The runs of one project. Not thread-safe: use it from one thread.

    ``problem`` explains why the file is not used, or that it contains unsupported rows; None if
    there is no problem.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.problem: ErrorInfo | None = None
        self._rows = self._memory()
        if path is None:
            return
        try:
            opened = _open(path)
        except _DAMAGED as error:
            self._give_up(error)
        else:
            self._rows.close()
            self._rows = opened

    def close(self) -> None:
        """Close the file."""
        self._rows.close()

    def runs(self) -> list[Run]:
        """Return all runs, oldest first; rows of a newer program are omitted and reported."""
        rows: list[Run] = []
        try:
            unread = self._read(rows)
        except _DAMAGED as error:
            self._give_up(error)
            return rows[::-1]
        if unread:
            self._report_once(
                "history-runs-unsupported",
                f"{unread} runs were written by another version of the program.",
            )
        return rows[::-1]

    def _read(self, runs: list[Run]) -> int:
        """Add the runs to a list, newest first; return how many are of another version."""
        unread = total = 0
        for number, text in self._rows.execute("SELECT number, run FROM runs ORDER BY number DESC"):
            total += len(text)
            if total > _MAX_READ_BYTES:
                self._report_once("history-too-large", "The history is too large to list all runs.")
                break
            try:
                runs.append(Run.model_validate_json(text).model_copy(update={"number": number}))
            except ValidationError:
                unread += 1
        return unread

    def _report_once(self, code: str, message: str) -> None:
        if self.problem is None:
            hint = "They stay in the file but are not listed."
            self.problem = ErrorInfo(message=message, hint=hint, where=self._place(), code=code)

    def run(self, number: int) -> Run:
        """Return one run.

        Raises:
            WorkbenchError: there is no run with this number.
        """
        runs_by_number = {run.number: run for run in self.runs()}
        if number in runs_by_number:
            return runs_by_number[number]
        known = f"1 to {max(runs_by_number)}" if runs_by_number else "none yet"
        raise failure(
            f"No run {number} in the history.",
            f"Runs: {known}.",
            Place(kind="option", id="run"),
            code="run-unknown",
        )

    def record(self, run: Run) -> Run:
        """Store a run and return it with its number; an equal configuration reuses its row.

        Earlier figures of the configuration are kept if the new run lacks them; measured cycles are
        replaced only by measured cycles. If the file cannot be written, all runs are kept in memory
        and ``problem`` is set.
        """
        try:
            return self._put(run)
        except _DAMAGED as error:
            kept = self._saved()
            self._give_up(error)
            self.adopt(kept)
            return self._put(run)

    def adopt(self, runs: Iterable[Run]) -> None:
        """Add the runs of another history."""
        for run in runs:
            self.record(run)

    def _put(self, run: Run) -> Run:
        with self._rows:
            row = self._rows.execute("SELECT number, run FROM runs WHERE key = ?", (run.key,))
            known = row.fetchone()
            if known is None:
                new = (run.key, run.model_dump_json(exclude={"number"}))
                number = self._rows.execute("INSERT INTO runs (key, run) VALUES (?, ?)", new)
                return run.model_copy(update={"number": number.lastrowid})
            with contextlib.suppress(ValidationError):
                run = _joined(Run.model_validate_json(known[1]), run)
            text = run.model_dump_json(exclude={"number"})
            self._rows.execute("UPDATE runs SET run = ? WHERE number = ?", (text, known[0]))
        return run.model_copy(update={"number": known[0]})

    def _saved(self) -> list[Run]:
        runs: list[Run] = []
        with contextlib.suppress(*_DAMAGED):
            self._read(runs)
        return runs[::-1]

    def _give_up(self, error: Exception) -> None:
        assert self.path is not None
        damaged = not isinstance(error, sqlite3.OperationalError | OSError)
        what = "is damaged" if damaged else "cannot be written"
        code = "history-damaged" if damaged else "history-not-writable"
        self.problem = ErrorInfo(
            message=f"The history {self.path.name} {what}. New runs are lost when you close the "
            "program.",
            hint="Move the damaged file away." if damaged else "Make the folder writable.",
            where=self._place(),
            details=str(error),
            code=code,
        )
        with contextlib.suppress(sqlite3.Error):
            self._rows.close()
        self._rows = self._memory()
        if not damaged:
            self._copy_readable()

    def _copy_readable(self) -> None:
        """Copy the rows of a read-only file to memory."""
        assert self.path is not None
        with contextlib.suppress(*_DAMAGED):
            _refuse_foreign(self.path)
            address = f"{self.path.absolute().as_uri()}?mode=ro&immutable=1"
            with contextlib.closing(sqlite3.connect(address, uri=True)) as file:
                _limit(file)
                _refuse_other_tables(file)
                rows = file.execute("SELECT number, key, run FROM runs").fetchall()
            with self._rows:
                self._rows.executemany("INSERT INTO runs VALUES (?, ?, ?)", rows)

    def _place(self) -> Place:
        return Place(kind="file", id=str(self.path))

    @staticmethod
    def _memory() -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:")
        connection.execute(_TABLE)
        return connection


def _open(path: Path) -> sqlite3.Connection:
    """Open the file and check that it is a history and writable."""
    _refuse_foreign(path)
    connection = sqlite3.connect(path, timeout=_BUSY_S)
    try:
        _limit(connection)
        _refuse_other_tables(connection)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise sqlite3.OperationalError("it was written by a newer program")
        if path.exists() and not path.stat().st_mode & 0o222:
            raise sqlite3.OperationalError("it is read-only")
        with connection:
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("SELECT number FROM runs LIMIT 1").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_foreign(path: Path) -> None:
    """Refuse a file, or a file that SQLite opens beside it, that is a link, a pipe or too large.

    SQLite writes to what these names lead to.
    """
    for suffix in ("", "-journal", "-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        try:
            state = beside.lstat()
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(state.st_mode):
            raise sqlite3.DatabaseError(f"{beside.name} is a link or no regular file")
        if state.st_size > _MAX_BYTES:
            raise sqlite3.DatabaseError(f"{beside.name} is larger than {_MAX_BYTES >> 20} MiB")


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _limit(file: sqlite3.Connection) -> None:
    """Bound what the content of a file can take, and trust nothing in it."""
    file.text_factory = _text
    file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
    file.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    file.execute("PRAGMA trusted_schema = OFF")
    file.execute("PRAGMA cell_size_check = ON")


def _refuse_other_tables(file: sqlite3.Connection) -> None:
    """Refuse views, triggers and tables of another form: reading them could take for ever."""
    own = {
        " ".join(_TABLE.replace("IF NOT EXISTS ", "").split()),
        "CREATE TABLE sqlite_sequence(name,seq)",
    }
    for kind, text in file.execute("SELECT type, sql FROM sqlite_master LIMIT 10"):
        if (kind, text) != ("index", None) and " ".join(str(text).split()) not in own:
            raise sqlite3.DatabaseError(f"it holds an unknown {kind}")


def _joined(before: Run, now: Run) -> Run:
    """Return the figures of a configuration: the newer ones, else the older ones."""
    simulated = now.simulated or before.simulated
    measured = before.simulated is not None and before.simulated.cycles is not None
    if measured and (now.simulated is None or now.simulated.cycles is None):
        simulated = before.simulated
    known = now if now.quality.samples else before
    return now.model_copy(
        update={
            "made": before.made,
            "origin": before.origin or now.origin,
            "cost": now.cost or before.cost,
            "simulated": simulated,
            "gate": now.gate or before.gate,
            "accuracy_result": now.accuracy_result or before.accuracy_result,
            "quality": known.quality,
            "layers": known.layers,
        }
    )
