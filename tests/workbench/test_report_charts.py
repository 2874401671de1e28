"""The drawings of the report, and the figures of a project with every result."""

import re

from tests.fakes.projects import make_project, write_project
from tests.fakes.results import result_of, write_result
from workbench.api import runs as api_runs
from workbench.history.runs import run_of
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project import store
from workbench.project.model import Rule
from workbench.project.opened import OpenProject
from workbench.report import Point, bands, bars, gathered, memory, page, scatter
from workbench.results import GRAPH_FILE, CompilerCheck, ExportedModel, LiveRange, TensorRange, save_result


def shapes(svg, name, *attributes):
    """Return some attributes of every shape of a drawing."""
    return [
        tuple(re.search(rf'\b{a}="([^"]*)"', shape).group(1) for a in attributes)
        for shape in re.findall(rf"<{name} [^>]*>", svg)
    ]


def test_that_bars_are_as_long_as_their_share_of_the_longest():
    drawn = bars([("a", 10.0), ("b" * 50, 5.0), ("c", -1.0)], "dB")
    # 900 wide, of which 260 are for names and 90 for values.
    assert shapes(drawn, "rect", "x", "y", "width") == [
        ("260", "3", "550.0"),
        ("260", "21", "275.0"),
        ("260", "39", "0.0"),
    ]
    assert shapes(drawn, "text", "x", "y") == [
        ("252", "13"),
        ("816.0", "13"),
        ("252", "31"),
        ("541.0", "31"),
        ("252", "49"),
        ("266.0", "49"),
    ]
    assert 'viewBox="0 0 900 58"' in drawn
    assert f">\u2026{'b' * 39}<" in drawn
    assert f">{'b' * 40}<" in bars([("b" * 40, 1.0)], "dB")
    assert f">\u2026{'b' * 39}<" in bars([("b" * 41, 1.0)], "dB")
    assert shapes(bars([("a", 0.5), ("b", 0.25)], "x"), "rect", "width") == [("550.0",), ("275.0",)]
    assert "a: 10 dB" in drawn
    assert shapes(bars([("a", 0.0)], "x"), "rect", "width") == [("0.0",)]
    assert bars([], "dB") == ""


def tensor(node, low, high, p_low=None, p_high=None):
    return TensorRange(
        origin=node,
        id=node,
        node=node,
        op="",
        module="",
        kind="activation",
        index=0,
        minimum=low,
        maximum=high,
        p_low=low if p_low is None else p_low,
        p_high=high if p_high is None else p_high,
        dtype="int8",
        qmin=-128,
        qmax=127,
        scale=1.0,
        zero_point=0,
        observer="minmax",
    )


def test_that_ranges_stand_on_one_scale_that_holds_zero():
    drawn = bands([tensor("a", -1.0, 3.0, -0.5, 2.0), tensor("b", 1.0, 2.0)])
    # 260 high with 10 above and below: 3 at 10, -1 at 250, zero at 190; 856 wide from 44 on.
    assert shapes(drawn, "line", "x1", "x2", "y1", "y2") == [("44", "900", "190.0", "190.0")]
    assert shapes(drawn, "rect", "class", "x", "y", "width", "height") == [
        ("whole", "44.0", "10.0", "342.4", "240.0"),
        ("band", "44.0", "70.0", "342.4", "150.0"),
        ("whole", "472.0", "70.0", "342.4", "60.0"),
        ("band", "472.0", "70.0", "342.4", "60.0"),
    ]
    assert ">3</text>" in drawn
    assert ">-1</text>" in drawn
    infinite = tensor("c", float("-inf"), float("inf"))
    assert bands([infinite]) == bands([]) == ""
    for other in (infinite, tensor("d", float("-inf"), 1.0), tensor("e", 0.0, float("inf"))):
        assert bands([tensor("a", -1.0, 3.0), other]).count("<rect") == 2
    # Values on one side of zero: from 0 to 0.75, and from -0.75 to 0.
    above = bands([tensor("f", 0.5, 0.75)])
    assert shapes(above, "line", "y1") == [("250.0",)]
    assert shapes(above, "rect", "y", "height") == [("10.0", "80.0")] * 2
    below = bands([tensor("g", -0.75, -0.5)])
    assert shapes(below, "line", "y1") == [("10.0",)]
    assert shapes(below, "rect", "y", "height") == [("170.0", "80.0")] * 2
    many = bands([tensor("h", -1.0, 1.0)] * 2000)
    assert set(shapes(many, "rect", "width")) == {("0.6",)}
    flat = bands([tensor("z", 0.0, 0.0)])
    assert shapes(flat, "rect", "y", "height") == [("10.0", "0.5")] * 2
    beyond = shapes(bands([tensor("a", -1.0, 1.0, -9.0, 9.0)]), "rect", "y", "height")
    assert beyond == [("10.0", "240.0")] * 2


