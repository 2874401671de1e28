"""Calls of the operating system, as this one answers them."""

import os
import socket
import subprocess
import sys

import pytest

from workbench import operating_system as system

# Starts a process of its own, says its number, and waits.
_PARENT = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    "print(child.pid, flush=True); time.sleep(60)"
)


def test_that_a_group_ends_with_what_it_started():
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        child = int(process.stdout.readline())
        assert system.is_running(child)
        assert system.has_group(process.pid)
        system.end_group(process.pid)
        assert process.wait(10) < 0
        # Reading ends when the last process that has the pipe has ended.
        process.stdout.read()
    system.end_group(process.pid)


def test_that_a_lock_is_held_until_its_descriptor_is_closed(tmp_path):
    first, second = (os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT) for _ in range(2))
    system.lock(first)
    with pytest.raises(BlockingIOError):
        system.lock(second)
    os.close(first)
    system.lock(second)
    os.close(second)


def test_that_descriptors_are_passed_to_a_program():
    reading, writing = os.pipe()
    arguments, options = system.passed([writing])
    script = (
        "import os, sys; from workbench.operating_system import received\n"
        "os.write(received(sys.argv[1], os.O_WRONLY), b'here')"
    )
    subprocess.run([sys.executable, "-c", script, *arguments], check=True, **options)
    os.close(writing)
    assert os.read(reading, 10) == b"here"
    os.close(reading)


def test_that_a_closed_peer_is_told_apart_from_something_to_read():
    (own, other), (engine, far) = socket.socketpair(), socket.socketpair()
    assert system.ready_of(own, 0.0, engine) == (False, False)
    other.send(b"x")
    assert system.ready_of(own, 1.0, engine) == (True, False)
    far.close()
    assert system.ready_of(own, 1.0, engine)[1] is (sys.platform == "linux")
    for one in (own, other, engine):
        one.close()


def test_that_how_a_forked_process_ended_is_told():
    pid = system.fork()
    if not pid:
        os._exit(3)
    status = None
    while status is None:
        status = system.status_of(pid)
    assert system.ending_of(status) == "ended with exit code 3"
    pid = system.fork()
    if not pid:
        os.read(os.pipe()[0], 1)
    assert system.ending_of(system.kill_forked(pid)).startswith("was ended by SIGKILL")
