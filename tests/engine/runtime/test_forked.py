"""Work in a copy of the engine: its value or its problem comes back, and no process is left."""

import errno
import os
import signal
import time

import pytest
import torch

from tests.engine.own_processes import children
from workbench.engine.runtime import forked
from workbench.engine.runtime.forked import Beside
from workbench.errors import Cancelled, WorkbenchError, failure

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("one_thread")]


def never():
    """The check of a job that nobody cancels."""


def test_that_the_value_of_a_copy_comes_back_and_no_process_is_left():
    before = set(children())
    with Beside(lambda: (os.getpid(), list(range(100_000))), never) as beside:
        pid, numbers = beside.result()
        assert beside.result()[0] == pid
    assert pid != os.getpid()
    assert numbers == list(range(100_000))
    assert set(children()) == before


def test_that_a_problem_in_a_copy_is_raised_with_its_code():
    def work():
        raise failure("It differs.", "Correct it.", code="form-differs")

    with Beside(work, never) as beside, pytest.raises(WorkbenchError) as raised:
        beside.result()
    assert raised.value.codes == ("form-differs",)


def test_that_the_engine_does_the_work_whose_copy_was_killed():
    own = os.getpid()

    def work():
        if os.getpid() != own:
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()

    with Beside(work, never) as beside:
        assert beside.result() == own


def test_that_an_error_of_the_system_in_a_copy_is_raised_here(tmp_path):
    with (
        Beside((tmp_path / "missing" / "file").read_bytes, never) as beside,
        pytest.raises(FileNotFoundError),
    ):
        beside.result()


def test_that_leaving_or_cancelling_ends_a_copy_that_still_works():
    before = set(children())
    with Beside(lambda: time.sleep(600), never):
        assert len(children()) == len(before) + 1
    assert set(children()) == before

    def cancelled():
        raise Cancelled

    with pytest.raises(Cancelled), Beside(lambda: time.sleep(600), cancelled) as beside:
        beside.result()
    assert set(children()) == before


def test_that_work_is_done_here_where_the_engine_may_not_be_copied():
    torch.set_num_threads(2)
    with Beside(os.getpid, never) as beside:
        assert beside.result() == os.getpid()


def test_that_work_is_done_here_where_the_system_refuses_a_copy(monkeypatch):
    def refused():
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(forked, "fork", refused)
    with Beside(os.getpid, never) as beside:
        assert beside.result() == os.getpid()
