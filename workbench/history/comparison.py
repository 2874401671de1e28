"""Comparison of runs: the Pareto front, and the differences of two runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.analysis.ranges import METHOD_TITLES
from workbench.errors import WorkbenchError
from workbench.history.runs import Run
from workbench.project.model import name_of
from workbench.results import OUTSIDE_MODULES, LowerResult, load_result
from workbench.targets import target_of
from workbench.text import signed

if TYPE_CHECKING:
    from pydantic import JsonValue

    from workbench.history.runs import Run
    from workbench.pipeline.cache import Cache
    from workbench.project.model import Compression, Rule, TargetChoice


Point = tuple[float, float, float]


def pareto_front(points: Sequence[Point | None]) -> set[int]:
    """Return the indices of the points that no other point dominates.

    A point is (accuracy, cycles, SRAM): higher accuracy is better, lower cycles and SRAM. A point
    dominates another if it is nowhere worse and somewhere better. None is not a point.
    """
    known = {index: point for index, point in enumerate(points) if point is not None}
    return {
        index for index, point in known.items() if not any(_beats(other, point) for other in known.values())
    }


def _beats(a: Point, b: Point) -> bool:
    return a[0] >= b[0] and a[1] <= b[1] and a[2] <= b[2] and a != b


def point_of(run: Run) -> Point | None:
    """Return a run as a point; None if its cost or accuracy is unknown."""
    if run.cost is None or run.accuracy is None:
        return None
    return run.accuracy, float(run.cost.cycles), float(run.cost.sram_bytes)


def front_of(runs: Iterable[Run]) -> set[int]:
    """Return the numbers of the runs on the Pareto front.

    Only runs with the newest run's kind of accuracy, data, estimator and clock are compared, and
    of these only those with the fewest CPU operators, which Vela's cycles do not include.
    """
    listed = list(runs)
    ranked = [run for run in listed if point_of(run) is not None]
    basis = _basis(ranked[-1]) if ranked else None
    comparable = [run for run in ranked if _basis(run) == basis and has_same_clock(run, ranked[-1])]
    fewest = min((run.cost.cpu_nodes for run in comparable if run.cost is not None), default=0)
    best = [run for run in comparable if run.cost is not None and run.cost.cpu_nodes == fewest]
    return {best[index].number for index in pareto_front([point_of(run) for run in best])}


def _basis(run: Run) -> tuple[str, str, str]:
    """Return what two runs must share for their figures to be ranked."""
    estimator = run.cost.vela_version if run.cost is not None else ""
    return run.accuracy_name, run.quality.data, estimator


def has_same_clock(a: Run, b: Run) -> bool:
    """Return whether the cycles of two runs take the same time, as far as that is known."""
    return a.cost is None or b.cost is None or a.cost.has_clock_of(b.cost)


def newest_accuracy(runs: Sequence[Run]) -> str:
    """Return the kind of accuracy of the newest run that has one; "" if none has."""
    return next((run.accuracy_name for run in reversed(runs) if run.accuracy is not None), "")


@dataclass(frozen=True)
class Change:
    """One difference: its name, and the values in the first and second run."""

    what: str
    before: str
    after: str


@dataclass(frozen=True)
class Difference:
    """The differences of the second run from the first."""

    rules: tuple[Change, ...]
    settings: tuple[Change, ...]
    figures: tuple[Change, ...]
    layers: tuple[Change, ...]
    versions: tuple[Change, ...]

    @property
    def parts(self) -> dict[str, tuple[Change, ...]]:
        """The parts by name."""
        return {
            "rules": self.rules,
            "settings": self.settings,
            "figures": self.figures,
            "layers": self.layers,
            "versions": self.versions,
        }


def difference(a: Run, b: Run, least_db: float = 0.05) -> Difference:
    """Return the differences of two runs; layers by change of SQNR, largest first.

    Args:
        a: The first run.
        b: The second run.
        least_db: Layers with a smaller change are omitted [dB].
    """
    return Difference(
        rules=tuple(changes(facts_of_rules(a), facts_of_rules(b))),
        settings=tuple(_settings(a, b)),
        figures=tuple(changes(_figures(a), _figures(b))),
        layers=tuple(_layers(a, b, least_db)),
        versions=tuple(changes(a.versions, b.versions)),
    )


def rule_name(rule: Rule) -> str:
    """Return the display name of a rule's match."""
    if rule.kind == "global":
        return "everything"
    if rule.kind == "io":
        return "inputs and outputs"
    return "a plug-in's quantizer" if rule.kind == "quantizer" else name_of(rule.match)


