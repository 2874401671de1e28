"""Weights as people keep them, put into a model: wrapped, prefixed, sharded or pickled whole."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.loading.checkpoint_reading import (
    WHERE,
    StateDict,
    Tensors,
    contents_of,
    read_checkpoint,
    state_dicts,
)
from workbench.errors import WorkbenchError, failure
from workbench.project.checkpoints import foreign, form_of
from workbench.results import WRAPPERS, WeightsTaken

if TYPE_CHECKING:
    from pathlib import Path

# Names that tools add to state dicts, which no model needs.
_EXTRAS = ("n_averaged", "total_ops", "total_params", "num_batches_tracked")
_EMA = ("ema", "averaged", "swa")
_MOMENTS = {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg"}
# Parts of names that other tools leave in weights, and what takes them out.
_REMEDIES = (
    ("lora_A", "The file has LoRA adapters: save the model after merge_and_unload() of PEFT."),
    ("fake_quant", "The file is of a model prepared for quantization: give the float weights."),
    ("activation_post_process", "The file is of a model prepared for quantization: give the float weights."),
    (
        ".parametrizations.",
        "Call torch.nn.utils.parametrize.remove_parametrizations on the layers, then save again.",
    ),
    ("weight_mask", "Call torch.nn.utils.prune.remove on the layers, then save again."),
    ("weight_g", "Call torch.nn.utils.remove_weight_norm on the layers, then save again."),
)


def load_weights(module: torch.nn.Module, path: Path) -> WeightsTaken:
    """Put the weights of a file into a module, and return where they were found.

    State dicts are looked for in the file's dictionaries; averaged weights (``ema``) go before
    others. Prefixes that wrappers add (``module.``, ``_orig_mod.``, ``model.``) are removed.

    Args:
        module: The model, changed in place.
        path: A checkpoint of torch in any of its formats, TorchScript, safetensors, the index of
            shards, a folder that holds one of them, or an .npz.

    Raises:
        WorkbenchError: The file is missing, is no weights, or does not fit the model.
    """
    if not os.path.exists(path):
        raise failure(
            f"The weights file {path.name} does not exist.",
            "Correct the path.",
            WHERE,
            code="weights-missing",
        )
    if (problem := foreign(path, "model.weights")) is not None:
        raise WorkbenchError([problem])
    content = read_checkpoint(path)
    fits = [fit for held in state_dicts(content) for fit in _fits(module, held)]
    if not fits:
        raise failure(
            f"{path.name} contains no state dict.",
            f"It contains {contents_of(content)}. {_remedy_for(content)}",
            WHERE,
            code="weights-not-state-dict",
        )
    best = max(fits, key=_Fit.rank)
    best.require(path.name)
    _refuse_quantized(best)
    # Tensors that share memory are loaded through the one that is there.
    module.load_state_dict(best.matched, strict=False)
    others = {fit.entry for fit in fits if fit.is_whole} - {best.entry, ()}
    return WeightsTaken(
        form=form_of(path),
        entry=best.entry,
        joined=best.joined,
        unwrapped=best.unwrapped,
        prefix=best.prefix,
        added=best.added,
        others=tuple(sorted(".".join(entry) for entry in others)),
        dropped=tuple(best.dropped),
    )


def _remedy_for(content: Any) -> str:
    """Return what to do with a file that has no state dict: name the element that has one."""
    if isinstance(content, list | tuple):
        for number, element in enumerate(content):
            if any(True for _ in state_dicts(element)):
                return f"Save its element {number}, which has the weights, with torch.save."
    return "Save model.state_dict() with torch.save."


def _refuse_quantized(fit: _Fit) -> None:
    """Raise for weights that are quantized: they have no float values to begin from."""
    quantized = [
        name
        for name, value in fit.matched.items()
        if value.is_quantized or type(value) not in {torch.Tensor, torch.nn.Parameter}
    ]
    if quantized:
        raise failure(
            f"The weights are quantized already: {', '.join(quantized[:3])}.",
            "Give the float weights from before the quantization, or save name.dequantize() of each tensor.",
            WHERE,
            code="weights-quantized",
        )


@dataclass(frozen=True)
class _Fit:
    """A state dict under the model's names.

    ``prefix`` was removed from its names, ``added`` put before them. ``missing`` are tensors that
    the model has and the file lacks, ``misshapen`` those of another shape, ``surplus`` those that
    the model lacks; ``dropped`` are the first parts of names outside ``prefix``.
    """

    entry: tuple[str, ...]
    joined: bool
    unwrapped: bool
    prefix: str
    added: str
    matched: Tensors
    missing: list[str]
    misshapen: list[tuple[str, tuple[int, ...], tuple[int, ...]]]
    surplus: list[str]
    dropped: list[str]

    @property
    def is_whole(self) -> bool:
        """Whether every tensor of the model is there, in its shape."""
        return not self.missing and not self.misshapen

    def rank(self) -> tuple[Any, ...]:
        """Return the order of preference: the greatest is taken."""
        words = f"{'.'.join(self.entry)}.{self.prefix}".lower()
        averaged = any(word in words for word in _EMA)
        changes = sum(map(bool, (self.prefix, self.added, self.unwrapped, self.joined)))
        good = self.is_whole and not self.surplus
        return (
            good,
            self.is_whole,
            len(self.matched),
            len(self.misshapen),
            averaged,
            -len(self.surplus),
            -changes,
            -len(self.entry),
        )

    def require(self, name: str) -> None:
        """Return if the weights fit.

        Raises:
            WorkbenchError: They do not; says what would fit.
        """
        if self.is_whole and not self.surplus:
            return
        location = f" in {'.'.join(self.entry)}" if self.entry else ""
        reasons = [
            *self._shape_differences(),
            *_lines(self.missing, "missing"),
            *_lines(self.surplus, "surplus"),
        ]
        raise failure(
            f"The weights{location} do not fit: {'; '.join(reasons)}.",
            self._remedy(),
            WHERE,
            details="\n".join(
                [
                    *(f"shape: {n}: file {list(f)}, model {list(m)}" for n, f, m in self.misshapen),
                    *(f"missing: {parameter}" for parameter in self.missing),
                    *(f"surplus: {parameter}" for parameter in self.surplus),
                ]
            ),
            code="weights-unfit",
        )

    def _shape_differences(self) -> Iterator[str]:
        for name, shape, wanted in self.misshapen[:3]:
            yield f"{name} is {list(shape)} in the file and {list(wanted)} in the model"
        if len(self.misshapen) > 3:
            yield f"{len(self.misshapen) - 3} more have another shape"

    def _remedy(self) -> str:
        names = " ".join((*self.surplus, *self.dropped))
        known = [remedy for part, remedy in _REMEDIES if part in names]
        if known:
            return known[0]
        if self.misshapen and not self.missing and not self.surplus:
            return self._remedy_for_shapes()
        return self._remedy_for_names() or (
            "They belong to a different model, or to another version of its code."
        )

    def _remedy_for_names(self) -> str:
        """Return a hint about missing and surplus tensors; "" without one."""
        if self.surplus and not self.matched and {*self.surplus} <= _MOMENTS:
            return "These are an optimizer's moments: give the file with the model's weights."
        pairs = [
            f"{have} (model: {need})"
            for need in self.missing[:20]
            if (close := difflib.get_close_matches(need, self.surplus, n=1, cutoff=0.8))
            for have in close
        ]
        if pairs:
            return f"Nearest names in the file: {', '.join(pairs[:3])}."
        if not self.matched or self.misshapen or (self.missing and self.surplus):
            return ""
        parts = sorted({name.partition(".")[0] for name in self.surplus or self.missing})
        listed = ", ".join(parts[:4])
        if self.surplus:
            return (
                f"The file also has {listed}: build the model with them as in training, load the "
                "weights in the callable, and remove them after that."
            )
        return (
            f"The file has no weights for {listed}: give the whole checkpoint, or the index if "
            "this is one of several shards."
        )

    def _remedy_for_shapes(self) -> str:
        """Return what differs: the number of classes or input channels, or a size."""
        heads = {name.rpartition(".")[0] for name, _, _ in self.misshapen}
        first = [(f[0], m[0]) for _, f, m in self.misshapen if f and m and f[1:] == m[1:]]
        if len(first) == len(self.misshapen) and len(heads) == 1 and len(set(first)) == 1:
            ((shape, wanted),) = set(first)
            return (
                f"The file has {shape} classes (outputs of {heads.pop()}), the model {wanted}. "
                f"Build the model with {shape}."
            )
        name, found_shape, wanted_shape = self.misshapen[0]
        if len(self.misshapen) == 1 and len(found_shape) > 1 and len(wanted_shape) > 1:
            return (
                f"{name} takes {found_shape[1]} input channels in the file and {wanted_shape[1]} "
                f"in the model. Build the model with {found_shape[1]}."
            )
        return "The model was built with other sizes (width, layers, image size) than in training."


def _lines(names: list[str], what: str) -> Iterator[str]:
    if names:
        more = ", ..." if len(names) > 3 else ""
        yield f"{len(names)} {what} ({', '.join(names[:3])}{more})"


def _fits(module: torch.nn.Module, held: StateDict) -> Iterator[_Fit]:
    """Yield a state dict under every reasonable renaming."""
    wanted = dict(module.state_dict(keep_vars=True))
    plain = {
        ".".join(part for part in name.split(".") if part not in WRAPPERS): value
        for name, value in held.tensors.items()
    }
    variants = [held.tensors]
    is_wrapped = len(plain) == len(held.tensors) and set(plain) != set(held.tensors)
    if is_wrapped:
        variants.append(plain)
    renamed = _as_loaded(module, plain)
    if set(renamed) != set(plain) or any(renamed[name] is not plain[name] for name in plain):
        variants.append(renamed)
    for known in variants:
        for prefix, added in _prefixes(known, wanted):
            renaming = _Renaming(is_wrapped and known is not held.tensors, prefix, added)
            yield _fit(held, known, wanted, renaming)


def _as_loaded(module: torch.nn.Module, tensors: Tensors) -> Tensors:
    """Return tensors under the names that the model's own hooks give them as it loads them."""
    state = dict(tensors)
    for name, part in module.named_modules():
        prefix = f"{name}." if name else ""
        for hook in part._load_state_dict_pre_hooks.values():  # noqa: SLF001
            hook(state, prefix, {}, True, [], [], [])
    return state


