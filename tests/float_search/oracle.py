"""Plain PyTorch and plain ExecuTorch in a process of their own: nothing of the workbench runs here.

The process draws networks, runs them eagerly (a fresh instance for each sample, cloned inputs),
and quantizes them with stock PT2E, from the public interface of torchao and ExecuTorch alone.
"""

from __future__ import annotations

import importlib.util
import itertools
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from tests.float_search.drafts import drawn
from tests.float_search.ideal import ideal, tensors_of
from tests.float_search.tensors import OPERATIONS

CALIBRATION, UNSEEN = 16, 6
Outputs = list[list[torch.Tensor]]


def loaded(path: Path) -> ModuleType:
    """Return the module of a network's file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unseen(module: ModuleType) -> list[tuple[torch.Tensor, ...]]:
    """Return samples that calibration does not see."""
    return list(module.samples(seed=2, count=UNSEEN))


def eager(module: ModuleType) -> Outputs:
    """Return what the network computes for the unseen samples.

    Raises:
        ValueError: it computes other values a second time, or values that are not finite.
    """
    torch.use_deterministic_algorithms(True, warn_only=True)
    runs = [_outputs(module) for _ in range(2)]
    torch.use_deterministic_algorithms(False)
    for one, other in zip(*runs, strict=True):
        for first, second in zip(one, other, strict=True):
            if not torch.equal(first, second) or not bool(torch.isfinite(first).all()):
                raise ValueError("not steady, or not finite")
    if all(float(value.std()) < 1e-3 for value in _stacked(runs[0])):
        raise ValueError("constant")
    return runs[0]


def _stacked(outputs: Outputs) -> list[torch.Tensor]:
    return [torch.stack(values).flatten() for values in zip(*outputs, strict=True)]


def _outputs(module: ModuleType) -> Outputs:
    made = []
    for sample in unseen(module):
        model, _ = module.net()
        with torch.no_grad():
            result = model(*(tensor.clone() for tensor in sample))
        made.append([value.detach().clone() for value in tensors_of(result)])
    return made


def stock(module: ModuleType, target: str, config: str) -> Outputs:
    """Return what stock PT2E's quantized network computes for the unseen samples.

    Raises:
        ValueError: it leaves operators in float, so that it says nothing about integers.
    """
    from executorch.backends.arm.ethosu import EthosUCompileSpec
    from executorch.backends.arm.quantizer import EthosUQuantizer
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    model, example = module.net()
    quantizer = EthosUQuantizer(EthosUCompileSpec(target))
    quantizer.set_global(_config(config))
    with torch.no_grad():
        program = torch.export.export(model, tuple(t.clone() for t in example))
        prepared = prepare_pt2e(program.module(check_guards=False), quantizer)
        for sample in itertools.islice(module.samples(), CALIBRATION):
            prepared(*(tensor.clone() for tensor in sample))
        converted = convert_pt2e(prepared)
        if _keeps_float(converted):
            raise ValueError("not all is quantized")
        return [tensors_of(converted(*(tensor.clone() for tensor in sample))) for sample in unseen(module)]


# ExecuTorch takes these apart after quantization: what is inside stays in float.
_TAKEN_APART = ("instance_norm", "rms_norm", "std")


def _keeps_float(converted: torch.fx.GraphModule) -> bool:
    """Return whether an operator computes in float, or its float result is read unquantized."""
    for node in converted.graph.nodes:
        if any(f"aten.{name}." in str(node.target) for name in _TAKEN_APART):
            return True
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.is_complex():
            return True
        if node.op != "call_function" or "quantize" in str(node.target):
            continue
        if isinstance(value, torch.Tensor) and not value.is_floating_point():
            continue
        users = [str(user.target) for user in node.users]
        if "getitem" not in " ".join(users) and any("quantize" not in user for user in users):
            return True
    return False


def _config(config: str) -> Any:
    from executorch.backends.arm.quantizer import (
        get_symmetric_a16w8_quantization_config,
        get_symmetric_quantization_config,
    )
    from executorch.backends.arm.quantizer.arm_quantizer import get_symmetric_a8w4_quantization_config

    if config == "a16w8":
        return get_symmetric_a16w8_quantization_config()
    if config == "a8w4":
        return get_symmetric_a8w4_quantization_config(is_qat=False)
    return get_symmetric_quantization_config()


def draw(seed: int) -> str:
    """Return the network of a seed as JSON: one that eager PyTorch can run."""
    return drawn(seed, OPERATIONS).as_json()


def expected(path: str) -> tuple[str, Outputs]:
    """Return why a network cannot be judged ("" if it can), and eager's outputs."""
    warnings.simplefilter("ignore")
    try:
        return "", eager(loaded(Path(path)))
    except Exception as error:  # noqa: BLE001 - a smaller network may be nonsense
        return f"{type(error).__name__}: {error}", []


def plain(path: str, target: str, config: str) -> Outputs | None:
    """Return what stock's quantized network computes; None if there is none."""
    torch.manual_seed(0)
    try:
        return stock(loaded(Path(path)), target, config)
    except (Exception, SystemExit):  # noqa: BLE001 - whatever the toolchain raises
        return None


def bound(path: str, config: str) -> Outputs:
    """Return what a perfect quantization computes for the unseen samples."""
    module = loaded(Path(path))
    made: Outputs = ideal(module, config, unseen(module))
    return made
