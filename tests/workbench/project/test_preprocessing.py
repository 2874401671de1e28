"""How pictures become inputs: the text form, what is refused, and relative conditions."""

import math

import pytest
from pydantic import ValidationError

from tests.for_each import for_each
from tests.problems import refused
from workbench.errors import WorkbenchError
from workbench.project.gate import condition_against
from workbench.project.model import Preprocess
from workbench.project.preprocessing import EXAMPLE, preprocess_of, preprocess_text


@for_each(
    ("text", "fields"),
    [
        ("size=8", {"size": (8, 8)}),
        ("size=8x16", {"size": (8, 16)}),
        ("size=8/16", {"size": (8, 16)}),
        (" size = 8X4 , ", {"size": (8, 4)}),
        ("size=8,crop=4", {"size": (8, 8), "crop": (4, 4)}),
        ("size=8,crop=8", {"size": (8, 8), "crop": (8, 8)}),
        ("size=8,mean=0.5,std=2", {"size": (8, 8), "mean": (0.5,), "std": (2.0,)}),
        ("size=8,mean=1/2/3", {"size": (8, 8), "mean": (1.0, 2.0, 3.0)}),
        ("layout=bgr,size=8,filter=box", {"size": (8, 8), "layout": "bgr", "filter": "box"}),
        ("size=8,dtype=uint8,order=last", {"size": (8, 8), "dtype": "uint8", "order": "last"}),
        ("size=8,scale=1,fold=on", {"size": (8, 8), "scale": 1.0, "fold": True}),
        ("size=8,fold=TRUE", {"size": (8, 8), "fold": True}),
        ("size=8,fold=off", {"size": (8, 8)}),
        ("size=8,fold=false", {"size": (8, 8)}),
    ],
)
def test_that_a_text_is_read(text, fields):
    made = preprocess_of(text)
    assert made == Preprocess(**fields)
    assert preprocess_of(preprocess_text(made)) == made


@for_each(
    "text",
    [
        "",
        "mean=1",
        "size=a",
        "size=0x1",
        "size=8x8x8",
        "size=8,crop=9",
        "size=8,std=0",
        "size",
        "size=8,size=9",
        "size=8,mean=nan",
        "size=8,dtype=uint8,mean=0.5",
        "size=8,scale=-1",
        "size=8,scale=0",
        "size=8,filter=best",
        "size=8,crop=8x9",
        "size=8,crop=9x8",
        "size=8,fold=1",
        "size=8,std=inf",
        "size=8,dtype=int8,scale=2",
        "size=8,dtype=int8,std=2",
        "colour=red,size=8",
    ],
)
def test_that_wrong_preprocessing_is_refused(text):
    with refused("preprocess-invalid") as caught:
        preprocess_of(text, "pictures")
    assert caught.value.infos[0].where.id == "pictures"


def test_that_all_problems_of_a_text_are_told_at_once():
    with pytest.raises(WorkbenchError) as caught:
        preprocess_of("colour=red,size=x,mean,layot=rgb,size=3")
    assert caught.value.codes == ("preprocess-invalid",) * 4
    assert any("layout" in info.message for info in caught.value.infos)
    assert all(EXAMPLE in info.hint for info in caught.value.infos)


def test_that_the_text_has_what_is_no_default():
    made = Preprocess(
        size=(8, 16),
        crop=(8, 8),
        filter="bicubic",
        layout="bgr",
        scale=1.0,
        mean=(123.675, 1, 2),
        std=(0.1,),
        order="last",
    )
    assert preprocess_text(made) == (
        "size=8x16,crop=8x8,filter=bicubic,layout=bgr,scale=1,mean=123.675/1/2,std=0.1,order=last"
    )
    assert preprocess_of(preprocess_text(made)) == made
    assert preprocess_text(Preprocess(size=(8, 8), fold=True)) == "size=8x8,fold=on"
    assert preprocess_of(EXAMPLE).size == (224, 224)


@for_each(
    ("fields", "ends"),
    [
        ({}, (0.0, 1.0)),
        ({"scale": 1.0}, (0.0, 255.0)),
        ({"mean": (0.4,), "std": (2.0,)}, (-0.2, 0.3)),
        ({"std": (0.5,)}, (0.0, 2.0)),
        ({"mean": (1.0,)}, (-1.0, 0.0)),
        ({"scale": 1.0, "mean": (128.0,)}, (-128.0, 127.0)),
    ],
)
def test_that_a_folded_input_has_the_grid_of_the_pixels(fields, ends):
    made = Preprocess(size=(8, 8), fold=True, **fields)
    assert made.pixel_range == pytest.approx(ends)


@for_each(
    "fields",
    [
        {"mean": (0.5, 0.25, 0.5)},
        {"mean": (0.0, 1.0)},
        {"std": (1.0, 2.0)},
        {"std": (-1.0,)},
        {"mean": (0.5,)},
        {"mean": (-0.4,)},
        {"mean": (1.2,)},
        {"dtype": "uint8"},
        {"scale": 1.0, "mean": (0.002,)},
        {"scale": 1.0, "mean": (256.0,)},
    ],
)
def test_that_an_input_without_such_a_grid_is_not_folded(fields):
    with pytest.raises(ValidationError):
        Preprocess(size=(8, 8), fold=True, **fields)
    assert Preprocess(size=(8, 8), **fields)


@for_each(
    ("text", "limit"),
    [
        ("cycles>+5%", 210.0),
        ("cycles > baseline + 5 %", 210.0),
        ("cycles>-5%", 190.0),
        ("cycles<baseline-10", 190.0),
        ("cycles<=baseline+10", 210.0),
        ("cycles>=baseline", 200.0),
        ("CYCLES>BASELINE", 200.0),
        ("cycles>7", 7.0),
        ("sqnr<-10%", -44.0),
        ("sqnr>+10%", -36.0),
        ("cycles>baseline+1e1", 210.0),
    ],
)
def test_that_a_condition_may_be_relative_to_a_baseline(text, limit):
    condition = condition_against(text, {"cycles": 200.0, "sqnr": -40.0})
    assert condition.value == pytest.approx(limit)
    assert condition.name in {"cycles", "sqnr"}


def test_that_a_figure_that_a_baseline_lacks_is_no_number():
    assert math.isnan(condition_against("top1<baseline-0.01", {}).value)
    assert condition_against("top1<0.5", {}).value == 0.5
    for wrong in ("cycles>++5%", "speed>baseline", "cycles>baseline*2", "cycles"):
        with refused("gate-condition-invalid"):
            condition_against(wrong, {})


def test_that_a_name_without_a_value_is_told_otherwise_than_an_empty_value():
    told = []
    for text in ("size", "size=", "layout", "layout="):
        with pytest.raises(WorkbenchError) as caught:
            preprocess_of(text)
        told.append(caught.value.infos[0].message)
    assert len(set(told)) == 4


@for_each(("crop", "fits"), [((8, 16), True), ((9, 16), False), ((8, 17), False), ((9, 8), False)])
def test_that_a_crop_is_no_larger_than_the_picture(crop, fits):
    if fits:
        made = Preprocess(size=(8, 16), crop=crop)
        assert made.shown == crop
        assert Preprocess(size=(8, 16), crop=(4, 5)).shown == (4, 5)
        assert Preprocess(size=(8, 16)).shown == (8, 16)
        return
    with pytest.raises(ValidationError):
        Preprocess(size=(8, 16), crop=crop)
