"""Every name in the tables of stages and targets leads to code."""

import importlib
import inspect

import pytest

from workbench.pipeline.stages import STAGES
from workbench.targets import TARGETS

pytestmark = pytest.mark.engine


def test_that_every_name_in_a_table_leads_to_code_of_the_right_shape():
    for stage in STAGES:
        module, function = stage.entry.split(":")
        assert callable(getattr(importlib.import_module(module), function))
    for target in TARGETS:
        toolchain = importlib.import_module(target.toolchain)
        for name, method in _members(_protocol(target)).items():
            assert _required(getattr(toolchain, name)) == _required(method) - 1, (target.id, name)


def _protocol(target):
    """Return the protocol by which the stages of a target use its toolchain."""
    from workbench.engine.targets import CompilingToolchain, DeviceToolchain, Toolchain

    if "run" in target.stages:
        return DeviceToolchain
    return CompilingToolchain if "lower" in target.stages else Toolchain


def _members(protocol):
    kinds = [kind for kind in protocol.__mro__ if kind.__module__ == protocol.__module__]
    return {
        name: value
        for kind in kinds
        for name, value in vars(kind).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }


def _required(function):
    """Return how many parameters have to be given."""
    parameters = inspect.signature(function).parameters.values()
    return sum(1 for p in parameters if p.default is inspect.Parameter.empty)