def config_name(rule: Rule) -> str:
    """Return the short name of a rule's config."""
    return name_of(rule.config)


def rules_line(run: Run) -> str:
    """Return a run's rules in one line: the global rule, then the differences."""
    enabled = [rule for rule in run.rules if rule.enabled]
    general = [config_name(r) for r in enabled if _is_general(r)][-1:] or ["float"]
    rest = [f"{rule_name(r)}: {config_name(r)}" for r in enabled if not _is_general(r)]
    taken = [f"{METHOD_TITLES[m.method]} for {m.scope_text}" for m in run.range_methods]
    trained = ["trained"] if run.trained_weights else []
    fixed = len(run.ranges)
    taken += [f"{fixed} fixed range{'s' if fixed != 1 else ''}"] if fixed else []
    sizes = [size_line(entry) for entry in run.compressions]
    return ", ".join([*general, *rest, *run.improvers, *sizes, *trained, *taken])


def size_line(entry: Compression) -> str:
    """Return a compression in a few words, e.g. "stem.conv: 12 channels, 16 weights"."""
    channels = f"{entry.channels} channels" if entry.channels is not None else ""
    clusters = f"{entry.clusters} weights" if entry.clusters is not None else ""
    return f"{entry.module or 'all'}: {', '.join(filter(None, (channels, clusters)))}"


def _is_general(rule: Rule) -> bool:
    return rule.kind == "global" and not rule.keeps_off


def facts_of_rules(run: Run) -> dict[str, str]:
    """Return what decides the precision of a run: configs and more by what they apply to."""
    enabled = [rule for rule in run.rules if rule.enabled]
    facts = {rule_name(r): config_name(r) for r in enabled if not r.keeps_off}
    facts |= {f"{rule_name(r)}, off the NPU": "on" for r in enabled if r.keeps_off}
    facts |= {f"improver {name}": "on" for name in run.improvers}
    if run.improvers:
        settings = run.improving.model_dump().items()
        facts |= {f"improvers, {name.replace('_', ' ')}": str(value) for name, value in settings}
    facts |= {f"size of {c.module or 'all'}": size_line(c) for c in run.compressions}
    facts |= {"weights": run.trained_weights} if run.trained_weights else {}
    split = ", ".join(map(str, run.split_outputs))
    facts |= {"split outputs": split} if split else {}
    facts |= {
        f"factors of output {index}": ", ".join(f"{factor:g}" for factor in factors)
        for index, factors in enumerate(run.output_factors)
        if factors
    }
    facts |= {f"range of {m.scope_text}": METHOD_TITLES[m.method] for m in run.range_methods}
    return facts | {f"range of {r.tensor}": f"{r.minimum:g} to {r.maximum:g}" for r in run.ranges}


def facts_of_settings(run: Run) -> dict[str, str]:
    """Return what else decides the figures of a run: the target's options, and the model.

    The history has no name of a model: what it and its weights were is a digest.
    """
    titles = _option_titles(run.target)
    options = run.target.options.items()
    facts = {titles.get(name, name.replace("_", " ")): _option(value) for name, value in options}
    return facts | {_MODEL: run.digests.get("import_model", "")[:8]}


def _option_titles(choice: TargetChoice) -> dict[str, str]:
    """Return what the options of a target are called; nothing for a target of other releases."""
    try:
        return {option.name: option.title for option in target_of(choice.id).options(choice)}
    except WorkbenchError:
        return {}


_MODEL = "model and weights"
_OTHER_MODEL = "another model"


def _settings(a: Run, b: Run) -> list[Change]:
    """Return the changed settings; other releases of the tools give the same model another digest."""
    listed = changes(facts_of_settings(a), facts_of_settings(b))
    return [change for change in listed if change.what != _MODEL or a.versions == b.versions]


