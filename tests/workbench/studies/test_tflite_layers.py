"""Layers of two programs, matched: order, parts, rewrites, and causes that add up."""

import random

from workbench.results import VelaOperation
from workbench.studies.tflite_layers import compare_layers, matched_macs


def operation(operator, cycles, root, shape=(8, 8, 8), macs=0, **fields):
    values = {
        "name": root or "#1",
        "module": root,
        "tosa": "",
        "cycles_vela": cycles,
        "npu_cycles": cycles,
        "sram_cycles": 0,
        "external_cycles": 0,
        "staging_bytes": 0,
        "output_shape": shape,
    }
    return VelaOperation(operator=operator, cycles=cycles, root=root, macs=macs, **{**values, **fields})


def conv(root, macs, cycles=100, **fields):
    return operation("Conv2D", cycles, root, macs=macs, weight_bytes=macs, **fields)


def names(layers):
    return [tuple(side.name if side else None for side in (layer.ours, layer.theirs)) for layer in layers]


def causes(layers):
    return {share.cause: share.cycles for layer in layers for share in layer.shares}


def test_that_layers_of_equal_size_are_matched_in_order():
    layers = compare_layers([conv("a", 10), conv("b", 20)], [conv("x", 10), conv("y", 20)])
    assert names(layers) == [("a", "x"), ("b", "y")]
    assert matched_macs(layers) == 1.0


def test_that_a_branch_that_is_computed_at_another_place_keeps_its_partner():
    ours = [conv("skip", 5), conv("a", 10), conv("b", 20)]
    theirs = [conv("x", 10), conv("y", 20), conv("z", 5)]
    assert sorted(names(compare_layers(ours, theirs))) == [("a", "x"), ("b", "y"), ("skip", "z")]


def test_that_a_layer_that_was_rewritten_is_matched_by_its_output():
    layers = compare_layers([conv("a", 40, 200)], [conv("x", 10, 50)])
    assert names(layers) == [("a", "x")]
    assert causes(layers) == {"kernel": 150}


def test_that_parts_of_a_layer_are_one_layer():
    ours = [conv("a", 10, 60), conv("a", 10, 60), conv("b", 7)]
    layers = compare_layers(ours, [conv("x", 20, 100), conv("y", 7)])
    assert names(layers) == [("a", "x"), ("b", "y")]
    assert causes(layers) == {"split": 20}


def test_that_commands_of_a_compiled_file_are_parts_where_their_products_are_those_of_a_layer():
    theirs = [conv("1", 12, 60, shape=(8, 8, 3)), conv("2", 20, 60, shape=(8, 8, 5)), conv("3", 7)]
    layers = compare_layers([conv("a", 32, 100), conv("b", 7)], theirs)
    assert names(layers) == [("a", "1"), ("b", "3")]
    assert causes(layers) == {"split": -20}


def test_that_operations_of_no_module_belong_to_the_layer_before_them():
    ours = [conv("a", 10, 100), operation("Transpose", 30, ""), operation("Rescale", 4, "")]
    layers = compare_layers(ours, [conv("x", 10, 100)])
    assert names(layers) == [("a", "x")]
    assert causes(layers) == {"layout": 30, "rescale": 4}


def test_that_the_cause_of_equal_work_is_what_bounds_it():
    bounds = {"external memory": "memory", "SRAM": "memory", "MACs": "schedule"}
    for bound, cause in bounds.items():
        layers = compare_layers([conv("a", 10, 100, bound=bound)], [conv("x", 10, 80, bound="MACs")])
        assert causes(layers) == {cause: 20}
    heavy = conv("a", 10, 100, bound="external memory").model_copy(update={"weight_bytes": 50})
    assert causes(compare_layers([heavy], [conv("x", 10, 80)])) == {"weights": 20}


def test_that_one_function_of_other_operations_is_one_cause():
    ours = [operation("LUT", 5, "softmax", (1, 1, 10)), operation("Mul", 5, "softmax", (1, 1, 10))]
    theirs = [operation(name, 9, "Softmax", (1, 1, 10)) for name in ("MaxPool", "Sub", "Asr", "Mul")]
    layers = compare_layers(ours, theirs)
    assert names(layers) == [("softmax", "Softmax")]
    assert causes(layers) == {"functions": -26}


def test_that_layers_without_a_partner_are_shown_on_their_side():
    layers = compare_layers([conv("a", 10), operation("AvgPool", 7, "pool", (1, 1, 8))], [conv("x", 10)])
    assert names(layers) == [("a", "x"), ("pool", None)]
    assert causes(layers) == {"pool": 7}
    assert causes(compare_layers([], [conv("x", 10, 90)])) == {"missing": -90}
    assert compare_layers([], []) == ()


def drawn(generator):
    operators = ["Conv2D", "DepthwiseConv2D", "Add", "LUT", "AvgPool", "Transpose", "Rescale", "MaxPool"]
    roots = [generator.choice(["", f"n{number // 2}", f"m{number}"]) for number in range(30)]
    return [
        operation(
            generator.choice(operators),
            generator.choice([0, 1, 50, 999]),
            root,
            (generator.randrange(1, 4), 2, generator.randrange(1, 4)),
            generator.choice([0, 64, 128]),
            bound=generator.choice(["", "MACs", "SRAM", "external memory", "weight decoding"]),
        )
        for root in roots[: generator.randrange(30)]
    ]


def test_that_causes_add_up_and_no_operation_is_lost_whatever_the_programs_are():
    generator = random.Random(3)
    for _ in range(300):
        ours, theirs = drawn(generator), drawn(generator)
        layers = compare_layers(ours, theirs)
        assert sum(layer.difference for layer in layers) == sum(o.cycles for o in ours) - sum(
            o.cycles for o in theirs
        )
        for side, operations in (("ours", ours), ("theirs", theirs)):
            shown = [getattr(layer, side) for layer in layers if getattr(layer, side) is not None]
            count = sum(len(one.operators) + len(one.fused) for one in shown)
            assert count == len(operations)
