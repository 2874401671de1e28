"""Stored files that are read short, as zeros or with an error: a message or what was stored."""

import json

import pytest

from tests.faults import failing_reads
from tests.for_each import for_each
from tests.workbench.project.builders import make_project
from workbench import disk_cache
from workbench.deploy.simulators.discovery import MachineSettings, load_settings, save_settings
from workbench.errors import WorkbenchError
from workbench.files import write_file
from workbench.graph.numbers_file import read_numbers
from workbench.history.store import History
from workbench.pipeline.cache import Cache
from workbench.pipeline.keys import Digests
from workbench.project import store
from workbench.project.project_code import Code
from workbench.project.trust import TrustStore
from workbench.results import ARRAYS_FILE, MANIFEST_FILE, ImportResult, load_arrays, load_result, save_result
from workbench.studies.documents import Blame, load_study, save_study
from workbench.studies.sample import load_values, save_values

np = pytest.importorskip("numpy")
KEY = "ab" * 32


def saved_project(folder):
    store.save(make_project(), folder / "net.qwb")
    return lambda: store.load(folder / "net.qwb")


def trust(folder):
    trusted = TrustStore(folder / "trust.json")
    trusted.grant(Code(places={"/a": "1"}), "a")
    return lambda: {place: grant.digest for place, grant in trusted.granted().items()}


def machine(folder):
    save_settings(MachineSettings(executorch="/x"))
    return load_settings


def result(folder):
    cache = Cache(folder)
    with cache.writing(KEY) as out:
        found = ImportResult(model_class="Net", parameters=1, parameter_bytes=4, inputs=())
        save_result(found, out)
        np.savez(out / ARRAYS_FILE, x=np.arange(100.0))
    return lambda: load_result(ImportResult, cache.folder(KEY))


def arrays(folder):
    result(folder)
    return lambda: {n: a.tolist() for n, a in load_arrays(Cache(folder).folder(KEY)).items()}


def whole(folder):
    result(folder)
    return lambda: Cache(folder).has(KEY)


def study(folder):
    save_study(Blame(reason="old"), folder)
    return lambda: load_study(Blame, folder)


def sample(folder):
    save_values({"float": np.arange(50, dtype=np.float32)}, folder)
    return lambda: {n: a.tolist() for n, a in load_values(folder).items()}


def digests(folder):
    weights = folder.with_name(f"{folder.name}-weights")
    weights.write_bytes(b"data")
    memory = Digests(folder / "digests.json")
    memory.of(weights)
    memory.remember()
    return lambda: Digests(folder / "digests.json").of(weights)


def remembered(folder):
    disk_cache.remember("a", b"payload" * 50)
    return lambda: disk_cache.recall("a")


def numbers(folder):
    (folder / "a.json").write_text(json.dumps({"conv": {"x": 1.5}}))
    return lambda: read_numbers(folder / "a.json").columns


# What may be read instead of what was stored: nothing, so that it is made anew.
KINDS = {
    saved_project: None,
    trust: {},
    machine: None,
    result: None,
    arrays: None,
    whole: False,
    study: None,
    sample: {},
    digests: None,
    remembered: None,
    numbers: None,
}


@pytest.mark.parametrize("how", ["short", "zeroed", "error"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_that_a_stored_file_that_is_read_with_a_fault_is_not_taken_as_whole(tmp_path, monkeypatch, kind, how):
    monkeypatch.setattr(disk_cache, "folder", lambda: tmp_path)
    monkeypatch.setenv("QUANTIZATION_WORKBENCH_CONFIG", str(tmp_path))
    read = kind(tmp_path)
    expected, count = read(), 0
    for _, attempt in failing_reads(tmp_path, how):
        try:
            with attempt:
                found = read()
        except WorkbenchError as error:
            found = None if all(error.codes) else error
        assert found is None or found in (expected, KINDS[kind])
        count += attempt.count > 0
    assert count > 0
    assert read() == expected


def test_that_a_history_cut_at_any_length_gives_one_problem_and_takes_new_runs(tmp_path):
    whole = tmp_path / "whole.sqlite"
    History(whole).close()
    data = whole.read_bytes()
    for length in range(0, len(data), 997):
        path = tmp_path / f"{length}.sqlite"
        write_file(path, data[:length])
        history = History(path)
        assert history.runs() == []
        assert length < 100 or history.problem is None or history.problem.code
        history.close()


@for_each("damage", ["lost", "empty", "short", "zeroed", "other"])
@for_each("name", ["result.json", ARRAYS_FILE, MANIFEST_FILE, ""])
def test_that_an_entry_that_a_power_loss_damaged_is_noticed_and_made_again(tmp_path, name, damage):
    cache = Cache(tmp_path)
    result(tmp_path)
    before = {p.name: p.read_bytes() for p in cache.folder(KEY).iterdir()}
    assert name in before or not name
    for path in list(cache.folder(KEY).iterdir()):
        if path.name == name or not name:
            data = path.read_bytes()
            path.unlink()
            changed = {
                "empty": b"",
                "short": data[: len(data) // 2],
                "zeroed": bytes(len(data)),
                "other": data[:-1] + bytes([data[-1] ^ 1]),
            }
            if damage != "lost":
                path.write_bytes(changed[damage])
    assert not (cache.has(KEY) and cache.verify(KEY))
    result(tmp_path)
    assert cache.verify(KEY)
    assert cache.folder(KEY).joinpath("result.json").read_bytes() == before["result.json"]
