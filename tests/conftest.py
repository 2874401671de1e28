"""What every test gets: folders of its own, and a harness that forgives no left-over."""

from __future__ import annotations

import faulthandler
import gc
import itertools
import os
import time
from pathlib import Path

import hypothesis
import pytest
from pytestqt.qtbot import QtBot

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
# Networks here are small: a second thread costs more than it gives. Engines inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")


# How long a test waits for the window before it fails [ms]: a busy machine is no failure.
PATIENCE_MS = 20_000
# How long a test may take before its stacks are printed, and ``.ci/test`` ends [s].
HANG_S, STARTED_AGAIN_S = 300, 10
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("quick", hypothesis.settings.get_profile("patient"), max_examples=25)


def pytest_addoption(parser, pluginmanager):
    """Take the settings of pytest-qt where it is left out, which spares PySide6's import hook."""
    if not pluginmanager.has_plugin("pytest-qt"):
        for name in ("qt_api", "qt_log_level_fail"):
            parser.addini(name, "A setting of pytest-qt.")


def pytest_configure(config):
    """Say nothing of what the offscreen platform of Qt cannot do and need not; be patient."""
    skips_slow = "not slow" in config.option.markexpr
    hypothesis.settings.load_profile("quick" if skips_slow else "patient")
    if config.pluginmanager.has_plugin("pytest-qt"):
        config.addinivalue_line("qt_log_ignore", "This plugin does not support ")
    for wait in (QtBot.waitUntil, QtBot.waitSignal):
        wait.__kwdefaults__["timeout"] = PATIENCE_MS
    add = QtBot.addWidget

    def keep(bot, widget, **options):
        _KEPT.append(widget)
        add(bot, widget, **options)

    QtBot.addWidget = keep

    _WATCH["stderr"] = os.dup(2)


_WATCH = {"started": float("-inf")}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    """Watch for a test that hangs, as ``faulthandler_timeout`` does, which starts a thread a test.

    This watch starts again with a test only after a while.
    """
    if time.monotonic() > _WATCH["started"] + STARTED_AGAIN_S:
        _WATCH["started"] = time.monotonic()
        ends = item.config.getini("faulthandler_exit_on_timeout")
        faulthandler.dump_traceback_later(HANG_S, file=_WATCH["stderr"], exit=ends)


def pytest_exception_interact():
    """Start the watch again with the next test: pytest ends it when a test fails."""
    _WATCH["started"] = float("-inf")


def pytest_sessionfinish():
    """End the watch with the last test."""
    faulthandler.cancel_dump_traceback_later()


def pytest_collection_modifyitems(items):
    """Look for what a test with a window leaves behind, around all of its other fixtures."""
    for item in items:
        if "qtbot" in getattr(item, "fixturenames", ()):
            item.fixturenames.insert(0, "no_dangling_qt")


def pytest_collection_finish():
    """Let the collector ignore what is there before the tests, as the window does after its start.

    What one test leaves behind is a small part of the imported modules and of the tests.
    """
    gc.collect()
    gc.freeze()


_NUMBERS = itertools.count()
# Widgets of the running test. A plot without a reference is collected, at worst while it is
# painted, which ends the process.
_KEPT = []


@pytest.fixture(autouse=True)
def own_folders(request, tmp_path_factory):
    """Keep the developer's own cache, trust and settings out of every test.

    Most tests write nothing there: a test without a folder gets names, and no folder.
    """
    if "tmp_path" in request.fixturenames:
        own = f"{request.getfixturevalue('tmp_path')}/own"
    else:
        own = f"{tmp_path_factory.getbasetemp()}/own-{next(_NUMBERS)}"
    os.environ["QUANTIZATION_WORKBENCH_CACHE"] = f"{own}/cache"
    os.environ["QUANTIZATION_WORKBENCH_CONFIG"] = f"{own}/config"


@pytest.fixture(scope="session", autouse=True)
def no_syncs():
    """Let files of tests stay in memory: no power is lost, and disks are slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def simulator_memo(tmp_path_factory):
    """Let the double of a simulator compute outputs of the same program and inputs once."""
    os.environ["FVP_DOUBLE_MEMO"] = str(tmp_path_factory.mktemp("double"))
    yield
    del os.environ["FVP_DOUBLE_MEMO"]


class ExpectedNotices:
    """Notices a test has looked at; what it has not looked at fails it."""

    def __init__(self):
        self.posted = []

    def take(self, part):
        """Return the notice that says ``part``, and forgive it."""
        for notice in self.posted:
            if part in notice.text or part in notice.hint:
                self.posted.remove(notice)
                return notice
        said = [notice.text for notice in self.posted]
        raise AssertionError(f"nobody said {part!r}, but {said}")

    def says(self, part):
        """Return whether a notice that is still unlooked at says ``part``."""
        return any(part in notice.text or part in notice.hint for notice in self.posted)


@pytest.fixture
def notices():
    """Collect notices of the workbench; warnings, errors and questions left over fail the test."""
    expected = ExpectedNotices()
    yield expected
    left = [n.text for n in expected.posted if n.level in {"warning", "error", "question"}]
    assert not left, f"unexpected notices: {left}"


@pytest.fixture
def no_dangling_qt(qtbot):
    """Fail a test with a window that leaves a thread or a top-level widget behind."""
    del qtbot
    from PySide6.QtCore import QCoreApplication, QEvent, QThread
    from PySide6.QtWidgets import QApplication

    started = []
    begin = QThread.start

    def start(thread, *arguments):
        started.append(thread)
        begin(thread, *arguments)

    QThread.start = start
    yield
    QThread.start = begin
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    running = [type(t).__name__ for t in started if _is_running(t)]
    assert not running, f"threads still running: {running}"
    windows = QApplication.topLevelWidgets()
    shown = [repr(w) for w in windows if w.isVisible()]
    # Plots have menus without a parent; each that stays makes every later test slower.
    for window in windows:
        window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    _KEPT.clear()
    assert not shown, f"windows still open: {shown}"


def _is_running(thread):
    import shiboken6

    return shiboken6.isValid(thread) and thread.isRunning()


@pytest.fixture
def project_file(tmp_path):
    """A project on disk whose model is a plain program: no code, no trust."""
    from tests.fakes.projects import write_project

    return write_project(tmp_path / "mine")


@pytest.fixture
def engines():
    """A factory of fake engines that finish whatever they are asked."""
    from tests.fakes.engine import FakeEngines

    return FakeEngines()


@pytest.fixture
def workbench(qtbot, qapp, engines, notices):
    """The whole window over fake engines, closed in order at the end."""
    from ui.shell.app import Workbench
    from ui.shell.start import show_frame

    qapp.setQuitOnLastWindowClosed(False)
    made = Workbench(qapp, show_frame(qapp, None), engines)
    made.settings.warm_engines = False
    made.settings.lower_ahead = False
    made.window.actions_by_id["live"].setChecked(False)
    made.notices.posted.connect(notices.posted.append)
    made.start(None)
    # Of the screen of 800 x 800 the panels would be stacked.
    made.window.resize(1040, 800)
    qtbot.waitExposed(made.window)
    yield made
    made.stop()
    made.window.deleteLater()
    made.deleteLater()


@pytest.fixture
def opened(workbench, project_file, qtbot):
    """The window with the project open and planned."""
    workbench.files.open_path(project_file)
    qtbot.waitUntil(lambda: workbench.session.planned)
    return workbench


SESSIONS = sorted((Path(__file__).parent / "data" / "sessions").glob("*.jsonl"))
