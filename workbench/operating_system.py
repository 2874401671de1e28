"""Calls of the operating system that differ between POSIX and Windows: the only place of both.

The half for Windows is checked by mypy and was never run: there is no such machine here.
``start_new_session`` of ``subprocess`` is ignored there; ``end_group`` ends the tree of a process.
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl
    import resource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_T = TypeVar("_T")
IS_WINDOWS = sys.platform == "win32"
# Whether engines and stages are forked: it needs the death signal of Linux too.
CAN_FORK = sys.platform == "linux"
# Linux: prctl(PR_SET_PDEATHSIG).
_SET_DEATH_SIGNAL = 1
# Linux: prctl(PR_SET_NO_NEW_PRIVS), and the system calls of Landlock, which have one number everywhere.
_PRCTL_NO_NEW_PRIVILEGES = 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
# Windows: rights and the answers of OpenProcess (processthreadsapi.h, winnt.h), and the limit of a
# job object that ends its processes with its last handle (JOBOBJECT_EXTENDED_LIMIT_INFORMATION).
_QUERY, _SET_QUOTA_AND_END, _STILL_ACTIVE, _DENIED = 0x1000, 0x0101, 259, 5
_EXTENDED_LIMITS, _END_WITH_HANDLE, _LIMITS_BYTES, _FLAGS_AT = 9, 0x2000, 144, 16
_FILE_IN_FOLDER = ".workbench-lock"
# What a file is opened with that another process may have made: no link is followed, a pipe does
# not wait, and no program that is started inherits it.
if sys.platform == "win32":
    SAFE_FLAGS = os.O_BINARY | os.O_NOINHERIT
else:
    SAFE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def end_group(pid: int, *, ask: bool = False) -> None:
    """Kill a process that was started in a session of its own, with all that it started.

    Args:
        pid: The process; one that has ended is no error.
        ask: Ask it to end (SIGTERM) instead. Windows has no such request for a process without a
            window, and kills.
    """
    if sys.platform == "win32":
        with suppress(OSError):
            command = ["taskkill", "/F", "/T", "/PID", str(pid)]
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait()
    else:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGTERM if ask else signal.SIGKILL)


def has_group(pid: int) -> bool:
    """Return whether a process is left of those that ``end_group`` ends; on Windows none is."""
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, 0)
            return True
    return False


def is_running(pid: int) -> bool:
    """Return whether a process of this number runs here, or may run."""
    if sys.platform == "win32":
        # os.kill(pid, 0) would send Ctrl-C there.
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        handle = kernel.OpenProcess(_QUERY, False, pid)
        if not handle:
            return ctypes.get_last_error() == _DENIED
        code = ctypes.c_ulong()
        known = kernel.GetExitCodeProcess(handle, ctypes.byref(code))
        kernel.CloseHandle(handle)
        return not known or code.value == _STILL_ACTIVE
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def lock(descriptor: int) -> None:
    """Take the lock of a file, which is held until the descriptor is closed.

    Raises:
        BlockingIOError: Another process holds it.
        OSError: The file system has no locks.
    """
    if sys.platform == "win32":
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in {errno.EACCES, errno.EDEADLK}:
                raise BlockingIOError(error.errno, error.strerror) from error
            raise
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def open_folder_to_lock(folder: Path) -> int:
    """Return a descriptor whose lock is that of a folder. Windows opens a file in it.

    Raises:
        OSError: The folder does not exist.
    """
    if sys.platform == "win32":
        return os.open(folder / _FILE_IN_FOLDER, os.O_RDWR | os.O_CREAT | SAFE_FLAGS, 0o600)
    return os.open(folder, os.O_RDONLY)


def is_own(state: os.stat_result) -> bool:
    """Return whether a file belongs to this user. Windows says it in other ways: true there."""
    if sys.platform == "win32":
        return True
    return state.st_uid == os.geteuid()


def is_foreign(state: os.stat_result) -> bool:
    """Return whether a file belongs to another user than root; for root, the owner does not count."""
    if sys.platform == "win32":
        return False
    return os.geteuid() != 0 and state.st_uid not in {os.geteuid(), 0}


def device_number(major: int, minor: int) -> int:
    """Return the number of a device (``st_dev``); Windows has none by two numbers."""
    if sys.platform == "win32":
        return -1
    return os.makedev(major, minor)


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def local_socket() -> socket.socket:
    """Return a socket for the path of a local one.

    Raises:
        OSError: Python has none on Windows.
    """
    if sys.platform == "win32":
        raise OSError(errno.ENOSYS, "sockets with a path are not available on Windows")
    return socket.socket(socket.AF_UNIX)


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process [bytes]; 0 where the system does not say it."""
    if sys.platform == "win32":
        return 0
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def become_engine(niceness: int) -> None:
    """Make a forked process the leader of a session, with a lower priority."""
    if sys.platform == "win32":
        raise OSError(errno.ENOSYS, "processes are not forked")
    os.setsid()
    os.nice(niceness)


