"""The action table: one row per thing the menus, keys and the palette offer."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class ActionRow:
    """One action; ``menu`` is where it stands, an id of "-" is a line in the menu."""

    id: str
    menu: str
    text: str = ""
    keys: str = ""
    icon: str = ""


MENUS = ("&File", "&Edit", "&Run", "&View", "&Help")
LINE = "-"

ACTIONS: tuple[ActionRow, ...] = (
    ActionRow("new", "&File", "&New project\u2026", "Ctrl+N", "new"),
    ActionRow("recipe", "&File", "New from a &recipe\u2026"),
    ActionRow("open", "&File", "&Open\u2026", "Ctrl+O", "open"),
    ActionRow("sample", "&File", "Open the sample"),
    ActionRow("take_over", "&File", "&Take over a command line\u2026"),
    ActionRow(LINE, "&File"),
    ActionRow("save", "&File", "&Save", "Ctrl+S", "save"),
    ActionRow("save_as", "&File", "Save &as\u2026", "Ctrl+Shift+S"),
    ActionRow("close", "&File", "&Close project", "Ctrl+W"),
    ActionRow(LINE, "&File"),
    ActionRow("preferences", "&File", "&Preferences\u2026", "Ctrl+,", "settings"),
    ActionRow("quit", "&File", "&Quit", "Ctrl+Q"),
    ActionRow("palette", "&Edit", "&Find an action, module or node\u2026", "Ctrl+K", "palette"),
    ActionRow("target", "&Edit", "&Target and its options\u2026"),
    ActionRow("plugins", "&Edit", "&Plug-ins\u2026"),
    ActionRow(LINE, "&Edit"),
    ActionRow("take_mase", "&Edit", "Take &rules from MASE's pass_args\u2026"),
    ActionRow("write_mase", "&Edit", "&Write the rules as MASE's pass_args\u2026"),
    ActionRow("run_all", "&Run", "Run &everything", "F5", "run"),
    ActionRow("run_evaluate", "&Run", "Run to &quality", "F6"),
    ActionRow("run_lower", "&Run", "Run to &compilation", "F7"),
    ActionRow("live", "&Run", "Li&ve figures", "F8"),
    ActionRow("cancel", "&Run", "Cancel all &work", "Ctrl+.", "stop"),
    ActionRow("blame", "&Run", "&Find what the compiler refuses"),
    ActionRow("deliver", "&Run", "Copy the &deliverables to\u2026", "", "save"),
    ActionRow("inside", "&Run", "Look &inside the .pte"),
    ActionRow("report", "&Run", "Write the &report\u2026"),
    ActionRow("theme", "&View", "&Dark or light", "Ctrl+Shift+L", "moon"),
    ActionRow("default_layout", "&View", "&Arrange panels as at first"),
    ActionRow("save_layout", "&View", "&Keep this arrangement\u2026"),
    ActionRow("doctor", "&Help", "&What this machine has\u2026"),
)


def shortcut_pages() -> dict[str, str]:
    """Return the guide's page of keyboard shortcuts, by file name."""
    from ui.panels import PANELS
    from workbench.guide import NOTE, table

    lines = ["# Keyboard shortcuts", "", NOTE.format("ui.actions")]
    lines += ["On macOS, Ctrl is the command key. Keys that work inside one panel stand on the "
              "page of that panel.", "", "## Menus", ""]  # fmt: skip
    rows = [row for row in ACTIONS if row.id != LINE]
    lines += table(
        ("menu", "action", "keys"),
        [(_plain(row.menu), _plain(row.text), f"`{row.keys}`" if row.keys else "") for row in rows],
    )
    lines += ["## Panels", ""]
    lines += table(
        ("panel", "keys"),
        [
            (f"[{row.title}](../user/{row.id}.md)", f"`Alt+{number}`" if number <= 9 else "")
            for number, row in enumerate(PANELS, 1)
        ],
    )
    return {"shortcuts.md": "\n".join(lines).rstrip() + "\n"}


def _plain(text: str) -> str:
    """Return a menu's text without the mark of its access key."""
    return text.replace("&", "")


def main(arguments: Sequence[str]) -> int:
    """Write the page of shortcuts with ``--write``; without it return 1 if it is out of date."""
    from workbench.guide import write_or_compare

    return write_or_compare(shortcut_pages(), write="--write" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
