"""Float against quantized at every tensor that exists in both programs."""

from __future__ import annotations

import copy
import math
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch
from torchao.quantization.pt2e import ObserverBase

from workbench.engine.calibration.statistics import hashes_of_prepared, value_hashes
from workbench.engine.evaluation.added_error import FloatOperations
from workbench.engine.evaluation.measures import TensorSums, tensors_of
from workbench.engine.evaluation.quick_modules import Tapped, quantized_module, tapped_float, tapped_quantized
from workbench.engine.evaluation.stateful_execution import Steps
from workbench.engine.fx import programs
from workbench.engine.fx.observers import branches_of
from workbench.engine.runtime.accelerated import acceleration
from workbench.results import TensorQuality

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from workbench.engine.data import Sample
    from workbench.engine.evaluation.measures import Accumulator
    from workbench.engine.evaluation.reference_outputs import FloatReference
    from workbench.engine.runtime.context import StageContext


# Operations are computed alone over so many samples: the error that they add varies little.
ALONE_SAMPLES = 4
# Suffix of a condition's name in the names of its branches' nodes.
_TAKEN = ("/true/", "/false/")


class Watched(torch.fx.Interpreter):
    """Runs a graph and reports the value of every operator; observers are skipped.

    The executed branch of a condition is included, with values named after its nodes. Loop bodies
    are not: both programs may iterate a different number of times.
    """

    def __init__(self, module: torch.fx.GraphModule, see: Callable[[str, torch.Tensor], None]) -> None:
        shown = module
        if any(map(programs.is_write, module.graph.nodes)):
            shown = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
            programs.write_nowhere(shown)
        super().__init__(shown)
        self._see = see
        self._names = {id(branch): name for name, branch in branches_of(shown)}

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run one node and report its value."""
        value = super().run_node(n)
        if n.op in {"call_function", "placeholder"} and isinstance(value, torch.Tensor):
            self._see(n.name, value)
        return value

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Report the values of the executed branch."""
        if target is not torch.ops.higher_order.cond:
            return super().call_function(target, args, kwargs)
        condition, *branches, operands = args
        taken = branches[0] if bool(condition) else branches[1]
        inside = self._names[id(taken)]
        return type(self)(taken, lambda name, value: self._see(f"{inside}{name}", value)).run(*operands)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Skip observers."""
        if isinstance(self.fetch_attr(str(target)), ObserverBase):
            return args[0]
        return super().call_module(target, args, kwargs)


def watched(steps: Steps, sample: Sample) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """Run a step; return its outputs and the values of all operators."""
    values: dict[str, torch.Tensor] = {}
    outputs = Watched(steps.module, values.__setitem__).run(*steps.inputs(sample))
    return steps.took(sample, tensors_of(outputs), values), values


def _shares(sums: Mapping[str, Accumulator]) -> dict[str, float]:
    """Return each tensor's ratio of noise to signal, divided by the sum of these ratios."""
    ratios = {name: s.noise / s.signal for name, s in sums.items() if s.signal > 0}
    total = sum(ratio for ratio in ratios.values() if math.isfinite(ratio))
    return {name: ratio / total for name, ratio in ratios.items()} if total > 0 else {}


