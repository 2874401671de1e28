"""Tests of threads that take turns with the window's."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from ui.state import background
from ui.state.background import give_way, window_first


def test_that_a_thread_beside_the_window_waits_while_the_window_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "PATIENCE_S", 60.0)
    came_through, begun = Event(), Event()

    def work() -> None:
        begun.set()
        give_way()
        came_through.set()

    with window_first():
        thread = Thread(target=work)
        thread.start()
        begun.wait()
        assert not came_through.wait(0.01)
    assert came_through.wait(5)
    thread.join()
