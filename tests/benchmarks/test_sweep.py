"""What a sweep costs beside the compilations it cannot do without: a ratio of one run.

Run with ``pytest -m benchmark -s tests/benchmarks/test_sweep.py``.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workbench.engine_process import EngineProcess
from workbench.pipeline.cache import Cache
from workbench.project import store
from workbench.project.opened import OpenProject
from workbench.project.trust import named_code
from workbench.protocol import JobFinished, Ready, RunStudy
from workbench.studies.documents import load_study, study_folder, study_key
from workbench.studies.sweep import SweepPoint, SweepResult

pytestmark = pytest.mark.benchmark

MOBILENET = Path(__file__).parents[2] / "resources" / "samples" / "mobilenet_v2"
TARGETS = [f"ethos-u55-{macs}" for macs in (32, 64, 128, 256)]
LIMITS = [kib * 1024 for kib in (384, 512, 768, 1024, 2048)]
BARE = """
import json, sys, time
from pathlib import Path
from ethosu import regor
from workbench.engine.ethos_u.estimate import estimate
tosa = [Path(sys.argv[1]).read_bytes()]
spent, stock = [0.0], regor.compile
def timed(*arguments, **rest):
    begun = time.perf_counter()
    try:
        return stock(*arguments, **rest)
    finally:
        spent[0] += time.perf_counter() - begun
regor.compile = timed
for point in json.loads(sys.argv[2]):
    estimate(tosa, point["target"], point["options"], {})
print(spent[0])
"""


def swept(project: Path, cache_root: Path) -> tuple[float, tuple[SweepPoint, ...]]:
    """Return how long an engine took that was ready, and the points."""
    made, folder = store.load(project), project.parent
    axes = {"memory_mode": ["all"], "arena_cache_bytes": LIMITS}
    options = {"targets": TARGETS, "axes": axes}
    command = RunStudy(
        job="sweep",
        study="sweep",
        project=made,
        folder=str(folder),
        options=options,
        cache_root=str(cache_root),
        code=named_code(OpenProject(made, folder)).digest,
    )
    engine, begun, seconds = EngineProcess(), 0.0, 0.0
    engine.run_log(lambda line: None)
    for event in engine.events():
        if isinstance(event, Ready):
            begun = time.perf_counter()
            engine.send(command)
        elif isinstance(event, JobFinished):
            seconds = time.perf_counter() - begun
            engine.stop()
    key = study_key("sweep", OpenProject(made, folder), Cache(cache_root), options)
    found = load_study(SweepResult, study_folder(Cache(cache_root), key))
    assert found is not None
    return seconds, found.points


def test_that_a_sweep_costs_little_beside_the_compilations(tmp_path, measured):
    shutil.copytree(MOBILENET, tmp_path / "mobilenet_v2")
    project = tmp_path / "mobilenet_v2" / "mobilenet_v2.qwb"
    environment = {
        **os.environ,
        "QUANTIZATION_WORKBENCH_CACHE": str(tmp_path / "cache"),
        "QUANTIZATION_WORKBENCH_CONFIG": str(tmp_path / "config"),
    }

    def run(*command: object) -> tuple[float, str]:
        begun = time.perf_counter()
        done = subprocess.run(
            [sys.executable, *map(str, command)],
            check=True,
            capture_output=True,
            text=True,
            env=environment,
            timeout=900,
        )
        return time.perf_counter() - begun, done.stdout

    run("-m", "workbench", "run", project, "--until", "lower", "--skip", "evaluate", "--trust")
    seconds, points = swept(project, tmp_path / "cache")
    bare = [{"target": p.target.id, "options": dict(p.target.options)} for p in points]
    (tosa,) = (tmp_path / "cache").glob("results/*/*/delegate_0.tosa")
    cores = min(os.cpu_count() or 1, len(points))
    # At the same time: two processes share more than a core each has alone, such as its caches.
    shares = [json.dumps(bare[first::cores]) for first in range(cores)]
    with ThreadPoolExecutor(cores) as pool:
        alone = [float(text) for _, text in pool.map(lambda s: run("-c", BARE, tosa, s), shares)]
    assert len(points) == 40
    ratio = seconds / (sum(alone) / cores)
    measured("40 points of MobileNetV2 swept, against bare Vela on as many cores", ratio)
