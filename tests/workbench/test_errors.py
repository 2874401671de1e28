"""Wrong values are described in the words of the project file, wherever they come from."""

from __future__ import annotations

import errno
import json
import os
import tempfile

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from tests.for_each import for_each
from workbench import errors
from workbench.cli import main
from workbench.errors import ErrorInfo, Place, WorkbenchError, invalid_values, reason_of
from workbench.project import store

PROJECT = {"version": 9, "name": "net", "model": {"spec": "model.py:net"}, "target": {"id": "ethos-u55-128"}}
# Words of Python and of pydantic, which a person who edits a project file does not know.
FOREIGN = ("Input should", "dict", "tuple", "Value error", "Field required", "Extra inputs")


def problem(capsys, path, change):
    path.write_text(json.dumps(PROJECT | change))
    assert main(["check", str(path), "--json"]) == 2
    return json.loads(capsys.readouterr().out)["errors"]


@for_each(
    ("change", "field", "words"),
    [
        ({"rules": None}, "rules", "must be a list"),
        ({"rules": {}}, "rules", "must be a list"),
        ({"target": []}, "target", "must be an object"),
        ({"target": {"id": 5}}, "target.id", "5 must be text"),
        ({"gate": {"lsb": float("nan")}}, "gate.lsb", "must be"),
        ({"evaluation_samples": "many"}, "evaluation_samples", "no such field"),
        ({"rules": [{"kind": "modul"}]}, "rules[0].kind", "'modul' must be 'global',"),
    ],
)
def test_that_a_value_that_does_not_fit_is_named_in_plain_words(capsys, tmp_path, change, field, words):
    found = problem(capsys, tmp_path / "net.qwb", change)
    told = {p["where"]["id"]: p["message"] for p in found}
    assert words in told[field]
    assert {p["code"] for p in found} == {"project-field-invalid"}
    assert not [word for word in FOREIGN if any(word in message for message in told.values())]


def test_that_a_long_value_is_not_repeated(tmp_path):
    path = tmp_path / "net.qwb"
    path.write_text(json.dumps({"version": 9, "target": {"id": "x", "options": "y" * 5000}}))
    with pytest.raises(WorkbenchError) as raised:
        store.load(path)
    assert max(len(info.message) for info in raised.value.infos) < 100


def test_that_every_wrong_field_of_a_config_is_named(capsys, tmp_path):
    path = tmp_path / "net.qwb"
    path.write_text(json.dumps(PROJECT))
    config = '{"activation": {"dtype": 8}, "speed": 2}'
    arguments = ["add", "--kind", "global", "--config", config]
    assert main(["rules", str(path), "--json", *arguments]) == 2
    found = json.loads(capsys.readouterr().out)["errors"]
    assert {p["code"] for p in found} == {"config-invalid"}
    assert len(found) > 1
    assert not [word for word in FOREIGN if any(word in p["message"] for p in found)]


def test_that_a_problem_is_told_with_its_place_and_hint_and_does_not_change():
    place = Place(kind="option", id="x")
    assert str(ErrorInfo(message="No.", hint="Do.", where=place)) == "option x: No.\n  Do."
    assert str(ErrorInfo(message="No.")) == "No."
    for value, field in ((place, "id"), (ErrorInfo(message="No."), "message")):
        with pytest.raises(ValidationError):
            setattr(value, field, "other")


class _Asked(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def _is_short(cls, value):
        if len(value) > 3:
            raise ValueError("a name has three letters.")
        return value


@for_each(
    ("given", "field", "kind", "message"),
    [
        ({"name": "long"}, "name", "value_error", "A name has three letters."),
        ({}, "name", "missing", None),
        ({"name": "a", "b": 1}, "b", "extra_forbidden", None),
    ],
)
def test_that_the_words_of_a_check_become_a_sentence(given, field, kind, message):
    with pytest.raises(ValidationError) as caught:
        _Asked.model_validate(given, extra="forbid")
    (found,) = invalid_values(caught.value)
    assert (found.field, found.kind) == (field, kind)
    assert found.message == message or message is None
    assert found.message.endswith(".")


def test_that_no_line_of_a_name_looks_like_a_message():
    place = Place(kind="file", id="a\nerror: Remove it.")
    text = str(ErrorInfo(message="b\nerror: Send it.", hint="Do.\nNow.", where=place))
    assert [line[:2] for line in text.splitlines()[1:]] == ["  "] * 4


def test_that_a_number_of_too_many_digits_has_no_remedy_for_programmers():
    with pytest.raises(ValueError, match="digits") as caught:
        json.loads("9" * 5000)
    assert "digits" in reason_of(caught.value)
    assert "sys" not in reason_of(caught.value)


@for_each("number", errors.SYSTEM_REMEDIES)
def test_that_a_file_that_the_system_does_not_take_is_named_with_what_helps(number, tmp_path):
    refused = OSError(number, os.strerror(number))
    info = errors.not_written(tmp_path / "a.bin", refused, "Choose another folder.").infos[0]
    if isinstance(refused, BlockingIOError):
        assert "process" in info.hint
    else:
        assert info.hint == errors.SYSTEM_REMEDIES[number]
    assert info.where.id == str(tmp_path / "a.bin")
    assert "Errno" not in str(info)
    other = errors.not_written(tmp_path, PermissionError(errno.EACCES, "no"), "Choose another folder.")
    assert other.infos[0].hint == "Choose another folder."


def test_that_no_folder_for_temporary_files_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "missing")])
    with pytest.raises(FileNotFoundError) as caught:
        tempfile.gettempdir()
    assert errors.refused_by_system(caught.value).code == "temporary-folder-missing"
    assert errors.refused_by_system(FileNotFoundError(errno.ENOENT, "No such file", "a")) is None
