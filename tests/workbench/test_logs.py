"""The log file, and what of an engine's events is written to it."""

import stat

import pytest

from workbench import logs
from workbench.errors import ErrorInfo
from workbench.protocol import (
    EngineExit,
    JobFinished,
    LogLine,
    Ready,
    StageFailed,
    StageFinished,
    StageSkipped,
)


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """Configure the log for one test; the handlers of before come back."""
    kept, level, propagate = logs.log.handlers[:], logs.log.level, logs.log.propagate
    logs.log.handlers = []
    enabled = []
    monkeypatch.setattr(logs.faulthandler, "enable", enabled.append)

    def configure(level="info", file=tmp_path / "logs" / "a.log", **more):
        return logs.configure(level, file, **more)

    yield configure
    for handler in logs.log.handlers:
        handler.close()
    logs.log.handlers, logs.log.propagate = kept, propagate
    logs.log.setLevel(level)


def test_that_the_file_is_the_variables_or_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv(logs.LOG_VARIABLE, str(tmp_path / "mine.log"))
    assert logs.log_file() == tmp_path / "mine.log"
    monkeypatch.delenv(logs.LOG_VARIABLE)
    assert logs.log_file().name == "workbench.log"
    assert "quantization-workbench" in str(logs.log_file())


def test_that_lines_from_a_level_on_are_written(configured, tmp_path, capsys):
    path = configured("warning")
    assert path == tmp_path / "logs" / "a.log"
    logs.log.info("quiet")
    logs.log.warning("loud")
    text = path.read_text()
    assert "loud" in text
    assert "quiet" not in text
    assert "WARNING" in text
    assert capsys.readouterr().err == ""
    assert (tmp_path / "logs" / "crash.log").exists()
    assert (tmp_path / "logs").stat().st_mode & 0o777 == 0o700


def test_that_the_folders_of_the_log_are_made_and_it_is_opened_again(configured, tmp_path):
    path = tmp_path / "a" / "b" / "w.log"
    for _ in range(2):
        assert configured(file=path) == path
    (handler,) = logs.log.handlers
    # Files of some megabytes, of which several are kept.
    assert 1 << 20 <= handler.maxBytes <= 1 << 24
    assert handler.backupCount > 0


def test_that_lines_are_also_printed_when_asked(configured, capsys, monkeypatch):
    configured("error", echo="info")
    logs.log.info("said")
    logs.log.debug("not said")
    assert capsys.readouterr().err == "INFO workbench: said\n"
    configured("error")
    assert len(logs.log.handlers) == 1


def test_that_the_file_is_rotated(configured, monkeypatch):
    monkeypatch.setattr(logs, "_BYTES", 200)
    path = configured()
    for number in range(20):
        logs.log.info("line %d", number)
    names = sorted(file.name for file in path.parent.glob("a.log*"))
    assert names == ["a.log", "a.log.1", "a.log.2", "a.log.3"]
    assert "line 19" in path.read_text()
    (handler,) = logs.log.handlers
    assert handler.backupCount == 3


def test_that_a_log_is_two_mebibytes_at_most(configured):
    configured()
    (handler,) = logs.log.handlers
    assert handler.maxBytes == 2 * 1024 * 1024


def test_that_a_folder_that_cannot_be_written_is_no_harm(configured, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert configured(file=tmp_path / "file" / "a.log") is None
    logs.log.error("nobody hears")
    assert capsys.readouterr().err == ""
    assert not logs.log.propagate


def test_that_events_are_written_with_job_and_stage(configured):
    path = configured("debug")
    info = ErrorInfo(message="It broke.", code="broke", details="line 1")
    for event in (
        Ready(pid=1, start_s=0.0),
        StageFinished(job="j", stage="export", key="k", cached=True, elapsed_s=0.25),
        StageFinished(job="j", stage="prepare", key="k", cached=False, elapsed_s=1.5),
        StageSkipped(job="j", stage="verify", reason="as asked"),
        StageFailed(job="j", stage="lower", key="k", elapsed_s=1.0, infos=(info,)),
        LogLine(level="warning", text="careful", stage="lower"),
        JobFinished(job="j", outcome="failed", elapsed_s=2.0),
        EngineExit(expected=True, sentence="Stopped."),
        EngineExit(expected=False, sentence="Killed."),
    ):
        logs.log_event(event)
    lines = [line.split("workbench: ", 1) for line in path.read_text().splitlines()]
    told = [(parts[0].split()[2], parts[1]) for parts in lines if len(parts) == 2]
    assert told == [
        ("INFO", "j export: cached in 0.25 s"),
        ("INFO", "j prepare: done in 1.50 s"),
        ("INFO", "j verify: skipped: as asked"),
        ("ERROR", "j lower failed: It broke."),
        ("WARNING", "careful"),
        ("INFO", "j failed in 2.00 s"),
        ("INFO", "Stopped."),
        ("ERROR", "Killed."),
    ]
    assert ["line 1"] in lines


def test_that_what_is_written_of_crashes_is_for_the_user_alone(configured, tmp_path):
    configured()
    files = sorted((tmp_path / "logs").iterdir())
    assert len(files) == 2
    (crashes,) = [path for path in files if path.name != "a.log"]
    assert stat.S_IMODE(crashes.stat().st_mode) == 0o600
