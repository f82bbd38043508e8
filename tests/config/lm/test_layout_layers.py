"""Numbers that differ by layer, and the widths of MLPs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.config.lm.layout import make_divisible, per_layer, widths
from headway.errors import DeclarationError


def test_a_number_a_list_or_text():
    assert per_layer(5, 3, "rank") == (5, 5, 5)
    assert per_layer((5, None, 7), 3, "rank") == (5, None, 7)
    assert per_layer("5 - 6-7", 3, "rank") == (5, 6, 7)
    assert per_layer("5", 3, "rank") == (5, 5, 5)
    assert per_layer(None, 3, "rank") == (None, None, None)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("5-a", r"rank '5-a': write a number, a list, or numbers joined by dashes: 5-20-50-100"),
        ("", "write a number"),
        ("5-6", "rank names 2 layers, but n_layers is 3; make them equal"),
        ((5,), "rank names 1 layer, but n_layers is 3"),
        (0, "rank: 0 was given; give 1 or more"),
    ],
)
def test_wrong_numbers(value, message):
    with pytest.raises(DeclarationError, match=message):
        per_layer(value, 3, "rank")


def test_mlp_widths():
    assert widths(None, n_layers=2, d_model=64) == (256, 256)
    assert widths((100, None), n_layers=2, d_model=64) == (100, 256)
    assert widths("10-20", n_layers=2, d_model=64) == (10, 20)
    assert widths("delight(2, 4, 8)", n_layers=3, d_model=64) == (128, 160, 192)


def test_openelms_270m_has_the_published_widths():
    # Its multipliers over 16 layers, from 0.5 to 4.0; intermediate sizes divisible by 256.
    assert widths("openelm(0.5, 4.0)", n_layers=16, d_model=1280) == (
        768, 1024, 1280, 1536, 1792, 2048, 2560, 2816, 3072, 3328, 3584, 3840, 4352, 4608, 4864, 5120,
    )  # fmt: skip
    assert widths("openelm(4.0, 0.5, 32)", n_layers=4, d_model=128) == (512, 352, 224, 64)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("openelm(1)", r"d_mlp openelm\(1\): openelm takes 2 or 3 positive numbers, as in openelm\(0.5, 4.0, 256\)"),
        ("openelm(1, 2, 0.5)", r"the divisor of widths is a whole number, and 0.5 is not"),
        ("delight(1, 2)", r"delight takes 3 positive numbers, as in delight\(2, 4, 8\)"),
        ("linear(1, 2)", r"d_mlp: there is no schedule 'linear'; choose from: delight, openelm"),
        ("wide", r"d_mlp 'wide': write a number"),
    ],
)
def test_wrong_widths(value, message):
    with pytest.raises(DeclarationError, match=message):
        widths(value, n_layers=4, d_model=64)


@given(st.floats(0.01, 1e6), st.integers(1, 512))
def test_made_divisible(value, divisor):
    made = make_divisible(value, divisor)
    assert made % divisor == 0
    assert made >= max(divisor, 0.9 * value)
    assert made <= max(divisor, value + divisor)
