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

from PySide6.QtWidgets import QApplication, QWidget

from tests.layout import findings, pages
from ui.shell.app import Workbench, begin
from ui.shell.panels import PANELS
from ui.shell.start import new_application, show_frame

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "resources" / "samples"
NETWORKS = ROOT / "tests" / "tour_networks.py"
FOREIGN = ROOT / "tests" / "data" / "programs" / "u85.pte"
# 1600 x 1000 with a scale of 1.5 has 1066 x 666 pixels of the layout.
SIZES = ((1280, 720), (1066, 666), (1600, 1000), (2560, 1440))
THEMES = ("dark", "light")
# Actions that open a dialog or a window.
DIALOGS = (
    "new", "recipe", "import_command", "preferences", "toolchains", "settings", "target", "plugins",
    "save_layout", "doctor", "about", "shortcuts", "glossary",
)  # fmt: skip
_SETTLE_S, _FILLED_S, _LONGEST_S = 0.4, 3.0, 90.0


@dataclass(frozen=True)
class Stop:
    """A project of the tour: the sample it copies, and what is set in it before it runs."""

    name: str
    sample: str = ""
    model: str = ""
    shape: str = "1,3,32,32"
    target: str = "ethos-u55-128"
    everywhere: bool = False


STOPS = (
    Stop("digits", sample="digits", everywhere=True),
    Stop("detector", sample="detector"),
    Stop("u-net", model="unet"),
    Stop("transformer", model="transformer", shape="1,32,16", target="ethos-u85-256"),
    Stop("nnpa", model="unet", target="nnpa"),
    Stop("formats", model="unet", target="formats"),
)


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
        shutil.copy(NETWORKS, home / "model.py")
        path = home / f"{stop.name}.qwb"
        model = f"model.py:{stop.model}"
        workbench("new", path, "--model", model, "--input-shape", stop.shape, "--target", stop.target)
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
                self._walk(f"{stop.name}-{size[0]}x{size[1]}-{theme}", size, theme)
        if stop.everywhere:
            self._walk_dialogs(stop.name)

    def _walk_dialogs(self, name: str) -> None:
        """Look at the dialogs of the menus in both themes."""
        window = self.workbench.window
        for theme in THEMES:
            self.workbench.context.appearance.switch(theme)
            for action in DIALOGS:
                window.actions_by_id[action].trigger()
                self._rest()
                for shown in self._application.topLevelWidgets():
                    if shown is not window and shown.isVisible() and shown.isWindow():
                        shown.grab().save(str(self._out / f"{name}-dialog-{theme}-{action}.png"))
                        self.wrong += [f"{name} {theme} {action}: {line}" for line in findings(shown)]
                        shown.close()

    def _walk(self, name: str, size: tuple[int, int], theme: str) -> None:
        window, project = self.workbench.window, self.workbench.document.project
        self.workbench.context.appearance.switch(theme)
        window.resize(*size)
        window.reset_layout()
        for row in PANELS:
            if project is None or not row.is_offered(project):
                continue
            panel = window.reveal(row.id)
            for title in pages(panel) if panel is not None else ():
                page = f"-{title.lower().replace(' ', '-')}" if title else ""
                self._look_at(panel, f"{name}-{row.id}{page}")

    def _look_at(self, panel: QWidget, name: str) -> None:
        """Make a picture of the window, and collect what is wrong in a panel.

        A panel that is still being filled gets some time.
        """
        self._rest()
        end = time.monotonic() + _FILLED_S
        while findings(panel) and time.monotonic() < end:
            self._rest()
        self.workbench.window.grab().save(str(self._out / f"{name}.png"))
        self.wrong += [f"{name}: {line}" for line in findings(panel)]

    def look_into(self, program: Path) -> None:
        """Open a compiled program of another project."""
        self.workbench.programs.open(program)
        self._wait(lambda: bool(self.workbench.programs.windows))
        (window,) = self.workbench.programs.windows.values()
        for title in pages(window):
            self._rest()
            name = f"program-{title.lower().replace(' ', '-') or 'first'}"
            window.grab().save(str(self._out / f"{name}.png"))
            self.wrong += [f"{name}: {line}" for line in findings(window)]
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
