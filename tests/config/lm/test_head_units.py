"""What goes together, and how many heads a number or a share leaves."""

import pytest

from headway.config.lm.head_units import heads_to_keep, spread_evenly, units_of
from headway.config.lm.layout import HeadLayout
from headway.config.lm.model import GptNeo
from headway.errors import UserError

PLAIN = units_of(HeadLayout.parse("4-0-2", 16))
GROUPED = units_of(HeadLayout.parse("8:4-8:2", 32))
UNEQUAL = units_of(HeadLayout.parse("3+1x4", 16))


def test_heads_of_a_kv_head_are_one_unit():
    assert PLAIN == [((0, 0),), ((0, 1),), ((0, 2),), ((0, 3),), ((2, 0),), ((2, 1),)]
    assert [len(unit) for unit in GROUPED] == [2, 2, 2, 2, 4, 4]
    assert UNEQUAL == [((0, 0), (0, 1), (0, 2)), ((0, 3),)]


@pytest.mark.parametrize(
    ("keep", "units", "expected"),
    [
        (3, PLAIN, 3),
        ("3", PLAIN, 3),
        ("50%", PLAIN, 3),
        ("50 %", PLAIN, 3),
        (0.5, PLAIN, 3),
        (".5", PLAIN, 3),
        ("1%", PLAIN, 1),
        ("60%", units_of(HeadLayout.parse("8:4-8:4", 32)), 10),
        ("8", GROUPED, 8),
        (1, UNEQUAL, 1),
    ],
)
def test_numbers_and_shares(keep, units, expected):
    assert heads_to_keep(keep, units) == expected


@pytest.mark.parametrize(
    ("keep", "units", "said"),
    [
        (0, PLAIN, "keep 0: that is none of 6 heads; give from 1 to 5, or a share such as 50%"),
        ("0%", PLAIN, "keep 0%: that is none of 6 heads"),
        (-2, PLAIN, "keep -2: that is none of 6 heads"),
        (6, PLAIN, "keep 6: that is 6 of 6 heads"),
        ("7", PLAIN, "keep 7: that is 7 of 6 heads"),
        ("1.5", PLAIN, "keep 1.5: that is 9 of 6 heads"),
        ("200%", PLAIN, "keep 200%: that is 12 of 6 heads"),
        ("half", PLAIN, "keep half: a number of heads or a share was expected, such as 24, 50% or 0.5"),
        (True, PLAIN, "keep True: a number of heads or a share was expected"),
        (float("nan"), PLAIN, "keep nan: a number of heads or a share was expected"),
        (5, GROUPED, "keep 5: heads that share keys and values go together, and 5 would take one without its KV "
         "head; give 4 or 6"),
        (2, UNEQUAL, "and 2 would take one without its KV head; give 1 or 3"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept(keep, units, said):
    with pytest.raises(UserError) as error:
        heads_to_keep(keep, units)
    assert said in str(error.value)


@pytest.mark.parametrize(("heads", "number", "expected"), [(8, 8, "4-4"), ("8-4", 6, "4-2"), ("4:2-4:2", 4, "2-2")])
def test_heads_are_expected_to_go_from_all_layers_alike(heads, number, expected):
    found = spread_evenly(GptNeo(family="gpt-neo", d_model=48, n_layers=2, n_heads=heads), number)
    assert found.layout.total == number
    assert "-".join(map(str, found.layout.n_heads)) == expected
