"""What preparing a program does before the rules matter is done once and copied for every edit."""

from __future__ import annotations

import copy
from collections import OrderedDict
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from executorch.backends.arm._passes.arm_pass_manager import ArmPassManager
from executorch.backends.arm.constants import DISALLOW_TFA_META_KEY

# The very functions that prepare_pt2e calls first; called before it, they leave it nothing to do.
from torchao.quantization.pt2e.utils import _fuse_conv_bn_, _fuse_linear_bn_

from workbench.engine.ethos_u.applied_corrections import correction_functions
from workbench.engine.ethos_u.corrections.batch_norm_folding import made_foldable
from workbench.engine.ethos_u.corrections.quantizer import PATCHED
from workbench.engine.fx import programs
from workbench.engine.fx.branches import own_branches
from workbench.engine.quantization.float_layers import refuse_present_statistics
from workbench.engine.toolchain_patches.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch
    from torch import fx

    from workbench.engine.runtime.context import StageContext

_CUSTOM = "custom"
_TRANSFORMS = "transform memory"


@contextmanager
def float_module(context: StageContext) -> Iterator[fx.GraphModule]:
    """Yield the float program's module for preparation; prepare inside the block."""
    program: torch.export.ExportedProgram = context.live("export")
    # With guards the module contains a call_module node on which the Arm passes fail.
    project = context.project
    functions = correction_functions(project.target.options, "quantizer")[0].get("batch_norm_folding", ())
    make = partial(_module, program, functions)
    if project.trained_weights or project.compressions:
        # What these change is changed first, by the names of the model.
        yield own_branches(_module(program, None))
        return
    remembers = program.graph_signature.buffers_to_mutate
    usual = project.improvers or remembers or programs.has_control_flow(program)
    if usual or not context.is_accelerated:
        yield own_branches(make())
        return
    key = f"{context.plan.key('export')} {[function.__name__ for function in functions]}"
    memory = context.store.get(_TRANSFORMS, key)
    if memory is None:
        memory = TransformMemory(make)
        context.store.keep(_TRANSFORMS, key, memory)
    with remembered_transforms(memory):
        yield memory.module()


def _module(program: torch.export.ExportedProgram, functions: Sequence[Any] | None) -> fx.GraphModule:
    """Return a program's module, with these corrections of what batch norms are folded into."""
    module: Any = program.module(check_guards=False)
    refuse_present_statistics(module)
    if functions is not None:
        made_foldable(module, functions)
    return cast("fx.GraphModule", module)


class TransformMemory:
    """Modules of one float program: normalizations folded, and decomposed for annotation.

    The decomposed ones are kept by which nodes may be decomposed, the only thing that rules have
    a say in at that point, and by what the target's specification says.
    """

    def __init__(self, make: Callable[[], fx.GraphModule], entries: int = 4) -> None:
        self.entries = entries
        self.hits = 0
        self._make = make
        self._folded: fx.GraphModule | None = None
        self._transformed: OrderedDict[tuple[Any, ...], fx.GraphModule] = OrderedDict()

    def module(self) -> fx.GraphModule:
        """Return a copy of the float program's module, convolutions and linears folded."""
        if self._folded is None:
            self._folded = self._make()
            _fuse_conv_bn_(self._folded)
            _fuse_linear_bn_(self._folded)
        return same(self._folded)

    def transformed(
        self, manager: Any, module: fx.GraphModule, original: Callable[[Any, fx.GraphModule], fx.GraphModule]
    ) -> fx.GraphModule:
        """Return what ``original`` makes of a copy from ``module``, from memory where it is known."""
        key = (
            str(manager.tosa_spec),
            repr(manager.compile_spec._get_pass_pipeline_config()),  # noqa: SLF001 - its only name
            *module.meta.get(PATCHED, {}),
            *(
                (n.name, str(n.target), n.meta.get(DISALLOW_TFA_META_KEY), repr(n.meta.get(_CUSTOM)))
                for n in module.graph.nodes
            ),
        )
        if key in self._transformed:
            self.hits += 1
            self._transformed.move_to_end(key)
            return same(self._transformed[key])
        patched = module.meta.get(PATCHED, {})
        result = original(manager, module)
        result.meta[PATCHED] = {name: tuple(known) for name, known in patched.items()}
        self._transformed[key] = same(result)
        if len(self._transformed) > self.entries:
            self._transformed.popitem(last=False)
        return result


@contextmanager
def remembered_transforms(memory: TransformMemory) -> Iterator[None]:
    """Let the passes before annotation ask ``memory`` first while the block runs.

    Exact because the passes read the graph, the specification and the mark that forbids a node
    to be decomposed, and all of that is in the key, as are the corrections that are on. For
    modules from ``memory.module`` only.
    """
    stock = ArmPassManager.transform_for_annotation_pipeline

    def transform_for_annotation_pipeline(self: Any, graph_module: fx.GraphModule) -> Any:
        return memory.transformed(self, graph_module, stock)

    with replaced(ArmPassManager, "transform_for_annotation_pipeline", transform_for_annotation_pipeline):
        yield


def same(module: fx.GraphModule) -> fx.GraphModule:
    """Return a copy with its own graph that shares the tensors.

    Names that are used up stay used up, so that nodes added later are named as in the original;
    notes that several nodes share are shared in the copy too.
    """
    tensors = [*module.parameters(), *module.buffers(), *_constants(module)]
    copied: fx.GraphModule = copy.deepcopy(module, {id(tensor): tensor for tensor in tensors})
    for names in ("_used_names", "_base_count"):
        known = getattr(module.graph._graph_namespace, names)  # noqa: SLF001 - its only name
        setattr(copied.graph._graph_namespace, names, known.copy())  # noqa: SLF001
    notes: dict[int, Any] = {}
    for node in copied.graph.nodes:
        if _CUSTOM in node.meta:
            shared = node.meta[_CUSTOM]
            node.meta[_CUSTOM] = notes.setdefault(id(shared), dict(shared))
    return copied


def _constants(module: fx.GraphModule) -> Iterator[Any]:
    """Yield tensors that are plain attributes."""
    for part in module.modules():
        yield from (value for value in vars(part).values() if hasattr(value, "data_ptr"))
