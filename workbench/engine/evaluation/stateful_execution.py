"""Sequential execution of samples with state.

A program may keep state in buffers that it mutates, such as a decoder's key and value caches, or in
outputs that are inputs of the next step. Programs without state run independently per sample.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from torch.nn.attention import SDPBackend, sdpa_kernel

from workbench.engine.evaluation.measures import tensors_of
from workbench.engine.fx import programs
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import torch

    from workbench.engine.data import Sample, Samples


class Steps:
    """Runs a module sample by sample. Its buffers are copies until ``close``."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self.module = module
        self._written = programs.written_buffers(module)
        self._first = {name: module.get_buffer(name) for name in self._written}
        self._carried: tuple[torch.Tensor, ...] = ()
        self.reset()

    @property
    def remembers(self) -> bool:
        """Whether a step depends on earlier ones."""
        return bool(self._written or self._carried)

    def reset(self) -> None:
        """Restore the initial state."""
        self._carried = ()
        for name, first in self._first.items():
            self._put(name, first.clone())

    def close(self) -> None:
        """Restore the module's own buffers."""
        for name, first in self._first.items():
            self._put(name, first)

    def inputs(self, sample: Sample) -> tuple[torch.Tensor, ...]:
        """Return the inputs for the next sample; resets the state at the start of a sequence."""
        if sample.begins:
            self.reset()
        if not self._carried:
            return sample.inputs
        return (*sample.inputs[: -sample.carried], *self._carried)

    def took(
        self,
        sample: Sample,
        outputs: Sequence[torch.Tensor],
        values: Mapping[str, torch.Tensor] | None = None,
    ) -> list[torch.Tensor]:
        """Store the state after a step; return the outputs that are not state.

        Args:
            sample: The step.
            outputs: All outputs.
            values: The values of all operators, if the step could not write its buffers.
        """
        kept = len(outputs) - sample.carried
        self._carried = tuple(outputs[kept:])
        if values is not None:
            for name, node in self._written.items():
                self._put(name, values[node].clone())
        return list(outputs[:kept])

    def __call__(self, sample: Sample) -> list[torch.Tensor]:
        """Run the module for the next sample; return the outputs that are not state."""
        try:
            outputs = self.module(*self.inputs(sample))
        except IndexError as error:
            if not (self._written or sample.carried):
                raise
            raise failure(
                f"The model fails on sample {sample.index}: {error}.",
                "If its caches hold fewer steps than a sequence has, shorten the sequences "
                "(tokens, length). Otherwise use the model's own tokenizer.",
                Place(kind="sample", id=str(sample.index)),
                code="decoder-context-exceeded",
            ) from error
        return self.took(sample, tensors_of(outputs))

    def _put(self, name: str, value: torch.Tensor) -> None:
        owner, _, attribute = name.rpartition(".")
        setattr(self.module.get_submodule(owner), attribute, value)


def refuse_memory(module: torch.fx.GraphModule, samples: Samples, what: str, stage: str) -> None:
    """Return if the outputs of a sample are independent of earlier samples.

    Raises:
        WorkbenchError: they depend on earlier samples, which ``what`` does not support.
    """
    if programs.written_buffers(module) or samples.spell is not None:
        raise failure(
            f"{what} needs independent samples, but this program keeps state between samples.",
            "Compare configurations in Runs instead.",
            Place(kind="stage", id=stage),
            code="stateful-program-not-supported",
        )


@contextmanager
def stepping(module: torch.fx.GraphModule) -> Iterator[Steps]:
    """Yield the steps of a module; its own buffers are unchanged."""
    steps = Steps(module)
    try:
        with plain_attention(when=steps.remembers):
            yield steps
    finally:
        steps.close()


@contextmanager
def plain_attention(*, when: bool) -> Iterator[None]:
    """Compute and decompose attention operator by operator inside the block.

    ExecuTorch's export of language models does the same (1.5.1,
    ``extension/llm/export/builder.py``): fused kernels round differently and decompose into other
    operators.

    Args:
        when: Whether to do so: for programs with state.
    """
    with sdpa_kernel([SDPBackend.MATH]) if when else nullcontext():
        yield
