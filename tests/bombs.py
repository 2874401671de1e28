"""Small or endless inputs that want much memory or time, of every kind that the program reads.

``python -m tests.bombs`` reads each in a process of its own and prints its peak of memory and time.
Bounds: 500 MB and 20 s; every input is read, or refused in a sentence.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import contextlib
import gzip
import io
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
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workbench.errors import WorkbenchError

MAX_S, MAX_BYTES = 20.0, 500 << 20
DATA = Path(__file__).parent / "data"
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


def text(value: str | bytes) -> Make:
    return lambda path: path.write_bytes(value if isinstance(value, bytes) else value.encode())


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
        np.lib.format.write_array_header_1_0(
            header, {"descr": "|u1", "fortran_order": False, "shape": shape}
        )
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
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", header)
            + chunk(b"IDAT", packed)
            + chunk(b"IEND", b"")
        )

    return make


def tiff(width: int, height: int) -> Make:
    def make(path: Path) -> None:
        entries = [
            (256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1),
            (273, 4, 1, 8), (277, 3, 1, 1), (278, 4, 1, height), (279, 4, 1, 0xFFFFFFF0),
        ]  # fmt: skip
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


# Readers, each as a verb or the engine calls it.
def read_project(path: Path) -> None:
    from workbench.pipeline.cache import Cache
    from workbench.pipeline.plan import plan
    from workbench.project import sources, store

    project = store.load(path)
    sources.missing(project, path.parent)
    plan(project, path.parent, Cache(path.parent / "cache"))


def read_history(path: Path) -> None:
    from workbench.history.store import History

    history = History(path)
    history.runs()
    history.close()


def read_outcome(path: Path) -> None:
    from workbench.history.outcomes import read_outcome

    read_outcome(path)


def read_program(path: Path) -> None:
    from workbench.files import MAX_PROGRAM_BYTES, read_limited
    from workbench.npu.program import load
    from workbench.pte.description import describe

    program = load(path)
    del program
    describe(read_limited(path, MAX_PROGRAM_BYTES), whole=True)


def read_viewer(path: Path) -> None:
    from ui.features.program_viewer.program_contents import read

    found = read(path)
    if isinstance(found, WorkbenchError):
        raise found


def read_weights_beside(path: Path) -> None:
    from workbench.npu.program import load

    load(DATA / "programs" / "u55_external.pte", data=[path])


def read_simulator_inputs(path: Path) -> None:
    from workbench.npu.inputs import read_inputs

    read_inputs(path, 1)


def read_fvp_inputs(path: Path) -> None:
    from workbench.deploy.simulators.run import _arrays

    _arrays(path)


def read_array(path: Path) -> None:
    from workbench.engine.array_jobs import load

    load(path)


def read_data(path: Path) -> None:
    from workbench.engine.data.arrays import read_arrays, read_labels
    from workbench.project.model import DataSource
    from workbench.project.sources import data_reference
    from workbench.results import TensorSpec

    spec = TensorSpec(name="x", shape=(1, 3), dtype="float32")
    source = DataSource(spec=path.name)
    read_labels(source, path.parent, "calibration")
    reference = data_reference(source.spec, path.parent, "calibration")
    for _ in read_arrays(reference, source, [spec], "calibration"):
        pass


def read_pictures(path: Path) -> None:
    from workbench.engine.data.pictures import read_pictures
    from workbench.project.model import DataSource
    from workbench.project.preprocessing import Preprocess
    from workbench.project.sources import data_reference
    from workbench.results import TensorSpec

    settings = Preprocess(size=(8, 8), mean=(0.0,), std=(1.0,))
    spec = TensorSpec(name="x", shape=(1, 1, 8, 8), dtype="float32")
    source = DataSource(spec=path.name, preprocess=settings)
    reference = data_reference(source.spec, path.parent, "calibration")
    for _ in read_pictures(reference, source, [spec], "calibration"):
        pass


def read_text_data(path: Path) -> None:
    from workbench.engine.data.text import read_text
    from workbench.project.model import DataSource, Tokenization
    from workbench.project.sources import data_reference
    from workbench.results import TensorSpec

    source = DataSource(spec=path.name, tokens=Tokenization())
    reference = data_reference(source.spec, path.parent, "calibration")
    spec = TensorSpec(name="x", shape=(1, 8), dtype="int64")
    for _ in read_text(reference, source, [spec], "calibration", path.parent):
        pass


def read_weights(path: Path) -> None:
    from workbench.engine.checkpoint_reading import read_checkpoint

    read_checkpoint(path)


def read_model(path: Path) -> None:
    from workbench.engine.model_loading import load_model
    from workbench.project.model import ModelSource, Project, TargetChoice
    from workbench.project.trust import named_code

    source = ModelSource(spec=path.name)
    project = Project(name="a", model=source, target=TargetChoice(id="ethos-u55-128"))
    if named_code(project, path.parent).places:
        raise WorkbenchError([])
    load_model(source, path.parent)


def read_etdump(path: Path) -> None:
    from workbench.deploy.simulators.counters import recorded
    from workbench.deploy.simulators.etdump import events_of

    folder = path.parent / "run"
    folder.mkdir()
    path.rename(folder / "etdump.bin")
    try:
        events_of(recorded(folder, folder / "log"))
    except ValueError as error:
        raise WorkbenchError([]) from error


def read_npu_trace(path: Path) -> None:
    from workbench.deploy.simulators.counters import read_trace

    read_trace(path)


def read_log(path: Path) -> None:
    from workbench.deploy.simulators.log_parser import UartReader

    reader = UartReader()
    with path.open("rb") as file:
        while data := file.read(1 << 16):
            reader.feed(data.decode(errors="replace"))
    reader.close()


def read_board_file(path: Path) -> None:
    from workbench.deploy.boards import load

    load(path.name, path.parent)


def read_ini(path: Path) -> None:
    from workbench.targets.ethos_u.vela_ini import load

    load(path)


def read_pass_args(path: Path) -> None:
    from workbench.targets.formats.pass_args import read_args

    read_args(path)


def read_plugin(path: Path) -> None:
    from workbench.project.plugins import items_of

    items_of(f"{path.stem}", path.parent)


def read_source(path: Path) -> None:
    from workbench.project.model import ModelSource, Project, TargetChoice
    from workbench.project.trust import named_code

    source = ModelSource(spec=f"{path.name}:net")
    project = Project(name="a", model=source, target=TargetChoice(id="ethos-u55-128"))
    named_code(project, path.parent)


def read_new_project(path: Path) -> None:
    from ui.features.project.draft import callables_of

    callables_of(path)


def read_numbers_file(path: Path) -> None:
    from workbench.graph.numbers_file import read_numbers

    read_numbers(path)


def read_runner_file(path: Path) -> None:
    from workbench.deploy.simulators.compatibility import read_runner

    read_runner(path)


def read_trust(path: Path) -> None:
    from workbench.project.trust import TrustStore

    TrustStore(path).granted()


def read_machine(path: Path) -> None:
    from unittest import mock

    from workbench.deploy.simulators import discovery

    with mock.patch.object(discovery, "settings_path", return_value=path):
        discovery.load_settings()


def read_study(path: Path) -> None:
    from workbench.studies.documents import load_study
    from workbench.studies.search import SearchResult

    load_study(SearchResult, path)


def read_command(path: Path) -> None:
    from workbench.script.aot_arm_compiler import take_command

    take_command(path.read_text(), path.parent, "a")


def read_jobs(path: Path) -> None:
    from workbench.cli.question import read_jobs

    read_jobs(path)


DEEP = "[" * (8 << 20)
WIDE = "[" + "[]," * (5 << 20) + "[]]"
MAPS = "[" + "{}," * (5 << 20) + "{}]"
NUMBERS = "[" + "1e9," * (3 << 20) + "1]"
PTE = struct.pack("<I", 8) + b"ET12"
GENERIC: dict[str, Make] = {
    "empty": text(b""), "zeros": text(bytes(4 << 20)), "noise": text(os.urandom(1 << 20)),
    "endless": link("/dev/zero"), "pipe": fifo, "folder": Path.mkdir,
}  # fmt: skip
JSON: dict[str, Make] = {
    "deep": text(DEEP), "wide": text(WIDE), "maps": text(MAPS), "numbers": text(NUMBERS),
    "long integer": text('{"version": ' + "9" * (4 << 20) + "}"), "sparse": sparse(b"{"),
    "long text": text('{"name": "' + "x" * (15 << 20) + '"}'),
}  # fmt: skip
TOML: dict[str, Make] = {
    "deep": text("a = " + "[" * 100_000), "dots": text("a." * 200_000 + "b = 1"),
    "wide": text("a = [" + "[]," * 200_000 + "]"), "sparse": sparse(b"a = 1\n"),
    "tables": text("".join(f"[a{n}]\nb = 1\n" for n in range(50_000))),
}  # fmt: skip
PYTHON: dict[str, Make] = {
    "parentheses": text("(" * 100_000), "signs": text("x = " + "-" * 1_000_000 + "1\n"),
    "sum": text("x = " + "a+" * 2_000_000 + "a\n"), "list": text("x = [" + "1," * 5_000_000 + "]\n"),
    "lines": text("x = 1\n" * 2_500_000), "sparse": sparse(b"x = 1\n"),
    "dots": text("x = " + "a." * 1_000_000 + "a\n"),
}  # fmt: skip
NPZ: dict[str, Make] = {
    "bomb": npz(1200 << 20), "bombs": npz(300 << 20, 4), "labels": npz(900 << 20, name="labels"),
    "in0": npz(900 << 20, name="in0"),
}  # fmt: skip
NPY: dict[str, Make] = {
    "claims": npy((1 << 40,)), "wide row": npy((2, 1 << 38)), "negative": npy((-5, 3)),
    "sparse": lambda path: (npy((4, 1 << 28), "|u1")(path), os.truncate(path, 1 << 30))[0],
    "long header": text(b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 30) + b"{" * (8 << 20)),
    "empty rows": npy((1 << 31, 0)),
}  # fmt: skip
ZIP: dict[str, Make] = {
    "one record": zipped(1, 1 << 30), "many records": zipped(60_000, 1),
    "checkpoint": deflated_checkpoint, "expanded": expanded_checkpoint,
    "sparse": sparse(b"PK\3\4"), "pickle": text(b"\x80\x02" + b"]" * (8 << 20)),
    "memo": text(b"\x80\x02" + b"r\xff\xff\xff\x3f" + b"."),
    "long bytes": text(b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40)),
}  # fmt: skip
SAFETENSORS: dict[str, Make] = {
    "long header": text(struct.pack("<Q", 1 << 60) + b"{}"),
    "header of nothing": sparse(struct.pack("<Q", 90 << 20)),
    "deep header": text(struct.pack("<Q", 8 << 20) + DEEP.encode()),
    "claims": text(
        struct.pack("<Q", 66) + b'{"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4]}}'
    ),
}  # fmt: skip
PROGRAMS: dict[str, Make] = {"sparse": sparse(PTE), "bundle": sparse(struct.pack("<I", 8) + b"BP08"),
    "tflite": sparse(struct.pack("<I", 8) + b"TFL3"), "data": sparse(struct.pack("<I", 8) + b"FT01")}  # fmt: skip
LOGS: dict[str, Make] = {
    "one line": text(b"x" * (64 << 20)), "lines": text(b"I [executorch:a] NPU PMU\n" * (2 << 20)),
    "counters": text(b"".join(b"ethosu_pmu_cntr%d : %d\n" % (n, n) for n in range(500_000))),
    "controls": text(b"\x1b[2J\r\0" * (4 << 20)),
}  # fmt: skip
TRACES: dict[str, Make] = {
    "bomb": lambda path: path.write_bytes(
        b"".join(gzip.compress(b'{"traceEvents":[' + b"{}," * (8 << 20), 1) for _ in range(4))
    ),
    "zeros": lambda path: path.write_bytes(gzip.compress(bytes(1 << 26), 1) * 16),
}  # fmt: skip
PICTURES: dict[str, Make] = {
    "png": in_folder(png(40_000, 40_000), "a.png"), "large png": in_folder(png(12_000, 12_000), "a.png"),
    "tiff": in_folder(tiff(1 << 20, 1 << 20), "a.tiff"), "sparse": in_folder(sparse(b"BM"), "a.bmp"),
    "ppm": in_folder(text(b"P6 100000 100000 255\n"), "a.ppm"),
    "many": lambda path: [path.mkdir(), *[(path / f"{n}.png").touch() for n in range(5000)]],
    "gif": in_folder(text(b"GIF89a" + struct.pack("<HH", 65535, 65535) + bytes(100)), "a.gif"),
}  # fmt: skip

# kind: its reader, the suffix of its files, and the inputs.
KINDS: dict[str, tuple[Read, str, dict[str, Make]]] = {
    "project": (read_project, ".qwb", JSON),
    "history": (read_history, ".sqlite", {"sparse": sparse(b"SQLite format 3\0")}),
    "outcome": (read_outcome, ".json", JSON),
    "study": (read_study, "", {}),
    "trust": (read_trust, ".json", JSON),
    "machine settings": (read_machine, ".json", JSON),
    "jobs": (read_jobs, ".json", JSON),
    "program": (read_program, ".pte", PROGRAMS),
    "viewer": (read_viewer, ".pte", PROGRAMS),
    "tflite": (read_viewer, ".tflite", PROGRAMS),
    "weights beside": (read_weights_beside, ".ptd", PROGRAMS),
    "inputs of a simulation": (read_simulator_inputs, ".npz", NPZ | NPY),
    "inputs of an FVP": (read_fvp_inputs, ".npz", NPZ | NPY),
    "array": (read_array, ".npy", NPY),
    "data npz": (read_data, ".npz", NPZ),
    "data npy": (read_data, ".npy", NPY),
    "data pt": (read_data, ".pt", ZIP),
    "pictures": (read_pictures, "", PICTURES),
    "text": (read_text_data, ".txt", {"sparse": sparse(b"a"), "long": text(b"a" * (16 << 20))}),
    "checkpoint": (read_weights, ".pt", ZIP),
    "checkpoint npz": (read_weights, ".npz", NPZ),
    "safetensors": (read_weights, ".safetensors", SAFETENSORS),
    "shards": (read_weights, ".safetensors.index.json", JSON),
    "model": (read_model, ".pt2", ZIP),
    "etdump": (read_etdump, ".bin", {"sparse": sparse(bytes(8) + b"ED00"), **PROGRAMS}),
    "trace": (read_npu_trace, ".gz", TRACES),
    "log": (read_log, ".log", LOGS),
    "board": (read_board_file, ".toml", TOML),
    "ini": (read_ini, ".ini", {"lines": text("[a]\nb = 1\n" * 100_000), "sparse": sparse(b"[a]\n"),
        "interpolates": text("[System_Config.a]\ncore_clock = %(a0)s\n" + "".join(
            f"a{n} = " + f"%(a{n + 1})s" * 100 + "\n" for n in range(9)) + "a9 = 1\n"),
        "inherits": text("".join(f"[Memory_Mode.{n}]\ninherit=Memory_Mode.{n + 1}\n" for n in range(20_000)))}),
    "pass_args": (read_pass_args, ".toml", TOML | JSON),
    "plug-in": (read_plugin, ".py", PYTHON),
    "source": (read_source, ".py", PYTHON),
    "new project": (read_new_project, ".py", PYTHON),
    "numbers": (read_numbers_file, ".json", JSON),
    "numbers csv": (read_numbers_file, ".csv", {"lines": text("a,b\n" + "x,1\n" * (8 << 20)),
        "columns": text("a" + ",b" * (8 << 20)), "quote": text('"' + "x" * (16 << 20))}),
    "runner": (read_runner_file, ".elf", {"sparse": sparse(b"\x7fELF\1\1\1" + bytes(60))}),
}  # fmt: skip
# Commands are text that the user pastes, not files.
TYPED = {
    "command": (read_command, "", {
        "quotes": text("python -m a '" + "x" * (1 << 20)), "words": text("a " * (1 << 20)),
    }),
}  # fmt: skip
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
    path.write_bytes(b"x" if kind != "study" else b"")
    # Only the imports matter.
    with contextlib.suppress(Exception):
        ALL[kind][0](path)


def read_one(kind: str, make: Make, folder: Path) -> Outcome:
    """Make an input and read it in a process of its own."""
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
    options = parser.parse_args()
    os.environ.setdefault("QUANTIZATION_WORKBENCH_CONFIG", tempfile.mkdtemp(prefix="bombs-"))
    outside = 0
    for kind in ALL if options.kind == "all" else [options.kind]:
        for name, outcome in run(kind).items():
            mark = "" if outcome.is_within else "  OUTSIDE"
            memory = f"{outcome.grown >> 20:5} MB"
            print(f"{kind:24} {name:20} {outcome.seconds:6.2f} s {memory}  {outcome.ended}{mark}")
            sys.stdout.flush()
            outside += not outcome.is_within
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
