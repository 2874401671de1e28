"""The guide: its pages, and the reference pages generated from code.

``python -m workbench.guide --write`` writes the generated pages; the page of keyboard shortcuts is
written by ``python -m ui.shell.actions --write``. A test compares both with the files.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.analysis.silicon import LEAST_ROWS, groups, in_figures, shipped
from workbench.errors import ErrorInfo, Place, PlaceKind
from workbench.graph.snapshot import GraphSnapshot, Node
from workbench.installation import resources
from workbench.project.configs import A16W8, PRESETS, Preset
from workbench.project.model import (
    KEEPING_CALLS,
    PROJECT_SUFFIX,
    PROJECT_VERSION,
    RULE_CALLS,
    Project,
    TargetChoice,
)
from workbench.targets import TARGETS
from workbench.targets.ethos_u.corrections import CORRECTIONS
from workbench.targets.ethos_u.cycle_corrections import CYCLE_CORRECTIONS
from workbench.targets.ethos_u.rewrites import REWRITES
from workbench.targets.formats.operators import FUSED, OPERATORS
from workbench.targets.formats.schemes import SPECS
from workbench.targets.nnpa.products import why_never

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from workbench.targets.base import TargetSpec

GUIDE = resources() / "guide"
REFERENCE = GUIDE / "reference"
INDEX = GUIDE / "index.md"

# A generated page's first line after the title; the braces contain the generating module.
NOTE = "<!-- This page is generated from the code: python -m {} --write writes it. -->\n"

# Operators that targets are checked with, one at a time, before compilation.
_PROBED = ("cond", "while_loop", "cumsum", "conv_transpose1d", "conv_transpose2d", "matmul", "bmm")
_NEVER_INT8 = ("conv2d", "lstm", "gru", "scaled_dot_product_attention", "einsum", "softmax")
# Help texts that contain a figure of the current machine.
_MACHINE = re.compile(r"up to \d+ here")


def page_for_panel(panel_id: str) -> Path:
    """Return the page of a panel, or the table of contents."""
    page = GUIDE / "user" / f"{panel_id}.md"
    return page if page.is_file() else INDEX


_PLACES: dict[PlaceKind, str] = {
    "project": "user/project-file.md",
    "file": "user/models.md",
    "module": "user/modules.md",
    "node": "user/graph.md",
    "tensor": "user/ranges.md",
    "rule": "user/rules.md",
    "stage": "user/pipeline.md",
    "option": "user/targets.md",
    "sample": "user/data.md",
    "tool": "user/doctor.md",
    "line": "user/trust.md",
}


# Options of the project by the start of their key; others are options of the target.
_OPTIONS = dict.fromkeys(("calibration", "evaluation"), "user/data.md") | {"model": "user/models.md"}
_OPTIONS |= dict.fromkeys(("gate", "accuracy", "verification"), "user/gate.md")
_OPTIONS |= dict.fromkeys(("training_function", "trained_weights"), "user/training.md")


def page_for_place(place: Place) -> Path:
    """Return the page that explains the kind of thing a problem concerns."""
    key = place.id.partition(".")[0] if place.kind == "option" else ""
    return GUIDE / _OPTIONS.get(key, _PLACES[place.kind])


def title(path: Path) -> str:
    """Return the title of a page: its first heading, or else the file name."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line.removeprefix("# ").strip()
    return path.stem


def pages() -> dict[str, str]:
    """Return the text of every generated page by file name."""
    from workbench.api.documents import schemas

    texts = {
        "cli.md": _cli(),
        "exit-codes.md": _exit_codes(),
        "project-file.md": _project_file(),
        "corrections.md": _corrections(),
        "rewrites.md": _rewrites(),
        "operator-support.md": _operator_support(),
        "json-output.md": _json_output(),
        "silicon.md": _silicon(),
        "toolchain-releases.md": _releases(),
    }
    text = {name: "\n".join(lines).rstrip() + "\n" for name, lines in texts.items()}
    return text | schemas()


