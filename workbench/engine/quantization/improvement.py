"""Improvers: changes of the float weights that make them easier to quantize (IMPROVERS)."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

import torch

from workbench.engine.evaluation.measures import tensors_of
from workbench.engine.fx import programs
from workbench.engine.quantization.activation_scales import scale_by_activations
from workbench.engine.quantization.layer_walk import Change, Walk
from workbench.engine.quantization.rounding import CLIPS, DAMPINGS, Problem, learned, second_order
from workbench.engine.quantization.weight_transforms import equalize, left_alone, smooth
from workbench.errors import Place, failure
from workbench.project.configs import FEWEST_SAMPLES, IMPROVERS, Improver
from workbench.results import Improvement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torch import fx

    from workbench.engine.quantization.layer_walk import Trial, WalkedLayer
    from workbench.project.configs import ImproverId, Improving

    Inputs = tuple[torch.Tensor, ...]
    Ranges = dict[str, tuple[float, float]]
    MakeTrial = Callable[[fx.GraphModule, Sequence[Inputs], Ranges], Trial]

_HELD_OUT_EVERY, _FEWEST_TO_HOLD_OUT = 5, 20
_CALIBRATED = 64
# Values of all samples that a walk may keep at once [bytes], and how many nodes are alive.
_MEMORY, _ALIVE = 1.5e9, 8
# A channel's scale changes by this factor at most.
_MOST = 2.0
_TINY = 1e-12
# A range of weights is clipped where the error falls to this share.
_WORTH_IT = 0.8


class _TimeIsUpError(Exception):
    """The time limit was reached."""


@dataclass
class Improved:
    """What improvers did; ``ranges`` are those of activations, by node of the float program."""

    improvements: list[Improvement] = field(default_factory=list)
    ranges: Ranges = field(default_factory=dict)


def improve(
    module: fx.GraphModule,
    improvers: Iterable[ImproverId],
    samples: Callable[[], Sequence[Inputs]],
    trial: MakeTrial,
    settings: Improving,
    progress: Callable[[int, int | None, str], None],
) -> Improved:
    """Apply improvers to a float module in place, in the order of the table.

    Args:
        module: Float program as a module; its weights must not be shared.
        improvers: Ids of improvers.
        samples: Returns calibration inputs.
        trial: Quantizes a module for a trial: calibrated on samples, with ranges by node.
        settings: Seed, time limit and number of samples.
        progress: Called with steps done, all steps and a message; may raise.

    Raises:
        WorkbenchError: two improvers exclude each other, or there are too few samples.
    """
    chosen = [improver for improver in IMPROVERS if improver.id in set(improvers)]
    _refuse_both(chosen)
    data = list(samples())
    for improver in chosen:
        _refuse_few(improver, len(data))
    work = _Work(module, data, trial, settings, progress)
    work.rounds = any(improver.rounds for improver in chosen)
    for improver in chosen:
        work.apply(improver)
    return work.done


def _refuse_both(chosen: Sequence[Improver]) -> None:
    rounding = [improver.title for improver in chosen if improver.rounds]
    if len(rounding) > 1:
        raise failure(
            f"{' and '.join(rounding)} both choose the rounding of the weights.",
            "Switch one of them off.",
            Place(kind="option", id="improvers"),
            code="improvers-exclude-each-other",
        )


def _refuse_few(improver: Improver, count: int) -> None:
    if count < improver.fewest:
        raise failure(
            f"{improver.title} needs at least {improver.fewest} calibration samples; there "
            f"{'is' if count == 1 else 'are'} {count}.",
            "Add calibration data, or switch it off.",
            Place(kind="option", id="calibration"),
            code="improvers-too-few-samples",
        )


@dataclass(frozen=True)
class _State:
    """What improvers change: weights, ranges, the module with the wanted outputs, and a trial."""

    values: dict[str, torch.Tensor]
    ranges: Ranges
    reference: fx.GraphModule
    trial: Trial | None
    quality: float | None


class _Work:
    """The state between improvers: the module, its data, the float outputs and the latest trial.

    ``rounds`` is whether a later improver chooses the rounding of the weights.
    """

    rounds = False

    def __init__(
        self,
        module: fx.GraphModule,
        data: Sequence[Inputs],
        trial: MakeTrial,
        settings: Improving,
        progress: Callable[[int, int | None, str], None],
    ) -> None:
        self._module, self._new_trial = module, trial
        self._progress, self._limit = progress, settings.time_limit_s
        self._begun = time.monotonic()
        self.done = Improved()
        splits = len(data) >= _FEWEST_TO_HOLD_OUT
        self._held = list(data[::_HELD_OUT_EVERY]) if splits else []
        self._used = [s for i, s in enumerate(data) if i % _HELD_OUT_EVERY or not splits]
        self._reference = _without_writes(module)
        with torch.no_grad():
            self._targets = [tensors_of(self._reference(*sample)) for sample in self._held]
        self._trial: Trial | None = None
        self._quality: float | None = None
        self._unclipped: _State | None = None
        self._now: tuple[int, int | None, str] = (0, None, "")

    def apply(self, improver: Improver) -> None:
        """Apply one improver, unless it lowers the quality on held-out samples."""
        if self._is_over():
            self._add(improver, 0, self._stopped())
            return
        is_measured = improver.needs_data or bool(self._held)
        if is_measured and self._trial is None:
            self._measure()
        before = self._state()
        places, left = self._perform(improver)
        self._trial = None
        if is_measured:
            self._measure()
        self._add(improver, places, left, before.quality)
        if improver.id == "clips" and self.rounds:
            # Its weights are for the rounding, with which it is judged.
            self._unclipped = before
        elif improver.rounds and self._unclipped is not None:
            self._judge_clips(improver, self._unclipped)
        elif self._is_worse_than(before):
            self._leave_out(before)

    def _judge_clips(self, improver: Improver, unclipped: _State) -> None:
        """Round without clips too, and keep what is better on held-out samples, if anything."""
        if not self._held or self._is_over():
            return
        clipped, rounded = self._state(), self.done.improvements.pop()
        self._restore(unclipped)
        places, left = self._perform(improver)
        self._measure()
        if self._is_worse_than(clipped):
            self._restore(clipped)
            self.done.improvements.append(rounded)
        else:
            clips = self.done.improvements.pop()
            self.done.improvements.append(
                clips.model_copy(
                    update={"before_db": self._quality, "after_db": clipped.quality, "kept": False}
                )
            )
            self._add(improver, places, left, unclipped.quality)
        if self._is_worse_than(unclipped):
            self._leave_out(unclipped, 2)

    def _is_worse_than(self, state: _State) -> bool:
        if not self._held or self._quality is None or state.quality is None:
            return False
        return self._quality < state.quality

    def _leave_out(self, before: _State, count: int = 1) -> None:
        """Undo the latest improvers, and say so."""
        self._restore(before)
        done = self.done.improvements
        done[-count:] = [undone.model_copy(update={"kept": False}) for undone in done[-count:]]

    def _state(self) -> _State:
        values = {name: value.detach().clone() for name, value in _constants(self._module)}
        return _State(values, dict(self.done.ranges), self._reference, self._trial, self._quality)

    def _restore(self, state: _State) -> None:
        for name, value in _constants(self._module):
            value.data.copy_(state.values[name])
        self.done.ranges = dict(state.ranges)
        self._reference, self._trial, self._quality = state.reference, state.trial, state.quality

    def _perform(self, improver: Improver) -> tuple[int, str]:
        """Return the number of places and what was left alone."""
        match improver.id:
            case "equalize":
                places, left = equalize(self._module), left_alone(self._module)
            case "smooth":
                places, left = smooth(self._module, self._used), ""
            case "scales":
                places, left = self._scale()
            case "clips":
                places, left = self._walk(
                    improver, lambda walked: clip_weights(walked, rounds=self.rounds), with_ranges=True
                )
            case "gptq":
                places, left = self._walk(improver, round_by_second_order)
            case "rounding":
                places, left = self._walk(improver, lambda walked: learn_rounding(walked, self._check))
            case "bias":
                places, left = self._walk(improver, correct_bias)
            case "norms":
                places, left = self._walk(improver, restore_statistics)
            case _:
                assert_never(improver.id)
        if not improver.by_layer:
            self._reference = _without_writes(self._module)
        return places, left

    def _scale(self) -> tuple[int, str]:
        walk = self._new_walk("activation-aware scales")
        try:
            places = scale_by_activations(self._module, walk)
        except _TimeIsUpError:
            return 0, self._stopped()
        self._reference = _without_writes(self._module)
        return places, _left(walk)

    def _walk(
        self, improver: Improver, visit: Callable[[WalkedLayer], Change], *, with_ranges: bool = False
    ) -> tuple[int, str]:
        walk = self._new_walk(improver.title.lower())
        stopped = ""
        try:
            walk.run(visit, with_ranges=with_ranges)
        except _TimeIsUpError:
            stopped = self._stopped()
        self.done.ranges |= walk.ranges
        return walk.changed, " ".join(filter(None, (_left(walk), stopped)))

    def _new_walk(self, message: str) -> Walk:
        def check(done: int, total: int) -> None:
            self._now = (done, total, message)
            self._check()

        assert self._trial is not None
        samples = self._used[: _affordable(self._module)]
        return Walk(self._trial, self._module, self._reference, samples, check)

    def _check(self) -> None:
        self._progress(*self._now)
        if self._is_over():
            raise _TimeIsUpError

    def _is_over(self) -> bool:
        return self._limit is not None and time.monotonic() - self._begun > self._limit

    def _stopped(self) -> str:
        return f"Stopped at the time limit of {self._limit} s; later layers were not reached."

    def _measure(self) -> None:
        """Quantize the module as it is now; measure it on held-out samples, if there are any."""
        self._progress(0, None, "measuring")
        used = self._used[:_CALIBRATED]
        self._trial = self._new_trial(self._module, used, self.done.ranges)
        self._quality = self._trial.noise(self._targets, self._held).sqnr_db

    def _add(self, improver: Improver, places: int, left: str, before: float | None = None) -> None:
        is_measured = before is not None and bool(self._held)
        self.done.improvements.append(
            Improvement(
                improver=improver.id,
                places=places,
                left=left,
                held_out=len(self._held) if is_measured else 0,
                before_db=before if is_measured else None,
                after_db=self._quality if is_measured else None,
            )
        )


def _constants(module: fx.GraphModule) -> list[tuple[str, torch.Tensor]]:
    return [*module.named_parameters(), *module.named_buffers()]


def _without_writes(module: fx.GraphModule) -> fx.GraphModule:
    """Return a copy in which no operator writes into its input."""
    copied = copy.deepcopy(module)
    programs.write_nowhere(copied)
    return copied


def _affordable(module: fx.GraphModule) -> int:
    """Return how many samples a walk can keep in memory."""
    values = [node.meta.get("val") for node in module.graph.nodes if node.op == "call_function"]
    sizes = [value.numel() * 4 for value in values if isinstance(value, torch.Tensor)]
    return max(FEWEST_SAMPLES, int(_MEMORY / (_ALIVE * max(sizes, default=1))))


def _left(walk: Walk) -> str:
    """Return a sentence on each kind of layer that was left alone."""
    kinds = (
        (walk.too_wide, "too many weights per output"),
        (walk.unused, "inputs that are zero on all samples, or not finite"),
        (walk.worse, "no gain on samples held back"),
    )
    return " ".join(
        f"{count} layer{'s' if count > 1 else ''} left as {'they are' if count > 1 else 'it is'}: {why}."
        for count, why in kinds
        if count
    )


def learn_rounding(walked: WalkedLayer, check: Callable[[], None]) -> Change:
    """Return the weights of learned rounding, with the biases that leave no mean error.

    Each output has the weights with the least error on held-back samples.
    """
    problem = _damped(walked)
    ways = torch.stack([integers * problem.scale for integers in learned(problem, check)])
    errors = torch.stack([walked.unseen_error(weight) for weight in ways])
    return _on_grid(walked, _by_row(ways, errors.argmin(0)))


def round_by_second_order(walked: WalkedLayer) -> Change:
    """Return the weights of GPTQ, with the biases that leave no mean error."""
    problem = _damped(walked)
    return _on_grid(walked, second_order(problem) * problem.scale)


def _damped(walked: WalkedLayer) -> Problem:
    """Return the choice of weights with the damping that serves held-back samples best."""
    problem = walked.problem()

    def error(damping: float) -> float:
        known = replace(problem, damping=damping)
        return float(walked.unseen_error(second_order(known) * known.scale).sum())

    return replace(problem, damping=min(DAMPINGS, key=error))


def _by_row(ways: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Return of several weights [n, g, o, d] those chosen for each output [g, o]."""
    index = chosen[None, ..., None].expand(1, *ways.shape[1:])
    return ways.gather(0, index)[0]


