"""CORRECTIONS: where the tools give a program that is not the quantized model.

A correction is a public function of a module of ``workbench/engine/ethos_u/corrections``. Its name
is its id, and its docstring is its row. Both are read here without importing the module, which
needs torch. Each correction is on by default, has a switch among the target's options, and is part
of the key of the stages that it changes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from workbench.errors import ErrorInfo, Place
from workbench.text import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import JsonValue

    from workbench.results import AppliedCorrection

# Which stage a correction changes, as the facets of the target: "quantizer" or "compile".
Facet = Literal["quantizer", "compile"]

GROUP = "Corrections"
# The code of a problem that a correction would prevent, which is switched off.
SWITCHED_OFF = "correction-switched-off"

CORRECTIONS_FOLDER = Path(__file__).parents[2] / "engine" / "ethos_u" / "corrections"
# The modules with corrections. Those of one module apply in the order of the file; modules for the
# float graph apply in this order.
_MODULES: Mapping[str, Facet] = {
    "small_scales": "quantizer",
    "transposed_convolutions": "quantizer",
    "constants": "quantizer",
    "undefined_values": "quantizer",
    "masks": "quantizer",
    "batch_norm_folding": "quantizer",
    "unsupported_operators": "quantizer",
    "float_rewrites": "quantizer",
    "annotation_contexts": "quantizer",
    "annotation_patches": "quantizer",
    "operator_support": "compile",
    "partition": "compile",
    "before_fuse": "compile",
    "before_pools": "compile",
    "before_constants": "compile",
    "int16_tables": "compile",
    "lowering_patches": "compile",
    "fewer_operations": "compile",
    "after_tosa": "compile",
    "vela": "compile",
}
# The module of those without which a program is right, and takes more cycles.
_CYCLES = "fewer_operations"


@dataclass(frozen=True)
class Correction:
    """One defect of the tools, and what is done instead.

    Attributes:
        id: The name of the function, and of the option that switches it.
        title: What it does, in a few words.
        fault: What is wrong with the stock tools.
        link: Where the defect is reported; "" where it is not.
        proven: Versions it was proven with, by package.
        network: The smallest network that shows the defect.
        instead: What is done instead.
        why_right: Why the corrected program computes what the quantized model does.
        module: The module with the function.
    """

    id: str
    title: str
    fault: str
    link: str
    proven: Mapping[str, str]
    network: str
    instead: str
    why_right: str
    module: str

    @property
    def facet(self) -> Facet:
        """Which stage it changes."""
        return _MODULES[self.module]

    @property
    def saves_cycles(self) -> bool:
        """Whether a program without it is right as well, and takes more cycles."""
        return self.module == _CYCLES


# A public function with its docstring; a section of one: a name, and a text of indented lines.
_FUNCTION = re.compile(r'^def ([a-z]\w+)\([^"]*:\n {4}"""(.*?)"""', re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^([A-Z][a-z ]+): (.+(?:\n {4}.+)*)", re.MULTILINE)


def _rows(module: str) -> Iterator[Correction]:
    """Yield the corrections of a module: its functions whose docstring names a fault."""
    text = (CORRECTIONS_FOLDER / f"{module}.py").read_text(encoding="utf-8")
    for name, docstring in _FUNCTION.findall(text):
        if "\n    Fault: " in docstring:
            yield row_of(name, docstring, module)


def row_of(name: str, docstring: str, module: str) -> Correction:
    """Return the row of a correction.

    Args:
        name: The name of its function.
        docstring: The docstring of the function: the title, and the sections Fault, Instead, Right
            because, Network, Tools, and Reported where the fault is.
        module: The module with the function.

    Raises:
        KeyError: A section is missing.
    """
    text = inspect.cleandoc(docstring)
    sections = {key: " ".join(words.split()) for key, words in _SECTION.findall(text)}
    return Correction(
        id=name,
        title=text.partition("\n")[0].removesuffix("."),
        fault=sections["Fault"],
        link=sections.get("Reported", ""),
        proven=dict(tool.split(" ") for tool in sections["Tools"].split(", ")),
        network=sections["Network"],
        instead=sections["Instead"],
        why_right=sections["Right because"],
        module=module,
    )


CORRECTIONS: tuple[Correction, ...] = tuple(row for module in _MODULES for row in _rows(module))
CORRECTIONS_BY_ID = {correction.id: correction for correction in CORRECTIONS}


def described(applied: AppliedCorrection) -> dict[str, Any]:
    """Return what became of a correction, with title and link, for manifests and documents."""
    row = CORRECTIONS_BY_ID[applied.id]
    return {**applied.model_dump(mode="json"), "title": row.title, "link": row.link}


def is_enabled(correction: str, options: Mapping[str, JsonValue]) -> bool:
    """Return whether the options of a target leave a correction on."""
    return options.get(correction) is not False


def enabled_corrections(
    options: Mapping[str, JsonValue], facet: Facet | None = None
) -> tuple[Correction, ...]:
    """Return the corrections that the options of a target leave on, of one facet or of both."""
    return tuple(row for row in CORRECTIONS if facet in {None, row.facet} and is_enabled(row.id, options))


def switched_off(options: Mapping[str, JsonValue], facet: Facet) -> list[JsonValue]:
    """Return the ids of the corrections of a facet that the options switch off."""
    return [row.id for row in CORRECTIONS if row.facet == facet and not is_enabled(row.id, options)]


def needed_and_off(options: Mapping[str, JsonValue]) -> list[Correction]:
    """Return the corrections that the options switch off and that a right program may need."""
    return [row for row in CORRECTIONS if not row.saves_cycles and not is_enabled(row.id, options)]


def corrections_off(options: Mapping[str, JsonValue]) -> Iterator[ErrorInfo]:
    """Yield a warning that names the corrections that the options of a target switch off.

    Those that save cycles are not among them.
    """
    if off := needed_and_off(options):
        names = listed([f"\u201c{row.title}\u201d" for row in off])
        yield ErrorInfo(
            message=f"Corrections of the tools are off: {names}. The program may be wrong, or may "
            "not compile.",
            hint=f"Verify shows whether it is right. Switch {'it' if len(off) == 1 else 'them'} on "
            f"({switching_on(row.id for row in off)}).",
            where=Place(kind="option", id=f"target.options.{off[0].id}"),
            code=SWITCHED_OFF,
        )


# What ExecuTorch, torchao and Vela end with where they fail on a program.
_TOOLS_FAILED = {
    "unexpected",
    "operator-failed",
    "preparing-failed",
    "lowering-failed",
    "vela-compile-failed",
}


def with_switches(infos: tuple[ErrorInfo, ...], options: Mapping[str, JsonValue]) -> tuple[ErrorInfo, ...]:
    """Return the problems of a stage; failures of the tools name the corrections that are off.

    Args:
        infos: The problems that stopped the stage.
        options: Options of the target.
    """
    off = needed_and_off(options)
    if not off or any(info.code == SWITCHED_OFF for info in infos):
        return infos
    return tuple(_blamed(info, off) if info.code in _TOOLS_FAILED else info for info in infos)


def _blamed(info: ErrorInfo, off: list[Correction]) -> ErrorInfo:
    """Return a failure of the tools with the switches of corrections as its likely cause."""
    one, *others = off
    which = "one of the corrections that are off" if others else f"that {one.title!r} is off"
    message = f"The tools fail: {info.message}" if info.code == "unexpected" else info.message
    return info.model_copy(
        update={
            "message": message[:600],
            "hint": f"The likely cause is {which}. Switch {'them' if others else 'it'} on "
            f"({switching_on(row.id for row in off)}).",
            "where": Place(kind="option", id=f"target.options.{one.id}"),
            "code": SWITCHED_OFF,
        }
    )


def switching_on(corrections: Iterable[str]) -> str:
    """Return the command that switches corrections on."""
    return f"workbench target PROJECT {' '.join(f'{name}=true' for name in corrections)}"
