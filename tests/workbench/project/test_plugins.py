"""Plug-ins are listed from their source, without running any of it."""

import json

import pytest

from tests.problems import refused
from tests.workbench.project.builders import make_project, rule
from workbench.cli import main
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.pipeline.resolution import taken_by_plugins
from workbench.project import edits, plugins, store
from workbench.project.configs import Activation, Observer, QuantConfig
from workbench.project.model import DataSource, ModelSource
from workbench.project.opened import OpenProject
from workbench.project.project_code import code_used
from workbench.project.rules import ModuleRef, NodeRef, resolve
from workbench.results import NodeAnnotation, PrepareResult

OWN = '''
raise SystemExit("listing must not run this")

def narrow(*, is_qat):
    """Fewer codes.

    More words.
    """

class Wide: ...

class First:
    """The first layer."""

class Rows: ...

CONFIGS: "list[object]" = [narrow]
OBSERVERS = (Wide,)
FINDERS = [First]
QUANTIZERS = [Rows]
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "model.py").write_text("def net(): ...\n")
    return tmp_path


@pytest.fixture
def project(folder):
    path = folder / "net.qwb"
    store.save(make_project(rule("r1", "global"), plugins=("own.py",)), path)
    return path


def test_that_everything_a_plugin_adds_is_listed_without_running_it(folder):
    found = [(i.role, i.reference, i.words) for i in plugins.items_of("own.py", folder)]
    assert found == [
        ("config", "own.py:narrow", "narrow: Fewer codes"),
        ("observer", "own.py:Wide", "Wide"),
        ("finder", "own.py:First", "First: The first layer"),
        ("quantizer", "own.py:Rows", "Rows"),
    ]


@pytest.mark.parametrize("text", ["", "def broken(:", "x = 1\nCONFIGS = make()", "FINDERS = [a, b()]", "\0"])
def test_that_a_file_that_is_no_plugin_is_refused(folder, text):
    (folder / "own.py").write_text(text)
    with refused("plugin-unreadable"):
        plugins.items_of("own.py", folder)
    assert plugins.offered(OpenProject(make_project(plugins=("own.py",)), folder), "config") == []
    with refused("plugin-missing"):
        plugins.items_of("missing.py", folder)


def test_that_rules_that_take_what_no_plugin_has_are_problems(folder):
    observer = Observer(kind="plugin", plugin="own.py:Narrower")
    made = make_project(
        rule("r1", "global", config="own.py:narrow"),
        rule("r2", "finder", "own.py:Last"),
        rule("r3", "quantizer", config="gone.py:Rows"),
        rule("r4", "node_name", "conv", QuantConfig(activation=Activation(observer=observer))),
        plugins=("own.py",),
    )
    found = {info.where.id: info.code for info in plugins.problems(OpenProject(made, folder))}
    assert found == {"r2": "plugin-item-unknown", "r3": "plugin-missing", "r4": "plugin-item-unknown"}


def test_that_other_values_of_a_plugin_are_passed_over(folder):
    plain = plugins.items_of("own.py", folder)
    (folder / "own.py").write_text(OWN + "narrow.words = [Wide]\nOTHERS = [Wide]\n")
    assert plugins.items_of("own.py", folder) == plain


def test_that_what_a_plugin_has_is_named_or_the_list_that_it_lacks(folder):
    (folder / "own.py").write_text("def narrow(): ...\nCONFIGS = [narrow]\n")
    made = make_project(
        rule("r1", "global", config="own.py:wide"),
        rule("r2", "finder", "own.py:First", "a8w8"),
        plugins=("own.py",),
    )
    config, finder = plugins.problems(OpenProject(made, folder))
    assert config.code == finder.code == "plugin-item-unknown"
    assert "narrow" in config.hint
    assert "FINDERS" in finder.hint


def test_that_a_plugin_that_is_too_large_says_so(folder, monkeypatch):
    monkeypatch.setattr(plugins, "MAX_SOURCE_BYTES", 5)
    (folder / "own.py").write_text(OWN + "# large")
    with refused("plugin-unreadable") as caught:
        plugins.items_of("own.py", folder)
    assert "None" not in caught.value.infos[0].message


def test_that_only_what_rules_use_asks_for_trust(folder):
    made = make_project(rule("r1", "global"), model=ModelSource(spec="net.pt2"), plugins=("own.py",))
    assert code_used(OpenProject(made, folder)) == []
    made = edits.assign(made, "finder", "own.py:First", "own.py:narrow")
    assert [use.why for use in code_used(OpenProject(made, folder))] == [
        "runs own.py, function First",
        "runs own.py, function narrow",
    ]


def test_that_the_content_of_a_used_plugin_is_part_of_the_keys(folder):
    cache = Cache(folder / "cache")
    (folder / "net.pt2").write_bytes(b"")
    (folder / "data.npz").write_bytes(b"")
    made = make_project(
        rule("r1", "global", config="own.py:narrow"),
        model=ModelSource(spec="net.pt2"),
        calibration=DataSource(spec="data.npz"),
        plugins=("own.py",),
    )
    before = plan(OpenProject(made, folder), cache)
    assert plan(OpenProject(edits.withdraw_plugin(made, "own.py"), folder), cache) == before
    (folder / "own.py").write_text(OWN + "# edited")
    after = plan(OpenProject(made, folder), cache)
    assert after.key("export") == before.key("export")
    assert after.key("prepare") != before.key("prepare")


def code_of(capsys, *arguments):
    """Return exit code and error code of a verb."""
    capsys.readouterr()
    exit_code = main([*map(str, arguments), "--json"])
    error = json.loads(capsys.readouterr().out)["error"]
    return exit_code, error["code"]


def test_that_the_command_line_takes_short_names(project, capsys):
    add = ["rules", str(project), "add", "--kind"]
    assert main([*add, "finder", "--match", "First", "--config", "narrow"]) == 0
    assert main([*add, "quantizer", "--config", "Rows"]) == 0
    rules = [(r.kind, r.match, r.config) for r in store.load(project).rules[1:]]
    assert rules == [("finder", "own.py:First", "own.py:narrow"), ("quantizer", "", "own.py:Rows")]
    add = ["rules", str(project), "--json", "add", "--kind"]
    for wrong, code in (
        (["quantizer", "--config", "narrow"], "quantizer-unknown"),
        (["finder", "--match", "Last", "--config", "a8w8"], "finder-unknown"),
        (["quantizer", "--config", "a8w8"], "quantizer-unknown"),
    ):
        capsys.readouterr()
        assert main([*add, *wrong]) == 2
        assert json.loads(capsys.readouterr().out)["error"]["code"] == code
    assert main([*add, "finder", "--match", "First", "--config", "cpu"]) == 0
    capsys.readouterr()
    assert main(["check", str(project), "--json"]) == 2
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [p["code"] for p in problems if p["level"] == "error"] == ["rule-not-supported"]


def test_that_plugins_are_added_listed_and_removed(project, folder, capsys):
    (folder / "other.py").write_text("def narrow(*, is_qat): ...\nCONFIGS = [narrow]\n")
    assert main(["plugins", str(project), "--add", "other.py", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["plugins"] == ["own.py", "other.py"]
    assert listed["items"][-1]["reference"] == "other.py:narrow"
    rule_of = ["rules", str(project), "add", "--kind", "global", "--config"]
    assert main([*rule_of, "narrow"]) == 2
    assert "own.py:narrow or other.py:narrow" in capsys.readouterr().err
    assert main([*rule_of, "other.py:narrow"]) == 0
    assert main(["plugins", str(project), "--remove", "other.py"]) == 0
    assert main(["plugins", str(project), "--remove", "other.py"]) == 2
    assert code_of(capsys, "plugins", project, "--add", "model.py") == (2, "plugin-unreadable")


def test_that_installed_packages_offer_plugins_by_an_entry_point(folder, monkeypatch):
    (folder / "acme_bits.py").write_text(OWN)
    named = folder / "acme-1.0.dist-info"
    named.mkdir()
    (named / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (named / "entry_points.txt").write_text(f"[{plugins.GROUP}]\nacme = acme_bits\n")
    monkeypatch.syspath_prepend(str(folder))
    plugins.installed.cache_clear()
    try:
        found = plugins.offered(OpenProject(make_project(), folder), "finder")
    finally:
        plugins.installed.cache_clear()
    assert [item.reference for item in found] == ["acme_bits:First"]


def test_that_a_broken_plugin_is_told_once_whatever_takes_it(project, folder, capsys):
    add = ["rules", str(project), "add", "--kind"]
    assert main([*add, "finder", "--match", "First", "--config", "narrow"]) == 0
    assert main([*add, "quantizer", "--config", "Rows"]) == 0
    (folder / "own.py").write_text("x = (")
    capsys.readouterr()
    assert main(["check", str(project)]) == 2
    assert capsys.readouterr().err.count("own.py cannot be read") == 1


def test_that_what_plugins_took_is_resolved_from_the_report():
    made = make_project(
        rule("r1", "global"),
        rule("r2", "finder", "own.py:First", "a16w8"),
        rule("r3", "quantizer", config="own.py:Rows"),
    )

    def note(node, module, by):
        return NodeAnnotation(
            node=f"{node}_x",
            op="aten.conv2d.default",
            module=module,
            by=by,
            config="",
            quantized=True,
            origin=node,
        )

    prepared = PrepareResult(
        observers=3,
        annotations=(
            note("conv", "stem", "own.py:First"),
            note("fc", "head", "own.py:Rows"),
            note("add", "head", "GlobalNodeFinder"),
        ),
    )
    taken = taken_by_plugins(made, prepared)
    assert taken == {"conv": "r2", "fc": "r3"}
    modules = [ModuleRef("", "Net"), ModuleRef("stem", "Conv2d"), ModuleRef("head", "Head")]
    nodes = [
        NodeRef("conv", "aten.conv2d.default", (modules[0], modules[1])),
        NodeRef("fc", "aten.linear.default", (modules[0], modules[2])),
        NodeRef("add", "aten.add.Tensor", (modules[0], modules[2])),
    ]
    found = resolve(made, modules, nodes, taken)
    assert {path: e.rule for path, e in found.modules.items()} == {"": "r1", "stem": "r2", "head": "r1"}
    assert {name: e.rule for name, e in found.nodes.items()} == {"conv": "r2", "fc": "r3", "add": "r1"}
    assert found.counts["r3"].wins == 1
