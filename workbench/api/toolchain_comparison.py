"""One project in two toolchains, side by side: what an upgrade changes, and if it is right."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from pydantic import JsonValue

from workbench.api.runs import run
from workbench.project import edits
from workbench.project.frozen import Frozen
from workbench.pte.description import program_bytes, read_program
from workbench.toolchains.registry import title_of, tools_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from workbench.api.runs import RunResult
    from workbench.api.studies import JobOptions
    from workbench.project.opened import OpenProject
    from workbench.pte.program import Program

# Figures that are the compiler's estimate, and no property of the program.
_ESTIMATES = ("cycles", "cycles_vela", "inference_ms")
TITLES = {
    "verdict": "Verdict",
    "accuracy": "Accuracy",
    "sqnr_db": "SQNR [dB]",
    "top1": "Top-1",
    "max_lsb": "Largest difference [LSB]",
    "cycles": "Cycles, corrected",
    "cycles_vela": "Cycles, as Vela says",
    "inference_ms": "Time [ms]",
    "flash_bytes": "Constants [bytes]",
    "sram_bytes": "SRAM [bytes]",
    "cpu_operators": "Operators on the CPU",
    "delegates": "Delegates",
    "pte_bytes": "Program [bytes]",
}


class ToolchainFigure(Frozen):
    """A figure of a program in both toolchains.

    Attributes:
        name: What it is; cycles are NPU cycles of one inference, memory is in bytes.
        values: In the project's toolchain, and in the other; None where there is none.
        comparable: False for estimates of two releases of Vela: neither is better.
        note: What is to be known of the two: that they are equal, or not comparable, and why.
    """

    name: str
    values: tuple[JsonValue, JsonValue]
    comparable: bool = True
    note: str = ""

    @property
    def differs(self) -> bool:
        """Whether both differ."""
        return self.values[0] != self.values[1]


class ToolchainComparison(Frozen):
    """A project in its toolchain and in another one.

    Attributes:
        names: The toolchains; "" is the program's own.
        titles: Their versions as text.
        errors: Why it could not be compiled in one; "" where it was.
        figures: What is known of both programs.
        same_program: Whether what the NPU gets is equal byte for byte; None if one is missing.
        outputs: Elements of the test vectors' outputs, and how many of them differ; None if the
            vectors cannot be compared.
        corrections: By id, the places of each correction in both, where one has any.
        remarks: What follows, as sentences.
    """

    names: tuple[str, str]
    titles: tuple[str, str]
    errors: tuple[str, str]
    figures: tuple[ToolchainFigure, ...]
    same_program: bool | None
    outputs: tuple[int, int] | None
    corrections: dict[str, tuple[int, int]]
    remarks: tuple[str, ...]

    @property
    def still_right(self) -> bool:
        """Whether both programs are what the quantized model is."""
        verdicts = next((f.values for f in self.figures if f.name == "verdict"), (None, None))
        return set(verdicts) == {"right"}


@dataclass(frozen=True)
class _Side:
    name: str
    tools: Mapping[str, str]
    result: RunResult

    @property
    def error(self) -> str:
        return self.result.errors[0].message if self.result.errors else ""

    def part(self, name: str) -> dict[str, Any]:
        value: dict[str, Any] = self.result.document.get(name) or {}
        return value

    def program(self, suffix: str) -> Program | None:
        folder = self.result.folders.get("package")
        paths: list[Path] = sorted(folder.glob(f"*{suffix}")) if folder else []
        return read_program(program_bytes(paths[0])) if paths else None


def compare_toolchains(opened: OpenProject, name: str, **how: Unpack[JobOptions]) -> ToolchainComparison:
    """Run a project in its toolchain and in another one; nothing is kept in its history.

    Args:
        opened: The project.
        name: The other toolchain; "" for the program's own.
        how: How both run, see ``JobOptions``.

    Raises:
        WorkbenchError: There is no such toolchain, or the project is invalid.
    """
    sides = []
    # Both are looked up before the first one runs.
    for toolchain, tools in [(one, tools_of(one)) for one in (opened.project.toolchain, name)]:
        versions = title_of(tools) if toolchain else ""
        project = edits.set_toolchain(opened.project, toolchain, versions)
        chosen = replace(opened, project=project, path=None)
        sides.append(_Side(toolchain, tools, run(chosen, skip=("run",), **how)))
    return _compared(sides[0], sides[1])


def _compared(one: _Side, other: _Side) -> ToolchainComparison:
    same = _same_program(one, other)
    one_estimator = one.tools["ethos-u-vela"] == other.tools["ethos-u-vela"]
    figures = tuple(_figures(one, other, comparable=one_estimator, same=bool(same)))
    outputs = _outputs(one, other)
    return ToolchainComparison(
        names=(one.name, other.name),
        titles=(title_of(dict(one.tools)), title_of(dict(other.tools))),
        errors=(one.error, other.error),
        figures=figures,
        same_program=same,
        outputs=outputs,
        corrections=_corrections(one, other),
        remarks=tuple(_remarks(figures, same, outputs, one_estimator=one_estimator)),
    )


def _figures(one: _Side, other: _Side, *, comparable: bool, same: bool) -> Iterator[ToolchainFigure]:
    known = [_known(one), _known(other)]
    for name in dict.fromkeys([*known[0], *known[1]]):
        values = known[0].get(name), known[1].get(name)
        is_ranked = comparable or name not in _ESTIMATES
        note = ""
        if values[0] == values[1]:
            note = "equal"
        elif name in _ESTIMATES and same:
            note = "the estimate alone: equal bytes"
        elif not is_ranked:
            note = "other estimator: not comparable"
        yield ToolchainFigure(name=name, values=values, comparable=is_ranked, note=note)


def _known(side: _Side) -> dict[str, JsonValue]:
    """Return the figures of one side by name; those of stages that did not run are absent."""
    gate, quality, lowered = side.part("gate"), side.part("evaluate"), side.part("lower")
    figures: dict[str, JsonValue] = {}
    if gate:
        figures["verdict"] = gate["verdict"]
        figures["accuracy"] = side.part("accuracy").get("verdict")
    if quality:
        figures |= {"sqnr_db": quality["sqnr_db"], "top1": quality["top1_quantized"]}
    if verified := side.part("verify"):
        figures["max_lsb"] = verified["max_lsb"]
    if lowered:
        rows = lowered["vela"]
        for name, key in (
            ("cycles", "cycles_total"),
            ("cycles_vela", "cycles_vela"),
            ("inference_ms", "inference_ms"),
            ("flash_bytes", "flash_bytes"),
        ):
            figures[name] = sum(row[key] for row in rows) if rows else None
        figures["sram_bytes"] = max((row["sram_bytes"] for row in rows), default=None)
        figures["cpu_operators"] = len(lowered["cpu_nodes"])
        figures["delegates"] = lowered["delegates"]
    if package := side.part("package"):
        figures["pte_bytes"] = package["pte"]["bytes"]
    return figures


def _same_program(one: _Side, other: _Side) -> bool | None:
    """Return whether all delegates are equal byte for byte."""
    programs = one.program(".pte"), other.program(".pte")
    if programs[0] is None or programs[1] is None:
        return None
    ours, theirs = (
        [bytes(delegate.data) for method in program.methods for delegate in method.delegates]
        for program in programs
        if program is not None
    )
    return ours == theirs


def _outputs(one: _Side, other: _Side) -> tuple[int, int] | None:
    """Return the number of elements of the outputs of equal test vectors, and those that differ."""
    programs = one.program(".bpte"), other.program(".bpte")
    if programs[0] is None or programs[1] is None:
        return None
    total = different = 0
    for ours, theirs in zip(programs[0].cases, programs[1].cases, strict=False):
        inputs = [[bytes(tensor.data) for tensor in case.inputs] for case in (ours, theirs)]
        if inputs[0] != inputs[1] or len(ours.expected) != len(theirs.expected):
            return None
        for mine, their in zip(ours.expected, theirs.expected, strict=True):
            if (mine.dtype, mine.shape) != (their.dtype, their.shape):
                return None
            count = int(np.prod(mine.shape, dtype=np.int64))
            size = len(mine.data) // count if count else 1
            elements = (np.frombuffer(t.data, np.uint8).reshape(-1, size) for t in (mine, their))
            first, second = elements
            total += count
            different += int((first != second).any(axis=1).sum())
    return (total, different) if total else None


def _corrections(one: _Side, other: _Side) -> dict[str, tuple[int, int]]:
    places = [
        {row["id"]: len(row["places"]) for row in side.result.document.get("corrections", ())}
        for side in (one, other)
    ]
    names = dict.fromkeys([*places[0], *places[1]])
    counts = {name: (places[0].get(name, 0), places[1].get(name, 0)) for name in names}
    return {name: count for name, count in counts.items() if any(count)}


def _remarks(
    figures: tuple[ToolchainFigure, ...],
    same: bool | None,
    outputs: tuple[int, int] | None,
    *,
    one_estimator: bool,
) -> Iterator[str]:
    estimates = [figure for figure in figures if figure.name in _ESTIMATES and figure.differs]
    if same:
        yield "What the NPU gets is equal byte for byte."
        if estimates:
            yield "The cycles differ by the estimate of Vela alone: the program is the same."
    elif estimates and not one_estimator:
        yield (
            "The cycles are estimates of two releases of Vela, which cannot be ranked: the program "
            "differs, and so does the model that estimates it."
        )
    if outputs is not None:
        total, different = outputs
        yield f"{different:,} of {total:,} elements of the test vectors' outputs differ."
