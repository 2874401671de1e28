"""Camera bytes through the delivered header and the compiled program give what the model gives."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from workbench.npu.program import load
from workbench.pte.program import decode

pytestmark = pytest.mark.engine
COMPILER = shutil.which("cc")
MAIN = """
#include <stdio.h>
#include "small_input.h"
static uint8_t pixels[8 * 8 * 3];
static {kind} input[8 * 8 * 3];
int main(void) {{
  while (fread(pixels, 1, sizeof pixels, stdin) == sizeof pixels) {{
    small_fill_input(pixels, input);
    fwrite(input, 1, sizeof input, stdout);
  }}
  return 0;
}}
"""
IMAGENET = "mean=0.485/0.456/0.406,std=0.229/0.224/0.225"


def delivered(workbench, preprocess, rules):
    """Return the folder of deliverables for a network and pictures of noise, with the pictures."""
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
    (workbench.folder / "pics").mkdir()
    for index, picture in enumerate(pixels):
        Image.fromarray(picture).save(workbench.folder / "pics" / f"{index}.png")
    options = ("--calibration", "pics", "--preprocess", preprocess)
    path = workbench.project("small", *options, "--option", "integer_io=on")
    for rule in rules:
        assert workbench("rules", path, "add", "--kind", "io", "--config", rule).code == 0
    done = workbench("run", path, "--trust", "--out", "dist", "--json")
    assert done.code == 0, done.err
    return workbench.folder / "dist", pixels


@pytest.mark.parametrize(
    ("preprocess", "rules", "offset"),
    [
        (f"size=8,{IMAGENET},layout=bgr", (), None),
        ("size=8,mean=0.5,std=0.5", (), None),
        ("size=8,fold=on", (), 128),
        ("size=8,scale=1,mean=127,std=64,fold=on", (), 128),
        ("size=8,fold=on", ("uint8",), 0),
    ],
)
@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
def test_that_camera_bytes_give_the_outputs_of_the_quantized_model(workbench, preprocess, rules, offset):
    folder, pixels = delivered(workbench, preprocess, rules)
    kind = "uint8_t" if rules else "int8_t"
    (folder / "main.c").write_text(MAIN.format(kind=kind))
    subprocess.run([COMPILER, "-std=c99", "-Wall", "-Werror", "main.c", "-o", "fill"], cwd=folder, check=True)
    filled = subprocess.run([folder / "fill"], input=pixels.tobytes(), capture_output=True, check=True).stdout
    dtype = np.uint8 if rules else np.int8
    inputs = np.frombuffer(filled, dtype).reshape(6, 1, 3, 8, 8)
    bundle = decode((folder / "small.bpte").read_bytes())
    program = load(folder / "small.pte")
    manifest = json.loads((folder / "manifest.json").read_text())
    for case, given in zip(bundle.cases, inputs, strict=False):
        assert given.tobytes() == bytes(case.inputs[0].data)
        (output,) = program.run([given]).outputs
        expected = np.frombuffer(case.expected[0].data, np.uint8 if rules else np.int8)
        assert np.abs(output.astype(int).ravel() - expected.astype(int)).max() <= 1
    if offset is not None:
        camera = pixels.transpose(0, 3, 1, 2)[:, None].astype(int)
        assert np.array_equal(inputs, camera - offset)
        assert manifest["inputs"][0]["zero_point"] in range(-128, 256)
    note = (folder / "small.md").read_text()
    assert ("table of its channel" in note) == (offset is None)
