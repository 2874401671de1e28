"""Further kinds of foreign input for ``tests.fuzz``: seeds, and how the program reads them."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.errors import WorkbenchError

DATA = Path(__file__).parent / "data"
Reader = Callable[[bytes, Path], object]
Kind = Callable[[], tuple[list[bytes], Reader]]

_BOARD = b"""I [executorch:arm_executor_runner.cpp:432] Model in 0x70000000
I [executorch:arm_executor_runner.cpp:501 step()] Memory pool method_allocator_planned: 10 / 20
I [executorch:arm_perf_monitor.cpp:164] NPU Inferences : 1
I [executorch:arm_perf_monitor.cpp:168] NPU delegations: 1
I [executorch:arm_perf_monitor.cpp:180] ethosu_pmu_cycle_cntr : 6421
I [executorch:arm_perf_monitor.cpp:182] ethosu_pmu_cntr0 : 3
I [executorch:arm_perf_monitor.cpp:187] Ethos-U PMU Events:[ETHOSU_PMU_SRAM_RD, ETHOSU_PMU_X]
Output[0][0]: (char) 3
Output[0][1]: (float) -1.5e3
I [executorch:arm_executor_runner.cpp:790] input_file_allocator_used: 10 / 60000000 free: 1 used: 0
I [executorch:arm_executor_runner.cpp:790] planned_memory_used: 320 / 60000000
I [executorch:arm_executor_runner.cpp:960] max_absolute_error: 0.5
I [executorch:arm_executor_runner.cpp:961] TEST: BundleIO index[0] Test_result: PASS
SERVER INFERENCE_DONE
E [executorch:method.cpp:1] Missing operator: [0] aten::add.out
Info: /OSCI/SystemC: simulation time has been exceeded
I [executorch:arm_executor_runner.cpp:1002] Model run: 1
I [executorch:arm_executor_runner.cpp:1002] Program complete, exiting.
"""


def _answering(read: Callable[[bytes, Path], object], *more: type[Exception]) -> Reader:
    """Return a reader whose documented errors count as refusals."""

    def reader(data: bytes, folder: Path) -> None:
        try:
            read(data, folder)
        except more as error:
            raise WorkbenchError([]) from error

    return reader


def _inis() -> tuple[list[bytes], Reader]:
    from workbench.targets.ethos_u.vela_ini import load

    seeds = [path.read_bytes() for path in sorted(Path("resources/boards").glob("*.ini"))]
    seeds.append(
        b"[System_Config.Own]\ncore_clock=5e8\naxi0_port=Sram\naxi1_port=OffChipFlash\n"
        b"Sram_clock_scale=1.0\nSram_burst_length=32\nSram_read_latency=32\n"
        b"OffChipFlash_clock_scale=0.125\n[Memory_Mode.Own_Mode]\nconst_mem_area=Axi1\n"
        b"arena_mem_area=Axi0\ncache_mem_area=Axi0\narena_cache_size=2097152\n"
    )

    def read(data: bytes, folder: Path) -> None:
        (folder / "a.ini").write_bytes(data)
        load(folder / "a.ini")

    return seeds, read


def _tflites() -> tuple[list[bytes], Reader]:
    from workbench.pte.description import describe

    def read(data: bytes, folder: Path) -> None:
        del folder
        describe(data, whole=True)

    return [(DATA / "programs" / "resize_u85_vela.tflite").read_bytes()], read


def _vela_outputs() -> tuple[list[bytes], Reader]:
    from workbench.pte import npu_commands, vela_stream
    from workbench.pte.program import decode

    programs = [decode(path.read_bytes()) for path in sorted((DATA / "programs").glob("u*.pte"))]
    seeds = [
        bytes(delegate.data)
        for program in programs
        for method in program.methods
        for delegate in method.delegates
        if delegate.backend == vela_stream.ETHOS_U
    ]

    def read(data: bytes, folder: Path) -> None:
        del folder
        parts = vela_stream.blocks(data)
        vela_stream.scratch_bytes(parts)
        for side in ("inputs", "outputs"):
            vela_stream.ports(parts, side)
        stream = vela_stream.commands(parts)
        if stream is not None:
            list(npu_commands.listing(npu_commands.decode(stream)))

    return seeds, read


def _trusts() -> tuple[list[bytes], Reader]:
    from workbench.project.project_code import Code
    from workbench.project.trust import TrustStore

    given = {"/a": {"digest": "0" * 64, "description": "a.qwb"}}
    seed = json.dumps({"version": 2, "trusted": given}).encode()
    older = json.dumps({"version": 1, "trusted": given}).encode()

    def read(data: bytes, folder: Path) -> None:
        path = folder / "trust.json"
        path.write_bytes(data)
        path.chmod(0o600)
        store = TrustStore(path)
        assert not store.allows(Code(places={"/b": "1"}))
        store.grant(Code(places={"/b": "1"}), "b.qwb")
        assert store.allows(Code(places={"/b": "1"}))

    return [seed, older], read


def _uarts() -> tuple[list[bytes], Reader]:
    from workbench.deploy.simulators.log_parser import UartReader

    def read(data: bytes, folder: Path) -> None:
        del folder
        reader = UartReader()
        text = data.decode(errors="replace")
        for start in range(0, len(text), 97):
            reader.feed(text[start : start + 97])
        reader.close()
        for measurement in reader.measurements:
            measurement.model_dump_json()

    return [_BOARD], read


class _Port:
    """A serial port that gives bytes, and then is unplugged."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)
        self.in_waiting = 61

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        data = self._data.read(size)
        if not data:
            raise OSError
        return data


