"""The report of a real project has the figures that the run printed."""

import re

import pytest

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def html(digits):
    workbench, path, _ = digits
    place = workbench.folder / "report.html"
    done = workbench("report", path, "--out", place)
    assert done.code == 0, done.err
    return place.read_text()


def test_that_the_report_tells_what_the_run_printed(digits, html):
    document = digits[2].document
    (vela,) = document["lower"]["vela"]
    assert f"{vela['cycles_total']:,}" in html
    assert f"{100 * document['evaluate']['top1_quantized']:.2f} %" in html
    assert document["package"]["pte"]["sha256"] in html
    assert "Not run" not in html


def test_that_the_report_has_its_pictures_inside(html):
    assert len(re.findall(r"<svg ", html)) >= 4
    assert not re.search(r"(src|href)\s*=|@import|url\(", html)
    assert "body.2.first.conv" in html


def test_that_a_folder_without_permission_is_a_sentence(digits, tmp_path):
    workbench, path, _ = digits
    done = workbench("report", path, "--out", tmp_path / "missing" / "report.html")
    assert done.code == 2
    assert "cannot be written" in done.err
