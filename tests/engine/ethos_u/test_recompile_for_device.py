"""A program retargeted by Vela alone has the bytes of one lowered for that target."""

from __future__ import annotations

import contextlib
import io
from functools import partial
from typing import Any

import pytest
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.backends.arm.ethosu.backend import EthosUBackend

from tests.engine.acceleration import programs
from tests.problems import refused
from workbench.engine.ethos_u.capture.lowering import capture_tosa
from workbench.engine.ethos_u.recompile_for_device import delegates, has_same_tosa, recompile_for_device
from workbench.engine.runtime.accelerated import applied

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

TARGETS = [
    pytest.param("ethos-u55-64", "Shared_Sram", marks=pytest.mark.slow),
    pytest.param("ethos-u55-128", "Shared_Sram", marks=pytest.mark.slow),
    pytest.param("ethos-u55-128", "Sram_Only", marks=pytest.mark.slow),
    pytest.param("ethos-u55-256", "Sram_Only", marks=pytest.mark.slow),
    ("ethos-u65-256", "Shared_Sram"),
]


@pytest.fixture(scope="module", params=programs.marked(["a8w8", "two delegates"], {"two delegates"}))
def lowered(request: pytest.FixtureRequest) -> tuple[Any, Any, list[bytes]]:
    program = programs.exported(request.param)
    with applied(), capture_tosa() as tosa:
        manager = programs.edge(program, EthosUCompileSpec("ethos-u55-128"))
    return program, manager, tosa


def quietly_retargeted(manager: Any, tosa: list[bytes], make_spec: Any) -> bytes:
    with contextlib.redirect_stdout(io.StringIO()):
        return bytes(recompile_for_device(manager, tosa, make_spec).to_executorch().buffer)


@pytest.mark.parametrize(("target", "memory"), TARGETS)
def test_that_the_pte_equals_that_of_a_full_lowering(
    lowered: tuple[Any, Any, list[bytes]], target: str, memory: str
) -> None:
    program, manager, tosa = lowered
    make_spec = partial(EthosUCompileSpec, target, memory_mode=memory)
    retargeted = quietly_retargeted(manager, tosa, make_spec)
    with applied():
        assert retargeted == programs.lowered(program, make_spec())


def test_that_the_program_it_came_from_is_unchanged(lowered: tuple[Any, Any, list[bytes]]) -> None:
    _, manager, tosa = lowered
    before = [(lowered.processed_bytes, lowered.compile_specs) for lowered in delegates(manager)]
    quietly_retargeted(manager, tosa, partial(EthosUCompileSpec, "ethos-u55-32"))
    assert [(each.processed_bytes, each.compile_specs) for each in delegates(manager)] == before


def test_that_a_target_with_other_tosa_is_refused(lowered: tuple[Any, Any, list[bytes]]) -> None:
    _, manager, tosa = lowered
    assert not has_same_tosa(manager, EthosUCompileSpec("ethos-u85-256"))
    with refused("target-needs-lowering"):
        quietly_retargeted(manager, tosa, partial(EthosUCompileSpec, "ethos-u85-256"))


def test_that_missing_tosa_is_refused(lowered: tuple[Any, Any, list[bytes]]) -> None:
    _, manager, tosa = lowered
    with refused("target-needs-lowering"):
        quietly_retargeted(manager, tosa[1:], partial(EthosUCompileSpec, "ethos-u55-64"))


def test_that_a_target_vela_does_not_know_is_an_error_with_a_sentence(
    lowered: tuple[Any, Any, list[bytes]], capfd: pytest.CaptureFixture[str]
) -> None:
    _, manager, tosa = lowered
    with refused("vela-target-rejected"):
        quietly_retargeted(manager, tosa, partial(EthosUCompileSpec, "ethos-u55-77"))
    capfd.readouterr()


def test_that_one_flatbuffer_is_captured_for_each_delegate(lowered: tuple[Any, Any, list[bytes]]) -> None:
    _, manager, tosa = lowered
    assert len(tosa) == len(delegates(manager))
    assert all(b"TOSA" in flatbuffer[:16] for flatbuffer in tosa)
    stock = EthosUBackend._compile_tosa_flatbuffer
    with capture_tosa():
        assert EthosUBackend._compile_tosa_flatbuffer is not stock
    assert EthosUBackend._compile_tosa_flatbuffer is stock
