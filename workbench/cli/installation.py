"""Verbs on this installation: ``doctor``, ``toolchain``, ``completion``."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import (
    EXIT_DIFFERS,
    EXIT_DONE,
    EXIT_FAILED,
    Progress,
    add_engine,
    add_json,
    add_project,
    job_options,
    opened_cache,
    print_json,
    print_table,
)
from workbench.doctor import findings
from workbench.toolchains.registry import OWN_TITLE, title_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence


def add_doctor(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser("doctor", help="show what is installed, what is missing, and how to install it")
    add_json(verb)
    verb.set_defaults(perform=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    checks = findings()
    missing = any(f.state == "missing" for f in checks)
    if options.json:
        print_json({"healthy": not missing, "findings": [f.model_dump() for f in checks]})
        return EXIT_FAILED if missing else EXIT_DONE
    marks = {"ok": "ok", "different": "!!", "missing": "NO", "optional": "--"}
    for finding in checks:
        print(f"{marks[finding.state]}  {finding.name:<32} {finding.version}")
        if finding.state != "ok":
            print(f"      {finding.why}".rstrip())
            print(f"      {finding.remedy}".rstrip())
    return EXIT_FAILED if missing else EXIT_DONE


def add_toolchain(verbs: Any) -> None:
    """Add the verb with its actions."""
    verb = verbs.add_parser(
        "toolchain",
        help="environments with other releases of ExecuTorch, torch and Vela",
        description="A project runs in the program's own toolchain, or in one that is added here: "
        "workbench settings PROJECT toolchain=NAME.",
    )
    actions = verb.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list the toolchains and what works with them")
    listing.set_defaults(perform=_list_toolchains)
    adding = actions.add_parser("add", help="add an environment, or make one")
    adding.add_argument("name", metavar="NAME", help="what projects call it")
    way = adding.add_mutually_exclusive_group(required=True)
    way.add_argument("--python", metavar="PATH", help="an interpreter, or an environment's folder")
    way.add_argument("--create", metavar="SPEC", help="make the environment with pip, e.g. executorch==1.4.1")
    adding.set_defaults(perform=_add_toolchain)
    removing = actions.add_parser("remove", help="remove one from the list")
    removing.add_argument("name", metavar="NAME")
    removing.set_defaults(perform=_remove_toolchain)
    checking = actions.add_parser("check", help="start one; report each correction")
    checking.add_argument("name", metavar="NAME", help=f"{OWN_TITLE} is the program's own")
    checking.set_defaults(perform=_check_toolchain)
    comparing = actions.add_parser(
        "compare",
        help="run a project in its toolchain and in another one, side by side",
        description="Ends with 4 if either program differs from its quantized model.",
    )
    add_project(comparing)
    comparing.add_argument("--with", dest="other", required=True, metavar="NAME", help="the other toolchain")
    add_engine(comparing)
    comparing.set_defaults(perform=_compare_toolchains)
    for action in (listing, adding, removing, checking):
        add_json(action)


def _compare_toolchains(options: argparse.Namespace) -> int:
    name = "" if options.other == OWN_TITLE else options.other
    with opened_cache(options) as cache:
        comparison = api.compare_toolchains(api.open(options.project), name, **job_options(options, cache))
    if options.json:
        print_json(comparison.model_dump(mode="json"))
    else:
        _print_comparison(comparison)
    if any(comparison.errors):
        return EXIT_FAILED
    return EXIT_DONE if comparison.still_right else EXIT_DIFFERS


def _print_comparison(comparison: api.ToolchainComparison) -> None:
    names = [name or OWN_TITLE for name in comparison.names]
    rows: list[tuple[str, ...]] = [("versions", *comparison.titles, "")]
    for figure in comparison.figures:
        texts = [_figure(value) for value in figure.values]
        rows.append((figure.name, *texts, figure.note))
    rows += [
        (f"places of {correction}", *map(str, counts), "")
        for correction, counts in comparison.corrections.items()
    ]
    print_table(("", *names, ""), rows)
    for name, error in zip(names, comparison.errors, strict=True):
        if error:
            print(f"{name}: {error}")
    for remark in comparison.remarks:
        print(remark)


def _figure(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str("-" if value is None else value)


def _list_toolchains(options: argparse.Namespace) -> int:
    states = api.list_toolchains()
    if options.json:
        print_json({"toolchains": [state.model_dump(mode="json") for state in states]})
        return EXIT_DONE
    _print_states(states)
    return EXIT_DONE


_STATES = {"proven": "proven", "unproven": "runs, unproven", "unusable": "cannot run"}


def _print_states(states: tuple[api.ToolchainState, ...]) -> None:
    print_table(
        ("name", "versions", "Python", "state", "acceleration", ""),
        (
            (
                state.name or OWN_TITLE,
                title_of(state.tools),
                state.python_version,
                _STATES[state.state],
                "on" if state.acceleration.active else "off",
                state.reason,
            )
            for state in states
        ),
    )


def _add_toolchain(options: argparse.Namespace) -> int:
    if options.create is None:
        state = api.add_toolchain(options.name, Path(options.python))
    else:
        progress = Progress()
        state = api.create_toolchain(options.name, options.create, progress.line)
    if options.json:
        print_json({"toolchain": state.model_dump(mode="json")})
        return EXIT_DONE
    _print_states((state,))
    return EXIT_DONE


def _remove_toolchain(options: argparse.Namespace) -> int:
    api.remove_toolchain(options.name)
    if options.json:
        print_json({"removed": options.name})
    return EXIT_DONE


def _check_toolchain(options: argparse.Namespace) -> int:
    name = "" if options.name == OWN_TITLE else options.name
    print("importing the tools, which takes up to a minute", file=sys.stderr)
    check = api.check_toolchain(name)
    if options.json:
        print_json(check.model_dump(mode="json"))
        return EXIT_DONE
    _print_states((check.toolchain,))
    print()
    words = {"on": "applied", "aside": "not applied: other tools"}
    print_table(
        ("correction", "state"),
        ((row, words.get(state, state)) for row, state in sorted(check.corrections.items())),
    )
    if check.moved:
        print()
        rows = ((patch, path) for patch, paths in sorted(check.moved.items()) for path in paths)
        print_table(("patch", "other code in"), rows)
    return EXIT_DONE


# What argparse calls the argument of a verb (argparse.PARSER).
_VERBS = "A..."
_SHELLS = ("bash", "zsh", "fish")
_DESCRIPTION = """Print the script with which a shell completes this program:

  bash   workbench completion bash > ~/.local/share/bash-completion/completions/workbench
  zsh    workbench completion zsh > FOLDER/_workbench, a folder of $fpath
  fish   workbench completion fish > ~/.config/fish/completions/workbench.fish"""


def add_completion(verbs: Any) -> None:
    """Add the verb."""
    import argparse

    verb = verbs.add_parser(
        "completion",
        help="print the completion script of a shell",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("shell", choices=_SHELLS)
    verb.set_defaults(perform=_completion)


def _completion(options: argparse.Namespace) -> int:
    import shtab

    # This process may have other uses for its parser.
    root: argparse.ArgumentParser = copy.deepcopy(options.root)
    for action in _actions(root):
        if action.type is Path and not hasattr(action, "complete"):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    _describe_verbs(root)
    script = shtab.complete(root, options.shell)
    print(_with_late_actions(script, options.shell, _late_verbs(root)), end="")
    return EXIT_DONE


def _describe_verbs(parser: argparse.ArgumentParser) -> None:
    """Let shells show a verb's line of the help; shtab prefers the text of its own page."""
    for action in _groups(parser):
        lines = {str(row.dest): row.help for row in vars(action)["_choices_actions"]}
        for name, part in action.choices.items():
            part.description = lines[name]
            _describe_verbs(part)


