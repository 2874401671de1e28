"""Trained samples keep their accuracy on held-out data, and their programs are right."""

import pytest

pytestmark = pytest.mark.engine


@pytest.mark.slow
def test_that_the_trained_detector_keeps_its_precision(workbench):
    path = workbench("samples", "detector").out.strip()
    done = workbench("run", path, "--until", "package", "--trust", "--json")
    assert done.code == 0, done.err
    found = done.document["evaluate"]
    assert found["metric_float"] >= 0.8
    assert found["metric_quantized"] >= found["metric_float"] - 0.01
    assert len(found["task"]["per_class"]) == 10
    assert done.document["package"]["pte"]["bytes"] <= 150_000


@pytest.mark.parametrize(
    ("name", "held_out", "least"),
    [("motions", 40, 0.95), pytest.param("vowels", 370, 0.92, marks=pytest.mark.slow)],
)
def test_that_a_trained_sample_keeps_its_accuracy(workbench, name, held_out, least):
    path = workbench("samples", name).out.strip()
    done = workbench("run", path, "--until", "verify", "--trust", "--json")
    assert done.code == 0, done.err
    found = done.document["evaluate"]
    assert found["samples"] == held_out
    assert found["top1_float"] >= least
    assert found["top1_quantized"] >= found["top1_float"] - 0.02
    assert done.document["gate"]["verdict"] == "right"
    assert done.document["lower"]["delegates"] == 1
