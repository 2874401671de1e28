"""What each weight transform gains: quality on unseen samples of networks with trained weights.

``python -m tests.improver_figures FOLDER [NETWORK ...]`` measures what
``tests/data/improver_figures.json`` lacks, of all networks or of some, and writes that file and the
page of the guide. Networks that are not samples of the program are trained into the folder, where
they are not there already.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.guide import REFERENCE, table
from workbench.project.configs import IMPROVER_PRESETS, IMPROVERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HERE = Path(__file__).parent
KEPT = HERE / "data" / "improver_figures.json"
PAGE = REFERENCE / "weight-transform-figures.md"
SAMPLES = HERE.parent / "resources" / "samples"
CONFIG, UNSEEN = "a8w4", 450
# A transform that gains less on every network does not help.
LEAST_GAIN_DB = 0.5


@dataclass(frozen=True)
class Network:
    """A network with trained weights; ``folder`` is that of a sample, None if it is trained."""

    name: str
    what: str
    folder: str | None = None
    module: str = "trained_networks.py"
    device: str = "ethos-u55-128"

    @property
    def files(self) -> tuple[str, str, str]:
        """Names of the files with weights, calibration data and unseen data."""
        if self.name == "digits":
            return "weights.safetensors", "calibration.npz", "held_out.npz"
        unseen = "held_out" if self.folder else "unseen"
        return (
            f"{self.name}{'_weights' if self.folder else ''}.safetensors",
            f"{self.name}_calibration.npz",
            f"{self.name}_{unseen}.npz",
        )


NETWORKS = (
    Network("digits", "residual network, digits at 8 x 8", "digits", "model.py"),
    Network("motions", "convolutions of sequences, sensors", "time_series", "networks.py"),
    Network("vowels", "GRU, speech", "time_series", "networks.py"),
    Network("mobilenet", "MobileNetV2 of half width, digits at 32 x 32"),
    Network("separable", "DS-CNN, digits at 16 x 16"),
    Network("transformer", "vision transformer, digits at 8 x 8", device="ethos-u85-256"),
    Network("tabular", "perceptron, measurements"),
)
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    **{improver.id: (improver.id,) for improver in IMPROVERS},
    **{preset.id: preset.improvers for preset in IMPROVER_PRESETS},
}


@dataclass(frozen=True)
class Published:
    """A published gain; ``network`` is ours of the same kind, "" if it has none for a reason."""

    transform: str
    figure: str
    source: str
    network: str = ""
    why: str = ""


PUBLISHED = (
    Published(
        "rounding",
        "ResNet-18 and ResNet-50, 4-bit weights: within 1 point of float",
        "Nagel et al. 2020 (AdaRound), abstract",
        "digits",
    ),
    Published(
        "rounding",
        "DeepLabv3 on MobileNetV2, 4-bit weights, 8-bit activations: 72.9 mIoU in "
        "float, 6.1 rounded to nearest, 70.9 with AdaRound",
        "AIMET, README, table AdaRound",
        "mobilenet",
    ),
    Published(
        "gptq",
        "OPT and BLOOM up to 175 billion weights, 3 or 4-bit weights, activations in "
        "float: negligible loss of perplexity",
        "Frantar et al. 2022 (GPTQ), abstract",
        "transformer",
    ),
    Published(
        "scales",
        "VILA-1.5-3B, 4-bit weights in groups of 128, activations in float: VQA-v2 80.0, 80.4 in float",
        "Lin et al. 2023 (AWQ), README of llm-awq",
        "",
        "Ethos-U has one step per output channel and no groups, so that a scale of a channel "
        "changes the steps of all others.",
    ),
    Published(
        "smooth",
        "OPT-175B, 8-bit weights and activations: negligible loss",
        "Xiao et al. 2022 (SmoothQuant), abstract",
        "",
        "The outliers of activations that it moves occur in language models of billions of "
        "weights; none of these networks has them.",
    ),
    Published(
        "equalize",
        "MobileNetV2, 8 bits with one step per tensor, with `bias`: 71.1 %, 71.7 in float",
        "Nagel et al. 2019 (DFQ), README of AIMET, table DFQ",
        "",
        "Here each output channel has its own step, which does most of what equalised layers do.",
    ),
    Published(
        "norms",
        "MobileNetV2 in training with quantization",
        "Nagel et al. 2021, A White Paper on Neural Network Quantization, section 5.2",
        "",
        "Published for training; this is after it.",
    ),
)


def measured(engine: Any, network: Network, improvers: Sequence[str]) -> dict[str, float | None]:
    """Return the figures of one program on unseen samples: SQNR [dB], top-1 and that of float."""
    from tests.engine.in_process import project
    from workbench.project.model import DataSource, Evaluation

    weights, calibration, unseen = network.files
    made = project(
        f"{network.module}:{network.name}",
        CONFIG,
        network.device,
        improvers=tuple(improvers),
        calibration=DataSource(spec=calibration),
        evaluation=Evaluation(data=DataSource(spec=unseen), limit=UNSEEN),
    )
    model = made.model.model_copy(update={"weights": weights})
    made = made.model_copy(update={"model": model})
    if engine.run(made, "evaluate") != "done":
        raise SystemExit(f"{network.name} {improvers}: {engine.failure}")
    result = engine.result(made, "evaluate")
    return {"sqnr_db": result.sqnr_db, "top1": result.top1_quantized, "top1_float": result.top1_float}


def place(network: Network, trained: Path, folder: Path) -> None:
    """Copy a network, its weights and data into a folder; train it first if needed."""
    from tests.engine.trained_networks import train

    origin = trained if network.folder is None else SAMPLES / network.folder
    if network.folder is None and not (origin / network.files[2]).exists():
        train(network.name, origin)
    code = HERE / "engine" if network.folder is None else origin
    for source in (code / network.module, *(origin / name for name in network.files)):
        shutil.copy(source, folder)


def page(kept: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Return the page of the guide from the figures."""
    networks = [network for network in NETWORKS if network.name in kept]
    named = (f"- `{network.name}`: {network.what}" for network in networks)
    lines = [*_ABOUT, "", *named, "", "## SQNR [dB]", ""]
    header = ("transform", *(f"`{network.name}`" for network in networks))
    for title, cell in (("", _sqnr), ("## Top-1 [%]", _top1)):
        lines += [title, ""] if title else []
        rows = [(f"`{name}`", *(cell(kept[network.name][name]) for network in networks)) for name in SETTINGS]
        if title:
            floats = (f"{100 * kept[n.name]['none']['top1_float']:.1f}" for n in networks)
            rows.insert(0, ("float", *floats))
        lines += table(header, rows)
    lines += ["## What helps", "", *(f"- {line}" for line in _verdicts(kept, networks)), ""]
    lines += ["## Published gains", ""]
    lines += table(("transform", "published", "here"), [_comparison(row, kept) for row in PUBLISHED])
    return "\n".join(lines).rstrip() + "\n"


