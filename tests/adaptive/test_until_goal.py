"""What a call asks for: margins, budgets, and what contradicts what."""

import pytest
from support.planted_effects import experiment, wished

from headway.adaptive.until import Until, check_experiment, margin_of
from headway.config import metrics
from headway.config.load import load
from headway.errors import UserError


@pytest.mark.parametrize(("text", "margin"), [("0.5%", 0.5), (" 2 % ", 2.0), (".25%", 0.25), ("1e-1%", 0.1)])
def test_margins_are_in_per_cent(text, margin):
    assert margin_of(text) == margin


USUAL = "margin, such as 0.5%"
TWICE = "a plan finds the number of seeds itself; leave one of them out"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"until": "0%"}, "until 0%: no number of seeds shows that arms are equal; give a margin, such as 0.5%"),
        ({"until": "100%"}, f"until 100%: within 100 %, all arms count as equally good; give a smaller {USUAL}"),
        ({"until": "0.5"}, "until 0.5: give the difference that matters in per cent, such as 0.5%; did you mean 0.5%?"),
        ({"until": "half"}, "until half: give the difference that matters in per cent, such as 0.5%"),
        ({"until": ""}, "until : give the difference that matters in per cent, such as 0.5%"),
        ({"until": "1%", "at_most": 2}, "at most 2 seeds: a verdict needs 3; give 3 or more"),
        ({"until": "1%", "at_most": 10**9}, "at most 1,000,000,000 seeds: Headway allows 10,000; give fewer"),
        ({"until": "1%", "seeds": 3}, f"until 1%, and 3 seeds: {TWICE}"),
        ({"at_most": 5}, "at most 5: this number needs --until, such as --until 0.5%"),
    ],
)
def test_what_is_no_margin_or_contradicts_itself_is_refused(asked, said):
    with pytest.raises(UserError) as error:
        wished(**asked)
    assert str(error.value) == said


def test_goals():
    assert wished() is None
    assert wished(until="0.5%", at_most=8) == Until(margin=0.5, at_most=8)


@pytest.mark.parametrize(("unit", "what"), [("yes or no", "a yes or a no"), ("fraction", r"a share \(fraction\)")])
def test_a_yes_or_no_has_no_difference_in_per_cent(monkeypatch, unit, what):
    of = experiment({"a": 0, "b": 1})
    check_experiment(of)
    solved = metrics.METRICS["eval_mse"].model_copy(update={"unit": unit})
    monkeypatch.setitem(metrics.METRICS, "eval_mse", solved)
    with pytest.raises(UserError, match=rf", which is {what} and may be 0, so .*; give a number of seeds$"):
        check_experiment(of)


def test_controls_are_added_afterwards():
    crossed = load("head-progression").select(controls=["all-global"])
    with pytest.raises(UserError, match=r"^control all-global: a plan covers only arms without a control"):
        check_experiment(crossed)
