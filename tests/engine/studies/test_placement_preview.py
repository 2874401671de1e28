"""The preview of operators on the NPU equals what lowering does."""

import pytest

from tests.engine.in_process import CALIBRATED, project
from workbench.project import edits
from workbench.project.opened import OpenProject
from workbench.protocol import RunStudy
from workbench.studies.documents import load_study, study_folder, study_key
from workbench.studies.matrix import Placement

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]


def preview(engine, made):
    """Return the placement by the kind of device."""
    engine.events = []
    engine.send(
        RunStudy(
            job="p",
            study="placement",
            project=made,
            folder=str(engine.folder),
            cache_root=str(engine.cache.root),
        )
    )
    assert engine.follow() == "done", engine.events
    key = study_key("placement", OpenProject(made, engine.folder), engine.cache, {})
    found = load_study(Placement, study_folder(engine.cache, key))
    assert found.is_done
    return {device.kind: device for device in found.devices}


def lowered(engine, made):
    assert engine.run(made, "lower", "evaluate") == "done", engine.failure
    return engine.result(made, "lower")


def assert_lowered_as_previewed(engine, made, device):
    real = lowered(
        engine, made.model_copy(update={"target": made.target.model_copy(update={"id": device.target})})
    )
    assert device.npu == real.delegated_nodes
    assert device.cpu == real.cpu_nodes


@pytest.mark.slow
def test_that_products_of_sixteen_bit_are_previewed_on_the_cpu_of_u55_and_not_of_u85(engine):
    made = project("attending", "a16w8")
    found = preview(engine, made)
    assert list(found) == ["Ethos-U55", "Ethos-U65", "Ethos-U85"]
    on_u55 = {node.op: node.reason for node in found["Ethos-U55"].cpu}
    product = next(op for op in on_u55 if "mm" in op)
    assert "8 bits only" in on_u55[product]
    assert not any("mm" in node.op for node in found["Ethos-U85"].cpu)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "config", "kinds"),
    [
        ("small", "a8w8", ["Ethos-U55"]),
        pytest.param("small", "a8w8", ["Ethos-U85"], marks=pytest.mark.slow),
        pytest.param("attending", "a16w8", ["Ethos-U55", "Ethos-U85"], marks=pytest.mark.slow),
    ],
)
def test_that_the_preview_is_what_lowering_does(engine, model, config, kinds):
    made = project(model, config)
    found = preview(engine, made)
    for kind in kinds:
        assert_lowered_as_previewed(engine, made, found[kind])


@pytest.mark.slow
def test_that_rules_that_keep_off_are_preview(engine):
    made = edits.assign(project("small"), "module_name", "fc", "cpu")
    found = preview(engine, made)["Ethos-U55"]
    (node,) = [each for each in found.cpu if each.cause == "rule"]
    assert node.module == "fc"


@pytest.mark.slow
def test_that_a_device_without_branches_says_so_and_the_others_go_on(engine):
    found = preview(engine, project("branching", target="ethos-u55-128", **CALIBRATED))
    assert "only on Ethos-U85" in found["Ethos-U55"].problem
    assert found["Ethos-U85"].npu > 0
