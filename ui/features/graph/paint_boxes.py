"""Paints operations and groups: colour patches when zoomed out, cards with text when zoomed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from ui.features.graph.marks import number_text
from ui.features.graph.paint_headers import sign
from ui.features.graph.palette import HITS, LETTERS, family, ink_on
from ui.features.graph.picture import CLOSE, TINY
from workbench.graph.labels import elide
from workbench.graph.layout import PILL_HEIGHT

if TYPE_CHECKING:
    from ui.features.graph.marks import Marks
    from ui.features.graph.palette import Palette
    from ui.features.graph.picture import Picture
    from ui.features.graph.scene import Cell, Scene
    from workbench.graph.hierarchy import Hierarchy


HEIGHT = 15.0
TAG_SIZE = 22.0


def paint_tags(painter: QPainter, palette: Palette, picture: Picture, item: str) -> None:
    """Paint the difference sign at the lower right and search letters at the upper left."""
    hierarchy, marks, rect = picture.scene.hierarchy, picture.marks, picture.rect(item)
    if sign := marks.difference(item, hierarchy):
        width = palette.static_text(sign, is_title=True).size().width() + 10
        # The label of the line that leaves the box begins 3 px below it.
        body = QRectF(rect.right() - width + 6, rect.bottom() + 2 - HEIGHT, width, HEIGHT)
        _tag(painter, palette, body, sign, palette.difference(sign))
    for index, number in enumerate(marks.hits(item, hierarchy)):
        body = QRectF(rect.x() - 6 + 17 * index, rect.y() - 7, HEIGHT, HEIGHT)
        _tag(painter, palette, body, LETTERS[number], QColor(HITS[number]))


def paint_patches(painter: QPainter, palette: Palette, picture: Picture, item: str) -> None:
    """Paint difference signs and search letters when zoomed out."""
    hierarchy, marks, rect = picture.scene.hierarchy, picture.marks, picture.rect(item)
    painter.setFont(palette.title_font)
    if sign := marks.difference(item, hierarchy):
        body = QRectF(rect.right() - TAG_SIZE, rect.bottom() - TAG_SIZE / 2, TAG_SIZE, TAG_SIZE)
        _patch(painter, body, sign[:1], palette.difference(sign))
    for index, number in enumerate(marks.hits(item, hierarchy)):
        body = QRectF(rect.x() - 8 + (TAG_SIZE + 2) * index, rect.y() - 8, TAG_SIZE, TAG_SIZE)
        _patch(painter, body, LETTERS[number], QColor(HITS[number]))


def _patch(painter: QPainter, body: QRectF, text: str, colour: QColor) -> None:
    painter.fillRect(body, colour)
    painter.setPen(ink_on(colour))
    painter.drawText(body, Qt.AlignmentFlag.AlignCenter, text)


def _tag(painter: QPainter, palette: Palette, body: QRectF, text: str, colour: QColor) -> None:
    static = palette.static_text(text, is_title=True)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    painter.drawRoundedRect(body, 3, 3)
    painter.setPen(ink_on(colour))
    painter.setFont(palette.title_font)
    left = body.center().x() - static.size().width() / 2
    painter.drawStaticText(QPointF(left, body.y() - 0.5), static)


RADIUS = 5.0
BAR = 4.0
CHIP_HEIGHT = 15.0
PATCH = 28.0
FEW = 400
LARGE_LETTER, LARGE_MARGIN = 14.0, 16.0
TINY_DEPTH = 2


class BoxPainter:
    """Paints frames, boxes, chips, hatches and outlines."""

    def __init__(self, palette: Palette) -> None:
        self._palette = palette

    def paint_frames(self, painter: QPainter, picture: Picture, cells: list[Cell]) -> None:
        """Paint open groups, outer groups first."""
        scene, area = picture.scene, picture.area
        shown = list({name for cell in cells for name in cell.frames})
        if picture.camera.scale < TINY:
            shown = [item for item in shown if scene.hierarchy.depth[item] <= TINY_DEPTH]
        by_depth: dict[int, list[QRectF]] = {}
        ground = 0
        for item in shown:
            rect, depth = picture.rect(item), scene.hierarchy.depth[item]
            if rect.intersects(area):
                by_depth.setdefault(depth, []).append(rect)
                ground = max(ground, depth) if rect.contains(area) else ground
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
        painter.setPen(self._palette.border)
        # Groups under a group that fills the view are hidden.
        for depth in sorted(depth for depth in by_depth if depth >= ground):
            painter.setBrush(self._palette.shades[depth % 2])
            painter.drawRects(by_depth[depth])

    def paint_far(self, painter: QPainter, picture: Picture, cells: list[Cell]) -> None:
        """Paint all boxes of the cells, with one call per colour and cell."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
        painter.setPen(Qt.PenStyle.NoPen)
        # A box of less than a pixel shows only with an outline.
        is_tiny = picture.camera.scale < TINY
        key = hash((picture.marks.version, self._palette.theme.name))
        for cell in cells:
            if cell.batches is None or key != cell.batched_for:
                cell.batches = self._batch(picture.scene, picture.marks, cell)
                cell.batched_for = key
            for colour, rects in cell.batches.items():
                painter.setBrush(QColor(colour))
                if is_tiny:
                    painter.setPen(QPen(QColor(colour), 0.0))
                painter.drawRects(rects)

    def _batch(self, scene: Scene, marks: Marks, cell: Cell) -> dict[str, list[QRectF]]:
        batches: dict[str, list[QRectF]] = {}
        for item, rect in cell.items:
            batches.setdefault(self.far_colour(scene, marks, item), []).append(rect)
        return batches

    def far_colour(self, scene: Scene, marks: Marks, item: str) -> str:
        """Return the colour of a zoomed-out box: overlay, else precision, else operator family."""
        hierarchy = scene.hierarchy
        if marks.overlay is not None:
            shade = marks.colour(item, hierarchy)
            return self._palette.node.name() if shade is None else shade.name()
        if marks.differences or marks.search_hits:
            return self._tagged_colour(marks, item, hierarchy)
        chip = marks.chip(item, hierarchy) if marks.chips else None
        if chip is not None:
            return self._palette.theme.precision_colour(chip.label)
        node = hierarchy.node(item)
        if node is None:
            return self._palette.theme.muted
        return self._palette.family_name(family(node))

    def _tagged_colour(self, marks: Marks, item: str, hierarchy: Hierarchy) -> str:
        """Return the colour of a difference or a hit; other boxes are muted."""
        if sign := marks.difference(item, hierarchy):
            return self._palette.difference(sign).name()
        hits = marks.hits(item, hierarchy)
        return HITS[hits[0]] if hits else self._palette.theme.border

    def paint_near(self, painter: QPainter, picture: Picture, items: list[str]) -> None:
        """Paint boxes one by one, without text."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=True)
        for item in items:
            rect = picture.rect(item)
            if item in picture.scene.hierarchy.groups:
                self._group(painter, picture, item, rect)
            else:
                self._node(painter, picture, item, rect)
            if picture.marks.reasons and picture.marks.reason(item, picture.scene.hierarchy):
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(self._palette.hatch)
                painter.drawRoundedRect(rect, RADIUS, RADIUS)

    def paint_words(self, painter: QPainter, picture: Picture, items: list[str]) -> None:
        """Paint the text of boxes if it is legible; else the precision as a patch."""
        for item in items:
            if picture.camera.scale >= CLOSE:
                self._words(painter, picture, item, picture.rect(item))
                paint_tags(painter, self._palette, picture, item)
            else:
                self._large_words(painter, picture, item, len(items) <= FEW)

    def _large_words(self, painter: QPainter, picture: Picture, item: str, has_title: bool) -> None:
        marks, hierarchy, rect = picture.marks, picture.scene.hierarchy, picture.rect(item)
        chip = marks.chip(item, hierarchy) if marks.chips else None
        if chip is not None and marks.overlay is None:
            colour = QColor(self._palette.theme.precision_colour(chip.label))
            patch = QRectF(rect.right() - PATCH, rect.y() - 4, PATCH + 4, CHIP_HEIGHT)
            painter.fillRect(patch, colour)
        paint_patches(painter, self._palette, picture, item)
        if has_title and rect.height() > PILL_HEIGHT:
            words, room = hierarchy.words(item)[0], rect.width() - LARGE_MARGIN
            title = self._palette.large_text(words)
            if title.size().width() > room:
                title = self._palette.large_text(elide(words, max(int(room / LARGE_LETTER), 3)))
            fill = None if item in hierarchy.groups else self._fill(picture, item)
            painter.setPen(ink_on(fill) if fill else self._palette.text)
            painter.setFont(self._palette.large_font)
            top = rect.center().y() - title.size().height() / 2
            painter.drawStaticText(QPointF(rect.x() + 12, top), title)

    def _node(self, painter: QPainter, picture: Picture, item: str, rect: QRectF) -> None:
        node = picture.scene.hierarchy.snapshot.nodes_by_id[item]
        colour = self._palette.family(family(node))
        fill = self._fill(picture, item)
        painter.setPen(self._palette.border)
        if rect.height() <= PILL_HEIGHT:
            painter.setPen(QPen(colour))
            painter.setBrush(fill or self._palette.pill)
            painter.drawRoundedRect(rect, rect.height() / 2, rect.height() / 2)
            return
        painter.setBrush(fill or self._palette.node)
        painter.drawRoundedRect(rect, RADIUS, RADIUS)
        painter.fillRect(QRectF(rect.x() + 1, rect.y() + 4, BAR, rect.height() - 8), colour)

    def _group(self, painter: QPainter, picture: Picture, item: str, rect: QRectF) -> None:
        painter.setPen(self._palette.border)
        painter.setBrush(self._palette.group)
        painter.drawRoundedRect(rect.translated(3, 3), RADIUS, RADIUS)
        painter.drawRoundedRect(rect, RADIUS, RADIUS)
        shade = self._fill(picture, item)
        if shade is not None:
            share = picture.marks.share(item, picture.scene.hierarchy)
            part = 1.0 if share is None else share
            bar = QRectF(rect.x() + 1, rect.bottom() - 7, (rect.width() - 2) * part, 6)
            painter.fillRect(bar, shade)

    def _fill(self, picture: Picture, item: str) -> QColor | None:
        return picture.marks.colour(item, picture.scene.hierarchy)

    def _words(self, painter: QPainter, picture: Picture, item: str, rect: QRectF) -> None:
        hierarchy, palette = picture.scene.hierarchy, self._palette
        is_group = item in hierarchy.groups
        fill = None if is_group else self._fill(picture, item)
        title_text, subtitle_text = hierarchy.words(item)
        painter.setPen(ink_on(fill) if fill else palette.text)
        painter.setFont(palette.title_font)
        if rect.height() <= PILL_HEIGHT:
            title = palette.static_text(title_text, is_title=False)
            painter.setFont(palette.small_font)
            middle = rect.center() - QPointF(title.size().width() / 2, title.size().height() / 2)
            painter.drawStaticText(middle, title)
            return
        left = rect.x() + (24 if is_group else 12)
        if is_group:
            sign(painter, palette.muted, QPointF(rect.x() + 13, rect.y() + 14), is_open=False)
            painter.setPen(palette.text)
        room = rect.right() - left
        title = palette.fitting_text(title_text, room, is_title=True)
        painter.drawStaticText(QPointF(left, rect.y() + 4), title)
        subtitle = palette.fitting_text(subtitle_text, room, is_title=False)
        painter.setFont(palette.small_font)
        painter.setPen(ink_on(fill) if fill else palette.muted)
        painter.drawStaticText(QPointF(left, rect.y() + 22), subtitle)
        self._badge(painter, picture, item, rect)

    def _badge(self, painter: QPainter, picture: Picture, item: str, rect: QRectF) -> None:
        """Paint the overlay value, or else the precision chip, at the upper right."""
        hierarchy, marks = picture.scene.hierarchy, picture.marks
        amount = marks.amount(item, hierarchy)
        if amount is not None:
            share = marks.share(item, hierarchy) if item in hierarchy.groups else None
            text = f"{100 * share:.0f} %" if share is not None else number_text(amount)
            self._chip(painter, rect, text, self._palette.border.color())
            return
        chip = marks.chip(item, hierarchy) if marks.chips else None
        if chip is not None and marks.overlay is None:
            colour = QColor(self._palette.theme.precision_colour(chip.label))
            self._chip(painter, rect, chip.text, colour, chip.wish)

    def _chip(self, painter: QPainter, rect: QRectF, text: str, colour: QColor, wish: str = "") -> None:
        """Paint a chip on the border of a box; a wish that was not applied is struck out."""
        static = self._palette.static_text(text, is_title=False)
        struck = self._palette.static_text(wish, is_title=False) if wish else None
        asked = struck.size().width() + 6 if struck is not None else 0.0
        width = static.size().width() + 10 + asked
        # The chip is above the box, where it covers neither a long title nor that of a narrow box.
        top = rect.y() - (CHIP_HEIGHT - 2)
        body = QRectF(rect.right() - width + 6, top, width, CHIP_HEIGHT)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colour)
        painter.drawRoundedRect(body, 4, 4)
        painter.setPen(ink_on(colour))
        painter.setFont(self._palette.small_font)
        painter.drawStaticText(QPointF(body.x() + 5, body.y() - 0.5), static)
        if struck is not None:
            left, middle = body.right() - asked + 1, body.center().y()
            painter.drawStaticText(QPointF(left, body.y() - 0.5), struck)
            painter.drawLine(QPointF(left - 1, middle), QPointF(body.right() - 4, middle))

    def paint_outlines(self, painter: QPainter, picture: Picture, shown: list[str]) -> None:
        """Outline the selected items."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=True)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        room = 2.0 / picture.camera.scale if picture.camera.scale < 1 else 2.0
        if picture.selected:
            painter.setPen(self._palette.accent)
            for item in shown:
                if picture.is_selected(item):
                    outline(painter, picture.rect(item), room)

    def paint_pointers(self, painter: QPainter, picture: Picture) -> None:
        """Outline the items under the mouse and with the keyboard focus."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=True)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        room = 2.0 / picture.camera.scale if picture.camera.scale < 1 else 2.0
        for marked, pen in (
            (picture.hovered, QPen(self._palette.accent.color(), 0)),
            (picture.current, self._palette.current),
        ):
            if marked is not None and picture.scene.has(marked):
                painter.setPen(pen)
                painter.setBrush(Qt.BrushStyle.NoBrush)
                outline(painter, picture.rect(marked), room + 1)
                is_box = not picture.scene.is_open(marked)
                if is_box and picture.camera.scale >= CLOSE:
                    # Chips are on the border; the line is behind them.
                    if picture.rect(marked).height() > PILL_HEIGHT:
                        self._badge(painter, picture, marked, picture.rect(marked))
                    paint_tags(painter, self._palette, picture, marked)


def outline(painter: QPainter, rect: QRectF, room: float) -> None:
    """Paint a rounded line around a box."""
    painter.drawRoundedRect(rect.adjusted(-room, -room, room, room), RADIUS + 2, RADIUS + 2)