def _serials() -> tuple[list[bytes], Reader]:
    import time

    from workbench.deploy.simulators import board

    specs = [
        {"type": "tensor", "dtype": dtype, "shape": shape}
        for dtype, shape in (("int8", [1]), ("float32", [2]), ("bool", [1]))
    ]

    def read(data: bytes, folder: Path) -> None:
        del folder
        reading = board._Reading(lambda _lines: None)
        port: Any = _Port(data)
        reading.follow(port, lambda _piece: None, time.monotonic() + 60, lambda: False)
        reading.arrays(specs)

    return [_BOARD, _BOARD.replace(b"[0][1]", b"[1][0]")], read


def _answers() -> tuple[list[bytes], Reader]:
    from tests.workbench.project.builders import make_project
    from workbench.engine.studies.candidate_workers import run_of_answer
    from workbench.engine.workers.cluster import parsed
    from workbench.history.runs import Quality, Run

    project = make_project()
    run = Run(made="2026-01-01T00:00:00+00:00", project="net", target=project.target, rules=(),
              quality=Quality(samples=1, data="x", sqnr_db=20.5))  # fmt: skip
    document = {"run": run.model_dump(mode="json")}
    seeds = [json.dumps(document).encode(), b'{"problem": "Vela refuses."}']

    def read(data: bytes, folder: Path) -> None:
        del folder
        run_of_answer(parsed(data.decode(errors="replace")), project)

    return seeds, read