def is_same_model(a: Run, b: Run) -> bool:
    """Return whether two runs are of one model with its weights, as far as that is known."""
    return all(change.what != _MODEL or "" in (change.before, change.after) for change in _settings(a, b))


def _option(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "" if value is None else str(value)


# The answers of a run in a word.
CORRECT = {"right": "yes", "differs": "no"}
ACCURATE = {"accurate enough": "yes", "low accuracy": "low", "not accurate enough": "no"}


def _figures(run: Run) -> dict[str, str]:
    quality, cost = run.quality, run.cost
    facts = {
        "target": run.target.id,
        "SQNR": "" if quality.sqnr_db is None else f"{quality.sqnr_db:.2f} dB",
        "cosine": _number(quality.cosine),
        "top-1": _percent(quality.top1),
    }
    if quality.perplexity is not None:
        facts["perplexity"] = _number(quality.perplexity)
        facts["KL divergence"] = _number(quality.divergence, " nats")
    if quality.metric_name:
        facts[quality.metric_name] = _number(quality.metric)
    if cost is not None:
        facts[_CYCLES] = f"{cost.cycles:,}"
        facts["time"] = "" if cost.inference_ms is None else f"{cost.inference_ms:.4g} ms"
        facts["SRAM"] = _kib(cost.sram_bytes)
        facts["constants"] = _kib(cost.flash_bytes)
        facts["CPU ops"] = str(cost.cpu_nodes)
        facts["CPU cycles, rough"] = f"{cost.cpu_cycles:,}" if cost.cpu_cycles else ""
    if run.gate is not None:
        facts["correct"] = CORRECT.get(run.gate.verdict, run.gate.verdict)
    if run.accuracy_result is not None:
        verdict = run.accuracy_result.verdict
        facts["accurate"] = ACCURATE.get(verdict, verdict)
    if run.simulated is not None:
        facts["measured cycles"] = _number(run.simulated.cycles)
        facts["simulator"] = f"{run.simulated.simulator} {run.simulated.version}".strip()
        facts["equal to TOSA"] = _percent(run.simulated.exact)
        facts["max LSB on the simulator"] = str(run.simulated.max_lsb)
    return facts


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f} %"


def _kib(number: int) -> str:
    return f"{number / 1024:,.1f} KiB"


def _number(value: float | None, unit: str = "") -> str:
    return "" if value is None else f"{value:.6g}{unit}"


def changes(a: Mapping[str, str], b: Mapping[str, str]) -> list[Change]:
    """Return the names whose values differ; an absent value is ""."""
    names = [*a, *(name for name in b if name not in a)]
    return [
        Change(name, a.get(name, ""), b.get(name, "")) for name in names if a.get(name, "") != b.get(name, "")
    ]


def _layers(a: Run, b: Run, least_db: float) -> list[Change]:
    before = {layer.tensor: layer.sqnr_db for layer in a.layers}
    moved = []
    for layer in b.layers:
        old, new = before.get(layer.tensor), layer.sqnr_db
        if old is not None and new is not None and abs(new - old) >= least_db:
            change = Change(layer.tensor, f"{old:.2f} dB", f"{new:.2f} dB")
            moved.append((abs(new - old), change))
    return [change for _, change in sorted(moved, key=lambda ranked: -ranked[0])]


@dataclass(frozen=True)
class ComparedRow:
    """One difference of several runs: its kind, name, value in each run, and the change.

    ``change`` is that of the last run from the first; "" if it is no number. ``is_better`` is whether
    it is an improvement; None if it is neither that nor a loss.
    """

    kind: str
    what: str
    values: tuple[str, ...]
    change: str
    is_better: bool | None = None


# What the estimated cycles are called, which are not ranked where two releases of Vela made them.
_CYCLES = "cycles"
# The kinds of differences, in the order in which they are shown: what was changed comes last.
KINDS = {
    "figures": "Figure",
    "rules": "Rule",
    "settings": "Setting",
    "modules": "Module",
    "layers": "Layer",
    "versions": "Version",
}


