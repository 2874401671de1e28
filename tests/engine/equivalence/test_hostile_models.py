"""Models that treat their process badly: each ends in an answer or a sentence, and in no wait."""

import os
import signal
import struct
import sys
import time

import pytest
import torch

from tests.for_each import for_each
from workbench.engine.loading.eager import EagerModel, example_request
from workbench.errors import WorkbenchError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="models have processes by fork")


class Waited(Exception):
    """The answer did not come."""


class Own(torch.Tensor):
    """A tensor class of the user's."""


class Wordless(Exception):
    """An error that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError


def written(data):
    """Write to whatever connection is open."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, data)
        except OSError:
            continue


def flooding(x):
    written(b"x" * 4096)
    return x


def claiming_a_huge_answer(x):
    written(struct.pack("<Q", 1 << 62))
    return x


def leaving_a_process(x):
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
    os._exit(3)


def closing_all(x):
    os.closerange(3, 256)
    return x


def closing_all_and_waiting(x):
    os.closerange(3, 256)
    time.sleep(60)
    return x


def exiting(x):
    sys.exit("enough")


def killing_itself(x):
    os.kill(os.getpid(), signal.SIGKILL)


def killing_its_server(x):
    os.kill(os.getppid(), signal.SIGKILL)
    return x


def endless(x):
    return endless(x)


def too_large(x):
    return x.expand(1 << 40, 2)


def wordless(x):
    raise Wordless


def interrupting(x):
    raise KeyboardInterrupt


def answered(model):
    deadline = time.monotonic() + 20

    def check_cancelled():
        if time.monotonic() > deadline:
            raise Waited

    eager = EagerModel(model, [])
    return eager.answer(example_request([torch.ones(2)]), check_cancelled)


BAD = [
    flooding,
    claiming_a_huge_answer,
    leaving_a_process,
    closing_all,
    closing_all_and_waiting,
    exiting,
    killing_itself,
    killing_its_server,
    endless,
    too_large,
    wordless,
    interrupting,
]


@for_each("model", BAD)
def test_that_a_model_that_harms_its_process_is_refused_in_a_sentence(model):
    with pytest.raises(WorkbenchError) as refused:
        answered(model)
    assert refused.value.codes == ("model-fails",)


@for_each(
    ("model", "reason"),
    [
        (leaving_a_process, "exit code 3"),
        (killing_itself, "SIGKILL"),
        (exiting, "SystemExit: enough"),
        (wordless, "Wordless"),
    ],
)
def test_that_the_sentence_says_how_the_process_ended(model, reason):
    with pytest.raises(WorkbenchError, match=reason):
        answered(model)


def test_that_a_model_may_ignore_all_signals():
    def ignoring(x):
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        return x

    assert answered(ignoring).outputs[0][0].equal(torch.ones(2))


def test_that_results_of_an_own_class_of_tensors_are_compared_as_tensors():
    answer = answered(lambda x: x.as_subclass(Own))
    assert type(answer.outputs[0][0]) is torch.Tensor