def _prefixes(known: Tensors, expected: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what to remove from names and what to add, the likeliest ones."""
    yield "", ""
    for counted, is_removed in ((_heads(known, expected), True), (_heads(expected, known), False)):
        for head, _ in counted.most_common(3):
            yield (head, "") if is_removed else ("", head)


def _heads(names: Mapping[str, Any], others: Mapping[str, Any]) -> Counter[str]:
    """Return the prefixes without which names are among the others, counted."""
    counts: Counter[str] = Counter()
    for name in names:
        at = name.find(".")
        while at >= 0:
            if name[at + 1 :] in others:
                counts[name[: at + 1]] += 1
            at = name.find(".", at + 1)
    return counts


@dataclass(frozen=True)
class _Renaming:
    unwrapped: bool
    prefix: str
    added: str


def _fit(held: StateDict, known: Tensors, expected: Mapping[str, Any], renaming: _Renaming) -> _Fit:
    prefix, added = renaming.prefix, renaming.added
    inside = {
        added + name.removeprefix(prefix): value for name, value in known.items() if name.startswith(prefix)
    }
    misshapen = [
        (name, tuple(inside[name].shape), tuple(value.shape))
        for name, value in expected.items()
        if name in inside and inside[name].shape != value.shape
    ]
    wrong = {name for name, _, _ in misshapen}
    matched = {name: inside[name] for name in expected if name in inside and name not in wrong}
    tied = {value.data_ptr() for name, value in expected.items() if name in matched and value.numel()}
    missing = [
        name
        for name, value in expected.items()
        if name not in inside and value.data_ptr() not in tied and not name.endswith("num_batches_tracked")
    ]
    surplus = [n for n in inside if n not in expected and n.rpartition(".")[2] not in _EXTRAS]
    outside = [n for n in known if not n.startswith(prefix)]
    dropped = sorted({name.partition(".")[0] for name in outside} - set(_EXTRAS))
    return _Fit(
        held.entry,
        held.joined,
        renaming.unwrapped,
        prefix,
        added,
        matched,
        missing,
        misshapen,
        surplus,
        dropped,
    )
