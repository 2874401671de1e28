"""Small networks for time series, as a user of the workbench would write them."""

import torch
from torch import nn


class MotionsNet(nn.Module):
    """Four logits for 10 s of a smart watch's accelerometer and gyroscope, [N, 6, 100]."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(6, 16, 5, stride=2, padding=2),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.Conv1d(16, 24, 5, stride=2, padding=2),
            nn.BatchNorm1d(24),
            nn.ReLU(),
            nn.Conv1d(24, 24, 3, padding=1),
            nn.BatchNorm1d(24),
            nn.ReLU(),
        )
        self.classifier = nn.Linear(24, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits [N, 4]."""
        return self.classifier(self.body(x).mean(2))


class VowelsNet(nn.Module):
    """Nine logits, one for each speaker, for 28 frames of 12 cepstrum coefficients, [N, 28, 12]."""

    def __init__(self) -> None:
        super().__init__()
        self.frames = nn.Conv1d(12, 24, 4, stride=4)
        self.steps = nn.GRU(24, 24, batch_first=True)
        self.classifier = nn.Linear(24, 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits [N, 9]."""
        features = torch.relu(self.frames(x.transpose(1, 2))).transpose(1, 2)
        return self.classifier(self.steps(features)[0].mean(1))


def motions() -> tuple[nn.Module, torch.Tensor]:
    """Return the network and an example input; the project names the weights."""
    return MotionsNet(), torch.zeros(1, 6, 100)


def vowels() -> tuple[nn.Module, torch.Tensor]:
    """Return the network and an example input; the project names the weights."""
    return VowelsNet(), torch.zeros(1, 28, 12)
