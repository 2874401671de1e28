"""The integer program: CPU operators by torch, the TOSA of delegates by its executors.

Samples of a program without state are computed together: a delegate gets all of them at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate
from torch.export.graph_signature import OutputKind
from torch.utils import _pytree

from workbench.engine.ethos_u.grids import meant_values, program_inputs
from workbench.engine.ethos_u.intermediates import outer_names
from workbench.engine.ethos_u.tosa_delegates import TosaCall
from workbench.engine.fx import programs
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from workbench.engine.data import Sample
    from workbench.engine.ethos_u.compiled_program import CompiledDelegates
    from workbench.engine.ethos_u.tosa_delegates import TosaDelegates
    from workbench.engine.targets import Lowered

Tensors = list[torch.Tensor]
_DELEGATE = executorch_call_delegate


class IntegerSteps:
    """Runs the integer program sample by sample, with state as on the device.

    Outputs that are inputs of the next step are passed as real numbers on the grid of that input:
    firmware that passes integers must convert between the grids too.
    """

    def __init__(self, program: IntegerProgram, converted: torch.fx.GraphModule, *, integer_io: bool) -> None:
        self._program, self._converted, self._integer_io = program, converted, integer_io
        self._carried: Tensors = []

    def inputs_of(self, sample: Sample) -> Tensors:
        """Return the inputs for the next sample; resets the state at the start of a sequence."""
        if sample.begins:
            self._program.reset()
            self._carried = []
        inputs = sample.inputs
        if self._carried:
            inputs = (*inputs[: -sample.carried], *self._carried)
        return program_inputs(self._converted, inputs, self._integer_io)

    def together(self, samples: Sequence[Sample], inputs: Sequence[Tensors]) -> list[Tensors]:
        """Return the program's outputs for the next samples, without state.

        Args:
            samples: Several only of a program without state.
            inputs: The inputs of each, as ``inputs_of`` returned them.
        """
        if len(samples) > 1:
            return self._program.compute(inputs)
        return [self._step(samples[0], inputs[0])]

    def __call__(self, sample: Sample) -> Tensors:
        """Return the program's outputs for the next sample, without state."""
        return self._step(sample, self.inputs_of(sample))

    def _step(self, sample: Sample, inputs: Sequence[torch.Tensor]) -> Tensors:
        (outputs,) = self._program.compute([inputs])
        kept = len(outputs) - sample.carried
        if sample.carried:
            self._carried = meant_values(self._converted, outputs, self._integer_io)[kept:]
        return outputs[:kept]


@dataclass(frozen=True)
class _Each:
    """A value that every sample has its own of."""

    values: list[Any]


