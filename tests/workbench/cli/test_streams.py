"""The streams of the command line: filtered, and safe where they are closed, full or narrow."""

import io
import os
import stat
import subprocess
import sys

import pytest

from tests.for_each import for_each
from workbench import logs
from workbench.cli.output import print_json
from workbench.cli.streams import OutputError, Writer


def writer(descriptor, encoding="utf-8", *, is_result=True):
    stream = io.TextIOWrapper(os.fdopen(descriptor, "wb"), encoding=encoding)
    return Writer(stream, is_result=is_result)


@for_each(
    ("encoding", "text", "written"),
    [
        ("utf-8", "a\x1b[2Jb\x9bc\u202ed\n\té", "a\ufffd[2Jb\ufffdc\ufffdd\n\té".encode()),
        ("ascii", "naïve 日本", b"na\\xefve \\u65e5\\u672c"),
    ],
)
def test_that_text_is_filtered_and_fits_its_encoding(tmp_path, encoding, text, written):
    path = tmp_path / "out"
    with writer(os.open(path, os.O_WRONLY | os.O_CREAT), encoding) as out:
        out.write(text)
    assert path.read_bytes() == written


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a system without /dev/full")
def test_that_a_result_on_a_full_disk_is_an_error_and_a_message_is_dropped():
    out = writer(os.open("/dev/full", os.O_WRONLY))
    out.write("text")
    with pytest.raises(OutputError, match="No space left"):
        out.flush()
    messages = writer(os.open("/dev/full", os.O_WRONLY), is_result=False)
    messages.write("text")
    messages.flush()
    # Else both are written again when they are closed.
    for stream in (out, messages):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        stream.close()


def test_that_json_has_no_controls_of_a_terminal(capsys):
    print_json({"name": "a\x1b\x9b\u202eé"})
    text = capsys.readouterr().out
    assert text.isprintable() or all(c.isprintable() or c == "\n" for c in text)
    assert "é" in text
    assert "\\u009b" in text


def run(arguments, **options):
    """Run the command line with some streams replaced; return its code and what it wrote."""
    command = [sys.executable, "-P", "-m", "workbench", *arguments]
    done = subprocess.run(command, capture_output=True, check=False, **options)
    return done.returncode, done.stdout, done.stderr


def test_that_a_verb_in_a_folder_that_was_deleted_says_so(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    code, _, err = run(["check", "net.qwb"], preexec_fn=lambda: (os.chdir(gone), gone.rmdir()))
    assert code == 2
    assert b"current folder was deleted" in err
    assert b"Traceback" not in err


@pytest.mark.slow
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_that_a_verb_runs_with_closed_streams(tmp_path, closed):
    shell = " ".join(f"{n}{'<' if n == 0 else '>'}&-" for n in closed)
    command = f'exec "$0" -P -m workbench check "$1" {shell}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, tmp_path / "none.qwb"], check=False, capture_output=True
    )
    assert done.returncode == 2


def test_that_pipes_get_no_numbers_of_streams_that_were_closed():
    code = (
        "import os; from workbench import engine_start; from workbench.interpreter import *;"
        "open_closed_streams(); pipes = engine_start.engine_pipes(); os._exit(min(min(pipes.__enter__())))"
    )
    shell = f"exec {sys.executable} -P -c '{code}' <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", shell], check=False).returncode > 2


def test_that_a_name_that_is_no_text_is_refused(tmp_path):
    code, out, err = run(["check", os.fsencode(tmp_path) + b"/\xff.qwb", "--json"])
    assert code == 2
    assert b"surrogate" not in err
    assert out.startswith(b"{")


@for_each("kind", ["link", "pipe", "hard link"])
def test_that_a_log_is_no_link_and_no_pipe(tmp_path, kind):
    victim, path = tmp_path / "victim", tmp_path / "own.log"
    victim.write_text("kept")
    make = {
        "link": lambda: path.symlink_to(victim),
        "pipe": lambda: os.mkfifo(path),
        "hard link": lambda: path.hardlink_to(victim),
    }
    make[kind]()
    assert logs.configure("info", path) is None
    logs.log.info("text")
    assert victim.read_text() == "kept"


def test_that_a_crash_log_that_is_a_link_is_not_written(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / "crash.log").symlink_to(victim)
    assert logs.configure("info", tmp_path / "own.log") is not None
    assert victim.read_text() == "kept"
    assert stat.S_IMODE((tmp_path / "own.log").stat().st_mode) == 0o600


def test_that_the_log_holds_no_controls_of_a_terminal(tmp_path):
    path = logs.configure("info", tmp_path / "own.log")
    logs.log.info("a\x1b]0;owned\x07\x9bb")
    text = path.read_text(encoding="utf-8")
    assert "owned" in text
    assert "\x1b" not in text
    assert "\x9b" not in text
