"""Bookmarks and kept searches are part of the project and decide no result."""

from tests.fakes.projects import make_project
from tests.problems import refused
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project import graph_notes, store
from workbench.project.model import QUERIES_AT_MOST, Bookmark
from workbench.project.opened import OpenProject

PLACE = Bookmark(name="stem", level="export", expanded=("stem/",), scale=0.8, anchor="conv2d")


def test_that_notes_are_saved_and_read_again(tmp_path):
    project = graph_notes.keep_bookmark(make_project(), PLACE)
    project = graph_notes.keep_query(project, " op:conv2d ")
    store.save(project, tmp_path / "net.qwb")
    read = store.load(tmp_path / "net.qwb")
    assert read.graph.bookmarks == (PLACE,)
    assert [query.text for query in read.graph.queries] == ["op:conv2d"]


def test_that_a_bookmark_of_the_same_name_is_replaced_and_can_be_forgotten():
    project = graph_notes.keep_bookmark(make_project(), PLACE)
    project = graph_notes.keep_bookmark(project, PLACE.model_copy(update={"scale": 2.0}))
    assert [b.scale for b in project.graph.bookmarks] == [2.0]
    assert graph_notes.forget_bookmark(project, "stem") == make_project()


def test_that_a_search_is_kept_once_hidden_and_forgotten():
    project = graph_notes.keep_query(graph_notes.keep_query(make_project(), "conv"), "conv")
    assert len(project.graph.queries) == 1
    hidden = graph_notes.show_query(project, "conv", shown=False)
    assert not hidden.graph.queries[0].shown
    assert graph_notes.forget_query(hidden, "conv") == make_project()


def test_that_no_more_searches_are_kept_than_there_are_colours():
    project = make_project()
    for number in range(QUERIES_AT_MOST):
        project = graph_notes.keep_query(project, f"q{number}")
    with refused("saved-searches-full"):
        graph_notes.keep_query(project, "one more")


def test_that_notes_make_no_result_stale(tmp_path):
    cache, project = Cache(tmp_path / "cache"), make_project()
    noted = graph_notes.keep_query(graph_notes.keep_bookmark(project, PLACE), "conv")
    keys = [[s.key for s in plan(OpenProject(p, tmp_path), cache).stages] for p in (project, noted)]
    assert keys[0] == keys[1]
