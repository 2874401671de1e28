"""Every name in the tables of stages and targets leads to code."""

import importlib

import pytest

from workbench.pipeline.stages import STAGES
from workbench.targets import TARGETS

pytestmark = pytest.mark.engine


def test_that_every_name_in_a_table_leads_to_code():
    for stage in STAGES:
        module, function = stage.entry.split(":")
        assert callable(getattr(importlib.import_module(module), function))
    for target in TARGETS:
        toolchain = importlib.import_module(target.toolchain)
        always = ["quantizer", "float_module", "prepare", "convert", "memory", "report", "student",
                  "readings"]  # fmt: skip
        needed = {"lower": "lower", "verify": "verify", "run": "simulate"}
        for verb in [*always, *(needed[s] for s in target.stages if s in needed)]:
            assert callable(getattr(toolchain, verb))
