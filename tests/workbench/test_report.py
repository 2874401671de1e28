"""The report stands alone, and says what is missing."""

import json
import re
from pathlib import Path

from tests.fakes import fvp, runner_elf
from tests.fakes.results import write_result
from tests.problems import refused
from tests.workbench.project.builders import make_project, rule
from workbench.deploy import boards
from workbench.deploy.simulators.discovery import MachineSettings, save_settings
from workbench.installation import data_folder
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project import store
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject
from workbench.report import page
from workbench.results import Deliverable, PackageResult, save_result

PROGRAM = Path(__file__).parents[1] / "data" / "programs" / "u55.pte"


def text_of(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.partition("<body>")[2]))


def made(tmp_path, **fields):
    (tmp_path / "model.py").write_text("def net(): ...\n")
    project = make_project(rule("r1", "global"), rule("r2", "module_name", "<head>", "a16w8"), **fields)
    path = tmp_path / "net.qwb"
    store.save(project, path)
    return page(OpenProject(project, tmp_path, path), Cache(tmp_path / "cache"))


def test_that_a_project_without_results_says_what_was_not_run(tmp_path):
    html = made(tmp_path)
    assert "<svg" not in html
    text = text_of(html)
    assert "Not run for the present configuration: Evaluate, Compile, Verify, Package." in text
    assert "global" in text
    assert "a16w8" in text
    assert "Cost" not in text


def test_that_names_cannot_become_markup(tmp_path):
    html = made(tmp_path, name="<script>alert(1)</script>")
    assert "<script" not in html
    assert "&lt;head&gt;" in html


def test_that_the_page_loads_nothing_from_outside(tmp_path):
    html = made(tmp_path)
    assert not re.search(r"(src|href)\s*=|@import|url\(", html)


def test_that_the_report_draws_every_memory_with_its_peak(tmp_path):
    project = make_project(rule("r1", "global"), target=TargetChoice(id="ethos-u55-128"))
    (tmp_path / "model.py").write_text("def net(): ...\n")
    cache, path = Cache(tmp_path / "cache"), tmp_path / "net.qwb"
    store.save(project, path)
    with cache.writing(plan(OpenProject(project, tmp_path), cache).key("lower")) as folder:
        write_result("lower", folder)
    html = page(OpenProject(project, tmp_path, path), cache)
    assert "Sram, up to 4.0 KiB" in text_of(html)
    assert html.count('class="live"') == 3
    assert "conv2d stem.conv: 3,072 bytes at 0x400" in html


def test_that_a_run_on_a_simulator_is_told_beside_the_estimate(tmp_path):
    project = make_project(rule("r1", "global"), target=TargetChoice(id="ethos-u55-128"))
    (tmp_path / "model.py").write_text("def net(): ...\n")
    runner = tmp_path / "runner.elf"
    runner.write_bytes(runner_elf.runner("u55"))
    simulator = fvp.install(tmp_path / "fvp", "FVP_Corstone_SSE-300_Ethos-U55")
    save_settings(MachineSettings(simulators={"u55": str(simulator)}, runners=(str(runner),)))
    cache, path = Cache(tmp_path / "cache"), tmp_path / "net.qwb"
    store.save(project, path)
    with cache.writing(plan(OpenProject(project, tmp_path), cache).key("run")) as folder:
        write_result("run", folder)
    text = text_of(page(OpenProject(project, tmp_path, path), cache))
    assert "On the simulator" in text
    assert "Measured on FVP_Corstone_SSE-300_Ethos-U55 11.27.42 with arm_executor_runner." in text
    assert "NPU cycles of one inference 1,180 1,000" in text
    assert "Conv2D stem.conv 900 1,098 198" in text


def test_that_the_board_stands_with_what_lies_in_each_memory(tmp_path):
    (tmp_path / "model.py").write_text("def net(): ...\n")
    project = boards.put(OpenProject(make_project(rule("r1", "global")), tmp_path), "himax-we2")
    cache, path = Cache(tmp_path / "cache"), tmp_path / "net.qwb"
    store.save(project, path)
    with cache.writing(plan(OpenProject(project, tmp_path), cache).key("lower")) as folder:
        write_result("lower", folder)
        (folder / "program.pte").write_bytes(PROGRAM.read_bytes())
    text = text_of(page(OpenProject(project, tmp_path, path), cache))
    assert "Fits Himax WiseEye2 (Grove Vision AI Module V2) (size from a secondary source" in text
    assert "scratch pool (computed from the program)" in text
    assert "2,048.0 KiB, not confirmed" in text


def test_that_the_report_says_with_which_firmware_its_program_was_proven(tmp_path):
    project = make_project(rule("r1", "global"), target=TargetChoice(id="ethos-u55-128"))
    (tmp_path / "model.py").write_text("def net(): ...\n")
    cache, path = Cache(tmp_path / "cache"), tmp_path / "net.qwb"
    store.save(project, path)
    file = Deliverable(name="net.pte", bytes=1, sha256="12" * 32, purpose="")
    package = PackageResult(
        files=(file,), kernels=(), method_pool_bytes=0, scratch_pool_bytes=0, planned_bytes=()
    )
    with cache.writing(plan(OpenProject(project, tmp_path), cache).key("package")) as folder:
        save_result(package, folder)
    assert "Emulated board" not in text_of(page(OpenProject(project, tmp_path, path), cache))
    values = {
        "program_sha256": "12" * 32,
        "firmware_sha256": "34" * 32,
        "firmware": "<b>app.elf",
        "driver": "1.0.0",
    }
    values |= {"target": "ethos-u55-128", "qemu": "7.2.22", "date": "2026-11-26"}
    values |= {"delegates": 1, "delegates_run": 1, "cpu_kernels": 0, "cache_checked": False}
    kept = data_folder() / "emulated" / f"{'12' * 32}-{'34' * 32}.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(values))
    try:
        html = page(OpenProject(project, tmp_path, path), cache)
    finally:
        kept.unlink()
    assert "proven on an emulated Cortex-M55 with driver 1.0.0 on 2026-11-26" in text_of(html)
    assert "&lt;b&gt;app.elf" in html


def test_that_a_result_that_was_changed_on_disk_is_not_reported(tmp_path):
    from workbench.pipeline.cache import Cache
    from workbench.results import RESULT_FILE, ImportResult, load_result, save_result

    cache, key = Cache(tmp_path / "cache"), "ab" * 32
    with cache.writing(key) as out:
        save_result(ImportResult(model_class="Net", parameters=1, parameter_bytes=4, inputs=()), out)
    path = cache.folder(key) / RESULT_FILE
    assert load_result(ImportResult, cache.folder(key)).parameters == 1
    path.write_text(path.read_text().replace('"parameters": 1', '"parameters": 9'))
    with refused("result-damaged"):
        load_result(ImportResult, cache.folder(key))
