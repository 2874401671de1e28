"""Mutated inputs of every kind: a message each, within 20 s and 500 MB, and no code runs.

``python -m tests.fuzz --kind pte --count 1000 --seed 1`` mutates valid inputs and reads them as the
program does. It prints how many were accepted and refused, the longest time and the highest memory,
and every input that ended in another exception. Quick tests run a few of each kind.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import gzip
import io
import json
import math
import os
import random
import resource
import shutil
import sqlite3
import struct
import sys
import tempfile
import time
import traceback
import types
import typing
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from tests.fuzz_firmware import firmwares
from tests.fuzz_kinds import ARCHIVE_KINDS, JSON_KINDS, Reader
from tests.fuzz_kinds import KINDS as FURTHER_KINDS
from workbench.errors import WorkbenchError
from workbench.project.opened import OpenProject

DATA = Path(__file__).parent / "data"
# CPU time, and the time that an input may wait for something [s].
MAX_S, MAX_WAIT_S = 20.0, 120.0
MAX_BYTES = 500 << 20
# Pieces that are hard for readers of numbers, of nested values, of text and of lines.
_PIECES = (
    b"9" * 5000,
    b"-" + b"9" * 400,
    b"[" * 3000,
    b'{"a":' * 2000,
    b"NaN",
    b"1e999",
    b"-Infinity",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\0",
    b"\x1b]0;x\a",
    b"\r",
    b"\n",
    b"%",
    b"=",
    b"\xc2\x9b",
    "\u202e".encode(),
    "\u0663".encode(),
    "\u00b2".encode(),
    b"x" * 70_000,
)
_EXTREMES = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


@dataclass
class Report:
    """What a run of one kind found."""

    kind: str
    accepted: int = 0
    refused: int = 0
    longest_s: float = 0.0
    used_s: float = 0.0
    grown_bytes: int = 0
    peak: int = 0
    faults: list[str] = field(default_factory=list)
    keep: Path | None = None

    def __str__(self) -> str:
        return (
            f"{self.kind}: {self.accepted + self.refused + len(self.faults)} inputs, "
            f"{self.accepted} accepted, {self.refused} refused, {len(self.faults)} faults, "
            f"{self.used_s:.0f} s of CPU, longest {self.longest_s:.2f} s, "
            f"memory grew by {self.grown_bytes >> 20} MB"
        )


def mutated(source: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Return a copy with one to eight changes: bytes, integers, cuts, repeats and splices."""
    made = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 4, 8))):
        at = source.randrange(len(made) + 1)
        match source.randrange(9):
            case 8:
                made[at:at] = source.choice(_PIECES)
            case 0 if made:
                made[at % len(made)] ^= 1 << source.randrange(8)
            case 1 if made:
                made[at % len(made)] = source.randrange(256)
            case 2 | 3 if len(made) >= 8:
                at = at % (len(made) - 4) // 4 * 4
                value = source.choice((*_EXTREMES, source.randrange(len(made))))
                made[at : at + 4] = value.to_bytes(4, "little")
            case 4:
                del made[at : at + source.randrange(1, 64)]
            case 5:
                made[at:at] = made[at : at + source.randrange(1, 256)]
            case 6:
                other = source.choice(others)
                begin = source.randrange(len(other) + 1)
                made[at:at] = other[begin : begin + source.randrange(1, 256)]
            case _:
                made = made[:at] if source.randrange(10) == 0 else made
    return bytes(made)


_ODD = (
    None,
    True,
    -1,
    0,
    1 << 70,
    1e308,
    float("inf"),
    float("nan"),
    "",
    "\0",
    "\ud800",
    "x" * 300,
    10**400,
    "9" * 5000,
    "../../x",
    "/dev/zero",
    "/",
    [],
    {},
    [[]],
    {"a": {}},
    "a:b",
    "model.py:net",
    "\u00e9",
    "{x}",
)


# A list of more items is not repeated: repeated lists of lists would grow without end.
_MANY = 1000


@functools.cache
def _places(text: bytes) -> list[tuple[str | int, ...]]:
    """Return where the parts of a JSON text are, as keys and indices from the top."""
    places: list[tuple[str | int, ...]] = []

    def visit(value: object, at: tuple[str | int, ...]) -> None:
        places.append(at)
        if isinstance(value, dict):
            for key, item in value.items():
                visit(item, (*at, key))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                visit(item, (*at, index))

    visit(json.loads(text), ())
    return places


