"""Words that sentences are made of."""

from tests.for_each import for_each
from workbench.text import listed, plural


@for_each(("number", "said"), [(0, "0 samples"), (1, "1 sample"), (2000, "2,000 samples")])
def test_that_a_number_and_its_noun_agree(number, said):
    assert plural(number, "sample") == said


def test_that_a_long_row_of_names_ends_in_how_many_more_there_are():
    assert listed(["a", "b", "a"]) == "a, b"
    assert listed([str(n) for n in range(6)]) == "0, 1, 2, 3 and 2 more"
