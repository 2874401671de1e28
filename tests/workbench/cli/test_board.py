"""``board``: what this machine remembers, and what a run needs."""

import json

from workbench.cli import main
from workbench.deploy.simulators.discovery import load_settings, simulating_board


def test_that_the_board_of_the_machine_is_remembered(tmp_path, codes, capsys, project_file):
    assert main(["board", "run", str(project_file)]) == 2
    assert main(["board", "set", "--port", "/dev/x", "--flash", "west flash", "--json"]) == 0
    assert main(["board", "set", "--baud", "9600"]) == 0
    known = load_settings().board
    assert (known.port, known.baud, known.flash) == ("/dev/x", 9600, "west flash")
    assert main(["board", "set", "--timeout", "0"]) == 2
    assert main(["board", "set", "--timeout", "0.5", "--baud", "1"]) == 0
    assert (load_settings().board.timeout_s, load_settings().board.baud) == (0.5, 1)
    assert simulating_board() is None
    assert main(["board", "set", "--simulate", "on"]) == 0
    assert simulating_board().port == "/dev/x"
    assert main(["board", "run", str(project_file)]) == 2
    assert codes == ["board-not-configured", "board-option-invalid", "package-missing"]
    assert json.loads(capsys.readouterr().out.split("Written")[0])["port"] == "/dev/x"
