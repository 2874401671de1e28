"""A project made by ``workbench new``, and the codes of the problems that are printed."""

import pytest

from workbench import cli


@pytest.fixture
def codes(monkeypatch):
    """Collect the code of every problem that ends a verb."""
    seen, printed = [], cli.print_infos

    def record(infos, *label):
        seen.extend(info.code for info in infos)
        printed(infos, *label)

    monkeypatch.setattr(cli, "print_infos", record)
    return seen


@pytest.fixture
def project(tmp_path, monkeypatch, capsys):
    """A project for a model of one line, beside a cache and settings of its own."""
    monkeypatch.setenv("QUANTIZATION_WORKBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("QUANTIZATION_WORKBENCH_CONFIG", str(tmp_path / "config"))
    (tmp_path / "model.py").write_text("def net(): ...\n")
    path = tmp_path / "net.qwb"
    assert cli.main(["new", str(path), "--model", "model.py:net", "--target", "ethos-u55-128"]) == 0
    capsys.readouterr()
    return path
