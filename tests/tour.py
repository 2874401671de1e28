"""A tour of the window: pictures of every panel with real results, and what is wrong with layouts.

``.ci/watch`` runs it. Every project is run by the command line first; the window then shows its
results, at several sizes in both themes, and a compiled program of another project is opened.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtWidgets import QApplication

from tests.layout import findings
from ui.shell.app import Workbench, begin
from ui.shell.panels import PANELS
from ui.shell.start import new_application, show_frame

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "resources" / "samples"
FOREIGN = ROOT / "tests" / "data" / "programs" / "u85.pte"
# 1600 x 1000 with a scale of 1.5 has 1066 x 666 pixels of the layout.
SIZES = ((1280, 720), (1066, 666), (1600, 1000), (2560, 1440))
THEMES = ("dark", "light")
_SETTLE_S, _LONGEST_S = 0.4, 90.0


@dataclass(frozen=True)
class Stop:
    """A project of the tour: the sample it copies, and what is set in it before it runs."""

    name: str
    sample: str = ""
    model: str = ""
    target: str = "ethos-u55-128"
    everywhere: bool = False


STOPS = (
    Stop("digits", sample="digits", everywhere=True),
    Stop("detector", sample="detector"),
    Stop("u-net", model="unet"),
    Stop("nnpa", model="unet", target="nnpa"),
    Stop("formats", model="unet", target="formats"),
)
MODEL = '''import torch
from torch import nn
from torch.nn import functional


class UNet(nn.Module):
    """A U-Net of two levels, whose skips are joined with cat."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)])
        self.bottom = nn.Conv2d(16, 16, 3, padding=1)
        self.up = nn.ModuleList([nn.Conv2d(32, 8, 3, padding=1), nn.Conv2d(16, 2, 1)])

    def forward(self, x):
        skips = []
        for down in self.down:
            x = functional.relu(down(x))
            skips.append(x)
            x = functional.max_pool2d(x, 2)
        x = functional.relu(self.bottom(x))
        for up in self.up:
            x = up(torch.cat((functional.interpolate(x, scale_factor=2.0), skips.pop()), 1))
        return x


def unet():
    torch.manual_seed(0)
    return UNet().eval()
'''


def workbench(*arguments: object) -> None:
    """Run a verb of the command line."""
    subprocess.run([sys.executable, "-m", "workbench", *map(str, arguments)], check=True, cwd=ROOT)


def prepared(stop: Stop, folder: Path) -> Path:
    """Make the project of a stop, run it, and return its file."""
    home = folder / stop.name
    if stop.sample:
        shutil.copytree(SAMPLES / stop.sample, home, ignore=shutil.ignore_patterns("__pycache__"))
        path = next(home.glob("*.qwb"))
    else:
        home.mkdir(parents=True)
        (home / "model.py").write_text(MODEL)
        path = home / f"{stop.name}.qwb"
        model = f"model.py:{stop.model}"
        workbench("new", path, "--model", model, "--input-shape", "1,3,32,32", "--target", stop.target)
    workbench("run", path, "--trust")
    return path


class Tour:
    """The window, and the folder that gets its pictures."""

    def __init__(self, application: QApplication, out: Path) -> None:
        self._application, self._out = application, out
        self.workbench: Workbench = begin(application, show_frame(application, None))
        self.workbench.start(None)
        self.wrong: list[str] = []

    def show(self, path: Path, stop: Stop) -> None:
        """Open a project, and look at all of its panels."""
        self.workbench.files.open_path(path)
        self._wait(lambda: self.workbench.session.planned)
        sizes = SIZES if stop.everywhere else SIZES[1:3]
        for size in sizes:
            for theme in THEMES:
                if stop.everywhere or (size == SIZES[1]) == (theme == "light"):
                    self._walk(f"{stop.name}-{size[0]}x{size[1]}-{theme}", size, theme)

    def _walk(self, name: str, size: tuple[int, int], theme: str) -> None:
        window, project = self.workbench.window, self.workbench.document.project
        self.workbench.context.appearance.switch(theme)
        window.resize(*size)
        window.reset_layout()
        for row in PANELS:
            if project is None or not row.is_offered(project):
                continue
            panel = window.reveal(row.id)
            self._rest()
            window.grab().save(str(self._out / f"{name}-{row.id}.png"))
            lines = findings(panel) if panel is not None else []
            self.wrong += [f"{name} {row.id}: {line}" for line in lines]

    def look_into(self, program: Path) -> None:
        """Open a compiled program of another project."""
        self.workbench.programs.open(program)
        self._wait(lambda: bool(self.workbench.programs.windows))
        (window,) = self.workbench.programs.windows.values()
        for page in range(window.tabs.count()):
            window.tabs.setCurrentIndex(page)
            self._rest()
            title = window.tabs.tabText(page).lower().replace(" ", "-")
            window.grab().save(str(self._out / f"program-{title}.png"))
        window.close()

    def end(self) -> None:
        """Close the window."""
        self.workbench.stop()

    def _rest(self) -> None:
        pause = max(_SETTLE_S, int(os.environ.get("WATCH_PAUSE_MS", "0")) / 1000)
        end = time.monotonic() + pause
        while time.monotonic() < end:
            self._application.processEvents()
            time.sleep(0.01)

    def _wait(self, holds: object) -> None:
        end = time.monotonic() + _LONGEST_S
        while callable(holds) and not holds() and time.monotonic() < end:
            self._rest()


def main(out: Path) -> int:
    """Make the pictures; return 1 if a layout is wrong."""
    out.mkdir(parents=True, exist_ok=True)
    for variable in ("CACHE", "CONFIG"):
        os.environ.setdefault(f"QUANTIZATION_WORKBENCH_{variable}", str(out / variable.lower()))
    projects = [(prepared(stop, out / "projects"), stop) for stop in STOPS]
    tour = Tour(new_application(), out)
    for path, stop in projects:
        tour.show(path, stop)
    tour.look_into(FOREIGN)
    tour.end()
    (out / "layout.txt").write_text("".join(f"{line}\n" for line in tour.wrong))
    print(f"{len(list(out.glob('*.png')))} pictures, {len(tour.wrong)} faults of layouts: {out}")
    return 1 if tour.wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
