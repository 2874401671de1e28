"""An engine that does many jobs stays as large as after its first ones."""

import gc
import weakref

import numpy as np
import pytest

from tests.engine.in_process import NETWORKS, allowed, project
from workbench.engine.runtime.context import LiveObjectCache
from workbench.engine.runtime.process_memory import ProcessMemory, release_programs
from workbench.engine_process import EngineProcess
from workbench.operating_system import resident_bytes
from workbench.project.configs import FixedRange
from workbench.protocol import JobFinished, Ready, RunUntil
from workbench.system_limits import GROWTH_LIMIT

pytestmark = pytest.mark.engine
_JOBS, _FIRST_JOBS = 20, 8
# Of the limit for an engine that is renewed when it has grown by 200 MB.
_MOST_MB_A_JOB = 1.2


def test_that_caches_of_the_toolchain_keep_no_program_after_a_job():
    import torch
    from executorch.exir.backend.utils import is_same_node
    from torchao.utils import _assert_and_get_unique_device

    program = torch.fx.symbolic_trace(torch.nn.Linear(2, 2))
    node = next(iter(program.graph.nodes))
    assert is_same_node(node, node)
    _assert_and_get_unique_device(program)
    kept = weakref.ref(program)
    del program, node
    gc.collect()
    assert kept() is not None
    release_programs()
    assert kept() is None


def test_that_a_program_that_is_in_use_keeps_its_source():
    import inspect

    import torch

    program = torch.fx.symbolic_trace(torch.nn.Linear(2, 2))
    release_programs()
    assert "return" in inspect.getsource(program.forward)


@pytest.mark.slow
def test_that_growth_is_told_once_older_live_objects_are_dropped():
    store = LiveObjectCache()
    for number in range(20):
        store.keep("export", str(number), number)
    base, sizes = 500_000_000, []
    memory = ProcessMemory(store, lambda: sizes.pop(0))
    sizes[:] = [base]
    assert memory.after_job() == 0
    # Growth that ends with the older objects.
    sizes[:] = [base + 2 * GROWTH_LIMIT, base + 1]
    assert memory.after_job() == 0
    assert store.get("export", "19") == 19
    assert store.get("export", "2") is None
    # Growth that stays.
    sizes[:] = [base + 2 * GROWTH_LIMIT] * 2
    assert memory.after_job() == 2 * GROWTH_LIMIT


@pytest.mark.slow
def test_that_an_engine_does_not_grow_with_its_jobs(tmp_path):
    given = project("small")
    (tmp_path / "networks.py").write_bytes(NETWORKS.read_bytes())
    engine = EngineProcess()
    engine.run_log(lambda _line: None)

    def send(number):
        ranges = (FixedRange(tensor="relu", minimum=0.0, maximum=5.0 + 0.01 * number),)
        engine.send(
            allowed(
                RunUntil(
                    job=str(number),
                    project=given.model_copy(update={"ranges": ranges}),
                    folder=str(tmp_path),
                    until="lower",
                    cache_root=str(tmp_path / "cache"),
                )
            )
        )

    sizes = []
    for event in engine.events():
        if isinstance(event, Ready):
            send(0)
        elif isinstance(event, JobFinished):
            assert event.outcome == "done"
            sizes.append(resident_bytes(engine.pid) / 1e6)
            if len(sizes) < _JOBS:
                send(len(sizes))
            else:
                engine.stop()
    late = sizes[_FIRST_JOBS:]
    assert np.polyfit(range(len(late)), late, 1)[0] < _MOST_MB_A_JOB, sizes
