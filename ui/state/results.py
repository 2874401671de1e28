"""The parsed results of stages: one cache for the whole window, with a limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from workbench.errors import WorkbenchError
from workbench.graph.snapshot import GraphSnapshot
from workbench.project.frozen import Frozen

Result = TypeVar("Result", bound=Frozen)
LIMIT_BYTES = 64 << 20
RESULT_FILE = "result.json"


class ResultCache:
    """Reads every file once; may be used from any thread.

    The files of all values that are kept have ``limit_bytes`` together; those used longest ago go
    first. The value that was read last always stays. A file that was written again is read again,
    and a file that cannot be read raises the same error until then.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._lock = Lock()
        self._entries: OrderedDict[tuple[Path, object], tuple[tuple[int, int], Any]] = OrderedDict()

    def load(self, kind: type[Result], folder: Path) -> Result:
        """Return the result that a folder holds.

        Raises:
            WorkbenchError: it is missing or damaged.
        """

        def read() -> Result:
            # Imported here, because a window is up before any result is read.
            from workbench.results import load_result

            return load_result(kind, folder)

        value: Result = self._get(folder / RESULT_FILE, kind, read)
        return value

    def graph(self, path: Path) -> GraphSnapshot:
        """Return the graph that a file holds.

        Raises:
            WorkbenchError: it is missing or damaged.
        """
        graph: GraphSnapshot = self._get(path, GraphSnapshot, lambda: GraphSnapshot.load(path))
        return graph

    def _get(self, path: Path, kind: object, read: Callable[[], Any]) -> Any:
        state = _state(path)
        with self._lock:
            known = self._entries.get((path, kind))
            if known is not None and known[0] == state:
                self._entries.move_to_end((path, kind))
                value = known[1]
            else:
                value = None
        if value is None:
            value = _read_or_error(read)
            self._keep((path, kind), state, value)
        if isinstance(value, WorkbenchError):
            raise value
        return value

    def _keep(self, key: tuple[Path, object], state: tuple[int, int], value: Any) -> None:
        with self._lock:
            self._entries[key] = (state, value)
            self._entries.move_to_end(key)
            while len(self._entries) > 1 and self._size() > self._limit_bytes:
                self._entries.popitem(last=False)

    def _size(self) -> int:
        return sum(size for (size, _), _ in self._entries.values())


def _read_or_error(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except WorkbenchError as error:
        return error


def _state(path: Path) -> tuple[int, int]:
    """Return the size [bytes] and the time of a file; zeros when it is not there."""
    try:
        stat = path.stat()
    except OSError:
        return 0, 0
    return stat.st_size, stat.st_mtime_ns
