"""The trained model: the float program with fake quantization, and its parameters.

Source of the graph: torchao 0.18 ``prepare_qat_pt2e`` with the ``is_qat`` configs of ExecuTorch's
Arm backend. There are five differences:

- the graph is the one exported in evaluation mode, whose batch norms are switched here, because
  ``move_exported_model_to_train`` would also enable dropouts;
- torchao gives fused batch norms the epsilon and momentum of its pattern; their own are restored;
- batch norms that torchao does not fuse are folded, or written as a factor and a summand, first;
- weight grids are computed from the current weights at every pass, as in conversion.
  torchao's observers keep the widest range ever seen, so trained weights would get other grids;
- ranges of activations are those that calibration finds, at the start and after every epoch that
  updates them. The moving averages of extremes lost 7 dB of a network that calibration leaves at
  43.5 dB, and training for them made it worse.
"""

from __future__ import annotations

import copy
import operator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torchao.quantization.pt2e import FakeQuantize, MovingAverageMinMaxObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantize_pt2e import prepare_qat_pt2e

from workbench.engine.quantization.compression import clustered, layer_weights
from workbench.engine.quantization.executorch_configs import CalibratedFakeQuantize
from workbench.errors import Place, WorkbenchError, failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from workbench.engine.training.weights import Weights


_BATCH_NORM = torch.ops.aten.batch_norm.default
# Argument indices: running mean and variance, training, momentum, epsilon.
_STATISTICS = (3, 4)
_SHAPING = (torch.ops.aten.view.default, torch.ops.aten.view_copy.default, torch.ops.aten.reshape.default)
_TRAINS, _MOMENTUM, _EPSILON = 5, 6, 7
_WEIGHT_OBSERVERS = (PerChannelMinMaxObserver, MovingAverageMinMaxObserver)


def norms_of(module: fx.GraphModule) -> Iterable[fx.Node]:
    """Return the batch norms with running statistics of a graph, in order."""
    for node in module.graph.nodes:
        if node.target is _BATCH_NORM and node.args[_STATISTICS[0]] is not None:
            yield node


def tensor_of(module: fx.GraphModule, node: object) -> torch.Tensor | None:
    """Return the tensor that a node reads from the module; None for any other node."""
    if not isinstance(node, fx.Node) or node.op != "get_attr":
        return None
    tensor: torch.Tensor = operator.attrgetter(str(node.target))(module)
    return tensor


