from tests.for_each import for_each
from ui.shared.number_format import decibel, minus


@for_each(
    ("text", "shown"),
    [
        ("-3.4 %", "\u22123.4 %"),
        ("5 \u2192 4 (-1)", "5 \u2192 4 (\u22121)"),
        ("ethos-u55-128, conv-2, 3-4, 2**-16, /a/-1", "ethos-u55-128, conv-2, 3-4, 2**-16, /a/-1"),
        ("--limit 3", "--limit 3"),
    ],
)
def test_that_negative_numbers_have_a_minus_sign(text, shown):
    assert minus(text) == shown


def test_that_decibels_below_zero_have_a_minus_sign():
    assert decibel(-1.5) == "\u22121.50 dB"