def _events() -> tuple[list[bytes], Reader]:
    from pydantic import ValidationError

    from workbench import protocol

    lines = [
        line
        for path in sorted((DATA / "sessions").glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]

    def read(data: bytes, folder: Path) -> None:
        (folder / "events").write_bytes(data + b"\n")
        descriptor = os.open(folder / "events", os.O_RDONLY)
        try:
            for batch in protocol.read_lines(descriptor, 1 << 20):
                for line in batch:
                    assert isinstance(line, bytes)
                    protocol.protocol_of(line)
                    protocol.refused_job(line)
                    protocol.encode_event(protocol.decode_event(line))
        finally:
            os.close(descriptor)

    return lines, _answering(read, ValidationError)


def _commands() -> tuple[list[bytes], Reader]:
    from pydantic import ValidationError

    from tests.workbench.project.builders import make_project
    from workbench import protocol

    command = protocol.RunUntil(job="1", project=make_project(), folder="/a", until="lower",
                                 cache_root="/b")  # fmt: skip

    def read(data: bytes, folder: Path) -> None:
        del folder
        protocol.refused_job(data)
        protocol.decode_command(data)

    return [protocol.encode_command(command)], _answering(read, ValidationError)


def _checkpoints() -> tuple[list[bytes], Reader]:
    import numpy as np
    import torch
    from safetensors.torch import save

    from workbench.engine.loading.checkpoint_reading import contents_of, read_checkpoint, state_dicts

    weights = {"a.weight": torch.zeros(3, 4), "a.bias": torch.zeros(3)}
    seeds = [save(weights)]
    for fill in (
        lambda file: torch.save(weights, file),
        lambda file: torch.save({"epoch": 3, "model": weights}, file),
        lambda file: torch.save(weights, file, _use_new_zipfile_serialization=False),
        lambda file: np.savez(file, **{name: value.numpy() for name, value in weights.items()}),
    ):
        buffer = io.BytesIO()
        fill(buffer)
        seeds.append(buffer.getvalue())

    def read(data: bytes, folder: Path) -> None:
        suffix = "safetensors" if data[8:9] == b"{" else "pt"
        (folder / f"a.{suffix}").write_bytes(data)
        content = read_checkpoint(folder / f"a.{suffix}")
        list(state_dicts(content))
        contents_of(content)

    return seeds, read


def _indices() -> tuple[list[bytes], Reader]:
    import numpy as np
    from safetensors.numpy import save

    from workbench.engine.loading.checkpoint_reading import read_checkpoint
    from workbench.project.checkpoints import foreign, weight_files

    seed = json.dumps({"metadata": {}, "weight_map": {"a": "x.safetensors"}}).encode()
    weights = save({"a": np.zeros((2, 3), np.float32)})

    def read(data: bytes, folder: Path) -> None:
        (folder / "x.safetensors").write_bytes(weights)
        path = folder / "model.safetensors.index.json"
        path.write_bytes(data)
        weight_files(path)
        foreign(path, "model.weights")
        read_checkpoint(path)

    return [seed], read


def _pictures() -> tuple[list[bytes], Reader]:
    import numpy as np
    from PIL import Image

    from workbench.project.model import Preprocess
    from workbench.project.pictures import picture

    image = Image.fromarray(np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3))
    seeds = []
    for form in ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM"):
        buffer = io.BytesIO()
        image.save(buffer, form)
        seeds.append(buffer.getvalue())
    settings = Preprocess(size=(16, 16), crop=(8, 8))

    def read(data: bytes, folder: Path) -> None:
        (folder / "a.png").write_bytes(data)
        picture(folder / "a.png", settings, (1, 3, 8, 8))

    return seeds, read


def _texts() -> tuple[list[bytes], Reader]:
    from workbench.engine.data.text import read_text
    from workbench.project.model import DataSource
    from workbench.project.sources import data_reference
    from workbench.results import TensorSpec

    spec = TensorSpec(name="token", shape=(1, 1), dtype="int64")

    def read(data: bytes, folder: Path) -> None:
        (folder / "a.txt").write_bytes(data)
        source = DataSource(spec="a.txt")
        reference = data_reference("a.txt", folder, "calibration")
        # The file is read as a whole before its first sample; a sample is one token of it.
        for sample in itertools.islice(read_text(reference, source, [spec], "calibration", folder), 20):
            del sample

    return ["Ein Häuschen am Fluß. \u4e2d\u6587\n".encode() * 3], read


def _numbers() -> tuple[list[bytes], Reader]:
    from workbench.graph.numbers_file import read_numbers

    seeds = [b'name,latency,energy\nconv2d,1.5,2\n"a,b",3,4\n', b'{"latency": {"conv2d": 1.5}}']

    def read(data: bytes, folder: Path) -> None:
        for suffix in ("csv", "json"):
            path = folder / f"a.{suffix}"
            path.write_bytes(data)
            try:
                read_numbers(path)
            except WorkbenchError:
                continue

    return seeds, read


def _results() -> tuple[list[bytes], Reader]:
    from workbench.pipeline.cache import Cache
    from workbench.results import MANIFEST_FILE, RESULT_FILE, RESULTS, load_arrays, load_result
    from workbench.studies.documents import DOCUMENT_FILE, load_study
    from workbench.studies.search import SearchResult

    manifest = {RESULT_FILE: {"bytes": 2, "sha256": "0" * 64}}
    seeds = [json.dumps(manifest).encode(), b'{"node_count": 3, "warnings": [], "files": []}',
             b'{"candidates": [], "total": 3, "units": [], "limits": {}}']  # fmt: skip

    def read(data: bytes, folder: Path) -> None:
        cache, key = Cache(folder), "ab" * 32
        place = cache.folder(key)
        place.mkdir(parents=True)
        for name in (RESULT_FILE, DOCUMENT_FILE, "arrays.npz"):
            (place / name).write_bytes(data)
        load_study(SearchResult, place)
        kind = list(RESULTS.values())[zlib.crc32(data) % len(RESULTS)]
        # A result in the making has no manifest; the second time it is this one.
        for _ in range(2):
            with contextlib.suppress(WorkbenchError):
                load_result(kind, place)
            with contextlib.suppress(WorkbenchError):
                load_arrays(place)
            (place / MANIFEST_FILE).write_bytes(data)
        cache.has(key)
        cache.prune()
        cache.verify(key)

    return seeds, read