def _releases() -> Iterator[str]:
    """Yield the page of the releases of ExecuTorch that are proven."""
    from workbench.toolchains.releases import OLDEST, OTHERS, RELEASES

    yield from (
        "# Proven releases",
        "",
        "What each release of ExecuTorch was proven with; see [ExecuTorch releases of boards]"
        "(../howto/executorch-releases.md). Other sets run and are called *unproven*; releases "
        f"before {OLDEST} cannot run.",
        "",
    )
    yield from table(
        ("ExecuTorch", "torch", "torchao", "Vela", "accelerated", "options it lacks", "remarks"),
        (
            (
                row.executorch,
                ", ".join(row.torch),
                ", ".join(row.torchao),
                ", ".join(row.vela),
                "yes" if row.accelerated else "no",
                ", ".join(f"`{option}`" for option in row.lacks) or "-",
                row.remarks or "-",
            )
            for row in RELEASES
        ),
    )
    yield from ("## Other releases", "")
    yield from table(("release", "state"), OTHERS)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a Markdown table, and an empty one."""
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(_cell(cell) for cell in row)} |"
    yield ""


def _cell(value: object) -> str:
    """Return a value as the text of a cell; ``<`` outside code is escaped."""
    text = " ".join(str(value).replace("``", "`").split()).replace("|", "\\|")
    return "`".join(p if i % 2 else p.replace("<", "&lt;") for i, p in enumerate(text.split("`")))


def _code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


# The command line


def _cli() -> list[str]:
    from workbench.cli import parser

    root = parser()
    lines = ["# Command line", "", NOTE.format("workbench.guide"), f"{root.description}", ""]
    lines += [
        "Output is for people unless `--json` is given, which prints exactly one JSON document on "
        "stdout; everything else goes to stderr. [Exit codes](exit-codes.md) have their own page.",
        "",
    ]
    verbs = list(_parts(root))
    lines += table(
        ("verb", "does"), [(f"[`{name}`](#workbench-{name})", description) for name, description, _ in verbs]
    )
    for name, description, verb in verbs:
        lines += _verb(f"workbench {name}", description, verb, "##")
    return lines


def _parts(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yield name, help and parser of every verb or action of a parser."""
    for action in vars(parser)["_actions"]:
        if action.nargs == argparse.PARSER:
            helps = {row.dest: row.help or "" for row in vars(action)["_choices_actions"]}
            for name, part in action.choices.items():
                yield name, helps.get(name, ""), part


def _verb(name: str, description: str, verb: argparse.ArgumentParser, level: str) -> Iterator[str]:
    """Yield the section of a verb, followed by those of its actions."""
    actions = [a for a in vars(verb)["_actions"] if a.dest != "help"]
    plain = [a for a in actions if a.nargs != argparse.PARSER]
    parts = list(_parts(verb))
    words = [name, *(_usage(a) for a in plain if not a.option_strings or a.required)]
    words += ["[options]"] if any(a.option_strings and not a.required for a in plain) else []
    words += ["ACTION ..."] if parts else []
    yield from (f"{level} {name}", "", f"{description[:1].upper()}{description[1:]}.", "")
    yield from ("```", " ".join(words), "```", "")
    if verb.description:
        yield from (_cell(verb.description), "")
    if plain:
        yield from table(("argument", "meaning"), [_argument(verb, action) for action in plain])
    for part, about, below in parts:
        yield from _verb(f"{name} {part}", about, below, f"{level}#")


def _usage(action: argparse.Action) -> str:
    value = _metavar(action)
    if action.option_strings:
        return f"{action.option_strings[-1]} {value}"
    return {"?": f"[{value}]", "*": f"[{value} ...]", "+": f"{value} [{value} ...]"}.get(
        str(action.nargs), value
    )


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar:
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(str(choice) for choice in action.choices) + "}"
    return action.dest.upper()


def _argument(verb: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, str]:
    """Return the cells of an argument: its syntax and its meaning."""
    help_text = (action.help or "") % {**vars(action), "prog": verb.prog}
    help_text = _MACHINE.sub("at most the machine's cores", help_text)
    if not action.option_strings:
        return _code(_metavar(action)), help_text
    value = "" if action.nargs == 0 else f" {_metavar(action)}"
    repeated = f" [{_metavar(action)} ...]" if action.nargs == "+" else ""
    return _code(f"{', '.join(action.option_strings)}{value}{repeated}"), help_text


def _exit_codes() -> list[str]:
    from workbench.cli import parser

    codes = re.findall(r"(\d+) ([^;]+)", " ".join((parser().epilog or "").split()))
    lines = ["# Exit codes", "", NOTE.format("workbench.guide")]
    lines += ["Every verb of `workbench` ends with one of these codes.", ""]
    return [*lines, *table(("code", "meaning"), [(_code(code), meaning) for code, meaning in codes])]


# JSON documents