class TensorComparison:
    """Accumulates over samples; the prepared graph is the float side, with the same names.

    ``quantized`` are the steps of the quantized side; a program with state continues from them.
    """

    def __init__(
        self,
        prepared: torch.fx.GraphModule,
        converted: torch.fx.GraphModule,
        make_quick: Callable[[], torch.fx.GraphModule] | None = None,
    ) -> None:
        """Compare two programs.

        Args:
            prepared: The float side.
            converted: The quantized side.
            make_quick: Returns a quicker module with the outputs of ``converted``, without state.
        """
        self._floating, self.quantized = Steps(prepared), Steps(converted)
        self._make_quick = make_quick
        names = nodes_by_name(converted)
        self._nodes = {
            name: node for name, node in nodes_by_name(prepared).items() if name in names and _compared(node)
        }
        self._steps = {name: _step(names[name]) for name in self._nodes}
        self._met: set[str] = set()
        self._stands_for = {seen_as(name, names[name]): name for name in self._nodes}
        self._sums = {name: TensorSums() for name in self._nodes}
        self._operations = FloatOperations(prepared, self._nodes)
        inputs = self._operations.inputs_of(self._nodes) - self._nodes.keys()
        self._visible = {name: seen for seen, name in self._stands_for.items()}
        self._visible |= {name: seen_as(name, names[name]) for name in inputs if name in names}

    def close(self) -> None:
        """Restore the buffers of both programs."""
        self._floating.close()
        self.quantized.close()

    def add(self, index: int, sample: Sample) -> list[torch.Tensor]:
        """Run both sides on the sample at ``index``; return the outputs of the quantized side."""
        floats = self._floats(index, sample)
        outputs, values = self._quantized(sample)
        wanted = list(self._stands_for.values())
        quantized = {name: values[seen] for name, seen in self._visible.items() if seen in values}
        alone: dict[str, torch.Tensor] = {}
        if index < ALONE_SAMPLES:
            alone = self._operations.outputs(wanted, quantized)
            alone |= {n: floats[n] for n in self._operations.program_inputs & floats.keys()}
        for name in wanted:
            reference, value = floats.pop(name, None), quantized.get(name)
            if reference is not None and value is not None and reference.shape == value.shape:
                self._sums[name].add(reference, value, alone.get(name))
                self._met.add(name)
        return outputs

    def outputs(self, sample: Sample) -> list[torch.Tensor]:
        """Return the outputs of the quantized side for the next sample; nothing is compared."""
        if self.quantized.remembers:
            return self.quantized(sample)
        return tensors_of(self._quick(*sample.inputs))

    @cached_property
    def _quick(self) -> torch.fx.GraphModule:
        return self._make_quick() if self._make_quick is not None else self.quantized.module

    def _floats(self, index: int, sample: Sample) -> dict[str, torch.Tensor]:
        """Return the compared values of the float side."""
        del index
        values = watched(self._floating, sample)[1]
        return {name: values[name] for name in self._sums if name in values}

    def _quantized(self, sample: Sample) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
        """Return the outputs and the compared values of the quantized side."""
        return watched(self.quantized, sample)

    def result(self) -> Iterator[TensorQuality]:
        """Yield the figures in execution order."""
        shares = _shares({name: sums.total for name, sums in self._sums.items()})
        added_shares = _shares({n: s.added for n, s in self._sums.items() if s.added is not None})
        for name, node in self._nodes.items():
            sums, added = self._sums[name].total, self._sums[name].added
            if "/" in name and name not in self._met:
                # No sample executed that branch in both programs.
                continue
            yield TensorQuality(
                tensor=name,
                module=programs.module_of(node),
                op=programs.op_of(node),
                sqnr_db=sums.sqnr_db,
                cosine=sums.cosine,
                max_abs_error=sums.worst,
                error_share=shares.get(name),
                added_sqnr_db=added.sqnr_db if added is not None else None,
                added_share=added_shares.get(name),
                step=self._steps[name],
                **self._sums[name].of_values(),
            )


