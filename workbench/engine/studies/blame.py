"""Blame study: find the modules that the compiler rejects, by bisection.

Assumption: keeping more modules off the NPU never makes a program worse. A binary search over the
modules, last one first, then finds one that must be kept off; it is repeated until the rest
compiles. Last first, because operators after a module on the CPU may leave the NPU with it.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from workbench.engine.runtime.context import PROGRESS_PERIOD_S
from workbench.engine.targets import device_of
from workbench.errors import Place, failure
from workbench.graph.snapshot import GraphSnapshot
from workbench.results import GRAPH_FILE
from workbench.studies.documents import Blame, Culprit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.engine.studies.study import StudyContext


# Steps of an attempt in the reported progress.
_STEPS = 100


def run(study: StudyContext) -> None:
    """Write the modules that must be kept off the NPU.

    Raises:
        WorkbenchError: the compiler fails even with nothing on the NPU.
    """
    graph = GraphSnapshot.load(study.stage.path("export") / GRAPH_FILE)
    search = _Search(study, candidates(graph))
    search.find()


def candidates(graph: GraphSnapshot) -> list[Culprit]:
    """Return the candidates, last in program order first.

    A module is a candidate as a whole if all its operations are its own; other operations are
    separate candidates.
    """
    calls = [node for node in graph.nodes if node.kind == "call"]
    owners = {node.module for node in calls}
    groups: dict[Culprit, None] = {}
    for node in calls:
        is_leaf = bool(node.module) and not any(other.startswith(f"{node.module}.") for other in owners)
        groups[
            Culprit(kind="module_name", match=node.module)
            if is_leaf
            else Culprit(kind="node_name", match=node.id)
        ] = None
    return list(groups)[::-1]


class _Search:
    def __init__(self, study: StudyContext, left: Sequence[Culprit]) -> None:
        self._study, self._left = study, list(left)
        self._culprits: list[Culprit] = []
        self._refusals: dict[frozenset[tuple[str, str]], str] = {}
        self._reason, self._tried, self._reported = "", 0, 0.0
        # One attempt unchanged, one per bisection step, one to confirm the result.
        self._expected = 2 + math.ceil(math.log2(max(2, len(self._left))))

    def find(self) -> None:
        """Find candidates one by one until the rest compiles."""
        self._reason = refused = self._refusal([])
        while refused:
            if self._refusal(self._left):
                raise failure(
                    "Compilation fails even with nothing on the NPU.",
                    "The cause is not an operator on the NPU. See the log for the compiler output.",
                    Place(kind="stage", id="lower"),
                    self._reason,
                    code="blame-without-npu-fails",
                )
            at = self._last_to_blame()
            self._culprits.append(self._left[at])
            self._left = self._left[:at]
            refused = self._refusal([])
        self._tell(is_done=True)

    def _last_to_blame(self) -> int:
        """Return the index of a candidate that must be kept off: all before it do not suffice."""
        low, high = 0, len(self._left)
        while high - low > 1:
            middle = (low + high) // 2
            if self._refusal(self._left[:middle]):
                low = middle
            else:
                high = middle
        return high - 1

    def _refusal(self, more: Sequence[Culprit]) -> str:
        off = [(c.kind, c.match) for c in (*self._culprits, *more)]
        if (known := self._refusals.get(frozenset(off))) is not None:
            return known
        kept = [*self._study.stage.project.cpu_only_rules(), *off]
        self._report(0.0, f"{len(off)} of {len(self._culprits) + len(self._left)} kept off the NPU")
        refusal = device_of(self._study.stage).refusal(self._study.stage, kept, self._report)
        self._refusals[frozenset(off)] = refusal
        self._tried += 1
        self._tell(is_done=False)
        return refusal

    def _report(self, share: float, message: str) -> None:
        """Report where the present attempt is; ``share`` of it is done."""
        done = int((self._tried + share) * _STEPS)
        now = time.monotonic()
        if share and now - self._reported < PROGRESS_PERIOD_S:
            return
        self._reported = now
        text = f"attempt {self._tried + 1} of about {self._total}: {message}"
        self._study.report(done, self._total * _STEPS, text)

    @property
    def _total(self) -> int:
        """The number of attempts that is expected; more once it turns out that it takes more."""
        return max(self._expected, self._tried + 1)

    def _tell(self, *, is_done: bool) -> None:
        document = Blame(
            reason=self._reason, culprits=tuple(self._culprits), compilations=self._tried, is_done=is_done
        )
        total = self._tried if is_done else self._total
        progress = f"attempt {self._tried} of {'' if is_done else 'about '}{total}"
        self._study.tell(document, self._tried * _STEPS, total * _STEPS, progress)
