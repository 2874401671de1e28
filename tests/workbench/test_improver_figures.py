"""The figures of the weight transforms: complete, on their page, and good enough."""

import json

from tests import improver_figures as figures
from workbench.project.configs import IMPROVER_PRESETS

KEPT = figures.whole(json.loads(figures.KEPT.read_text("utf-8")))
SAMPLES_OF_THE_PROGRAM = ("digits", "motions", "vowels")


def test_that_samples_of_the_program_and_further_networks_have_figures_in_their_order():
    assert [*KEPT] == [network.name for network in figures.NETWORKS]
    for rows in KEPT.values():
        assert [*rows] == [*figures.SETTINGS]


def test_that_the_page_has_the_figures_that_were_kept():
    assert figures.PAGE.read_text("utf-8") == figures.page(KEPT)


def test_that_presets_keep_the_classes_of_float_within_a_point_and_of_mobilenet_within_two():
    for preset in IMPROVER_PRESETS:
        for name in {*SAMPLES_OF_THE_PROGRAM, "mobilenet"} & {*KEPT}:
            row = KEPT[name][preset.id]
            assert row["top1"] >= row["top1_float"] - (0.02 if name == "mobilenet" else 0.01)


def test_that_learned_rounding_and_gptq_lose_on_no_network():
    for name, rows in KEPT.items():
        for transform in ("rounding", "gptq"):
            assert rows[transform]["sqnr_db"] >= rows["none"]["sqnr_db"], (name, transform)


def test_that_clips_take_nothing_from_learned_rounding_and_no_transform_loses_a_decibel():
    for name, rows in KEPT.items():
        both, alone = rows["rounding+clips"]["sqnr_db"], rows["rounding"]["sqnr_db"]
        assert both > alone - figures.LEAST_GAIN_DB, name
        worst = min(rows, key=lambda transform: rows[transform]["sqnr_db"])
        assert rows[worst]["sqnr_db"] > rows["none"]["sqnr_db"] - 1.0, (name, worst)


def test_that_every_network_keeps_the_classes_of_float_within_two_points():
    for name, rows in KEPT.items():
        for transform in ("rounding", "rounding+clips"):
            row = rows[transform]
            assert row["top1"] >= row["top1_float"] - 0.02, (name, transform)


def test_that_every_published_gain_has_a_comparison_or_a_reason():
    for row in figures.PUBLISHED:
        assert row.transform in figures.SETTINGS
        assert bool(row.network) != bool(row.why)
        assert not row.network or row.network in KEPT
