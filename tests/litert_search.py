"""Random TensorFlow Lite networks: compiled by Vela, executed here, compared with LiteRT.

``python -m tests.litert_search --seed 0 --count 50`` prints a line for each network whose outputs
differ from those of LiteRT's reference kernels, keeps it in a folder, and exits with 1 if there is
one. Left out are cells whose difference is explained: 16-bit sigmoid and tanh are the NPU's own,
whose values are not public; LiteRT rounds 16-bit fully connected layers and means over one axis
with other factors than Vela does.
"""

import argparse
import contextlib
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from ethosu.vela import vela

from tests import tflite_models as ops

DEVICES = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
_MOST = 4096


def chain(seed):
    """Return a model of three to nine operators that read each other."""
    random = np.random.default_rng(seed)
    w = ops.Writer(seed, "int8" if random.random() < 0.7 else "int16")
    channels = int(random.choice([3, 8, 16, 20]))
    values = [w.input(1, int(random.integers(4, 13)), int(random.integers(4, 13)), channels)]
    for _ in range(random.integers(3, 10)):
        x = values[int(random.integers(max(0, len(values) - 2), len(values)))]
        values.append(_next(w, random, x, values))
    return w.done(values[-1])


def _next(w, random, x, values):
    """Add an operator that fits its input."""
    same = [v for v in values[:-1] if v.shape == x.shape]
    choices = [
        lambda: ops.convolution(
            w,
            x,
            int(random.integers(1, 33)),
            int(random.choice([1, 3, 5])),
            int(random.choice([1, 1, 2])),
            activation=int(random.integers(2)),
        ),
        lambda: ops.convolution(w, x, 0, 3, int(random.choice([1, 2])), depthwise=True),
        lambda: ops.function(w, str(random.choice(["LEAKY_RELU", "RELU", "RELU6", "ABS"])), x),
        lambda: ops.pool(w, "MAX_POOL_2D", x, 2, 1, ops.SAME),
        lambda: ops.pool(w, "AVERAGE_POOL_2D", x, 3, 1, ops.SAME),
        lambda: ops.padded(w, x, [(0, 0), (1, 0), (0, 2), (0, 0)]),
        lambda: ops.turned(w, x, (0, 2, 1, 3)),
        lambda: ops.requantized(w, x),
        lambda: ops.sliced(w, x, (0, 1, 0, 0), (1, x.shape[1] - 1, *x.shape[2:])),
        lambda: ops.joined(w, [x, ops.function(w, "RELU", x)], int(random.choice([1, 2, 3]))),
        lambda: ops.binary(w, str(random.choice(["ADD", "SUB", "MUL"])), x, same[-1] if same else x),
    ]
    if w.dtype == "int8":
        names = ["LOGISTIC", "TANH", "HARD_SWISH", "SOFTMAX"]
        choices += [lambda: ops.function(w, str(random.choice(names)), x)]
        choices += [lambda: ops.resize(w, "RESIZE_NEAREST_NEIGHBOR", x, (2 * x.shape[1], 2 * x.shape[2]))]
    fits = x.shape[1] > 2 and x.shape[2] > 2 and np.prod(x.shape) < _MOST
    return choices[int(random.integers(len(choices)))]() if fits else ops.requantized(w, x)


# Batch, height, width and channels: batches, odd sides, pictures of 300 to 640 pixels, sound.
SIZES = (
    (1, 300, 300, 3),
    (1, 257, 131, 5),
    (1, 480, 640, 3),
    (3, 33, 47, 8),
    (2, 65, 64, 16),
    (1, 1, 16000, 1),
    (1, 16000, 1, 1),
    (5, 1, 401, 4),
    (1, 7, 1025, 17),
)


def sized(seed):
    """Return a model of one to three operators on inputs of uncommon sizes, with any stride.

    Left out is what Vela 5.1.0 compiles wrongly from TensorFlow Lite, for all devices: a convolution
    of one tap with a stride above 3 over a batch, ``CONV_2D`` of (2, 1, 41, 4) with strides 1 and 4.
    """
    random = np.random.default_rng([seed, 1])
    w = ops.Writer(seed, "int8" if random.random() < 0.7 else "int16")
    x = w.input(*SIZES[int(random.integers(len(SIZES)))])
    for _ in range(random.integers(1, 4)):
        kernel = [int(min(side, random.integers(1, 10))) for side in x.shape[1:3]]
        stride = [int(random.integers(1, min(7, side + 1))) for side in x.shape[1:3]]
        if x.shape[0] > 1 and kernel == [1, 1]:
            stride = [min(step, 3) for step in stride]
        choices = [
            lambda kernel=kernel, stride=stride, x=x: ops.convolution(
                w, x, int(random.integers(1, 20)), kernel, stride, activation=int(random.integers(2))
            ),
            lambda kernel=kernel, stride=stride, x=x: ops.convolution(
                w, x, 0, kernel, [max(stride)] * 2, depthwise=True
            ),
            lambda kernel=kernel, x=x: ops.pool(w, "MAX_POOL_2D", x, kernel, 2, ops.SAME),
            lambda kernel=kernel, x=x: ops.pool(w, "AVERAGE_POOL_2D", x, kernel, 2),
            lambda x=x: ops.binary(w, "ADD", x, ops.function(w, "RELU", x)),
            lambda x=x: ops.turned(w, x, (0, 2, 1, 3)),
        ]
        x = choices[int(random.integers(len(choices)))]()
    return w.done(x)


