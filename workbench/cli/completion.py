"""``completion``: the script with which a shell completes verbs, options and files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.output import EXIT_DONE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

# What argparse calls the argument of a verb (argparse.PARSER).
_VERBS = "A..."
_SHELLS = ("bash", "zsh", "fish")
_DESCRIPTION = """Print the script with which a shell completes this program:

  bash   workbench completion bash > ~/.local/share/bash-completion/completions/workbench
  zsh    workbench completion zsh > FOLDER/_workbench, a folder of $fpath
  fish   workbench completion fish > ~/.config/fish/completions/workbench.fish"""


def add(verbs: Any) -> None:
    """Add the verb."""
    import argparse

    verb = verbs.add_parser(
        "completion",
        help="print the completion script of a shell",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("shell", choices=_SHELLS)
    verb.set_defaults(perform=_perform)


def _perform(options: argparse.Namespace) -> int:
    import shtab

    root: argparse.ArgumentParser = options.root
    for action in _actions(root):
        if action.type is Path and not hasattr(action, "complete"):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(root, options.shell), end="")
    return EXIT_DONE


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser, and those of its verbs."""
    for action in vars(parser)["_actions"]:
        if action.nargs == _VERBS and isinstance(action.choices, dict):
            for part in action.choices.values():
                yield from _actions(part)
        else:
            yield action
