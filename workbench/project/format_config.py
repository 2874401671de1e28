"""A number format as a rule assigns it: one scheme, with parameters for each operand."""

from __future__ import annotations

from pydantic import Field, JsonValue

from workbench.project.frozen import Frozen


class FormatConfig(Frozen):
    """One way to emulate a number format on the operands of an operation.

    ``scheme`` is a format of ``workbench formats list``. ``parameters`` are flat and carry MASE's
    names: ``data_in_*`` for what flows, ``weight_*`` for weights and second operands, ``bias_*``;
    without such a prefix they hold for every operand.
    """

    scheme: str = Field(min_length=1)
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    mase_compatible: bool = False

    @property
    def label(self) -> str:
        """A short name: the scheme, bits of data and weight where it says them, MASE's form."""
        given = self.parameters
        widths = [given.get(f"{prefix}width", given.get("width")) for prefix in _SHOWN]
        bits = "/".join(str(w) for w in dict.fromkeys(widths) if w is not None)
        return " ".join(part for part in (self.scheme, bits, _MASE * self.mase_compatible) if part)


_SHOWN = ("data_in_", "weight_")
_MASE = "(MASE)"
