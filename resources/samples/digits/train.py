"""Train the digits sample: scikit-learn's digits, real data, a few minutes on one core.

Writes weights.safetensors, calibration.npz (128 training pictures) and held_out.npz (pictures
and labels that training never saw) beside this file. Run: python train.py
"""

from pathlib import Path

import numpy as np
import torch
from model import DigitsNet
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = Path(__file__).parent
EPOCHS, BATCH = 60, 64


def shifted(pictures: torch.Tensor) -> torch.Tensor:
    """Return the pictures [N, 1, 8, 8] moved by up to one pixel each way."""
    padded = torch.nn.functional.pad(pictures, (1, 1, 1, 1))
    rows, columns = (int(v) for v in torch.randint(0, 3, (2,)))
    return padded[:, :, rows : rows + 8, columns : columns + 8]


def accuracy(model: DigitsNet, pictures: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the share of pictures that are classified as their label."""
    model.eval()
    with torch.no_grad():
        return float((model(pictures).argmax(1) == labels).float().mean())


def main() -> None:
    """Train, report the held-out accuracy, write weights and data."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    digits = load_digits()
    pictures = (digits.images / 16.0).astype(np.float32)[:, None]
    split = train_test_split(pictures, digits.target, test_size=0.25, random_state=0, stratify=digits.target)
    train_x, test_x, train_y, test_y = split
    x, y = torch.from_numpy(train_x), torch.from_numpy(train_y)
    model = DigitsNet()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    steps = EPOCHS * (len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=steps)
    for _ in range(EPOCHS):
        model.train()
        order = torch.randperm(len(x))
        for start in range(0, len(x) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            loss = torch.nn.functional.cross_entropy(model(shifted(x[chosen])), y[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    held_out = accuracy(model, torch.from_numpy(test_x), torch.from_numpy(test_y))
    print(f"held-out accuracy: {held_out:.2%} of {len(test_x)}")
    save_file(model.state_dict(), HERE / "weights.safetensors")
    np.savez_compressed(HERE / "calibration.npz", x=train_x[:128])
    np.savez_compressed(HERE / "held_out.npz", x=test_x, labels=test_y.astype(np.int64))


if __name__ == "__main__":
    main()
