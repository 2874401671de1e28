"""Limits, fronts and the rules that candidates stand for."""

from tests.fakes.projects import make_project
from workbench.project import edits
from workbench.studies.search import Candidate, Limits, SearchResult, with_choices
from workbench.studies.sensitivity import Unit


def unit(name):
    return Unit(name=name, kind="module_name", matches=(name,), operators=())


def candidate(number, accuracy, cycles, cpu, choice="a16w8", **fields):
    return Candidate(
        number=number, origin="search", choices={"a": choice}, accuracy=accuracy, cycles=cycles,
        sram_bytes=1, cpu_nodes=cpu, **fields,
    )  # fmt: skip


def test_that_limits_say_by_how_much_they_are_broken():
    limits = Limits(accuracy=0.9, cycles=1000.0)
    assert limits.hold((0.95, 1000.0, 1e9, 0.0))
    assert limits.excesses((0.8, 1500.0, 0.0, 0.0))[1] == 0.5
    assert not limits.hold((0.8, 10.0, 0.0, 0.0))


def test_that_what_moves_to_the_cpu_is_not_on_the_front():
    found = SearchResult(
        limits=Limits(), total=3, units=(unit("a"),),
        candidates=(candidate(1, 0.9, 100, 2, "a8w8"), candidate(2, 0.9, 10, 9),
                    candidate(3, 0.95, 200, 2)),
    )  # fmt: skip
    assert found.enforced.cpu == 2
    assert [c.number for c in found.front()] == [1, 3]


def test_that_the_best_is_the_quickest_within_the_limits():
    found = SearchResult(
        limits=Limits(accuracy=0.9), total=2, units=(),
        candidates=(candidate(1, 0.95, 200, 0, is_within=True), candidate(2, 0.8, 10, 0)),
    )  # fmt: skip
    assert found.best().number == 1


def test_that_what_most_units_share_becomes_the_global_rule():
    project = edits.assign(make_project(), "io", "", "uint8")
    units = tuple(unit(name) for name in ("a", "b", "c"))
    made = with_choices(project, units, {"a": "a16w8", "b": "a16w8", "c": "a8w4"})
    assert [(r.kind, r.match, r.config) for r in made.rules] == [
        ("global", "", "a16w8"), ("module_name", "c", "a8w4"), ("io", "", "uint8"),
    ]  # fmt: skip
    assert len({rule.id for rule in made.rules}) == 3
