"""What the window remembers between days: typed, in one file of the user's."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QByteArray, QSettings

from workbench.pipeline.cache import DEFAULT_LIMIT_BYTES
from workbench.project.trust import default_store

RECENTS = 12
_GIB = 1 << 30


class Settings:
    """Typed access to one settings file; by default beside the memory of trusted code."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_store().parent
        self._store = QSettings(str(self.folder / "window.ini"), QSettings.Format.IniFormat)

    @property
    def theme(self) -> str:
        return self._text("theme", "dark")

    @theme.setter
    def theme(self, name: str) -> None:
        self._store.setValue("theme", name)

    @property
    def warm_engines(self) -> bool:
        """Whether an engine is started before it is needed."""
        return self._text("warm_engines", "true") == "true"

    @warm_engines.setter
    def warm_engines(self, on: bool) -> None:
        self._store.setValue("warm_engines", "true" if on else "false")

    @property
    def live(self) -> bool:
        """Whether every edit refreshes its figures."""
        return self._text("live", "false") == "true"

    @live.setter
    def live(self, on: bool) -> None:
        self._store.setValue("live", "true" if on else "false")

    @property
    def cache_limit_bytes(self) -> int:
        """How much room results may take on the disk."""
        text = self._text("cache_limit_gib", "")
        return int(text) * _GIB if text.isdecimal() else DEFAULT_LIMIT_BYTES

    @cache_limit_bytes.setter
    def cache_limit_bytes(self, limit: int) -> None:
        self._store.setValue("cache_limit_gib", str(max(1, limit // _GIB)))

    @property
    def recents(self) -> list[Path]:
        """Projects opened lately, the last one first."""
        names = self._text("recents", "").split("\n")
        return [Path(name) for name in names if name]

    def remember_recent(self, path: Path) -> None:
        """Put a project in front of the recent ones."""
        kept = [p for p in self.recents if p != path]
        self._write_recents([path, *kept][:RECENTS])

    def forget_recent(self, path: Path) -> None:
        """Take a project out of the recent ones."""
        self._write_recents([p for p in self.recents if p != path])

    def layouts(self) -> list[str]:
        """Names of the saved arrangements of panels."""
        self._store.beginGroup("layouts")
        names = sorted(set(self._store.childGroups()))
        self._store.endGroup()
        return names

    def layout(self, name: str) -> dict[str, QByteArray]:
        """Return the parts of a saved arrangement; empty when there is none."""
        parts = {}
        for part in ("geometry", "outer", "inner"):
            value = self._store.value(f"layouts/{name}/{part}")
            if isinstance(value, QByteArray):
                parts[part] = value
        return parts

    def save_layout(self, name: str, parts: dict[str, QByteArray]) -> None:
        """Keep an arrangement of panels under a name."""
        for part, value in parts.items():
            self._store.setValue(f"layouts/{name}/{part}", value)

    def sync(self) -> None:
        """Write everything to the disk."""
        self._store.sync()

    def _write_recents(self, paths: list[Path]) -> None:
        self._store.setValue("recents", "\n".join(str(p) for p in paths))

    def _text(self, key: str, default: str) -> str:
        return str(self._store.value(key, default))