def _graphs() -> tuple[list[bytes], Reader]:
    from workbench.graph.query import find
    from workbench.graph.snapshot import Edge, GraphSnapshot, Module, Node

    names = ["a", "b", "c"]
    nodes = tuple(Node(name, "op", "call") for name in names)
    edges = (Edge("a", "b"), Edge("b", "c"))
    made = GraphSnapshot("float", nodes, edges, (Module("net", "my.Net", "", 3),))
    with tempfile.TemporaryDirectory() as place:
        made.save(Path(place) / "graph.json")
        seed = (Path(place) / "graph.json").read_bytes()

    def read(data: bytes, folder: Path) -> None:
        (folder / "graph.json").write_bytes(data)
        find("a* -b", GraphSnapshot.load(folder / "graph.json"))

    return [seed], read


def _machines() -> tuple[list[bytes], Reader]:
    from workbench.deploy.simulators import discovery

    settings = discovery.MachineSettings(
        board=discovery.BoardLink(port="/dev/ttyACM0", baud=115200, flash="probe-rs {elf}")
    )

    def read(data: bytes, folder: Path) -> None:
        before = os.environ.get("QUANTIZATION_WORKBENCH_CONFIG")
        os.environ["QUANTIZATION_WORKBENCH_CONFIG"] = str(folder)
        try:
            discovery.settings_path().write_bytes(data)
            discovery.find_all(discovery.load_settings())
        finally:
            if before is None:
                del os.environ["QUANTIZATION_WORKBENCH_CONFIG"]
            else:
                os.environ["QUANTIZATION_WORKBENCH_CONFIG"] = before

    return [settings.model_dump_json().encode()], read


def _outcomes() -> tuple[list[bytes], Reader]:
    from workbench.history.outcomes import read_outcome

    outcome = {"project": "net", "target": "ethos-u55-128", "rules": {}, "versions": {}}
    seed = json.dumps({"outcome": {**outcome, "figures": {}, "layers": {}}})

    def read(data: bytes, folder: Path) -> None:
        (folder / "manifest.json").write_bytes(data)
        read_outcome(folder)

    return [seed.encode()], read


def _jobs() -> tuple[list[bytes], Reader]:
    import numpy as np

    from workbench.cli.arrays import read_jobs
    from workbench.engine.jobs.array_jobs import answer_formats, answer_nnpa

    buffer = io.BytesIO()
    np.save(buffer, np.eye(4, dtype=np.float32))
    array = buffer.getvalue()
    jobs = [
        {"in": "a.npy", "scheme": "integer", "out": "b.npy", "params": {"width": 8}},
        {"in": "a.npy", "scheme": "mxint", "out": "b.npy", "role": "weight"},
        {"in": "a.npy", "mode": "asymmetric", "out": "b.npy"},
        {"a": "a.npy", "b": "a.npy", "mode": "symmetric", "numerics": "stock", "out": "b.npy"},
    ]

    def read(data: bytes, folder: Path) -> None:
        (folder / "jobs.json").write_bytes(data)
        (folder / "a.npy").write_bytes(array)
        given = read_jobs(folder / "jobs.json")
        for job in given:
            # A job writes where it says.
            if isinstance(job, dict) and isinstance(job.get("out"), str):
                job["out"] = "b.npy"
        with contextlib.chdir(folder):
            answer_formats({"jobs": given}, folder / "answer.json")
            for operation in ("quantize", "matmul"):
                answer_nnpa({"operation": operation, "jobs": given}, folder / "answer.json")

    return [json.dumps([job]).encode() for job in jobs] + [json.dumps(jobs).encode()], read


def _plugins() -> tuple[list[bytes], Reader]:
    from workbench.project.plugins import items_of

    seed = b'"""Own."""\n\n\ndef mine(is_qat):\n    """Mine."""\n\n\n'
    seed += b"CONFIGS = [mine]\nOBSERVERS = (x,)\n"

    def read(data: bytes, folder: Path) -> None:
        (folder / "own.py").write_bytes(data)
        items_of("own.py", folder)

    return [seed], read


