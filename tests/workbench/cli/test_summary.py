"""What a run tells at its end."""

from workbench.api.summary import summary
from workbench.cli.run_summary import print_summary
from workbench.project.model import ModelSource, Project, TargetChoice
from workbench.results import PrepareResult, save_result


def test_that_a_run_ends_with_what_its_stages_found_odd(tmp_path, capsys):
    said = "Weights inside of branches are quantized as activations are."
    save_result(PrepareResult(observers=1, annotations=(), warnings=(said,)), tmp_path)
    target = TargetChoice(id="ethos-u85-256")
    project = Project(name="net", model=ModelSource(spec="net.py:net"), target=target)
    document = summary(project, tmp_path, [], {"prepare": tmp_path}, None)
    assert document["warnings"] == [{"stage": "prepare", "message": said}]
    print_summary(document)
    assert said in capsys.readouterr().out
