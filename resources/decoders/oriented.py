"""Oriented boxes: centre, size, angle and classes.

The output is [1, N, 5 + C]: centre x and y, width and height in pixels of the input, the angle in
radians from the x to the y axis, and the score of each class from 0 to 1.
"""

import torch


def decode(outputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return oriented boxes [N, 5] (centre, size, angle) and the scores [N, C] of a picture."""
    rows = outputs[0]
    return {"boxes": rows[:, :5], "scores": rows[:, 5:]}
