"""A disk that is full at any byte: a stage fails in one sentence, nothing half stays, it heals.

An engine process whose files cannot grow beyond a size meets the fault wherever bytes are written,
also in the libraries of the toolchain.
"""

import compileall
import random
import resource
from pathlib import Path

import pytest

import workbench
from workbench.ids import STAGE_IDS
from workbench.pipeline.plan import plan
from workbench.project.opened import OpenProject
from workbench.protocol import JobFinished, Ready, StageFailed, StageFinished

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module", autouse=True)
def compiled_sources():
    """Compile the sources before: Python up to 3.12 keeps byte code that a limit cuts short."""
    compileall.compile_dir(Path(workbench.__file__).parent, quiet=1)


def full_after(size):
    """Let no file of an engine grow beyond a size [bytes], as on a full disk."""

    def on_event(engine, event):
        if isinstance(event, Ready):
            resource.prlimit(engine.pid, resource.RLIMIT_FSIZE, (size, -1))

    return on_event


def survives(lane, size):
    """Run all stages with a limit; return the stage that failed, "" if none."""
    lane.run("package", full_after(size))
    for folder in (lane.cache.root / "results").glob("*/*"):
        assert lane.cache.verify(folder.name), (size, folder)
    assert list((lane.cache.root / "partial").iterdir()) == []
    failed = lane.kinds(StageFailed)
    if not failed:
        assert lane.kinds(JobFinished)[0].outcome == "done"
        return ""
    (event,) = failed
    assert [info.code for info in event.infos] == ["cache-not-writable"], (size, event)
    assert "Traceback" not in event.infos[0].message
    return event.stage


def sizes_of(lane):
    """Return the sizes of all files that the stages write, by stage [bytes]."""
    planned = plan(OpenProject(lane.project, lane.path.parent), lane.cache)
    return {
        stage: [p.stat().st_size for p in lane.cache.folder(planned.key(stage)).iterdir()]
        for stage in STAGE_IDS
    }


@pytest.mark.slow
def test_that_a_full_disk_fails_a_stage_in_one_sentence_and_the_next_run_heals(lane):
    assert [survives(lane, size) for size in (100, 6_000)] == ["import_model", "export"]
    lane.run("convert")
    assert lane.kinds(JobFinished)[0].outcome == "done"
    assert {e.stage for e in lane.kinds(StageFinished) if e.cached} == {"import_model"}


@pytest.mark.slow
def test_that_every_stage_survives_a_disk_that_is_full_anywhere_in_its_files(digits_lane):
    lane = digits_lane
    lane.run("package")
    sizes, source, failed = sizes_of(lane), random.Random(1), set()
    for stage in STAGE_IDS:
        lane.run("package")
        largest = max(sizes[stage])
        for size in sorted({0, 1, 512, largest // 2, largest - 1, source.randrange(largest)}):
            # What came before stays; this stage and those after it are made again.
            for later in STAGE_IDS[STAGE_IDS.index(stage) :]:
                lane.cache.remove(plan(OpenProject(lane.project, lane.path.parent), lane.cache).key(later))
            assert survives(lane, size) == stage, (stage, size)
            failed.add(stage)
    assert failed == set(STAGE_IDS)
    lane.run("package")
    assert lane.kinds(JobFinished)[0].outcome == "done"
