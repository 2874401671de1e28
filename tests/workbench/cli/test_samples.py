"""The samples are listed by name and copied, never opened where they are installed."""

import json
from pathlib import Path

from workbench.cli import main
from workbench.project import store
from workbench.samples import SAMPLES


def test_that_every_sample_is_listed_and_copied_by_its_name(tmp_path, capsys):
    assert main(["samples", "--json"]) == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)["samples"]]
    assert names == [sample.name for sample in SAMPLES]
    assert len(set(names)) == len(names)
    for name in names:
        assert main(["samples", name, "--to", str(tmp_path / name), "--json"]) == 0
        path = json.loads(capsys.readouterr().out)["project"]
        assert path.startswith(str(tmp_path))
        assert store.load(Path(path)).name == name


def test_that_an_unknown_sample_is_told_with_those_there_are(codes, capsys):
    assert main(["samples", "letters"]) == 2
    assert codes == ["sample-unknown"]
    assert "digits" in capsys.readouterr().err


def test_that_a_trained_sample_has_its_script_its_data_and_less_than_a_megabyte(tmp_path):
    from workbench.installation import resources

    for folder in ("digits", "time_series"):
        files = list((resources() / "samples" / folder).iterdir())
        assert any(path.name == "train.py" for path in files)
        assert all(path.stat().st_size < 1_000_000 for path in files)


def test_that_samples_are_listed_and_copied_without_json_as_well(tmp_path, capsys):
    assert main(["samples"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-len(SAMPLES) :]] == [s.name for s in SAMPLES]
    assert main(["samples", SAMPLES[0].name, "--to", str(tmp_path)]) == 0
    assert store.load(Path(capsys.readouterr().out.strip())).name == SAMPLES[0].name
