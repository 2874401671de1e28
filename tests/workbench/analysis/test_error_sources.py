"""Where the error comes from."""

from workbench.analysis.error_sources import error_path, largest_sources
from workbench.graph.snapshot import Edge, GraphSnapshot, Node
from workbench.results import TensorQuality


def graph(*edges):
    """Return a graph of edges such as "a>b"; "out" is its output."""
    pairs = [edge.split(">") for edge in edges]
    names = dict.fromkeys(name for pair in pairs for name in pair)
    nodes = tuple(Node(n, n, "output" if n == "out" else "call") for n in names)
    return GraphSnapshot("float", nodes, tuple(Edge(a, b) for a, b in pairs), ())


def tensors(**sqnr):
    return tuple(
        TensorQuality(
            tensor=f"{n}_here", origin=n, module="", op="", sqnr_db=db, cosine=None, max_abs_error=None
        )
        for n, db in sqnr.items()
    )


def path(found_in, known):
    return [known[index].origin for index in error_path(found_in, known)]


def test_that_it_goes_over_the_worse_input_and_what_has_no_figure():
    net = graph("x>a", "a>view", "view>b", "x>c", "b>add", "c>add", "add>out")
    assert path(net, tensors(x=50, a=30, b=25, c=40, add=24)) == ["x", "a", "b", "add"]
    assert path(net, tensors(x=50, a=30, b=45, c=20, add=19)) == ["x", "c", "add"]


def test_that_a_skip_that_is_worse_leads_past_the_main_path():
    net = graph("x>a", "a>b", "b>add", "a>add", "add>out")
    assert path(net, tensors(x=60, a=20, b=35, add=22)) == ["x", "a", "add"]
    # What was passed on another way is still found on this one.
    assert path(net, tensors(x=60, a=40, b=20, add=22)) == ["x", "a", "b", "add"]


def test_that_the_worst_output_is_taken_and_equal_tensors_are_the_best():
    net = graph("x>a", "x>b", "a>out", "b>out")
    assert path(net, tensors(x=None, a=30, b=10)) == ["x", "b"]
    assert path(net, ()) == []


def test_that_the_largest_sources_come_first_and_small_ones_are_left_out():
    shares = {"a": 0.2, "b": None, "c": 0.7, "d": 0.05}
    known = tensors(**dict.fromkeys(shares, 30))
    known = [t.model_copy(update={"added_share": shares[t.origin]}) for t in known]
    assert [t.origin for t in largest_sources(known)] == ["c", "a"]
