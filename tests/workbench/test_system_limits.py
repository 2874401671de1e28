"""Limits of the shell are named with their remedy, wherever they end something."""

import resource
import subprocess
import sys
from contextlib import contextmanager

import pytest

from workbench import interpreter
from workbench.system_limits import free_memory, low_limits, remedy

MIB = 1 << 20


@contextmanager
def limited(name, value):
    before = resource.getrlimit(name)
    resource.setrlimit(name, (value, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(name, before)


def ended(code, limits):
    """Run Python code in a process with limits; return its exit code and all that it printed."""

    def limit():
        for name, value in limits.items():
            resource.setrlimit(name, (value, value))

    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
        env=interpreter.environment(),
        timeout=120,
    )
    return process.returncode, process.stdout + process.stderr


def test_that_only_low_limits_are_named_with_their_options():
    with limited(resource.RLIMIT_NOFILE, 200):
        assert "open files 200 (ulimit -n)" in low_limits()
        assert "(ulimit -n)" in remedy("Free space.")
    with limited(resource.RLIMIT_NOFILE, 256):
        assert "ulimit -n" not in low_limits()
    with limited(resource.RLIMIT_FSIZE, 10 << 20):
        assert "the size of a file 10,240 KiB (ulimit -f)" in low_limits()


def test_that_without_low_limits_the_other_remedy_is_given():
    if not low_limits():
        assert remedy("Free space.") == "Free space."


def test_that_a_command_line_without_memory_to_start_says_so():
    code, said = ended(
        "from workbench.__main__ import main; raise SystemExit(main())", {resource.RLIMIT_AS: 60 * MIB}
    )
    assert code == 1
    assert "ulimit -v" in said
    assert "Traceback" not in said


ENGINE = """
from workbench.engine_process import EngineProcess
for event in EngineProcess().events():
    last = event
print(last.problem().hint, last.expected)
"""


@pytest.mark.slow
def test_that_an_engine_that_cannot_start_names_the_limit():
    _, said = ended(ENGINE, {resource.RLIMIT_AS: 400 * MIB})
    assert "ulimit -v" in said
    assert said.rstrip().endswith("False")


MEMINFO = "MemTotal:  8000 kB\nMemAvailable:  {} kB\nSwapFree: 1000 kB\n"


def machine(folder, available_kb, group="0::/a/b"):
    """Write what Linux says about memory into a folder, and return that."""
    (folder / "proc" / "self").mkdir(parents=True)
    (folder / "proc" / "meminfo").write_text(MEMINFO.format(available_kb))
    (folder / "proc" / "self" / "cgroup").write_text(group + "\n")
    return folder


def write_group(folder, *, limit, use, cached, version=2):
    """Write a control group with its limit, use and file cache [bytes]."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.max", "memory.current", "inactive_file")
    if version == 1:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{use}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {cached}\n")


def test_that_free_memory_is_what_the_machine_and_its_groups_leave(tmp_path):
    root = machine(tmp_path, 4000)
    assert free_memory(root) == 5000 << 10
    groups = root / "sys" / "fs" / "cgroup"
    write_group(groups / "a" / "b", limit="max", use=10, cached=5)
    assert free_memory(root) == 5000 << 10
    write_group(groups / "a", limit=3000, use=1200, cached=200)
    assert free_memory(root) == 2000
    write_group(groups / "a" / "b", limit=500, use=1200, cached=200)
    assert free_memory(root) == 0


def test_that_groups_of_the_first_version_limit_free_memory_too(tmp_path):
    root = machine(tmp_path, 4000, "4:cpu:/x\n3:hugetlb,memory:/job")
    write_group(root / "sys" / "fs" / "cgroup" / "memory" / "job", limit=900, use=300, cached=50, version=1)
    assert free_memory(root) == 650


def test_that_free_memory_is_unknown_where_the_system_does_not_say_it(tmp_path):
    assert free_memory(tmp_path) is None
