"""Your detector and your data: replace what is between the lines; the shapes are one sample's.

The weights and the samples here are RANDOM: cycles and memory are right from the start, quality
means nothing until both are yours. Boxes and scores leave as outputs of their own: in one output
they would share one range, in which no score survives. workbench decoders writes decoders of other
heads; labels may be a file of COCO or a folder of YOLO texts (evaluation.data.labels).
"""

import torch
from torch import nn

SHAPE, STRIDE, CLASSES = (3, 96, 96), 8, 4
SAMPLES = 32


class Detector(nn.Module):
    """Logits [N, CLASSES, 12, 12], and distances [N, 4, 12, 12] to the sides of a box."""

    def __init__(self):
        super().__init__()
        steps = [(3, 16, 2), (16, 32, 2), (32, 64, 2), (64, 64, 1)]
        layers = [
            nn.Sequential(nn.Conv2d(a, b, 3, s, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
            for a, b, s in steps
        ]
        self.body = nn.Sequential(*layers)
        self.classes = nn.Conv2d(64, CLASSES, 1)
        self.sides = nn.Conv2d(64, 4, 1)

    def forward(self, x):
        """Return logits and distances for pictures [N, 3, 96, 96]."""
        features = self.body(x)
        return self.classes(features), self.sides(features)


def model():
    """Return the float model in eval and one example input."""
    # --- replace: build your model and load its weights ---
    torch.manual_seed(0)
    network = Detector()
    with torch.no_grad():
        network(torch.randn(8, *SHAPE))
    # ------------------------------------------------------
    return network.eval(), (torch.zeros(1, *SHAPE),)


def calibration():
    """Yield typical pictures, one batch of one at a time, as the model takes them."""
    # --- replace: read about a hundred real samples ---
    generator = torch.Generator().manual_seed(1)
    for _ in range(SAMPLES):
        yield torch.randn(1, *SHAPE, generator=generator)
    # --------------------------------------------------


def evaluation():
    """Yield pictures that calibration has not seen, each with its boxes in pixels and classes."""
    # --- replace: read labelled samples; or name pictures and labels in the project ---
    generator = torch.Generator().manual_seed(2)
    for _ in range(SAMPLES):
        corner = torch.rand(2, 2, generator=generator) * 60
        label = {
            "boxes": torch.cat([corner, corner + 24], 1).tolist(),
            "classes": torch.randint(CLASSES, (2,), generator=generator).tolist(),
        }
        yield torch.randn(1, *SHAPE, generator=generator), label
    # -----------------------------------------------------------------------------------


def decode(outputs):
    """Return boxes [N, 4] (left, top, right, bottom in pixels) and scores [N, CLASSES]."""
    # --- replace: what the outputs of your model mean ---
    logits, sides = outputs[0][0].flatten(1), outputs[1][0].flatten(1) * STRIDE
    places = (torch.arange(SHAPE[1] // STRIDE) + 0.5) * STRIDE
    y, x = (grid.flatten() for grid in torch.meshgrid(places, places, indexing="ij"))
    boxes = torch.stack([x - sides[0], y - sides[1], x + sides[2], y + sides[3]], 1)
    return {"boxes": boxes, "scores": logits.transpose(0, 1).sigmoid()}
    # ----------------------------------------------------
