"""Rows with a box, a score and classes: one for each anchor, in pixels.

The output is [1, N, 5 + C]: centre x and y, width and height in pixels of the input, the score that
there is an object, and the score of each class, all scores from 0 to 1.
"""

import torch


def decode(outputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return boxes [N, 4] (left, top, right, bottom) and the scores [N, C] of a picture."""
    rows = outputs[0]
    centre, half = rows[:, 0:2], rows[:, 2:4] / 2
    scores = rows[:, 4:5] * rows[:, 5:]
    return {"boxes": torch.cat([centre - half, centre + half], 1), "scores": scores}
