"""Which matrix products become int8 products on NNPA."""

from tests.for_each import for_each
from workbench.targets.nnpa.products import Product, why_never

# Of arch15, last dimension first.
LIMITS = (2_097_152, 1_048_576, 32_768)


def product(left=(5, 16), right=(16, 4), *, constant=True, **fields):
    return Product(left, right, constant, **fields)


@for_each(
    "taken",
    [
        product(),
        product((2, 5, 16)),
        product((2, 3, 5, 16)),
        product((2, 5, 16), (2, 16, 4)),
        product(gemm=True),
        product(bias=(4,)),
        product(gemm=True, bias=(4,)),
        product((2, 5, 16), bias=(4,)),
        product((2, 5, 16), bias=(1,), constant_bias=False),
        product((1, LIMITS[1]), (LIMITS[1], 4)),
        product((LIMITS[2], 1, 16)),
        # A dimension of the product may be longer than a stack may be high.
        product((1, LIMITS[2] + 1), (LIMITS[2] + 1, 4)),
    ],
)
def test_that_products_with_constant_weights_are_taken(taken):
    assert taken.why_float is None


@for_each(
    ("refused", "cause"),
    [
        (product(constant=False), "computed-operand"),
        (product(gemm=True, transposed=True), "gemm-transposed"),
        (product(gemm=True, scaled=True), "gemm-scaled"),
        (product((16,)), "one-dimension"),
        (product((5, 16), (16,)), "one-dimension"),
        (product((5, 16), (2, 16, 4)), "matrix-and-stack"),
        (product((3, 5, 16), (2, 16, 4)), "leading-dimensions"),
        (product((1, LIMITS[1] + 1), (LIMITS[1] + 1, 4)), "too-large"),
        (product((LIMITS[2] + 1, 1, 16)), "too-large"),
        (product((2, LIMITS[2] // 2 + 1, 1, 16)), "too-large"),
        (product(bias=(5, 4)), "bias"),
        (product(bias=(4,), constant_bias=False), "bias"),
        (product((2, 5, 16), (2, 16, 4), bias=(4,)), "stack-and-bias"),
        (product((2, 5, 16), bias=(4,), constant_bias=False), "computed-bias"),
    ],
)
def test_that_every_other_product_is_told_why_it_stays_float(refused, cause):
    assert refused.why_float.cause == cause
    assert refused.why_float.text.endswith(".")


def test_that_transposing_and_scaling_matter_to_a_gemm_alone():
    assert product(transposed=True, scaled=True).why_float is None


def test_that_a_bias_of_the_columns_belongs_to_the_product():
    assert product(bias=(4,)).takes_bias
    assert product((2, 5, 16), bias=(4,)).takes_bias
    assert not product((2, 3, 5, 16), bias=(4,)).takes_bias
    assert not product(bias=(1,)).takes_bias
    assert not product().takes_bias


def test_that_a_product_larger_than_the_accelerator_is_computed_in_parts():
    assert product((LIMITS[1], 16)).splits is None
    assert product((LIMITS[1] + 1, 16)).splits
    assert product(right=(16, LIMITS[0])).splits is None
    assert product(right=(16, LIMITS[0] + 1)).splits


def test_that_the_shape_of_a_bias_that_does_not_fit_is_told():
    assert "5x4" in product(bias=(5, 4)).why_float.text
    assert "a single number" in product(bias=()).why_float.text


@for_each(
    ("op", "cause"),
    [
        ("aten.conv2d.default", "convolution"),
        ("aten.lstm.input", "recurrent"),
        ("aten.gru.input", "recurrent"),
        ("aten.einsum.default", "einsum"),
        ("aten.scaled_dot_product_attention.default", "attention"),
        ("aten.relu.default", "other-operator"),
        ("my.conv", "other-operator"),
    ],
)
def test_that_an_operator_that_is_no_product_is_told_why(op, cause):
    assert why_never(op).cause == cause
