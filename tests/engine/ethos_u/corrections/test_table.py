"""Each correction is one function, and its row is its docstring."""

import importlib
import inspect
import pkgutil

import pytest

from workbench.engine.ethos_u import corrections
from workbench.engine.ethos_u.applied_corrections import correction_state
from workbench.engine.ethos_u.corrections import lowering, lowering_patches
from workbench.targets.ethos_u.corrections import CORRECTIONS, CORRECTIONS_BY_ID, row_of

pytestmark = pytest.mark.engine


def test_that_a_correction_steps_aside_where_the_tools_have_another_source(monkeypatch, caplog):
    moved = "layouts_moved_to_values"
    (((function, _),),) = lowering_patches.PINS[moved]
    monkeypatch.setitem(lowering_patches.PINS, moved, (((function, "0" * 16),),))
    assert correction_state(moved, {}) == "aside"
    assert CORRECTIONS_BY_ID[moved].title in caplog.text
    assert correction_state(moved, {moved: False}) == "off"


def test_that_a_correction_steps_aside_where_a_release_has_no_pass_to_insert_it_at(monkeypatch, caplog):
    monkeypatch.setattr(lowering, "ABSENT", {"after_tosa"})
    assert correction_state("padded_pools", {}) == "aside"
    assert CORRECTIONS_BY_ID["padded_pools"].title in caplog.text
    assert correction_state("keep_relu_clamps", {}) == "on"


def test_that_a_correction_is_a_function_of_its_name_with_its_row_as_docstring():
    for row in CORRECTIONS:
        module = importlib.import_module(f"{corrections.__name__}.{row.module}")
        function = getattr(module, row.id)
        assert row_of(function.__name__, function.__doc__, row.module) == row
        assert row.id in getattr(module, "PINS", {row.id: ()}), row.id


def test_that_no_function_with_a_fault_is_left_out_of_the_table():
    described = set()
    for info in pkgutil.iter_modules(corrections.__path__):
        module = importlib.import_module(f"{corrections.__name__}.{info.name}")
        described |= {
            name
            for name, value in vars(module).items()
            if inspect.isfunction(value) and "    Fault: " in (value.__doc__ or "")
        }
    assert described == {row.id for row in CORRECTIONS}


def test_that_the_pinned_sources_are_those_of_the_installed_tools():
    assert all(correction_state(row.id, {}) == "on" for row in CORRECTIONS)
