"""A model on several devices in several precisions: verified, or the reason why not."""

from __future__ import annotations

import pytest

from tests.engine.in_process import CALIBRATED, project
from workbench.protocol import RunStudy
from workbench.studies.documents import load_study, study_folder, study_key
from workbench.studies.matrix import MatrixResult

pytestmark = pytest.mark.engine


def test_that_every_cell_is_verified_or_says_why_not(engine):
    made = project("softmax", **CALIBRATED)
    options = {"targets": ["ethos-u55-128", "ethos-u85-256"], "configs": ["a8w8", "a16w8"]}
    engine.send(
        RunStudy(job="m", study="matrix", project=made, folder=str(engine.folder),
                 options=options, cache_root=str(engine.cache.root))
    )  # fmt: skip
    assert engine.follow() == "done", engine.failure
    key = study_key("matrix", made, engine.folder, engine.cache, options)
    found = load_study(MatrixResult, study_folder(engine.cache, key))
    cells = {(cell.target, cell.config): cell for cell in found.cells}
    assert len(cells) == found.total == 4
    refused = cells.pop(("ethos-u55-128", "a16w8"))
    assert refused.problem
    assert refused.warned
    for cell in cells.values():
        assert cell.problem == ""
        assert cell.delegates >= 1
        assert cell.cycles > 0
        assert cell.max_lsb <= 2
