"""A C header that turns a camera's bytes into the codes of a program's integer input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.project.model import Preprocess

_PER_LINE = 16
_CHANNELS_LAST = (0, 2, 3, 1)


@dataclass(frozen=True)
class PictureInput:
    """How pictures become a program's input.

    ``codes`` has for each channel of the input the code of every pixel value from 0 to 255; empty
    for a float input. ``dtype`` is the type of a code, ``is_last`` whether the channels come last
    in memory.
    """

    settings: Preprocess
    dtype: str
    codes: tuple[tuple[int, ...], ...]
    is_last: bool

    @property
    def offset(self) -> int | None:
        """What to subtract from a pixel to get its code; None if that is no single number."""
        for offset in (0, 128):
            if all(row == tuple(p - offset for p in range(256)) for row in self.codes):
                return offset
        return None

    @property
    def sources(self) -> tuple[int, ...]:
        """The channel of an RGB pixel, or of a gray one, that each channel of the input takes."""
        order = tuple(range(len(self.codes)))
        return order[::-1] if self.settings.layout == "bgr" else order


def is_channels_last(settings: Preprocess, port: dict[str, object]) -> bool:
    """Return whether the channels of a program's input come last in memory."""
    shape, axes = port.get("shape"), port.get("dim_order")
    assert isinstance(shape, list)
    named = settings.order == "last" or (
        settings.order == "auto" and len(shape) > 2 and shape[-1] in {1, 3} and shape[-3] not in {1, 3}
    )
    return named or (isinstance(axes, list) and tuple(axes) == _CHANNELS_LAST)


def sentences(picture: PictureInput) -> list[str]:
    """Return what the firmware does with a picture before an inference."""
    settings = picture.settings
    height, width = settings.shown
    size = f"Resize the picture to {settings.size[0]} x {settings.size[1]} (height x width)"
    if settings.crop:
        size = (
            f"Resize the picture so that it covers {settings.size[0]} x {settings.size[1]} "
            f"(height x width) with its aspect ratio kept, and cut out the centre "
            f"{height} x {width}"
        )
    elif settings.letterbox is not None:
        size = (
            f"Resize the picture so that it fits into {height} x {width} (height x width) with its "
            f"aspect ratio kept, in the middle of a border of pixels {settings.letterbox}"
        )
    known = {0: "gray for one channel, else RGB", 1: "gray"}.get(len(picture.codes), "RGB")
    channels = {"auto": known, "gray": "gray"}
    layout = channels.get(settings.layout, settings.layout.upper())
    lines = [f"{size}, {settings.filter}. Channels: {layout}."]
    if settings.dtype != "float32":
        minus = " minus 128" if settings.dtype == "int8" else ""
        return [*lines, f"The input is the pixel{minus}."]
    if not picture.codes:
        mean, std = (", ".join(f"{v:g}" for v in values) for values in (settings.mean, settings.std))
        lines.append(
            f"The input is (pixel / {settings.scale:g} - mean) / std with mean {mean} and std {std}."
        )
    elif picture.offset is None:
        lines.append("The code of a pixel is in the table of its channel: see the header.")
    elif picture.offset:
        lines.append("The code of a pixel is the pixel minus 128 (its bits XOR 0x80).")
    else:
        lines.append("The code of a pixel is the pixel itself: hand over the camera's bytes.")
    return lines


def input_header(picture: PictureInput, stem: str) -> str:
    """Return a header with the table of codes and a function that fills the input.

    The function takes height x width pixels of interleaved RGB, or gray ones for one channel.
    """
    height, width = picture.settings.shown
    channels, guard = len(picture.codes), f"{stem.upper()}_INPUT_H"
    kind = f"{picture.dtype}_t"
    lines = [
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        *(f"/* {sentence} */" for sentence in sentences(picture)),
        f"#define {stem.upper()}_INPUT_HEIGHT {height}",
        f"#define {stem.upper()}_INPUT_WIDTH {width}",
        f"#define {stem.upper()}_INPUT_CHANNELS {channels}",
        "",
        f"static const {kind} {stem}_codes[{channels}][256] = {{",
        *(line for row in picture.codes for line in _row(row)),
        "};",
        "",
        f"static inline void {stem}_fill_input(const uint8_t *pixels, {kind} *input) {{",
        f"  static const uint8_t source[{channels}] = {{{', '.join(map(str, picture.sources))}}};",
        f"  for (size_t i = 0; i < {height * width}u; ++i)",
        f"    for (size_t c = 0; c < {channels}u; ++c)",
        f"      input[{_position_text(picture, height * width)}] = "
        f"{stem}_codes[c][pixels[i * {channels}u + source[c]]];",
        "}",
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def _row(codes: tuple[int, ...]) -> list[str]:
    parts = [codes[i : i + _PER_LINE] for i in range(0, len(codes), _PER_LINE)]
    return ["  {", *(f"    {', '.join(map(str, part))}," for part in parts), "  },"]


def _position_text(picture: PictureInput, pixels: int) -> str:
    return f"i * {len(picture.codes)}u + c" if picture.is_last else f"c * {pixels}u + i"
