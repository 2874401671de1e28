"""Preferences (theme, engines, cache, simulations, trusted code) and the system check."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from functools import partial
from html import escape
from pathlib import Path

from PySide6.QtCore import QObject, QRunnable, Qt, QThreadPool, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHBoxLayout,
    QListWidget,
    QPushButton,
    QTextBrowser,
    QVBoxLayout,
    QWidget,
)

from ui.shared.appearance import Appearance
from ui.shared.forms import PathField, SpinBox, resize_on_screen
from ui.shared.labels import Label, literal
from ui.shared.number_format import size
from ui.shared.theme import THEMES, Theme
from ui.state.settings import Settings
from workbench.deploy.simulators.discovery import MachineSettings, load_settings, save_settings
from workbench.doctor import Finding, findings
from workbench.errors import WorkbenchError
from workbench.pipeline.cache import Cache
from workbench.project.trust import TrustStore

_GIB = 1 << 30


class _Measured(QObject):
    """Signals of ``_Measure``."""

    done = Signal(object)


class _Measure(QRunnable):
    """Sums the file sizes of the cache in a worker thread."""

    def __init__(self, root: Path, measured: _Measured) -> None:
        super().__init__()
        self._root, self._signals = root, measured

    def run(self) -> None:
        total = 0
        # os.walk skips folders that are deleted meanwhile; Path.rglob of Python 3.11 raises.
        for folder, _, names in os.walk(self._root):
            for name in names:
                with contextlib.suppress(OSError):
                    total += (Path(folder) / name).stat().st_size
        with contextlib.suppress(RuntimeError):  # The program ended meanwhile.
            self._signals.done.emit(total)


class PreferencesDialog(QDialog):
    """Dialog of the preferences. Changes take effect at once.

    Signals:
        cache_cleared: the user cleared the result cache.
        refused: a ``WorkbenchError``; a change could not be written.
    """

    cache_cleared = Signal()
    refused = Signal(object)

    def __init__(
        self, settings: Settings, appearance: Appearance, cache: Cache, trust: TrustStore, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Preferences")
        self._settings, self._appearance = settings, appearance
        self._cache, self._trust = cache, trust
        self._measured = _Measured()
        self._measured.done.connect(self._on_measured)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 14)
        layout.setSpacing(10)
        layout.addLayout(self._general())
        layout.addLayout(self._cache_row())
        layout.addLayout(self._trusted())
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        layout.addWidget(buttons)
        resize_on_screen(self, 520, 460)
        self._measure()
        self._show_trusted()

    def _general(self) -> QFormLayout:
        self.theme = QComboBox(self)
        self.theme.setAccessibleName("Theme")
        for theme in THEMES:
            self.theme.addItem(theme.name.capitalize(), theme.name)
        self.theme.setCurrentIndex(self.theme.findData(self._appearance.theme.name))
        self.theme.activated.connect(self._on_theme_activated)
        self.warm = QCheckBox("Start the engine in advance", self)
        self.warm.setToolTip("Uses about 500 MiB of memory; the first run starts several seconds earlier")
        self.warm.setChecked(self._settings.warm_engines)
        self.warm.clicked.connect(partial(self._on_switched, "warm_engines", self.warm))
        self.ahead = QCheckBox("Compile in the background after evaluation", self)
        self.ahead.setToolTip("The cost is known before you ask for it; an edit cancels the work")
        self.ahead.setChecked(self._settings.lower_ahead)
        self.ahead.clicked.connect(partial(self._on_switched, "lower_ahead", self.ahead))
        self.limit = SpinBox(self)
        self.limit.setAccessibleName("Cache limit")
        self.limit.setRange(1, 10_000)
        self.limit.setSuffix(" GiB")
        self.limit.setValue(self._settings.cache_limit_bytes // _GIB)
        self.limit.editingFinished.connect(self._on_limit_edited)
        form = QFormLayout()
        form.addRow("Theme", self.theme)
        form.addRow("", self.warm)
        form.addRow("", self.ahead)
        form.addRow("Cache limit", self.limit)
        self._add_machine(form)
        return form

    def _add_machine(self, form: QFormLayout) -> None:
        """Add the fields for simulations. The Simulator panel has simulator and runner."""
        try:
            settings = load_settings()
        except WorkbenchError:
            settings = MachineSettings()
        self.checkout = PathField("ExecuTorch checkout", "", self, kind="folder")
        self.checkout.line.setPlaceholderText("used to build runners")
        self.checkout.set_text(settings.executorch)
        self.time_limit = SpinBox(self)
        self.time_limit.setAccessibleName("Simulation timeout")
        self.time_limit.setRange(1, 24 * 60)
        self.time_limit.setSuffix(" min")
        self.time_limit.setValue(max(1, round(settings.timeout_s / 60)))
        self.time_limit.editingFinished.connect(self._on_machine_edited)
        self.checkout.edited.connect(self._on_machine_edited)
        form.addRow("ExecuTorch checkout", self.checkout)
        form.addRow("Simulation timeout", self.time_limit)

    def _on_machine_edited(self, *_: object) -> None:
        changes = {"executorch": self.checkout.text(), "timeout_s": 60.0 * self.time_limit.value()}
        try:
            save_settings(load_settings().model_copy(update=changes))
        except WorkbenchError as error:
            self.refused.emit(error)

    def _cache_row(self) -> QHBoxLayout:
        self.used = Label("Measuring\u2026", self)
        self.used.setObjectName("Hint")
        self.used.setToolTip(literal(str(self._cache.root)))
        clear = QPushButton("Clear cache", self)
        clear.setProperty("danger", True)
        clear.clicked.connect(self._on_clear_clicked)
        row = QHBoxLayout()
        row.addWidget(self.used, 1)
        row.addWidget(clear)
        return row

    def _trusted(self) -> QVBoxLayout:
        title = Label("Trusted code", self)
        title.setObjectName("Subheading")
        self.trusted = QListWidget(self)
        self.trusted.setAccessibleName("Trusted code")
        self.none = Label("No code is allowed yet.", self)
        self.none.setObjectName("Hint")
        self.none.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.revoke = QPushButton("Revoke", self)
        self.revoke.clicked.connect(self._on_revoke_clicked)
        self.trusted.itemSelectionChanged.connect(
            lambda: self.revoke.setEnabled(bool(self.trusted.selectedItems()))
        )
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self.revoke)
        layout = QVBoxLayout()
        layout.addWidget(title)
        layout.addWidget(self.trusted, 1)
        layout.addWidget(self.none, 1)
        layout.addLayout(row)
        return layout

    def _measure(self) -> None:
        QThreadPool.globalInstance().start(_Measure(self._cache.root, self._measured))

    def _show_trusted(self) -> None:
        self.trusted.clear()
        for folder, grant in self._trust.granted().items():
            self.trusted.addItem(f"{folder}   ({grant.description})")
            self.trusted.item(self.trusted.count() - 1).setData(Qt.ItemDataRole.UserRole, folder)
        self.trusted.setVisible(self.trusted.count() > 0)
        self.none.setVisible(self.trusted.count() == 0)
        self.revoke.setEnabled(False)

    def _on_measured(self, total: int) -> None:
        self.used.setText(f"Cache size: {size(total)}")

    def _on_switched(self, name: str, box: QCheckBox) -> None:
        setattr(self._settings, name, box.isChecked())

    def _on_theme_activated(self, row: int) -> None:
        name = str(self.theme.itemData(row))
        self._settings.theme = name
        self._appearance.switch(name)

    def _on_limit_edited(self) -> None:
        self._settings.cache_limit_bytes = self.limit.value() * _GIB

    def _on_clear_clicked(self) -> None:
        Cache(self._cache.root, 0).prune()
        self._measure()
        self.cache_cleared.emit()

    def _on_revoke_clicked(self) -> None:
        try:
            for item in self.trusted.selectedItems():
                self._trust.revoke(str(item.data(Qt.ItemDataRole.UserRole)))
        except WorkbenchError as error:
            self.refused.emit(error)
        self._show_trusted()


_WORDS = {"ok": "ok", "different": "check", "missing": "missing", "optional": "optional"}
_LOOKING = "Checking\u2026"


class _ProbeSignals(QObject):
    """Signals of ``_ProbeTask``."""

    done = Signal(object)


class _ProbeTask(QRunnable):
    """Probes the tools and their versions in a worker thread."""

    def __init__(self, signals: _ProbeSignals) -> None:
        super().__init__()
        self._signals = signals

    def run(self) -> None:
        self._signals.done.emit(findings())


class DoctorDialog(QDialog):
    """Lists tools and their versions. Downloads nothing and accepts no licence."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("System check")
        self._theme = theme
        self._signals = _ProbeSignals()
        self._signals.done.connect(self._on_findings)
        self.page = QTextBrowser(self)
        self.page.setAccessibleName("System check")
        kinds = QDialogButtonBox.StandardButton
        buttons = QDialogButtonBox(kinds.Close, self)
        self.again = buttons.addButton("Refresh", QDialogButtonBox.ButtonRole.ActionRole)
        self.again.clicked.connect(self._look)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 14)
        layout.setSpacing(10)
        layout.addWidget(self.page, 1)
        layout.addWidget(buttons)
        resize_on_screen(self, 760, 620)
        self._look()

    def _look(self) -> None:
        self.again.setEnabled(False)
        self.page.setText(_LOOKING)
        QThreadPool.globalInstance().start(_ProbeTask(self._signals))

    def _on_findings(self, findings: Sequence[Finding]) -> None:
        self.again.setEnabled(True)
        self.page.setHtml("".join(self._row(finding) for finding in findings))

    def _row(self, finding: Finding) -> str:
        theme = self._theme
        colours = {"ok": theme.good, "different": theme.warning, "missing": theme.bad}
        colour = colours.get(finding.state, theme.muted)
        lines = [
            f"<b>{escape(finding.name)}</b> &nbsp;{escape(finding.version)} &nbsp;"
            f"<span style='color:{colour}'>{_WORDS[finding.state]}</span>"
        ]
        if finding.state != "ok":
            why = f"<span style='color:{theme.muted}'>{escape(finding.why)}</span>"
            lines += [part for part in (why, escape(finding.remedy)) if part]
        return f"<p style='margin:0 0 9px 0'>{'<br>'.join(lines)}</p>"
