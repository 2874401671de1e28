"""The decoders that people start from, against boxes that are known."""

import importlib.util

import pytest
import torch

from workbench.engine.evaluation.tasks.detection import objects_of
from workbench.installation import resources


def head(name):
    path = resources() / "decoders" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"decoder_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def best(result):
    """Return the box and the class with the highest score."""
    row, category = divmod(int(result["scores"].argmax()), result["scores"].shape[1])
    return [round(float(side), 3) for side in result["boxes"][row]], category


def test_that_rows_of_anchors_are_centre_size_and_two_scores():
    rows = torch.zeros(1, 3, 7)
    rows[0, 1] = torch.tensor([50.0, 40, 20, 10, 0.5, 0.25, 0.75])
    result = head("anchor_rows").decode(rows)
    assert best(result) == ([40, 35, 60, 45], 1)
    assert float(result["scores"].max()) == pytest.approx(0.375)


def test_that_a_distribution_is_its_mean_in_strides():
    module = head("distribution")
    cells = sum((320 // s) ** 2 for s in module.STRIDES)
    output = torch.full((1, 4 * 16 + 2, cells), -30.0)
    # The second level, row 3, column 5: centre 88, 56; distances 1, 2, 3 and 4.5 strides of 16.
    cell = 40 * 40 + 3 * 20 + 5
    for side, bins in enumerate([(1,), (2,), (3,), (4, 5)]):
        for bin_ in bins:
            output[0, side * 16 + bin_, cell] = 0
    output[0, 64 + 1, cell] = 5
    assert best(module.decode(output)) == ([72, 24, 136, 128], 1)


def test_that_offsets_of_zero_are_the_fixed_box():
    module = head("ssd")
    boxes = module.fixed_boxes()
    logits = torch.zeros(1, len(boxes), 3)
    # The first level, row 0, column 1, second shape: centre 1.5 / 19.
    logits[0, 4, 2] = 9
    box, category = best(module.decode((torch.zeros(1, len(boxes), 4), logits)))
    assert category == 1
    centre, width, height = 1.5 / 19 * 300, 0.28 * 300, 0.14 * 300
    middle = 0.5 / 19 * 300
    expected = [centre - width / 2, middle - height / 2, centre + width / 2, middle + height / 2]
    assert box == pytest.approx(expected, abs=2e-3)


def test_that_distances_are_from_the_centres_of_cells():
    levels = [(8, 4), (16, 2), (32, 1)]
    logits = [torch.full((1, 2, n, n), -9.0) for _, n in levels]
    sides = [torch.zeros(1, 4, n, n) for _, n in levels]
    centres = [torch.zeros(1, 1, n, n) for _, n in levels]
    logits[1][0, 0, 1, 0] = 9
    sides[1][0, :, 1, 0] = torch.tensor([1.0, 2, 3, 4])
    result = head("fcos").decode([*logits, *sides, *centres])
    assert best(result) == ([8 - 1, 24 - 2, 8 + 3, 24 + 4], 0)


def test_that_an_oriented_box_keeps_its_angle_and_is_turned_from_the_x_to_the_y_axis():
    rows = torch.zeros(1, 2, 6)
    rows[0, 1] = torch.tensor([50.0, 40, 20, 10, torch.pi / 2, 0.75])
    result = head("oriented").decode(rows)
    assert best(result)[0] == pytest.approx([50, 40, 20, 10, torch.pi / 2], abs=1e-3)
    turned = objects_of(result, "")
    assert turned.boxes[-1].tolist() == pytest.approx([45, 30, 55, 50])
    rows[0, 1, 4] = torch.pi / 6
    corner = objects_of(head("oriented").decode(rows), "").corners[-1, 1]
    # The upper right corner (60, 35), turned by 30 degrees about (50, 40).
    cosine, sine = 3**0.5 / 2, 0.5
    expected = [50 + 10 * cosine + 5 * sine, 40 + 10 * sine - 5 * cosine]
    assert corner.tolist() == pytest.approx(expected, abs=1e-4)


def test_that_a_key_point_is_the_largest_value_moved_to_its_neighbour():
    maps = torch.zeros(1, 1, 8, 8)
    maps[0, 0, 3, 5], maps[0, 0, 3, 6] = 9, 1
    point = head("heat_maps").decode(maps)
    assert point.tolist() == [[(5 + 0.5 + 0.25) * 4, (3 + 0.5) * 4]]
