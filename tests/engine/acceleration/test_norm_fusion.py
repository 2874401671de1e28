"""Programs prepared for training are the same where patterns that cannot occur are left out."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torchao.quantization.pt2e import qat_utils
from torchao.quantization.pt2e.quantize_pt2e import prepare_qat_pt2e

from tests.engine.acceleration import programs
from tests.engine.in_process import project
from workbench.engine.acceleration.norm_fusion import present_norm_patterns
from workbench.engine.ethos_u.toolchain import training_quantizer
from workbench.engine.toolchain_patches.patching import replaced

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


def kinds(dimensions):
    if dimensions == 1:
        return nn.Conv1d, nn.ConvTranspose1d, nn.BatchNorm1d
    return nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d


def network(dimensions, *, transposed):
    convolution, transposition, norm = kinds(dimensions)
    layers = [convolution(3, 4, 3), norm(4), nn.ReLU(), convolution(4, 4, 1, bias=False), norm(4)]
    if transposed:
        layers += [transposition(4, 4, 2, 2), norm(4)]
    return nn.Sequential(*layers).eval()


def prepared(model, shape):
    """Return the program prepared for training, and how many patterns were traced."""
    traced, trace = [], qat_utils._get_aten_graph_module_for_pattern

    def counted(*arguments, **named):
        traced.append(arguments)
        return trace(*arguments, **named)

    inputs = (torch.ones(shape),)
    module = torch.export.export(model, inputs).module(check_guards=False)
    with replaced(qat_utils, "_get_aten_graph_module_for_pattern", counted):
        made = prepare_qat_pt2e(module, training_quantizer(project("small"), Path()))
    return made, len(traced)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dimensions", "transposed", "patterns"),
    # The backend rewrites transposed convolutions of one dimension before.
    [(1, False, 3), (1, True, 3), (2, False, 3), (2, True, 6)],
)
def test_that_the_prepared_program_is_that_of_stock(dimensions, transposed, patterns):
    model = network(dimensions, transposed=transposed)
    shape = (1, 3, *(8,) * dimensions)
    stock, of_stock = prepared(model, shape)
    with present_norm_patterns():
        ours, of_ours = prepared(model, shape)
    assert programs.nodes(ours) == programs.nodes(stock)
    assert str(ours.state_dict()) == str(stock.state_dict())
    assert of_stock == 12
    assert of_ours == patterns
