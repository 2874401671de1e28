"""Suggestions that are edits of the project: rules and target options."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.suggestions.card import Suggestion
from workbench.suggestions.source import has_no_pattern
from workbench.targets import target_of
from workbench.words import listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.project.model import Project, Rule, RuleKind
    from workbench.suggestions.card import Edit
    from workbench.suggestions.left import Left, Operator

_EIGHT_BIT = "a8w8"
_INTEGER_IO = "integer_io"


def by_config(project: Project, left: Left) -> Iterator[Suggestion]:
    """Yield what rules and options of the target can do about operators on the CPU."""
    yield from _let_on(project, left)
    yield from _quantize(project, left)
    yield from _narrow(project, left)
    yield from _integer_io(project, left)


def _let_on(project: Project, left: Left) -> Iterator[Suggestion]:
    """Yield the rules that keep something off the NPU, to be removed."""
    for rule in project.rules:
        chosen = [each for each in left.operators if _keeps(rule, each)]
        if chosen:
            yield _of_config(
                left, chosen, f"off:{rule.id}", f"Let {_named(rule)} onto the NPU",
                f"Rule {_number(project, rule)} keeps {_named(rule)} there.",
                partial(edits.remove_rule, rule_id=rule.id),
            )  # fmt: skip


def _keeps(rule: Rule, operator: Operator) -> bool:
    return operator.effective is not None and operator.effective.kept_off == rule.id


def _quantize(project: Project, left: Left) -> Iterator[Suggestion]:
    """Yield what is float because a rule says so, or because none speaks of it."""
    groups: dict[str | None, list[Operator]] = defaultdict(list)
    for each in left.operators:
        effective = each.effective
        if effective is None or effective.kept_off or effective.label != "float":
            continue
        if not has_no_pattern(each):
            groups[effective.rule].append(each)
    rules = {rule.id: rule for rule in project.rules}
    for rule_id, chosen in groups.items():
        rule = rules.get(rule_id or "")
        kind, match = (rule.kind, rule.match) if rule else ("global", "")
        what = _named(rule) if rule else "what no rule covers"
        why = (
            f"Rule {_number(project, rule)} leaves {what} in float; the NPU takes integers only."
            if rule
            else "What no rule speaks of is float; the NPU takes integers only."
        )
        yield _of_config(
            left, chosen, f"float:{rule_id or ''}", f"Give {what} {_EIGHT_BIT}", why,
            partial(edits.assign, kind=kind, match=match, config=_EIGHT_BIT),
        )  # fmt: skip


def _narrow(project: Project, left: Left) -> Iterator[Suggestion]:
    """Yield modules with operators that this device computes in 8 bit only."""
    groups: dict[str, list[Operator]] = defaultdict(list)
    for each in left.operators:
        if each.cpu.cause == "int16":
            groups[each.module].append(each)
    for module, chosen in groups.items():
        what = module or "the whole model"
        kind: RuleKind = "module_name" if module else "global"
        yield _of_config(
            left, chosen, f"int16:{module}", f"Give {what} {_EIGHT_BIT}",
            f"This device has that operation in 8 bit only. All of {what} becomes 8-bit, except "
            "where a stronger rule says otherwise.",
            partial(edits.assign, kind=kind, match=module, config=_EIGHT_BIT),
        )  # fmt: skip


def _integer_io(project: Project, left: Left) -> Iterator[Suggestion]:
    """Yield integer input and output where every input and output has just one conversion."""
    choice = target_of(project.target.id).complete(project.target)
    if choice.options.get(_INTEGER_IO) is not False or not left.border or not _convertible(left):
        return
    number = len(left.border)
    yield Suggestion(
        id=_INTEGER_IO,
        title="Take and give integers",
        evidence="The program takes and gives float, and converts at its border on the CPU. "
        "The application then gives and reads integers with the scale and zero point "
        "that the manifest names.",
        expected=f"{plural(number, 'operator')} fewer on the CPU of {left.total}: "
        "counted in the graph.",
        nodes=left.border,
        edit=_take_integers,
    )


def _take_integers(project: Project) -> Project:
    options = {**project.target.options, _INTEGER_IO: True}
    return edits.set_target(project, TargetChoice(id=project.target.id, options=options))


def _convertible(left: Left) -> bool:
    """Tell whether ExecuTorch's passes take the border: they want one conversion at each tensor.

    Source: ExecuTorch 1.5.1, ``exir/passes/quantize_io_pass.py``.
    """
    edge, border = left.edge, set(left.border)
    for node in edge.nodes:
        if "/" in node.id:
            continue
        if node.kind == "input":
            users = edge.consumers(node.id)
            if len(users) != 1 or users[0].id not in border:
                return False
        elif node.kind == "output" and any(
            maker.id not in border for maker in edge.producers(node.id)
        ):
            return False
    return True


def _of_config(
    left: Left, chosen: Sequence[Operator], identity: str, title: str, why: str, edit: Edit
) -> Suggestion:  # fmt: skip
    nodes = left.with_followers(chosen)
    names = listed([each.name for each in left.operators if each.cpu.node in nodes])
    fewer = left.fewer(nodes)
    stays = "stays" if len(nodes) == 1 else "stay"
    return Suggestion(
        id=identity,
        title=title,
        evidence=f"{names} {stays} on the CPU. {why}",
        expected=f"Up to {fewer} fewer on the CPU of {left.total}, conversions included: counted "
        "in the graph." if fewer > 0 else
        f"{plural(len(nodes), 'operator')} leave the CPU, but as many conversions come.",
        nodes=nodes,
        edit=edit,
    )  # fmt: skip


def _named(rule: Rule) -> str:
    if rule.kind == "module_type":
        return rule.match.rpartition(".")[2]
    return rule.match or {"global": "the whole model", "io": "inputs and outputs"}[rule.kind]


def _number(project: Project, rule: Rule) -> int:
    return project.rules.index(rule) + 1
