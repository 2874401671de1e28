"""The table of studies."""

from workbench.studies import STUDIES, STUDIES_BY_ID


def test_that_studies_that_estimate_costs_or_ask_the_compiler_need_one():
    needing = {study.id for study in STUDIES if study.costs}
    assert needing == {"search", "sweep", "budget", "blame", "tflite"}


def test_that_every_study_is_found_by_its_id_and_names_what_runs_it():
    assert [STUDIES_BY_ID[study.id] for study in STUDIES] == list(STUDIES)
    for study in STUDIES:
        assert study.entry == f"workbench.engine.studies.{study.id}:run"
