"""SSD: offsets from fixed boxes, and the logits of the classes with the background first.

The outputs are the offsets [1, N, 4] and the logits [1, N, 1 + C] (Liu et al., SSD, 2016), N fixed
boxes of all levels in the order of LEVELS, rows, columns and shapes.
"""

import torch

# --- replace: those of your model ---
SIZE = (300, 300)  # height and width of the input [pixels]
# (rows, columns, [(width, height) as shares of the input]) of each level
LEVELS = (
    (19, 19, ((0.2, 0.2), (0.28, 0.14), (0.14, 0.28))),
    (10, 10, ((0.35, 0.35), (0.5, 0.25), (0.25, 0.5))),
)
VARIANCES = (0.1, 0.2)
# ------------------------------------


def fixed_boxes() -> torch.Tensor:
    """Return centre x and y, width and height [N, 4] of the fixed boxes, as shares of the input."""
    boxes = [
        ((column + 0.5) / columns, (row + 0.5) / rows, width, height)
        for rows, columns, shapes in LEVELS
        for row in range(rows)
        for column in range(columns)
        for width, height in shapes
    ]
    return torch.tensor(boxes)


def decode(outputs: tuple[torch.Tensor, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return boxes [N, 4] (left, top, right, bottom) and the scores [N, C] of a picture."""
    offsets, logits = outputs[0][0], outputs[1][0]
    fixed = fixed_boxes()
    centre = fixed[:, :2] + offsets[:, :2] * VARIANCES[0] * fixed[:, 2:]
    half = fixed[:, 2:] * (offsets[:, 2:] * VARIANCES[1]).exp() / 2
    size = torch.tensor([SIZE[1], SIZE[0]] * 2)
    boxes = torch.cat([centre - half, centre + half], 1) * size
    return {"boxes": boxes, "scores": logits.softmax(1)[:, 1:]}
