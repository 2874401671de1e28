"""The Python API, used as a script of the guide uses it."""

import runpy
import shutil
import sys

import pytest

import workbench.api as wb
from tests.e2e.conftest import ROOT, SAMPLES
from workbench.protocol import StageFinished

EXAMPLES = ROOT / "resources" / "guide" / "examples"


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A copy of the digits sample in a folder of its own."""
    folder = tmp_path_factory.mktemp("digits") / "digits"
    shutil.copytree(SAMPLES / "digits", folder)
    return folder / "digits.qwb"


@pytest.fixture(autouse=True)
def cache(own_folders, monkeypatch, tmp_path_factory):
    """One cache for all tests of this file."""
    root = tmp_path_factory.getbasetemp() / "api-cache"
    monkeypatch.setenv("QUANTIZATION_WORKBENCH_CACHE", str(root))


def run_example(name, monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    # Forked engines run the file again if it is the main module.
    runpy.run_path(str(EXAMPLES / name))
    return capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("warm_engines")
def test_that_the_example_that_compiles_prints_cost_and_writes_the_program(
    lane, monkeypatch, capsys, tmp_path
):
    printed = run_example("quantize_and_compile.py", monkeypatch, capsys, lane.path, tmp_path / "d")
    assert "(estimated by Vela)" in printed
    assert (tmp_path / "d" / "small.pte").stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.usefixtures("warm_engines")
def test_that_the_example_that_compares_names_the_rule_and_the_cycles(digits, monkeypatch, capsys):
    printed = run_example("compare_configs.py", monkeypatch, capsys, digits)
    assert "rules    torch.nn.modules.conv.Conv2d: - -> a16w8" in printed
    assert "figures  cycles: " in printed


@pytest.mark.slow
@pytest.mark.usefixtures("warm_engines")
def test_that_the_example_of_sensitivity_lists_every_module(digits, monkeypatch, capsys):
    printed = run_example("find_sensitive_modules.py", monkeypatch, capsys, digits)
    assert len(printed.splitlines()) >= 3


@pytest.mark.slow
@pytest.mark.usefixtures("warm_engines")
def test_that_a_run_reports_its_stages_and_shows_as_a_table(digits):
    events = []
    net = wb.open(digits)
    result = wb.run(net, until="export", trust=True, on_event=events.append)
    assert [stage.id for stage in result.stages] == ["import_model", "export"]
    assert result.succeeded
    assert result.evaluated is None
    assert "<td>export</td>" in result._repr_html_()
    again = wb.run(net, until="export")
    assert [stage.state for stage in again.stages] == ["cached", "cached"]
    assert all(e.stage in {"import_model", "export"} for e in events if isinstance(e, StageFinished))


def test_that_a_run_without_trust_asks_for_it(digits, monkeypatch, tmp_path):
    monkeypatch.setenv("QUANTIZATION_WORKBENCH_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("QUANTIZATION_WORKBENCH_CONFIG", str(tmp_path / "config"))
    with pytest.raises(wb.TrustRequiredError):
        wb.run(wb.open(digits), until="export")


@pytest.mark.slow
@pytest.mark.usefixtures("warm_engines")
def test_that_runs_without_quality_are_not_compared(digits, monkeypatch, tmp_path):
    monkeypatch.setenv("QUANTIZATION_WORKBENCH_CACHE", str(tmp_path / "empty"))
    result = wb.run(wb.open(digits), until="export", trust=True)
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.compare(result, result)
    assert caught.value.codes == ("run-without-quality",)


def test_that_edits_leave_the_value_they_started_from(digits, tmp_path):
    before = wb.open(digits)
    after = wb.set_global(before, "a16w8")
    assert before.project != after.project
    saved = wb.save(after, tmp_path / "other.qwb")
    assert wb.open(tmp_path / "other.qwb").project == saved.project


def test_that_a_new_project_is_checked_at_once(tmp_path):
    with pytest.raises(wb.WorkbenchError):
        wb.new("gone.pt2", "ethos-u55-128", folder=tmp_path)
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.save(wb.OpenProject(wb.open(_sample()).project, tmp_path))
    assert caught.value.codes == ("project-without-path",)


def _sample():
    return SAMPLES / "digits" / "digits.qwb"
