"""Assertions on the codes of problems, which stay the same when a message is reworded."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from workbench.errors import WorkbenchError


@contextmanager
def refused(*codes: str) -> Iterator[pytest.ExceptionInfo[WorkbenchError]]:
    """Expect a ``WorkbenchError`` with exactly these codes, in order."""
    with pytest.raises(WorkbenchError) as caught:
        yield caught
    assert caught.value.codes == codes
