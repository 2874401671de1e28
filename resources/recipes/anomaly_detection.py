"""Your model and your data: replace what is between the lines; the shapes are one sample's.

The weights and the samples here are RANDOM: cycles and memory are right from the start, quality
means nothing until both are yours.
"""

import torch
from executorch.examples.models import mlperf_tiny

SHAPE = (640,)
SAMPLES = 64


def model():
    """Return the float model in eval and one example input."""
    # --- replace: build your model and load its weights ---
    torch.manual_seed(0)
    made = mlperf_tiny.DeepAutoEncoderModel().get_eager_model()
    made.train()
    with torch.no_grad():
        made(torch.randn(8, *SHAPE))
    # ------------------------------------------------------
    return made.eval(), (torch.zeros(1, *SHAPE),)


def calibration():
    """Yield typical frames, one batch of one at a time, as the model takes them."""
    # --- replace: read about a hundred real samples ---
    generator = torch.Generator().manual_seed(1)
    for _ in range(SAMPLES):
        yield torch.randn(1, *SHAPE, generator=generator)
    # --------------------------------------------------
