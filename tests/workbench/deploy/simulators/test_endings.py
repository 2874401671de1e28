"""Whether a start of a simulator completed its work."""

from tests.for_each import for_each
from workbench.deploy.simulators.log_parser import UartReader
from workbench.deploy.simulators.process import Ending
from workbench.deploy.simulators.run import ended_well


def reader(*, completed=False, served=0, model_ok=None):
    uart = UartReader()
    uart.completed, uart.served, uart.model_ok = completed, served, model_ok
    return uart


@for_each(
    ("ending", "uart", "serve", "well"),
    [
        (Ending("served"), reader(), True, True),
        (Ending("itself", 0), reader(completed=True), False, True),
        (Ending("itself", 0), reader(), False, False),
        (Ending("itself", 1), reader(completed=True), False, False),
        (Ending("timeout", 0), reader(completed=True), False, False),
        (Ending("itself", 0), reader(served=1), True, True),
        (Ending("itself", 0), reader(served=1), False, False),
        (Ending("itself", 0), reader(), True, False),
        (Ending("itself", 0), reader(completed=True, model_ok=True), False, True),
        (Ending("itself", 0), reader(completed=True, model_ok=False), False, False),
    ],
)
def test_that_a_run_is_complete_if_it_ended_by_itself_with_its_work_done(ending, uart, serve, well):
    assert ended_well(ending, uart, serve=serve) is well
