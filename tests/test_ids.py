"""Ids as types: each Literal holds the ids of its table; mypy rejects every other."""

from typing import get_args

from ui.shared.panel import PanelId
from ui.shell.panels import PANELS
from ui.shell.run_controller import RESULT_PANELS, STUDY_PANELS
from workbench.ids import STAGE_IDS, STUDY_IDS, PresetId, TargetId, is_stage, is_study
from workbench.pipeline.stages import STAGES
from workbench.project.configs import PRESETS
from workbench.results import RESULTS
from workbench.studies import STUDIES
from workbench.targets import TARGETS


def test_that_the_types_hold_the_ids_of_their_tables():
    assert tuple(stage.id for stage in STAGES) == STAGE_IDS
    assert tuple(study.id for study in STUDIES) == STUDY_IDS
    assert {panel.id for panel in PANELS} == set(get_args(PanelId))
    assert {target.id for target in TARGETS} == set(get_args(TargetId))
    assert {preset.id for preset in PRESETS} == set(get_args(PresetId))


def test_that_every_stage_has_a_result_and_a_panel_and_every_study_a_panel():
    assert set(RESULTS) == set(RESULT_PANELS) == set(STAGE_IDS)
    assert set(STUDY_PANELS) == set(STUDY_IDS)


def test_that_stages_and_studies_are_told_apart():
    assert all(is_stage(name) and not is_study(name) for name in STAGE_IDS)
    assert all(is_study(name) and not is_stage(name) for name in STUDY_IDS)
    assert not is_stage("")