def _comparison(row: Published, kept: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return a published gain beside ours on the same kind of network."""
    here = f"Not comparable. {row.why}"
    if row.network in kept:
        none, ours = (kept[row.network][name] for name in ("none", row.transform))
        loss = 100 * (ours["top1_float"] - ours["top1"])
        here = (
            f"`{row.network}`: {_top1(ours)} %, {100 * ours['top1_float']:.1f} in float "
            f"({loss:.1f} points lost), {_top1(none)} rounded to nearest; SQNR {_sqnr(none)} to "
            f"{_sqnr(ours)} dB"
        )
    return f"`{row.transform}`", f"{row.figure} ({row.source})", here


def _sqnr(figures: Mapping[str, float]) -> str:
    return f"{figures['sqnr_db']:.1f}"


def _top1(figures: Mapping[str, float]) -> str:
    return f"{100 * figures['top1']:.1f}"


def _verdicts(kept: Mapping[str, Any], networks: Sequence[Network]) -> list[str]:
    """Return for each transform on which networks it gains, loses, or does nothing."""
    lines = []
    for name in [n for n in SETTINGS if n != "none"]:
        gains = {n.name: kept[n.name][name]["sqnr_db"] - kept[n.name]["none"]["sqnr_db"] for n in networks}
        better = [n for n, gain in gains.items() if gain >= LEAST_GAIN_DB]
        worse = [n for n, gain in gains.items() if gain <= -LEAST_GAIN_DB]
        mean = sum(gains.values()) / len(gains)
        verdict = f"helps {len(better)} of {len(gains)} networks" if better else "does not help here"
        loses = f"; it makes {' and '.join(worse)} worse" if worse else ""
        lines.append(f"`{name}` {verdict}, {mean:+.1f} dB on average{loses}.")
    return lines


_ABOUT = (
    "# Figures of the weight transforms",
    "",
    "Measured: `python -m tests.improver_figures` writes this page. Each "
    "[weight transform](../user/weight_transforms.md) alone, and each preset, on networks with "
    f"trained weights in {CONFIG}, without labels: the SQNR of the quantized outputs against the "
    f"float model and the share of right classes, on at most {UNSEEN} samples that neither "
    "training nor calibration saw. A transform helps a network where it gains "
    f"{LEAST_GAIN_DB} dB. Those of `scales` on mobilenet, separable and transformer are from before it left "
    "out layers without a gain on samples held back.",
)


def main(arguments: Sequence[str]) -> None:
    """Measure networks; keep the figures of each at once."""
    from tests.engine.in_process import Engine

    trained = Path(arguments[0])
    trained.mkdir(parents=True, exist_ok=True)
    for network in [n for n in NETWORKS if n.name in arguments[1:] or not arguments[1:]]:
        engine = Engine(Path(tempfile.mkdtemp()))
        try:
            place(network, trained, engine.folder)
            for name, improvers in SETTINGS.items():
                if name not in _known().get(network.name, {}):
                    figures = measured(engine, network, improvers)
                    known = _known()
                    keep({**known, network.name: {**known.get(network.name, {}), name: figures}})
                    sys.stdout.write(f"{network.name} {name}: {figures}\n")
                    sys.stdout.flush()
        finally:
            engine.close()


def keep(known: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the figures in the order of the tables, and the page of complete networks."""
    ordered = {
        network.name: {n: known[network.name][n] for n in SETTINGS if n in known[network.name]}
        for network in NETWORKS
        if network.name in known
    }
    KEPT.write_text(json.dumps(ordered, indent=1) + "\n")
    if complete := whole(ordered):
        PAGE.write_text(page(complete))


def whole(known: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the networks of which every transform was measured."""
    return {name: rows for name, rows in known.items() if len(rows) == len(SETTINGS)}


def _known() -> dict[str, Any]:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


if __name__ == "__main__":
    main(sys.argv[1:])
