"""The names of the project settings on the screen, by section and key."""

from __future__ import annotations

import re

PREPROCESS = (
    ("size", "Size"),
    ("crop", "Crop"),
    ("letterbox", "Letterbox"),
    ("mean", "Mean"),
    ("std", "Standard deviation"),
    ("layout", "Layout"),
    ("dtype", "Type"),
    ("scale", "Scale"),
    ("order", "Channels"),
    ("filter", "Filter"),
    ("fold", "Fold"),
)
TOKENS = (("tokenizer", "Tokenizer"), ("length", "Sequence length"))
_DATA = (("limit", "Samples read at most"), ("labels", "Labels"))
Rows = tuple[tuple[str, str], ...]


def _data_rows(prefix: str) -> Rows:
    rows = [(f"{prefix}.{name}", title) for name, title in _DATA]
    rows += [(f"{prefix}.preprocess.{name}", f"Pictures: {title.lower()}") for name, title in PREPROCESS]
    rows += [(f"{prefix}.tokens.{name}", f"Text: {title.lower()}") for name, title in TOKENS]
    return tuple(rows)


SECTIONS: tuple[tuple[str, Rows], ...] = (
    (
        "Model",
        (
            ("name", "Project name"),
            ("model.spec", "Model file"),
            ("model.weights", "Weights"),
            ("model.input_shapes", "Input shapes"),
            ("model.inputs", "Example inputs"),
            ("model.strict_export", "Strict export"),
            ("toolchain", "Toolchain"),
        ),
    ),
    ("Calibration", (("calibration.spec", "Data"), *_data_rows("calibration"))),
    (
        "Evaluation",
        (
            ("evaluation.data.spec", "Data"),
            *_data_rows("evaluation.data"),
            ("evaluation.metric", "Metric"),
            ("evaluation.decode", "Decoder of the outputs"),
            ("evaluation.objects.confidence", "Objects: lowest counted score"),
            ("evaluation.objects.iou", "Objects: largest overlap (NMS)"),
            ("evaluation.objects.most", "Objects at most"),
            ("evaluation.objects.shown", "Objects: lowest shown score"),
            ("evaluation.limit", "Evaluated samples"),
            ("evaluation.class_output", "Class output"),
            ("evaluation.hold_out", "Hold out calibration data"),
        ),
    ),
    (
        "Correct: limits",
        (
            ("gate.lsb", "Largest difference [LSB]"),
            ("gate.sqnr", "Lowest SQNR of 16 bits [dB]"),
            ("gate.share", "Difference of 16 bits, share"),
            ("gate.argmax", "Same class, least share"),
            ("gate.loss", "Lost SQNR [dB]"),
            ("gate.compiled", "Compiled equals TOSA"),
            ("gate.fail_if", "Further conditions"),
            ("verification.samples", "Verified samples"),
        ),
    ),
    (
        "Accurate: limits",
        (
            ("accuracy.loss", "Lost top-1 or metric, share"),
            ("accuracy.sqnr", "Lowest SQNR to float [dB]"),
            ("accuracy.part_sqnr", "Lowest SQNR of a part [dB]"),
            ("accuracy.low_sqnr", "Low accuracy below [dB]"),
            ("accuracy.argmax", "Same class as float, share"),
            ("accuracy.inputs", "Depends on its inputs"),
        ),
    ),
    ("Training", (("training_function", "Custom function"), ("trained_weights", "Trained weights"))),
    ("Outputs", (("split_outputs", "Outputs returned in parts"), ("output_factors", "Factors of parts"))),
    ("Notes", (("notes", "Notes"),)),
)


def titles() -> dict[str, str]:
    """Return the title of every setting, with that of its section, by key."""
    return {
        key: title if title.startswith(section) else f"{section}, {title.lower()}"
        for section, rows in SECTIONS
        for key, title in rows
    }


def setting_title(key: str) -> str:
    """Return the words for a setting, or a group of settings, that a message names."""
    known = titles()
    fitting = [name for name in known if name == key or name.startswith(f"{key}.")]
    return known[fitting[0]] if fitting else key.partition(".")[0].replace("_", " ").capitalize()


# A command in a remedy that sets one setting of the project, or one option of the target.
_COMMAND = re.compile(r"(?:Run: )?workbench (settings|target) PROJECT ([\w.]+)=(\S*[^\s.,]|)")

# A setting with its group.
_KEY = re.compile(r"\b(?:model|calibration|evaluation|gate|accuracy|verification)\.[a-z_.]*[a-z]\b(?!=)")


def in_window(hint: str, place: str = "in Project settings") -> str:
    """Return a remedy with the words of the window instead of commands that set one thing.

    Args:
        hint: The remedy.
        place: Where settings of the project are edited.
    """

    def words(command: re.Match[str]) -> str:
        kind, key, value = command.groups()
        if kind == "target":
            return f"{key} = {value} in Target options"
        return f"{setting_title(key)} = {value or 'empty'} {place}"

    known = titles()
    return _KEY.sub(lambda key: known.get(key[0], key[0]), _COMMAND.sub(words, hint))