class IntegerProgram(torch.fx.Interpreter):
    """Runs an edge program whose delegates are computed as TOSA.

    Buffers keep their values between runs, until ``reset``; a program with buffers takes one
    sample at a time.
    """

    def __init__(self, lowered: Lowered, tosa: TosaDelegates) -> None:
        program = lowered.edge
        super().__init__(program.graph_module)
        delegates = programs.delegates(program)
        self._names = list(delegates)
        self._flatbuffers = dict(zip(delegates, lowered.tosa, strict=True))
        self._specs = {
            name: [v.meta["val"] for v in _outputs(delegate)] for name, delegate in delegates.items()
        }
        self._program, self.tosa = program, tosa
        self._buffers: dict[str, torch.Tensor] = {}
        self._exposed: dict[str, list[str]] = {}
        self._at: Any = None
        self._count = 1
        # Where set, ``executed`` keeps what it gives for the tensors that are exposed.
        self.compiled: CompiledDelegates | None = None
        self.exposed: list[dict[tuple[int, str], np.ndarray[Any, Any]]] = []
        self.calls: list[TosaCall] = []
        self.executed: dict[tuple[int, str], np.ndarray[Any, Any]] = {}

    def expose(self, tensors: Iterable[tuple[int, str]]) -> None:
        """Store these tensors of the delegates in ``exposed``, for each sample of the last run.

        None to stop. Tensors inside branches and loops are not available and are skipped.
        """
        self._exposed = {name: [] for name in self._names}
        outer = {name: outer_names(flat) for name, flat in self._flatbuffers.items()}
        for delegate, tensor in tensors:
            name = self._names[delegate]
            if tensor in outer[name]:
                self._exposed[name].append(tensor)

    def compute(self, samples: Sequence[Sequence[torch.Tensor]]) -> list[Tensors]:
        """Return the program's outputs for each of some samples."""
        signature = self._program.graph_signature
        self._count = len(samples)
        self.exposed, self.calls = [{} for _ in samples], []
        outputs = self.run(*self._values(samples))
        for spec, value in zip(signature.output_specs, outputs, strict=True):
            if spec.kind is OutputKind.BUFFER_MUTATION:
                (self._buffers[spec.target],) = self._each(value)
        user = [
            self._each(v)
            for s, v in zip(signature.output_specs, outputs, strict=True)
            if s.kind is OutputKind.USER_OUTPUT
        ]
        rows = zip(*user, strict=True) if user else ((),) * len(samples)
        return [[v for v in row if isinstance(v, torch.Tensor)] for row in rows]

    def reset(self) -> None:
        """Reset all buffers to their initial values."""
        self._buffers = {}

    def _values(self, samples: Sequence[Sequence[torch.Tensor]]) -> list[Any]:
        """Return the values of the graph's placeholders."""
        program = self._program
        signature = program.graph_signature
        given = iter([_Each(list(column)) for column in zip(*samples, strict=True)])
        values: list[Any] = []
        for node in program.graph.nodes:
            if node.op != "placeholder":
                continue
            name = node.name
            if name in signature.inputs_to_parameters:
                values.append(program.state_dict[signature.inputs_to_parameters[name]])
            elif name in signature.inputs_to_buffers:
                target = signature.inputs_to_buffers[name]
                kept = self._buffers.get(target, program.state_dict.get(target))
                values.append(program.constants[target] if kept is None else kept)
            elif name in signature.inputs_to_lifted_tensor_constants:
                target = signature.inputs_to_lifted_tensor_constants[name]
                values.append(program.constants[target])
            else:
                values.append(next(given))
        return values

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run a node; a delegate call needs the memory order of its tensors."""
        self._at = n
        return super().run_node(n)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Compute a delegate for all samples at once, other functions for each sample."""
        if target is not _DELEGATE:
            if not any(isinstance(v, _Each) for v in _pytree.tree_leaves((args, kwargs))):
                return super().call_function(target, args, kwargs)
            rows = [self._of(at, (args, kwargs)) for at in range(self._count)]
            return _Each([super(IntegerProgram, self).call_function(target, *row) for row in rows])
        name = next(n for n in self._names if getattr(self._program.graph_module, n) is args[0])
        layouts = [source.meta["val"].dim_order() for source in self._at.args[1:]]
        arrays = [
            np.stack([_lying(value, layout) for value in self._each(a)])
            for a, layout in zip(args[1:], layouts, strict=True)
        ]
        return self._delegate(name, arrays)

    def _delegate(self, name: str, arrays: list[np.ndarray[Any, Any]]) -> list[_Each]:
        number, inner = self._names.index(name), self._exposed.get(name, [])
        specs = self._specs[name]
        outputs, kept = self.tosa.compute(number, arrays, inner, self._count)
        _check_outputs(number, [o[0] for o in outputs[: len(specs)]], specs)
        self.calls.append(TosaCall(number, arrays, outputs[: len(specs)]))
        for at, inside in enumerate(self.exposed):
            inside.update({(number, t): np.asarray(values[at]) for t, values in kept.items()})
        if self.compiled is not None:
            wanted = {tensor: np.asarray(values[0]) for tensor, values in kept.items()}
            tensors = self.compiled.tensors(number, [a[0] for a in arrays], wanted)
            self.executed |= {(number, tensor): values for tensor, values in tensors.items()}
        return [
            _Each([_standing(values, spec) for values in output])
            for output, spec in zip(outputs[: len(specs)], specs, strict=True)
        ]

    def _each(self, value: Any) -> list[Any]:
        return value.values if isinstance(value, _Each) else [value] * self._count

    @staticmethod
    def _of(at: int, tree: Any) -> Any:
        return _pytree.tree_map(lambda v: v.values[at] if isinstance(v, _Each) else v, tree)


def _check_outputs(delegate: int, outputs: Sequence[Any], specs: Sequence[torch.Tensor]) -> None:
    """Check that the TOSA of a delegate has the outputs that the program reads.

    Raises:
        WorkbenchError: one is missing or has another size.
    """
    sizes, wanted = [np.asarray(o).size for o in outputs], [spec.numel() for spec in specs]
    if sizes == wanted:
        return
    raise failure(
        f"The TOSA of delegate {delegate} has outputs of {sizes} elements, and the program reads {wanted}.",
        "The program was lowered wrongly. Report it with the model.",
        Place(kind="stage", id="lower"),
        code="delegate-outputs-differ",
    )


def _lying(tensor: torch.Tensor, layout: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return values in memory order, which is the shape in a delegate's TOSA."""
    return np.ascontiguousarray(tensor.detach().permute(layout).numpy())


def _standing(values: np.ndarray[Any, Any], like: torch.Tensor) -> torch.Tensor:
    """Return a delegate's output in the shape of the program's tensor."""
    layout = like.dim_order()
    lying = torch.from_numpy(np.array(values)).reshape([like.shape[axis] for axis in layout])
    return lying.permute([layout.index(axis) for axis in range(len(layout))]).to(like.dtype)


def _outputs(delegate: Any) -> list[Any]:
    return list(delegate.original_module.graph.output_node().args[0])
