"""The report stands alone, and says what is missing."""

import re

from tests.workbench.project.builders import make_project, rule
from workbench.pipeline.cache import Cache
from workbench.project import store
from workbench.report import page


def text_of(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.partition("<body>")[2]))


def made(tmp_path, **fields):
    (tmp_path / "model.py").write_text("def net(): ...\n")
    project = make_project(
        rule("r1", "global"), rule("r2", "module_name", "<head>", "a16w8"), **fields
    )
    path = tmp_path / "net.qwb"
    store.save(project, path)
    return page(project, path, Cache(tmp_path / "cache"))


def test_that_a_project_without_results_says_what_was_not_run(tmp_path):
    text = text_of(made(tmp_path))
    assert "Not run for the present configuration: Evaluate, Lower, Verify, Package." in text
    assert "global" in text
    assert "a16w8" in text
    assert "Cost" not in text


def test_that_names_cannot_become_markup(tmp_path):
    html = made(tmp_path, name="<script>alert(1)</script>")
    assert "<script" not in html
    assert "&lt;head&gt;" in html


def test_that_the_page_loads_nothing_from_outside(tmp_path):
    html = made(tmp_path)
    assert not re.search(r"(src|href)\s*=|@import|url\(", html)
