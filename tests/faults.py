"""Injection of faults: the n-th call that touches the disk fails, for every n."""

from __future__ import annotations

import builtins
import errno
import io
import os
import pathlib
import signal
import tempfile
from contextlib import ExitStack
from unittest import mock

# Calls through which the program changes the disk.
CALLS = (
    (os, "open"),
    (os, "fsync"),
    (os, "write"),
    (os, "replace"),
    (os, "rename"),
    (os, "fdopen"),
    (os, "chmod"),
    (os, "mkdir"),
    (pathlib.Path, "replace"),
    (pathlib.Path, "rename"),
    (pathlib.Path, "write_bytes"),
    (pathlib.Path, "write_text"),
    (pathlib.Path, "mkdir"),
)


class _Counter:
    def __init__(self, failing: int, error: int) -> None:
        self.failing, self.error, self.count = failing, error, 0

    def wrap(self, stock):
        def call(*arguments, **options):
            self.count += 1
            if self.count == self.failing:
                raise OSError(self.error, os.strerror(self.error), str(arguments[0])[:200])
            return stock(*arguments, **options)

        return call


def failing_calls(work, error=errno.ENOSPC, most=400):
    """Run ``work`` with its first call failing, then its second, until none fails.

    Yields what each failing run raised, or None when it hid the fault; the last run succeeds.
    """
    for number in range(1, most):
        counter = _Counter(number, error)
        with ExitStack() as patches:
            for place, name in CALLS:
                stock = getattr(place, name)
                patches.enter_context(mock.patch.object(place, name, counter.wrap(stock)))
            try:
                work()
                raised = None
            except Exception as caught:  # noqa: BLE001 - the caller judges it
                raised = caught
        if counter.count < number:
            if raised is not None:
                raise raised
            return
        yield raised
    raise AssertionError(f"more than {most} calls")


def killed_calls(work, most=400, step=1):
    """Run ``work`` in a process that is killed (SIGKILL) at its first call, then its second...

    With a ``step`` of n, only every n-th call kills it.
    Yields True after each killed process, with the call not made, and again with it made; ends
    after the process that was not killed.
    """
    for number in range(1, most, step):
        for is_made in (False, True):
            child = os.fork()
            if child == 0:
                _work_until(work, number, is_made=is_made)
            _, status = os.waitpid(child, 0)
            if not os.WIFSIGNALED(status):
                assert os.waitstatus_to_exitcode(status) == 0
                return
            assert os.WTERMSIG(status) == signal.SIGKILL, "the process did not end by itself"
            yield True
    raise AssertionError(f"more than {most} calls")


def _work_until(work, number, *, is_made):
    """Do the work in this process, which ends: killed at a call, or with exit code 0."""
    count = 0
    # A process that was forked from one with threads may wait for ever.
    signal.alarm(30)

    def wrap(stock):
        def call(*arguments, **options):
            nonlocal count
            count += 1
            if count == number and not is_made:
                os.kill(os.getpid(), signal.SIGKILL)
            result = stock(*arguments, **options)
            if count >= number and is_made:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    try:
        for place, name in CALLS:
            setattr(place, name, wrap(getattr(place, name)))
        work()
    finally:
        os._exit(0 if count < number else 1)


def failing_reads(root, how, positions=None, most=400):
    """Let the n-th opening of a file below a folder go wrong, for every n or the given ones.

    Args:
        root: The folder.
        how: "error" raises EIO; "short" and "zeroed" give the first half of the file, or zeros.
        positions: The numbers of the openings, from 1; None for all.
        most: The largest number.

    Yields:
        The number, and a context in which to read. Ends after the first that did not get so far.
    """
    for number in positions or range(1, most):
        reader = _Reads(root, how, number)
        yield number, reader
        if reader.count < number:
            return
    assert positions is not None, f"more than {most} reads"


class _Reads:
    def __init__(self, root, how, number):
        self.root, self.how, self.number, self.count = f"{root}{os.sep}", how, number, 0
        self._stack = ExitStack()

    def __enter__(self):
        self._copies = tempfile.TemporaryDirectory()
        self._stack.enter_context(self._copies)
        opened = self._opened(io.open)
        for place, name, call in (
            (builtins, "open", opened),
            (io, "open", opened),
            (os, "open", self._descriptor()),
        ):
            self._stack.enter_context(mock.patch.object(place, name, call))

    def __exit__(self, *_error):
        self._stack.close()

    def _opened(self, stock):
        def call(file, mode="r", *arguments, **options):
            is_read = not set(mode) & set("wax+")
            return stock(self._faulty(file) if is_read else file, mode, *arguments, **options)

        return call

    def _descriptor(self):
        stock = os.open

        def call(path, flags, *arguments, **options):
            is_read = not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            return stock(self._faulty(path) if is_read else path, flags, *arguments, **options)

        return call

    def _faulty(self, file):
        """Return the file, or at the chosen opening a damaged copy of it."""
        if not isinstance(file, str | os.PathLike) or not os.fspath(file).startswith(self.root):
            return file
        if not os.path.isfile(file):
            return file
        self.count += 1
        if self.count != self.number:
            return file
        if self.how == "error":
            raise OSError(errno.EIO, os.strerror(errno.EIO), os.fspath(file))
        copy = pathlib.Path(self._copies.name) / f"{os.path.basename(file)}"
        data = _content(file)
        copy.write_bytes(data[: len(data) // 2] if self.how == "short" else bytes(len(data)))
        return os.fspath(copy)


def _content(file, stock=os.open):
    """Return a file's content, not through the patched calls."""
    with os.fdopen(stock(file, os.O_RDONLY), "rb") as source:
        return source.read()


def recorded_calls(work):
    """Return the syncs and renames of ``work`` in order: ("fsync", path), ("rename", old, new)."""
    calls = []
    fsync, rename, replace = os.fsync, os.rename, os.replace

    def synced(descriptor):
        calls.append(("fsync", os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def renamed(stock):
        def call(old, new, *arguments, **options):
            calls.append(("rename", os.fspath(old), os.fspath(new)))
            stock(old, new, *arguments, **options)

        return call

    with (
        mock.patch.object(os, "fsync", synced),
        mock.patch.object(os, "rename", renamed(rename)),
        mock.patch.object(os, "replace", renamed(replace)),
    ):
        work()
    return calls
