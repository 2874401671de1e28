"""The command line on terminals, in pipes, and completed by shells."""

import contextlib
import os
import re
import select
import shutil
import subprocess
import sys

import pytest

from workbench.cli import main, output, parser

pty = pytest.importorskip("pty")
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def opened_terminal():
    """Return both ends of a new pseudo-terminal."""
    try:
        return pty.openpty()
    except OSError as error:
        pytest.skip(f"this system has no pseudo-terminals: {error}")


def on_terminal(width, *words, **variables):
    """Return what a verb writes on a terminal of this width."""
    import fcntl
    import struct
    import termios

    reader, terminal = opened_terminal()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "NO_COLOR"}}
    with subprocess.Popen(
        [sys.executable, "-m", "workbench", *words],
        stdout=terminal,
        stderr=terminal,
        stdin=terminal,
        env={**environment, "TERM": "xterm-256color", **variables},
    ) as process:
        os.close(terminal)
        written = b""
        while True:
            try:
                block = os.read(reader, 4096)
            except OSError:
                break
            if not block:
                break
            written += block
    os.close(reader)
    assert process.returncode in {0, 2}
    return written.decode().replace("\r\n", "\n")


def test_that_tables_fit_narrow_terminals_and_have_styles():
    text = on_terminal(40, "samples")
    assert STYLE.search(text)
    assert max(len(STYLE.sub("", line)) for line in text.splitlines()) <= 40
    assert "digits" in text


@pytest.mark.slow
def test_that_errors_have_a_colour_on_a_terminal_and_none_with_no_color():
    assert "\x1b[1;31merror:\x1b[0m" in on_terminal(80, "check", "none.qwb")
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        text = on_terminal(80, "check", "none.qwb", **variables)
        assert "\x1b" not in text
        assert text.startswith("error: ")


def test_that_a_pipe_gets_plain_text(capsys):
    assert main(["samples"]) == 0
    written = capsys.readouterr().out
    assert "\x1b" not in written
    assert "─" not in written


def test_that_the_help_lists_every_verb_once_under_a_task(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    text = parser().format_help()
    verbs = [name for _, listed in parser().tasks for name, _ in listed]
    assert len(verbs) == len(set(verbs))
    for name in verbs:
        assert len(re.findall(rf"^  {name} ", text, re.MULTILINE)) == 1
    assert max(map(len, text.split("\n\noptions:")[0].splitlines())) <= 60


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_that_the_completion_of_a_shell_has_verbs_and_options(capsys, shell):
    assert main(["completion", shell]) == 0
    written = capsys.readouterr().out
    for word in ("simulate", "overlays", "allow-differences"):
        assert word in written


def test_that_completion_leaves_the_help_as_it_was(capsys):
    helps = []
    for words in (["rules", "--help"], ["completion", "fish"], ["rules", "--help"]):
        with contextlib.suppress(SystemExit):
            main(words)
        helps.append(capsys.readouterr().out)
    assert helps[0] == helps[2]


def test_that_bash_completes_verbs_and_choices(capsys, tmp_path):
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "complete.sh"
    script.write_text(capsys.readouterr().out)
    asked = (
        f"source {script}; COMP_WORDS=(workbench script a.qwb --form re); COMP_CWORD=4; "
        "_shtab_workbench; echo ${COMPREPLY[@]}"
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["recipe"]


def fish_shows(words, line, script, folder):
    """Return what fish offers at the end of a line."""
    place = folder / "settings/fish/completions"
    place.mkdir(parents=True)
    (place / "workbench.fish").write_text(script)
    asked = ["fish", "-c", f"complete -C '{line}'"]
    environment = with_program(folder, XDG_CONFIG_HOME=str(folder / "settings"))
    done = subprocess.run(asked, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return [row.split("\t")[0] for row in done.stdout.splitlines()]


def zsh_shows(words, line, script, folder):
    """Return all that zsh writes after a line and two tabs, until it has written some words."""
    (folder / "_workbench").write_text(script)
    reader, terminal = opened_terminal()
    begin = f"PROMPT=; fpath=({folder} $fpath); autoload -U compinit; compinit -u -D; echo RE''ADY\n"
    with subprocess.Popen(
        ["zsh", "-f", "-i"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=folder,
        env=with_program(folder, TERM="dumb"),
        start_new_session=True,
    ) as shell:
        os.close(terminal)
        os.write(reader, begin.encode())
        read_until(reader, ["READY"])
        os.write(reader, f"{line}\t\t".encode())
        written = read_until(reader, words)
        shell.kill()
    os.close(reader)
    return written.split()


def with_program(folder, **variables):
    """Return this environment with a program ``workbench``, without which fish completes nothing."""
    program = folder / "bin/workbench"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", **variables}


def read_until(reader, words):
    """Return what a terminal shows until it has shown some words, or nothing for long."""
    written = ""
    while not set(words) <= set(written.split()) and select.select([reader], [], [], 10)[0]:
        written += os.read(reader, 65536).decode(errors="replace")
    return written


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("workbench ru", {"rules", "run", "runs"}),
        ("workbench rules a.qwb ", {"add", "remove", "take-mase"}),
        # Behind the file: shtab's own scripts offer nothing here.
        ("workbench rules a.qwb add --", {"--kind", "--match", "--config", "--position"}),
    ],
)
@pytest.mark.parametrize(("shell", "shows"), [("fish", fish_shows), ("zsh", zsh_shows)])
def test_that_a_shell_completes_actions_behind_a_file(capsys, tmp_path, shell, shows, line, words):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    assert words <= set(shows(words, line, capsys.readouterr().out, tmp_path))


def test_that_paths_are_relative_and_quoted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert output.shown_path(tmp_path / "my out") == "'my out'"
    assert output.shown_path(tmp_path.parent) == str(tmp_path.parent)
