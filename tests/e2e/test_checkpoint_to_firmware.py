"""The tutorial's section on a checkpoint and a folder of pictures, followed to the letter."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.e2e.conftest import ROOT

TUTORIAL = ROOT / "resources" / "guide" / "tutorial.md"
COMPILER = shutil.which("arm-none-eabi-gcc")
KINDS = {"apples": (200, 40, 40), "bananas": (220, 200, 60), "plums": (90, 40, 120)}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

pytestmark = pytest.mark.slow


def picture(generator, colour):
    """Return a spot of a colour on noise, 64 x 48."""
    y, x = np.mgrid[:48, :64]
    top, left = generator.uniform(16, 32), generator.uniform(20, 44)
    spot = (y - top) ** 2 + (x - left) ** 2 < 14**2
    pixels = generator.integers(90, 170, (48, 64, 3))
    pixels[spot] = np.array(colour) + generator.integers(-25, 25, (int(spot.sum()), 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def read(file):
    """Return a picture as the training code of its network reads it."""
    import torch

    image = Image.open(file).resize((53, 40)).crop((10, 4, 42, 36))
    pixels = (np.asarray(image, np.float32) / 255 - MEAN) / STD
    return torch.from_numpy(pixels.astype(np.float32)).permute(2, 0, 1)


@pytest.fixture
def shop(tmp_path):
    """A folder with network, pictures, and the checkpoint of a short training."""
    import torch

    shutil.copy(Path(__file__).with_name("shop_network.py"), tmp_path / "net.py")
    generator = np.random.default_rng(0)
    for part, count in (("train", 30), ("test", 10)):
        for name, colour in KINDS.items():
            (tmp_path / part / name).mkdir(parents=True)
            for index in range(count):
                picture(generator, colour).save(tmp_path / part / name / f"{index:03}.png")
    spec = importlib.util.spec_from_file_location("shop_net", tmp_path / "net.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    model = module.build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    files = [file for name in KINDS for file in sorted((tmp_path / "train" / name).iterdir())]
    inputs = torch.stack([read(file) for file in files])
    labels = torch.arange(len(KINDS)).repeat_interleave(30)
    for _ in range(40):
        chosen = torch.randperm(len(inputs))[:32]
        loss = torch.nn.functional.cross_entropy(model(inputs[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    state = {f"model.{name}": value for name, value in model.state_dict().items()}
    checkpoint = {
        "epoch": 4,
        "global_step": 40,
        "pytorch-lightning_version": "2.4.0",
        "state_dict": state,
        "optimizer_states": [optimizer.state_dict()],
        "hyper_parameters": {"lr": 3e-3},
    }
    torch.save(checkpoint, tmp_path / "last.ckpt")
    return tmp_path


@pytest.mark.skipif(COMPILER is None, reason="needs arm-none-eabi-gcc")
def test_that_a_checkpoint_and_pictures_end_in_firmware_files_that_compile(shop, monkeypatch):
    monkeypatch.setenv("QUANTIZATION_WORKBENCH_CACHE", str(shop / "cache"))
    monkeypatch.setenv("QUANTIZATION_WORKBENCH_CONFIG", str(shop / "config"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    text = TUTORIAL.read_text()
    section = text[text.index("## 9.") : text.index("## 10.")]
    (code,) = re.findall(r"```c\n(.*?)```", section, re.DOTALL)
    (shop / "camera.c").write_text(code)
    shell = "".join(re.findall(r"```\n(\$ .*?)```", section, re.DOTALL)).replace("\\\n", "")
    commands = [line[2:] for line in shell.splitlines() if line.startswith("$ ")]
    said = {}
    for command in commands:
        words = command.replace("workbench", f"{sys.executable} -m workbench", 1)
        done = subprocess.run(
            words.split(), cwd=shop, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, (command, done.stderr)
        said[command.split()[0] + command.split()[1]] = done.stdout
    assert "Verdict      Compiled program correct" in said["workbenchrun"]
    assert float(re.search(r"([\d.]+)% quantized", said["workbenchrun"])[1]) > 90
    program = (shop / "dist" / "shop.pte").read_bytes()
    assert program in (shop / "shop.o").read_bytes()
    assert (shop / "camera.o").stat().st_size > 0
