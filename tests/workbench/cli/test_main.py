"""What every verb has in common: its command line, the log, and how it ends."""

import json
import logging
import os
import re
import sys
from pathlib import Path

import pytest

from tests.for_each import for_each
from workbench.cli import installation, logs, main, output, parser

PLAIN_RUN = "fvp run x.pte --elf r.elf --target ethos-u55-128"


@for_each(
    "words",
    [
        "",
        "board",
        "formats",
        "fvp",
        "nnpa",
        "trust",
        "runs P --diff 1",
        "fvp run x.pte --target ethos-u55-128",
        "fvp run x.pte --elf r.elf",
        "script P",
        "report P",
        "ranges P choose --all",
        "ranges P choose --method mse",
        "rules P add --config a8w8",
        "rules P add --kind global",
        "rules P move r1",
        "sweep P --workers 0",
    ],
)
def test_that_a_command_line_without_what_it_needs_is_refused(codes, words):
    codes.clear()
    assert main(words.split()) == 2
    assert codes == ["usage-invalid"]


def parsed(words):
    return parser().read(words.split())


def test_that_options_have_the_defaults_that_their_help_tells():
    assert parsed(PLAIN_RUN).timeout == 600
    assert parsed("search P").workers == 1
    assert parsed("search P").train == 0
    assert parsed("sweep P").workers == os.cpu_count()
    assert parsed("sweep P --workers 3").workers == 3
    assert parsed("doctor").verbosity == 0


def test_that_one_process_is_used_where_the_number_of_processors_is_unknown(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert parser.__wrapped__().parse_args(["sweep", "P"]).workers == 1


@for_each(("text", "address"), [("0x70000000", 0x70000000), ("16", 16), ("0b11", 3)])
def test_that_an_address_is_written_in_any_base(text, address):
    assert parsed(f"{PLAIN_RUN} --address {text}").address == address


def test_that_limits_of_a_sweep_are_numbers_and_the_rest_names():
    options = parsed("sweep P --arena-cache 1024 --memory-modes 7 --optimise 8")
    assert (options.arena_cache_bytes, options.memory_mode) == ([1024], ["7"])
    assert options.optimise == ["8"]


def test_that_an_option_of_a_verb_may_begin_as_one_of_all_verbs_does():
    assert parsed("board run net.qwb --log uart.log").log == Path("uart.log")


def test_that_the_versions_of_the_program_and_its_tools_are_printed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert not ended.value.code
    first, *tools = capsys.readouterr().out.split("\n")
    assert re.fullmatch(r"workbench \S+", first)
    assert any(line.startswith("torch ") for line in tools)


def test_that_the_exit_codes_are_those_of_the_help():
    told = [int(number) for number in re.findall(r"(?:^|[:;,] |\n)(\d+) ", parser().epilog)]
    assert told == [
        output.EXIT_DONE,
        output.EXIT_FAILED,
        output.EXIT_USAGE,
        output.EXIT_TRUST,
        output.EXIT_DIFFERS,
        output.EXIT_CANCELLED,
    ]


def test_that_the_arguments_of_the_process_are_those_of_its_command_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["workbench", "trust", "list"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("place")


@for_each(("flags", "echo"), [([], ""), (["-v"], "info"), (["-vv"], "debug"), (["-v", "-vv"], "debug")])
def test_that_the_log_is_echoed_as_often_as_it_is_asked_for(monkeypatch, flags, echo):
    asked = []

    def configure(level, path, *, echo):
        asked.append((level, path, echo))

    monkeypatch.setattr(logs, "configure", configure)
    assert main([*flags, "trust", "list"]) == 0
    assert asked == [("info", None, echo)]


def test_that_the_log_is_named_where_a_verb_fails(tmp_path, capsys):
    log = tmp_path / "w.log"
    words = ["--log-file", str(log), "trust"]
    try:
        assert main([*words, "list"]) == 0
        assert "Log:" not in capsys.readouterr().err
        assert main([*words, "revoke", "/nowhere"]) == 2
        printed = capsys.readouterr()
        assert printed.err.endswith(f"Log: {log}\n")
        # The verb has no option --json.
        assert printed.out == ""
    finally:
        for handler in list(logging.getLogger("workbench").handlers):
            handler.close()
            logging.getLogger("workbench").removeHandler(handler)


def test_that_the_message_of_an_unforeseen_problem_is_cut(monkeypatch, capsys):
    def fail():
        raise ValueError("x" * 1000)

    monkeypatch.setattr(installation, "findings", fail)
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["message"] == "x" * 400


def test_that_an_unforeseen_error_of_the_system_names_the_file_and_no_number(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(installation, "findings", (tmp_path / "nowhere").read_text)
    assert main(["doctor", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["error"]
    assert told["code"] == "file-unusable"
    assert "nowhere" in told["message"]
    assert "Errno" not in told["message"]


def test_that_an_unknown_option_is_answered_with_the_usage_of_its_verb(capsys):
    assert main(["samples", "digits", "--copy", "there"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("usage: workbench samples ")
    assert "--copy there" in told
