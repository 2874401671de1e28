"""The table of models, devices and precisions as a README shows it."""

from workbench.cli.studies import _print_markdown
from workbench.studies.matrix import Cell, MatrixResult


def test_that_a_row_says_what_is_verified_what_is_not_and_what_training_left_alone(capsys):
    device = "ethos-u55-128"
    cells = (
        Cell(
            target=device,
            config="a8w8",
            delegates=1,
            cpu_nodes=2,
            max_lsb=1,
            exact=0.9,
            verdict="right",
            accuracy="accurate enough",
        ),
        Cell(target=device, config="a16w8", problem="Vela refuses it.", warned=True),
        Cell(target=device, config="a8w4", problem="It broke."),
        Cell(
            target=device,
            config="a8w8-qat",
            delegates=1,
            cpu_nodes=3,
            exact=1.0,
            gain_db=0.0,
            verdict="differs",
            accuracy="low accuracy",
        ),
    )
    found = {"net": MatrixResult(total=5, cells=cells)}
    _print_markdown(found, [device], ["a8w8", "a16w8", "a8w4", "a8w8-qat", "float"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| model | u55-128 a8w8 | u55-128 a16w8 |")
    assert lines[2] == ("| net | 1 | no | no, unforeseen | differs: low accuracy: 0 (3 CPU) = | not run |")
