"""The sentences of verdicts: what is claimed, what is the same, what is open, and what there is no verdict on."""

import math
from dataclasses import replace

import pytest

from headway.config.metrics import METRICS, Metric
from headway.stats.evidence import Difference, Family
from headway.stats.sequential import LookPlan
from headway.stats.verdicts import carried_by, scope, sentence_of

LOSS = METRICS["eval_loss_nats"]
FAMILY = Family(
    of="comparisons",
    metric="eval_loss_nats",
    control=None,
    rule="blocks",
    size=13,
    plan=LookPlan(looks=(3, 6), margin=1.0),
    look=2,
    level=0.05,
    residual_sd=0.5,
    freedom=18.0,
)


def per_cent(share):
    return 100 * math.log1p(share / 100)


def told(estimate, low, high, outcome, **changes):
    """A difference of a layout's loss from another's, given in per cent as shown."""
    one = Difference(
        metric="eval_loss_nats",
        control=None,
        rule="blocks",
        n_pairs=6,
        means=(3.01, 3.04),
        difference=-0.03,
        relative=-0.01,
        estimate=per_cent(estimate),
        interval=(per_cent(low), per_cent(high)),
        se=0.2,
        freedom=8.0,
        bound=3.0,
        p=0.01,
        p_family=0.1,
        outcome=outcome,
        detectable=per_cent(2.0),
        seeds_to_settle=9,
        chance_to_settle=0.807,
    )
    return replace(one, **changes)


def say(one, family=FAMILY, metric=LOSS, sides=("descending", "constant"), **more):
    return sentence_of(one, family, metric=metric, sides=sides, **more)


CI = "simultaneous 95 % CI"


def test_every_reading_of_an_interval_has_its_sentence():
    both = "descending vs constant"
    assert (
        say(told(-1.6, -2.1, -1.1, "apart")) == f"{both}: better, evaluation loss −1.6 % ({CI} −2.1 to −1.1; 6 seeds)"
    )
    assert say(told(1.2, 0.3, 2.1, "apart")) == f"{both}: worse, evaluation loss +1.2 % ({CI} 0.3 to 2.1; 6 seeds)"
    assert say(told(-0.4, -0.8, -0.1, "small")) == (
        f"{both}: better, by less than 1 %, evaluation loss −0.4 % ({CI} −0.8 to −0.1; 6 seeds)"
    )
    assert say(told(0.1, -0.4, 0.6, "same")) == (
        f"{both}: as good within 1 %, evaluation loss +0.1 % ({CI} −0.4 to 0.6; 6 seeds)"
    )
    assert say(told(0.3, -0.9, 1.5, "open")) == (
        f"{both}: no clear difference, evaluation loss +0.3 % ({CI} −0.9 to 1.5; 6 seeds); "
        "the plan's interim analysis at 15 seeds would settle it with a chance of about 80 %"
    )


def test_one_comparison_has_no_simultaneous_interval():
    assert "evaluation loss −1.6 % (95 % CI −2.1 to −1.1; 6 seeds)" in say(
        told(-1.6, -2.1, -1.1, "apart"), replace(FAMILY, size=1)
    )


def test_an_end_that_is_not_0_is_not_written_as_0():
    assert say(told(0.25, 0.02, 0.52, "small")).endswith(f"+0.25 % ({CI} 0.02 to 0.52; 6 seeds)")
    assert say(told(0.22, -0.03, 0.52, "same")).endswith(f"+0.22 % ({CI} −0.03 to 0.52; 6 seeds)")
    assert "(simultaneous 95 % CI 0.000 to 0.520;" in say(told(0.25, 1e-6, 0.52, "small")), "two digits more at most"


def test_what_settles_it_is_told_as_it_is_known():
    wide = told(0.3, -0.9, 1.5, "open", seeds_to_settle=1, chance_to_settle=0.88)
    once = replace(FAMILY, plan=LookPlan(looks=(6,), margin=1.0), look=1)
    assert say(wide, once).endswith("6 seeds); about 1 more seed would settle it with a chance of about 90 %")
    assert say(replace(wide, chance_to_settle=0.999), once).endswith("about 90 %"), "no chance is certain"
    assert say(replace(wide, chance_to_settle=0.02), once).endswith("would settle it with a chance below 5 %")
    assert say(replace(wide, seeds_to_settle=2_048), once).endswith(
        "; more than 1,000 more seeds would settle it with a chance of about 90 %"
    )
    assert say(replace(wide, seeds_to_settle=None)).endswith("−0.9 to 1.5; 6 seeds)")


