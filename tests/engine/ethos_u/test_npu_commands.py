"""Our listing of the NPU's commands is Vela's own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from workbench.pte import npu_commands

pytestmark = pytest.mark.engine

TOSA = Path(__file__).parents[2] / "data" / "tosa"
LINE = re.compile(r"^0x([0-9a-f]+): .* - (NPU_[A-Z0-9_]+) +(\d+)", re.MULTILINE)
U55 = ("ethos-u55-64", "Ethos_U55_High_End_Embedded", "Shared_Sram")
U85 = ("ethos-u85-512", "Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_256KB")


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("gather_u55.tosa", U55),
        pytest.param("gather_u85.tosa", U85, marks=pytest.mark.slow),
        ("resize_u85.tosa", U85),
    ],
)
def test_that_commands_are_named_as_vela_names_them(name, target, tmp_path):
    accelerator, system, mode = target
    command = [
        sys.executable,
        "-m",
        "ethosu.vela",
        TOSA / name,
        "--accelerator-config",
        accelerator,
        "--system-config",
        system,
        "--memory-mode",
        mode,
        "--config",
        "Arm/vela.ini",
        "--output-format",
        "raw",
        "--output-dir",
        tmp_path,
        "--verbose-register-command-stream",
    ]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    listed = [(int(o, 16), n, int(p)) for o, n, p in LINE.findall(told.stdout)]
    (packed,) = tmp_path.glob("*.npz")
    with np.load(packed) as arrays:
        stream = npu_commands.decode(arrays["cmd_data"].tobytes())
    ours = [(c.offset, c.name, c.parameter) for c in stream.commands]
    assert f"{stream.family}-{stream.macs}" == accelerator
    assert ours == listed
    assert len(ours) > 50
