"""How long outputs are valid, against the memory plan as ExecuTorch itself reads it."""

from pathlib import Path

import pytest

from workbench.pte.description import describe

PROGRAMS = Path(__file__).parents[1] / "data" / "programs"


def spans(plan, indices):
    """Return the planned bytes of tensors as sets of addresses."""
    for index in indices:
        tensor = plan.values[index].val
        sizes = {"FLOAT": 4, "CHAR": 1}
        size = sizes[tensor.scalar_type.name]
        for length in tensor.sizes:
            size *= length
        planned = tensor.allocation_info
        start = planned.memory_offset_low + (planned.memory_offset_high << 32)
        yield {(planned.memory_id, at) for at in range(start, start + size)}


@pytest.mark.parametrize("name", ["u55.pte", "u65.pte", "u85.pte", "no_delegate.pte", "xnnpack.pte"])
def test_that_inputs_that_overwrite_an_output_are_those_of_executorchs_plan(name):
    from executorch.exir._serialize._program import deserialize_pte_binary

    data = (PROGRAMS / name).read_bytes()
    plan = deserialize_pte_binary(data).program.execution_plan[0]
    inputs = list(spans(plan, plan.inputs))
    expected = [
        tuple(k for k, other in enumerate(inputs) if other & output) for output in spans(plan, plan.outputs)
    ]
    assert [life["inputs"] for life in describe(data)["output_lives"]] == expected
