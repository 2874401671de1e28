"""Toolchains of this machine: what they have, and what works with them."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from workbench import interpreter
from workbench.engine_process import surroundings_of
from workbench.errors import Place, WorkbenchError, failure
from workbench.project.frozen import Frozen
from workbench.tool_output import tool_output
from workbench.toolchain_versions import AccelerationStatus, status
from workbench.toolchains import creation, registry
from workbench.toolchains.releases import SupportState, support_of

if TYPE_CHECKING:
    from collections.abc import Callable

# The time that an environment gets to import everything [s].
CHECK_LIMIT_S = 240.0


class ToolchainState(Frozen):
    """A toolchain and what is known of it without starting it.

    Attributes:
        name: "" for the program's own.
        python: The path of its interpreter; "" for the program's own.
        python_version: As "3.11"; "" if it cannot be used any more.
        tools: The versions of its packages.
        state: "proven", "unproven" (it runs, and was not tested) or "unusable".
        reason: What is not proven, or why it cannot be used; "" where all is well.
        acceleration: Whether stages are accelerated.
    """

    name: str
    python: str
    python_version: str
    tools: dict[str, str]
    state: SupportState
    reason: str
    acceleration: AccelerationStatus


class ToolchainCheck(Frozen):
    """What an engine of a toolchain found.

    Attributes:
        toolchain: Its state.
        corrections: By id: on, or aside (the tools have other code, so that it is not applied).
        moved: By patch, the functions of the tools that have other code or are not there.
    """

    toolchain: ToolchainState
    corrections: dict[str, str]
    moved: dict[str, list[str]]

    @property
    def counts(self) -> Counter[str]:
        """The number of corrections by state."""
        return Counter(self.corrections.values())


def list_toolchains() -> tuple[ToolchainState, ...]:
    """Return the program's own toolchain and those that were added.

    Raises:
        WorkbenchError: The list is damaged.
    """
    return tuple(toolchain_state(name) for name in ("", *registry.toolchains()))


def toolchain_state(name: str) -> ToolchainState:
    """Return the state of a toolchain; one that cannot be used any more says why.

    Raises:
        WorkbenchError: There is none of this name.
    """
    known = registry.toolchains().get(name)
    if name and known is None:
        raise registry.unknown(name)
    python = known.python if known else ""
    try:
        tools, proof = registry.tools_of(name), registry.proof_versions(name)
    except WorkbenchError as error:
        return ToolchainState(
            name=name,
            python=python,
            python_version="",
            tools={},
            state="unusable",
            reason=error.infos[0].message,
            acceleration=AccelerationStatus(active=False, reason=error.infos[0].message),
        )
    support = support_of(tools)
    return ToolchainState(
        name=name,
        python=python,
        python_version=proof["python"],
        tools=tools,
        state=support.state,
        reason=support.reason,
        acceleration=status(proof),
    )


def add_toolchain(name: str, python: str | Path) -> ToolchainState:
    """Add a toolchain: an interpreter, or the folder of its environment.

    Raises:
        WorkbenchError: The name is taken or invalid, or engines cannot run there.
    """
    registry.add(name, Path(python))
    return toolchain_state(name)


def create_toolchain(
    name: str, spec: str, report: Callable[[str], None] = lambda line: None
) -> ToolchainState:
    """Make an environment with pip in the data folder, and add it.

    Args:
        name: A new name.
        spec: ``executorch==1.4.1``, and other packages if wanted.
        report: Called with what is done, a line at a time.

    Raises:
        WorkbenchError: The name or the text is invalid, or pip fails; then nothing stays.
    """
    creation.create(name, spec, report)
    return toolchain_state(name)


def remove_toolchain(name: str) -> None:
    """Remove a toolchain, and its environment if the program made it.

    Raises:
        WorkbenchError: There is none of this name.
    """
    creation.discard(registry.remove(name))


def check_toolchain(name: str) -> ToolchainCheck:
    """Start a toolchain, import its tools, and return what becomes of every correction.

    Args:
        name: "" for the program's own.

    Raises:
        WorkbenchError: There is none of this name, or it does not start.
    """
    python, variables = surroundings_of(name)
    module = "workbench.engine.selftest"
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        answer = Path(folder) / "report.json"
        command = interpreter.command(module, str(answer), python=python)
        try:
            output = tool_output(command, CHECK_LIMIT_S, variables)
            document = json.loads(answer.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise _not_started(name, output.code, output.text) from error
        except (OSError, ValueError) as error:
            raise _not_started(name, -1, str(error)) from error
    state = toolchain_state(name).model_copy(update={"tools": document["tools"]})
    return ToolchainCheck(toolchain=state, corrections=document["corrections"], moved=document["moved"])


def _not_started(name: str, code: int | None, text: str) -> WorkbenchError:
    lines = [line for line in text.splitlines() if line.strip()]
    reason = f"it did not start within {CHECK_LIMIT_S:g} s" if code is None else "it does not start"
    return failure(
        f"The toolchain {name or registry.OWN_TITLE} cannot be used: {reason}"
        + (f" ({lines[-1].strip()[:200]})." if lines and code is not None else "."),
        "Its packages may not fit together. Details have its last lines.",
        Place(kind="option", id=f"toolchain {name}"),
        details="\n".join(lines[-30:]),
        code="toolchain-unusable",
    )
