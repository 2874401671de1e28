"""Notices over the window: toasts in the corner, or a modal question in the centre."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt, QTimer
from PySide6.QtGui import QColor, QGuiApplication, QKeyEvent, QPainter, QPaintEvent, QRegion
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QApplication,
    QComboBox,
    QDockWidget,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ui.shared.appearance import Appearance
from ui.shared.labels import Label
from ui.shared.setting_names import in_window
from ui.shared.theme import Theme, icon
from ui.state.notices import Notice, Notices

WIDTH_PX = 380
_GAP_PX = 8
# Room for the status bar, and for the bars at the top.
_MARGIN_PX, _TOP_PX = 36, 120
_MOST = 10_000
# How many covered controls are better than a place behind a floating panel.
_BEHIND = 100
# Time for panels to get their contents and places after they were shown.
_SETTLED_MS = 150
SHOWN = 3
_STEP_PX = 12


class Toast(QFrame):
    """One notice with its action buttons."""

    def __init__(self, notice: Notice, notices: Notices, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.notice = notice
        self._notices = notices
        self._default: QPushButton | None = None
        self.setObjectName("Toast")
        self.setProperty("level", notice.level)
        self.setAccessibleName(f"{notice.level}: {notice.text}")
        self._build(theme)
        if notice.lasts_s is not None:
            QTimer.singleShot(int(notice.lasts_s * 1000), self, self._on_time_over)

    def focus_first(self) -> None:
        """Give the keyboard focus to the default button."""
        if (button := self._default) is not None:
            button.setFocus(Qt.FocusReason.PopupFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self._notices.close(self.notice.id)
        elif event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            self._press()
        else:
            super().keyPressEvent(event)

    def _press(self) -> None:
        """Click the button with the focus, else the default button of a question.

        Only dialogs of Qt do so on Enter.
        """
        focused = self.focusWidget()
        if isinstance(focused, QAbstractButton) and focused.hasFocus():
            focused.click()
        elif self.notice.level == "question" and self._default is not None:
            self._default.click()

    def _build(self, theme: Theme) -> None:
        outer = self._outer = QVBoxLayout(self)
        outer.setContentsMargins(12, 10, 8, 10)
        outer.setSpacing(6)
        outer.addLayout(self._headline(theme))
        if self.notice.hint:
            hint = _wrapped(in_window(self.notice.hint), "Hint")
            hint.setContentsMargins(24, 0, 8, 0)
            outer.addWidget(hint)
        buttons = self._buttons()
        if buttons.count():
            outer.addLayout(buttons)
        self._row = buttons

    def fit(self) -> None:
        """Take the usual width, or that of the buttons where their texts need more."""
        margins = self._outer.contentsMargins() + self.contentsMargins()
        # The style of a button, and so its width, is known after the row was measured first.
        self._row.invalidate()
        buttons = self._row.minimumSize().width() + margins.left() + margins.right()
        width = max(WIDTH_PX, buttons)
        self.setFixedWidth(width)
        self.resize(width, self.heightForWidth(width))

    def _headline(self, theme: Theme) -> QHBoxLayout:
        colours = {"error": theme.bad, "warning": theme.warning, "success": theme.good}
        mark = Label(self)
        colour = colours.get(self.notice.level, theme.accent)
        mark.setPixmap(icon(self.notice.level, colour).pixmap(16, 16))
        mark.setAlignment(Qt.AlignmentFlag.AlignTop)
        close = QToolButton(self)
        close.setIcon(icon("close", theme.muted))
        close.setAccessibleName("Close notice")
        close.setFixedSize(20, 20)
        close.setToolTip("Close (Esc)")
        close.clicked.connect(lambda: self._notices.close(self.notice.id))
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(mark, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(_wrapped(self.notice.text, "ToastText"), 1)
        row.addWidget(close, 0, Qt.AlignmentFlag.AlignTop)
        return row

    def _buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setContentsMargins(24, 2, 8, 0)
        row.setSpacing(6)
        actions = self.notice.actions
        default = next((a for a in actions if a.is_default), actions[0] if actions else None)
        for action in actions:
            button = QPushButton(action.title, self)
            is_first = action is default and self.notice.level == "question"
            button.setProperty("primary", is_first and not action.destructive)
            button.setProperty("danger", action.destructive)
            choose = partial(self._notices.choose, self.notice.id, action.title)
            button.clicked.connect(lambda _=False, choose=choose: choose())
            if action is default:
                self._default = button
            row.addWidget(button)
        if self.notice.where is not None:
            show = QPushButton("Show", self)
            show.clicked.connect(self._on_show_clicked)
            row.addWidget(show)
            help_ = QPushButton("Help", self)
            help_.setProperty("link", True)
            help_.setToolTip("Open the page of the guide about this.")
            help_.clicked.connect(lambda: self._notices.help_asked.emit(self.notice.where))
            row.addWidget(help_)
        if self.notice.level == "error":
            copy = QPushButton("Copy details", self)
            copy.setProperty("link", True)
            copy.clicked.connect(self._on_copy_clicked)
            row.addWidget(copy)
        if row.count():
            row.addStretch(1)
        return row

    def _on_show_clicked(self) -> None:
        self._notices.place_asked.emit(self.notice.where)
        self._notices.close(self.notice.id)

    def _on_copy_clicked(self) -> None:
        QGuiApplication.clipboard().setText(self.notice.copy_text)

    def _on_time_over(self) -> None:
        focused = QApplication.focusWidget()
        if self.underMouse() or (focused is not None and self.isAncestorOf(focused)):
            QTimer.singleShot(2000, self, self._on_time_over)
        else:
            self._notices.close(self.notice.id)


class _Veil(QWidget):
    """Dims the window behind a modal question."""

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(event.rect(), QColor(0, 0, 0, 110))
        painter.end()


class ToastHost(QObject):
    """Shows all open notices over a window."""

    def __init__(self, notices: Notices, appearance: Appearance, window: QWidget) -> None:
        super().__init__(window)
        self._notices, self._appearance, self._window = notices, appearance, window
        self._toasts: dict[int, Toast] = {}
        self._veil: _Veil | None = None
        self._soon = QTimer(self, interval=0, singleShot=True)
        self._soon.timeout.connect(self.raise_all)
        self._later = QTimer(self, interval=_SETTLED_MS, singleShot=True)
        self._later.timeout.connect(self._move_to_corner)
        # Toasts come together with results, which take time to show.
        self._waiting: list[Notice] = []
        self._making = QTimer(self, interval=0, singleShot=True)
        self._making.timeout.connect(self._on_make)
        self._placing = QTimer(self, interval=0, singleShot=True)
        self._placing.timeout.connect(self._move_to_corner)
        window.installEventFilter(self)
        notices.posted.connect(self._on_posted)
        notices.closed.connect(self._on_closed)
        for notice in notices.open.values():
            self._on_posted(notice)

    @property
    def question(self) -> Toast | None:
        """The question that must be answered first; None without one."""
        return next((t for t in self._toasts.values() if t.notice.blocking), None)

    @property
    def shown(self) -> list[Toast]:
        """The visible toasts in the corner, from top to bottom."""
        return [toast for toast in self._toasts.values() if toast.isVisible()]

    def raise_soon(self, *_: object) -> None:
        """Raise all toasts, and move them off controls, after the pending layout of the panels."""
        if self._toasts:
            self._soon.start()
            self._later.start()

    def raise_all(self) -> None:
        """Raise all toasts above the panels."""
        for toast in self._toasts.values():
            toast.raise_()
        if self._veil is not None:
            self._veil.raise_()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._window and event.type() == QEvent.Type.Resize:
            self._move_to_corner()
        return False

    def _free_place(self, size: QSize) -> QPoint:
        """Return where a stack of this size covers no control, or the fewest: low and right."""
        area, width = self._window.rect(), size.width()
        bottom = area.bottom() - _MARGIN_PX - size.height()
        covered: dict[tuple[int, int], int] = {(area.right() - width - 16, bottom): _MOST}
        controls, floating = self._controls(), self._floating()
        for right in range(area.right() - 16, width, -_STEP_PX * 8):
            for top in range(bottom, _TOP_PX, -_STEP_PX):
                box = QRect(QPoint(right - width, top), size)
                behind = _BEHIND * any(box.intersects(panel) for panel in floating)
                covered[right - width, top] = behind + sum(box.intersects(c) for c in controls)
                if not covered[right - width, top]:
                    return box.topLeft()
        return QPoint(*min(covered, key=covered.__getitem__))

    def _controls(self) -> list[QRect]:
        """Return the places of all visible buttons and fields, in the window.

        Lists with the property ``keepClear`` count as well: they say more than the toast.
        """
        kinds = (QAbstractButton, QComboBox, QLineEdit, QAbstractSlider)
        widgets = [widget for kind in kinds for widget in self._window.findChildren(kind)]
        lists = self._window.findChildren(QAbstractItemView)
        rects = []
        for widget in (*widgets, *(view for view in lists if view.property("keepClear"))):
            region = widget.visibleRegion() if widget.isVisible() else QRegion()
            if region.isEmpty() or self._is_in_a_toast(widget):
                continue
            box = region.boundingRect()
            rects.append(QRect(widget.mapTo(self._window, box.topLeft()), box.size()))
        return rects

    def _floating(self) -> list[QRect]:
        """Return the places of floating panels, which are in front of the window, in the window."""
        docks = self._window.findChildren(QDockWidget)
        frames = [dock.frameGeometry() for dock in docks if dock.isFloating() and dock.isVisible()]
        return [QRect(self._window.mapFromGlobal(frame.topLeft()), frame.size()) for frame in frames]

    def _is_in_a_toast(self, widget: QWidget) -> bool:
        return any(toast.isAncestorOf(widget) for toast in self._toasts.values())

    def _on_posted(self, notice: Notice) -> None:
        if not notice.blocking:
            self._waiting.append(notice)
            self._making.start()
            return
        # A popup takes all keys and clicks: the question could not be answered.
        while (popup := QApplication.activePopupWidget()) is not None and popup.close():
            pass
        if self._veil is None:
            self._veil = _Veil(self._window)
        self._veil.setGeometry(self._window.rect())
        self._veil.show()
        self._veil.raise_()
        toast = self._make(notice, self._veil)
        toast.show()
        self._move_to_corner()
        toast.focus_first()

    def _on_make(self) -> None:
        waiting, self._waiting = self._waiting, []
        for notice in waiting:
            self._make(notice, self._window)
        self._placing.start()
        # Panels that were shown meanwhile may have no place yet.
        self._later.start()

    def _make(self, notice: Notice, parent: QWidget) -> Toast:
        toast = Toast(notice, self._notices, self._appearance.theme, parent)
        # Where it becomes visible is painted again; ``_move_to_corner`` moves it from outside.
        toast.move(parent.rect().bottomRight())
        self._toasts[notice.id] = toast
        return toast

    def _on_closed(self, notice_id: int) -> None:
        self._waiting = [notice for notice in self._waiting if notice.id != notice_id]
        toast = self._toasts.pop(notice_id, None)
        if toast is not None:
            toast.hide()
            toast.deleteLater()
        if self._veil is not None and not any(t.notice.blocking for t in self._toasts.values()):
            self._veil.hide()
            self._veil.deleteLater()
            self._veil = None
        self._move_to_corner()

    def _move_to_corner(self) -> None:
        area = self._window.rect()
        stack: list[Toast] = []
        for toast in reversed(list(self._toasts.values())):
            is_shown = toast.notice.blocking or len(stack) < SHOWN
            # The style of a toast, and so its height, is known as soon as it is visible.
            toast.setVisible(is_shown)
            toast.fit()
            if toast.notice.blocking:
                box = QRect(0, 0, toast.width(), toast.height())
                box.moveCenter(area.center())
                toast.move(box.topLeft())
            elif is_shown:
                stack.append(toast)
        height = sum(toast.height() + _GAP_PX for toast in stack)
        width = max((toast.width() for toast in stack), default=WIDTH_PX)
        corner = self._free_place(QSize(width, height)) if stack else QPoint()
        for toast in reversed(stack):
            toast.move(corner)
            corner += QPoint(0, toast.height() + _GAP_PX)
            toast.raise_()
        if self._veil is not None:
            self._veil.setGeometry(area)
            self._veil.raise_()


def _wrapped(text: str, name: str) -> Label:
    label = Label(text)
    label.setObjectName(name)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
    label.setAlignment(Qt.AlignmentFlag.AlignTop)
    return label
