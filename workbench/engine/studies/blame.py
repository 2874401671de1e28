"""Find what the compiler refuses, by keeping ever fewer modules off the NPU.

Keeping more off is taken never to make a program worse: then a binary search over the modules,
those that run last first, finds one that must stay off, and several are found one by one. Last
first, because what follows a module that is kept off may fall off the NPU with it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workbench.errors import Place, failure
from workbench.graph.snapshot import GraphSnapshot
from workbench.results import GRAPH_FILE
from workbench.studies.documents import Blame, Culprit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.engine.studies.study import StudyContext


def run(study: StudyContext) -> None:
    """Leave what has to stay off the NPU.

    Raises:
        WorkbenchError: the compiler fails even with nothing on the NPU.
    """
    graph = GraphSnapshot.load(study.stage.path("export") / GRAPH_FILE)
    search = _Search(study, candidates(graph))
    search.find()


def candidates(graph: GraphSnapshot) -> list[Culprit]:
    """Return what can be blamed, what runs last first.

    Modules with nothing but operations of their own as a whole; operations of others one by one.
    """
    calls = [node for node in graph.nodes if node.kind == "call"]
    owners = {node.module for node in calls}
    found: dict[Culprit, None] = {}
    for node in calls:
        is_leaf = bool(node.module) and not any(
            other.startswith(f"{node.module}.") for other in owners
        )
        found[
            Culprit(kind="module_name", match=node.module)
            if is_leaf
            else Culprit(kind="node_name", match=node.id)
        ] = None
    return list(found)[::-1]


class _Search:
    def __init__(self, study: StudyContext, left: Sequence[Culprit]) -> None:
        self._study, self._left = study, list(left)
        self._found: list[Culprit] = []
        self._reason, self._tried = "", 0
        # One attempt as it is, one for each halving, one to see that this was all.
        self._expected = 2 + math.ceil(math.log2(max(2, len(self._left))))

    def find(self) -> None:
        """Blame one after the other until the rest compiles."""
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
            self._found.append(self._left[at])
            self._left = self._left[:at]
            refused = self._refusal([])
        self._tell(is_done=True)

    def _last_to_blame(self) -> int:
        """Return the place of one that must stay off: all before it do not suffice."""
        low, high = 0, len(self._left)
        while high - low > 1:
            middle = (low + high) // 2
            if self._refusal(self._left[:middle]):
                low = middle
            else:
                high = middle
        return high - 1

    def _refusal(self, more: Sequence[Culprit]) -> str:
        off = [(c.kind, c.match) for c in (*self._found, *more)]
        kept = [*self._study.stage.project.kept_off(), *off]
        said = self._study.stage.toolchain().refusal(self._study.stage, kept)
        self._tried += 1
        self._tell(is_done=False)
        return said

    def _tell(self, *, is_done: bool) -> None:
        document = Blame(
            reason=self._reason, culprits=tuple(self._found), compilations=self._tried,
            is_done=is_done,
        )  # fmt: skip
        total = self._tried if is_done else max(self._expected, self._tried + 1)
        self._study.tell(document, self._tried, total, f"attempt {self._tried}")
