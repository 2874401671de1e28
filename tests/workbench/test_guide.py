"""The guide: complete, linked, fresh, and with commands that the program takes."""

import functools
import re
import shlex
from pathlib import Path
from typing import get_args

import pytest

from ui.shell import actions
from ui.shell.actions import ACTIONS, MENUS, shortcut_pages
from ui.shell.panels import PANELS
from workbench import guide
from workbench.api.documents import schemas
from workbench.cli import GROUPS, output, parser
from workbench.errors import Place, PlaceKind, WorkbenchError
from workbench.project.model import Project

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted(guide.GUIDE.rglob("*.md"))
WRITTEN = [README, *(p for p in PAGES if p.parent != guide.REFERENCE)]
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")

# Pages of the reference that no code writes.
# By hand, or from recorded results (tests.zoo.runs, tests.correction_figures,
# tests.improver_figures, tests.decoder_figures, tests.text_decoder_figures, tests.efficiency_figures),
# whose own tests compare them.
WRITTEN_BY_HAND = {
    "architectures.md",
    "compiler-faults.md",
    "correction-figures.md",
    "efficiency-figures.md",
    "decoder-figures.md",
    "npu-simulator.md",
    "reported-failures.md",
    "text-decoder-figures.md",
    "weight-transform-figures.md",
}


@functools.cache
def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text("utf-8"))


@functools.cache
def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        name, number = plain, 0
        while name in found:
            number += 1
            name = f"{plain}-{number}"
        found.add(name)
    return found


def targets(page: Path) -> list[tuple[Path, str]]:
    """Return file and anchor of every link that leads to a file."""
    links = (link for link in LINK.findall(prose(page)) if "://" not in link)
    parts = (link.partition("#") for link in links)
    return [((page.parent / path).resolve() if path else page, mark) for path, _, mark in parts]


def commands(page: Path) -> list[str]:
    """Return the command lines of ``workbench`` in a page's blocks, without ``workbench``."""
    blocks = FENCE.findall(page.read_text("utf-8"))
    lines = (line for b in blocks for line in b.replace("\\\n", " ").splitlines())
    found = (re.match(r"(?:\$ )?(?:\S*/)?workbench (\w.*)", line) for line in lines)
    return [match[1] for match in found if match]


@pytest.fixture(scope="module")
def made():
    """The pages that code writes, by the names of their files."""
    return {**guide.pages(), **shortcut_pages()}


def test_that_the_reference_pages_are_what_the_code_says(made):
    found = {p.name: p.read_text("utf-8") for p in guide.REFERENCE.iterdir()}
    assert {name: text for name, text in found.items() if name not in WRITTEN_BY_HAND} == made
    assert set(found) >= WRITTEN_BY_HAND


@pytest.mark.slow
def test_that_the_reference_pages_do_not_depend_on_the_terminal(monkeypatch):
    before = guide.pages()
    monkeypatch.setenv("COLUMNS", "40")
    assert guide.pages() == before


def test_that_a_page_out_of_date_is_reported_and_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(guide, "REFERENCE", tmp_path / "reference")
    assert guide.write_or_compare({"a.md": "# A\n"}, write=False) == 1
    assert "a.md" in capsys.readouterr().out
    assert not (tmp_path / "reference").exists()
    assert guide.write_or_compare({"a.md": "# A\n"}, write=True) == 0
    assert (tmp_path / "reference" / "a.md").read_text() == "# A\n"
    assert guide.write_or_compare({"a.md": "# A\n"}, write=False) == 0


@pytest.mark.slow
def test_that_both_writers_write_all_reference_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(guide, "REFERENCE", tmp_path)
    assert (guide.main([]), actions.main([])) == (1, 1)
    assert (guide.main(["--write"]), actions.main(["--write"])) == (0, 0)
    assert (guide.main([]), actions.main([])) == (0, 0)
    assert {p.name for p in tmp_path.iterdir()} == {
        "cli.md",
        "corrections.md",
        "exit-codes.md",
        "json-output.md",
        "operator-support.md",
        "project-file.md",
        "rewrites.md",
        "shortcuts.md",
        "silicon.md",
        "toolchain-releases.md",
        *schemas(),
    }


def test_that_the_performance_page_has_the_figures_that_were_kept():
    from tests.benchmarks import bars

    assert bars.PAGE.read_text(encoding="utf-8") == bars.page()
    assert bars.kept().keys() <= bars.BARS.keys()


def test_that_every_link_and_anchor_leads_somewhere():
    dead = [
        f"{page.relative_to(ROOT)}: {path.name}#{mark}"
        for page in [README, *PAGES]
        for path, mark in targets(page)
        if not path.exists() or (mark and mark not in anchors(path))
    ]
    assert dead == []


