"""Continuous integration: the documents of a run, and the workflow of the guide as it stands."""

import json
import os
import shutil
import subprocess
import sys

import jsonschema
import pytest
import yaml

from tests.e2e.conftest import ROOT
from workbench.guide import GUIDE, REFERENCE

pytestmark = pytest.mark.engine


def test_that_the_document_of_a_run_is_what_the_schema_says(digits):
    document = digits[2].document
    schema = json.loads((REFERENCE / "run.schema.json").read_text())
    jsonschema.validate(document, schema)
    assert document["version"] == 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "unknown": 1}, schema)


def test_that_project_document_manifest_and_history_tell_the_same_figures(digits):
    workbench, path, outcome = digits
    (workbench.folder / "result.json").write_text(json.dumps(outcome.document))
    for run in (path, workbench.folder / "result.json", workbench.folder / "dist", f"{path}@1"):
        done = workbench("compare", run, path, "--fail-if", "lsb>1", "--json")
        assert done.code == 0, done.err
        changes = [f for f in done.document["figures"] if f["change"] not in {0, None}]
        assert changes == []


def workflow():
    page = (GUIDE / "howto" / "run-in-continuous-integration.md").read_text()
    return yaml.safe_load(page.split("```yaml\n")[1].split("```")[0])


@pytest.mark.slow
def test_that_the_workflow_of_the_guide_runs_and_notices_a_worse_model(digits, tmp_path):
    workbench, path, outcome = digits
    folder = tmp_path / "repository"
    shutil.copytree(path.parent, folder, ignore=shutil.ignore_patterns("*.sqlite*"))
    job = workflow()["jobs"]["quantize"]
    # The cache that the workflow restores: no stage is computed again.
    shutil.copytree(workbench.folder / "cache", folder / ".workbench-cache")
    program = tmp_path / "bin" / "workbench"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m workbench "$@"\n')
    program.chmod(0o755)
    environment = {
        **workbench.environment, **job["env"], "PYTHONPATH": str(ROOT),
        "PATH": f"{program.parent}:{os.environ['PATH']}",
    }  # fmt: skip
    steps = {step["name"]: step["run"] for step in job["steps"] if "run" in step}
    # The package is installed here already.
    assert list(steps) == ["Install", "Check", "Run", "Compare"]

    def code(name, cycles):
        baseline = json.loads(json.dumps(outcome.document))
        baseline["outcome"]["figures"]["cycles"] = cycles
        (folder / "baseline.json").write_text(json.dumps(baseline))
        done = subprocess.run(
            ["bash", "-e", "-c", steps[name]], cwd=folder, env=environment, check=False,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        return done.returncode

    known = outcome.document["outcome"]["figures"]["cycles"]
    assert [code(name, known) for name in ("Check", "Run", "Compare")] == [0, 0, 0]
    assert code("Compare", known * 0.9) == 4
    assert "cycles" in (folder / "compare.xml").read_text()
    assert "**broken**" in (folder / "compare.md").read_text()
    assert (folder / "dist" / "digits.pte").is_file()
