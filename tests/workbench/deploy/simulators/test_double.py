"""The double is as strict as what it stands for, and out of the product's reach."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.for_each import for_each
from workbench.deploy.simulators.discovery import device_of
from workbench.deploy.simulators.process import Run, command

ROOT = Path(__file__).parents[4]


@for_each(
    ("good", "bad", "said"),
    [
        ("ethosu.num_macs=128", "ethosu.num_macs=100", "does not take '100'"),
        ("ethosu.num_macs=128", "mps4_board.subsystem.ethosu.num_macs=128", "unknown parameter"),
        ("cpu0.semihosting-enable=1", "semihosting-enable=1", "unknown parameter"),
        ("mps3_board.uart0.shutdown_on_eot=1", "mps3_board.uart0.shutdown_on_eot", "unknown"),
        ("ethosu.extra_args='--fast'", "ethosu.extra_args='--quick'", "does not take"),
        ("-a", "--app", "unrecognized option"),
    ],
)
def test_that_an_unknown_or_malformed_parameter_is_refused(bench, good, bad, said):
    run = Run(device_of("ethos-u55-128"), "semihosting", 1, fast=True)
    words = command(bench.simulator(), bench.folder, run)
    words[words.index(good)] = bad
    done = subprocess.run(words, capture_output=True, text=True, cwd=bench.folder, check=False)
    assert done.returncode == 1
    assert said in done.stderr


def test_that_the_product_knows_nothing_of_the_double():
    product = [*(ROOT / "workbench").rglob("*.py"), *(ROOT / "ui").rglob("*.py")]
    words = ("FVP_DOUBLE", "tests.fakes", "tests/fakes")
    assert [p for p in product if any(word in p.read_text() for word in words)] == []
