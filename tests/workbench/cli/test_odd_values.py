"""Odd values of every verb: a sentence each, never a traceback."""

import json

import pytest

from tests.for_each import for_each
from workbench.cli import main
from workbench.project.model import PROJECT_VERSION

LONG, NUL, LONE = "x" * 300, "a\0b", "a\udc80b"
ODD_PATHS = (LONG, f"{LONG}.qwb", NUL, "", ".", "/", "/dev/zero", "no/such/file.qwb")
VERBS_OF_PROJECTS = (
    ["check"],
    ["rules"],
    ["runs"],
    ["ranges"],
    ["plugins"],
    ["settings"],
    ["improve"],
    ["report", "--out", "x.html"],
    ["script", "--out", "x.py"],
    ["run"],
    ["blame"],
)


@pytest.fixture(autouse=True)
def nothing_unforeseen(monkeypatch):
    """Fail where only the last net catches an exception."""

    def unforeseen(error):
        raise error

    monkeypatch.setattr("workbench.cli._unforeseen", unforeseen)


def attempt(arguments, capsys):
    """Return the exit code of a verb; fails on a traceback."""
    try:
        code = main(arguments)
    except SystemExit as ended:
        code = int(ended.code or 0)
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err
    return code


@pytest.mark.parametrize("verb", VERBS_OF_PROJECTS, ids=lambda verb: verb[0])
def test_that_an_odd_path_of_a_project_is_a_sentence(verb, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ODD_PATHS:
        assert attempt([verb[0], path, *verb[1:]], capsys) not in {0, 1}, path


ODD_FIELDS = (
    {"target": {"id": "ethos-u55-128", "options": {"system_config": {}}}},
    {"target": {"id": "ethos-u55-128", "options": {"system_config": LONG}}},
    {"target": {"id": "", "options": {}}},
    {"target": {"id": LONG}},
    {"model": {"spec": LONG + ".pt2"}},
    {"model": {"spec": f"{LONG}.py:net"}},
    {"model": {"spec": "a\0b.pt2"}},
    {"model": {"spec": "../../../x.pt2"}},
    {"model": {"spec": "net.pt2", "input_shapes": [[10**9, 10**9]]}},
    {"model": {"spec": "net.pt2", "weights": "/dev/zero"}},
    {"model": {"spec": "net.pt2", "weights": LONG}},
    {"calibration": {"spec": "/"}},
    {"calibration": {"spec": LONG + ".npz"}},
    {"calibration": {"spec": "x.npz", "limit": -1}},
    {"verification": {"samples": 2**63}},
    {"board": LONG},
    {"board": "../x.toml"},
    {"rules": [{"id": "r", "kind": "global", "config": ""}]},
    {"rules": [{"id": "r", "kind": "module_name", "match": LONG * 10, "config": "a8w8"}]},
    {"name": LONG},
    {"name": "\u202e"},
    {"plugins": [LONG + ".py"]},
    {"notes": "\x1b[2J"},
)


@for_each("number", range(len(ODD_FIELDS)))
def test_that_an_odd_field_of_a_project_is_a_sentence(number, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = {
        "version": PROJECT_VERSION,
        "name": "net",
        "model": {"spec": "net.pt2"},
        "target": {"id": "ethos-u55-128"},
    }
    (tmp_path / "net.qwb").write_text(json.dumps({**base, **ODD_FIELDS[number]}))
    for verb in (["check"], ["rules"], ["settings"], ["report", "--out", "r.html"], ["ranges"]):
        attempt([verb[0], "net.qwb", *verb[1:]], capsys)


@for_each(
    "text", ["1" * 5000, '{"version": ' + "1" * 5000 + "}", "[" * 100_000, '{"name": "\\ud800"}', "\xff"]
)
def test_that_an_odd_file_is_a_sentence(text, tmp_path, capsys):
    path = tmp_path / "net.qwb"
    path.write_text(text, encoding="latin-1")
    assert attempt(["check", str(path)], capsys) == 2


@for_each("name", ["a.pte", "a.bpte", "a.tflite"])
def test_that_an_odd_program_is_a_sentence(name, tmp_path, capsys):
    for data in (b"", b"\0" * 64, b"ET12" * 20, b"\x08\0\0\0ET12" + b"\xff" * 60):
        (tmp_path / name).write_bytes(data)
        assert attempt(["inspect", str(tmp_path / name)], capsys) != 0
    for path in ODD_PATHS:
        assert attempt(["inspect", path], capsys) != 0


def test_that_names_that_are_too_long_are_sentences_wherever_a_file_is_named(capsys, tmp_path):
    place, model = str(tmp_path), ["--model", "net.py:net", "--target", "ethos-u55-128"]
    for arguments in (
        ["new", f"{place}/{LONG}.qwb", *model],
        ["new", f"{place}/{LONG}/net.qwb", *model],
        ["new", f"{place}/net.qwb", "--model", f"{LONG}.pt2", "--target", "ethos-u55-128"],
        ["compare", LONG, LONG],
        ["simulate", f"{LONG}.pte"],
        ["inspect", f"{LONG}.pte"],
        ["fvp", "set", "--simulator", LONG],
        ["boards", LONG],
    ):
        assert attempt(arguments, capsys) not in {0}, arguments
