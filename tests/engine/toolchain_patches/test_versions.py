"""Versions that nothing is proven for are told wherever somebody looks."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from workbench import disk_cache, doctor, toolchain_versions
from workbench.api.summary import summary
from workbench.project.opened import OpenProject
from workbench.protocol import LogLine, Shutdown, decode_event, encode_command
from workbench.toolchain_versions import status

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engine

NEWER = {"python": "3.13", "torch": "2.13.0", "torchao": "0.18.0", "executorch": "1.5.1"}


@pytest.fixture
def newer_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(toolchain_versions, "versions", lambda: NEWER)


def warnings_of_a_start() -> list[str]:
    from workbench.engine.jobs.server import Server

    commands, write = os.pipe()
    read, events = os.pipe()
    os.write(write, encode_command(Shutdown()))
    os.close(write)
    Server(commands, events, time.monotonic()).serve()
    os.close(events)
    with os.fdopen(read, "rb") as lines:
        found = [decode_event(line) for line in lines]
    return [e.text for e in found if isinstance(e, LogLine) and e.level == "warning"]


@pytest.mark.usefixtures("newer_python")
def test_that_an_engine_tells_once_at_its_start_that_nothing_is_proven() -> None:
    (line,) = warnings_of_a_start()
    assert "python 3.13" in line


def test_that_an_engine_with_proven_versions_has_nothing_to_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "folder", lambda: tmp_path)
    monkeypatch.setattr(toolchain_versions, "versions", lambda: toolchain_versions.PROVEN[0])
    assert warnings_of_a_start() == []


@pytest.mark.usefixtures("newer_python")
def test_that_the_doctor_finds_it() -> None:
    (found,) = [each for each in doctor.findings() if each.name == "acceleration"]
    assert found.state == "different"
    assert "python 3.13" in found.why
    assert toolchain_versions.PROVE in found.remedy


@pytest.mark.usefixtures("newer_python")
def test_that_a_run_reports_it(tmp_path: Path) -> None:
    from tests.fakes.projects import make_project

    document = summary(OpenProject(make_project(), tmp_path), [], {}, None)
    assert document["acceleration"]["active"] is False
    assert "python 3.13" in document["acceleration"]["reason"]


def test_that_a_run_reports_accelerations_that_are_on_or_turned_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "folder", lambda: tmp_path)
    monkeypatch.setattr(toolchain_versions, "versions", lambda: toolchain_versions.PROVEN[0])
    assert status().model_dump() == {"active": True, "reason": ""}
    off = status(is_enabled=False)
    assert not off.active
    assert "--no-acceleration" in off.reason
