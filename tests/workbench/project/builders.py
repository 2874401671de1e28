"""Small projects for tests, without files."""

from workbench.project.model import ModelSource, Project, Rule, TargetChoice


def make_project(*rules: Rule, **fields: object) -> Project:
    """Return a project for U55-128 with the given rules."""
    base: dict[str, object] = {
        "name": "net",
        "model": ModelSource(spec="model.py:net"),
        "target": TargetChoice(id="ethos-u55-128"),
        "rules": rules,
    }
    return Project(**{**base, **fields})


def rule(id_: str, kind: str, match: str = "", config: object = "a8w8", **rest: object) -> Rule:
    """Return a rule."""
    return Rule(id=id_, kind=kind, match=match, config=config, **rest)