def _digests() -> tuple[list[bytes], Reader]:
    from workbench.pipeline.keys import Digests

    def read(data: bytes, folder: Path) -> None:
        (folder / "digests.json").write_bytes(data)
        digests = Digests(folder / "digests.json")
        digests.of(folder / "digests.json")

    return [json.dumps({"/a/b": [[1, 2, 3, 4], "0" * 64]}).encode()], read


def _queries() -> tuple[list[bytes], Reader]:
    from workbench.project import patterns

    seeds = [b"conv*", b"(?:a|b)+x{2,3}", b"[a-z]+\\d.*?(b|c)$", b"re:layers\\.[0-9]+"]

    def read(data: bytes, folder: Path) -> None:
        del folder
        text = data.decode(errors="replace")
        if not patterns.fault(text):
            patterns.fits(text, "layers.3.conv2d" * 20)

    return seeds, read


def _windows() -> tuple[list[bytes], Reader]:
    from ui.state.settings import Settings

    texts = {
        "theme": "dark",
        "warm_engines": "true",
        "graph_flow": "right",
        "cache_limit_gib": "20",
        "recents": "/a.qwb\n/b.qwb",
        "pins/ab": "3",
        "layouts/one/inner": "AAAA/w==",
        "layouts/one/geometry": "Adk=",
        "folders/open": "/tmp",
    }
    seed = json.dumps(texts).encode()

    def read(data: bytes, folder: Path) -> None:
        (folder / "window.json").write_bytes(data)
        settings = Settings(folder)
        for name in ("theme", "warm_engines", "lower_ahead", "live", "graph_flow"):
            getattr(settings, name)
        assert 0 < settings.cache_limit_bytes < 1 << 63
        for path in settings.recents:
            os.path.exists(path)
        settings.pinned("x")
        settings.folder_of("open")
        for name in settings.layouts():
            settings.layout(name)

    return [seed], read


def _labels() -> tuple[list[bytes], Reader]:
    """Return readers of boxes: a file of COCO, and a text of YOLO."""
    from workbench.engine.data.labels import read_labels
    from workbench.engine.data.objects import View
    from workbench.project.model import DataSource

    coco = {
        "images": [{"id": 1, "file_name": "a.png", "width": 40, "height": 30}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 2, "bbox": [1, 2, 3.5, 4]}],
        "categories": [{"id": 2, "name": "x"}],
    }
    seeds = [json.dumps(coco).encode(), b"0 0.5 0.5 0.25 0.5\n1 0.1 0.1 0.2 0.1 0.3 0.4\n"]

    def read(data: bytes, folder: Path) -> None:
        (folder / "texts").mkdir(exist_ok=True)
        is_json = data.lstrip()[:1] == b"{"
        (folder / ("boxes.json" if is_json else "texts/a.txt")).write_bytes(data)
        source = DataSource(spec="x.npy", labels="boxes.json" if is_json else "texts")
        labels = read_labels(source, folder, "evaluation.data")
        if labels is not None and labels.has_places:
            for value in dict(labels.values).values():
                value.truth(View(40, 30))

    return seeds, read


def _decoded() -> tuple[list[bytes], Reader]:
    """Return a reader of what decoders return."""
    from workbench.engine.evaluation.tasks.detection import objects_of, selected
    from workbench.project.model import ObjectSelection

    seeds = [b'{"boxes": [[1, 2, 3, 4]], "scores": [0.5], "classes": [1]}',
             b'[[[1, 2, 3, 4], [5, 6, 7, 8]], [[0.5, 0.25], [0, 1]]]']  # fmt: skip

    def read(data: bytes, folder: Path) -> None:
        del folder
        selected(objects_of(json.loads(data), ""), ObjectSelection())

    return seeds, _answering(read, ValueError, RecursionError)


