"""Limits, fronts and the rules that candidates stand for."""

import pytest

from tests.fakes.projects import make_project
from tests.for_each import for_each
from tests.problems import refused
from workbench.project import edits
from workbench.results import ChannelLayer
from workbench.studies.search import (
    TRANSFORMS,
    Candidate,
    Limits,
    SearchResult,
    axis_options,
    take_weights,
    widths_of,
    with_candidate,
    with_choices,
)
from workbench.studies.sensitivity import Unit


def unit(name):
    return Unit(name=name, kind="module_name", matches=(name,), operators=())


def candidate(number, accuracy, cycles, cpu, choice="a16w8", **fields):
    return Candidate(
        number=number,
        origin="search",
        choices={"a": choice},
        accuracy=accuracy,
        cycles=cycles,
        sram_bytes=1,
        cpu_nodes=cpu,
        **fields,
    )


def test_that_limits_say_by_how_much_they_are_broken():
    limits = Limits(accuracy=0.9, cycles=1000.0)
    assert limits.are_met((0.95, 1000.0, 1e9, 0.0))
    assert limits.excesses((0.8, 1500.0, 0.0, 0.0))[1] == 0.5
    assert not limits.are_met((0.8, 10.0, 0.0, 0.0))


def test_that_what_moves_to_the_cpu_is_not_on_the_front():
    found = SearchResult(
        limits=Limits(),
        total=3,
        units=(unit("a"),),
        candidates=(candidate(1, 0.9, 100, 2, "a8w8"), candidate(2, 0.9, 10, 9), candidate(3, 0.95, 200, 2)),
    )
    assert found.enforced.cpu == 2
    assert [c.number for c in found.front()] == [1, 3]


def test_that_the_best_is_the_quickest_within_the_limits():
    found = SearchResult(
        limits=Limits(accuracy=0.9),
        total=2,
        units=(),
        candidates=(candidate(1, 0.95, 200, 0, is_within=True), candidate(2, 0.8, 10, 0)),
    )
    assert found.best().number == 1


def test_that_what_most_units_share_becomes_the_global_rule():
    project = edits.assign(make_project(), "io", "", "uint8")
    units = tuple(unit(name) for name in ("a", "b", "c"))
    made = with_choices(project, units, {"a": "a16w8", "b": "a16w8", "c": "a8w4"})
    assert [(r.kind, r.match, r.config) for r in made.rules] == [
        ("global", "", "a16w8"),
        ("module_name", "c", "a8w4"),
        ("io", "", "uint8"),
    ]
    assert len({rule.id for rule in made.rules}) == 3


@for_each(
    ("limits", "figures", "excesses"),
    [
        (Limits(), (0.1, 9.0, 9.0, 9.0), (0.0, 0.0, 0.0, 0.0)),
        (Limits(accuracy=0.9), (0.75, 1.0, 1.0, 1.0), (0.15, 0.0, 0.0, 0.0)),
        (Limits(cycles=200.0), (0.0, 300.0, 0.0, 0.0), (0.0, 0.5, 0.0, 0.0)),
        (Limits(cycles=0.0), (0.0, 3.0, 0.0, 0.0), (0.0, 3.0, 0.0, 0.0)),
        (Limits(sram=400.0), (0.0, 0.0, 300.0, 0.0), (0.0, 0.0, -0.25, 0.0)),
        (Limits(cpu=2), (0.0, 0.0, 0.0, 5.0), (0.0, 0.0, 0.0, 3.0)),
        (Limits(accuracy=0.5, cpu=2), (0.5, 0.0, 0.0, 2.0), (0.0, 0.0, 0.0, 0.0)),
    ],
)
def test_that_an_excess_is_a_share_of_its_limit(limits, figures, excesses):
    assert limits.excesses(figures) == pytest.approx(excesses)
    assert limits.are_met(figures) == all(excess <= 0 for excess in excesses)


def test_that_figures_are_known_all_together_or_not_at_all():
    assert candidate(1, 0.5, 0, 0).figures == (0.5, 0.0, 1.0, 0.0)
    for name in ("accuracy", "cycles", "sram_bytes", "cpu_nodes"):
        assert candidate(1, 0.5, 10, 2).model_copy(update={name: None}).figures is None


def found(*candidates, limits=None, widths=None):
    return SearchResult(
        limits=limits or Limits(), total=9, units=(unit("a"),), candidates=candidates, widths=widths or {}
    )


def test_that_cpu_operators_of_all_in_8_bits_are_the_limit_unless_one_is_given():
    assert found().enforced.cpu is None
    failed = candidate(1, 0.9, 100, 1, "a8w8").model_copy(update={"cycles": None})
    mixed, plain = candidate(2, 0.9, 100, 7), candidate(3, 0.9, 100, 4, "a8w8")
    assert found(failed, mixed, plain).enforced.cpu == 4
    assert found(failed, mixed).enforced.cpu == 7
    assert found(failed, mixed, plain, limits=Limits(cpu=9)).enforced.cpu == 9
    assert [c.number for c in found(failed, mixed, plain).measured()] == [2, 3]


def test_that_the_front_goes_from_the_fastest_to_the_most_accurate():
    slow, fast, worse = candidate(1, 0.9, 300, 1), candidate(2, 0.8, 100, 1), candidate(3, 0.7, 200, 1)
    assert [c.number for c in found(slow, fast, worse).front()] == [2, 1]
    assert [c.number for c in found(slow, candidate(4, 0.9, 300, 1)).front()] == [1, 4]


