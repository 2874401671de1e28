"""SAMPLES: projects that come with the program, copied to a folder of the user when opened."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import Place, failure, write_remedy
from workbench.installation import resources

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Sample:
    """A sample: its folder and project below ``resources/samples``, title, purpose and picture."""

    folder: str
    project: str
    title: str
    purpose: str
    picture: str

    @property
    def name(self) -> str:
        """The name of the project, by which the command line knows it."""
        return self.project.removesuffix(".qwb")


SAMPLES: tuple[Sample, ...] = (
    Sample(
        "digits", "digits.qwb", "Digits", "A trained residual network with data and labels", "sample-digits"
    ),
    Sample(
        "time_series", "motions.qwb", "Motions", "A trained network for a watch's sensors", "sample-machine"
    ),
    Sample("time_series", "vowels.qwb", "Vowels", "A trained GRU that tells speakers apart", "sample-sound"),
    Sample("detector", "detector.qwb", "Detector", "A trained detector of digits on a canvas", "sample-eye"),
    Sample(
        "mobilenet_v2", "mobilenet_v2.qwb", "MobileNetV2", "Image classification, 53 layers", "sample-picture"
    ),
    Sample("mlperf_tiny", "keyword_spotting.qwb", "Keyword spotting", "MLPerf Tiny, DS-CNN", "sample-sound"),
    Sample(
        "mlperf_tiny",
        "image_classification.qwb",
        "Image classification",
        "MLPerf Tiny, ResNet-8",
        "sample-picture",
    ),
    Sample(
        "mlperf_tiny", "visual_wake_words.qwb", "Visual wake words", "MLPerf Tiny, MobileNetV1", "sample-eye"
    ),
    Sample(
        "mlperf_tiny",
        "anomaly_detection.qwb",
        "Anomaly detection",
        "MLPerf Tiny, autoencoder",
        "sample-machine",
    ),
)


# What a sample consists of. Its folder may hold more: the run history and the exported files of
# whoever opened the project there.
_FILES: dict[str, tuple[str, ...]] = {
    "digits": (
        "digits.qwb",
        "model.py",
        "train.py",
        "weights.safetensors",
        "calibration.npz",
        "held_out.npz",
    ),
    "time_series": (
        "networks.py",
        "train.py",
        *(
            f"{name}{rest}"
            for name in ("motions", "vowels")
            for rest in (".qwb", "_calibration.npz", "_held_out.npz", "_weights.safetensors")
        ),
    ),
    "detector": (
        "detector.qwb",
        "model.py",
        "train.py",
        "weights.safetensors",
        "calibration.npz",
        "held_out.npz",
        "held_out.json",
    ),
    "mobilenet_v2": ("mobilenet_v2.qwb", "model.py"),
    "mlperf_tiny": (
        "networks.py",
        "keyword_spotting.qwb",
        "image_classification.qwb",
        "visual_wake_words.qwb",
        "anomaly_detection.qwb",
    ),
}


def copy_sample(sample: Sample, folder: Path) -> Path:
    """Copy a sample into a new folder below ``folder`` and return its project.

    Raises:
        WorkbenchError: the files cannot be written.
    """
    target, number = folder / sample.folder, 1
    while target.exists():
        number += 1
        target = folder / f"{sample.folder}-{number}"
    try:
        target.mkdir(parents=True)
        with ExitStack() as written:
            written.callback(shutil.rmtree, target, ignore_errors=True)
            for name in _FILES[sample.folder]:
                shutil.copyfile(resources() / "samples" / sample.folder / name, target / name)
            written.pop_all()
    except OSError as error:
        raise failure(
            f"The sample cannot be copied to {target}: {error.strerror or error}.",
            write_remedy(error, "Choose a folder that you may write to."),
            Place(kind="file", id=str(target)),
            code="sample-not-copied",
        ) from error
    return target / sample.project
