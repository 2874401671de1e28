"""A result that an earlier program wrote lacks newer fields; those then say nothing."""

from pydantic import BaseModel

from tests.for_each import for_each
from workbench.history import runs
from workbench.pipeline.stages import STAGES_BY_ID, optional_stages, stages_needed, stages_until
from workbench.results import cost, programs, quality, simulation
from workbench.studies import documents, matrix, sample, search, sensitivity, sweep

MODULES = (cost, programs, quality, simulation, runs, documents, matrix, sample, search, sensitivity, sweep)
# Fields that do say something by themselves.
MEANT = {
    "CpuNode.cause": "other",
    "OutputPort.factor": 1.0,
    "Improvement.kept": True,
    "TensorRange.channels": 1,
    "TensorRange.eps": 2**-16,
    "Measurement.inferences": 1,
    "SimulationResult.kind": "fvp",
}


def models():
    return sorted(
        {
            each
            for module in MODULES
            for each in vars(module).values()
            if isinstance(each, type) and issubclass(each, BaseModel) and each.__module__ == module.__name__
        },
        key=lambda each: (each.__module__, each.__name__),
    )


@for_each("model", models())
def test_that_a_field_that_is_not_given_says_nothing(model):
    for name, field in model.model_fields.items():
        if field.is_required() or field.default_factory is not None:
            continue
        own = f"{model.__name__}.{name}"
        if own in MEANT:
            assert field.default == MEANT[own]
        else:
            assert not field.default or isinstance(field.default, BaseModel), (own, field.default)


def test_that_stages_are_ordered_by_what_they_need():
    assert stages_until("prepare") == ["import_model", "export", "prepare"]
    assert stages_needed("evaluate") == [
        "import_model",
        "export",
        "prepare",
        "calibrate",
        "convert",
        "evaluate",
    ]
    assert stages_needed("verify", "evaluate")[-3:] == ["evaluate", "lower", "verify"]
    assert set(optional_stages()) == {"evaluate", "verify", "run"}
    assert STAGES_BY_ID["lower"].needs == ("convert",)