def mutated_json(source: random.Random, text: bytes, share: float) -> object:
    """Return the value of a JSON text of which about this share of the parts is odd."""
    value, places = json.loads(text), _places(text)
    for _ in range(max(1, round(len(places) * share * source.uniform(0.3, 1.7)))):
        *above, last = source.choice(places) or (None,)
        if last is None:
            # The whole value, seldom.
            value = _odd(source) if source.random() < 0.2 else value
            continue
        parent = value
        with contextlib.suppress(LookupError, TypeError):
            for step in above:
                parent = parent[step]
            _change_part(source, parent, last)
    return value


def _change_part(source: random.Random, parent: Any, key: str | int) -> None:
    """Change, remove or repeat a part of a list or an object, or add one."""
    match source.randrange(10):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, dict):
            parent["unknown"] = _odd(source)
        case 1:
            parent[:] = parent * (3 if len(parent) < _MANY else 1)
        case _:
            parent[key] = _odd(source)


def _odd(source: random.Random) -> object:
    """Return an odd value of its own: later changes of it are not seen in other inputs."""
    value = source.choice(_ODD)
    return copy.deepcopy(value) if isinstance(value, list | dict) else value


def _programs() -> tuple[list[bytes], Reader]:
    from workbench.npu.program import load
    from workbench.pte.description import describe, memory

    def read(data: bytes, folder: Path) -> None:
        path = folder / "a.pte"
        path.write_bytes(data)
        describe(data, whole=True)
        memory(data)
        load(path)

    return [path.read_bytes() for path in sorted((DATA / "programs").glob("**/*.pte"))], read


def _traces() -> tuple[list[bytes], Reader]:
    from workbench.deploy.simulators.counters import read_trace, recorded

    events = [
        {"name": "a", "ph": "C", "ts": 1.5 * n, "tid": "PMU", "args": {"PMU": n % 7}} for n in range(60)
    ]
    text = json.dumps({"traceEvents": events}).encode()

    def read(data: bytes, folder: Path) -> None:
        (folder / "etdump.bin").write_bytes(data)
        recorded(folder, folder / "log")
        (folder / "etdump.bin").rename(folder / "log")
        recorded(folder, folder / "log")
        for name, content in (("raw.gz", data), ("packed.gz", gzip.compress(data, 1))):
            (folder / name).write_bytes(content)
            read_trace(folder / name)

    return [gzip.compress(text), text, (DATA / "etdump.bin").read_bytes()], read


def _etdumps() -> tuple[list[bytes], Reader]:
    from workbench.deploy.simulators.etdump import events_of

    def read(data: bytes, folder: Path) -> None:
        del folder
        try:
            events_of(data)
        except ValueError as error:
            # The stage adds its note for whatever is no ETDump.
            raise WorkbenchError([]) from error

    return [(DATA / "etdump.bin").read_bytes()], read


def _runners() -> tuple[list[bytes], Reader]:
    from workbench.deploy.simulators.compatibility import read_runner

    base = b"\x7fELF" + struct.pack(
        "<BBBB8xHHIIIIIHHHHHH", 1, 1, 1, 0, 2, 40, 1, 0, 52, 84, 0, 52, 32, 1, 40, 1, 0
    )
    base += struct.pack("<8I", 1, 0, 0, 0, 64, 64, 5, 4) + bytes(40) + b"Ethos-U55 semihosting"

    def read(data: bytes, folder: Path) -> None:
        (folder / "a.elf").write_bytes(data)
        read_runner(folder / "a.elf")

    return [base], read


def _projects() -> tuple[list[bytes], Reader]:
    from workbench.pipeline.cache import Cache
    from workbench.pipeline.plan import plan
    from workbench.project import sources, store
    from workbench.project.trust import TrustStore, demand

    def read(data: bytes, folder: Path) -> None:
        path = folder / "a.qwb"
        path.write_bytes(data)
        project = store.load(path)
        store.dump(project).encode()
        sources.missing(OpenProject(project, folder))
        plan(OpenProject(project, folder), Cache(folder / "cache"))
        demand(OpenProject(project, folder), TrustStore(folder / "trust.json"))

    found = [*Path("resources/samples").glob("**/*.qwb"), *(DATA.parent / "networks").glob("*.qwb")]
    return [path.read_bytes() for path in sorted(found)], read


def _histories() -> tuple[list[bytes], Reader]:
    from tests.workbench.project.builders import make_project
    from workbench.history.runs import Quality, Run
    from workbench.history.store import History

    run = Run(made="2026-01-01T00:00:00+00:00", project="net", target=make_project().target, rules=(),
              quality=Quality(samples=1, data="x", sqnr_db=20.5))  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "a.sqlite"
        History(path).close()
        file = sqlite3.connect(path)
        rows = [(f"k{number}", run.model_dump_json()) for number in range(4)]
        with file:
            file.executemany("INSERT INTO runs (key, run) VALUES (?, ?)", rows)
        # Small pages: most changes hit what SQLite reads, and little is copied.
        file.executescript("PRAGMA page_size = 1024; VACUUM")
        file.close()
        data = path.read_bytes()

    def read(data: bytes, folder: Path) -> None:
        path = folder / "a.sqlite"
        path.write_bytes(data)
        history = History(path)
        history.runs()
        history.close()

    return [data], read