NO_TEST = {"interval": None, "se": None, "p": None, "p_family": None, "bound": None, "detectable": None}


def test_one_seed_two_seeds_and_none_make_no_verdict():
    one = told(-1.0, 0, 0, "few", n_pairs=1, **NO_TEST)
    assert say(one) == "descending vs constant: too few seeds, evaluation loss −1.0 % (1 seed)"
    assert say(replace(one, n_pairs=2)) == "descending vs constant: too few seeds, evaluation loss −1.0 % (2 seeds)"
    nothing = replace(one, n_pairs=0, means=None, estimate=None, outcome="none")
    assert say(nothing) == (
        "descending vs constant: cannot be compared in evaluation loss, since no seed has a result for every arm"
    )
    alike = replace(one, n_pairs=3, outcome="none")
    assert say(alike) == "descending vs constant: no spread over seeds, evaluation loss −1.0 % (3 seeds)"
    for text in (say(one), say(replace(one, n_pairs=2)), say(alike)):
        assert "better" not in text
        assert "worse" not in text


def test_before_a_look_there_is_only_an_estimate():
    waiting = replace(FAMILY, look=None)
    assert say(told(-1.0, 0, 0, "open", n_pairs=2, **NO_TEST), waiting) == (
        "descending vs constant: no verdict yet, evaluation loss −1.0 % (2 of 3 seeds needed)"
    )
    assert scope(waiting, []) == "There is no interval before 3 seeds are finished. Lower is better."


@pytest.mark.parametrize(
    ("better", "estimate", "kind"),
    [
        ("lower", -2.0, "better"),
        ("lower", 2.0, "worse"),
        ("higher", 2.0, "better"),
        ("higher", -2.0, "worse"),
        (None, -2.0, "lower"),
        (None, 2.0, "higher"),
    ],
)
def test_direction(better, estimate, kind):
    metric = Metric(name="m", sentence="a number", unit="1", better=better)
    one = told(estimate, estimate - 0.5, estimate + 0.5, "apart")
    said = say(one, metric=metric, sides=("2 heads", "1 head"))
    assert said.startswith(f"2 heads vs 1 head: {kind}, m {'+' if estimate > 0 else '−'}2.0 % (")


def test_a_difference_without_sides_is_told_by_its_name():
    def named(*given):
        return say(told(*given), sides=("interaction",))

    assert named(1.2, 0.3, 2.1, "apart").startswith("interaction: differs from 0, evaluation loss +1.2 % (")
    assert named(0.4, 0.1, 0.8, "small").startswith("interaction: differs from 0, by less than 1 %, evaluation loss ")
    assert named(0.1, -0.4, 0.6, "same").startswith("interaction: equal to 0 within 1 %, evaluation loss +0.1 % (")
    assert named(0.3, -0.9, 1.5, "open").startswith("interaction: no clear difference, evaluation loss +0.3 % (")


def test_what_a_share_can_detect_is_in_percentage_points():
    family = replace(FAMILY, size=1, metric="accuracy")
    found = [told(0.1, -0.2, 0.4, "open", metric="accuracy", unit="fraction", detectable=0.272)]
    assert "can detect differences of about 27.2 percentage points (80 % power). Higher" in scope(family, found)
    errors = scope(replace(family, of_errors=True), [replace(found[0], of_errors=True)])
    assert "differences of about 0.272 (80 % power). Since many values are near 1, errors (1 − accuracy)" in errors


def test_notes_follow():
    assert say(told(0.1, -0.4, 0.6, "same"), notes=["1 of 6 runs of a failed"]).endswith(
        "6 seeds); 1 of 6 runs of a failed"
    )


