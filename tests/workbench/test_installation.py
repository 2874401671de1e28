"""The version of the program, installed or not."""

from importlib import metadata

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


def test_that_stages_and_studies_are_known_by_their_ids():
    assert is_stage("lower")
    assert not is_stage("search")
    assert is_study("search")
    assert not is_study("lower")