def live(name, start, end, address, size):
    return LiveRange(
        name=name, module="m", memory="Sram", usage="", start=start, end=end, address=address, bytes=size
    )


def test_that_tensors_lie_at_their_addresses_and_steps():
    drawn = memory([live("a", 0, 1, 0, 1024), live("b", 1, 3, 1024, 3072)])
    # 226 high for 4,096 bytes; four steps over 856.
    assert shapes(drawn, "rect", "x", "y", "width", "height") == [
        ("44.0", "189.5", "427.5", "56.5"),
        ("258.0", "20.0", "641.5", "169.5"),
    ]
    assert "4.0 KiB" in drawn
    assert "4 steps" in drawn
    assert "1,024 bytes at 0x0" in drawn
    assert memory([]) == ""
    tiny = shapes(memory([live("a", 0, 9999, 0, 1 << 20), live("b", 0, 0, 0, 1)]), "rect", "width", "height")
    assert tiny[1] == ("0.5", "0.5")


def test_that_runs_are_points_with_the_best_marked():
    drawn = scatter(
        [Point(1, 100.0, 0.5, True), Point(2, 200.0, 0.75, False), Point(3, 300.0, 1.0, True)],
        "cycles",
        "top-1",
    )
    assert shapes(drawn, "circle", "class", "cx", "cy") == [
        ("best", "44.0", "224.0"),
        ("run", "450.0", "124.0"),
        ("best", "856.0", "24.0"),
    ]
    assert "100 to 300" in drawn
    assert "0.5 to 1" in drawn
    assert scatter([Point(1, 1.0, 1.0, True)], "a", "b") == ""
    same = scatter([Point(1, 5.0, 1.0, True), Point(2, 5.0, 1.0, True)], "a", "b")
    assert shapes(same, "circle", "cx", "cy") == [("44.0", "24.0")] * 2


def whole(tmp_path, **changes):
    """Return a saved project with every result in the cache, and the cache."""
    project = make_project(
        Rule(id="r1", kind="global", config="a8w8"),
        Rule(id="r2", kind="module_name", match="head", config="a16w8"),
        Rule(id="r3", kind="module_name", match="lost", config="a16w8", enabled=False),
    )
    path = write_project(tmp_path / "mine", project)
    cache = Cache(tmp_path / "cache")
    opened = OpenProject(project, path.parent, path)
    planned = plan(opened, cache)
    for stage in planned.stages:
        if stage.key and stage.id != "run":
            with cache.writing(stage.key) as folder:
                write_result(stage.id, folder)
                if stage.id in changes:
                    save_result(changes[stage.id], folder)
    return opened, cache


