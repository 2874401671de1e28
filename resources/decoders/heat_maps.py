"""Key points from heat maps: the place of the largest value of each map.

The output is [1, K, H, W], a map for each key point. A quarter of a step towards the larger
neighbour refines the place (Newell et al., Stacked Hourglass Networks, 2016).
"""

import torch

# --- replace: those of your model ---
STRIDE = 4  # pixels of the input for one of the map
# ------------------------------------


def decode(outputs: torch.Tensor) -> torch.Tensor:
    """Return the key points [K, 2] (x, y) in pixels of the input."""
    maps = outputs[0]
    count, height, width = maps.shape
    best = maps.reshape(count, -1).argmax(1)
    points = []
    for one, place in zip(maps, best.tolist(), strict=True):
        y, x = divmod(place, width)
        right, left = one[y, min(x + 1, width - 1)], one[y, max(x - 1, 0)]
        below, above = one[min(y + 1, height - 1), x], one[max(y - 1, 0), x]
        shift = torch.stack([(right - left).sign(), (below - above).sign()]) / 4
        points.append((torch.tensor([x, y]) + 0.5 + shift) * STRIDE)
    return torch.stack(points)
