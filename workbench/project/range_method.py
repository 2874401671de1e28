"""A method chosen for the ranges of some tensors: kept as a choice, computed where it is used."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from workbench.project.frozen import Frozen

MethodId = Literal["histogram", "minmax", "percentile", "mse", "kl"]
MethodScope = Literal["all", "module", "tensor"]
_WIDEST_FIRST: tuple[MethodScope, ...] = ("all", "module", "tensor")


class RangeMethod(Frozen):
    """How ranges are taken from what calibration saw, in place of what the rules' observers say.

    ``match`` is a module's path, or the node of the exported graph that makes a tensor; "" for
    all activations. Numbers are computed anew whenever data, weights or precision change.
    """

    scope: MethodScope
    match: str = ""
    method: MethodId = Field(description="see workbench.numerics.methods")

    @model_validator(mode="after")
    def _names_what_it_is_for(self) -> Self:
        if (self.scope == "all") == bool(self.match):
            wanted = "takes no match" if self.scope == "all" else "needs a match"
            raise ValueError(f"a method for {self.scope} {wanted}")
        return self

    @property
    def strength(self) -> tuple[int, int]:
        """Orders choices: a tensor beats a module, an inner module an outer one."""
        return _WIDEST_FIRST.index(self.scope), self.match.count(".")

    def speaks_of(self, tensor: str, module: str) -> bool:
        """Return whether a tensor, made inside a module, is meant."""
        if self.scope == "tensor":
            return tensor == self.match
        inside = module == self.match or module.startswith(f"{self.match}.")
        return self.scope == "all" or inside

    @property
    def place(self) -> str:
        """What it is for, in words."""
        named = {"all": "all activations", "module": f"all of {self.match}", "tensor": self.match}
        return named[self.scope]


def without_origins(raw: dict[str, Any]) -> dict[str, Any]:
    """Return raw fields in which no fixed range names a method: such ranges become the method.

    Before version 2 of the project file, a method's choice was kept as the numbers it gave.
    """
    ranges, methods = raw.get("ranges"), raw.get("range_methods", [])
    if not isinstance(ranges, list) or not isinstance(methods, list):
        return raw
    if not all(isinstance(each, dict) for each in ranges):
        return raw
    taken = [
        {"scope": "tensor", "match": each.get("tensor"), "method": each["by"]}
        for each in ranges
        if each.get("by")
    ]
    kept = [
        {name: value for name, value in each.items() if name != "by"}
        for each in ranges
        if not each.get("by")
    ]
    return {**raw, "ranges": kept, "range_methods": [*methods, *taken]}