class QuickComparison(TensorComparison):
    """The same figures from compiled graphs, with float values from earlier runs.

    For programs without state only, since steps are skipped. Exact for the reasons given with the
    toolchain patches for evaluation and statistics.
    """

    def __init__(
        self,
        prepared: torch.fx.GraphModule,
        converted: torch.fx.GraphModule,
        hashes: Mapping[str, str],
        reference: FloatReference,
    ) -> None:
        """Compute the hash of every value of the prepared module; use stored values."""
        super().__init__(prepared, converted)
        self._hashes, self._reference = hashes, reference
        self._pairs = self._pairs_of(value_hashes(converted) or {})
        self._sums.update(
            (name, reference.sums[pair]) for name, pair in self._pairs.items() if pair in reference.sums
        )
        self._stands_for = {
            seen: name
            for seen, name in self._stands_for.items()
            if self._pairs.get(name) not in reference.sums
        }
        self._compared_names = set(self._stands_for.values())
        read = self._compared_names | self._operations.inputs_of(self._compared_names)
        self._fast = tapped_quantized(
            converted, {self._visible[name] for name in read if name in self._visible}
        )

    def result(self) -> Iterator[TensorQuality]:
        """Yield the figures, and store the sums for tensors that an edit does not change."""
        for name, pair in self._pairs.items():
            self._reference.sums[pair] = self._sums[name]
        yield from super().result()

    def _pairs_of(self, quantized: Mapping[str, str]) -> dict[str, tuple[str, str]]:
        """Return the key of each tensor's sums: the sub-graphs before it in both programs."""
        return {
            name: (self._hashes[name], quantized[seen])
            for seen, name in self._stands_for.items()
            if seen in quantized
        }

    @cached_property
    def _float_side(self) -> Tapped:
        return tapped_float(self._floating.module, self._compared_names)

    def _floats(self, index: int, sample: Sample) -> dict[str, torch.Tensor]:
        keys = {name: (self._hashes[name], index) for name in self._compared_names}
        known = self._reference.values
        if all(key in known for key in keys.values()):
            return {name: known[key] for name, key in keys.items()}
        _, values = self._float_side(*sample.inputs)
        for name, value in values.items():
            self._reference.keep(*keys[name], value)
        return values

    def _quantized(self, sample: Sample) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
        outputs, values = self._fast(*sample.inputs)
        return tensors_of(outputs), values

    def outputs(self, sample: Sample) -> list[torch.Tensor]:
        """Return the outputs of the quantized side; no second quick module is made for them."""
        return self._quantized(sample)[0]


def _compared(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    if node.op not in {"call_function", "placeholder"} or not isinstance(value, torch.Tensor):
        return False
    return value.is_floating_point()


def nodes_by_name(module: torch.fx.GraphModule, inside: str = "") -> dict[str, torch.fx.Node]:
    """Return the nodes of a program by name, including those in branches."""
    nodes = {f"{inside}{node.name}": node for node in module.graph.nodes}
    for below, branch in branches_of(module):
        if below.endswith(_TAKEN):
            nodes |= nodes_by_name(branch, f"{inside}{below}")
    return nodes


def visible(node: torch.fx.Node) -> torch.fx.Node:
    """Return the node whose value later operators read: the dequantize after it, if any."""
    for user in node.users:
        if programs.DYNAMIC in user.meta:
            continue
        if "quantize_per" in str(user.target) and "dequantize" not in str(user.target):
            for behind in user.users:
                if "dequantize_per" in str(behind.target):
                    return behind
    return node


def _step(node: torch.fx.Node) -> float | None:
    """Return the step of the static grid that a value is rounded to; None without one."""
    quantize = visible(node).args[0] if visible(node) is not node else None
    if not isinstance(quantize, torch.fx.Node) or "quantize_per_tensor" not in str(quantize.target):
        return None
    scale = quantize.args[1]
    return float(scale) if isinstance(scale, int | float) else None


def seen_as(name: str, node: torch.fx.Node) -> str:
    """Return the name of the node that later operators read, possibly in a branch."""
    return f"{name[: name.rfind('/') + 1]}{visible(node).name}"


def tensor_comparison(context: StageContext, reference: FloatReference | None) -> TensorComparison:
    """Return the comparison of all tensors; fast if a float reference may be used."""
    prepared, converted = context.live("calibrate").module, context.live("convert").module
    hashes = hashes_of_prepared(context, prepared) if reference is not None else None
    if reference is None or hashes is None:
        return TensorComparison(prepared, converted, partial(quantized_module, context))
    with acceleration("lazy-recompile"):
        return QuickComparison(prepared, converted, hashes, reference)
