"""CORRECTIONS: where stock ExecuTorch gives a program that is not the quantized model.

Each row is on by default, has a switch among the target's options, and is part of the key of the
stages that it changes. With another source than the one it was written for it is not applied, and
the log says so. What is applied lies in ``workbench.engine.toolchain_patches.corrections``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pydantic import JsonValue

    from workbench.results import AppliedCorrection

# Which stage a correction changes, as the facets of the target: "quantizer" or "compile".
Facet = Literal["quantizer", "compile"]
GROUP = "Corrections"


@dataclass(frozen=True)
class Correction:
    """One defect of the tools, and what is done instead.

    Attributes:
        id: The name of the option that switches it.
        title: What it does, in a few words.
        fault: What is wrong with the stock tools.
        link: Where the defect is reported; "" where it is not.
        proven: Versions it was proven with, by package.
        network: The smallest network that shows the defect.
        instead: What is done instead.
        why_right: Why the corrected program computes what the quantized model does.
        facet: Which stage it changes.
    """

    id: str
    title: str
    fault: str
    link: str
    proven: Mapping[str, str]
    network: str
    instead: str
    why_right: str
    facet: Facet


CLAMPS, FACTORS = "keep_relu_clamps", "fine_factors"

CORRECTIONS: tuple[Correction, ...] = (
    Correction(
        id=CLAMPS,
        title="Keep the clamp of a ReLU whose range goes below zero",
        fault="A ReLU behind a convolution or a linear is erased, and only the lower limit of its "
        "grid is set to the zero point. Nothing obeys that limit: where the grid goes below zero, "
        "because cat or a fixed range decides it, negative values pass.",
        link="https://github.com/pytorch/executorch/issues/20486",
        proven={"executorch": "1.5.1"},
        network="torch.cat([torch.relu(conv_a(x)), conv_b(x)], 1) in a8w8",
        instead="The ReLU stays as a clamp of integers where its grid goes below zero.",
        why_right="Its input and output have one grid, so that the clamp at the zero point is "
        "exact; a grid that starts at zero clamps by itself, and such programs stay as they are.",
        facet="compile",
    ),
    Correction(
        id=FACTORS,
        title="Give small constant factors a grid of their own",
        fault="Steps of activations are at least 2^-16 in 8 bits and 2^-12 in 16, those of "
        "constants too. The factor 1/N of a norm or a mean over many elements is below that: it "
        "becomes zero or keeps a few steps, and the whole norm is wrong.",
        link="",
        proven={"executorch": "1.5.1", "torchao": "0.18.0"},
        network="torch.nn.GroupNorm(1, 4) over [1, 4, 192, 192] in a8w8",
        instead="The step of a constant factor may be as small as its values ask for, down to "
        "2^-32 in 8 bits and 2^-40 in 16.",
        why_right="The grid of a factor scales the product and nothing else; a product's rescale "
        "takes any such scale. Factors that the stock step represents keep it.",
        facet="quantizer",
    ),
)
CORRECTIONS_BY_ID = {correction.id: correction for correction in CORRECTIONS}


def described(applied: AppliedCorrection) -> dict[str, Any]:
    """Return what became of a correction, with title and link, for manifests and documents."""
    row = CORRECTIONS_BY_ID[applied.id]
    return {**applied.model_dump(mode="json"), "title": row.title, "link": row.link}


def is_wanted(correction: str, options: Mapping[str, JsonValue]) -> bool:
    """Return whether the options of a target leave a correction on."""
    return options.get(correction) is not False


def switched_off(options: Mapping[str, JsonValue], facet: Facet) -> list[JsonValue]:
    """Return the ids of the corrections of a facet that the options switch off."""
    return [row.id for row in CORRECTIONS if row.facet == facet and not is_wanted(row.id, options)]
