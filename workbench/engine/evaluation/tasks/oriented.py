"""Oriented boxes: their corners, and the overlap of convex quadrilaterals."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
# Corners on an edge count as inside, by this share of the square of the largest coordinate.
_ON_EDGE = 1e-12


def corners_of(boxes: Array) -> Array:
    """Return the corners [N, 4, 2] of boxes.

    Args:
        boxes: Left, top, right and bottom [N, 4]; or centre x and y, width, height and angle
            [N, 5], in radians from the x to the y axis.
    """
    if boxes.shape[1] == 4:
        left, top, right, bottom = boxes.T
        return np.stack([left, top, right, top, right, bottom, left, bottom], 1).reshape(-1, 4, 2)
    centre, half, angle = boxes[:, None, 0:2], boxes[:, 2:4] / 2, boxes[:, 4]
    along = np.stack([np.cos(angle), np.sin(angle)], 1) * half[:, :1]
    across = np.stack([-np.sin(angle), np.cos(angle)], 1) * half[:, 1:]
    offsets = np.stack([-along - across, along - across, along + across, across - along], 1)
    corners: Array = centre + offsets
    return corners


def upright_of(corners: Array) -> Array:
    """Return the upright boxes [N, 4] around corners [N, 4, 2]."""
    return np.concatenate([corners.min(1), corners.max(1)], 1)


def areas(corners: Array) -> Array:
    """Return the areas [N] of convex polygons [N, K, 2] whose corners are in order.

    Source: Gauss's area formula (shoelace).
    """
    x, y = corners[..., 0], corners[..., 1]
    products = x * np.roll(y, -1, -1) - np.roll(x, -1, -1) * y
    doubled: Array = np.abs(products.sum(-1))
    return doubled / 2


def intersections(first: Array, second: Array) -> Array:
    """Return the common areas [N, M] of convex quadrilaterals [N, 4, 2] and [M, 4, 2].

    The corners of the common part are the corners of one that are inside of the other, and the
    points where edges cross (O'Rourke 1998, Computational Geometry in C, section 7.6). Their order
    around their mean gives the polygon. Corners may be in any order.
    """
    first, second = _in_order(first), _in_order(second)
    boxes = upright_of(first)[:, None], upright_of(second)[None]
    touching = (boxes[0][..., :2] < boxes[1][..., 2:]) & (boxes[1][..., :2] < boxes[0][..., 2:])
    rows, columns = np.nonzero(touching.all(2))
    common = np.zeros((len(first), len(second)))
    if len(rows):
        a, b = first[rows], second[columns]
        # Numbers near 0 keep the products exact.
        origin = a.mean(1, keepdims=True)
        common[rows, columns] = _common(a - origin, b - origin)
    return common


def _common(a: Array, b: Array) -> Array:
    """Return the common area [P] of pairs of convex quadrilaterals [P, 4, 2]."""
    crossings, crossed = _crossings(a, b)
    points = np.concatenate([a, b, crossings], 1)
    valid = np.concatenate([_inside(a, b), _inside(b, a), crossed], 1)
    count = np.maximum(valid.sum(1), 1)[:, None]
    centre = (points * valid[..., None]).sum(1) / count
    # Points that do not count are put on the mean: they add no area.
    points = np.where(valid[..., None], points, centre[:, None]) - centre[:, None]
    angles = np.where(valid, np.arctan2(points[..., 1], points[..., 0]), np.inf)
    order = np.argsort(angles, 1)
    points = np.take_along_axis(points, order[..., None], 1)
    # The last ones repeat the first, so that the polygon is closed.
    is_valid = np.take_along_axis(valid, order, 1)
    points = np.where(is_valid[..., None], points, points[:, :1])
    return np.where(valid.sum(1) > 2, areas(points), 0.0)


def _in_order(corners: Array) -> Array:
    """Return corners in the order of their angle around their mean."""
    offsets = corners - corners.mean(1, keepdims=True)
    order = np.argsort(np.arctan2(offsets[..., 1], offsets[..., 0]), 1)
    return np.take_along_axis(corners, order[..., None], 1)


def _inside(points: Array, polygon: Array) -> Array:
    """Return which points [P, 4, 2] are inside of polygons [P, 4, 2], or on an edge, as [P, 4]."""
    edges = np.roll(polygon, -1, 1) - polygon
    offsets = points[:, :, None] - polygon[:, None]
    sides = edges[:, None, :, 0] * offsets[..., 1] - edges[:, None, :, 1] * offsets[..., 0]
    slack = _ON_EDGE * np.maximum(np.abs(polygon).max((1, 2)), 1.0)[:, None, None] ** 2
    within: Array = (sides >= -slack).all(2)
    return within


def _crossings(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the points [P, 16, 2] where edges cross, and which do [P, 16]."""
    start, other = a[:, :, None], b[:, None]
    along = (np.roll(a, -1, 1) - a)[:, :, None]
    across = (np.roll(b, -1, 1) - b)[:, None]
    turn = along[..., 0] * across[..., 1] - along[..., 1] * across[..., 0]
    gap = other - start
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (gap[..., 0] * across[..., 1] - gap[..., 1] * across[..., 0]) / turn
        u = (gap[..., 0] * along[..., 1] - gap[..., 1] * along[..., 0]) / turn
    crossed = (turn != 0) & (t >= 0) & (t <= 1) & (u >= 0) & (u <= 1)
    points = start + np.where(crossed, t, 0.0)[..., None] * along
    return points.reshape(len(a), 16, 2), crossed.reshape(len(a), 16)
