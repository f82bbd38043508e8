"""Layouts of heads: read, written, scheduled and refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.config.lm.layout import HeadLayout, LayerHeads, divisors
from headway.errors import DeclarationError


def resolve(n_heads, n_layers=4, d_model=768, **others):
    return HeadLayout.resolve(n_heads, n_layers=n_layers, d_model=d_model, **others)


def layers(draw, d_model):
    queries = tuple(draw(st.lists(st.integers(1, 9), max_size=6)))
    heads = sum(queries)
    divided = [d_model // heads] if heads and d_model % heads == 0 else []
    return LayerHeads(queries=queries, d_head=draw(st.sampled_from([*divided, 3, 64])) if queries else 0)


@st.composite
def layouts(draw):
    d_model = draw(st.integers(1, 100))
    return HeadLayout(d_model=d_model, layers=tuple(layers(draw, d_model) for _ in range(draw(st.integers(1, 6)))))


@given(layouts())
def test_parse_reads_what_str_wrote(layout):
    assert HeadLayout.parse(str(layout), layout.d_model) == layout


@given(layouts())
def test_a_layouts_text_is_a_declaration_of_it(layout):
    assert resolve(str(layout), n_layers=len(layout.layers), d_model=layout.d_model) == layout


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (12, "12-12-12-12"),
        ([3, 6, 12, 24], "3-6-12-24"),
        ([0, 6, 12, 0], "0-6-12-0"),
        (" 24 - 12-6 -3", "24-12-6-3"),
        ("8:2", "8:2-8:2-8:2-8:2"),
        ("4+4-8:2-2+6-1", "8:2-8:2-2+6-1"),
        ("7x64-3x256-12x64-0", "7x64-3-12-0"),
        ("8x96", "8-8-8-8"),
        ("ascending(45)", "3-6-12-24"),
        ("descending(180)", "96-48-24-12"),
        ("constant(96)", "24-24-24-24"),
        ("linear(4, 16)", "4-8-12-16"),
        ("linear(16, 4)", "16-12-8-4"),
        ("delight(4, 8)", "4-4-6-8"),
    ],
)
def test_declarations_and_their_layouts(declared, text):
    layout = resolve(tuple(declared) if isinstance(declared, list) else declared)
    assert str(layout) == text
    assert layout.total == sum(layout.n_heads)


def test_a_head_is_as_wide_as_d_model_over_heads_unless_said():
    assert [layer.d_head for layer in resolve("24-12-6-3").layers] == [32, 64, 128, 256]
    fixed = resolve("descending(75)", d_head=64)
    assert str(fixed) == "40x64-20x64-10x64-5x64"
    assert str(resolve("12-6", n_layers=2, d_head=64)) == "12-6x64"
    assert str(resolve("7x32-5", n_layers=2, d_head=64)) == "7x32-5x64"


def test_kv_heads_of_every_layer_or_of_each():
    assert str(resolve(12, n_kv_heads=4)) == "12:4-12:4-12:4-12:4"
    layout = resolve("12-0-12-24", n_kv_heads=(12, None, 1, 6))
    assert str(layout) == "12-0-12:1-24:6"
    assert [layer.n_kv_heads for layer in layout.layers] == [12, 0, 1, 6]
    assert layout.layers[3].queries == (4,) * 6
    assert str(resolve("7x64", n_kv_heads=1)) == "7:1x64-7:1x64-7:1x64-7:1x64"


def test_openelms_270m_has_the_published_heads():
    layout = resolve("openelm(0.5, 1.0)", n_layers=16, d_model=1280, d_head=64)
    assert layout.n_heads == (12,) * 5 + (16,) * 7 + (20,) * 4
    assert [layer.n_kv_heads for layer in layout.layers] == [3] * 5 + [4] * 7 + [5] * 4
    reversed_ = resolve("openelm(1.0, 0.5)", n_layers=16, d_model=1280, d_head=64)
    assert reversed_.layers == layout.layers[::-1]


def test_delights_depths_are_the_published_ones():
    assert resolve("delight(4, 8)", n_layers=8, d_head=64).n_heads == (4, 4, 5, 5, 6, 6, 7, 8)
    # Where d_head follows from the heads, each is lowered to a divisor.
    assert resolve("delight(4, 8)", n_layers=8).n_heads == (4, 4, 4, 4, 6, 6, 6, 8)


@given(st.integers(1, 2000), st.sampled_from([64, 768, 1280]))
def test_linear_schedules_always_divide(heads, d_model):
    layout = resolve(f"linear(1, {heads})", n_layers=5, d_model=d_model)
    assert set(layout.n_heads) <= set(divisors(d_model))
    assert layout.n_heads[-1] <= heads


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (50, r"n_heads 50: 768 is not divisible by 50; 48 and 64 are$"),
        ("3-6-50-24", r"768 is not divisible by 50; 48 and 64 are; the nearest layouts are 3-6-48-24 and 3-6-64-24$"),
        ("1-2", r"n_heads '1-2' names 2 layers, but n_layers is 4; make them equal"),
        ((1, 2, 3), r"n_heads names 3 layers, but n_layers is 4"),
        ((3, -1, 3, 3), r"n_heads: -1 was given; give 0 or more"),
        ("8:3", r"n_heads '8:3': 8 query heads cannot share 3 KV heads evenly; 2 and 4 can"),
        ("8:9", r"8 query heads cannot share 9 KV heads evenly; 8 can"),
        ("2+0", r"'2\+0': a KV head without query heads; leave it out"),
        ("12x0", r"'12x0': d_head 0 is not a width; give 1 or more"),
        ("twelve", r"'twelve' is not a layer; join layers by dashes, each as 12, 8:2 \(KV heads\), 7x64 .* or 0"),
        ("12--3-3", r"'' is not a layer"),
        ("70000x1", r"a layer has at most 65,536 heads; give fewer"),
        ("ascendin(3)", r"there is no schedule 'ascendin'; did you mean ascending"),
        ("descending()", r"descending takes 1 positive number, as in descending\(90\)"),
        ("linear(4)", r"linear\(4\): linear takes 2 positive numbers, as in linear\(4, 16\)"),
        ("linear(4, b)", r"linear takes 2 positive numbers"),
        ("openelm(0.5, 1.0)", r"openelm\(...\) keeps d_head and varies the heads; give model.d_head, such as 64"),
        (
            "descending(91)",
            r"91 heads cannot be shared as 8-4-2-1 into divisors of 768; 90 \(48-24-12-6\) and 120 \(64-32-16-8\) can",
        ),
        ("constant(.5)", r"0.5 heads cannot be shared .*; 4 \(1-1-1-1\) can"),
    ],
)
def test_wrong_layouts_get_errors_that_teach(declared, message):
    with pytest.raises(DeclarationError, match=message):
        resolve(declared)


def test_a_total_that_no_layers_can_share():
    with pytest.raises(DeclarationError, match=r"over 12 layers one has 2048 times the heads of another, which does"):
        resolve("ascending(4095)", n_layers=12)
    with pytest.raises(
        DeclarationError, match=r"91 heads cannot be shared as 8-4-2-1; 90 .* and 105 \(56-28-14-7\) can"
    ):
        resolve("descending(91)", d_head=64)


def test_kv_heads_twice():
    with pytest.raises(DeclarationError, match=r"'12:2' names KV heads already; leave out n_kv_heads"):
        resolve("12:2", n_kv_heads=3)


@pytest.mark.parametrize(
    "layer",
    [{"queries": (1, 0), "d_head": 2}, {"queries": (), "d_head": 2}, {"queries": (1,), "d_head": 0}],
)
def test_impossible_layers_cannot_be_made(layer):
    with pytest.raises(DeclarationError, match="heads and d_head are 1 or more"):
        LayerHeads(**layer)