def test_that_the_report_gathers_every_result(tmp_path):
    opened, cache = whole(tmp_path)
    found = gathered(opened, cache)
    assert found.missing == ()
    assert found.lower == result_of("lower")
    assert found.evaluate == result_of("evaluate")
    assert found.verify == result_of("verify")
    assert found.package == result_of("package")
    assert found.calibrate == result_of("calibrate")
    assert found.export == result_of("export")
    assert found.model == result_of("import_model")
    assert found.simulated is None
    assert found.gate.verdict == "right"
    assert (found.runs, found.points, found.emulation, found.fit) == ((), (), "", None)
    assert [(r.call, r.match, r.label, r.enabled, r.wins) for r in found.rules] == [
        ("global", "", "a8w8", True, 5),
        ("module name", "head", "a16w8", True, 1),
        ("module name", "lost", "a16w8", False, 0),
    ]
    assert [(m.name, m.cycles, m.macs, m.share) for m in found.modules] == [("stem.conv", 900, 9216, 1.0)]


def test_that_costs_are_added_up_by_module_the_dearest_first(tmp_path):
    lowered = result_of("lower")
    (vela,) = lowered.vela
    (one,) = vela.operations

    def operation(module, cycles, macs):
        return one.model_copy(update={"module": module, "cycles": cycles, "macs": macs})

    reports = (
        vela.model_copy(update={"operations": (operation("a", 10, 1), operation("b", 50, 2))}),
        vela.model_copy(update={"operations": (operation("a", 30, 4), operation("c", 10, 8)), "delegate": 1}),
    )
    changed = lowered.model_copy(update={"vela": reports})
    opened, cache = whole(tmp_path, lower=changed)
    found = gathered(opened, cache)
    assert [(m.name, m.cycles, m.macs, m.share) for m in found.modules] == [
        ("b", 50, 2, 0.5),
        ("a", 40, 5, 0.4),
        ("c", 10, 8, 0.1),
    ]
    html = page(opened, cache)
    assert "delegate 1" in html
    assert html.count('class="live"') == 6


def test_that_runs_of_the_history_are_in_the_report(tmp_path):
    opened, cache = whole(tmp_path)
    for config, sqnr in (("a8w8", 30.0), ("a16w8", 40.0)):
        rules = (Rule(id="r1", kind="global", config=config),)
        made = opened.project.model_copy(update={"rules": rules})
        planned = plan(OpenProject(made, opened.folder), cache)
        for stage in planned.stages:
            if stage.state == "stale":
                with cache.writing(stage.key) as folder:
                    write_result(stage.id, folder)
                    if stage.id == "evaluate":
                        changed = result_of("evaluate").model_copy(update={"sqnr_db": sqnr})
                        save_result(changed, folder)
        api_runs.record_run(opened.path, run_of(made, planned, cache))
    found = gathered(opened, cache)
    assert [run.quality.sqnr_db for run in found.runs] == [30.0, 40.0]
    assert [(p.number, p.x, p.y, p.is_best) for p in found.points] == [
        (1, 1000.0, 30.0, False),
        (2, 1000.0, 40.0, True),
    ]
    assert found.best == {2}
    assert found.accuracy_name.startswith("SQNR")
    assert set(found.lines) == {1, 2}
    html = page(opened, cache)
    assert html.count('class="best"') == 1
    assert html.count('class="run"') == 1


def test_that_a_damaged_result_is_left_out(tmp_path):
    opened, cache = whole(tmp_path)
    folder = cache.folder(plan(opened, cache).key("evaluate"))
    text = (folder / "result.json").read_text()
    (folder / "result.json").write_text("x" * len(text))
    found = gathered(opened, cache)
    assert found.evaluate is None
    assert found.lower is not None


def test_that_a_result_with_another_file_changed_is_not_reported(tmp_path):
    opened, cache = whole(tmp_path)
    folder = cache.folder(plan(opened, cache).key("lower"))
    (other,) = [file for file in folder.iterdir() if file.name == GRAPH_FILE]
    other.write_bytes(other.read_bytes()[:-1] + b" ")
    found = gathered(opened, cache)
    assert found.lower is None
    assert "Compile" in found.missing
    assert found.evaluate is not None


