"""The version of the program, installed or not."""

import sys
from importlib import metadata
from types import SimpleNamespace

from workbench import installation
from workbench.ids import is_stage, is_study


def test_that_a_checkout_that_is_not_installed_has_an_unknown_version(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    installation.version.cache_clear()
    try:
        assert installation.version() == "0+unknown"
        monkeypatch.setattr(metadata, "version", lambda name: f"1 of {name}")
        assert installation.version() == "0+unknown"
        installation.version.cache_clear()
        assert installation.version() == "1 of quantization-workbench"
    finally:
        installation.version.cache_clear()


def test_that_the_window_is_started_from_the_folder_of_the_program(monkeypatch):
    monkeypatch.setitem(sys.modules, "ui.__main__", SimpleNamespace(main=lambda: 7))
    folder = str(installation.root())
    monkeypatch.setattr(sys, "path", ["/first"])
    for _ in range(2):
        assert installation.open_window() == 7
        assert sys.path == ["/first", folder]


def test_that_stages_and_studies_are_known_by_their_ids():
    assert is_stage("lower")
    assert not is_stage("search")
    assert is_study("search")
    assert not is_study("lower")
