"""Anchor-free with distributions: each side of a box is the mean of a distribution over bins.

The output is [1, 4 * BINS + C, N] for the cells of all levels, in the order of STRIDES and of rows;
distances to the four sides in units of the stride (Li et al., Generalized Focal Loss, 2020), and
the logit of each class.
"""

import torch

# --- replace: those of your model ---
SIZE = (320, 320)  # height and width of the input [pixels]
STRIDES = (8, 16, 32)
BINS = 16
# ------------------------------------


def centres() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the centre [N, 2] (x, y) of each cell [pixels], and its stride [N, 1]."""
    points, strides = [], []
    for stride in STRIDES:
        rows, columns = SIZE[0] // stride, SIZE[1] // stride
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        points.append((torch.stack([x, y], -1).reshape(-1, 2) + 0.5) * stride)
        strides.append(torch.full((rows * columns, 1), float(stride)))
    return torch.cat(points), torch.cat(strides)


def decode(outputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return boxes [N, 4] (left, top, right, bottom) and the scores [N, C] of a picture."""
    rows = outputs[0].transpose(0, 1)
    points, strides = centres()
    chances = rows[:, : 4 * BINS].reshape(-1, 4, BINS).softmax(-1)
    sides = (chances * torch.arange(BINS)).sum(-1) * strides
    boxes = torch.cat([points - sides[:, :2], points + sides[:, 2:]], 1)
    return {"boxes": boxes, "scores": rows[:, 4 * BINS :].sigmoid()}
