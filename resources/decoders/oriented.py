"""Oriented boxes: centre, size, angle and classes, measured by the upright boxes around them.

The output is [1, N, 5 + C]: centre x and y, width and height in pixels of the input, the angle in
radians, and the score of each class from 0 to 1. Average precision is that of the upright boxes.
"""

import torch


def decode(outputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return upright boxes [N, 4] (left, top, right, bottom) and the scores [N, C] of a picture."""
    rows = outputs[0]
    centre, (width, height) = rows[:, 0:2], rows[:, 2:4].unbind(1)
    cosine, sine = rows[:, 4].cos().abs(), rows[:, 4].sin().abs()
    across, down = width * cosine + height * sine, width * sine + height * cosine
    half = torch.stack([across, down], 1) / 2
    return {"boxes": torch.cat([centre - half, centre + half], 1), "scores": rows[:, 5:]}
