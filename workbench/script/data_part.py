"""The part of the script that streams calibration samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.project import sources
from workbench.script.model_part import load_callable

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.project.model import DataSource, Project


def data_part(project: Project, folder: Path) -> str:
    """Return the function that yields calibration samples."""
    source = project.calibration
    lines = ["def samples(inputs):"]
    if source is None:
        return "\n".join([*lines, "    yield inputs"])
    lines += _raw_samples(source, folder)
    limited = source.limit is not None
    lines += [
        "    given = 0",
        "    for index, row in enumerate(rows):",
        f"        if index in {set(source.dropped) or '()'}:",
        "            continue",
        *([f"        if given == {source.limit}:", "            return"] if limited else []),
        "        given += 1",
        "        tensors = (torch.as_tensor(np.array(v)) if not isinstance(v, torch.Tensor)"
        " else v for v in row)",
        "        yield tuple(t.reshape(i.shape).to(i.dtype)"
        " for t, i in zip(tensors, inputs, strict=True))",
    ]
    return "\n".join(lines)


def _raw_samples(source: DataSource, folder: Path) -> list[str]:
    reference = sources.data_reference(source.spec, folder, "calibration.spec")
    if reference.kind == "pictures":
        return _picture_rows(source)
    if reference.runs_code:
        maker = load_callable(source.spec, folder, "calibration.spec")
        return [
            "    def rows_of(items):",
            "        for item in items:",
            "            if isinstance(item, (tuple, list)) and len(item) == 2"
            " and np.ndim(item[1]) == 0:",
            "                item = item[0]",
            "            yield tuple(item) if isinstance(item, (tuple, list)) else (item,)",
            f"    rows = rows_of({maker}())",
        ]
    if source.spec.endswith(".npz"):
        return [
            f"    arrays = np.load(HERE / {source.spec!r})",
            "    labels = ('labels', 'label', 'y', 'targets', 'target')",
            "    names = [n for n in arrays.files if n.lower() not in labels]",
            "    wanted = [n for n in input_names if n in arrays.files]",
            "    names = wanted if len(wanted) == len(inputs) else names",
            "    rows = zip(*(arrays[n] for n in names), strict=True)",
        ]
    if source.spec.endswith(".npy"):
        return [f"    rows = ((row,) for row in np.load(HERE / {source.spec!r}, mmap_mode='r'))"]
    return [
        f"    value = torch.load(HERE / {source.spec!r}, map_location='cpu', weights_only=True)",
        "    value = list(value.values()) if isinstance(value, dict) else value",
        "    value = list(value) if isinstance(value, (tuple, list)) else [value]",
        "    rows = zip(*value, strict=True)",
    ]


def _picture_rows(source: DataSource) -> list[str]:
    settings = source.preprocess
    assert settings is not None
    height, width = settings.size
    return [
        "    from PIL import Image",
        f"    suffixes = {sources.PICTURE_SUFFIXES!r}",
        f"    folder = HERE / {source.spec!r}",
        "    files = sorted((p for p in folder.rglob('*') if p.suffix.lower() in suffixes),",
        "                   key=lambda p: p.relative_to(folder).as_posix())",
        "    channels = inputs[0].shape[-3] if inputs[0].ndim > 2 else 1",
        "    def picture(file):",
        "        image = Image.open(file).convert('L' if channels == 1 else 'RGB')",
        f"        image = image.resize(({width}, {height}), Image.Resampling.BILINEAR)",
        "        x = np.asarray(image, np.float32) / 255.0",
        "        x = x[None] if x.ndim == 2 else x.transpose(2, 0, 1)",
        f"        mean = np.asarray({list(settings.mean)!r}, np.float32).reshape(-1, 1, 1)",
        f"        std = np.asarray({list(settings.std)!r}, np.float32).reshape(-1, 1, 1)",
        "        return ((x - mean) / std).astype(np.float32)",
        "    rows = ((picture(file),) for file in files)",
    ]
