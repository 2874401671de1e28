"""Read what Vela compiled: while it compiles, or without the files that it would write.

Workers that estimate import this file: it needs neither torch nor ExecuTorch.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ethosu import regor
from ethosu.vela import vela

from workbench.engine.toolchain_patches.gate import require
from workbench.engine.toolchain_patches.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def watched_regor(compiled: Callable[[Any], None]) -> Iterator[None]:
    """Call ``compiled`` with each model that Vela compiles while the block runs.

    The model has Vela's debug database, which changes no byte of the result.
    """
    with replaced(vela, "regor", _WatchedRegor(compiled)):
        yield


class _WatchedRegor:
    """Stands in for the regor module inside Vela: compiles, and hands on what was compiled."""

    def __init__(self, compiled: Callable[[Any], None]) -> None:
        # What stands there may be a correction of what is compiled.
        self._compiled, self._regor = compiled, vela.regor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._regor, name)

    def compile(self, *arguments: Any, options: str, **rest: Any) -> Any:
        """Compile with the debug database on."""
        model = self._regor.compile(*arguments, options=_with_database(options), **rest)
        self._compiled(model)
        return model


def _with_database(options: str) -> str:
    """Return regor's options with the debug database on."""
    if "enable_db=true" in options:
        return options
    return options.replace("[compiler]\n", "[compiler]\nenable_db=true\n", 1)


class _Compiled(Exception):
    """Ends Vela with the model as soon as there is one."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model


class _CompilingRegor:
    """Stands in for the regor module inside Vela: compiles, and goes no further."""

    def __getattr__(self, name: str) -> Any:
        return getattr(regor, name)

    def compile(self, *arguments: Any, options: str, **rest: Any) -> Any:
        """Compile with the debug database on, and leave Vela."""
        raise _Compiled(regor.compile(*arguments, options=_with_database(options), **rest))


def compiled_model(arguments: list[str]) -> Any | None:
    """Return regor's model for Vela's command line, without the files that Vela would write.

    Args:
        arguments: As for the command ``vela``.

    Returns:
        None if Vela ends without compiling.

    Raises:
        SystemExit: Vela refused.
        RuntimeError: The compiler refused.
        WorkbenchError: The installed version of Vela has no regor.
    """
    require("vela-models")
    with replaced(vela, "regor", _CompilingRegor()):
        try:
            vela.main(arguments)
        except _Compiled as done:
            return done.model
    return None