def _late_verbs(root: argparse.ArgumentParser) -> list[str]:
    """Return the verbs that take a file first and an action after it: ``rules PROJECT add``."""
    return [
        name
        for verbs in _groups(root)
        for name, part in verbs.choices.items()
        for action in _groups(part)
        if any(not (other.option_strings or other is action) for other in vars(part)["_actions"])
    ]


def _with_late_actions(script: str, shell: str, verbs: Sequence[str]) -> str:
    """Return a script that knows the actions behind a file; bash's does.

    shtab 1.13 takes the first word after a verb for its action in zsh, and no word after a file in
    fish: options of ``workbench rules PROJECT add`` were not completed.
    """
    if shell == "fish":
        first = "if test $_shtab_workbench_npos -eq 0\n"
        chosen = "set -g _shtab_workbench_cmdpath $candidate\n"
        late = f'; or contains -- "$_shtab_workbench_cmdpath" {" ".join(verbs)}\n'
        script = script.replace(first, first.rstrip() + late)
        return script.replace(chosen, f"{chosen.rstrip()}; set -g _shtab_workbench_npos 0\n")
    for verb in verbs if shell == "zsh" else ():
        before, name, rest = script.partition(f"\n_shtab_workbench_{verb}() {{\n")
        body, end, after = rest.partition("\n}\n")
        script = before + name + body.replace("$line[1]", "$line[2]") + end + after
    return script


def _groups(parser: argparse.ArgumentParser) -> Iterator[Any]:
    """Yield the groups of verbs or actions of a parser: one or none."""
    for action in vars(parser)["_actions"]:
        if action.nargs == _VERBS and isinstance(action.choices, dict):
            yield action


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser, and those of its verbs."""
    for action in vars(parser)["_actions"]:
        if action.nargs == _VERBS and isinstance(action.choices, dict):
            for part in action.choices.values():
                yield from _actions(part)
        else:
            yield action
