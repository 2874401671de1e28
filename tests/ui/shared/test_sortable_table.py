"""Tables of figures sort by value, keep what is not known last, and keep Qt's contract."""

from __future__ import annotations

import math

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester

from ui.shared.number_format import DASH, count, decibel, figure, milliseconds, percent, size
from ui.shared.sortable_table import Column, FigureTableModel, FigureView, Role

ASCENDING, DESCENDING = Qt.SortOrder.AscendingOrder, Qt.SortOrder.DescendingOrder
ROWS = [("b", 2.0), ("none", None), ("a", 10.0), ("nan", math.nan), ("C", -1.0)]


@pytest.fixture
def model(qtbot):
    columns = (
        Column("Name", lambda r: r[0]),
        Column("Figure", lambda r: figure(r[1]), lambda r: r[1], "Description", share=lambda r: 0.5),
    )
    made = FigureTableModel(columns, lambda r: f"about {r[0]}")
    mode = QAbstractItemModelTester.FailureReportingMode.Fatal
    made.tester = QAbstractItemModelTester(made, mode)
    made.set_rows(ROWS)
    return made


def names(model):
    return [model.index(row, 0).data() for row in range(model.rowCount())]


@pytest.mark.parametrize(("order", "expected"), [(ASCENDING, ["C", "b", "a"]), (DESCENDING, ["a", "b", "C"])])
def test_that_what_is_not_known_stands_last_in_both_orders(model, order, expected):
    model.sort(1, order)
    assert names(model) == [*expected, "none", "nan"]


def test_that_names_sort_without_regard_to_case(model):
    model.sort(0, ASCENDING)
    assert names(model) == ["a", "b", "C", "nan", "none"]


def test_that_other_rows_stay_sorted_and_no_column_means_the_given_order(model):
    model.sort(1, DESCENDING)
    model.set_rows(ROWS[:3])
    assert names(model) == ["a", "b", "none"]
    model.sort(-1, ASCENDING)
    assert names(model) == ["b", "none", "a"]


def test_that_places_and_shown_rows_are_told_apart(model):
    model.sort(1, ASCENDING)
    assert model.source_row(0) == 4
    assert model.shown_at(4) == 0
    assert model.row_at(0) == ("C", -1.0)
    assert model.row_at(99) is None


def test_that_cells_say_text_tooltip_and_share(model):
    index = model.index(0, 1)
    assert index.data() == "2"
    assert index.data(Qt.ItemDataRole.ToolTipRole) == "about b"
    assert index.data(Qt.ItemDataRole.AccessibleTextRole) == "Figure: 2"
    assert index.data(Role.SHARE) == 0.5
    tip = model.headerData(1, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole)
    assert tip == "Description"


def test_that_a_chosen_row_moves_with_its_figure_when_sorted(model, qtbot):
    view = FigureView("Figures", model)
    qtbot.addWidget(view)
    view.choose_rows([2], reveal=True)
    view.sortByColumn(1, DESCENDING)
    assert view.chosen_rows() == [0]


def test_that_only_a_person_choosing_is_told(model, qtbot):
    view = FigureView("Figures", model)
    qtbot.addWidget(view)
    told = []
    view.rows_chosen.connect(told.append)
    view.choose_rows([1], reveal=False)
    assert told == []
    view.selectRow(2)
    assert told == [[2]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (figure(None), DASH),
        (figure(math.inf), DASH),
        (figure(0.012341), "0.01234"),
        (decibel(35.5512), "35.55 dB"),
        (decibel(None), DASH),
        (percent(0.00001), "<0.01 %"),
        (percent(0.99999), ">99.99 %"),
        (percent(1.0), "100.00 %"),
        (percent(None), DASH),
        (count(1234567), "1,234,567"),
        (size(512), "512 B"),
        (size(30208), "29.5 KiB"),
        (size(3665008), "3.50 MiB"),
        (size(None), DASH),
        (milliseconds(0.0702), "0.070 ms"),
    ],
)
def test_that_figures_are_written_one_way(text, expected):
    assert text == expected


@pytest.fixture
def paths(qtbot):
    columns = (Column("Module", lambda r: r), Column("Cycles", lambda r: "1,000", lambda r: 1000))
    made = FigureTableModel(columns, str)
    shown = FigureView("Cost", made)
    qtbot.addWidget(shown)
    made.set_rows(["transformer.layers.0.attention.output_projection"])
    shown.resize(900, 200)
    shown.show()
    qtbot.waitExposed(shown)
    return shown


def test_that_figures_stay_in_sight_beside_long_names(paths, qtbot):
    wide = paths.columnWidth(0)
    paths.resize(250, 200)
    assert paths.columnWidth(0) < wide
    qtbot.waitUntil(lambda: paths.horizontalScrollBar().maximum() == 0)
    paths.resize(900, 200)
    assert paths.columnWidth(0) == wide


def test_that_a_column_that_gives_way_is_narrowed_first(qtbot):
    columns = (Column("Description", lambda r: r), Column("Digest", lambda r: r, gives_way=True))
    model = FigureTableModel(columns, str)
    view = FigureView("Files", model)
    qtbot.addWidget(view)
    view.show()
    view.resize(700, 200)
    model.set_rows(["the program as a C array for flash"])
    wide = [view.columnWidth(column) for column in range(2)]
    view.resize(sum(wide) - 90, 200)
    assert view.columnWidth(0) == wide[0]
    assert view.columnWidth(1) < wide[1]