def _onnx() -> tuple[list[bytes], Reader]:
    """Return a reader of models in ONNX: what they name, and what is converted before it runs."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    from workbench.engine.loading import onnx_import
    from workbench.project.onnx_files import external_files

    weight = numpy_helper.from_array(np.ones((3, 2, 3, 3), np.float32), "w")
    elsewhere = TensorProto()
    elsewhere.CopyFrom(weight)
    onnx.external_data_helper.set_external_data(elsewhere, "w.bin", offset=0, length=216)
    elsewhere.ClearField("raw_data")
    bias = numpy_helper.from_array(np.ones((1, 2, 1, 1), np.float32), "w")
    # One node each: the cost of a model is that of its nodes.
    rows: list[tuple[TensorProto, str, dict[str, object], list[int]]] = [
        (weight, "Conv", {"kernel_shape": [3, 3]}, [1, 3, 4, 4]),
        (elsewhere, "Conv", {"kernel_shape": [3, 3]}, [1, 3, 4, 4]),
        (bias, "Add", {}, [1, 2, 6, 6]),
    ]
    seeds = []
    for tensor, operator, attributes, shape in rows:
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size)
                for name, size in (("x", [1, 2, 6, 6]), ("y", shape))]  # fmt: skip
        node = helper.make_node(operator, ["x", "w"], ["y"], **attributes)
        graph = helper.make_graph([node], "net", ends[:1], ends[1:], [tensor])
        opset = [helper.make_opsetid("", 18)]
        seeds.append(helper.make_model(graph, opset_imports=opset).SerializeToString())

    def read(data: bytes, folder: Path) -> None:
        (folder / "a.onnx").write_bytes(data)
        (folder / "w.bin").write_bytes(bytes(216))
        external_files(folder / "a.onnx")
        onnx_import.load(folder / "a.onnx", None, "")

    return seeds, read


def _etrecords() -> tuple[list[bytes], Reader]:
    import zipfile

    from workbench.deploy.simulators import etrecord

    node = {"target": "aten.ops.add", "metadata": {"debug_handle": 1, "nn_module_stack": "a,b,c;d,e,f"}}
    entries = {
        etrecord._MARK: "",
        etrecord._PROGRAM: json.dumps({"graph_module": {"graph": {"nodes": [node, node]}}}),
        etrecord._HANDLES: json.dumps({etrecord._METHOD: {"0": 1, "1": [1, 2]}}),
        etrecord._DELEGATES: json.dumps({etrecord._METHOD: {"1": {"name": "EthosU"}}}),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in entries.items():
            archive.writestr(name, text)

    def read(data: bytes, folder: Path) -> None:
        del folder
        etrecord.read_record(data)

    return [buffer.getvalue()], read


def _silicon() -> tuple[list[bytes], Reader]:
    from workbench.analysis import silicon

    seeds = [path.read_bytes()[:2500] for path in sorted(silicon.SHIPPED.glob("*.toml"))]

    def read(data: bytes, folder: Path) -> None:
        (folder / "a.toml").write_bytes(data)
        for row in silicon.read(folder / "a.toml").row:
            _ = row.ratio

    return [seed[: seed.rfind(b"\n[[row]]")] for seed in seeds], read


def _networks() -> tuple[list[bytes], Reader]:
    """Return a reader of networks in TensorFlow Lite that Vela has not compiled."""
    from workbench.npu.program import load
    from workbench.pte.tflite_model import read_tflite

    compiled = (DATA / "programs" / "resize_u85_vela.tflite").read_bytes()

    def read(data: bytes, folder: Path) -> None:
        path = folder / "a.tflite"
        path.write_bytes(data)
        _ = read_tflite(data).on_cpu
        load(path)

    return [compiled], read


KINDS: dict[str, Kind] = {
    "onnx": _onnx, "etrecords": _etrecords, "silicon": _silicon, "networks": _networks,
    "labels": _labels, "decoded": _decoded,
    "inis": _inis, "tflites": _tflites, "vela_outputs": _vela_outputs, "trusts": _trusts,
    "uarts": _uarts, "serials": _serials, "answers": _answers, "events": _events,
    "commands": _commands, "checkpoints": _checkpoints, "indices": _indices,
    "pictures": _pictures, "texts": _texts, "numbers": _numbers, "results": _results,
    "graphs": _graphs,
    "machines": _machines, "outcomes": _outcomes, "jobs": _jobs, "plugins": _plugins,
    "digests": _digests, "patterns": _queries, "windows": _windows,
}  # fmt: skip
# Kinds whose inputs are archives: half of them change one record.
ARCHIVE_KINDS = frozenset({"archives", "arrays", "checkpoints", "etrecords"})
# Kinds whose inputs are mutated as JSON most of the time.
JSON_KINDS = frozenset({
    "projects", "trusts", "answers", "events", "commands", "indices", "results", "graphs",
    "machines", "outcomes", "jobs", "digests", "labels", "decoded",
})  # fmt: skip
