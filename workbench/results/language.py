"""How a decoder does on a text, token by token."""

from __future__ import annotations

from workbench.project.frozen import Frozen


class TokenStep(Frozen):
    """One step: the token that was read, the one that follows in the text, and what they gave.

    ``chance_*`` is the probability that a program gave to the token that follows; ``kl_*`` how far
    its probabilities are from those of the float model, KL(float || program) in nats. The integer
    program's are None where it was not run. ``max_lsb`` is its largest difference from the
    quantized model in steps of the output's grid; None for float outputs.
    """

    sample: int
    token: str
    follows: str
    chance_float: float
    chance_quantized: float
    kl_quantized: float
    chance_integer: float | None = None
    kl_integer: float | None = None
    max_lsb: int | None = None


class TextQuality(Frozen):
    """Float, quantized and integer program on a text that all of them read as it stands.

    A perplexity is exp of the mean over ``tokens`` of -ln of the probability given to the token
    that follows; ``kl_*`` are means and ``worst_*`` maxima of KL(float || program) in nats. The
    integer program's are None where it was not run. ``steps`` are the first of all.
    """

    tokens: int
    sequences: int
    perplexity_float: float
    perplexity_quantized: float
    kl_quantized: float
    worst_quantized: float
    perplexity_integer: float | None = None
    kl_integer: float | None = None
    worst_integer: float | None = None
    steps: tuple[TokenStep, ...] = ()
