"""Settings of a project by key: how texts are read, and what each type takes."""

from typing import Annotated, Literal

from pydantic import Field

from tests.fakes.projects import make_project
from tests.for_each import for_each
from tests.problems import refused
from workbench.project.model import DataSource, Preprocess, Rule
from workbench.project.settings import SWITCH_WORDS, changed, described, keys, values

PLAIN = make_project()


def value_of(key, given, project=PLAIN):
    """Return a setting after it was set."""
    return values(changed(project, {key: given}))[key]


WITH_DATA = changed(PLAIN, {"calibration": "pics", "calibration.preprocess": "size=8"})


@for_each(
    ("key", "text", "value"),
    [
        ("name", "other", "other"),
        ("name", " other ", "other"),
        ("notes", "None", "None"),
        ("notes", "on", "on"),
        ("gate.lsb", "2.5", 2.5),
        ("gate.lsb", "none", None),
        ("gate.lsb", "NULL", None),
        ("gate.lsb", "0", 0),
        ("gate.argmax", "1", 1.0),
        ("model.strict_export", "off", False),
        ("model.strict_export", "YES", True),
        ("gate.compiled", "no", False),
        ("gate.compiled", "true", True),
        ("gate.fail_if", "lsb>2, cycles>9,", ["lsb>2", "cycles>9"]),
        ("model.input_shapes", "1x3x8x8", [[1, 3, 8, 8]]),
        ("model.input_shapes", "1x3,2X4", [[1, 3], [2, 4]]),
        ("verification.samples", "7", 7),
        ("calibration.limit", "9", 9),
        ("calibration.limit", "none", None),
        ("calibration.dropped", "3,1", [3, 1]),
        ("calibration.preprocess.size", "8", [8, 8]),
        ("calibration.preprocess.size", "8x16", [8, 16]),
        ("calibration.preprocess.size", "8/16", [8, 16]),
        ("calibration.preprocess.mean", "0.5", [0.5]),
        ("calibration.preprocess.mean", "0.5/0.25,1", [0.5, 0.25, 1.0]),
        ("calibration.preprocess.layout", "bgr", "bgr"),
    ],
)
def test_that_a_text_is_read_in_the_type_of_its_setting(key, text, value):
    assert value_of(key, text, WITH_DATA) == value


@for_each(
    ("key", "text"),
    [
        ("gate.lsb", "some"),
        ("model.strict_export", "perhaps"),
        ("verification.samples", "2.5"),
        ("verification.samples", "none"),
        ("model.strict_export", "none"),
        ("model.input_shapes", "1xa"),
        ("calibration.preprocess.mean", "a/b"),
        ("evaluation", "pics"),
        ("gate", "3"),
        ("calibration", 3),
    ],
)
def test_that_a_text_of_another_type_is_refused_with_its_key(key, text):
    with refused("setting-invalid") as caught:
        changed(WITH_DATA, {key: text})
    assert caught.value.infos[0].where.id == key
    assert caught.value.infos[0].hint


def test_that_typed_values_are_taken_as_they_are():
    assert value_of("gate.lsb", 2) == 2
    assert value_of("gate.lsb", None) is None
    assert value_of("model.input_shapes", [(1, 2), (3,)]) == [[1, 2], [3]]
    assert value_of("gate.fail_if", ("lsb>2",)) == ["lsb>2"]
    source = DataSource(spec="data.npz", limit=3)
    assert changed(PLAIN, {"calibration": source}).calibration == source
    preprocess = Preprocess(size=(4, 4))
    made = changed(WITH_DATA, {"calibration.preprocess": preprocess})
    assert made.calibration.preprocess == preprocess


@for_each("empty", ["", "none", " None ", "null", None])
def test_that_a_group_is_removed_by_the_empty_text_and_by_none(empty):
    assert changed(WITH_DATA, {"calibration": empty}).calibration is None
    made = changed(WITH_DATA, {"calibration.preprocess": empty})
    assert made.calibration.preprocess is None
    assert made.calibration.spec == "pics"


def test_that_the_empty_text_restores_a_default():
    off = changed(PLAIN, {"gate.lsb": None, "verification.samples": 3, "notes": "x"})
    back = changed(off, {"gate.lsb": "", "verification.samples": "", "notes": ""})
    assert values(back) == values(PLAIN)
    assert changed(PLAIN, {"calibration.limit": ""}).calibration is None


def test_that_a_group_is_set_before_its_parts_however_they_are_ordered():
    given = {
        "calibration.limit": "5",
        "calibration.preprocess.layout": "bgr",
        "calibration.preprocess": "size=8",
        "calibration": "pics",
    }
    for order in (given, dict(reversed(given.items()))):
        made = changed(PLAIN, order).calibration
        assert (made.spec, made.limit) == ("pics", 5)
        assert made.preprocess == Preprocess(size=(8, 8), layout="bgr")
    again = changed(changed(PLAIN, given), {"calibration": "other"}).calibration
    assert (again.spec, again.limit) == ("other", 5)


def test_that_settings_of_an_absent_group_are_none():
    listed = values(PLAIN)
    assert list(listed) == list(keys())
    assert listed["calibration.spec"] is None
    assert listed["calibration.preprocess.size"] is None
    assert listed["model.spec"] == "net.pt2"
    assert not any(key.startswith(("rules", "ranges", "presets", "target.options")) for key in listed)


def test_that_what_is_no_setting_stays_as_it_was():
    project = make_project(Rule(id="r1", kind="global", config="a16w8"))
    assert changed(project, {"name": "other"}).rules == project.rules
    assert changed(project, {}) == project


@for_each(
    ("key", "near"),
    [
        ("gate.lbs", "gate.lsb"),
        ("size", "calibration.preprocess.size"),
        ("modl.spec", "model.spec"),
        ("qqqqqqqqq", None),
    ],
)
def test_that_an_unknown_key_is_refused_with_those_near_it(key, near):
    with refused("setting-unknown") as caught:
        changed(PLAIN, {key: "1"})
    info = caught.value.infos[0]
    assert info.where.id == key
    assert ("Did you mean" in info.hint) == (near is not None)
    assert near is None or near in info.hint


@for_each(
    ("kind", "words"),
    [
        (str, "a text"),
        (int | None, "a whole number"),
        (float, "a number"),
        (bool, "on or off"),
        (Annotated[int, Field(ge=1)], "a whole number"),
        (Literal["rgb", "bgr"], "rgb or bgr"),
        (tuple[int, int] | None, "whole numbers, as 224x224"),
        (tuple[int, ...], "whole numbers, as 3,14"),
        (tuple[float, ...], "numbers, as 0.5/0.5/0.5"),
        (tuple[tuple[int, ...], ...], "shapes, as 1x3x224x224,1x10"),
        (tuple[str, ...], "names, separated by commas"),
        (str | int, "a text or a whole number"),
        (tuple[Annotated[float, Field(gt=0)], ...], "numbers, as 0.5/0.5/0.5"),
    ],
)
def test_that_a_type_is_described_in_words(kind, words):
    assert described(kind) == words


def test_that_switches_have_a_word_for_each_side():
    assert {word for word, on in SWITCH_WORDS.items() if on} >= {"on", "true", "yes", "1"}
    assert {word for word, on in SWITCH_WORDS.items() if not on} >= {"off", "false", "no", "0"}