def _on_grid(walked: WalkedLayer, weight: torch.Tensor) -> Change:
    return Change(weight, walked.best_bias(weight))


def clip_weights(walked: WalkedLayer, *, rounds: bool) -> Change:
    """Return the weights cut off where the layer's output has the least error.

    The weights beyond a share of the range are clipped where this lowers the error of an output
    both on the samples that the rounding knows and on held-back ones; outputs with one grid have
    one share. The biases leave no mean error of the clipped weights.

    Args:
        walked: The layer.
        rounds: Whether the rounding of the weights is chosen later; they are rounded by GPTQ here.
    """
    problem = _damped(walked) if rounds else walked.problem()
    rounded_by = second_order if rounds else Problem.nearest
    scales = [problem.scale * share for share in CLIPS]
    ways = torch.stack([rounded_by(replace(problem, scale=scale)) * scale for scale in scales])
    known, unseen = (
        torch.stack([moments.error(weight, walked.best_bias(weight)) for weight in ways])
        for moments in (walked.moments, walked.held_back)
    )
    if walked.grid.per_tensor:
        known, unseen = (e.sum((1, 2), keepdim=True).expand_as(e) for e in (known, unseen))
    gains = (known < known[0]) & (unseen < unseen[0] * _WORTH_IT)
    chosen = torch.where(gains, unseen, torch.inf)
    chosen[0] = unseen[0]
    best = chosen.argmin(0)
    if not bool(best.any()):
        return Change(None, None)
    rounded = _by_row(ways, best)
    reach = _by_row(torch.stack(scales), best) * problem.limit
    weight = torch.minimum(torch.maximum(problem.weight, -reach), reach)
    return Change(weight, walked.best_bias(rounded), rounded)


