"""Settings of the window, stored in one JSON file per user.

The window imports it before its first paint: other imports of this module stay light. QSettings is
not used: it restores Python objects by pickle, so that its file may run code when it is read.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from PySide6.QtCore import QByteArray

from workbench.files import is_open_to_others, make_private_folder, read_limited, write_file
from workbench.installation import config_folder

if TYPE_CHECKING:
    from workbench.graph.layout import Flow

RECENTS = 12
# The name of the layout of the last session.
LAST = "last"
_GIB = 1 << 30
_KEY_LETTERS = 16
_MAX_BYTES = 4 << 20
_LAYOUTS = "layouts/"

# Object names of docks in layouts saved before their panels were renamed.
_RENAMED_DOCKS = {
    "dock-explorer": "dock-formats",
    "dock-numerics": "dock-accuracy",
    "dock-sweep": "dock-devices",
    "dock-improvers": "dock-weight_transforms",
}


def with_present_names(state: QByteArray) -> QByteArray:
    """Return a saved window state with the present object names of the docks.

    ``QMainWindow.saveState`` stores each name as QDataStream stores a QString: the length in bytes
    as a big-endian uint32, then UTF-16-BE.
    """
    content = bytes(state.data())
    for old, new in _RENAMED_DOCKS.items():
        content = content.replace(_stream_string(old), _stream_string(new))
    return QByteArray(content)


def _stream_string(text: str) -> bytes:
    encoded = text.encode("utf-16-be")
    return len(encoded).to_bytes(4, "big") + encoded


def _key(path: str) -> str:
    """Return a path as a short key of the settings file."""
    import hashlib

    return hashlib.sha256(path.encode()).hexdigest()[:_KEY_LETTERS]


def _number(text: str) -> int | None:
    """Return a whole number of at most nine digits; None for other texts."""
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _texts(file: Path) -> dict[str, str]:
    """Return the texts in a settings file; none if it is damaged or other users can change it."""
    if is_open_to_others(file) or is_open_to_others(file.parent):
        return {}
    try:
        raw = json.loads(read_limited(file, _MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    texts = raw.items() if isinstance(raw, dict) else ()
    return {key: text for key, text in texts if isinstance(text, str)}


class Settings:
    """Typed access to one settings file, by default in the configuration folder.

    A change is written at once; one that cannot be written holds until the program ends.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or config_folder()
        self._file = self.folder / "window.json"
        self._known = _texts(self._file)
        # Keys whose present text is not in the file.
        self._unwritten: set[str] = set()

    @property
    def theme(self) -> str:
        return self._text("theme", "dark")

    @theme.setter
    def theme(self, name: str) -> None:
        self._put({"theme": name})

    @property
    def warm_engines(self) -> bool:
        """Whether the window starts an engine before the first job."""
        return self._text("warm_engines", "true") == "true"

    @warm_engines.setter
    def warm_engines(self, on: bool) -> None:
        self._put({"warm_engines": "true" if on else "false"})

    @property
    def lower_ahead(self) -> bool:
        """Whether an evaluated project is lowered in the background."""
        return self._text("lower_ahead", "true") == "true"

    @lower_ahead.setter
    def lower_ahead(self, on: bool) -> None:
        self._put({"lower_ahead": "true" if on else "false"})

    @property
    def live(self) -> bool:
        """Whether every edit refreshes the figures."""
        return self._text("live", "true") == "true"

    @live.setter
    def live(self, on: bool) -> None:
        self._put({"live": "true" if on else "false"})

    @property
    def graph_flow(self) -> Flow:
        """The direction in which graphs are drawn."""
        from workbench.graph.layout import Flow

        text = self._text("graph_flow", "down")
        return next((flow for flow in get_args(Flow) if flow == text), "down")

    @graph_flow.setter
    def graph_flow(self, flow: Flow) -> None:
        self._put({"graph_flow": flow})

    @property
    def cache_limit_bytes(self) -> int:
        """Limit of the result cache on the disk [bytes]."""
        from workbench.pipeline.cache import DEFAULT_LIMIT_BYTES

        text = self._text("cache_limit_gib", "")
        number = _number(text)
        return number * _GIB if number else DEFAULT_LIMIT_BYTES

    @cache_limit_bytes.setter
    def cache_limit_bytes(self, limit: int) -> None:
        self._put({"cache_limit_gib": str(max(1, limit // _GIB))})

    @property
    def recents(self) -> list[Path]:
        """Projects that this window or another one opened recently, newest first."""
        if "recents" not in self._unwritten:
            self._known |= {key: text for key, text in _texts(self._file).items() if key == "recents"}
        names = self._text("recents", "").split("\n")
        return [Path(name) for name in names if name]

    def remember_recent(self, path: Path) -> None:
        """Move a project to the front of the recent projects."""
        kept = [p for p in self.recents if p != path]
        self._write_recents([path, *kept][:RECENTS])

    def forget_recent(self, path: Path) -> None:
        """Remove a project from the recent projects."""
        self._write_recents([p for p in self.recents if p != path])

    def pinned(self, project: str) -> int | None:
        """Return the number of a project's pinned run; None if none was chosen."""
        return _number(self._text(f"pins/{_key(project)}", ""))

    def pin(self, project: str, number: int | None) -> None:
        """Set the number of a project's pinned run; None forgets it."""
        self._put({f"pins/{_key(project)}": "" if number is None else str(number)})

    def folder_of(self, purpose: str) -> Path | None:
        """Return the folder of the last file that was chosen for a purpose; None if it is gone."""
        text = self._text(f"folders/{_key(purpose)}", "")
        return Path(text) if text and os.path.isdir(text) else None

    def remember_folder(self, purpose: str, folder: Path) -> None:
        """Remember the folder of a file that was chosen for a purpose."""
        self._put({f"folders/{_key(purpose)}": str(folder)})

    def layouts(self) -> list[str]:
        """Names of the saved layouts, sorted."""
        keys = (key.removeprefix(_LAYOUTS) for key in self._known if key.startswith(_LAYOUTS))
        return sorted({key.rpartition("/")[0] for key in keys})

    def layout(self, name: str) -> dict[str, QByteArray]:
        """Return the parts of a saved layout; empty if there is none of this name."""
        parts = {}
        for key, text in self._known.items():
            layout, _, part = key.removeprefix(_LAYOUTS).rpartition("/")
            if key.startswith(_LAYOUTS) and layout == name:
                with contextlib.suppress(binascii.Error, ValueError):
                    value = QByteArray(base64.b64decode(text, validate=True))
                    parts[part] = value if part == "geometry" else with_present_names(value)
        return parts

    def save_layout(self, name: str, parts: dict[str, QByteArray]) -> None:
        """Save a layout under a name."""
        encoded = {part: base64.b64encode(bytes(value.data())).decode() for part, value in parts.items()}
        self._put({f"{_LAYOUTS}{name}/{part}": text for part, text in encoded.items()})

    def _put(self, changes: dict[str, str]) -> None:
        """Change texts, here and in the file, where another window may have changed others."""
        self._known |= changes
        self._unwritten |= changes.keys()
        if is_open_to_others(self.folder):
            return
        text = json.dumps(_texts(self._file) | changes, indent=1)
        with contextlib.suppress(OSError):
            make_private_folder(self.folder)
            write_file(self._file, text.encode(), mode=0o600)
            self._unwritten -= changes.keys()

    def _write_recents(self, paths: list[Path]) -> None:
        self._put({"recents": "\n".join(str(p) for p in paths)})

    def _text(self, key: str, default: str) -> str:
        return self._known.get(key, default)
