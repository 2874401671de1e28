"""The overlay of the error that each operation itself adds."""

from tests.fakes.results import result_of
from ui.features.graph.graph_results import quality
from workbench.graph.lineage import Lineage
from workbench.results import TensorQuality


def measures(**added):
    tensors = tuple(
        TensorQuality(
            tensor=n,
            origin=n,
            module="",
            op="",
            sqnr_db=9.0,
            cosine=None,
            max_abs_error=0.1,
            added_share=share,
        )
        for n, share in added.items()
    )
    result = result_of("evaluate").model_copy(update={"tensors": tensors})
    return {measure.id: measure for measure in quality(result, Lineage({}))}


def test_that_the_part_of_each_operation_is_an_overlay_whose_groups_show_the_sum():
    found = measures(conv2d=0.9, relu=0.1, view=None)["added"]
    assert found.values == {"conv2d": 90.0, "relu": 10.0}
    assert found.merge == "sum"


def test_that_there_is_no_overlay_where_no_part_is_known():
    assert "added" not in measures(conv2d=None)
