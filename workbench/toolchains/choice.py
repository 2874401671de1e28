"""What a project's choice of a toolchain means on this machine."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.toolchains.registry import OWN_TITLE, title_of, toolchains, tools_of
from workbench.toolchains.releases import lacking_options, support_of
from workbench.toolchains.versions import tool_versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from workbench.project.model import Project


def problems(project: Project) -> Iterator[ErrorInfo]:
    """Yield why a project cannot run in its toolchain; nothing where it can.

    A toolchain that is not on this machine comes with the versions that the project was made with,
    and with the nearest that is.
    """
    place = Place(kind="option", id="toolchain")
    try:
        tools = tools_of(project.toolchain)
    except WorkbenchError as error:
        wanted = project.toolchain_versions
        for info in error.infos:
            text = f" The project was made with {wanted}." if wanted else ""
            update = {"message": info.message + text, "where": place}
            yield info.model_copy(update={**update, "hint": f"{info.hint} {_offer(wanted)}".strip()})
        return
    support = support_of(tools)
    if support.state == "unusable":
        yield ErrorInfo(
            message=f"The toolchain cannot run: {support.reason}",
            hint="Choose another one: workbench toolchain list.",
            where=place,
            code="toolchain-unusable",
        )
    for option in lacking_options(tools):
        if project.target.options.get(option):
            yield ErrorInfo(
                message=f"ExecuTorch {tools['executorch']} does not have the option {option}.",
                hint="Restore its default, or choose another toolchain.",
                where=Place(kind="option", id=f"target.options.{option}"),
                code="toolchain-lacks-option",
            )


def warnings_of(project: Project) -> Iterator[ErrorInfo]:
    """Yield what is not proven of a project's toolchain, as warnings."""
    try:
        support = support_of(tools_of(project.toolchain))
    except WorkbenchError:
        return
    if support.state == "unproven":
        yield ErrorInfo(
            message=support.reason,
            hint="It runs. Check the verdict of every program, and see the guide, ExecuTorch releases.",
            where=Place(kind="option", id="toolchain"),
            code="toolchain-unproven",
        )


def nearest(versions: str) -> str:
    """Return the toolchain of this machine whose versions are nearest to a text of versions.

    Those whose interpreter is gone do not count.

    Args:
        versions: As ``title_of`` writes it; ExecuTorch counts more than torch, and that than Vela.

    Returns:
        Its name; "" for the program's own.
    """
    known = {"": tool_versions()}
    for name, toolchain in toolchains().items():
        if os.path.exists(toolchain.python):
            known[name] = toolchain.probed.versions
    return max(known, key=lambda name: _equal_parts(title_of(known[name]), versions))


def _equal_parts(title: str, versions: str) -> tuple[int, ...]:
    """Return how many numbers of each version are equal, the first version first."""
    here, there = _numbers(title), _numbers(versions)
    return tuple(_common(here.get(name, []), number) for name, number in there.items())


def _numbers(title: str) -> Mapping[str, list[str]]:
    return {name: version.split(".") for name, version in re.findall(r"(\w+) ([\d.]+)", title)}


def _common(one: list[str], other: list[str]) -> int:
    equal = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        equal += 1
    return equal


def _offer(title: str) -> str:
    name = nearest(title)
    versions = tools_of(name) if not name else toolchains()[name].probed.versions
    return (
        f"The nearest here is {name or OWN_TITLE} ({title_of(versions)}): "
        f"workbench settings PROJECT toolchain={name}."
    )
