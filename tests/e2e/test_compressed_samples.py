"""Compression on the trained samples: less time or smaller weights at the same accuracy."""

import pytest

from workbench.project import edits, store

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("digits", ("--clusters", "15")),
        ("digits", ("--channels", "body.2.first.conv=16", "--channels", "body.0.first.conv=8")),
        ("motions", ("--clusters", "15")),
        ("motions", ("--channels", "body.3=16", "--channels", "body.6=16")),
        ("vowels", ("--clusters", "15")),
    ],
)
def test_that_a_compressed_and_trained_sample_costs_less_and_is_as_accurate(workbench, name, options):
    path = workbench.folder / workbench("samples", name).out.strip()
    project = store.load(path)
    plain = edits.assign(edits.revise(project, rules=()), "global", "", "a8w8")
    store.save(plain, path)

    def figures():
        done = workbench("run", path, "--until", "verify", "--trust", "--json")
        assert done.code == 0, done.err
        assert done.document["gate"]["verdict"] == "right"
        (vela,) = done.document["lower"]["vela"]
        accuracy = done.document["evaluate"]["top1_quantized"]
        return accuracy, vela["cycles_total"], vela["encoded_weights_bytes"]

    accuracy, cycles, weights = figures()
    assert workbench("compress", path, *options).code == 0
    trained = workbench("train", path, "--epochs", "30", "--apply", "--trust")
    assert trained.code == 0, trained.err
    after = figures()
    print(name, options, (accuracy, cycles, weights), "->", after)
    assert after[0] >= accuracy - 0.01
    assert after[1] <= 0.75 * cycles or after[2] <= 0.7 * weights
