"""Results are kept as JSON and arrays, and say a few things that follow from their fields."""

import numpy as np
import pytest

from workbench.errors import WorkbenchError
from workbench.results import ARRAYS_FILE, RESULT_FILE, TensorSpec, load_arrays, load_result, parsed_once
from workbench.results import save_result as save
from workbench.results.cost import CompilerCheck, ExportedModel, ExportedProduct
from workbench.results.programs import FormatMemory, Improvement
from workbench.results.simulation import Counter, Measurement, TracedOperation


def test_that_a_result_reads_back_equal(tmp_path):
    spec = TensorSpec(name="x", shape=(1, 2), dtype="float32")
    save(spec, tmp_path)
    assert load_result(TensorSpec, tmp_path) == spec


def test_that_content_that_is_read_again_is_parsed_once_and_changed_content_anew(tmp_path):
    spec = TensorSpec(name="x", shape=(1, 3), dtype="float32")
    save(spec, tmp_path)
    with parsed_once():
        first = load_result(TensorSpec, tmp_path)
        assert load_result(TensorSpec, tmp_path) is first
        save(spec.model_copy(update={"name": "y"}), tmp_path)
        assert load_result(TensorSpec, tmp_path).name == "y"
    assert load_result(TensorSpec, tmp_path) is not load_result(TensorSpec, tmp_path)


def test_that_a_damaged_or_missing_result_is_an_error(tmp_path):
    for text in (None, "{", '{"name": 3}'):
        if text is not None:
            (tmp_path / RESULT_FILE).write_text(text)
        with pytest.raises(WorkbenchError) as caught:
            load_result(TensorSpec, tmp_path)
        assert caught.value.infos[0].where.id == RESULT_FILE


def test_that_arrays_are_read_all_or_by_name_and_never_unpickled(tmp_path):
    np.savez(tmp_path / ARRAYS_FILE, a=np.ones(2), b=np.zeros(1))
    assert set(load_arrays(tmp_path)) == {"a", "b"}
    assert set(load_arrays(tmp_path, ("b", "c"))) == {"b"}
    np.savez(tmp_path / ARRAYS_FILE, a=np.array([object()]))
    with pytest.raises(WorkbenchError) as caught:
        load_arrays(tmp_path)
    assert caught.value.codes == ("result-damaged",)


def test_that_densities_are_how_many_times_smaller_than_float32():
    fields = dict.fromkeys(FormatMemory.model_fields, 1)
    memory = FormatMemory(**fields | {"weight_bits": 8.0, "data_bits": 4.0})
    assert (memory.weight_density, memory.data_density) == (4.0, 8.0)
    none = FormatMemory(**fields | {"weight_bits": 0.0, "data_bits": 0.0})
    assert (none.weight_density, none.data_density) == (None, None)


def test_that_an_improvement_says_how_many_places_it_changes():
    some, none = (Improvement(improver="bias", places=n) for n in (3, 0))
    assert "3 biases" in some.sentence
    assert some.sentence != none.sentence
    assert "0" not in none.sentence


def test_that_cycles_are_told_for_one_inference():
    fields = {"npu_cycles": 30, "inferences": 3, "delegations": 3}
    counters = (Counter(event="NPU_IDLE", total=4), Counter(event="MAC_ACTIVE", total=7))
    measured = Measurement(**fields, counters=counters)
    assert measured.cycles_per_inference == 10
    assert measured.of("MAC_ACTIVE") == 7
    assert measured.of("NOTHING") is None
    assert measured.model_copy(update={"npu_cycles": None}).cycles_per_inference is None
    assert measured.model_copy(update={"inferences": 0}).cycles_per_inference == 30


def test_that_a_traced_operation_differs_from_its_estimate():
    fields = dict.fromkeys(("name", "operator", "module"), "")
    traced = TracedOperation.model_construct(**fields, delegate=0, cycles=12.0, estimated=10)
    assert traced.difference == 2.0
    assert traced.model_copy(update={"cycles": None}).difference is None


def test_that_an_exported_model_counts_its_products_that_become_int8():
    products = tuple(
        ExportedProduct(node=f"n{n}", op="MatMul", origin="", module="", quantized=n < 2) for n in range(3)
    )
    model = ExportedModel(
        opset=1,
        ir_version=1,
        nodes=3,
        bytes=1,
        rewritten=0,
        products=products,
        commands=(),
        check=CompilerCheck(sentence=""),
    )
    assert model.quantized == 2
