"""Train the sample detector: digits of scikit-learn on canvases, some minutes on one core.

    python train.py

Writes weights, calibration data (canvases of training digits), held-out canvases of digits that
training has not seen, and their boxes as a file of COCO beside this file.

Data: Optical Recognition of Handwritten Digits (E. Alpaydin and C. Kaynak, UCI repository, CC BY
4.0), as scikit-learn (BSD 3-clause) distributes them.
"""

import json
from pathlib import Path

import numpy as np
import torch
from model import CLASSES, SIZE, STRIDE, Detector, centres
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

HERE = Path(__file__).parent
STEPS, BATCH = 1600, 24
CALIBRATION, HELD_OUT = 32, 64


def canvas(images: np.ndarray, labels: np.ndarray, draw: np.random.Generator) -> tuple:
    """Return a picture [96, 96] from 0 to 1, boxes [N, 4] in pixels and classes [N]."""
    picture = np.zeros((SIZE, SIZE), np.float32)
    boxes: list[list[int]] = []
    classes = []
    for _ in range(draw.integers(3, 9)):
        side = int(draw.integers(14, 34))
        left, top = draw.integers(0, SIZE - side, 2)
        box = [left, top, left + side, top + side]
        if any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in boxes):
            continue
        chosen = int(draw.integers(len(images)))
        image = torch.from_numpy(images[chosen])[None, None]
        sized = functional.interpolate(image, (side, side), mode="bilinear")[0, 0].numpy()
        ink = np.argwhere(sized > 0.15)
        low, high = ink.min(0), ink.max(0) + 1
        picture[top : top + side, left : left + side] = sized * draw.uniform(0.6, 1.0)
        boxes.append([left + low[1], top + low[0], left + high[1], top + high[0]])
        classes.append(int(labels[chosen]))
    picture += 0.04 * draw.standard_normal(picture.shape).astype(np.float32)
    # Multiples of 1/255, as a camera's pixels are.
    return (picture.clip(0, 1) * 255).round() / 255, np.array(boxes), np.array(classes)


def targets(boxes: np.ndarray, classes: np.ndarray) -> tuple[torch.Tensor, ...]:
    """Return the class (-1: none) [12, 12] and the distances [4, 12, 12] of a picture's cells."""
    points = centres()
    labels = torch.full(points.shape[:2], -1)
    sides = torch.zeros(4, *points.shape[:2])
    for box, number in zip(torch.from_numpy(boxes).float(), classes, strict=True):
        middle = (box[:2] + box[2:]) / 2
        near = ((points - middle).abs() <= STRIDE * 0.75).all(-1)
        labels[near] = int(number)
        ways = torch.cat([points - box[:2], box[2:] - points], -1) / STRIDE
        sides[:, near] = ways[near].T
    return labels, sides


def overlap(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the intersection over union of boxes around one point, by their distances [N, 4]."""
    inner = torch.minimum(a, b)
    area = [(s[:, 0] + s[:, 2]) * (s[:, 1] + s[:, 3]) for s in (inner, a, b)]
    return area[0] / (area[1] + area[2] - area[0] + 1e-6)


def loss_of(outputs: tuple, labels: torch.Tensor, sides: torch.Tensor) -> torch.Tensor:
    """Return focal loss of the classes, and 1 - IoU and distance of the boxes."""
    logits, found = outputs
    real = labels >= 0
    wanted = functional.one_hot(labels.clamp(min=0), CLASSES).permute(0, 3, 1, 2).float()
    wanted = wanted * real[:, None]
    plain = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    hard = (wanted - logits.sigmoid()).abs() ** 2
    a = found.permute(0, 2, 3, 1)[real].clamp(min=0.01)
    b = sides.permute(0, 2, 3, 1)[real].clamp(min=0.01)
    box = (1 - overlap(a, b)).mean() + (a - b).abs().mean()
    return (plain * hard).sum() / real.sum() + box


def save(name: str, drawn: list[tuple], labels: bool) -> None:
    """Write canvases, and their boxes as a file of COCO."""
    pictures = np.stack([picture for picture, _, _ in drawn])[:, None].astype(np.float32)
    np.savez_compressed(HERE / f"{name}.npz", x=pictures)
    if not labels:
        return
    sizes = {"width": SIZE, "height": SIZE}
    images = [{"id": i, "file_name": f"{i:03}.png", **sizes} for i in range(len(drawn))]
    annotations = [
        {
            "id": 0,
            "image_id": i,
            "category_id": int(number),
            "iscrowd": 0,
            "bbox": [int(b) for b in (box[0], box[1], box[2] - box[0], box[3] - box[1])],
        }
        for i, (_, boxes, classes) in enumerate(drawn)
        for box, number in zip(boxes, classes, strict=True)
    ]
    content = {
        "images": images,
        "annotations": [{**row, "id": i} for i, row in enumerate(annotations, 1)],
        "categories": [{"id": i, "name": str(i)} for i in range(CLASSES)],
    }
    (HERE / f"{name}.json").write_text(json.dumps(content, separators=(",", ":")) + "\n")


def main() -> None:
    """Train, and write everything."""
    torch.manual_seed(0)
    draw = np.random.default_rng(0)
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)
    order = draw.permutation(len(images))
    train, held = order[:1300], order[1300:]
    model = Detector()
    # Rare classes: each logit begins at the chance of 0.01.
    nn.init.constant_(model.classes[1].bias, -4.6)
    nn.init.constant_(model.sides[1].bias, 1.2)
    optimiser = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, STEPS)
    for step in range(STEPS):
        drawn = [canvas(images[train], digits.target[train], draw) for _ in range(BATCH)]
        wanted = [targets(boxes, classes) for _, boxes, classes in drawn]
        pictures = torch.from_numpy(np.stack([p for p, _, _ in drawn])[:, None])
        labels, sides = (torch.stack(part) for part in zip(*wanted, strict=True))
        loss = loss_of(model(pictures), labels, sides)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 200 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    save_file(model.eval().state_dict(), HERE / "weights.safetensors")
    draw = np.random.default_rng(1)
    save(
        "calibration",
        [canvas(images[train], digits.target[train], draw) for _ in range(CALIBRATION)],
        labels=False,
    )
    save("held_out", [canvas(images[held], digits.target[held], draw) for _ in range(HELD_OUT)], labels=True)


if __name__ == "__main__":
    main()
