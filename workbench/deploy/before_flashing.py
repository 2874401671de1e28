"""Before anything is flashed: whether linked firmware has what a program needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.deploy.simulators.compatibility import (
    POOL_OPTIONS,
    POOL_SYMBOLS,
    Program,
    misfits,
    needs,
    notes,
    read_runner,
)
from workbench.errors import Place, failure
from workbench.pte.description import OutputLife
from workbench.pte.vela_stream import ETHOS_U

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.errors import ErrorInfo


@dataclass(frozen=True)
class PoolRow:
    """A pool: what the program needs, and what the firmware has; None if it is not known [bytes]."""

    name: str
    needed: int
    available: int | None

    @property
    def holds(self) -> bool | None:
        """Whether it is large enough; None if it is not known."""
        return None if self.available is None else self.available >= self.needed


@dataclass(frozen=True)
class FirmwareFit:
    """What a program needs of firmware, and what that has.

    ``linked`` says of each kernel, and of the backend, whether the firmware contains it.
    """

    pools: tuple[PoolRow, ...]
    linked: Mapping[str, bool]
    problems: tuple[ErrorInfo, ...]
    notes: tuple[str, ...]
    outputs: tuple[OutputLife, ...]


def pool_symbols(assignments: Sequence[str]) -> dict[str, str]:
    """Return the kind of pool of each symbol: those of ExecuTorch's runner, and own ones.

    Args:
        assignments: Own ones, as ``method=my_pool``; each takes the place of the runner's.

    Raises:
        WorkbenchError: one is not of this form, or no such pool exists.
    """
    own = {}
    for text in assignments:
        kind, _, symbol = text.partition("=")
        if kind not in POOL_OPTIONS or not symbol:
            raise failure(
                f"--pool must be KIND=SYMBOL, not {text!r}.",
                f"KIND is one of {', '.join(POOL_OPTIONS)}.",
                Place(kind="option", id="--pool"),
                code="pool-argument-invalid",
            )
        own[symbol] = kind
    return {s: kind for s, kind in POOL_SYMBOLS.items() if kind not in own.values()} | own


def fit_of(elf: Path, program: Program, symbols: Mapping[str, str] = POOL_SYMBOLS) -> FirmwareFit:
    """Return whether linked firmware has the pools, kernels and backend that a program needs.

    Args:
        elf: The linked firmware, with symbols.
        program: The program.
        symbols: The kind of pool of each symbol.

    Raises:
        WorkbenchError: a file is damaged, or the firmware has no symbol of a pool that was named.
    """
    runner = read_runner(elf, symbols)
    for symbol, kind in symbols.items():
        if symbol not in POOL_SYMBOLS and kind not in runner.pools:
            raise failure(
                f"{elf.name} has no symbol {symbol}.",
                "Name an array of the firmware, and do not strip it.",
                Place(kind="option", id="--pool"),
                code="pool-symbol-missing",
            )
    inputs = sum(program.input_bytes)
    pools = [
        PoolRow(name, needed, runner.pools.get(name, 0) if runner.pools else None)
        for name, needed in needs(program, inputs).items()
        if needed and (name != "files" or runner.placement == "semihosting")
    ]
    wanted = [*([ETHOS_U] if program.delegates else []), *program.description["kernels"]]
    return FirmwareFit(
        pools=tuple(pools),
        linked={name: runner.links(name) for name in wanted},
        problems=tuple(misfits(program, runner, inputs)),
        notes=tuple(notes(program, runner)),
        outputs=tuple(OutputLife(**life) for life in program.description["output_lives"]),
    )
