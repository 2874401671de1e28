"""Whether accelerations of the toolchain are in use, and why not."""

import sys
from importlib import metadata

import pytest

from workbench import disk_cache, toolchain_versions
from workbench.toolchain_versions import PROVEN, remember_verdict, status

READ_VERSIONS = toolchain_versions.versions


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    """The proven versions, and a cache folder of the test's own."""
    monkeypatch.setattr(disk_cache, "folder", lambda: tmp_path / "remembered")

    def use(versions):
        monkeypatch.setattr(toolchain_versions, "versions", lambda: versions)

    use(dict(PROVEN[0]))
    return use


OTHER = {**PROVEN[0], "torch": "9.9"}


def test_that_proven_versions_are_accelerated():
    assert status().model_dump() == {"active": True, "reason": ""}


def test_that_the_user_can_turn_it_off():
    off = status(is_enabled=False)
    assert not off.active
    assert "--no-acceleration" in off.reason


def test_that_other_versions_need_a_proof(installed):
    installed(OTHER)
    unproven = status()
    assert not unproven.active
    assert "torch 9.9" in unproven.reason
    assert toolchain_versions.PROVE in unproven.reason
    remember_verdict(same=True)
    assert status().active
    remember_verdict(same=False)
    refuted = status()
    assert not refuted.active
    assert "torch 9.9" in refuted.reason
    assert toolchain_versions.PROVE not in refuted.reason


def test_that_a_verdict_goes_before_the_list_and_is_for_its_versions_only(installed):
    remember_verdict(same=False)
    assert not status().active
    installed(OTHER)
    remember_verdict(same=True)
    assert status().active
    installed(dict(PROVEN[0]))
    assert not status().active


def test_that_versions_are_those_installed_without_their_local_part(monkeypatch):
    def version(package):
        if package == "torch":
            raise metadata.PackageNotFoundError(package)
        return "1.2+cpu"

    monkeypatch.setattr(metadata, "version", version)
    found = READ_VERSIONS.__wrapped__()
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert found == {"python": python, "torch": "none", "torchao": "1.2", "executorch": "1.2"}
    assert toolchain_versions.listed(found).startswith(f"python {python}, torch none, ")


def test_that_what_is_remembered_comes_back_unless_it_is_damaged(tmp_path):
    assert disk_cache.recall("a") is None
    assert disk_cache.remember("a", b"payload")
    assert disk_cache.recall("a") == b"payload"
    assert disk_cache.remember("a", b"other")
    assert disk_cache.recall("a") == b"other"
    file = tmp_path / "remembered" / "a"
    assert [f.name for f in file.parent.iterdir()] == ["a"]
    file.write_bytes(file.read_bytes()[:-1] + b"X")
    assert disk_cache.recall("a") is None
    file.write_bytes(b"short")
    assert disk_cache.recall("a") is None


def test_that_a_folder_that_cannot_be_written_is_no_harm(tmp_path):
    (tmp_path / "remembered").write_text("a file")
    assert not disk_cache.remember("a", b"payload")
    (tmp_path / "remembered").unlink()
    (tmp_path / "remembered" / "a").mkdir(parents=True)
    assert not disk_cache.remember("a", b"payload")
    assert [f.name for f in (tmp_path / "remembered").iterdir()] == ["a"]
