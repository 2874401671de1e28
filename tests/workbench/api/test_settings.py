"""Options of a target as values."""

import pytest

import workbench.api as wb
from workbench.project.model import TargetChoice


def test_that_an_option_is_set_and_an_unknown_one_refused(tmp_path):
    choice = TargetChoice(id="ethos-u55-128")
    changed = wb.set_options(choice, {"memory_mode": "Sram_Only"}, tmp_path)
    assert changed.options["memory_mode"] == "Sram_Only"
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.set_options(choice, {"memory_mood": "Sram_Only"}, tmp_path)
    info = caught.value.infos[0]
    assert (info.code, info.where.id) == ("target-option-invalid", "target.memory_mood")
