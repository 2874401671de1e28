"""The firmware note: what the firmware must do, and memory placement on the board."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from workbench.deploy import output_header
from workbench.deploy.firmware_files import SECTION, cmake, components, kconfig, linker, region_settings
from workbench.deploy.fitting import sentence
from workbench.deploy.input_header import PictureInput, sentences
from workbench.deploy.program_parts import program_parts
from workbench.escaping import in_markdown, in_markdown_code
from workbench.results import FirmwareStep
from workbench.targets.ethos_u.rewrites import REWRITES_BY_ID
from workbench.text import plural

if TYPE_CHECKING:
    from workbench.deploy.firmware_files import Facts
    from workbench.results import Deliverable, LowerResult, PartKind, ProgramPart


@dataclass(frozen=True)
class Table:
    """A table; cells are text."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Code:
    """Code lines to copy."""

    text: str


@dataclass(frozen=True)
class Steps:
    """What to do, in order."""

    steps: tuple[FirmwareStep, ...]


Block = str | Table | Code | Steps


@dataclass(frozen=True)
class Section:
    """A heading with its content."""

    title: str
    blocks: tuple[Block, ...]


# What the kinds of parts of a program are called, and how many of its parts the note lists.
PART_KINDS: Mapping[PartKind, str] = {
    "weights": "weights, encoded",
    "commands": "NPU commands",
    "borders": "where inputs and outputs are",
    "constants": "constants",
    "rest": "runtime's plan",
}
_MOST_PARTS = 12
_STYLE = (
    "body{background:#fff;font:14px/1.45 system-ui,sans-serif;max-width:60em;margin:2em auto;"
    "padding:0 1em;color:#1c1f24}h1{font-size:1.5em}h2{font-size:1.1em;margin-top:1.6em}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:3px 10px 3px 0;"
    "border-bottom:1px solid #d8dce2;vertical-align:top}pre{background:#f2f4f7;padding:10px;"
    "overflow-x:auto}"
)


