"""How a text was read, in the lines that ``run`` ends with."""

from __future__ import annotations

from typing import Any


def print_text(text: dict[str, Any] | None, *sides: str) -> None:
    """Print perplexities, and how far the last of the sides is from the float model."""
    if text is None:
        return
    values = ", ".join(f"{text[f'perplexity_{side}']:.4g} {side}" for side in sides)
    print(
        f"Text         perplexity {values}; KL from float {text[f'kl_{sides[-1]}']:.3g} nats a "
        f"token, at most {text[f'worst_{sides[-1]}']:.3g} ({text['tokens']} tokens)"
    )