def test_what_holds_for_a_family_is_told_once():
    found = [told(0.1, -0.4, 0.6, "same"), told(0.1, -0.4, 0.6, "open", se=None, detectable=per_cent(2.4))]
    assert scope(replace(FAMILY, size=2), found) == (
        "The 95 % intervals hold for all 2 comparisons at once, at interim analysis 2 of 2. This experiment can "
        "detect differences of about 2.0 to 2.4 % (80 % power). Lower is better."
    )
    both = "The 95 % intervals hold at once for the 2 comparisons here and 11 more of this experiment, at interim "
    assert scope(FAMILY, found).startswith(both), "what was not run is not counted, and its correction stays"
    alone = replace(FAMILY, size=1)
    said = "The comparison has a 95 % interval, at interim analysis 2 of 2. This experiment can detect differences of "
    said += "about 2.0 % ("
    assert scope(alone, found[:1]).startswith(said)
    few = [told(-1.0, 0, 0, "few", n_pairs=2, **NO_TEST)]
    assert scope(replace(FAMILY, look=1), few) == (
        "There is no interval at 3 seeds, since an interval needs 3 seeds shared by all arms compared. Lower is better."
    )
    alike = [replace(few[0], outcome="none", n_pairs=3)]
    assert "There is no interval at 3 seeds, since the differences are identical in all seeds. Lower" in scope(
        replace(FAMILY, look=1), alike
    )


def test_small_and_large_numbers_stay_readable():
    assert f"0.0001 % ({CI} −0.0004 to 0.0006;" in say(told(1e-4, -4e-4, 6e-4, "same"))
    vast = replace(told(1.0, 1.0, 1.0, "apart"), estimate=3_000.0, interval=(2_900.0, 3_100.0))
    assert "worse, evaluation loss larger by a factor of 1.07e+13 (" in say(vast)
    tenfold = replace(vast, estimate=552.5, interval=(539.0, 566.0), detectable=230.0)
    assert f"worse, evaluation loss larger by a factor of 250.9 ({CI} 219.2 to 287.1; " in say(tenfold)
    wide = scope(FAMILY, [tenfold, replace(tenfold, detectable=566.0)])
    assert "differences of about a factor of 10.0 to 287.1 (80 % power)" in wide
    endless = replace(vast, interval=(2_900.0, 90_000.0))
    assert "nan" not in say(endless)


@pytest.mark.parametrize(
    ("one", "shown"),
    [
        (told(-0.3, -0.97, 0.2, "same"), " CI −0.97 to 0.20;"),
        (told(0.3, -0.2, 1.02, "open"), " CI −0.20 to 1.02;"),
        (told(0.3, 0.01, 0.61, "small"), " CI 0.01 to 0.61;"),
        (told(0.3, -0.2, 0.996, "same"), " CI −0.200 to 0.996;"),
        (told(0.3, -0.2, 0.8, "same"), " CI −0.2 to 0.8;"),
    ],
)
def test_rounding_does_not_hide_what_decides_a_verdict(one, shown):
    """An end of an interval beside 0 or the margin is written with the digits that tell it from there."""
    assert shown in say(one)


def test_three_to_five_seeds_name_the_assumption_that_carries_their_verdicts():
    three = told(-1.6, -2.1, -1.1, "apart", n_pairs=3)
    assert "With 3 seeds, " in carried_by(FAMILY, [three])
    assert carried_by(FAMILY, [three]).endswith("its p-value cannot be below 0.25 with these seeds")
    assert carried_by(FAMILY, [replace(three, n_pairs=6)]) == carried_by(FAMILY, [replace(three, outcome="open")]) == ""


def test_runs_of_a_large_spread_have_a_ratio_of_geometric_means():
    wide = replace(FAMILY, residual_sd=25.0)
    assert f"(ratio of geometric means; {CI} −2.1 to −1.1; 6 seeds)" in say(told(-1.6, -2.1, -1.1, "apart"), wide)


def test_no_share_lies_below_minus_100_per_cent():
    one = replace(told(-1.0, -2.0, 0.1, "open"), unit="y squared", difference=-1.0, relative=-1.0, estimate=-1.0)
    assert one.as_share(-2.0) == -1.0