def limit_resources(memory_bytes: int, time_s: float) -> None:
    """Let this process have no more memory [bytes], and time of the processor from now on [s].

    One that wants more gets no memory, or is ended. Windows has no such limits for a process itself.
    """
    if sys.platform != "win32":
        used = resource.getrusage(resource.RUSAGE_SELF)
        total_s = math.ceil(used.ru_utime + used.ru_stime + time_s)
        for limit, value in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CPU, total_s)):
            _, most = resource.getrlimit(limit)
            resource.setrlimit(limit, (value if most < 0 else min(value, most), most))


def limit_file_sizes(pid: int, most_bytes: int) -> None:
    """End a process that writes a file beyond a size [bytes] (Linux)."""
    if sys.platform == "linux":
        with suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most_bytes, most_bytes))


def confined(start: Callable[[], _T], written: Sequence[Path], executed: Sequence[Path]) -> _T:
    """Return what ``start`` does, without the right to change files or execute programs elsewhere.

    It is called in a thread of its own: the limits hold for this and for all processes that it starts.

    Args:
        start: What starts a process.
        written: Folders and files that may be changed, and folders whose files may be made and removed.
        executed: Programs, with their loaders.

    Raises:
        OSError: This system has no such limits: they need Linux with Landlock.
    """
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "this system cannot confine a process")
    ruleset = _ruleset(written, executed)
    results: list[_T] = []
    errors: list[OSError] = []

    def run() -> None:
        try:
            _system_call(_PRCTL_NO_NEW_PRIVILEGES)
            _system_call(_RESTRICT_SELF, ruleset, 0)
            results.append(start())
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    os.close(ruleset)
    if errors:
        raise errors[0]
    return results[0]


def _ruleset(written: Sequence[Path], executed: Sequence[Path]) -> int:
    """Return the descriptor of a set of rules (landlock(7)).

    Raises:
        OSError: The kernel has no Landlock.
    """
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "this system has no Landlock")
    version = _system_call(_CREATE_RULESET, None, 0, 1)
    # Bits of landlock.h: files and folders since version 1, moves between folders and cuts since 2 and 3.
    changes = sum(
        1 << bit for bit in (1, *range(4, 13), *([13] if version > 1 else []), *([14] if version > 2 else []))
    )
    changes_of_file = 1 << 1 | (1 << 14 if version > 2 else 0)
    handled = struct.pack("<Q", changes | 1)
    ruleset = _system_call(_CREATE_RULESET, handled, len(handled), 0)
    rows = [(path, changes if path.is_dir() else changes_of_file) for path in written]
    for path, rights in [*rows, *((path, 1) for path in executed)]:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            _system_call(_ADD_RULE, ruleset, 1, struct.pack("<Qi", rights, place), 0)
        finally:
            os.close(place)
    return ruleset


