"""Law: what `results.json` says of differences follows from values alone: worked examples, and what changes nothing."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from stats.test_results import FakeStore

from headway.base import words
from headway.config.load import resolve
from headway.stats import results, warnings
from headway.stats.blocks import BlockTest
from headway.stats.cells import Cells
from headway.stats.contrasts import Question, judged
from headway.stats.sequential import Looking, LookPlan, looks_until
from headway.stats.verdicts import scope

TEXT = {
    "name": "text",
    "task": {"kind": "text", "corpus": "stories", "n_ctx": 16},
    "model": {"family": "gpt-neo", "d_model": 32, "n_layers": 1, "n_heads": 2},
    "training": {"optimizer": "adamw", "learning_rate": 1e-3, "batch_size": 2, "steps": 10},
}


def built(rows, *, baseline=0, **changes):
    """The results of arms with these values (arm by seed, in per cent: 100 ln of the loss)."""
    names = [f"a{at}" for at in range(len(rows))]
    arms = {name: {"training": {"steps": 10 + at}} for at, name in enumerate(names)}
    baselines = {} if baseline is None else {"baseline": names[baseline]}
    store = FakeStore(Path("nowhere"), resolve({**TEXT, "arms": arms, **baselines, **changes}))
    for name, row in zip(names, rows, strict=True):
        store.add(name, [math.exp(y / 100) for y in row], metric="eval_loss_nats")
    return results.build(store)


A = [[1.0, 1.3, 1.1], [0.9, 1.1, 0.8]]
STAR = [[100.2, 99.6, 100.4], [101.5, 100.9, 101.3], [100.1, 100.3, 99.9], [99.0, 99.9, 98.7]]
ORDER = [
    *([106.9, 107.4, 106.5], [106.7, 106.9, 106.4], [107.3, 106.2, 106.6]),
    *([106.9, 107.2, 106.2], [106.0, 106.9, 106.3], [106.2, 107.0, 106.4]),
    *([107.5, 106.5, 106.7], [107.4, 106.6, 107.0], [107.0, 106.6, 106.8]),
]
"""Ascending, constant and descending; low, medium and high."""


def near(*values):
    return pytest.approx(values, abs=1.1e-6)


def test_a_complete_star():
    found = built(STAR)
    (family,) = found.families
    assert family.residual_sd**2 == pytest.approx(0.226389, abs=1e-6)
    assert [(c.estimate, c.se, c.p) for c in found.comparisons] == [
        near(1.166667, 0.340747, 0.070871),
        near(0.033333, 0.390962, 0.939503),
        near(-0.866667, 0.484122, 0.285994),
    ]
    expected = [(-0.798446, 3.131779), (-2.221374, 2.288040), (-3.658637, 1.925304)]
    assert [c.interval for c in found.comparisons] == [pytest.approx(ends, abs=3e-3) for ends in expected]
    assert [c.p_family for c in found.comparisons] == pytest.approx([0.135109, 0.999378, 0.378317], abs=1e-3)
    assert [c.detectable for c in found.comparisons] == pytest.approx([3.022848, 3.468318, 4.294767], abs=5e-3)
    assert [c.outcome for c in found.comparisons] == ["open", "open", "open"]


def test_a_wild_arm_is_judged_by_itself_and_named():
    rows = [
        [100.0, 100.4, 99.7],
        [103.0, 98.2, 101.9],
        [100.1, 100.3, 99.9],
        [99.95, 100.45, 99.6],
        [101.2, 101.7, 101.0],
    ]
    found = built(rows)
    assert [c.outcome for c in found.comparisons] == ["open", "same", "same", "apart"]
    assert found.comparisons[0].interval == near(-13.323229, 15.323229)
    assert found.comparisons[3].interval == pytest.approx((0.846791, 1.686543), abs=3e-3)
    assert found.families[0].wild == ("a1",)
    (said,) = (one for one in found.warnings if "ten times" in one)
    assert said.startswith("These arms vary over seeds more than ten times as much as others: a1.")


def in_unit(rows, looks):
    """The family and the differences of arms from the first, of values that may be 0 or below."""
    values = np.array(rows, dtype=float)
    names = tuple(f"a{at}" for at in range(len(values)))
    known = np.isfinite(values)
    cells = Cells(
        arms=names, seeds=tuple(range(values.shape[1])), values=values, ended=known, asked=np.ones_like(known)
    )
    differences = [{name: 1.0, names[0]: -1.0} for name in names[1:]]
    runs = {name: {} for name in names}
    asked = Question(
        of="comparisons", metric="eval_loss_nats", control=None, differences=differences, cells=cells, runs=runs
    )
    return judged(asked, looks)


def test_a_planned_run_whose_loss_is_0_counts_as_it_is():
    plan = Looking(margin=0.5, plan=LookPlan(looks=looks_until(12), margin=0.5), seeds=tuple(range(12)), asked={})
    equal = [[0.4, 0.2, 0.3], [0.0, 0.5, 0.4], [0.3, 0.1, 0.5]]
    family, found = in_unit(equal, plan)
    assert (family.rule, family.look) == ("blocks", 1)
    assert family.margin == pytest.approx(0.005 * 0.3), "half a per cent of the mean size"
    assert [(c.n_pairs, c.outcome, c.unit) for c in found] == [(3, "open", "nats per token")] * 2


def test_values_of_0_and_below_wait_for_their_look_and_for_three_seeds():
    plan = Looking(margin=0.5, plan=LookPlan(looks=looks_until(12), margin=0.5), seeds=tuple(range(12)), asked={})
    family, (one,) = in_unit([[0.0, 1.0, 2.0], [5.0, 6.1, math.nan]], plan)
    assert (family.look, one.outcome, one.interval) == (None, "few", None)
    _, (two,) = in_unit([[0.0, 1.0], [5.0, 6.1]], Looking(margin=1.0))
    assert (two.outcome, two.interval, two.p) == ("few", None, None)


def test_what_is_detectable_has_the_unit_of_the_values():
    family, found = in_unit([[0.0, 1.0, -2.0, 0.5], [3.0, 4.1, 0.8, 3.2]], Looking(margin=1.0))
    (one,) = found
    assert f"differences of about {one.detectable:.3f} nats per token (80 % power)" in scope(family, found)


def test_equal_first_seeds_keep_a_planned_question_open():
    plan = Looking(margin=1.0, plan=LookPlan(looks=looks_until(12), margin=1.0), seeds=tuple(range(12)), asked={})
    _, (one,) = in_unit([[0.0] * 12, [0.0, 0.0, 0.0, 5, 6, 5, 7, 6, 5, 6, 5, 6]], plan)
    assert one.outcome == "apart"


def test_one_large_arm_does_not_make_others_equal():
    small = [[1.0, 1.01, 0.99, 1.0, 1.005], [1.2, 1.21, 1.19, 1.2, 1.21]]
    family, (one, _) = in_unit([*small, [150.0, 160.0, 155.0, 149.0, 0.0]], Looking(margin=1.0))
    assert 0.011 < family.margin < 0.013
    assert one.outcome == "apart"


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e9])
def test_a_change_of_unit_changes_no_verdict(factor):
    rows = np.array([[0.0, 1.0, -2.0, 0.5], [3.0, 4.1, 0.8, 3.2], [0.1, 1.1, -1.9, 0.6]])
    _, (apart, near_by) = in_unit(factor * rows, Looking(margin=1.0))
    _, (first, second) = in_unit(rows, Looking(margin=1.0))
    assert (apart.outcome, near_by.outcome) == (first.outcome, second.outcome) == ("apart", second.outcome)
    assert apart.interval == pytest.approx(tuple(factor * end for end in first.interval))
    assert (apart.p, near_by.p) == pytest.approx((first.p, second.p))


def test_of_one_comparison_in_a_unit_it_is_the_paired_t_test():
    rows = np.random.default_rng(5).standard_normal((2, 6))
    _, (one,) = in_unit(rows, Looking(margin=1.0))
    theirs = stats.ttest_rel(rows[1], rows[0])
    assert (one.p, *one.interval) == pytest.approx((theirs.pvalue, *theirs.confidence_interval(0.95)))


@pytest.mark.parametrize(("arms", "seeds"), [(2, 3), pytest.param(4, 3, marks=pytest.mark.slow)])
def test_equal_arms_in_a_unit_are_rarely_told_apart(arms, seeds, monkeypatch):
    """A family is wrong with any difference; .05 is asked, and 600 families vary by .009."""
    monkeypatch.setattr(BlockTest, "settling", lambda *_: None)  # how many seeds it would take is most of the time
    random = np.random.default_rng(arms * seeds)
    rows = random.standard_normal((600, arms, seeds)) + random.standard_normal((600, 1, seeds))
    wrong = sum(any(c.is_told for c in in_unit(family, Looking(margin=1.0))[1]) for family in rows)
    assert wrong / 600 <= 0.075


def test_the_order_of_heads_is_one_question():
    contrasts = {
        "descending": {"better": ["a2", "a5", "a8"], "than": ["a1", "a4", "a7"]},
        "ascending": {"better": ["a0", "a3", "a6"], "than": ["a1", "a4", "a7"]},
    }
    found = built(ORDER, baseline=None, contrasts=contrasts, margin=0.5)
    descending, ascending = found.contrasts
    assert (descending.estimate, descending.se, descending.freedom) == near(-0.011111, 0.183249, 2.589487)
    assert descending.interval == pytest.approx((-0.796756, 0.774533), abs=3e-3)
    assert ascending.interval == pytest.approx((-0.635123, 0.990678), abs=3e-3)
    assert (descending.outcome, ascending.outcome) == ("open", "open")
    wider = built(ORDER, baseline=None, contrasts=contrasts).contrasts
    assert [c.outcome for c in wider] == ["same", "same"]


def told(found):
    return {(c.arm, c.baseline): c for c in found.comparisons}


def test_swapping_arm_and_baseline_negates_the_estimate_and_its_interval():
    there, back = told(built(STAR[:2])), told(built(STAR[:2], baseline=1))
    one, other = there["a1", "a0"], back["a0", "a1"]
    assert other.estimate == pytest.approx(-one.estimate)
    assert other.interval == pytest.approx(tuple(-end for end in reversed(one.interval)))
    assert (other.p, other.p_family, other.detectable) == pytest.approx((one.p, one.p_family, one.detectable))
    assert other.outcome == one.outcome
    assert ": worse, " in one.verdict
    assert ": better, " in other.verdict


def same(one, other, tolerance=1e-9):
    for a, b in zip(one.comparisons, other.comparisons, strict=True):
        assert b.estimate == pytest.approx(a.estimate, abs=tolerance)
        assert b.interval == pytest.approx(a.interval, abs=tolerance)
        assert (b.p, b.p_family) == pytest.approx((a.p, a.p_family), abs=max(tolerance, 1e-9))
        assert b.outcome == a.outcome


def test_the_order_of_arms_matters_no_more_than_the_points_that_are_drawn():
    swapped = built([STAR[0], STAR[3], STAR[2], STAR[1]])
    one, other = told(built(STAR)), told(swapped)
    for name, now in (("a1", "a3"), ("a2", "a2"), ("a3", "a1")):
        assert other[now, "a0"].interval == pytest.approx(one[name, "a0"].interval, abs=3e-3)


def test_a_warning_is_a_function_its_line_in_the_list_and_a_template(monkeypatch):
    def odd(case):
        yield words.warning("odd", name=case.experiment.name, n=len(case.comparisons))

    monkeypatch.setitem(words.WARNINGS, "odd", "{name} compares {n} arm(s) with a baseline.")
    monkeypatch.setitem(words.DOUBTFUL, "odd", "odd")
    monkeypatch.setattr(warnings, "WARNINGS", [*warnings.WARNINGS, odd])
    found = built(A)
    assert found.cautions == (words.Warning(kind="odd", names={"name": "text"}, numbers={"n": 1}),)
    assert found.warnings == found.doubts == ("text compares 1 arm(s) with a baseline.",)


def test_a_family_of_copies_has_the_bound_of_one():
    groups = {name: {"arms": ["a0", "a1"], "baseline": "a0"} for name in ("one", "two", "three")}
    copies = built(A, baseline=None, groups=groups)
    assert len(copies.comparisons) == 3
    assert {round(c.bound, 6) for c in copies.comparisons} == {4.302653}


def test_an_arm_more_widens_the_intervals_of_the_others_by_what_is_asked_more():
    two, three = told(built(STAR[:3])), told(built(STAR))
    assert three["a1", "a0"].p_family > three["a1", "a0"].p
    assert two["a1", "a0"].estimate == three["a1", "a0"].estimate
