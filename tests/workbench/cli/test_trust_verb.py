import json

import pytest

from workbench.cli import main
from workbench.project.project_code import Code
from workbench.project.trust import TrustStore


@pytest.fixture
def trusted(tmp_path):
    TrustStore().grant(Code(places={str(tmp_path / "nets"): "ab" * 32}), "net.qwb")
    return tmp_path / "nets"


def test_that_trusted_folders_are_listed_with_their_project(trusted, capsys):
    assert main(["trust", "list", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["trusted"]
    assert entry == {"place": str(trusted), "digest": "ab" * 32, "project": "net.qwb"}
    assert main(["trust", "list"]) == 0
    assert str(trusted) in capsys.readouterr().out


def test_that_a_permission_is_taken_back_by_its_folder(trusted, capsys, monkeypatch):
    monkeypatch.chdir(trusted.parent)
    assert main(["trust", "revoke", "nets"]) == 0
    assert TrustStore().granted() == {}


def test_that_an_unknown_place_is_one_sentence(trusted, capsys):
    assert main(["trust", "revoke", "nowhere"]) == 2
    assert "Nothing is trusted at nowhere." in capsys.readouterr().err


def test_that_a_permission_is_taken_back_by_its_digest(trusted, capsys):
    assert main(["trust", "revoke", ("ab" * 32)[:11]]) == 2
    assert main(["trust", "revoke", ("ab" * 32)[:12]]) == 0
    assert TrustStore().granted() == {}
