"""How long outputs keep their values."""

from dataclasses import replace
from pathlib import Path

from tests.for_each import for_each
from workbench.pte.description import describe, output_lives
from workbench.pte.program import decode

PROGRAMS = Path(__file__).parents[2] / "data" / "programs"


@for_each(
    ("name", "until", "inputs"),
    [
        # The input is at 0 to 512 and the output at 0 to 12.
        ("u55.pte", "input", (0,)),
        # The input is at 0 to 512 and the output at 1024 to 1036.
        ("no_delegate.pte", "inference", ()),
    ],
)
def test_that_an_output_with_the_addresses_of_an_input_is_valid_until_that_is_filled(name, until, inputs):
    data = (PROGRAMS / name).read_bytes()
    assert describe(data)["output_lives"] == [{"output": 0, "until": until, "inputs": inputs}]


@for_each(
    ("change", "until"),
    [
        ({"offset": 512}, "inference"),
        ({"offset": 511}, "input"),
        ({"memory_id": 2}, "inference"),
        ({"memory_id": -1}, "given"),
        ({"memory_id": -1, "constant": 1}, "always"),
    ],
)
def test_that_memory_and_addresses_decide(change, until):
    method = decode((PROGRAMS / "u55.pte").read_bytes()).method("")
    (output,) = method.outputs
    values = list(method.values)
    values[output] = replace(values[output], **change)
    (life,) = output_lives(replace(method, values=tuple(values)))
    assert life.until == until
    assert str(life.output) in life.sentence
