"""What the quantizer reported is shown as long as it belongs to the rules of the project."""

from ui.shared.explanations import QuantizerReport, rule_words
from workbench.project.model import Rule
from workbench.project.rules import Effective
from workbench.results import NodeAnnotation, PrepareResult

NOTE = NodeAnnotation(node="conv", op="conv2d", module="a", config="a8w8", quantized=False)
PREPARED = PrepareResult(observers=1, annotations=(NOTE,))
ASKED = {"conv": Effective(label="a8w8", rule="1")}


def test_that_a_report_that_is_there_before_the_graph_is_shown_with_it():
    report = QuantizerReport()
    report.update(PREPARED, {})
    assert report.notes({}) == []
    assert report.notes(ASKED) == [NOTE]


def test_that_a_report_for_other_rules_is_not_shown():
    report = QuantizerReport()
    report.update(PREPARED, ASKED)
    assert report.notes({"conv": Effective(label="a16w8", rule="2")}) == []
    assert report.notes(ASKED) == [NOTE]
    report.update(None, ASKED)
    assert report.notes(ASKED) == []


def test_that_a_module_type_of_torch_is_named_as_in_code():
    rule = Rule(id="r1", kind="module_type", match="torch.nn.modules.activation.SiLU", config="a8w8")
    assert rule_words(rule) == "Module type SiLU"
    own = rule.model_copy(update={"match": "net.Residual"})
    assert rule_words(own) == "Module type net.Residual"
    path = rule.model_copy(update={"kind": "module_name", "match": "torch.nn.first"})
    assert rule_words(path) == "Module torch.nn.first"
