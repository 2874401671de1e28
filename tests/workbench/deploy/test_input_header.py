"""The C header of a picture's input: its table of codes, and where each pixel goes."""

import re

from tests.for_each import for_each
from workbench.deploy.input_header import PictureInput, input_header, is_channels_last, sentences
from workbench.project.model import Preprocess

PLAIN = tuple(range(256))
CENTRED = tuple(range(-128, 128))
HALVED = tuple(pixel // 2 for pixel in range(256))


def picture(*rows, is_last=False, dtype="uint8", **settings):
    return PictureInput(Preprocess(size=(4, 6), **settings), dtype, rows, is_last)


def filled(header, pixels, channels):
    """Return what the function of a header writes for pixels, as its C text says."""
    height, width = (int(re.search(rf"_INPUT_{side} (\d+)", header)[1]) for side in ("HEIGHT", "WIDTH"))
    body = header[header.index("= {") : header.index("};")]
    rows = [[int(v) for v in re.findall(r"-?\d+", row)] for row in re.findall(r"\{([^{}]+)\}", body)]
    source = [int(v) for v in re.search(r"source\[\d+\] = \{([^}]*)\}", header)[1].split(",")]
    place = re.search(r"input\[(.*?)\] =", header)[1].replace("u", "")
    values = {}
    for i in range(height * width):
        for c in range(channels):
            values[eval(place, {"i": i, "c": c})] = rows[c][pixels[i * channels + source[c]]]
    return [values[k] for k in range(height * width * channels)]


@for_each(
    ("rows", "offset"),
    [
        ((PLAIN,), 0),
        ((CENTRED,), 128),
        ((HALVED,), None),
        ((PLAIN, CENTRED), None),
        ((CENTRED, CENTRED, CENTRED), 128),
    ],
)
def test_that_the_offset_is_one_number_for_all_channels_or_none(rows, offset):
    assert picture(*rows).offset == offset


def test_that_channels_are_swapped_for_bgr_alone():
    rows = (PLAIN, PLAIN, PLAIN)
    assert picture(*rows).sources == (0, 1, 2)
    assert picture(*rows, layout="bgr").sources == (2, 1, 0)


@for_each("is_last", [False, True])
@for_each("layout", ["rgb", "bgr"])
def test_that_every_pixel_gets_the_code_of_its_channel(is_last, layout):
    rows = (PLAIN, HALVED, tuple(255 - pixel for pixel in range(256)))
    header = input_header(picture(*rows, is_last=is_last, layout=layout), "net")
    pixels = [(7 * k) % 256 for k in range(4 * 6 * 3)]
    order = (2, 1, 0) if layout == "bgr" else (0, 1, 2)
    codes = [[rows[c][pixels[3 * i + order[c]]] for c in range(3)] for i in range(4 * 6)]
    expected = (
        [code for pixel in codes for code in pixel]
        if is_last
        else [pixel[c] for c in range(3) for pixel in codes]
    )
    assert filled(header, pixels, 3) == expected


def test_that_the_header_names_sizes_types_and_guard():
    header = input_header(picture(CENTRED, dtype="int8", crop=(2, 3)), "my_net")
    assert header.startswith("#ifndef MY_NET_INPUT_H\n#define MY_NET_INPUT_H\n")
    assert header.endswith("#endif\n")
    for line in (
        "#define MY_NET_INPUT_HEIGHT 2",
        "#define MY_NET_INPUT_WIDTH 3",
        "#define MY_NET_INPUT_CHANNELS 1",
        "static const int8_t my_net_codes[1][256] = {",
    ):
        assert line in header.splitlines()
    table = [line for line in header.splitlines() if line.startswith("    -") or line[4:5].isdigit()]
    assert len(table) == 16
    assert all(line.count(",") == 16 for line in table)


@for_each(
    ("made", "part"),
    [
        (picture(PLAIN), "the pixel itself"),
        (picture(CENTRED), "minus 128 (its bits XOR 0x80)"),
        (picture(HALVED), "in the table of its channel"),
        (
            picture(dtype="float32", mean=(0.5,), std=(0.25,), scale=128.0),
            "(pixel / 128 - mean) / std with mean 0.5 and std 0.25",
        ),
        (
            PictureInput(Preprocess(size=(4, 6), dtype="int8"), "int8", (), False),
            "The input is the pixel minus 128.",
        ),
        (PictureInput(Preprocess(size=(4, 6), dtype="uint8"), "uint8", (), False), "The input is the pixel."),
        (picture(PLAIN, crop=(2, 2)), "cut out the centre 2 x 2"),
        (picture(PLAIN), "Resize the picture to 4 x 6"),
        (picture(PLAIN, layout="bgr"), "Channels: BGR."),
        (picture(PLAIN, layout="gray"), "Channels: gray."),
        (picture(PLAIN), "Channels: gray."),
        (picture(PLAIN, PLAIN, PLAIN), "Channels: RGB."),
        (picture(), "Channels: gray for one channel, else RGB."),
        (picture(PLAIN, filter="box"), ", box."),
    ],
)
def test_that_the_firmware_is_told_what_to_do_with_a_picture(made, part):
    assert part in " ".join(sentences(made))


@for_each(
    ("order", "shape", "axes", "is_last"),
    [
        ("last", [1, 3, 8, 8], None, True),
        ("auto", [1, 8, 8, 3], None, True),
        ("auto", [1, 8, 8, 1], None, True),
        ("auto", [1, 3, 8, 8], None, False),
        ("auto", [1, 3, 8, 3], None, False),
        ("auto", [8, 3], None, False),
        ("auto", [8, 8, 3], None, True),
        ("auto", [1, 1, 8, 3], None, False),
        ("first", [1, 8, 8, 3], None, False),
        ("auto", [1, 3, 8, 8], [0, 2, 3, 1], True),
        ("first", [1, 3, 8, 8], [0, 1, 2, 3], False),
    ],
)
def test_that_channels_come_last_where_the_input_says_so(order, shape, axes, is_last):
    settings = Preprocess(size=(8, 8), order=order)
    assert is_channels_last(settings, {"shape": shape, "dim_order": axes}) is is_last
