"""A tool that is asked for its version may flood, hang or leave a child: the answer is bounded."""

import sys

import pytest

from tests.workbench.test_process_guard import ended
from workbench.tool_output import tool_output

FLOOD = "import sys\nwhile True: sys.stdout.write('1.2.3 ' * 1000)"
DEAF = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
print("1.2.3", child.pid, flush=True)
time.sleep(600)
"""
LEFT = DEAF.replace("time.sleep(600)", "sys.exit(3)")


def ask(code, timeout_s=20.0):
    return tool_output([sys.executable, "-c", code], timeout_s)


def test_that_the_output_and_the_exit_code_are_returned():
    output = ask("print('1.2.3'); raise SystemExit(2)")
    assert (output.text.strip(), output.code) == ("1.2.3", 2)


def test_that_a_flood_is_cut():
    output = ask(FLOOD)
    assert output.text.startswith("1.2.3 1.2.3")
    assert len(output.text) < 100_000
    assert output.code is None


@pytest.mark.parametrize("code", [DEAF, LEFT], ids=["deaf", "left a child"])
def test_that_a_tool_that_does_not_end_is_ended_with_its_child(code):
    output = ask(code, 2.0)
    version, child = output.text.split()
    assert (version, output.code) == ("1.2.3", None)
    assert ended(int(child))


def test_that_a_tool_that_is_missing_is_an_error_of_the_system():
    with pytest.raises(FileNotFoundError):
        tool_output(["/no/such/tool"], 1.0)