def test_that_ties_of_the_best_go_to_the_most_accurate():
    made = [
        candidate(n, accuracy, cycles, 0, is_within=within)
        for n, accuracy, cycles, within in (
            (1, 0.8, 100, True),
            (2, 0.9, 100, True),
            (3, 0.99, 200, True),
            (4, 0.99, 50, False),
        )
    ]
    assert found(*made).best().number == 2
    assert found(made[3]).best() is None


@for_each(
    ("channels", "widths"),
    [
        (64, (64, 56, 32, 8)),
        (32, (32, 24, 16, 8)),
        (17, (17, 16, 8)),
        (16, (16, 8)),
        (9, (9, 8)),
        (8, None),
        (3, None),
        (33, (33, 32, 16)),
    ],
)
def test_that_widths_are_multiples_of_the_block_below_the_present_one(channels, widths):
    made = widths_of((ChannelLayer(module="a", channels=channels),))
    assert made == ({"a": widths} if widths else {})
    assert all(w % 8 == 0 and w < channels for w in made.get("a", (0,))[1:])


def test_that_joined_layers_have_one_entry_and_fixed_ones_none():
    layers = (
        ChannelLayer(module="a", channels=16, partners=("b",)),
        ChannelLayer(module="b", channels=16, partners=("a",)),
        ChannelLayer(module="c", channels=16, fixed="makes an output"),
    )
    assert widths_of(layers) == {"a": (16, 8)}
    assert axis_options(widths=True, train=3) == {"widths": True, "train": 3}
    assert axis_options(widths=False, train=3) == {}
    assert axis_options(widths=False, train=3, transforms=True) == {"transforms": True}


def test_that_a_candidate_brings_its_weight_transforms():
    project = edits.set_improver(make_project(), "bias", on=True)
    plain = found()
    search = plain.model_copy(update={"transforms": tuple(TRANSFORMS)})
    for name, improvers in TRANSFORMS.items():
        chosen = candidate(1, 0.9, 10, 0, transforms=name)
        assert with_candidate(project, search, chosen).improvers == improvers
        assert with_candidate(project, plain, chosen).improvers == project.improvers


def test_that_a_candidate_brings_its_channels_and_its_weights(tmp_path):
    project = make_project()
    wide = found(widths={"stem.conv": (16, 8)})
    chosen = candidate(1, 0.9, 10, 0, channels={"stem.conv": 8}, weights="trained.safetensors")
    made = with_candidate(project, wide, chosen)
    assert made.channels() == {"stem.conv": 8}
    assert made.trained_weights == "trained.safetensors"
    beside = with_candidate(project, wide, chosen, tmp_path)
    assert beside.trained_weights == str(tmp_path / "trained.safetensors")
    whole = candidate(1, 0.9, 10, 0, channels={"stem.conv": 16})
    assert with_candidate(made, wide, whole).channels() == {}
    assert with_candidate(made, wide, whole).trained_weights is None
    assert with_candidate(made, found(), chosen).trained_weights == made.trained_weights
    assert with_choices(project, (), {}) == project


def test_that_weights_of_a_candidate_are_copied_or_it_is_told(tmp_path):
    chosen = candidate(1, 0.9, 10, 0, weights="w.safetensors")
    (tmp_path / "study").mkdir()
    with refused("trained-weights-not-writable"):
        take_weights(chosen, tmp_path / "study", tmp_path)
    (tmp_path / "study" / "w.safetensors").write_bytes(b"weights")
    take_weights(chosen, tmp_path / "study", tmp_path)
    assert (tmp_path / "w.safetensors").read_bytes() == b"weights"


def test_that_weights_of_a_candidate_are_written_into_the_given_folder_alone(tmp_path):
    """Studies are read from a folder that somebody else may have written."""
    for folder in ("study", "project"):
        (tmp_path / folder).mkdir()
    (tmp_path / "study" / "w").write_bytes(b"weights")
    (tmp_path / "w").write_bytes(b"of the user")
    for name in ("../w", str(tmp_path / "w")):
        chosen = candidate(1, 0.9, 10, 0, weights=name)
        take_weights(chosen, tmp_path / "study", tmp_path / "project")
    assert (tmp_path / "w").read_bytes() == b"of the user"
    assert (tmp_path / "project" / "w").read_bytes() == b"weights"


def test_that_rules_that_decide_something_else_are_kept_with_ids_of_their_own():
    project = edits.assign(make_project(), "io", "", "uint8")
    project = edits.assign(project, "module_name", "head", "cpu")
    project = edits.assign(project, "module_name", "stem", "a16w8")
    made = with_choices(project, (unit("a"),), {"a": "a8w4"})
    assert [(r.kind, r.match, r.config) for r in made.rules] == [
        ("global", "", "a8w4"),
        ("module_name", "head", "cpu"),
        ("io", "", "uint8"),
    ]
    assert len({rule.id for rule in made.rules}) == 3


def test_that_a_front_of_no_cpu_operators_has_those_without():
    none, one = candidate(1, 0.9, 100, 0), candidate(2, 0.9, 50, 1)
    assert [c.number for c in found(none, one, limits=Limits(cpu=0)).front()] == [1]


def test_that_fewer_cpu_operators_alone_keep_none_on_the_front():
    lean, fast = candidate(1, 0.9, 100, 2), candidate(2, 0.9, 90, 3)
    assert [c.number for c in found(lean, fast, limits=Limits(cpu=5)).front()] == [2]
    more = candidate(3, 0.9, 100, 4)
    assert [c.number for c in found(lean, more, limits=Limits(cpu=5)).front()] == [1, 3]


def test_that_no_cycles_are_less_than_one():
    none, one = candidate(2, 0.8, 0, 0, is_within=True), candidate(1, 0.9, 1, 0, is_within=True)
    assert [c.number for c in found(none, one).front()] == [2, 1]
    assert found(one, none).best().number == 2