def titles(html, unit):
    """Return the names and values of the bars of a drawing."""
    return re.findall(rf"<title>([^<]*): ([^<]*) {re.escape(unit)}</title>", html)


def test_that_drawings_have_what_was_measured(tmp_path):
    calibrated, evaluated = result_of("calibrate"), result_of("evaluate")
    weight = calibrated.ranges[0].model_copy(update={"kind": "weight", "node": "w", "id": "w"})
    first = evaluated.tensors[0]
    ratios = [("a", 20.5), ("b", None), ("c", 10.0)]
    (vela,) = result_of("lower").vela
    row = vela.operations[0]
    rows = tuple(
        row.model_copy(update={"module": f"m{n}" if n else "", "cycles": 1000 - n}) for n in range(41)
    )
    lowered = result_of("lower").model_copy(update={"vela": (vela.model_copy(update={"operations": rows}),)})
    opened, cache = whole(
        tmp_path,
        lower=lowered,
        calibrate=calibrated.model_copy(update={"ranges": (*calibrated.ranges, weight)}),
        evaluate=evaluated.model_copy(
            update={
                "tensors": tuple(
                    first.model_copy(update={"tensor": name, "sqnr_db": ratio}) for name, ratio in ratios
                )
            }
        ),
        verify=result_of("verify").model_copy(update={"histogram": {0: 150, 1: 7, -1: 3}}),
    )
    html = page(opened, cache)
    activations = [r for r in calibrated.ranges if r.kind == "activation"]
    assert html.count('class="whole"') == len(activations)
    assert titles(html, "SQNR [dB]") == [("a", "20.5"), ("c", "10")]
    modules = titles(html, "cycles")
    assert [name for name, _ in modules] == ["(whole model)", *(f"m{n}" for n in range(1, 40))]
    assert titles(html, "elements") == [("-1 LSB", "3"), ("equal", "150"), ("+1 LSB", "7")]
    assert "34.50 dB" in html


def test_that_a_model_for_another_compiler_has_no_bars_of_cycles_or_steps(tmp_path):
    exported = ExportedModel(
        opset=17,
        ir_version=8,
        nodes=1,
        bytes=1,
        rewritten=0,
        products=(),
        commands=(),
        check=CompilerCheck(sentence="Not checked."),
    )
    lowered = result_of("lower").model_copy(update={"exported": exported})
    verified = result_of("verify").model_copy(update={"runtime": "X", "max_abs_error": 0.5})
    opened, cache = whole(tmp_path, lower=lowered, verify=verified)
    html = page(opened, cache)
    assert titles(html, "cycles") == []
    assert titles(html, "elements") == []
    plain = page(*whole(tmp_path / "plain"))
    assert titles(plain, "cycles")
    assert titles(plain, "elements")


def test_that_an_emulated_project_says_so_and_misses_less(tmp_path):
    rules = (Rule(id="r1", kind="global", config="integer-8"),)
    project = make_project().model_copy(
        update={"target": make_project().target.model_copy(update={"id": "formats"}), "rules": rules}
    )
    path = write_project(tmp_path / "mine")
    store.save(project, path)
    found = gathered(OpenProject(project, path.parent, path), Cache(tmp_path / "cache"))
    assert found.emulation
    assert found.missing == ("Evaluate",)
    assert (found.gate, found.modules, found.verdict) == (None, (), "")
    assert [r.wins for r in found.rules] == [None]


def test_that_figures_have_their_digits_or_a_dash(tmp_path):
    changed = result_of("evaluate").model_copy(update={"sqnr_db": None})
    opened, cache = whole(tmp_path, evaluate=changed)
    cells = set(re.findall(r"<td[^>]*>\s*([^<]*?)\s*</td>", page(opened, cache)))
    assert {"4.0 KiB", "1,000"} & cells
