"""Mapping of configs to torchao's quantization specs, based on the Arm backend's factories."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from executorch.backends.arm.quantizer import (
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
    get_uint8_io_quantization_config,
)
from executorch.backends.arm.quantizer.arm_quantizer import get_symmetric_a8w4_quantization_config
from torchao.quantization.pt2e import (
    FakeQuantizeBase,
    FusedMovingAvgObsFakeQuantize,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    ObserverBase,
)

from workbench.engine.fx.observers import FixedRangeObserver, PercentileObserver
from workbench.project.configs import PluginConfig, integers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.engine.quantization.plugins import Plugins
    from workbench.project.configs import Activation, AnyConfig, Observer, QuantConfig

# Smallest scale per activation width in the Arm backend's factories (ExecuTorch 1.5.1).
_EPS = {"int8": 2**-16, "int16": 2**-12, "uint8": 2**-16}


def arm_config(assigned: AnyConfig | None, plugins: Plugins, *, is_qat: bool = False) -> Any:
    """Return the Arm backend's config; None leaves the part in float.

    Default choices return the factory's own object, so that bytes equal those of the plain API. For
    training, weights are fake-quantized and activations observed: see ``with_fake_quantization``.

    Raises:
        WorkbenchError: it is a number format, or a plug-in returns another type.
    """
    if isinstance(assigned, PluginConfig):
        return plugins.config(assigned.reference, is_qat=is_qat)
    config = integers_of(assigned)
    if config is None:
        return None
    factory = factory_config(config)
    activation = config.activation
    is_stock = activation.observer.kind == "histogram" and _has_factory_symmetry(activation)
    if not is_stock:
        spec = _with_observer(factory.input_activation, activation, plugins)
        factory = replace(factory, **dict.fromkeys(_BORDERS, spec))
    if not is_qat:
        return factory
    return replace(factory_config(config, is_qat=True), **{name: getattr(factory, name) for name in _BORDERS})


_BORDERS = ("input_activation", "output_activation")


class CalibratedFakeQuantize(FusedMovingAvgObsFakeQuantize):
    """Fake quantization of an activation with the range that calibration finds for it.

    Args:
        calibrates_with: Makes the observer of calibration.
        more: What torchao gives an observer of the activation.
    """

    def __init__(self, *, calibrates_with: Callable[..., ObserverBase], **more: Any) -> None:
        super().__init__(observer=MovingAverageMinMaxObserver, **more)
        self._calibrates_with, self._more = calibrates_with, more

    def observer(self) -> ObserverBase:
        """Return a new observer, as calibration has it."""
        observer: ObserverBase = self._calibrates_with(**self._more)
        return observer.to(self.scale.device)


_OF_TENSORS = {torch.per_tensor_affine, torch.per_tensor_symmetric}


def with_fake_quantization(spec: Any) -> Any:
    """Return the annotated spec of an activation with fake quantization in place of its observer.

    Weights have it by their own config; those of one scale for each channel are left as they are.
    """
    maker = getattr(spec, "observer_or_fake_quant_ctr", None)
    kind = getattr(getattr(maker, "p", None), "func", maker)
    is_rounding = isinstance(kind, type) and issubclass(kind, FakeQuantizeBase)
    if maker is None or is_rounding or spec.qscheme not in _OF_TENSORS:
        return spec
    rounding = CalibratedFakeQuantize.with_args(calibrates_with=maker)
    return replace(spec, observer_or_fake_quant_ctr=rounding)


def factory_config(config: QuantConfig, *, is_qat: bool = False) -> Any:
    """Return the factory's config with our bit widths and label."""
    per_channel = config.weight.per_channel
    if config.activation.dtype == "uint8":
        return get_uint8_io_quantization_config(is_qat=is_qat)
    if config.activation.dtype == "int16":
        return get_symmetric_a16w8_quantization_config(is_per_channel=per_channel, is_qat=is_qat)
    if config.weight.bits == 4:
        return get_symmetric_a8w4_quantization_config(is_per_channel=per_channel, is_qat=is_qat)
    return get_symmetric_quantization_config(is_per_channel=per_channel, is_qat=is_qat)


def _has_factory_symmetry(activation: Activation) -> bool:
    return activation.symmetric == (activation.dtype == "int16")


def _with_observer(spec: Any, activation: Activation, plugins: Plugins) -> Any:
    scheme = torch.per_tensor_symmetric if activation.symmetric else torch.per_tensor_affine
    own, eps = activation.observer, _EPS[activation.dtype]
    if own.kind == "plugin":
        observer = plugins.observer(own.plugin).with_args(eps=eps)
    else:
        observer = _observer(own, spec, eps)
    return replace(spec, qscheme=scheme, observer_or_fake_quant_ctr=observer)


def _observer(observer: Observer, spec: Any, eps: float) -> Any:
    match observer.kind:
        case "minmax":
            return MinMaxObserver.with_args(eps=eps)
        case "moving_average":
            return MovingAverageMinMaxObserver.with_args(
                averaging_constant=observer.averaging_constant, eps=eps
            )
        case "percentile":
            return PercentileObserver.with_args(percentile=observer.percentile, eps=eps)
        case "fixed":
            return FixedRangeObserver.with_args(minimum=observer.minimum, maximum=observer.maximum, eps=eps)
        case "histogram":
            return spec.observer_or_fake_quant_ctr