class QatModel:
    """A graph with fake quantization as on the device; ``module`` takes the model's inputs.

    ``parameters`` are the trained parameters, by the float model's names. ``prepare_norms`` changes
    batch norms of the float program that torchao does not fuse; it returns values of those that are
    gone, by the float model's names.
    """

    def __init__(
        self,
        floating: torch.fx.GraphModule,
        quantizer: Any,
        prepare_norms: Callable[[torch.fx.GraphModule], Weights],
    ) -> None:
        self._clustered = layer_weights(floating)
        mine = {t.data_ptr(): name for name, t in floating.named_parameters()}
        self._idle: Weights = prepare_norms(floating)
        norms = [node.args for node in norms_of(floating)]
        self.module = prepare_qat_pt2e(floating, quantizer)
        take_batches(self.module)
        rounding = self._rounding = [m for m in self.module.modules() if isinstance(m, FakeQuantize)]
        if not rounding:
            raise unrounded()
        self._activations = [m for m in rounding if isinstance(m, CalibratedFakeQuantize)]
        for activation in self._activations:
            activation.disable_observer()
        self._weights = [
            m
            for m in rounding
            if m not in self._activations and isinstance(m.activation_post_process, _WEIGHT_OBSERVERS)
        ]
        self._norms = list(norms_of(self.module))
        self._statistics = self._own_norms(norms)
        # Preparing traces again: parameters share memory under other names.
        self.parameters = {mine[t.data_ptr()]: t for t in self.module.parameters() if t.data_ptr() in mine}
        for parameter in self.parameters.values():
            parameter.requires_grad_(parameter.is_floating_point())
        self.module.register_forward_pre_hook(self._forget_weights)

    def _own_norms(self, norms: list[Any]) -> Weights:
        """Restore the batch norms' own values; return their statistics by the float names.

        Preparing copies statistics, but keeps the order of batch norms.
        """
        buffers = dict(self.module.named_buffers())
        norm_buffers: Weights = {}
        if len(self._norms) != len(norms):
            raise failure(
                "The quantizer changes batch norms, whose statistics training then loses.",
                "Train without a quantizer of your own.",
                Place(kind="stage", id="export"),
                code="training-batch-norm-not-supported",
            )
        for node, args in zip(self._norms, norms, strict=True):
            node.args = (*node.args[:_MOMENTUM], *args[_MOMENTUM : _EPSILON + 1], *node.args[_EPSILON + 1 :])
            for argument in _STATISTICS:
                norm_buffers[str(args[argument].target)] = buffers[str(node.args[argument].target)]
        self.module.recompile()
        return norm_buffers

    def cluster(self, counts: Mapping[str, int]) -> None:
        """Make the weights alike at every pass; gradients go to the weights as they are.

        Args:
            counts: The number of distinct weights by module; "" is every other layer.
        """
        names = {t.data_ptr(): name for name, t in self.parameters.items()}
        for node in list(self.module.graph.nodes):
            weight = tensor_of(self.module, node)
            name = "" if weight is None else names.get(weight.data_ptr(), "")
            if name not in self._clustered:
                continue
            count = counts.get(name.rpartition(".")[0], counts.get(""))
            if count is None:
                continue
            with self.module.graph.inserting_after(node):
                alike = self.module.graph.call_function(_alike, (node, count, self._clustered[name]))
            for user in [user for user in node.users if user is not alike]:
                user.replace_input_with(node, alike)
        self.module.recompile()

    def run_in_float(self, *inputs: torch.Tensor) -> Any:
        """Return the outputs without fake quantization."""
        self.switch(normalizes=False)
        for module in self._rounding:
            module.disable_fake_quant()
        try:
            return self.module(*inputs)
        finally:
            for module in self._rounding:
                module.enable_fake_quant()

    def switch(self, *, normalizes: bool) -> None:
        """Enable or freeze the updates of batch-norm statistics."""
        for node in self._norms:
            node.args = (*node.args[:_TRAINS], normalizes, *node.args[_TRAINS + 1 :])
        self.module.recompile()

    def see(self, batches: Iterable[tuple[torch.Tensor, ...]]) -> None:
        """Set activation ranges to those that calibration finds for the present weights."""
        self.switch(normalizes=False)
        observers = {quantizer: quantizer.observer() for quantizer in self._activations}
        hooks = [
            quantizer.register_forward_pre_hook(partial(_show, seen)) for quantizer, seen in observers.items()
        ]
        for quantizer in self._rounding:
            quantizer.disable_fake_quant()
        try:
            with torch.no_grad():
                for inputs in batches:
                    self.module(*inputs)
        finally:
            for hook in hooks:
                hook.remove()
            for quantizer in self._rounding:
                quantizer.enable_fake_quant()
        for quantizer, seen in observers.items():
            _set_grid(quantizer, *seen.calculate_qparams())

    def weights(self) -> Weights:
        """Return parameters and batch-norm statistics by the float model's names."""
        return {**self.parameters, **self._statistics, **self._idle}

    def take(self, weights: Weights) -> None:
        """Load weights by the float model's names."""
        for name, mine in self.weights().items():
            mine.data.copy_(weights[name])

    def state(self) -> Weights:
        """Return everything that training changes, by the model's own names."""
        return {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}

    def restore(self, state: Weights) -> None:
        """Restore a state in place; ranges are resized to their stored size."""
        with torch.no_grad():
            for name, mine in self.state().items():
                if name in state:
                    value = state[name].to(mine.device)
                    mine.data.resize_(value.shape).copy_(value)

    def _forget_weights(self, *_call: object) -> None:
        for quantizer in self._weights:
            quantizer.activation_post_process.reset_min_max_vals()