# Figures that are better where they are larger, and where they are smaller.
_GROWING = frozenset({"SQNR", "cosine", "top-1", "equal to TOSA"})
_SHRINKING = frozenset(
    {
        _CYCLES,
        "time",
        "SRAM",
        "constants",
        "CPU ops",
        "CPU cycles, rough",
        "measured cycles",
        "perplexity",
        "KL divergence",
        "max LSB on the simulator",
    }
)
# What is told of figures that no run changes.
EQUAL = "equal"


def compared(
    runs: Sequence[Run], cache: Cache | None = None, *, equal_figures: bool = False
) -> list[ComparedRow]:
    """Return the differences of two or more runs; rows in which no run differs are left out.

    Args:
        runs: The runs, at least two. Each is compared with the first.
        cache: Where their compiled programs are; without it modules are not compared.
        equal_figures: Whether figures that are known and equal in all runs are rows too.
    """
    first, *others = runs
    lowered = [lowered_of(run, cache) if cache is not None else None for run in runs]
    rows: dict[tuple[str, str], dict[int, Change]] = {}
    for number, run in enumerate(others, 1):
        parts = dict(difference(first, run).parts)
        old, new = lowered[0], lowered[number]
        if old is not None and new is not None:
            parts["modules"] = tuple(module_changes(old, new))
        for kind, differences in parts.items():
            for change in differences:
                rows.setdefault((kind, change.what), {})[number] = change
    listed = []
    for (kind, what), changed in rows.items():
        before = next(iter(changed.values())).before
        values = [before]
        values += [changed[number].after if number in changed else before for number in range(1, len(runs))]
        is_ranked = what != _CYCLES or not estimate_warning(first, runs[-1])
        moved = change_text(values[0], values[-1]) if is_ranked else ""
        # Fewer cycles of a slower clock are no gain.
        is_judged = (kind != "modules" and what != _CYCLES) or has_same_clock(first, runs[-1])
        grows = _grows(kind, what, first) if is_judged else None
        listed.append(ComparedRow(KINDS[kind], what, tuple(values), moved, _is_better(moved, grows)))
    if equal_figures:
        listed += _equal_figures(runs, {row.what for row in listed if row.kind == KINDS["figures"]})
    order, names = list(KINDS.values()), list(_figures(first))
    by_name = {name: number for number, name in enumerate(names)}
    return sorted(listed, key=lambda row: (order.index(row.kind), _figure_place(row, by_name)))


def _figure_place(row: ComparedRow, places: Mapping[str, int]) -> int:
    """Return the place of a figure among the figures; other rows keep their order."""
    return places.get(row.what, len(places)) if row.kind == KINDS["figures"] else 0


def _equal_figures(runs: Sequence[Run], differing: set[str]) -> list[ComparedRow]:
    return [
        ComparedRow(KINDS["figures"], what, (value,) * len(runs), EQUAL)
        for what, value in _figures(runs[0]).items()
        if value and what not in differing
    ]


def _grows(kind: str, what: str, run: Run) -> bool | None:
    """Return whether a larger figure is better; None if that is not known of it."""
    if kind in {"layers", "modules"}:
        return kind == "layers"
    if kind != "figures":
        return None
    if what in _GROWING or what == run.quality.metric_name:
        return True
    return False if what in _SHRINKING else None


def _is_better(change: str, grows: bool | None) -> bool | None:
    number = leading_number(change)
    return None if not number or grows is None else (number > 0) == grows


def change_text(before: str, after: str) -> str:
    """Return how much a figure changed, with its unit and share; "" if one of both is no number."""
    old, new = leading_number(before), leading_number(after)
    if old is None or new is None or old == new:
        return ""
    unit = after.partition(" ")[2].partition(",")[0]
    digits = max(min(6, len(text.partition(" ")[0].partition(".")[2])) for text in (before, after))
    change = f"{signed(new - old, digits)} {unit}".strip()
    is_relative = old > 0 and not before.endswith(("%", "dB"))
    percent = signed(100 * (new - old) / old, 1) if is_relative else ""
    share = f" ({percent} %)" if percent.strip("+\u22120.") else ""
    return f"{change}{share}"