def markdown(title: str, sections: Sequence[Section]) -> str:
    """Return the page as Markdown."""
    parts = [f"# {in_markdown(title)}"]
    for section in sections:
        parts.append(f"## {in_markdown(section.title)}")
        parts += [_markdown(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Code():
            return in_markdown_code(block.text)
        case Steps():
            return "\n".join(
                f"{number}. **{in_markdown(step.title)}.** {in_markdown(step.detail)}"
                for number, step in enumerate(block.steps, start=1)
            )
        case Table():
            rows = [block.header, ("---",) * len(block.header), *block.rows]
            cells = [[in_markdown(cell).replace("|", "\\|") for cell in row] for row in rows]
            return "\n".join(f"| {' | '.join(row)} |" for row in cells)
        case _:
            return in_markdown(block)


def html(title: str, sections: Sequence[Section]) -> str:
    """Return the page as one self-contained HTML document."""
    body = [f"<h1>{escape(title)}</h1>"]
    for section in sections:
        body.append(f"<h2>{escape(section.title)}</h2>")
        body += [_html(block) for block in section.blocks]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _html(block: Block) -> str:
    match block:
        case Code():
            return f"<pre>{escape(block.text.rstrip())}</pre>"
        case Steps():
            rows = (
                f"<li><strong>{escape(step.title)}.</strong> {escape(step.detail)}</li>"
                for step in block.steps
            )
            return f"<ol>{''.join(rows)}</ol>"
        case Table():
            head = "".join(f"<th>{escape(cell)}</th>" for cell in block.header)
            rows = (
                "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in block.rows
            )
            return f"<table><tr>{head}</tr>{''.join(rows)}</table>"
        case _:
            return f"<p>{escape(block)}</p>"


def title(facts: Facts) -> str:
    """Return the page's title."""
    return f"{facts.stem} on {facts.where}"


def sections(
    facts: Facts,
    lowered: LowerResult,
    files: Sequence[Deliverable],
    tools: Mapping[str, str],
    tolerances: Sequence[Mapping[str, float]],
) -> list[Section]:
    """Return the sections of the page.

    Args:
        facts: The program and its board.
        lowered: Vela's estimates.
        files: The files delivered with the page.
        tools: Tool versions.
        tolerances: "atol" of each output, in the unit of the output: a step of its grid.
    """
    return [
        Section("Program", tuple(_program(facts, lowered))),
        Section("What the firmware must do", (Steps(steps(facts, tolerances)),)),
        *([Section("Pictures", tuple(_pictures(facts.pictures, facts.stem)))] if facts.pictures else []),
        *([Section("Outputs", tuple(_joins(facts)))] if facts.model_outputs else []),
        Section("What it consists of", (_parts(program_parts(facts.program, lowered.vela)),)),
        Section("Does it fit?", tuple(_fit(facts))),
        Section(
            "Pools",
            (
                "Computed from the program. For CMake (ExecuTorch's Arm runner):",
                Code(cmake(facts)),
                "For a Zephyr application:",
                Code(kconfig(facts)),
            ),
        ),
        Section("Memory placement", tuple(_places(facts))),
        Section("Kernels and components", tuple(_kernels(facts))),
        Section("Files", (_files(files),)),
        Section("Made with", (Table(("tool", "version"), tuple(sorted(tools.items()))),)),
    ]


def _program(facts: Facts, lowered: LowerResult) -> Iterator[Block]:
    options = facts.choice.options
    yield (
        f"{facts.choice.id}, {options['system_config']}, {options['memory_mode']}; "
        f"{facts.delegates} delegate{'s' if facts.delegates != 1 else ''} on the NPU, "
        f"{len(facts.kernels)} kernel{'s' if len(facts.kernels) != 1 else ''} on the CPU."
    )
    if lowered.placement:
        yield f"Compiled for this placement: {lowered.placement}."
    if facts.weights is not None:
        yield (
            f"Its weights are in the separate file {facts.stem}.ptd: load it as named "
            "data together with the program."
        )
    ports = [("input", tensor) for tensor in facts.inputs] + [("output", e) for e in facts.outputs]
    rows = [(side, str(port.get("dtype", port["type"])), _shape(port), _grid(port)) for side, port in ports]
    yield Table(("", "type", "shape", "scaling"), tuple(rows))
    if lowered.vela:
        stated = lowered.cycles_vela
        as_stated = f" (Vela says {stated:,})" if stated != lowered.cycles else ""
        spent = lowered.inference_ms
        time = "no time is known" if spent is None else f"{spent:.3f} ms"
        yield (
            f"Estimated (Vela {lowered.vela_version}): {lowered.cycles:,} cycles{as_stated}, "
            f"{time} per inference on the NPU, without the CPU's part."
        )
    rewritten = [row for row in lowered.rewrites if row.places]
    if rewritten:
        titles = "; ".join(REWRITES_BY_ID[row.id].title for row in rewritten)
        yield (
            f"Rewritten for fewer cycles, with the same function, inputs and outputs: {titles}. "
            "The manifest has the modules."
        )
    yield from facts.known_differences


def _parts(parts: Sequence[ProgramPart]) -> Table:
    """Return the parts of the program, the smaller ones of its modules as one."""
    rows = [(PART_KINDS[part.kind], part.name, part.bytes) for part in parts[:_MOST_PARTS]]
    others = parts[_MOST_PARTS:]
    if others:
        rows.append(("others", plural(len(others), "part"), sum(part.bytes for part in others)))
    listed = tuple((kind, name, f"{size:,}") for kind, name, size in rows)
    return Table(("part", "of", "bytes"), listed)


def _pictures(picture: PictureInput, stem: str) -> Iterator[Block]:
    """Yield how the camera's picture becomes the input."""
    yield " ".join(sentences(picture))
    if picture.codes:
        yield f"{stem}_input.h has the codes, and a function that fills the input:"
        yield Code(f"{stem}_fill_input(pixels, input);")


def _joins(facts: Facts) -> Iterator[Block]:
    """Yield how the outputs become those of the model."""
    yield " ".join(output_header.sentences(facts.model_outputs, facts.stem))
    yield Table(
        ("output", "shape", "belongs to", "loops, from the outermost"),
        tuple(output_header.rows(facts.model_outputs, facts.outputs)),
    )


def _remembering(facts: Facts) -> Iterator[str]:
    """Yield the state between inferences, and who must preserve it."""
    if facts.state_buffers:
        yield (
            f"It keeps state between inferences, in {len(facts.state_buffers)} buffers of the "
            f"method pool ({', '.join(facts.state_buffers)}). Their initial values are in the "
            "program; loading it again resets them. A decoder that masks by position may "
            "start a new text at position 0 without a reset."
        )
    if facts.handed_on:
        yield (
            f"Its last {facts.handed_on} outputs are the last {facts.handed_on} inputs of "
            "the next inference, initially zeros: the firmware copies them. If they are "
            "integers, convert them from the output's grid to the input's grid."
        )


def _shape(port: dict[str, Any]) -> str:
    """Return a tensor's shape, and its memory order if not the default."""
    axes = port.get("dim_order")
    lying = f", in memory {[port['shape'][axis] for axis in axes]}" if axes else ""
    return f"{port.get('shape', '')}{lying}"


def _grid(port: Mapping[str, Any]) -> str:
    """Return the conversion between codes and real values of an input or output."""
    if "scale" not in port:
        return "none (float)"
    zero = port["zero_point"]
    return f"(code {'-' if zero >= 0 else '+'} {abs(zero)}) * {port['scale']:.9g}"


def _places(facts: Facts) -> Iterator[Block]:
    if not facts.delegates:
        yield "Nothing runs on the NPU: no operator was delegated."
    yield "For the linker script; adapt the names of the regions:"
    yield Code(linker(facts))


def _fit(facts: Facts) -> Iterator[Block]:
    if facts.board is None or facts.fit is None:
        yield "No board is set. The program needs:"
        yield Table(("what", "bytes"), tuple(_needs(facts)))
        return
    yield sentence(facts.fit)
    sources = {memory.name: memory.source for memory in facts.board.memory}
    yield Table(
        ("memory", "contents", "taken [bytes]", "size [bytes]", "source of the size"),
        tuple(
            (
                filling.name,
                ", ".join(f"{d.what} ({d.origin})" for d in filling.demands) or "-",
                f"{filling.used:,}",
                "not known" if filling.bytes is None else f"{filling.bytes:,}",
                f"{'' if filling.confirmed else 'not confirmed: '}{sources[filling.name]}",
            )
            for filling in facts.fit.fillings
        ),
    )
    npu = facts.board.npu_of(facts.choice.id)
    if npu is not None:
        yield f"NPU: {'' if npu.confirmed else 'not confirmed: '}{npu.source}. {npu.note}".strip()
    yield from facts.board.notes


def _needs(facts: Facts) -> Iterator[tuple[str, str]]:
    yield "program", f"{len(facts.program):,}"
    if facts.weights is not None:
        yield "weights", f"{len(facts.weights):,}"
    yield "method pool", f"{facts.needs.method_pool_bytes:,}"
    yield "scratch pool", f"{facts.needs.scratch_pool_bytes:,}"
    if facts.use.cache_bytes:
        yield "NPU cache", f"{facts.use.cache_bytes:,}"


def _kernels(facts: Facts) -> Iterator[Block]:
    if facts.kernels:
        yield "Kernels the runtime must link (selective build):"
        yield Code("\n".join(facts.kernels))
    else:
        yield "The runtime needs no kernels: everything runs on the NPU."
    yield (
        "Components of the CMSIS-Pack PyTorch::ExecuTorch. Operator components are "
        "named after their source files, derived here from the operator's name; the "
        "pack's own list is authoritative."
    )
    yield Code("\n".join(components(facts)))


def steps(facts: Facts, tolerances: Sequence[Mapping[str, float]]) -> tuple[FirmwareStep, ...]:
    """Return what the firmware must do with the program, in order.

    Args:
        facts: The program and its board.
        tolerances: "atol" of each output, in the unit of the output: a step of its grid.
    """
    listed = (
        *_building(facts),
        *_placing(facts),
        *_running(facts),
        ("Check it once", _check(facts, max((t["atol"] for t in tolerances), default=0.0))),
    )
    return tuple(FirmwareStep(title=title, detail=detail) for title, detail in listed)


def _building(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what is built into the firmware."""
    number = len(facts.kernels)
    kernels = (
        f"{plural(number, 'CPU kernel')} ({', '.join(facts.kernels)})"
        if number
        else "no CPU kernel: everything runs on the NPU"
    )
    backend = " with the Ethos-U backend and the NPU driver" if facts.delegates else ""
    yield (
        "Link the runtime",
        f"ExecuTorch{backend}, and {kernels}. {facts.stem}.cmake and {facts.stem}.cproject.yml name them.",
    )
    if facts.delegates:
        yield "Configure the NPU driver", region_settings(facts.use)


def _placing(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what lies where in memory."""
    reach = (
        " in memory that the NPU can access, never in the core's TCM, at a multiple of 16 bytes"
        if facts.delegates
        else " in memory"
    )
    yield (
        "Place the program",
        f"{facts.stem}.pte, {len(facts.program):,} bytes,{reach}. {facts.stem}.S or "
        f"{facts.stem}.h puts it into the section {SECTION}.",
    )
    if facts.weights is not None:
        yield (
            "Place the weights",
            f"{facts.stem}.ptd, {len(facts.weights):,} bytes,{reach}; load it as named data "
            "together with the program.",
        )
    scratch = facts.needs.scratch_pool_bytes
    cache = facts.use.cache_bytes
    parts = [f"{facts.needs.method_pool_bytes:,} bytes for the method"]
    parts += [f"{scratch:,} bytes of scratch{reach}"] if scratch else []
    parts += [f"{cache:,} bytes of SRAM as the NPU's cache"] if cache else []
    yield "Reserve the memory", f"{'; '.join(parts)}."


def _running(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what is done for each inference."""
    into = [_port("input", number, port) for number, port in enumerate(facts.inputs)]
    if facts.pictures is not None:
        into += sentences(facts.pictures)
        if facts.pictures.codes:
            into.append(f"{facts.stem}_fill_input() in {facts.stem}_input.h does it.")
    yield "Fill the inputs", " ".join(into)
    if facts.delegates:
        yield (
            "Keep the caches coherent",
            "Clean the data cache before every inference and invalidate it after: the NPU reads "
            "and writes memory, not the core's cache.",
        )
    out = [_port("output", number, port) for number, port in enumerate(facts.outputs)]
    if facts.model_outputs:
        out.append(f"{facts.stem}_outputs.h joins them into the outputs of the model.")
    out += [life.sentence for life in facts.output_lives]
    yield "Read the outputs", " ".join(out)
    if remembered := " ".join(_remembering(facts)):
        yield "Carry the state on", remembered


def _port(side: str, number: int, port: Mapping[str, Any]) -> str:
    """Return type, shape and scaling of an input or output as a sentence."""
    words = f"{side.capitalize()} {number}: {port.get('dtype', port['type'])} {_shape(dict(port))}"
    return f"{words}, value = {_grid(port)}." if "scale" in port else f"{words}."


def _check(facts: Facts, step: float) -> str:
    return (
        f"{facts.stem}.bpte contains inputs and the expected outputs of the quantized "
        "model. A runner built with bundled input and output (ET_BUNDLE_IO) compares "
        f"them; set ET_RTOL to 0 and ET_ATOL to {step:.6g}: one step of the output's "
        "grid, the widest of all outputs."
    )


def _files(files: Sequence[Deliverable]) -> Table:
    return Table(
        ("file", "bytes", "what it is", "sha256"),
        tuple((f.name, f"{f.bytes:,}", f.purpose, f.sha256[:16]) for f in files),
    )