def _boards() -> tuple[list[bytes], Reader]:
    from workbench.deploy.boards import load

    def read(data: bytes, folder: Path) -> None:
        (folder / "a.toml").write_bytes(data)
        load("a.toml", folder)

    # The six smallest have every key; the parser takes a millisecond for a large one.
    seeds = sorted((path.read_bytes() for path in Path("resources/boards").glob("*.toml")), key=len)
    return seeds[:6], read


def _pass_args() -> tuple[list[bytes], Reader]:
    from workbench.targets.formats.pass_args import parse

    bases = [b'by = "type"\n[default.config]\nname = "integer"\ndata_in_width = 8\n', b'{"by": "name"}']
    return bases, lambda data, _: parse(data.decode(errors="replace"), "a.toml")


def _archives() -> tuple[list[bytes], Reader]:
    import torch
    from torch._export.serde import schema, serialize

    from workbench.engine.loading.pt2 import load_strictly
    from workbench.project.pt2 import DoubtfulArchiveError, UnreadableArchiveError

    buffer = io.BytesIO()
    torch.export.save(torch.export.export(torch.nn.Linear(2, 3).eval(), (torch.zeros(1, 2),)), buffer)
    # torch asks for the annotations of its classes at every value, which is half of the time.
    hints = functools.cache(lambda of: typing.get_type_hints(of, globalns=vars(schema)))
    known = types.SimpleNamespace(**vars(typing))
    known.get_type_hints = lambda of, **_globals: hints(of)

    def read(data: bytes, folder: Path) -> None:
        del folder
        try:
            with mock.patch.object(serialize, "typing", known):
                load_strictly(data)
        except (DoubtfulArchiveError, UnreadableArchiveError) as doubt:
            raise WorkbenchError([]) from doubt
        except Exception as error:
            # The engine gives its one sentence for whatever torch raises.
            raise WorkbenchError([]) from error

    return [buffer.getvalue()], read


def _arrays() -> tuple[list[bytes], Reader]:
    import numpy as np
    import torch

    from workbench.engine.data.arrays import read_arrays
    from workbench.engine.data.labels import read_labels
    from workbench.project.model import DataSource
    from workbench.project.sources import data_reference
    from workbench.results import TensorSpec

    made: list[bytes] = []
    for save in (
        lambda file: np.savez(file, x=np.zeros((4, 3), np.float32), labels=np.arange(4)),
        lambda file: np.savez_compressed(file, x=np.zeros((4, 3), np.float32)),
        lambda file: np.save(file, np.zeros((4, 3), np.float32)),
        lambda file: torch.save({"x": torch.zeros(4, 3)}, file),
    ):
        buffer = io.BytesIO()
        save(buffer)
        made.append(buffer.getvalue())
    spec = TensorSpec(name="x", shape=(1, 3), dtype="float32")

    def read(data: bytes, folder: Path) -> None:
        # The suffix of the content; of one in five, any other.
        form = "npy" if data[:1] == b"\x93" else "pt" if b".format_version" in data else "npz"
        other = zlib.crc32(data) % 15
        path = folder / f"a.{('npz', 'npy', 'pt')[other] if other < 3 else form}"
        path.write_bytes(data)
        source = DataSource(spec=path.name)
        reference = data_reference(source.spec, folder, "calibration")
        with contextlib.suppress(WorkbenchError):
            read_labels(source, folder, "calibration")
        list(read_arrays(reference, source, [spec], "calibration"))

    return made, read


KINDS: dict[str, Callable[[], tuple[list[bytes], Reader]]] = {
    "pte": _programs,
    "traces": _traces,
    "etdumps": _etdumps,
    "runners": _runners,
    "projects": _projects,
    "histories": _histories,
    "boards": _boards,
    "pass_args": _pass_args,
    "archives": _archives,
    "arrays": _arrays,
    "firmwares": firmwares,
    **FURTHER_KINDS,
}


