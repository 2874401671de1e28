"""What ``run`` prints of a model that another compiler takes, and of readings side by side."""

from __future__ import annotations

from typing import Any

from workbench.words import plural

_NAMED = 3


def print_exported(part: dict[str, Any]) -> None:
    """Print which products are predicted to be quantized, and how to compile the file."""
    products = part["products"]
    count = sum(each["quantized"] for each in products)
    print(
        f"Model        ONNX opset {part['opset']}, {part['bytes']:,} bytes, "
        f"{part['nodes']} operations; {part['rewritten']} Gemm rewritten"
    )
    print(f"Predicted    {count} of {len(products)} matrix products become int8")
    left: dict[str, list[str]] = {}
    for each in products:
        if not each["quantized"]:
            left.setdefault(each["reason"], []).append(each["origin"] or each["node"])
    for reason, names in left.items():
        known = list(dict.fromkeys(names))
        more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
        print(f"             {len(names)} not ({', '.join(known[:_NAMED])}{more}): {reason}")
    print(f"Compiler     {part['check']['sentence']}")
    for title, command in part["commands"]:
        print(f"Command      {title}: {command}")
    for note in part["notes"]:
        print(f"             {note}")


def print_runtime(part: dict[str, Any]) -> None:
    """Print how the exported file agrees with the float model, and the readings beside it."""
    print(
        f"Computed     {part['runtime']} and torch differ by {part['max_abs_error']:.3g} at most "
        f"over {plural(part['elements'], 'output')} of {plural(part['samples'], 'sample')}; arg"
        f"-max equal for {part['argmax_equal']}"
    )
    print_readings(part["readings"])


def print_readings(readings: list[dict[str, Any]]) -> None:
    """Print each reading against the float model in a line."""
    for each in readings:
        top1 = "" if each["top1"] is None else f", top-1 {each['top1']:.2%}"
        decibel = "equal" if each["sqnr_db"] is None else f"{each['sqnr_db']:.2f} dB"
        print(
            f"             {each['title']:23}SQNR {decibel}, max error "
            f"{each['max_abs_error']:.3g}{top1}: {each['marks']}"
        )
