"""Processes end with the one that started them, also when it is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workbench.operating_system import is_running
from workbench.process_guard import ProcessGuard

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups are of POSIX")

# Ignores what asks it to end, as a tool may.
STUBBORN = (
    "import signal, time\n"
    "for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):\n"
    "    signal.signal(number, signal.SIG_IGN)\n"
    "print('ready', flush=True)\n"
    "time.sleep(60)\n"
)
PARENT = (
    "import subprocess, sys, time\n"
    "from workbench.process_guard import ProcessGuard\n"
    f"child = subprocess.Popen([sys.executable, '-c', {STUBBORN!r}], stdout=subprocess.PIPE,\n"
    "    start_new_session=True)\n"
    "guard = ProcessGuard(child.pid)\n"
    "child.stdout.readline()\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(60)\n"
)


def ended(number, within_s=5.0):
    """Return whether a process ends in time."""
    end = time.monotonic() + within_s
    while time.monotonic() < end and not has_ended(number):
        time.sleep(0.05)
    return has_ended(number)


def has_ended(number):
    """Return whether a process has ended, also if nobody has asked how."""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return not is_running(number)
    return state == "Z"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_that_a_stubborn_child_ends_with_its_killed_parent(how):
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        child = int(parent.stdout.readline())
        os.kill(parent.pid, how)
        parent.wait()
        assert ended(child)


def test_that_a_released_group_lives_on():
    command = [sys.executable, "-c", STUBBORN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as child:
        child.stdout.readline()
        guard = ProcessGuard(child.pid)
        guard.release()
        guard.release()
        assert child.poll() is None
        child.kill()