def run(kind: str, count: int, seed: int, seconds: float = math.inf, keep: Path | None = None) -> Report:
    """Read mutated inputs of a kind, until a number or a time is reached; return what was found.

    The first input of each fault is kept in a folder, if one is given.
    """
    bases, read = KINDS[kind]()
    source, report = random.Random(seed), Report(kind, keep=keep)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_memory_folder()) as place:
        _read(read, bases[0], Path(place), Report(kind))
        before = _peak()
        deadline = time.monotonic() + seconds
        for _ in range(count):
            if time.monotonic() > deadline:
                break
            data = _changed(source, kind, bases)
            _read(read, data, Path(place), report)
    report.grown_bytes = _peak() - before
    if report.grown_bytes > MAX_BYTES:
        report.faults.append(f"memory grew by {report.grown_bytes >> 20} MB")
    return report


def _memory_folder() -> str | None:
    """Return a folder in memory, where files cost least; None for the usual one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _empty(folder: Path) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


def _peak() -> int:
    """Return the most memory that this process has had [bytes]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _changed(source: random.Random, kind: str, bases: list[bytes]) -> bytes:
    """Return the next input of a kind."""
    base = source.choice(bases)
    if kind in JSON_KINDS and source.random() < 0.7:
        return _mutated_text(source, base, bases)
    if kind in ARCHIVE_KINDS and source.random() < 0.5:
        return _with_changed_records(source, base)
    return mutated(source, base, bases)


def _mutated_text(source: random.Random, base: bytes, bases: list[bytes]) -> bytes:
    """Return a JSON text with odd parts; one with changed bytes if it is no JSON."""
    with contextlib.suppress(ValueError):
        value = mutated_json(source, base, source.choice((0.003, 0.01, 0.03, 0.1)))
        return json.dumps(value).encode(errors="surrogatepass")
    return mutated(source, base, bases)


def _with_changed_records(source: random.Random, base: bytes) -> bytes:
    """Return a whole archive of which one record has changed."""
    records = _records(base)
    if not records:
        return mutated(source, base, [base])
    buffer = io.BytesIO()
    changed = source.choice(list(records))
    with zipfile.ZipFile(buffer, "w") as new:
        for name, data in records.items():
            # The time of now costs as much as all else.
            new.writestr(zipfile.ZipInfo(name), _changed_record(source, data) if name == changed else data)
    return buffer.getvalue()


def _changed_record(source: random.Random, data: bytes) -> bytes:
    is_text = data[:1] in {b"{", b"["} and source.random() < 0.7
    return (_mutated_text if is_text else mutated)(source, data, [data])


@functools.cache
def _records(archive: bytes) -> dict[str, bytes]:
    """Return the records of an archive; none if it is no archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as file:
            return {name: file.read(name) for name in file.namelist()}
    except zipfile.BadZipFile:
        return {}


def _read(read: Reader, data: bytes, folder: Path, report: Report) -> None:
    before, known = report.peak or _peak(), len(report.faults)
    begun, cpu = time.monotonic(), time.process_time()
    try:
        read(data, folder)
        report.accepted += 1
    except WorkbenchError:
        report.refused += 1
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        where = traceback.extract_tb(error.__traceback__)[-1]
        report.faults.append(f"{type(error).__name__}: {str(error)[:120]} at {where.filename}:{where.lineno}")
    # On a busy machine only the time of the processor says what an input costs.
    used, elapsed = time.process_time() - cpu, time.monotonic() - begun
    report.longest_s, report.used_s = max(report.longest_s, used), report.used_s + used
    if used > MAX_S or elapsed > MAX_WAIT_S:
        report.faults.append(f"{used:.1f} s of CPU in {elapsed:.1f} s")
    report.peak = _peak()
    if report.peak - before > MAX_BYTES:
        report.faults.append(f"an input took {(report.peak - before) >> 20} MB")
    if report.keep is not None and set(report.faults[known:]) - set(report.faults[:known]):
        report.keep.mkdir(parents=True, exist_ok=True)
        (report.keep / f"{report.kind}-{len(report.faults)}").write_bytes(data)
    _empty(folder)


def main() -> int:
    """Run the kinds that are asked for; return 1 if there are faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=[*KINDS, "all"], default="all")
    parser.add_argument("--count", type=int, help="inputs of each kind (default: 1000)")
    parser.add_argument("--seconds", type=float, help="time for each kind, instead of a number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for the first input of each fault")
    options = parser.parse_args()
    os.environ.setdefault("QUANTIZATION_WORKBENCH_CONFIG", tempfile.mkdtemp(prefix="fuzz-"))
    # As in an engine; with more, every clock of the processor adds up all threads.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    seconds = math.inf if options.seconds is None else options.seconds
    count = options.count or (1000 if options.seconds is None else sys.maxsize)
    faults = 0
    for kind in KINDS if options.kind == "all" else [options.kind]:
        report = run(kind, count, options.seed, seconds, options.keep)
        print(report, flush=True)
        for fault in dict.fromkeys(report.faults):
            print(f"  {fault}", flush=True)
        faults += len(report.faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
