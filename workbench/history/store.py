"""The run history of a project: one SQLite file beside it.

SQLite never opens that file. Its bytes are read, checked and copied to a database in memory, so
that no journal, write-ahead log or other file beside it is opened, and a changed database is
written as a whole, under the lock of the folder. A file that cannot be read or written is left
unchanged; the runs are then kept in memory, and ``History.problem`` explains it.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from workbench.errors import ErrorInfo, Place, failure, write_remedy
from workbench.files import locked, read_limited, write_file
from workbench.history.runs import Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUFFIX = ".runs.sqlite"
SCHEMA_VERSION = 1
# A damaged file may also hold names that are no text, or numbers beyond 64 bits.
_DAMAGED = (sqlite3.Error, OSError, UnicodeDecodeError, OverflowError, TypeError)
# A run takes about 20 kB. The file is held twice while it is read or written.
_MAX_BYTES = 200 << 20
_MAX_VALUE_BYTES = 16 << 20
_MAX_READ_BYTES = 64 << 20
_MAX_ROWS = 50_000
_MAX_SQL_BYTES = 100_000
_MAX_DIGITS = 19
# The values of one run: 10,000 tensors have half of it.
_MAX_VALUES = 400_000
# The most CPU time that the check of one file takes [s], and the steps between two looks.
_MAX_CHECK_S, _CHECK_STEPS = 10.0, 100_000
# The table, the index of its keys and sqlite_sequence.
_MAX_TABLES = 3
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
        self._rows = _in_memory()
        # The file in use, and what tells its present content from others.
        self._file = path
        self._state: tuple[int, ...] | None = None
        try:
            if path is not None and not self._refresh():
                with self._writing():
                    pass
        except _DAMAGED as error:
            self._give_up(error)

    def close(self) -> None:
        """Close the file."""
        self._rows.close()

    def runs(self) -> list[Run]:
        """Return all runs, oldest first; rows of a newer program are omitted and reported."""
        rows: list[Run] = []
        try:
            self._refresh()
            unread = self._read(rows)
        except _DAMAGED as error:
            self._give_up(error)
            return rows[::-1]
        if unread:
            self._report_once(
                "history-runs-unsupported", f"{unread} runs were written by another version of the program."
            )
        return rows[::-1]

    def _read(self, runs: list[Run]) -> int:
        """Add the runs to a list, newest first; return how many are of another version."""
        unread = total = 0
        newest_first = self._rows.execute("SELECT number, run FROM runs ORDER BY number DESC")
        for row, (number, text) in enumerate(newest_first):
            total += len(text)
            if total > _MAX_READ_BYTES or row >= _MAX_ROWS:
                self._report_once("history-too-large", "The history is too large to list all runs.")
                break
            try:
                if text.count(",") > _MAX_VALUES:
                    raise ValueError("it has too many values")
                json.loads(text, parse_int=_number)
                runs.append(Run.model_validate_json(text).model_copy(update={"number": number}))
            except (ValueError, RecursionError):
                unread += 1
        return unread

    def _report_once(self, code: str, message: str) -> None:
        if self.problem is None:
            hint = "They stay in the file but are not listed."
            self.problem = ErrorInfo(message=message, hint=hint, where=self._where(), code=code)

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
        return self.adopt([run])[0]

    def adopt(self, runs: Iterable[Run]) -> list[Run]:
        """Add the runs of another history; return them with their numbers, as ``record`` does."""
        runs = list(runs)
        try:
            with self._writing():
                return [self._put(run) for run in runs]
        except _DAMAGED as error:
            kept = self._saved()
            self._give_up(error)
            return [self._put(run) for run in (*kept, *runs)][len(kept) :]

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Change the rows and write the file, while no other process does."""
        if self._file is None:
            yield
            return
        with locked(self._file):
            self._refresh()
            yield
            write_file(self._file, self._rows.serialize())
            self._state = _state_of(self._file)

    def _refresh(self) -> bool:
        """Read the file if it is another one than before; return whether there is one.

        Raises:
            sqlite3.Error: it is damaged, foreign, read-only or of a newer program.
            OSError: it cannot be read.
        """
        if self._file is None:
            return True
        state = _state_of(self._file)
        if state is not None and state != self._state:
            rows = _read_database(self._file)
            self._rows.close()
            self._rows, self._state = rows, state
            if not self._file.stat().st_mode & 0o222:
                raise _ReadOnlyError("it is read-only")
        return state is not None

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
        """Keep the runs in memory from now on: those of a read-only file, else none."""
        assert self.path is not None
        damaged = not isinstance(error, sqlite3.OperationalError | OSError)
        what = "is damaged" if damaged else "cannot be written"
        code = "history-damaged" if damaged else "history-not-writable"
        self.problem = ErrorInfo(
            message=f"The history {self.path.name} {what}. New runs are lost when you close the program.",
            hint="Move the damaged file away."
            if damaged
            else write_remedy(error, "Make the folder writable."),
            where=self._where(),
            details=str(error),
            code=code,
        )
        self._file = None
        if not isinstance(error, _ReadOnlyError):
            with contextlib.suppress(sqlite3.Error):
                self._rows.close()
            self._rows = _in_memory()

    def _where(self) -> Place:
        return Place(kind="file", id=str(self.path))