def _json_output() -> list[str]:
    from workbench.api import JSON_VERSION
    from workbench.api.documents import DOCUMENTS

    lines = ["# JSON output", "", NOTE.format("workbench.guide")]
    lines += [
        f"With `--json`, a verb prints exactly one JSON document. Its `version` is {JSON_VERSION}; "
        "keys may be added within a version, never renamed or removed. These documents have a "
        "JSON schema beside this page.",
        "",
    ]
    for name, kind in DOCUMENTS.items():
        schema = kind.model_json_schema(mode="serialization")
        lines += [f"## {name}", "", f"{_sentence(kind.__doc__)} Schema: `{name}.schema.json`.", ""]
        lines += table(("key", "type"), _keys(schema["properties"]))
    problem = ErrorInfo.model_json_schema()["properties"]
    lines += ["## A problem", "", f"{_sentence(ErrorInfo.__doc__)}", ""]
    return [*lines, *table(("key", "type"), _keys(problem))]


def _keys(properties: dict[str, Any]) -> list[tuple[str, str]]:
    """Return name and type of every key; types of their own are in the schema."""
    link = re.compile(r"\[(\w+)\]\(#\w+\)")
    return [(_code(key), link.sub(r"`\1`", _type(part))) for key, part in properties.items()]


def _sentence(text: str | None) -> str:
    return " ".join((text or "").replace("``", "`").split())


# The project file


def _project_file() -> list[str]:
    schema = Project.model_json_schema()
    lines = ["# Project file", "", NOTE.format("workbench.guide")]
    lines += [
        f"A project is one JSON document in a file `NAME{PROJECT_SUFFIX}`, of version "
        f"{PROJECT_VERSION}. Files of earlier versions are migrated when they are opened. Unknown "
        "fields are refused. Paths are relative to the file.",
        "",
    ]
    lines += _object("Project", schema)
    for name, part in schema["$defs"].items():
        lines += _object(name, part)
    lines += ["## Kinds of rules", ""]
    lines += table(
        ("kind", "call of the quantizer", "call of the partitioner (config `cpu`)"),
        [(_code(kind), _code(call), _code(KEEPING_CALLS[kind])) for kind, call in RULE_CALLS.items()],
    )
    lines += ["## Configs by name", ""]
    lines += table(
        ("config", "title", "what it is"),
        [(_code(preset.id), preset.title, preset.description) for preset in PRESETS],
    )
    for target in TARGETS:
        lines += _options(target)
    return lines