def correct_bias(walked: WalkedLayer) -> Change:
    """Return the biases without the mean error of rounded weights, channel by channel.

    The error of rounded activations stays: the compiled program may have other ones, as rewrites
    of the float graph join and split layers.
    Source: Nagel et al. 2019, Data-Free Quantization, section 4.2, with means of the data.
    """
    if walked.float_bias is None:
        return Change(None, None)
    error = (walked.rounded - walked.float_weight) @ walked.moments.inputs[..., None]
    return Change(None, walked.float_bias - error[..., 0])


def restore_statistics(walked: WalkedLayer) -> Change:
    """Return channel scales and biases that restore mean and variance of the layer's outputs.

    The batch norm after a quantized layer is re-estimated on the quantized program and folded
    again: y' = (y - mean) sqrt(variance of float / variance) + mean of float, by channel. Weights
    with one grid per channel keep their integers, since the grid is scaled; layers with one grid
    per tensor get the means only.
    Source: Nagel et al. 2021, A White Paper on Neural Network Quantization, section 5.2 (batch-norm
    re-estimation), with targets from the float program.
    """
    moments, rounded = walked.moments, walked.rounded
    if walked.grid.per_tensor:
        return correct_bias(walked)
    power = ((rounded @ moments.gram) * rounded).sum(-1)
    factor = (moments.power.clamp_min(0.0) / power.clamp_min(_TINY)).sqrt()
    factor = torch.where(power > _TINY, factor.clamp(1.0 / _MOST, _MOST), 1.0)
    weight = rounded * factor[..., None]
    return Change(weight, walked.best_bias(weight))
