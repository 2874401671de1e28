"""The converted program, compared with the prepared one whose observers fake-quantize.

The prepared program, in which each observer quantizes and dequantizes with the grid that it chose,
computes what the converted program must compute, without torchao's conversion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torchao.quantization.pt2e import ObserverBase

from workbench.engine.equivalence.comparison import REWRITTEN, Comparison
from workbench.engine.equivalence.first_difference import first_by_name
from workbench.engine.equivalence.forms import copied, form_differs
from workbench.engine.evaluation.measures import tensors_of
from workbench.engine.evaluation.stateful_execution import Steps, stepping
from workbench.engine.evaluation.tensors import Watched, nodes_by_name, watched
from workbench.engine.fx import programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from workbench.engine.data import Sample
    from workbench.errors import WorkbenchError
    from workbench.results import FormComparison

Outputs = list[torch.Tensor]
_OPERATORS = torch.ops.quantized_decomposed


class FakeQuantizedReference:
    """The outputs of a prepared program whose observers quantize and dequantize.

    They are computed before ``convert``, which consumes the program, and compared after it.
    """

    def __init__(self, observed: torch.fx.GraphModule, samples: Sequence[Sample]) -> None:
        """Run the samples; none if an observer has no grid that is known before."""
        self._samples = list(samples) if _has_grids(observed) else []
        self._outputs = [outputs for outputs, _ in _fake_quantized(observed, self._samples)]

    def compare(
        self, converted: torch.fx.GraphModule, again: Callable[[], torch.fx.GraphModule]
    ) -> tuple[FormComparison, ...]:
        """Return the comparison of the converted program; empty if there was none.

        Args:
            converted: The converted program.
            again: Returns the program with observers again, for the place of a difference.

        Raises:
            WorkbenchError: it differs.
        """
        if not self._samples:
            return ()
        comparison = Comparison("converted", REWRITTEN)
        with stepping(converted) as steps:
            for sample, expected in zip(self._samples, self._outputs, strict=True):
                if problem := comparison.add(expected, steps(copied(sample))):
                    raise self._differs(again(), converted, problem)
        return (comparison.result,)

    def _differs(
        self, observed: torch.fx.GraphModule, converted: torch.fx.GraphModule, problem: str
    ) -> WorkbenchError:
        nodes, first = nodes_by_name(observed), None
        steps = Steps(converted)
        try:
            pairs = zip(self._samples, _fake_quantized(observed, self._samples), strict=True)
            for sample, (_, before) in pairs:
                _, values = watched(steps, sample)
                first = first or first_by_name(nodes, before, values)
        finally:
            steps.close()
        module = programs.module_of(first) if first is not None else ""
        return form_differs(
            "converted",
            problem,
            first,
            f"Give the module {module} the config float."
            if module
            else "Write this line with other operators.",
        )


def _fake_quantized(
    observed: torch.fx.GraphModule, samples: Sequence[Sample]
) -> Iterator[tuple[Outputs, dict[str, torch.Tensor]]]:
    """Yield the outputs for each sample, and the values of all operations."""
    steps = Steps(observed)
    try:
        for sample in samples:
            values: dict[str, torch.Tensor] = {}
            run = _FakeQuantized(steps.module, values.__setitem__)
            outputs = tensors_of(run.run(*steps.inputs(copied(sample))))
            yield steps.took(sample, outputs, values), values
    finally:
        steps.close()


def _has_grids(observed: torch.fx.GraphModule) -> bool:
    """Return whether every observer of a graph has a fixed uniform grid; no, for one with loops."""
    observers = [module for module in observed.modules() if isinstance(module, ObserverBase)]
    loops = torch.ops.higher_order.while_loop
    has_loop = any(
        node.target is loops
        for module in observed.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
    )
    return not has_loop and all(map(_is_uniform, observers))


def _is_uniform(observer: Any) -> bool:
    is_dynamic = getattr(observer, "is_dynamic", False) or hasattr(observer, "dynamic")
    has_grid = hasattr(observer, "calculate_qparams") and hasattr(observer, "quant_min")
    return has_grid and not is_dynamic and not hasattr(observer, "placing")


class _FakeQuantized(Watched):
    """Runs a prepared graph with fake quantization in place of the observers."""

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Quantize and dequantize with the grid of an observer.

        Source: torchao 0.18 ``convert.py``,
        ``_replace_observer_with_quantize_dequantize_node_decomposed``, for the operators and the
        types of their arguments.
        """
        observer: Any = self.fetch_attr(str(target))
        if not isinstance(observer, ObserverBase):
            return super().call_module(target, args, kwargs)
        (value,) = args
        scale, zero_point = observer.calculate_qparams()
        limits = (observer.quant_min, observer.quant_max, observer.dtype)
        if scale.numel() > 1 or _is_per_channel(observer):
            grid = (scale, zero_point, observer.ch_axis, *limits)
            codes = _OPERATORS.quantize_per_channel.default(value, *grid)
            return _OPERATORS.dequantize_per_channel.default(codes, *grid)
        plain = (float(scale), int(zero_point), *limits)
        codes = _OPERATORS.quantize_per_tensor.default(value, *plain)
        return _OPERATORS.dequantize_per_tensor.default(codes, *plain)


def _is_per_channel(observer: Any) -> bool:
    return observer.qscheme in {torch.per_channel_affine, torch.per_channel_symmetric}