def _object(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from (f"## {name}", "")
    # One paragraph per paragraph of the docstring.
    for paragraph in str(schema.get("description", "")).split("\n\n"):
        yield from (_cell(paragraph), "")
    needed = schema.get("required", [])
    rows = []
    for field, part in schema.get("properties", {}).items():
        # Only object defaults of factories are in the schema.
        absent: Any = {} if part.get("type") == "object" else None
        default = "required" if field in needed else _code(_json(part.get("default", absent)))
        rows.append((_code(field), _type(part), default))
    yield from table(("field", "type", "default"), rows)


def _json(value: Any) -> str:
    import json

    return json.dumps(value)


def _type(schema: dict[str, Any]) -> str:
    """Return a JSON schema's type with its limits."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if parts := schema.get("anyOf", schema.get("oneOf")):
        return " or ".join(dict.fromkeys(_type(part) for part in parts))
    if "enum" in schema or "const" in schema:
        return ", ".join(_code(_json(v)) for v in schema.get("enum", [schema.get("const")]))
    if schema.get("type") in {"array", "object"}:
        return _collection(schema)
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
        "minLength": "length at least",
    }
    limits = [f"{phrase} {schema[key]:g}" for key, phrase in words.items() if key in schema]
    return ", ".join((str(schema.get("type", "any value")), *limits))


def _collection(schema: dict[str, Any]) -> str:
    """Return the type of an array or an object."""
    if "prefixItems" in schema:
        return f"[{', '.join(_type(part) for part in schema['prefixItems'])}]"
    if schema["type"] == "array":
        return f"list of {_type(schema.get('items', {}))}"
    inner = schema.get("additionalProperties")
    return f"object of {_type(inner)}" if isinstance(inner, dict) else "object"


def _options(target: TargetSpec) -> Iterator[str]:
    """Yield the section of a target's options for its first device."""
    choice = target.complete(TargetChoice(id=target.variants[0].id))
    rows = []
    for option in target.options(choice):
        values = ", ".join(_code(_json(c.value)) for c in option.choices)
        text = " ".join((f"{option.title}.", option.description)).strip()
        rows.append((_code(option.name), text, values, _code(_json(option.default))))
    if rows:
        yield from (f"## Options of the target {target.title}", "")
        yield f"Choices are those for `{choice.id}`; other devices have choices of their own."
        yield ""
        yield from table(("option", "meaning", "choices", "default"), rows)


# Operator support


def _operator_support() -> list[str]:
    lines = ["# Operator support", "", NOTE.format("workbench.guide")]
    lines += [
        "What the program knows without compiling. Which operators of your model a device takes is "
        "a question for the toolchain: `workbench placement` asks ExecuTorch's partitioner, and "
        "only `workbench run` asks Vela.",
        "",
    ]
    for target in TARGETS:
        lines += _target(target)
    lines += ["## Operators that NNPA does not quantize", ""]
    lines += table(
        ("operator", "why it is not quantized"),
        [(_code(f"aten.{op}"), why_never(f"aten.{op}").text) for op in _NEVER_INT8],
    )
    lines += ["## Operations that take number formats", ""]
    lines += table(
        ("operator", "operation of MASE's table, or why it stays in float"),
        [(_code(op), support) for op, support in OPERATORS.items()]
        + [(_code(op), reason.text) for op, reason in FUSED.items()],
    )
    lines += ["## Number formats", ""]
    lines += table(
        ("format", "title", "family", "in MASE", "for rules"),
        [(_code(s.name), s.title, s.family, _yes(s.mase), _yes(s.operand)) for s in SPECS],
    )
    return lines


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _silicon() -> list[str]:
    """Return the lines of the page of measured times, board by board."""
    lines = [
        "# Measured times", "", NOTE.format("workbench.guide"),
        "How far estimates are from what boards measure. The rows are published times "
        "(`resources/silicon`); `workbench silicon list` has all of them with your own, "
        "`workbench silicon check` the intervals. No program of this workbench was run on a board "
        "by its makers.", "",
        "*Before* is the estimate without corrected cycles and placements, *estimate* the present "
        "one for the network as it was rebuilt, *ratio* what was measured divided by the estimate. "
        f"With {LEAST_ROWS} rows or more of a board, device and placement a time is *anchored*: "
        "the estimate times the geometric mean of the ratios, from the smallest to the largest "
        "error of a mean that was made without the row that it predicts (*the others*). With "
        "fewer rows it stays *estimated*, and the ratios are shown.", "",
    ]  # fmt: skip
    for name, file in shipped().items():
        rows = [row for row in file.row if row.ratio]
        if not rows:
            continue
        others = {r.id: r.others for g in groups(shipped_only=True) for r in g.rows}
        lines += [f"## {name}", ""]
        lines += table(
            ("network", "placement", "measured", "before", "estimate", "ratio", "the others", ""),
            ((r.network, r.placement or "not known", in_figures(r.measured_ms, r.measured_cycles),
              in_figures(r.uncorrected_ms, None), in_figures(r.estimate_ms, r.estimate_cycles),
              f"{r.ratio:.2f}", "" if others.get(r.id) is None else f"{others[r.id]:.2f}",
              "" if r.used else f"not used: {r.doubt}") for r in rows),
        )  # fmt: skip
        lines += [f"{len(file.row) - len(rows)} further rows were not rebuilt.", ""]
    lines += ["## Corrections of the estimate", ""]
    lines += table(
        ("id", "Vela 5.1 counts", "counted instead", "example", "source"),
        ((f"`{row.id}`", row.fault, row.instead, row.example, row.source)
         for row in CYCLE_CORRECTIONS),
    )  # fmt: skip
    return lines


def _corrections() -> list[str]:
    """Return the lines of the page of the corrections, in the order of their table."""
    lines = ["# Corrections", "", NOTE.format("workbench.guide"), _ABOUT_CORRECTIONS, ""]
    for row in CORRECTIONS:
        versions = ", ".join(f"{name} {version}" for name, version in row.proven.items())
        report = f" Report: <{row.link}>." if row.link else ""
        lines += [
            f"## {row.title}",
            "",
            f"Switch: `{row.id}`. Proven with {versions}.{report}",
            "",
            f"- Fault: {row.fault}",
            f"- Smallest network: `{row.network}`",
            f"- Instead: {row.instead}",
            f"- Why that is right: {row.why_right}" + " It only saves cycles." * row.saves_cycles,
            "",
        ]
    return lines


def _rewrites() -> list[str]:
    """Return the lines of the page of the rewrites, in the order in which they are applied."""
    lines = ["# Rewrites", "", NOTE.format("workbench.guide"), _ABOUT_REWRITES, ""]
    for row in REWRITES:
        lines += [
            f"## {row.title}",
            "",
            f"Switch: `{row.id}`.",
            "",
            f"- Slow: {row.fault}",
            f"- Smallest network: `{row.network}`",
            f"- Instead: {row.instead}",
            f"- Why that is exact: {row.why_exact}",
            "",
        ]
    return lines


_ABOUT_REWRITES = """\
Networks for Ethos-U are rewritten before they are quantized where the same function takes fewer \
cycles. [Faster programs](../user/faster.md) tells how. Each rewrite is on by default and has a \
switch among the target's options (`workbench target PROJECT strides_to_channels=false`). It is \
part of the key of *Prepare*, stands in the manifest, in `run --json` and in the summary of a run, \
and generated scripts carry it along."""

_ABOUT_CORRECTIONS = """\
Where ExecuTorch or Vela refuse a program that the device can run, or make one that is not the \
quantized model, a correction is applied. Each is on by default and has a switch among the \
target's options (`workbench target PROJECT fine_tables=false`). It is part of the key of the \
stage it changes, stands in the manifest, in `run --json` and in the summary of a run, and \
generated scripts carry it along. Where the installed source is not the one it was written for, \
it is not applied and the log says so. [Figures of the corrections](correction-figures.md) has \
what each gains and costs."""


def _target(target: TargetSpec) -> Iterator[str]:
    """Yield the section of a target: devices, supported configs, reported problems."""
    yield from (f"## {target.title}", "")
    if target.emulation:
        yield from (f"Results are {target.emulation}.", "")
    yield from table(
        ("device", "title", "MACs per cycle"),
        [(_code(v.id), v.title, target.macs_per_cycle(v.id) or "") for v in target.variants],
    )
    choice = target.complete(TargetChoice(id=target.variants[0].id))
    yield from table(
        ("config", "taken", "reason"),
        [(_code(p.id), _yes(not refusal), refusal) for p, refusal in _refusals(target, choice)],
    )
    refusals = list(_known_refusals(target))
    if refusals:
        yield from ("Known before compiling, for single operators:", "")
        yield from table(("operator", "precision", "devices", "report", "remedy"), refusals)


def _refusals(target: TargetSpec, choice: TargetChoice) -> Iterator[tuple[Preset, str]]:
    """Yield every preset with the reason why the target does not support it; "" if it does."""
    for preset in PRESETS:
        if preset.places:
            yield preset, "" if target.places else "This target places nothing on a device."
        else:
            kind = "io" if preset.io_only else "module_name"
            yield preset, target.refusal(choice, preset.config, kind)  # type: ignore[arg-type]


def _known_refusals(target: TargetSpec) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the target's reports on programs of one operator, for each kind of device."""
    kinds = {v.kind: v.id for v in reversed(target.variants) if v.kind}
    for op in _PROBED:
        node = Node(op, f"aten.{op}.default", "call")
        graph = GraphSnapshot("float", (node,), (), ())
        for precision, wide, narrow in (
            ("any", (), ()),
            ("16-bit activations", (op,), ()),
            ("4-bit weights", (), (op,)),
        ):
            refusals: dict[tuple[str, str], list[str]] = {}
            for kind, device in reversed(kinds.items()):
                choice = target.complete(TargetChoice(id=device))
                infos = target.forecast(choice, graph, wide, narrow)
                reasons = [(info.message, info.hint) for info in infos]
                if wide:
                    warned = target.warnings(choice, A16W8, [node.op])
                    reasons += [(message, target.remedy) for message in warned]
                for pair in reasons:
                    refusals.setdefault(pair, []).append(kind)
            for (message, hint), devices in refusals.items():
                if precision == "any" or not _is_always(target, graph, message):
                    yield _code(op), precision, ", ".join(devices), message, hint


def _is_always(target: TargetSpec, graph: GraphSnapshot, message: str) -> bool:
    """Return whether a report is independent of precision."""
    choices = (target.complete(TargetChoice(id=v.id)) for v in target.variants)
    return any(i.message == message for c in choices for i in target.forecast(c, graph, (), ()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the reference pages, or list the outdated ones; returns 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m workbench.guide", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the pages")
    return write_or_compare(pages(), write=parser.parse_args(arguments).write)


def write_or_compare(documents: dict[str, str], *, write: bool) -> int:
    """Write reference pages if requested; return 1 if one differs from its file, else 0.

    Args:
        documents: Text by file name, in the folder ``reference`` of the guide.
        write: Whether to write differing pages.
    """
    files = {REFERENCE / name: text for name, text in documents.items()}
    stale = [p for p, t in files.items() if not p.is_file() or p.read_text("utf-8") != t]
    for path in stale:
        sys.stdout.write(f"{'wrote' if write else 'out of date:'} {path.name}\n")
        if write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path], encoding="utf-8")
    return 1 if stale and not write else 0


if __name__ == "__main__":
    sys.exit(main())
