"""The cache of parsed results: once a file, anew when it changed, never more than the limit."""

import threading

import pytest

from tests.fakes.results import write_result
from ui.state.results import ResultCache
from workbench.errors import WorkbenchError
from workbench.graph.snapshot import GraphSnapshot
from workbench.results import EvaluateResult, PrepareResult


@pytest.fixture
def folder(tmp_path):
    for stage in ("prepare", "evaluate", "export"):
        (tmp_path / stage).mkdir()
        write_result(stage, tmp_path / stage)
    return tmp_path


def test_that_a_result_is_parsed_once(folder):
    parsed = ResultCache()
    first = parsed.load(PrepareResult, folder / "prepare")
    assert parsed.load(PrepareResult, folder / "prepare") is first
    graph = parsed.graph(folder / "export" / "graph.json")
    assert isinstance(graph, GraphSnapshot)
    assert parsed.graph(folder / "export" / "graph.json") is graph


def test_that_a_file_that_was_written_again_is_read_again(folder):
    parsed, file = ResultCache(), folder / "prepare" / "result.json"
    before, text = parsed.load(PrepareResult, file.parent), file.read_text()
    file.write_text("{")
    for _ in range(2):
        with pytest.raises(WorkbenchError):
            parsed.load(PrepareResult, file.parent)
    file.write_text(text)
    assert parsed.load(PrepareResult, file.parent) == before


def test_that_what_was_used_longest_ago_goes_first(folder):
    sizes = {s: (folder / s / "result.json").stat().st_size for s in ("prepare", "evaluate")}
    parsed = ResultCache(limit_bytes=max(sizes.values()))
    first = parsed.load(PrepareResult, folder / "prepare")
    second = parsed.load(EvaluateResult, folder / "evaluate")
    assert parsed.load(EvaluateResult, folder / "evaluate") is second
    assert parsed.load(PrepareResult, folder / "prepare") is not first


def test_that_a_result_larger_than_the_limit_is_kept_until_the_next(folder):
    parsed = ResultCache(limit_bytes=1)
    first = parsed.load(PrepareResult, folder / "prepare")
    assert parsed.load(PrepareResult, folder / "prepare") is first


def test_that_threads_may_share_it(folder):
    parsed, found = ResultCache(), []

    def read():
        for _ in range(20):
            found.append(parsed.load(PrepareResult, folder / "prepare"))
            parsed.load(EvaluateResult, folder / "evaluate")

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(each == found[0] for each in found)
    assert len(found) == 80
