"""Loading of plug-ins: types, and one error message per problem.

``project/plugins.py`` describes the lists of a plug-in. A plug-in may use these types for its own
checks::

    if TYPE_CHECKING:
        from workbench.engine.quantization.plugins import ConfigMaker, ObserverClass

    CONFIGS: list[ConfigMaker] = [narrow]
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from executorch.backends.arm.quantizer.arm_quantizer_utils import NodeFinder
from executorch.backends.arm.quantizer.quantization_config import QuantizationConfig
from torchao.quantization.pt2e.observer import UniformQuantizationObserverBase
from torchao.quantization.pt2e.quantizer import Quantizer

from workbench.engine.quantization.plugin_quantizer import PluginQuantizer
from workbench.engine.user_code import load_callable, user_failure
from workbench.errors import Place, WorkbenchError, failure
from workbench.project import sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import torch

    from workbench.project.opened import OpenProject

_OPTION = "plugins"
_WHERE = Place(kind="option", id=_OPTION)


class ConfigMaker(Protocol):
    """A function in ``CONFIGS``: returns the Arm backend's config, also for training."""

    def __call__(self, *, is_qat: bool) -> QuantizationConfig:
        """Return the config; for training, with fake-quantizing observers."""
        ...


class ObserverClass(Protocol):
    """A class in ``OBSERVERS``: a subclass of torchao's ``UniformQuantizationObserverBase``.

    Its statistics are buffers, including ``min_val`` and ``max_val``; it is constructed with
    ``dtype``, ``qscheme``, ``quant_min``, ``quant_max`` and ``eps``.
    """

    @classmethod
    def with_args(cls, **options: Any) -> Callable[..., Any]:
        """Return a constructor with these options."""
        ...


class FinderClass(Protocol):
    """A class in ``FINDERS``: a ``NodeFinder`` of ExecuTorch, constructed without arguments."""

    def __call__(self) -> NodeFinder:
        """Return a finder; ``find_nodes(graph_module)`` yields nodes of an exported graph."""
        ...


class QuantizerClass(Protocol):
    """A class in ``QUANTIZERS``: a ``Quantizer`` of torchao, constructed without arguments.

    It must skip annotated nodes; nodes that it annotates may run on the NPU.
    """

    def __call__(self) -> Quantizer:
        """Return a quantizer; ``annotate(graph_module)`` writes quantization specs to nodes."""
        ...


class Plugins:
    """The plug-ins of a project in ``folder``, by the references of its rules."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def config(self, reference: str, *, is_qat: bool = False) -> QuantizationConfig:
        """Return a config, labelled with its reference.

        Raises:
            WorkbenchError: it cannot be loaded, raises, or returns another type.
        """
        built = self._make(reference, QuantizationConfig, {"is_qat": is_qat})
        return replace(built, label=reference)

    def observer(self, reference: str) -> ObserverClass:
        """Return the class of an observer.

        Raises:
            WorkbenchError: it cannot be loaded, or is not an observer with a grid.
        """
        observer_class: Any = load_callable(self._named(reference), _OPTION)
        is_one = isinstance(observer_class, type) and issubclass(
            observer_class, UniformQuantizationObserverBase
        )
        if not is_one:
            raise _is_not(reference, UniformQuantizationObserverBase)
        return cast("ObserverClass", observer_class)

    def finder(self, reference: str) -> NodeFinder:
        """Return a finder.

        Raises:
            WorkbenchError: it cannot be loaded, raises, or is not a finder.
        """
        return _Finder(self._make(reference, NodeFinder, {}), reference)

    def quantizer(self, reference: str) -> PluginQuantizer:
        """Return a quantizer that records its annotations.

        Raises:
            WorkbenchError: it cannot be loaded, raises, or is not a quantizer.
        """
        return PluginQuantizer(self._make(reference, Quantizer, {}), reference)

    def _named(self, reference: str) -> sources.Reference:
        return sources.callable_reference(reference, self._folder, _OPTION)

    def _make(self, reference: str, kind: type, options: dict[str, Any]) -> Any:
        named = self._named(reference)
        function = load_callable(named, _OPTION)
        try:
            result = function(**options)
        except (Exception, SystemExit) as error:
            raise user_failure(error, "raised an error", _WHERE, named.path) from error
        if not isinstance(result, kind):
            raise _is_not(reference, kind)
        return result


class _Finder(NodeFinder):
    """A plug-in's finder, named by its reference in reports."""

    def __init__(self, own: NodeFinder, reference: str) -> None:
        self._own, self._reference = own, reference

    def find_nodes(self, model: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
        nodes = self._own.find_nodes(model)
        if not hasattr(nodes, "__next__"):
            raise failure(
                f"{self._reference} returns a {type(nodes).__name__}, not an iterator of nodes.",
                "Use yield in its find_nodes, or return iter(...).",
                _WHERE,
                code="plugin-finder-invalid",
            )
        return nodes

    def __repr__(self) -> str:
        return self._reference


def error_in(opened: OpenProject, error: BaseException) -> WorkbenchError | None:
    """Return the error for an exception raised by a plug-in; None for other exceptions."""
    frames: set[str] = set()
    for cause in _chain(error):
        trace = cause.__traceback__
        while trace is not None:
            frames.add(trace.tb_frame.f_code.co_filename)
            trace = trace.tb_next
    for _, _, reference in opened.project.taken_from_plugins():
        path = sources.callable_reference(reference, opened.folder, _OPTION).path
        if path is not None and str(path) in frames:
            return user_failure(error, "raised an error", _WHERE, path)
    return None


def _chain(error: BaseException) -> Iterable[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__


def _is_not(reference: str, kind: type) -> WorkbenchError:
    name = reference.rpartition(":")[2]
    return failure(
        f"{name} of the plug-in {reference.rpartition(':')[0]} does not return a {kind.__name__}.",
        "The guide describes the contents of a plug-in.",
        _WHERE,
        code="plugin-item-invalid",
    )
