"""How full a memory is, against counting every byte."""

from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis.memory import fullest_step, taken_at
from workbench.results import LiveRange

TENSORS = st.lists(
    st.builds(
        lambda start, length, address, size: LiveRange(
            name="t",
            module="",
            memory="Sram",
            usage="OpLocal",
            start=start,
            end=start + length,
            address=address,
            bytes=size,
        ),
        st.integers(0, 9),
        st.integers(0, 4),
        st.integers(0, 30),
        st.integers(1, 12),
    ),
    max_size=12,
)


def counted(tensors, step):
    there = [t for t in tensors if t.start <= step <= t.end]
    return len({byte for t in there for byte in range(t.address, t.address + t.bytes)})


@given(TENSORS, st.integers(0, 14))
def test_that_shared_bytes_count_once(tensors, step):
    assert taken_at(tensors, step) == counted(tensors, step)


def live(start, end, address, size):
    return LiveRange(
        name="t", module="", memory="Sram", usage="OpLocal", start=start, end=end, address=address, bytes=size
    )


def test_that_bytes_inside_of_others_count_once():
    tensors = [live(0, 0, 0, 10), live(0, 0, 2, 3), live(0, 0, 9, 4), live(0, 0, 20, 1)]
    assert taken_at(tensors, 0) == 14


def test_that_the_last_step_may_be_the_fullest():
    assert fullest_step([live(3, 3, 0, 5)]) == 3
    assert fullest_step([live(0, 1, 0, 4), live(2, 2, 0, 5)]) == 2
    assert fullest_step([]) == 0


def test_that_shared_bytes_do_not_make_a_later_step_the_fullest():
    # Ten bytes at step 2, and at step 5 twelve of which two are shared.
    assert fullest_step([live(5, 5, 0, 6), live(5, 5, 4, 6), live(2, 2, 0, 10)]) == 2


@given(TENSORS)
def test_that_the_fullest_step_is_the_first_with_most(tensors):
    steps = range(15)
    most = max(counted(tensors, step) for step in steps)
    first = next(step for step in steps if counted(tensors, step) == most)
    assert fullest_step(tensors) == first
