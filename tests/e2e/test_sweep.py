"""A sweep's figures are those of a real lowering for each device, here or on a cluster."""

import json
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.engine

ASKED = (
    "--targets",
    "ethos-u55-64",
    "ethos-u85-256",
    "--memory-modes",
    "Sram_Only",
    "Dedicated_Sram_256KB",
    "--arena-cache",
    "4096",
    "65536",
)


@pytest.fixture(scope="module")
def swept(digits):
    workbench, path, _ = digits
    done = workbench("sweep", path, *ASKED, "--json", "--trust")
    assert done.code == 0, done.err
    return workbench, path, done.document["points"]


def test_that_every_point_is_there_with_figures_or_a_reason(swept):
    _, _, points = swept
    assert len(points) == 2 * 2 * 2
    for point in points:
        fits = point["memory_mode"] == "Sram_Only" or point["target"] != "ethos-u55-64"
        assert (point["problem"] is None) == fits
        assert ("cycles_total" in point) == fits


@pytest.mark.slow
@pytest.mark.parametrize("number", [pytest.param(0, marks=pytest.mark.slow), -1])
def test_that_a_point_equals_lowering_for_that_device(swept, tmp_path, number):
    workbench, path, points = swept
    wanted = points[number]
    moved = tmp_path / "moved"
    shutil.copytree(path.parent, moved)
    document = json.loads(path.read_text())
    options = ("system_config", "memory_mode", "optimise", "arena_cache_bytes")
    chosen = {name: wanted[name] for name in options}
    document["target"] = {"id": wanted["target"], "options": chosen}
    (moved / path.name).write_text(json.dumps(document))
    arguments = ("--until", "lower", "--skip", "evaluate", "--json", "--trust")
    done = workbench("run", moved / path.name, *arguments)
    assert done.code == 0, done.err
    (report,) = done.document["lower"]["vela"]
    figures = ("cycles_total", "sram_bytes", "flash_bytes", "macs")
    assert {n: report[n] for n in figures} == {n: wanted[n] for n in figures}


def test_that_a_second_sweep_estimates_nothing_anew(swept):
    workbench, path, points = swept
    again = workbench("sweep", path, *ASKED, "--json", "--trust", "--scheduler", "tcp://nowhere:1")
    assert again.code == 0, again.err
    assert again.document["points"] == points


@pytest.mark.slow
def test_that_a_dask_cluster_gives_the_same_figures(swept):
    distributed = pytest.importorskip("distributed")
    workbench, path, points = swept
    # Only what the local processes estimated is forgotten, not the lowered programs.
    shutil.rmtree(workbench.folder / "cache" / "studies")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, processes=True
    ) as cluster:
        address = cluster.scheduler_address
        there = workbench("sweep", path, *ASKED, "--json", "--trust", "--scheduler", address)
    assert there.code == 0, there.err
    assert there.document["points"] == points


def test_that_points_none_of_which_fits_are_refused_before_anything_runs(digits, codes):
    workbench, path, _ = digits
    done = workbench("sweep", path, "--memory-modes", "Dedicated_Sram", "--trust")
    assert done.code == 2
    assert codes == ["sweep-nothing-compilable"]
    assert "convert" not in done.err


@pytest.mark.slow
def test_that_no_scheduler_is_a_sentence(digits, codes):
    workbench, path, _ = digits
    done = workbench("sweep", path, "--arena-cache", "12288", "--trust", "--scheduler", "tcp://127.0.0.1:9")
    assert done.code == 1
    assert codes == ["cluster-unreachable"]
    assert "tcp://127.0.0.1:9" in done.err


@pytest.mark.slow
def test_that_points_of_an_own_ini_equal_lowering_with_it(swept, tmp_path):
    workbench, path, _ = swept
    moved = tmp_path / "moved"
    shutil.copytree(path.parent, moved)
    (moved / "own.ini").write_text(
        "[System_Config.Mine]\ncore_clock=250e6\naxi0_port=Sram\naxi1_port=Dram\n"
        "Sram_clock_scale=0.25\nDram_clock_scale=0.1\n"
        "[Memory_Mode.A]\nconst_mem_area=Axi1\narena_mem_area=Axi0\ncache_mem_area=Axi0\n"
        "[Memory_Mode.B]\ninherit=Memory_Mode.A\narena_mem_area=Axi1\narena_cache_size=65536\n"
    )
    done = workbench("sweep", path, "--ini", moved / "own.ini", "--memory-modes", "all", "--json", "--trust")
    assert done.code == 0, done.err
    points = done.document["points"]
    assert [(p["system_config"], p["memory_mode"]) for p in points] == [("Mine", "A"), ("Mine", "B")]
    document = json.loads(path.read_text())
    chosen = {"config_ini": "own.ini", "system_config": "Mine", "memory_mode": "B"}
    document["target"] = {"id": points[1]["target"], "options": chosen}
    (moved / path.name).write_text(json.dumps(document))
    done = workbench("run", moved / path.name, "--until", "lower", "--skip", "evaluate", "--json", "--trust")
    assert done.code == 0, done.err
    (report,) = done.document["lower"]["vela"]
    figures = ("cycles_total", "inference_ms", "sram_bytes", "flash_bytes")
    assert {n: report[n] for n in figures} == {n: points[1][n] for n in figures}


@pytest.mark.slow
def test_that_less_sram_is_estimated_from_the_same_program(swept):
    workbench, path, _ = swept
    done = workbench("sweep", path, "--sram-budgets", "--json", "--trust")
    assert done.code == 0, done.err
    fast, small, *_ = done.document["points"]
    assert (fast["optimise"], small["optimise"]) == ("Performance", "Size")
    assert small["sram_bytes"] <= fast["sram_bytes"]
    both = workbench("sweep", path, "--sram-budgets", "--targets", "all", "--trust")
    assert both.code == 2
    assert "cannot be combined with --targets" in both.err


def test_that_a_worker_that_estimates_needs_no_torch():
    modules = "workbench.engine.studies.estimates, workbench.engine.ethos_u.estimate"
    code = f"import sys, {modules}; sys.exit(bool({{'torch', 'executorch'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0
