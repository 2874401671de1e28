"""Small or endless inputs that want much memory or time, of every kind that the program reads.

``python -m tests.bombs`` reads each in a process of its own and prints its peak of memory and time.
Bounds: 500 MB and 20 s; every input is read, or refused in a sentence.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import os
import pickle
import resource
import struct
import sys
import tempfile
import threading
import time
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tests import bomb_readers
from workbench.errors import WorkbenchError

MAX_S, MAX_BYTES = 20.0, 500 << 20
# What a file may not grow beyond here [bytes]: more is the valid input of a large model.
SPARSE = 1900 << 20
Make = Callable[[Path], object]
Read = Callable[[Path], object]


@dataclass(frozen=True)
class Outcome:
    """How one input was read: "read", a problem's code, or an exception's name with "!"."""

    ended: str
    seconds: float
    grown: int

    @property
    def is_within(self) -> bool:
        return not self.ended.startswith("!") and self.seconds < MAX_S and self.grown < MAX_BYTES


def text(value: str | bytes | Callable[[], str | bytes]) -> Make:
    """Return what writes a text; a large one is given by a function, and made where it is wanted."""

    def make(path: Path) -> None:
        content = value() if callable(value) else value
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


def sparse(head: bytes, size: int = SPARSE) -> Make:
    def make(path: Path) -> None:
        with path.open("wb") as file:
            file.write(head)
            file.truncate(size)

    return make


def npz(zeros: int, names: int = 1, name: str = "x") -> Make:
    """Return an archive of compressed zeros, written without holding them."""

    def make(path: Path) -> None:
        header = io.BytesIO()
        shape = (4, zeros // 4)
        np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": shape})
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(names):
                with archive.open(f"{name}{number or ''}.npy", "w", force_zip64=True) as record:
                    record.write(header.getvalue())
                    for _ in range(zeros >> 20):
                        record.write(bytes(1 << 20))

    return make


def npy(shape: tuple[int, ...], descr: str = "<f4", data: bytes = b"") -> Make:
    def make(path: Path) -> None:
        with path.open("wb") as file:
            np.lib.format.write_array_header_2_0(
                file, {"descr": descr, "fortran_order": False, "shape": shape}
            )
            file.write(data)

    return make


def zipped(records: int, size: int) -> Make:
    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(records):
                with archive.open(f"a/data/{number}", "w", force_zip64=True) as record:
                    for _ in range(max(1, size >> 20)):
                        record.write(bytes(min(size, 1 << 20)))
            archive.writestr("a/data.pkl", pickle.dumps({"x": 1}, 2))
            archive.writestr("a/version", "3\n")
            archive.writestr("a/byteorder", "little")

    return make


def deflated_checkpoint(path: Path) -> None:
    """Write a checkpoint of torch whose storage is 1 GB of compressed zeros."""
    import torch

    buffer = io.BytesIO()
    torch.save({"weight": torch.zeros(4)}, buffer)
    old = zipfile.ZipFile(buffer)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("data.pkl"):
                data = data.replace(b"K\x04", b"J" + struct.pack("<i", 1 << 28))
            if "/data/" in name:
                with new.open(name, "w", force_zip64=True) as record:
                    for _ in range(1 << 10):
                        record.write(bytes(1 << 20))
            else:
                new.writestr(name, data)


def expanded_checkpoint(path: Path) -> None:
    """Write a checkpoint whose one tensor is one number, repeated 2**36 times."""
    import torch

    torch.save({"x": torch.zeros(1).expand(1 << 16, 1 << 20)}, path)


def png(width: int, height: int) -> Make:
    def make(path: Path) -> None:
        import zlib

        def chunk(kind: bytes, data: bytes) -> bytes:
            crc = zlib.crc32(kind + data)
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

        packer = zlib.compressobj(9)
        packed = b"".join(packer.compress(bytes(1 + width)) for _ in range(height)) + packer.flush()
        header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
        path.write_bytes(
            b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
        )

    return make


def tiff(width: int, height: int) -> Make:
    def make(path: Path) -> None:
        entries = [
            (256, 4, 1, width),
            (257, 4, 1, height),
            (258, 3, 1, 8),
            (259, 3, 1, 1),
            (262, 3, 1, 1),
            (273, 4, 1, 8),
            (277, 3, 1, 1),
            (278, 4, 1, height),
            (279, 4, 1, 0xFFFFFFF0),
        ]
        rows = b"".join(struct.pack("<HHII", *entry) for entry in entries)
        path.write_bytes(b"II*\0" + struct.pack("<IH", 8, len(entries)) + rows + bytes(4))

    return make


def in_folder(make: Make, name: str) -> Make:
    def made(path: Path) -> None:
        path.mkdir()
        make(path / name)

    return made


def link(target: str) -> Make:
    return lambda path: path.symlink_to(target)


def fifo(path: Path) -> None:
    os.mkfifo(path)


DEEP_BYTES = 8 << 20
PTE = struct.pack("<I", 8) + b"ET12"
GENERIC: dict[str, Make] = {
    "empty": text(b""),
    "zeros": text(lambda: bytes(4 << 20)),
    "noise": text(lambda: os.urandom(1 << 20)),
    "endless": link("/dev/zero"),
    "pipe": fifo,
    "folder": Path.mkdir,
}
JSON: dict[str, Make] = {
    "deep": text(lambda: "[" * DEEP_BYTES),
    "wide": text(lambda: "[" + "[]," * (5 << 20) + "[]]"),
    "maps": text(lambda: "[" + "{}," * (5 << 20) + "{}]"),
    "numbers": text(lambda: "[" + "1e9," * (3 << 20) + "1]"),
    "long integer": text(lambda: '{"version": ' + "9" * (4 << 20) + "}"),
    "sparse": sparse(b"{"),
    "long text": text(lambda: '{"name": "' + "x" * (15 << 20) + '"}'),
}
TOML: dict[str, Make] = {
    "deep": text(lambda: "a = " + "[" * 100_000),
    "dots": text(lambda: "a." * 200_000 + "b = 1"),
    "wide": text(lambda: "a = [" + "[]," * 200_000 + "]"),
    "sparse": sparse(b"a = 1\n"),
    "tables": text(lambda: "".join(f"[a{n}]\nb = 1\n" for n in range(50_000))),
}
PYTHON: dict[str, Make] = {
    "parentheses": text(lambda: "(" * 100_000),
    "signs": text(lambda: "x = " + "-" * 1_000_000 + "1\n"),
    "sum": text(lambda: "x = " + "a+" * 2_000_000 + "a\n"),
    "list": text(lambda: "x = [" + "1," * 5_000_000 + "]\n"),
    "lines": text(lambda: "x = 1\n" * 2_500_000),
    "sparse": sparse(b"x = 1\n"),
    "dots": text(lambda: "x = " + "a." * 1_000_000 + "a\n"),
}
NPZ: dict[str, Make] = {
    "bomb": npz(1200 << 20),
    "bombs": npz(300 << 20, 4),
    "labels": npz(900 << 20, name="labels"),
    "in0": npz(900 << 20, name="in0"),
}
NPY: dict[str, Make] = {
    "claims": npy((1 << 40,)),
    "wide row": npy((2, 1 << 38)),
    "negative": npy((-5, 3)),
    "sparse": lambda path: (npy((4, 1 << 28), "|u1")(path), os.truncate(path, 1 << 30))[0],
    "long header": text(lambda: b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 30) + b"{" * (8 << 20)),
    "empty rows": npy((1 << 31, 0)),
}
ZIP: dict[str, Make] = {
    "one record": zipped(1, 1 << 30),
    "many records": zipped(60_000, 1),
    "checkpoint": deflated_checkpoint,
    "expanded": expanded_checkpoint,
    "sparse": sparse(b"PK\3\4"),
    "pickle": text(lambda: b"\x80\x02" + b"]" * (8 << 20)),
    "memo": text(b"\x80\x02" + b"r\xff\xff\xff\x3f" + b"."),
    "long bytes": text(b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40)),
}
SAFETENSORS: dict[str, Make] = {
    "long header": text(struct.pack("<Q", 1 << 60) + b"{}"),
    "header of nothing": sparse(struct.pack("<Q", 90 << 20)),
    "deep header": text(struct.pack("<Q", DEEP_BYTES) + b"[" * DEEP_BYTES),
    "claims": text(
        struct.pack("<Q", 66) + b'{"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4]}}'
    ),
}
PROGRAMS: dict[str, Make] = {
    "sparse": sparse(PTE),
    "bundle": sparse(struct.pack("<I", 8) + b"BP08"),
    "tflite": sparse(struct.pack("<I", 8) + b"TFL3"),
    "data": sparse(struct.pack("<I", 8) + b"FT01"),
}
LOGS: dict[str, Make] = {
    "one line": text(lambda: b"x" * (64 << 20)),
    "lines": text(lambda: b"I [executorch:a] NPU PMU\n" * (2 << 20)),
    "counters": text(lambda: b"".join(b"ethosu_pmu_cntr%d : %d\n" % (n, n) for n in range(500_000))),
    "controls": text(lambda: b"\x1b[2J\r\0" * (4 << 20)),
}
TRACES: dict[str, Make] = {
    "bomb": lambda path: path.write_bytes(
        b"".join(gzip.compress(b'{"traceEvents":[' + b"{}," * (8 << 20), 1) for _ in range(4))
    ),
    "zeros": lambda path: path.write_bytes(gzip.compress(bytes(1 << 26), 1) * 16),
}
PICTURES: dict[str, Make] = {
    "png": in_folder(png(40_000, 40_000), "a.png"),
    "large png": in_folder(png(12_000, 12_000), "a.png"),
    "tiff": in_folder(tiff(1 << 20, 1 << 20), "a.tiff"),
    "sparse": in_folder(sparse(b"BM"), "a.bmp"),
    "ppm": in_folder(text(b"P6 100000 100000 255\n"), "a.ppm"),
    "many": lambda path: [path.mkdir(), *[(path / f"{n}.png").touch() for n in range(5000)]],
    "gif": in_folder(text(b"GIF89a" + struct.pack("<HH", 65535, 65535) + bytes(100)), "a.gif"),
}

# kind: its reader, the suffix of its files, and the inputs.
KINDS: dict[str, tuple[Read, str, dict[str, Make]]] = {
    "project": (bomb_readers.read_project, ".qwb", JSON),
    "history": (bomb_readers.read_history, ".sqlite", {"sparse": sparse(b"SQLite format 3\0")}),
    "outcome": (bomb_readers.read_outcome, ".json", JSON),
    "study": (bomb_readers.read_study, "", {}),
    "trust": (bomb_readers.read_trust, ".json", JSON),
    "machine settings": (bomb_readers.read_machine, ".json", JSON),
    "jobs": (bomb_readers.read_jobs, ".json", JSON),
    "program": (bomb_readers.read_program, ".pte", PROGRAMS),
    "viewer": (bomb_readers.read_viewer, ".pte", PROGRAMS),
    "tflite": (bomb_readers.read_viewer, ".tflite", PROGRAMS),
    "weights beside": (bomb_readers.read_weights_beside, ".ptd", PROGRAMS),
    "inputs of a simulation": (bomb_readers.read_simulator_inputs, ".npz", NPZ | NPY),
    "inputs of an FVP": (bomb_readers.read_fvp_inputs, ".npz", NPZ | NPY),
    "array": (bomb_readers.read_array, ".npy", NPY),
    "data npz": (bomb_readers.read_data, ".npz", NPZ),
    "data npy": (bomb_readers.read_data, ".npy", NPY),
    "data pt": (bomb_readers.read_data, ".pt", ZIP),
    "pictures": (bomb_readers.read_pictures, "", PICTURES),
    "text": (
        bomb_readers.read_text_data,
        ".txt",
        {"sparse": sparse(b"a"), "long": text(lambda: b"a" * (16 << 20))},
    ),
    "checkpoint": (bomb_readers.read_weights, ".pt", ZIP),
    "checkpoint npz": (bomb_readers.read_weights, ".npz", NPZ),
    "safetensors": (bomb_readers.read_weights, ".safetensors", SAFETENSORS),
    "shards": (bomb_readers.read_weights, ".safetensors.index.json", JSON),
    "model": (bomb_readers.read_model, ".pt2", ZIP),
    "etdump": (bomb_readers.read_etdump, ".bin", {"sparse": sparse(bytes(8) + b"ED00"), **PROGRAMS}),
    "trace": (bomb_readers.read_npu_trace, ".gz", TRACES),
    "log": (bomb_readers.read_log, ".log", LOGS),
    "board": (bomb_readers.read_board_file, ".toml", TOML),
    "ini": (
        bomb_readers.read_ini,
        ".ini",
        {
            "lines": text(lambda: "[a]\nb = 1\n" * 100_000),
            "sparse": sparse(b"[a]\n"),
            "interpolates": text(
                lambda: (
                    "[System_Config.a]\ncore_clock = %(a0)s\n"
                    + "".join(f"a{n} = " + f"%(a{n + 1})s" * 100 + "\n" for n in range(9))
                    + "a9 = 1\n"
                )
            ),
            "inherits": text(
                lambda: "".join(f"[Memory_Mode.{n}]\ninherit=Memory_Mode.{n + 1}\n" for n in range(20_000))
            ),
        },
    ),
    "pass_args": (bomb_readers.read_pass_args, ".toml", TOML | JSON),
    "plug-in": (bomb_readers.read_plugin, ".py", PYTHON),
    "source": (bomb_readers.read_source, ".py", PYTHON),
    "new project": (bomb_readers.read_new_project, ".py", PYTHON),
    "numbers": (bomb_readers.read_numbers_file, ".json", JSON),
    "numbers csv": (
        bomb_readers.read_numbers_file,
        ".csv",
        {
            "lines": text(lambda: "a,b\n" + "x,1\n" * (8 << 20)),
            "columns": text(lambda: "a" + ",b" * (8 << 20)),
            "quote": text(lambda: '"' + "x" * (16 << 20)),
        },
    ),
    "runner": (bomb_readers.read_runner_file, ".elf", {"sparse": sparse(b"\x7fELF\1\1\1" + bytes(60))}),
}
# Commands are text that the user pastes, not files.
TYPED = {
    "command": (
        bomb_readers.read_command,
        "",
        {"quotes": text(lambda: "python -m a '" + "x" * (1 << 20)), "words": text(lambda: "a " * (1 << 20))},
    )
}
ALL = KINDS | TYPED


def cases(kind: str) -> dict[str, Make]:
    """Return the inputs of a kind by name."""
    own = ALL[kind][2]
    if kind in TYPED or kind == "log":
        return own
    return {**GENERIC, **own}


def warm_up(kind: str, folder: Path) -> None:
    """Import what a reader needs, so that it is not counted."""
    path = folder / f"warm{ALL[kind][1]}"
    path.write_bytes(b"x")
    # Only the imports matter.
    with contextlib.suppress(Exception):
        ALL[kind][0](path)


def read_one(kind: str, make: Make, folder: Path) -> Outcome:
    """Make an input and read it in a process of its own.

    This process may have no threads: what is forked while one holds a lock waits for ever.
    """
    path = folder / f"a{ALL[kind][1]}"
    made = os.fork()
    if made == 0:
        code = 1
        try:
            make(path)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(made, 0)[1] == 0, (kind, make)
    answers, writing = os.pipe()
    child = os.fork()
    begun = time.monotonic()
    if child == 0:
        _read(kind, path, writing)
    os.close(writing)
    killer = threading.Timer(MAX_S + 10, os.kill, (child, 9))
    killer.start()
    _, _, usage = os.wait4(child, 0)
    killer.cancel()
    with os.fdopen(answers) as file:
        word, _, before = (file.read() or "!killed\t0").partition("\t")
    grown = max(0, usage.ru_maxrss * 1024 - int(before))
    return Outcome(word, time.monotonic() - begun, grown)


def _read(kind: str, path: Path, writing: int) -> None:
    """Read an input; write how it ended, and the memory before [bytes]. Ends this process."""
    ended, before = "read", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    # What runs away ends here, before the machine does.
    resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))
    try:
        ALL[kind][0](path)
    except WorkbenchError as error:
        ended = error.codes[0] if error.codes else "refused"
    except BaseException as error:  # noqa: BLE001 - that is what is looked for
        ended = f"!{type(error).__name__} {str(error)[:120]}".replace("\t", " ")
    os.write(writing, f"{ended}\t{before}".encode())
    os._exit(0)


def run(kind: str, names: list[str] | None = None) -> dict[str, Outcome]:
    """Read the inputs of a kind; return how each ended."""
    warnings.simplefilter("ignore")
    found = {}
    with tempfile.TemporaryDirectory(prefix="bombs-") as place:
        warm_up(kind, Path(place))
        for name, make in cases(kind).items():
            if names is None or name in names:
                folder = Path(place) / name.replace(" ", "_")
                folder.mkdir()
                found[name] = read_one(kind, make, folder)
    return found


def main() -> int:
    """Read all inputs; return 1 if one is not within the bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=[*ALL, "all"], default="all")
    parser.add_argument("--cases", type=json.loads, help="names by kind as JSON, instead of all")
    parser.add_argument("--json", action="store_true", help="print one document")
    options = parser.parse_args()
    cases = options.cases or dict.fromkeys(ALL if options.kind == "all" else [options.kind])
    os.environ.setdefault("QUANTIZATION_WORKBENCH_CONFIG", tempfile.mkdtemp(prefix="bombs-"))
    if options.json:
        found = {kind: run(kind, names) for kind, names in cases.items()}
        print(json.dumps(found, default=lambda o: {**asdict(o), "is_within": o.is_within}))
        return 0
    outside = 0
    for kind, names in cases.items():
        for name, outcome in run(kind, names).items():
            mark = "" if outcome.is_within else "  OUTSIDE"
            memory = f"{outcome.grown >> 20:5} MB"
            print(f"{kind:24} {name:20} {outcome.seconds:6.2f} s {memory}  {outcome.ended}{mark}")
            sys.stdout.flush()
            outside += not outcome.is_within
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