def test_that_every_test_that_a_page_names_exists():
    sources = "".join(file.read_text("utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    tests = set(re.findall(r"def (test_\w+)", sources))
    named = {name for page in WRITTEN for name in re.findall(r"`(test_that_\w+)`", page.read_text("utf-8"))}
    assert len(named) > 30
    assert named - tests == set()


def test_that_every_page_can_be_reached_from_the_table_of_contents():
    seen, left = set(), [guide.INDEX.resolve()]
    while left:
        page = left.pop()
        if page not in seen and page.suffix == ".md":
            seen.add(page)
            left += [path for path, _ in targets(page)]
    assert [p.name for p in PAGES if p.resolve() not in seen] == []


def test_that_every_page_has_one_title():
    for page in PAGES:
        titles = re.findall(r"^# (.+)$", prose(page), re.MULTILINE)
        assert titles == [guide.title(page)], page


def test_that_every_panel_has_a_page_with_its_title():
    for row in PANELS:
        assert guide.page_for_panel(row.id).stem == row.id
        assert guide.title(guide.page_for_panel(row.id)) == row.title


def test_that_a_panel_without_a_page_gets_the_table_of_contents():
    assert guide.page_for_panel("no-such-panel") == guide.INDEX


def test_that_a_file_without_a_heading_is_named_after_itself(tmp_path):
    (tmp_path / "plain.md").write_text("no heading\n")
    assert guide.title(tmp_path / "plain.md") == "plain"


def test_that_every_verb_has_a_section():
    sections = anchors(guide.REFERENCE / "cli.md")
    text = parser().format_help()
    verbs = sum(len(listed) for _, listed in GROUPS)
    assert len([s for s in sections if s.startswith("workbench-")]) >= verbs
    for verb in re.findall(r"^  (\w+)(?:  |$)", text, re.MULTILINE):
        assert f"workbench-{verb}" in sections


def test_that_only_code_in_a_cell_keeps_its_brackets():
    rows = list(guide.table(("a",), [("<x> `<y>` <z> `<w>` | |",)]))
    assert rows == ["| a |", "|---|", "| &lt;x> `<y>` &lt;z> `<w>` \\| \\| |", ""]


def test_that_pages_are_written_once_and_then_up_to_date(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(guide, "REFERENCE", tmp_path / "a" / "b")
    monkeypatch.setattr(guide, "pages", lambda: {"x.md": "x", "y.md": "é"})
    assert guide.main([]) == 1
    assert not (tmp_path / "a").exists()
    assert capsys.readouterr().out == "out of date: x.md\nout of date: y.md\n"
    assert guide.main(["--write"]) == 0
    assert (tmp_path / "a" / "b" / "y.md").read_text("utf-8") == "é"
    (tmp_path / "a" / "b" / "x.md").write_text("old")
    assert guide.main(["--write"]) == 0
    assert capsys.readouterr().out.endswith("wrote y.md\nwrote x.md\n")
    assert guide.main([]) == 0


def test_that_every_exit_code_is_listed(made):
    page = made["exit-codes.md"]
    codes = [value for name, value in vars(output).items() if name.startswith("EXIT_")]
    assert codes
    assert [code for code in codes if f"| `{code}` |" not in page] == []


def test_that_every_field_of_a_project_and_every_key_is_listed(made):
    fields = made["project-file.md"]
    assert [name for name in Project.model_fields if f"| `{name}` |" not in fields] == []
    keys = made["shortcuts.md"]
    assert [row.id for row in ACTIONS if row.keys and f"`{row.keys}`" not in keys] == []


def test_that_the_program_takes_every_command_of_the_guide(capsys):
    root, refused = parser(), []
    found = [(page.name, command) for page in WRITTEN for command in commands(page)]
    for name, command in found:
        try:
            root.parse_args(shlex.split(command.split(" > ")[0], comments=True))
        except (WorkbenchError, SystemExit) as error:
            refused.append(f"{name}: workbench {command}: {error} {capsys.readouterr().err}")
    assert refused == []
    assert len(found) > 80


def test_that_every_menu_entry_that_the_guide_names_exists():
    menus = "|".join(menu.replace("&", "") for menu in MENUS)
    offered = {(r.menu.replace("&", ""), r.text.replace("&", "")) for r in ACTIONS}
    # Qt's undo stack makes these two.
    offered |= {("Edit", "Undo"), ("Edit", "Redo")}
    named = [
        (page.name, entry)
        for page in WRITTEN
        for entry in re.findall(rf"\*\*({menus}), ([^*]+)\*\*", prose(page))
    ]
    assert [(page, entry) for page, entry in named if entry not in offered] == []
    assert len(named) > 10


def test_that_the_readme_is_short_and_has_commands():
    assert len(README.read_text("utf-8").splitlines()) <= 150
    assert len(commands(README)) >= 5


def test_that_every_kind_of_place_has_a_page():
    pages = {kind: guide.page_for_place(Place(kind=kind, id="x")) for kind in get_args(PlaceKind)}
    assert [kind for kind, page in pages.items() if page not in PAGES] == []
    assert len(set(pages.values())) == len(pages)


def test_that_help_on_a_setting_opens_the_page_about_it():
    pages = {
        key: guide.page_for_place(Place(kind="option", id=key)).stem
        for key in ("evaluation.data.spec", "calibration.spec", "model.spec", "gate.lsb", "memory_mode")
    }
    assert list(pages.values()) == ["data", "data", "models", "gate", "targets"]
    assert [page for page in guide._OPTIONS.values() if guide.GUIDE / page not in PAGES] == []
