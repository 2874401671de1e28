"""How full a memory is, against counting every byte."""

from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis.memory import fullest_step, taken_at
from workbench.results import LiveRange

TENSORS = st.lists(
    st.builds(
        lambda start, length, address, size: LiveRange(
            name="t", module="", memory="Sram", usage="OpLocal",
            start=start, end=start + length, address=address, bytes=size,
        ),
        st.integers(0, 9), st.integers(0, 4), st.integers(0, 30), st.integers(1, 12),
    ),
    max_size=12,
)  # fmt: skip


def counted(tensors, step):
    there = [t for t in tensors if t.start <= step <= t.end]
    return len({byte for t in there for byte in range(t.address, t.address + t.bytes)})


@given(TENSORS, st.integers(0, 14))
def test_that_shared_bytes_count_once(tensors, step):
    assert taken_at(tensors, step) == counted(tensors, step)


@given(TENSORS)
def test_that_the_fullest_step_is_the_first_with_most(tensors):
    steps = range(15)
    most = max(counted(tensors, step) for step in steps)
    first = next(step for step in steps if counted(tensors, step) == most)
    assert fullest_step(tensors) == first
