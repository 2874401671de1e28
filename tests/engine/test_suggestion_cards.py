"""Each kind of suggestion, once it is followed: the program is made, and the figure is better."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engine.in_process import ALL_SAMPLES, CALIBRATED, project, without
from workbench.analysis.ranges import HISTOGRAMS
from workbench.deploy.fitting import Demand, Fit
from workbench.graph.snapshot import GraphSnapshot
from workbench.project import edits
from workbench.project.configs import Activation, Observer, QuantConfig
from workbench.project.model import DataSource, Evaluation, Project
from workbench.results import GRAPH_FILE, load_arrays
from workbench.suggestions import KINDS, Figures, Measurements, further, suggest
from workbench.suggestions.accuracy import Spared
from workbench.suggestions.granularity import CoarserUnit
from workbench.targets.ethos_u.rewrites import STRIDES

pytestmark = [pytest.mark.engine, pytest.mark.slow]
FILE = Path(__file__).with_name("card_networks.py")
OUTLIERS = DataSource(spec=f"{FILE.name}:outliers")
JOINED = {
    "calibration": DataSource(spec="joining_networks.py:samples"),
    "evaluation": Evaluation(hold_out=False),
}
UNCLAMPED = without(project("corrected_networks.py:joined"), "keep_relu_clamps")
LARGEST = QuantConfig(activation=Activation(observer=Observer(kind="minmax")))
NO_ROOM = Fit(
    board="small", fillings=(), homeless=(Demand(what="scratch pool", bytes=1, kinds=(), origin="Vela"),)
)
SPARED = (
    Spared("model", "node_target", ("aten.conv2d.default", "aten.add.Tensor", "aten.sub.Tensor"), 6.0, 8),
)
COARSER = tuple(
    CoarserUnit(name, "module_name", (name,), noise, -1.0, None)
    for name, noise in (("layers.0", 9.0), ("layers.2", 0.01))
)


def card_network(name, config="a8w8", **fields):
    return project(f"{FILE.name}:{name}", config, **fields)


def joining(name):
    return project(f"joining_networks.py:{name}", **JOINED)


@dataclass(frozen=True)
class Card:
    """A project that gets a suggestion of a kind, and the figure that becomes better with it.

    Attributes:
        kind: The kind.
        before: The project.
        better: Returns a figure of a program, of which less is better.
        known: What studies and the board say.
        after: The project where the source is to be changed; else that of the suggestion's edit.
        from_trial: Whether the trial of a suggestion of this kind gives the suggestion.
    """

    kind: str
    before: Project
    better: Callable
    known: dict
    after: Project | None = None
    from_trial: str = ""


def on_cpu(engine, made):
    return len(engine.result(made, "lower").cpu_nodes)


def cycles(engine, made):
    return sum(report.cycles_total for report in engine.result(made, "lower").vela)


def stored(engine, made):
    return engine.result(made, "lower").pte_bytes


def sram(engine, made):
    return max(report.sram_bytes for report in engine.result(made, "lower").vela)


def noise(engine, made):
    return -Figures(engine.result(made, "evaluate"), engine.result(made, "lower")).worst_db(None)


def differing(engine, made):
    return engine.result(made, "verify").max_lsb


def ruled(*rules):
    made = project("small", **CALIBRATED)
    for rule in rules:
        made = edits.assign(made, *rule)
    return made


def card(kind, before, better, after=None, from_trial="", **known):
    return Card(kind, before, better, known, after, from_trial)


CARDS = [
    card(
        "mend", without(project("corrected_networks.py:joined"), "keep_relu_clamps"), differing, departs=True
    ),
    card("optimise_size", card_network("deep"), sram, fit=NO_ROOM),
    card("split_output", joining("boxes_and_scores"), noise),
    card("normalise_output", joining("boxes_and_scores"), noise),
    card("wide_output", card_network("offset_output"), noise),
    card("wide_ends", ruled(("module_name", "fc", "a16w8")), noise),
    card("equalize_joins", joining("unlike_branches"), noise),
    card("wide_join", joining("unlike_channels"), noise),
    card("off", ruled(("module_name", "conv", "cpu")), on_cpu),
    card("correction", without(project("wide_networks.py:gru_cell"), "written_out_cells"), on_cpu),
    card("float", ruled(("module_name", "fc", "float")), on_cpu),
    card("int16", project("attending", "a16w8"), on_cpu),
    card("magnitudes", project("spectral"), on_cpu),
    card("integer_io", project("small", **ALL_SAMPLES), on_cpu),
    card("faster", without(card_network("strided"), STRIDES), cycles),
    card("per_tensor", card_network("heavy"), stored),
    card("per_tensor_modules", card_network("heavy"), stored, from_trial="per_tensor", coarser=COARSER),
    card("channels_last", project("module6"), cycles, after=project("channels_last")),
    card(
        "channels",
        project("wide_networks.py:seventeen_channels"),
        cycles,
        after=project("wide_networks.py:sixteen_channels"),
    ),
    card("wide", card_network("offset_output"), noise, spared=SPARED),
    card("clip", card_network("pictures", LARGEST, calibration=OUTLIERS), noise),
]


def offered(engine, made, known):
    """Return the suggestions for a project that was run."""
    folder = engine.path(made, "calibrate")
    graphs = [GraphSnapshot.load(engine.path(made, stage) / GRAPH_FILE) for stage in ("export", "lower")]
    measured = Measurements(
        exported=engine.result(made, "export"),
        evaluated=engine.result(made, "evaluate"),
        prepared=engine.result(made, "prepare"),
        calibrated=engine.result(made, "calibrate"),
        arrays=load_arrays(folder, HISTOGRAMS),
        **known,
    )
    return suggest(made, engine.result(made, "lower"), *graphs, measured)


def found(engine, made, card):
    """Return the first suggestion of the card's kind."""
    kind = card.from_trial or card.kind
    first = next(each for each in offered(engine, made, card.known) if each.kind == kind)
    if not card.from_trial:
        return first
    assert engine.run(first.edit(made), "package") == "done", engine.failure
    figures = [
        Figures(engine.result(each, "evaluate"), engine.result(each, "lower"))
        for each in (made, first.edit(made))
    ]
    return further(first, *figures)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.kind)
def test_that_a_suggestion_that_is_followed_does_what_it_promises(engine, card):
    for path in (FILE, FILE.with_name("corrected_networks.py")):
        shutil.copy(path, engine.folder)
    assert engine.run(card.before, "package") == "done", engine.failure
    suggestion = found(engine, card.before, card)
    assert suggestion.kind == card.kind
    after = card.after or suggestion.edit(card.before)
    assert bool(suggestion.edit) != bool(suggestion.written)
    assert engine.run(after, "package") == "done", engine.failure
    assert card.better(engine, after) < card.better(engine, card.before)


def test_that_every_kind_of_suggestion_is_followed():
    assert [card.kind for card in CARDS] == [kind.id for kind in KINDS]
