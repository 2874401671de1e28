"""FCOS: distances to the four sides, a score for the centre, and the logits of the classes.

The outputs are, for each level, logits [1, C, H, W], distances [1, 4, H, W] in pixels (left, top,
right, bottom) and the logit of the centre [1, 1, H, W] (Tian et al., FCOS, 2019); first the logits
of all levels, then the distances, then the centres.
"""

from collections.abc import Sequence

import torch

# --- replace: those of your model ---
STRIDES = (8, 16, 32)
# ------------------------------------


def decode(outputs: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return boxes [N, 4] (left, top, right, bottom) and the scores [N, C] of a picture."""
    boxes, scores = [], []
    count = len(STRIDES)
    for level, stride in enumerate(STRIDES):
        logits, sides, centre = (outputs[level + part * count][0] for part in range(3))
        rows, columns = logits.shape[1:]
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        x, y = (x + 0.5) * stride, (y + 0.5) * stride
        corners = [x - sides[0], y - sides[1], x + sides[2], y + sides[3]]
        boxes.append(torch.stack(corners, -1).reshape(-1, 4))
        score = (logits.sigmoid() * centre.sigmoid()).sqrt()
        scores.append(score.flatten(1).transpose(0, 1))
    return {"boxes": torch.cat(boxes), "scores": torch.cat(scores)}
