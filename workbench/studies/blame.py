"""What has to stay off the NPU for the compiler to take the rest."""

from __future__ import annotations

from workbench.project.frozen import Frozen
from workbench.project.model import RuleKind


class Culprit(Frozen):
    """One module or node the compiler refuses: a rule that keeps it off names it so."""

    kind: RuleKind
    match: str


class Blame(Frozen):
    """``reason`` is the compiler's own first sentence, "" if it takes the program as it is.

    ``culprits`` are all there are once ``is_done``; ``compilations`` counts the attempts.
    """

    reason: str
    culprits: tuple[Culprit, ...] = ()
    compilations: int = 0
    is_done: bool = False
