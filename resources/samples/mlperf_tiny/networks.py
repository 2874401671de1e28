"""The MLPerf Tiny networks that come with ExecuTorch. RANDOM weights: cost, not quality."""

from collections.abc import Iterator

import torch
from executorch.examples.models import mlperf_tiny
from torch import nn

SAMPLES = 32


def _with_statistics(made: object) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return a network with fixed random weights and settled batch-norm statistics."""
    torch.manual_seed(0)
    model, inputs = made.get_eager_model(), made.get_example_inputs()
    generator = torch.Generator().manual_seed(1)
    model.train()
    with torch.no_grad():
        for _ in range(4):
            model(torch.randn((8, *inputs[0].shape[1:]), generator=generator))
    return model.eval(), inputs


def _noise(*shape: int) -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    for _ in range(SAMPLES):
        yield torch.randn((1, *shape), generator=generator)


def image_classification() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return ResNet-8 for pictures [1, 3, 32, 32]."""
    return _with_statistics(mlperf_tiny.ResNet8Model())


def keyword_spotting() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return DS-CNN for spectrograms [1, 1, 49, 10]."""
    return _with_statistics(mlperf_tiny.DSCNNKWSModel())


def visual_wake_words() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return MobileNetV1 0.25 for pictures [1, 3, 96, 96]."""
    return _with_statistics(mlperf_tiny.MobileNetV1025Model())


def anomaly_detection() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return the deep autoencoder for spectral frames [1, 640]."""
    return _with_statistics(mlperf_tiny.DeepAutoEncoderModel())


def pictures_32() -> Iterator[torch.Tensor]:
    """Yield noise shaped like the classifier's pictures."""
    return _noise(3, 32, 32)


def spectrograms() -> Iterator[torch.Tensor]:
    """Yield noise shaped like spectrograms."""
    return _noise(1, 49, 10)


def pictures_96() -> Iterator[torch.Tensor]:
    """Yield noise shaped like the visual wake words' pictures."""
    return _noise(3, 96, 96)


def frames() -> Iterator[torch.Tensor]:
    """Yield noise shaped like spectral frames."""
    return _noise(640)
