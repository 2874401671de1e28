"""``silicon``: measured times of programs on boards, published ones and the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.analysis.silicon import SiliconFile, SiliconRow, add_row, files, groups, in_figures, problems
from workbench.cli.output import EXIT_DONE, EXIT_USAGE, add_json, print_infos, print_json, print_table
from workbench.errors import WorkbenchError, failure

if TYPE_CHECKING:
    import argparse


def add(verbs: Any) -> None:
    """Add the verb with its actions."""
    verb = verbs.add_parser(
        "silicon",
        help="measured times of programs on boards, which estimates are anchored in",
        description="Rows are published times with their sources and your own. Five rows of a "
        "board, device and placement give an estimate an interval.",
    )
    actions = verb.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list the rows")
    listing.add_argument("--board", metavar="BOARD", help="rows of this board only")
    add_json(listing)
    listing.set_defaults(perform=_list)
    adding = actions.add_parser("add", help="add a measured time to your own rows")
    _add_options(adding)
    adding.set_defaults(perform=_add)
    checking = actions.add_parser("check", help="check the rows, and how well they predict another")
    add_json(checking)
    checking.set_defaults(perform=_check)


def _add_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "project",
        nargs="?",
        type=Path,
        metavar="PROJECT",
        help="the project that was measured, compiled; board, device, placement and estimate are "
        "taken from it",
    )
    verb.add_argument("--measured-ms", type=float, metavar="MS", help="time of one inference")
    verb.add_argument("--measured-cycles", type=float, metavar="N", help="NPU cycles of one")
    verb.add_argument("--source", required=True, metavar="TEXT", help="who measured it, and how")
    for name, words in (
        ("id", "the row's id; an equal one is replaced"),
        ("network", "name of the network"),
        ("board", "without a project: the board's id"),
        ("device", "e.g. ethos-u55-128"),
        ("placement", "the placement's name, as workbench boards BOARD lists it"),
        ("note", "e.g. median of 100"),
    ):
        verb.add_argument(f"--{name}", default="", metavar="TEXT", help=words)
    verb.add_argument("--estimate-ms", type=float, metavar="MS", help="without a project")
    add_json(verb)


def _list(options: argparse.Namespace) -> int:
    listed = [
        (file.board, row)
        for file in files().values()
        if isinstance(file, SiliconFile) and options.board in {None, file.board}
        for row in file.row
    ]
    if options.json:
        documents = [{"board": board, **_document(row)} for board, row in listed]
        print_json({"rows": documents})
        return EXIT_DONE
    print_table(
        ("board", "id", "network", "device", "placement", "measured", "estimate", "ratio", ""),
        (
            (
                board or "not named",
                row.id,
                row.network,
                row.device or "?",
                row.placement or "?",
                in_figures(row.measured_ms, row.measured_cycles),
                in_figures(row.estimate_ms, row.estimate_cycles),
                "" if row.ratio is None else f"{row.ratio:.2f}",
                "" if row.used else "not used",
            )
            for board, row in listed
        ),
    )
    return EXIT_DONE


def _document(row: SiliconRow) -> dict[str, Any]:
    return {**row.model_dump(mode="json"), "ratio": row.ratio}


def _add(options: argparse.Namespace) -> int:
    if options.measured_ms is None and options.measured_cycles is None:
        raise failure(
            "No measured time given.", "Add --measured-ms or --measured-cycles.", code="silicon-not-measured"
        )
    if options.project is not None:
        board, row = api.measured_row(
            api.open(options.project),
            options.source,
            options.measured_ms,
            options.measured_cycles,
            options.id,
        )
        named = {name: value for name in ("network",) if (value := getattr(options, name))}
        row = row.model_copy(update={**named, "measured_note": options.note})
    else:
        board, row = options.board, _given(options)
    path = add_row(board, row)
    if options.json:
        print_json({"file": str(path), "board": board, "row": _document(row)})
    else:
        ratio = "" if row.ratio is None else f", {row.ratio:.2f} times the estimate"
        print(f"{row.id}: written to {path}{ratio}.")
    return EXIT_DONE


def _given(options: argparse.Namespace) -> SiliconRow:
    missing = [n for n in ("id", "network", "board", "device") if not getattr(options, n)]
    if missing:
        raise failure(
            f"Not given: {', '.join(f'--{name}' for name in missing)}.",
            "Name a project, or all of --id, --network, --board and --device.",
            code="silicon-option-missing",
        )
    values = {
        "id": options.id,
        "network": options.network,
        "device": options.device,
        "placement": options.placement,
        "measured_ms": options.measured_ms,
        "measured_cycles": options.measured_cycles,
        "measured_note": options.note,
        "estimate_ms": options.estimate_ms,
        "source": options.source,
    }
    return api.checked_row(values)


def _check(options: argparse.Namespace) -> int:
    broken = [error for error in files().values() if isinstance(error, WorkbenchError)]
    infos = [*(info for error in broken for info in error.infos), *problems()]
    by_placement = groups()
    if options.json:
        print_json(
            {
                "groups": [group.model_dump(mode="json") for group in by_placement],
                "problems": [info.model_dump(mode="json") for info in infos],
            }
        )
    else:
        print_table(
            ("board", "device", "placement", "rows", "ratio", "interval", "inside"),
            (
                (
                    g.board,
                    g.device,
                    g.placement,
                    len(g.rows),
                    f"{min(r.ratio for r in g.rows):.2f} to {max(r.ratio for r in g.rows):.2f}",
                    "" if g.low is None else f"{g.low:.2f} to {g.high:.2f}",
                    "" if g.inside is None else f"{g.inside} of {len(g.rows)}",
                )
                for g in by_placement
            ),
        )
        print("inside: rows within the interval that the others give, which know nothing of them.")
        print_infos(infos)
    return EXIT_USAGE if infos else EXIT_DONE
