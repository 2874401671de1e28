"""How firmware joins the outputs of a program whose model returns them as one tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.escaping import in_comment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from workbench.results import ModelOutput, Region

    Port = Mapping[str, Any]


def split(outputs: Sequence[ModelOutput]) -> list[tuple[int, ModelOutput]]:
    """Return the outputs of the model that the program returns otherwise, with their positions."""
    return [(i, output) for i, output in enumerate(outputs) if output.position is None]


def sentences(outputs: Sequence[ModelOutput], stem: str) -> list[str]:
    """Return what the firmware does after an inference; nothing for a program that joins itself.

    Args:
        outputs: The outputs of the model.
        stem: The name of the program, as a C identifier.
    """
    return [_sentence(index, output, stem) for index, output in split(outputs)]


def _sentence(index: int, output: ModelOutput, stem: str) -> str:
    whole = f"Output {index} of the model, {list(output.shape)}, "
    called = f"{function(stem, index)}() in {stem}_outputs.h "
    if _is_divided(output):
        factors = ", ".join(
            f"{part.name} by {port.factor:g}" for part, port in zip(output.parts, output.ports, strict=True)
        )
        return (
            f"{whole}is output {output.ports[0].position} of the program, divided: {factors}. "
            f"{called}multiplies the elements again."
        )
    return (
        f"{whole}is split into the outputs "
        f"{', '.join(str(port.position) for port in output.ports)} of the program, each with its "
        f"own scale. {called}joins them into floats; a decoder may as well read them one by one."
    )


def _is_divided(output: ModelOutput) -> bool:
    return any(port.factor != 1.0 for port in output.ports)


def rows(outputs: Sequence[ModelOutput], ports: Sequence[Port]) -> Iterator[tuple[str, ...]]:
    """Yield where each output of the program belongs: output, shape, elements, loops."""
    for index, output in split(outputs):
        for port in output.ports:
            for region in port.regions:
                yield (
                    str(port.position),
                    str(list(ports[port.position]["shape"])),
                    f"output {index} of the model, from element {region.offset}"
                    + (f", times {port.factor:g}" if port.factor != 1.0 else ""),
                    _loops(region),
                )
        for fill in output.fills:
            yield "", "", f"output {index} of the model", f"always {fill.value:g}"


def _loops(region: Region) -> str:
    steps = zip(region.shape, region.part_strides, region.strides, strict=True)
    return "; ".join(f"{n} x (+{own} here, +{out} there)" for n, own, out in steps) or "1 element"


def function(stem: str, index: int) -> str:
    """Return the name of the C function that joins an output."""
    return f"{stem}_join_output_{index}"


def output_header(outputs: Sequence[ModelOutput], ports: Sequence[Port], stem: str) -> str:
    """Return a C header with a function for each output of the model that is split.

    Args:
        outputs: The outputs of the model.
        ports: The outputs of the program, with type, shape and, for integers, grid.
        stem: The name of the program, as a C identifier.
    """
    guard = f"{stem.upper()}_OUTPUTS_H"
    lines = [f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", ""]
    for index, output in split(outputs):
        names = ", ".join(in_comment(part.name) for part in output.parts)
        lines.append(f"/* Joins output {index} of the model, {list(output.shape)}: {names}. */")
        lines += [*_function(index, output, ports, stem), ""]
    return "\n".join([*lines, "#endif"]) + "\n"


def _function(index: int, output: ModelOutput, ports: Sequence[Port], stem: str) -> Iterator[str]:
    arguments = dict.fromkeys(
        f"const {_type(ports[port.position])} *part{port.position}" for port in output.ports
    )
    yield f"static inline void {function(stem, index)}({', '.join(arguments)}, float *output) {{"
    for fill in output.fills:
        for region in fill.regions:
            yield from _nested(region, f"{fill.value!r}f", "")
    for port in output.ports:
        tensor = ports[port.position]
        value = f"part{port.position}[{{}}]"
        if "scale" in tensor:
            value = f"({value} - ({tensor['zero_point']})) * {tensor['scale'] * port.factor!r}f"
        elif port.factor != 1.0:
            value = f"{value} * {port.factor!r}f"
        for region in port.regions:
            yield from _nested(region, value, "part")
    yield "}"


def _nested(region: Region, value: str, side: str) -> Iterator[str]:
    """Yield loops that set the elements of a region of the output."""
    own, there = str(region.part_offset), str(region.offset)
    indent = "  "
    loops = zip(region.shape, region.part_strides, region.strides, strict=True)
    for number, (size, part, out) in enumerate(loops):
        yield f"{indent}for (int32_t i{number} = 0; i{number} < {size}; ++i{number})"
        own, there = f"{own} + i{number} * {part}", f"{there} + i{number} * {out}"
        indent += "  "
    yield f"{indent}output[{there}] = {value.format(own) if side else value};"


_TYPES = {
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "bool": "uint8_t",
}


def _type(port: Port) -> str:
    return _TYPES.get(str(port.get("dtype", "float32")), "float")