def leading_number(text: str) -> float | None:
    """Return the number that a text begins with; None if it begins with none."""
    word = text.split(" ", maxsplit=1)[0].replace(",", "").replace("\u2212", "-")
    try:
        return float(word)
    except ValueError:
        return None


def run_title(run: Run, base: Run | None = None) -> str:
    """Return the name of a run: its number, and what its rules change of another run's.

    For example ``Run 3 (+a16w8 Conv2d)``.
    """
    if base is None or run.number == base.number:
        return f"Run {run.number}"
    parts = []
    for change in changes(facts_of_rules(base), facts_of_rules(run)):
        sign, value = ("+", change.after) if change.after else ("\u2212", change.before)
        parts.append(f"{sign}{value} {change.what}")
    words = _shortened([*parts, *_changed_settings(base, run)])
    return f"Run {run.number} ({words})" if words else f"Run {run.number}"


def settings_lines(runs: Sequence[Run]) -> list[str]:
    """Return what each run changes of the target of the first run with the same rules."""
    first: dict[str, Run] = {}
    lines = []
    for run in runs:
        words = _changed_settings(first.setdefault(rules_line(run), run), run)
        lines.append(_shortened([word for word in words if word != _OTHER_MODEL]))
    return lines


def _changed_settings(base: Run, run: Run) -> list[str]:
    target = [run.target.id] if run.target.id != base.target.id else []
    return target + [
        _OTHER_MODEL if change.what == _MODEL else f"{change.what} {change.after}".strip()
        for change in _settings(base, run)
    ]


def _shortened(parts: list[str]) -> str:
    more = f", {len(parts) - 2} more" if len(parts) > 2 else ""
    return f"{', '.join(parts[:2])}{more}"


@dataclass
class _Spent:
    """Cost of a module: estimated cycles, peak SRAM [bytes], and placement."""

    cycles: int = 0
    sram_bytes: int = 0
    on_npu: int = 0
    on_cpu: int = 0

    def __str__(self) -> str:
        parts = []
        if self.on_npu:
            parts.append(f"{self.cycles:,} cycles, {self.sram_bytes / 1024:,.1f} KiB of SRAM")
        if self.on_cpu:
            parts.append(f"{self.on_cpu} on the CPU")
        return ", ".join(parts)


def lowered_of(run: Run, cache: Cache) -> LowerResult | None:
    """Return the compiled program of a run; None if it is no longer in the cache."""
    key = run.digests.get("lower", "")
    if not key or not cache.has(key):
        return None
    try:
        return load_result(LowerResult, cache.folder(key))
    except WorkbenchError:
        return None


def module_changes(a: LowerResult, b: LowerResult) -> list[Change]:
    """Return the modules with changed cost or placement, by change of cycles, largest first.

    Cycles and SRAM are Vela's estimates; SRAM is the peak over the operations.
    """
    before, after = _spent(a), _spent(b)
    changed = []
    for module in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(module, _Spent()), after.get(module, _Spent())
        if old != new:
            change = Change(module or OUTSIDE_MODULES, str(old), str(new))
            changed.append((abs(new.cycles - old.cycles), change))
    return [change for _, change in sorted(changed, key=lambda ranked: -ranked[0])]


def estimate_warning(a: Run, b: Run) -> str:
    """Return a warning if the estimates of two runs come from different Vela versions."""
    if a.cost is None or b.cost is None or a.cost.vela_version == b.cost.vela_version:
        return ""
    return (
        f"Estimated by Vela {a.cost.vela_version} and {b.cost.vela_version}. "
        "Estimates of the versions differ by up to seven times for a single layer: "
        "compile both runs with one version to compare them."
    )


def _spent(lowered: LowerResult) -> dict[str, _Spent]:
    spent_by_module: dict[str, _Spent] = {}
    for report in lowered.vela:
        for operation in report.operations:
            spent = spent_by_module.setdefault(operation.module, _Spent())
            spent.cycles += operation.cycles
            spent.sram_bytes = max(spent.sram_bytes, operation.staging_bytes)
            spent.on_npu += 1
    for node in lowered.cpu_nodes:
        spent_by_module.setdefault(node.module, _Spent()).on_cpu += 1
    return spent_by_module