def _number(digits: str) -> int:
    """Return a whole number of a row.

    Raises:
        ValueError: it has more than 64 bits: figures of it would fit into no float.
    """
    if len(digits.lstrip("-")) > _MAX_DIGITS:
        raise ValueError("a number is too large")
    return int(digits)


def _in_memory() -> sqlite3.Connection:
    """Return a history without runs, in memory."""
    connection = sqlite3.connect(":memory:")
    connection.execute(_TABLE)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return connection


class _ReadOnlyError(sqlite3.OperationalError):
    """The file was read and cannot be written."""


def _state_of(path: Path) -> tuple[int, ...] | None:
    """Return what differs for two contents of a file; None if there is no file."""
    try:
        state = path.lstat()
    except FileNotFoundError:
        return None
    return state.st_ino, state.st_dev, state.st_size, state.st_mtime_ns, state.st_ctime_ns


def _read_database(path: Path) -> sqlite3.Connection:
    """Return a checked copy of a history, in memory.

    Raises:
        sqlite3.Error: it is damaged, foreign or of a newer program.
        OSError: it cannot be read.
    """
    try:
        data = read_limited(path, _MAX_BYTES, follow=False)
    except PermissionError:
        raise
    except OSError as error:
        raise sqlite3.DatabaseError(str(error)) from error
    if not data:
        return _in_memory()
    _check_first_page(data)
    connection = sqlite3.connect(":memory:")
    try:
        connection.deserialize(data)
        _check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_first_page(data: bytes) -> None:
    """Refuse a database whose first page lists other than the three tables of a history.

    The first page holds the whole schema of a history. SQLite would read a longer one, of any
    length, before it can be looked at. Source: sqlite.org/fileformat2.html, sections 1.3 and 1.6.
    """
    size = int.from_bytes(data[16:18], "big")
    size = 65536 if size == 1 else size
    if data[:16] != b"SQLite format 3\0" or size < 512 or len(data) % size:
        raise sqlite3.DatabaseError("it is no SQLite database, or cut off")
    if data[18:20] != b"\1\1":
        raise sqlite3.DatabaseError("it uses a write-ahead log")
    is_leaf = data[100] == 13
    if not is_leaf or int.from_bytes(data[103:105], "big") > _MAX_TABLES:
        raise sqlite3.DatabaseError("it holds other tables")


def _check(file: sqlite3.Connection) -> None:
    """Bound what the content of a file can take, and refuse one that is damaged or foreign.

    In a database without errors every page belongs to one table, so that its size bounds the work.

    Raises:
        sqlite3.Error: it is damaged, foreign or of a newer program.
    """
    file.text_factory = _text
    file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
    file.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _MAX_SQL_BYTES)
    file.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    end = time.thread_time() + _MAX_CHECK_S
    file.set_progress_handler(lambda: time.thread_time() > end, _CHECK_STEPS)
    try:
        file.execute("PRAGMA trusted_schema = OFF")
        file.execute("PRAGMA cell_size_check = ON")
        file.execute("PRAGMA temp_store = MEMORY")
        _refuse_other_tables(file)
        faults = [fault for (fault,) in file.execute("PRAGMA integrity_check(1)")]
    except sqlite3.OperationalError as error:
        raise sqlite3.DatabaseError(str(error)) from error
    finally:
        file.set_progress_handler(None, 0)
    if faults != ["ok"]:
        raise sqlite3.DatabaseError(str(faults[0]))
    version = file.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise sqlite3.OperationalError("it was written by a newer program")


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _refuse_other_tables(file: sqlite3.Connection) -> None:
    """Refuse views, triggers and tables of another form: reading them could take for ever."""
    own = {
        ("table", "runs", " ".join(_TABLE.replace("IF NOT EXISTS ", "").split())),
        ("index", "sqlite_autoindex_runs_1", "None"),
        ("table", "sqlite_sequence", "CREATE TABLE sqlite_sequence(name,seq)"),
    }
    listed = [
        (kind, name, " ".join(str(text).split()))
        for kind, name, text in file.execute("SELECT type, name, sql FROM sqlite_master")
    ]
    if len(listed) != len(own) or set(listed) != own:
        kinds = ", ".join(sorted({kind for kind, _, _ in {*listed} - own})) or "table"
        raise sqlite3.DatabaseError(f"it holds an unknown {kinds}")


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
