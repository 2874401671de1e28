"""Rules that another target does not support are converted, or switched off."""

from tests.fakes.projects import make_project
from workbench.project import edits
from workbench.project.model import Rule, TargetChoice
from workbench.targets import OFF, TARGETS, convert_rules, target_of

RULES = (
    Rule(id="r1", kind="global", match="", config="a8w8"),
    Rule(id="r2", kind="io", match="", config="a8w8"),
    Rule(id="r3", kind="module_name", match="head", config="a16w8"),
    Rule(id="r4", kind="module_name", match="stem", config="a16w8", enabled=False),
    Rule(id="r5", kind="module_name", match="mix", config="float"),
)


def test_that_every_target_supports_what_the_rules_become():
    for target in TARGETS:
        choice = target.complete(TargetChoice(id=target.variants[0].id))
        project, conversions = convert_rules(edits.revise(make_project(), rules=RULES), choice)
        assert project.target == choice
        assert [rule.id for rule in project.rules] == [rule.id for rule in RULES]
        used = [rule for rule in project.rules if rule.enabled]
        refused = [r.id for r in used if target.refusal(choice, project.config_of(r), r.kind)]
        assert not refused, target.id
        assert len({c.name for c in conversions}) == len(conversions)


def test_that_what_is_supported_or_off_stays_and_what_has_no_config_is_switched_off():
    choice = TargetChoice(id="nnpa")
    project, conversions = convert_rules(edits.revise(make_project(), rules=RULES), choice)
    first = target_of("nnpa").first_config
    assert {c.name: (c.before, c.after) for c in conversions} == {
        "Whole model": ("a8w8", first),
        "Inputs and outputs": ("a8w8", OFF),
        "head": ("a16w8", first),
    }
    by_id = {rule.id: rule for rule in project.rules}
    assert by_id["r4"] == RULES[3]
    assert by_id["r5"] == RULES[4]
    assert not by_id["r2"].enabled