def _system_call(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call of Linux; ``_PRCTL_NO_NEW_PRIVILEGES`` stands for that one.

    Raises:
        OSError: It failed.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if number == _PRCTL_NO_NEW_PRIVILEGES:
        result = library.prctl(number, 1, 0, 0, 0)
    else:
        result = library.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(result)


def is_bus_error(code: int) -> bool:
    """Return whether an exit code is that of a mapped file that was cut."""
    if sys.platform == "win32":
        return False
    return code == -signal.SIGBUS


def is_kill(code: int) -> bool:
    """Return whether an exit code is that of a killed process, as where memory has run out."""
    if sys.platform == "win32":
        return False
    return code == -signal.SIGKILL


def fork() -> int:
    """Fork this process; return 0 in the copy, and its number here.

    Raises:
        OSError: This system has no ``fork``.
    """
    if sys.platform == "win32":
        raise OSError(errno.ENOSYS, "processes are not forked")
    with warnings.catch_warnings():
        # Python 3.12 warns of locks that other threads hold; none of them is used in the copy.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def end_with_parent() -> None:
    """Let this forked process end with its parent, and before it where memory is short (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")


def close_other_descriptors(descriptor: int) -> None:
    """Close all descriptors of a forked process but one; input and outputs lead nowhere."""
    if sys.platform != "win32":
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(nowhere, standard)
        os.closerange(3, descriptor)
        os.closerange(descriptor + 1, os.sysconf("SC_OPEN_MAX"))


def status_of(pid: int) -> int | None:
    """Return how a forked process ended (``wait(2)``), None while it runs.

    Raises:
        OSError: It is no child of this process.
    """
    if sys.platform == "win32":
        raise OSError(errno.ENOSYS, "processes are not forked")
    ended, status = os.waitpid(pid, os.WNOHANG)
    return status if ended else None


def kill_forked(pid: int) -> int:
    """Kill a forked process, and return how it ended (``wait(2)``).

    Raises:
        OSError: It is no child of this process.
    """
    if sys.platform == "win32":
        raise OSError(errno.ENOSYS, "processes are not forked")
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def ending_of(status: int) -> str:
    """Return how a forked process ended as text, by its status (``wait(2)``)."""
    if sys.platform == "win32":
        return f"ended with exit code {status}"
    if not os.WIFSIGNALED(status):
        return f"ended with exit code {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    short = ", perhaps for want of memory" if number == signal.SIGKILL else ""
    return f"was ended by {name}{short}"


def ready_of(
    wire: socket.socket | FileIO, timeout_s: float, peer: socket.socket | None = None
) -> tuple[bool, bool]:
    """Wait for something to read, or for the other end of another connection to close.

    Args:
        wire: What is read.
        timeout_s: How long to wait [s].
        peer: The connection whose end is waited for too.

    Returns:
        Whether ``wire`` can be read or is closed, and whether the other end of ``peer`` is closed.
    """
    if sys.platform == "win32":
        raise OSError(errno.ENOSYS, "processes are not forked")
    import select

    waiting = select.poll()
    waiting.register(wire, select.POLLIN)
    if peer is not None:
        # Linux has an event for a closed peer (``poll(2)``).
        waiting.register(peer, getattr(select, "POLLRDHUP", select.POLLHUP))
    ready = {descriptor for descriptor, _ in waiting.poll(timeout_s * 1e3)}
    return wire.fileno() in ready, peer is not None and peer.fileno() in ready


def read_until(pipe: IO[bytes], limit: int, deadline: float) -> tuple[bytes, bool]:
    """Read a pipe of a process until it ends, is long, or time is over.

    Args:
        pipe: Its output.
        limit: How much is read at most [bytes].
        deadline: By ``time.monotonic``.

    Returns:
        What was read, and whether it is all.
    """
    data = bytearray()
    if sys.platform == "win32":
        ended = threading.Event()

        def read() -> None:
            with suppress(OSError, ValueError):
                while len(data) < limit and (chunk := os.read(pipe.fileno(), 4096)):
                    data.extend(chunk)
                if len(data) < limit:
                    ended.set()

        # Pipes cannot be waited for there.
        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        thread.join(max(0.0, deadline - time.monotonic()))
        return bytes(data), ended.is_set()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(data) < limit and (left := deadline - time.monotonic()) > 0:
            if not selector.select(left):
                break
            if not (chunk := os.read(pipe.fileno(), 4096)):
                return bytes(data), True
            data += chunk
    return bytes(data), False


def passed(descriptors: Sequence[int]) -> tuple[list[str], dict[str, Any]]:
    """Return how a program that is started gets descriptors: its arguments, and those of Popen.

    ``received`` takes the arguments there.
    """
    if sys.platform == "win32":
        handles = [msvcrt.get_osfhandle(descriptor) for descriptor in descriptors]
        for handle in handles:
            os.set_handle_inheritable(handle, True)
        start = subprocess.STARTUPINFO(lpAttributeList={"handle_list": handles})
        return [str(handle) for handle in handles], {"startupinfo": start}
    return [str(descriptor) for descriptor in descriptors], {"pass_fds": tuple(descriptors)}


def received(argument: str, flags: int) -> int:
    """Return the descriptor of an argument that ``passed`` made.

    Args:
        argument: The text.
        flags: ``os.O_RDONLY`` or ``os.O_WRONLY``.
    """
    if sys.platform == "win32":
        return msvcrt.open_osfhandle(int(argument), flags | os.O_BINARY)
    return int(argument)


class JobObject:
    """A job of Windows: its processes end with this process, however it ends.

    Args:
        pid: The first process of the job.
    """

    def __init__(self, pid: int) -> None:
        self._job: int = 0
        if sys.platform == "win32":
            kernel = ctypes.WinDLL("kernel32")
            self._job = kernel.CreateJobObjectW(None, None)
            self._set_flags(_END_WITH_HANDLE)
            process = kernel.OpenProcess(_SET_QUOTA_AND_END, False, pid)
            kernel.AssignProcessToJobObject(self._job, process)
            kernel.CloseHandle(process)

    def _set_flags(self, flags: int) -> None:
        if sys.platform == "win32":
            limits = bytearray(_LIMITS_BYTES)
            limits[_FLAGS_AT : _FLAGS_AT + 4] = flags.to_bytes(4, "little")
            data = (ctypes.c_char * _LIMITS_BYTES).from_buffer(limits)
            kernel = ctypes.WinDLL("kernel32")
            kernel.SetInformationJobObject(self._job, _EXTENDED_LIMITS, data, _LIMITS_BYTES)

    def release(self) -> None:
        """Let its processes live on."""
        if sys.platform == "win32" and self._job:
            self._set_flags(0)
            ctypes.WinDLL("kernel32").CloseHandle(self._job)
            self._job = 0