def mobile(seed=0, dtype="int8"):
    """Return a small MobileNetV2: inverted residuals with and without a shortcut, and a head."""
    w = ops.Writer(seed, dtype)
    x = ops.convolution(w, w.input(1, 32, 32, 3), 8, stride=2, activation=3)
    for channels, stride in ((8, 1), (12, 2), (12, 1), (16, 2)):
        y = ops.convolution(w, x, 4 * x.shape[3], 1, activation=3)
        y = ops.convolution(w, y, 0, 3, stride, depthwise=True, activation=3)
        y = ops.convolution(w, y, channels, 1)
        x = ops.binary(w, "ADD", x, y) if x.shape == y.shape else y
    return w.done(_head(w, x, 10))


def keywords(seed=0, dtype="int8"):
    """Return a DS-CNN for keywords, with one input channel."""
    w = ops.Writer(seed, dtype)
    x = ops.convolution(w, w.input(1, 49, 10, 1), 32, 5, 2, activation=1)
    for _ in range(3):
        x = ops.convolution(w, x, 0, depthwise=True, activation=1)
        x = ops.convolution(w, x, 32, 1, activation=1)
    return w.done(_head(w, x, 12))


def residual(seed=0, dtype="int8"):
    """Return a ResNet-8 for pictures of 32 by 32 pixels."""
    w = ops.Writer(seed, dtype)
    x = ops.convolution(w, w.input(1, 32, 32, 3), 8, activation=1)
    for channels, stride in ((8, 1), (16, 2), (32, 2)):
        y = ops.convolution(w, x, channels, 3, stride, activation=1)
        y = ops.convolution(w, y, channels)
        short = x if x.shape == y.shape else ops.convolution(w, x, channels, 1, stride)
        x = ops.binary(w, "ADD", y, short, activation=1)
    return w.done(_head(w, x, 10))


def autoencoder(seed=0, dtype="int8"):
    """Return an autoencoder of fully connected layers."""
    w = ops.Writer(seed, dtype)
    x = w.input(1, 128)
    for channels in (64, 64, 8, 64, 64):
        x = ops.fully_connected(w, x, channels, activation=1)
    return w.done(ops.fully_connected(w, x, 128))


def _head(w, x, classes):
    """Return the classes: fully connected and softmax; of 16 bits the features alone."""
    x = ops.pool(w, "AVERAGE_POOL_2D", x, x.shape[1:3], 1)
    if w.dtype != "int8":
        return x
    flat = ops.reshaped(w, x, (1, x.shape[3]))
    return ops.function(w, "SOFTMAX", ops.fully_connected(w, flat, classes))


NETWORKS = {"mobile": mobile, "keywords": keywords, "residual": residual, "autoencoder": autoencoder}


def compiled(model, device, folder, name):
    """Return the file that Vela makes of a model; None if it refuses it."""
    path = Path(folder) / f"{name}.tflite"
    path.write_bytes(model)
    into = Path(folder) / device
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(RuntimeError, SystemExit):
        vela.main([str(path), "--accelerator-config", device, "--output-dir", str(into)])
    made = into / f"{name}_vela.tflite"
    return (path, made) if made.exists() else None


def differences(pairs):
    """Return for each pair of files what ``workbench simulate`` says of the outputs."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = Path(folder) / "jobs.json"
        jobs.write_text(json.dumps([{"file": str(b), "reference": str(a)} for a, b in pairs]))
        command = [sys.executable, "-m", "workbench", "simulate", "--batch", jobs, "--json"]
        told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return json.loads(told)["results"]


def main():
    """Search, and return 1 if a network differs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--keep", type=Path, default=Path("nightly"))
    options = parser.parse_args()
    first = options.seed * 1_000_000
    models = {f"chain_{first + n}": chain(first + n) for n in range(options.count)}
    models |= {f"sized_{first + n}": sized(first + n) for n in range(options.count)}
    models |= {
        f"{name}_{d}": make(options.seed, d)
        for name, make in NETWORKS.items()
        for d in ("int8", "int16")
        if (name, d) != ("autoencoder", "int16")
    }
    found, equal, refused = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        made = [
            (name, device, compiled(model, device, folder, name))
            for name, model in models.items()
            for device in DEVICES
        ]
        pairs = [one for one in made if one[2] is not None]
        for (name, device, _), result in zip(pairs, differences([p[2] for p in pairs]), strict=True):
            if "error" in result:
                refused += 1
                print(f"{name} {device}: {result['error']}")
            elif any(o["equal"] < o["elements"] for o in result["reference"]["outputs"]):
                found.append(name)
                print(f"{name} {device}: {result['reference']['outputs']}")
            else:
                equal += 1
    for name in found:
        options.keep.mkdir(parents=True, exist_ok=True)
        (options.keep / f"{name}.tflite").write_bytes(models[name])
    print(
        f"{equal} equal, {len(found)} different, {refused} refused here, "
        f"{len(made) - len(pairs)} refused by Vela."
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