def test_that_a_long_text_is_whole_beside_a_column_that_gives_way(qtbot):
    columns = (Column("Description", lambda r: r), Column("Digest", lambda r: r, gives_way=True))
    made = FigureTableModel(columns, lambda r: r)
    view = FigureView("Table", made)
    qtbot.addWidget(view)
    made.set_rows(["a description that is longer than columns are at first, and is read"])
    view.resize(640, 200)
    view.show()
    needed = view.fontMetrics().horizontalAdvance(made.index(0, 0).data())
    assert view.columnWidth(0) > needed > 340
    assert view.columnWidth(0) + view.columnWidth(1) <= view.viewport().width()


def test_that_a_column_stays_as_wide_as_the_user_made_it(paths):
    paths.horizontalHeader().resizeSection(0, 222)
    paths.resize(300, 200)
    assert paths.columnWidth(0) == 222


def test_that_a_table_without_rows_has_nothing_to_scroll_to(model, qtbot):
    view = FigureView("Figures", model)
    qtbot.addWidget(view)
    view.resize(60, 200)
    view.show()
    assert view.horizontalScrollBar().isVisible()
    model.set_rows([])
    assert not view.horizontalScrollBar().isVisible()
    model.set_rows(ROWS)
    assert view.horizontalScrollBar().isVisible()


def test_that_texts_are_whole_where_there_is_room(qtbot):
    name = "body.0.second.conv_weight_and_scale_of_a_long_name_" * 2
    columns = (
        Column("Name", lambda row: row[0]),
        Column("Size", lambda row: str(row[1]), lambda r: r[1]),
        Column("Note", lambda row: ""),
    )
    model = FigureTableModel(columns, lambda row: row[0])
    view = FigureView("Names", model)
    qtbot.addWidget(view)
    model.set_rows([(name, 1), ("x", 2)])
    needed = view.fontMetrics().horizontalAdvance(name)
    view.resize(needed + 300, 200)
    view.show()
    qtbot.waitExposed(view)
    qtbot.waitUntil(lambda: view.columnWidth(0) > needed)
    view.resize(400, 200)
    qtbot.waitUntil(lambda: view.columnWidth(0) < needed)
    qtbot.waitUntil(lambda: view.horizontalScrollBar().maximum() == 0)


def test_that_short_names_stay_whole_beside_a_long_text(qtbot):
    columns = (
        Column("Command", lambda r: r[0]),
        Column("Figure", lambda _: "1", lambda _: 1.0),
        Column("Description", lambda r: r[1]),
    )
    model = FigureTableModel(columns, str)
    view = FigureView("Commands", model, widest_px=700)
    qtbot.addWidget(view)
    view.resize(600, 200)
    view.show()
    model.set_rows([("NPU_SET_IFM_PRECISION_AND_MORE", "what it does, in many words " * 6)])
    whole = view.fontMetrics().horizontalAdvance("NPU_SET_IFM_PRECISION_AND_MORE")
    assert whole > 130
    assert view.columnWidth(0) > whole
    assert sum(view.columnWidth(c) for c in range(3)) <= view.viewport().width()


def test_that_no_column_of_figures_is_cut_at_the_edge(qtbot):
    figures = tuple(Column(f"Figure {n}", lambda _: "0.123", lambda _: 0.123) for n in range(12))
    columns = (Column("Name", lambda r: r), *figures)
    model = FigureTableModel(columns, str)
    view = FigureView("Figures", model)
    qtbot.addWidget(view)
    model.set_rows(["x"])
    view.show()
    for width in range(400, 480, 7):
        view.resize(width, 200)
        qtbot.waitUntil(lambda width=width: view.width() == width)
        ends = [view.columnViewportPosition(c) + view.columnWidth(c) for c in range(len(columns))]
        assert view.viewport().width() in ends


def test_that_room_before_a_cut_figure_goes_to_the_text_that_lacks_most(qtbot):
    columns = (
        Column("Mark", lambda r: "x"),
        Column("Rules", lambda r: "a long text of many rules " * 3),
        *(Column(f"Figure {k}", lambda r: "123,456", lambda r: 1.0) for k in range(8)),
    )
    made = FigureTableModel(columns, str)
    view = FigureView("Runs", made, widest_px=120)
    qtbot.addWidget(view)
    made.set_rows([1])
    view.resize(500, 100)
    view.show()
    assert view.columnWidth(0) < 80
    assert view.columnWidth(1) > 120


def test_that_a_table_without_rows_has_whole_titles(qtbot):
    columns = (Column("Program needs", str), Column("A title that is longer than a column of Qt", str))
    view = FigureView("Needs", FigureTableModel(columns, str), empty="Nothing yet.")
    qtbot.addWidget(view)
    view.resize(600, 100)
    view.show()
    header = view.horizontalHeader()
    assert all(view.columnWidth(c) >= header.sectionSizeHint(c) for c in range(2))
