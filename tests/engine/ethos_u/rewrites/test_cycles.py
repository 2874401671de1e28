"""The estimates of rewritten operations, before and after."""

import pytest

from tests.engine.in_process import project
from workbench.targets.ethos_u.rewrites import STRIDES

pytestmark = pytest.mark.engine


def test_that_a_rewrite_states_the_cycles_of_what_it_replaced(engine):
    rows = {row.id: row for row in engine.lowered(project("strided", target="ethos-u85-256")).rewrites}
    assert rows[STRIDES].cycles_before > rows[STRIDES].cycles_after > 0