def _set_grid(rounding: FakeQuantize, scale: torch.Tensor, zero_point: torch.Tensor) -> None:
    """Set the ends from which the fake quantization computes this grid.

    Source: torch 2.13 ``fused_moving_avg_obs_fake_quant``, which computes it at every pass, that of
    a symmetric one from the larger end.
    """
    own = rounding.activation_post_process
    span = (own.quant_max - own.quant_min) * scale
    is_symmetric = own.qscheme in {torch.per_tensor_symmetric, torch.per_channel_symmetric}
    low = -span / 2 if is_symmetric else (own.quant_min - zero_point) * scale
    own.min_val.copy_(low.squeeze())
    own.max_val.copy_((low + span).squeeze())


def _show(observer: torch.nn.Module, _quantizer: object, inputs: tuple[torch.Tensor, ...]) -> None:
    observer(inputs[0])


def _alike(weight: torch.Tensor, count: int, dimension: int) -> torch.Tensor:
    """Return a weight with few distinct values, and the gradient of the weight itself."""
    return weight + (clustered(weight, count, dimension) - weight).detach()


def unrounded() -> WorkbenchError:
    """Return the error for a model without fake quantization."""
    return failure(
        "No quantized modules, so there is nothing to train.",
        "Assign a precision to modules first.",
        Place(kind="option", id="rules"),
        code="training-nothing-quantized",
    )


def take_batches(module: torch.fx.GraphModule) -> None:
    """Allow an exported single-sample module to run batches, if possible.

    It would reject other sizes than its example's, and shapes that start with 1 are constants in
    it. The caller must check that the results are equal.
    """
    module._forward_pre_hooks.clear()  # noqa: SLF001 - torch.export names no other way
    for node in module.graph.nodes:
        if node.target in _SHAPING and isinstance(node.args[1], list | tuple):
            first, *rest = node.args[1]
            if first == 1 and -1 not in rest:
                node.args = (node.args[0], [-1, *rest], *node.args[2:])
    module.recompile()


# Argument indices of a batch norm: running mean and variance, training.
_STATISTICS_ARGUMENTS, _TRAINS_ARGUMENT = (3, 4), 5


class EmulatedQatModel(QatModel):
    """The emulated program with weights quantized at every pass; ranges are not trained.

    Args:
        floating: The float program.
        emulate: Converts it to the emulated program, with float weights; may consume it.
        rounds: Whether a node quantizes.

    Raises:
        WorkbenchError: nothing is quantized.
    """

    def __init__(
        self,
        floating: fx.GraphModule,
        emulate: Callable[[fx.GraphModule], fx.GraphModule],
        rounds: Callable[[fx.Node], bool],
    ) -> None:
        self._idle = {}
        self._clustered = layer_weights(floating)
        self._float = fx.GraphModule(floating, copy.deepcopy(floating.graph))
        self.module = emulate(floating)
        if not any(rounds(node) for node in self.module.graph.nodes):
            raise unrounded()
        for module in (self._float, self.module):
            take_batches(module)
        self._norms = list(norms_of(self.module))
        buffers = dict(self.module.named_buffers())
        targets = [str(node.args[at].target) for node in self._norms for at in _STATISTICS_ARGUMENTS]
        self._statistics = {name: buffers[name] for name in targets}
        self.parameters = dict(self.module.named_parameters())
        for parameter in self.parameters.values():
            parameter.requires_grad_(parameter.is_floating_point())

    def run_in_float(self, *inputs: torch.Tensor) -> Any:
        """Return the outputs without fake quantization."""
        return self._float(*inputs)

    def switch(self, *, normalizes: bool) -> None:
        """Enable or freeze the updates of batch-norm statistics."""
        for node in self._norms:
            node.args = (*node.args[:_TRAINS_ARGUMENT], normalizes, *node.args[_TRAINS_ARGUMENT + 1 :])
        self.module.recompile()

    def see(self, batches: Iterable[tuple[torch.Tensor, ...]]) -> None:
        """Do nothing: there are no activation ranges to initialise."""
        del batches
