"""Arithmetic on arrays happens in a light process of its own."""

import json

import numpy as np
import pytest

from workbench.cli import main

pytestmark = pytest.mark.engine


@pytest.mark.slow
def test_that_a_process_computes_what_it_can_and_reports_the_rest(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    np.save(tmp_path / "x.npy", np.array([0.2, 0.3, -9.0], np.float32))
    job = {"in": str(tmp_path / "x.npy"), "params": {"width": 4, "frac_width": 1}}
    jobs = [
        {**job, "scheme": "integer", "out": str(tmp_path / "y.npy")},
        {**job, "scheme": "nothing", "out": str(tmp_path / "z.npy")},
    ]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    words = ["formats", "quantize", "--batch", str(tmp_path / "jobs.json"), "--json"]
    assert main(words) == 1
    assert np.load(tmp_path / "y.npy").tolist() == [0.0, 0.5, -4.0]
    said = capfd.readouterr()
    assert json.loads(said.out)["refused"] == 1
    # The process imports torch, which takes seconds, and not the toolchain, which takes as many.
    imported = {line.rpartition("|")[2].strip() for line in said.err.splitlines()}
    assert "torch" in imported
    assert imported.isdisjoint({"torchao", "executorch", "torch._dynamo"})
