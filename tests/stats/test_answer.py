"""What the command line says at the end: the primary metric, then curves and learning rates."""

from dataclasses import replace

from headway.stats.answer import MANY, answer
from headway.stats.evidence import Comparison, Family
from headway.stats.learning_rates import ComparedAtBest, RatesOfArm
from headway.stats.lm.plain_curve import SizeComparison
from headway.stats.lm.scaling import Fit
from headway.stats.results import Results, RunResult
from headway.stats.sequential import LookPlan

NO_TEST = {
    **dict.fromkeys(("means", "interval", "se", "freedom", "bound", "p", "p_family", "detectable")),
    "rule": "blocks",
    "outcome": "few",
    "difference": 0.0,
    "relative": 0.0,
    "estimate": 0.0,
    "n_pairs": 1,
}


def comparison(verdict, control=None, metric="eval_loss_nats"):
    more = {"arm": "a", "baseline": "b", "group": None}
    return Comparison(metric=metric, control=control, verdict=verdict, **more, **NO_TEST)


def results(*comparisons, **more):
    empty = {"schema": 2, "experiment": "e", "scale": None, "runs": (), "baselines": {}, "tasks": {}}
    return Results(primary="eval_loss_nats", comparisons=comparisons, **{**empty, **more})


def fit(sentence, control=None):
    none = dict.fromkeys(("params", "intervals", "value", "sse", "other", "band", "against"))
    more = {"scheme": "descending", "form": "exp(-b n) + c", "at": 60, "arms": (), "seeds": (), "note": ""}
    return Fit(sentence=sentence, control=control, **more, **none)


def test_only_the_primary_metric_is_the_answer():
    given = results(comparison("a beats b"), comparison("a is smaller than b", metric="memory_bytes"))
    assert list(answer(given)) == ["a beats b"]


def test_what_holds_for_a_family_stands_below_its_verdicts():
    plan = LookPlan(looks=(3,), margin=1.0)
    shared = {"of": "comparisons", "metric": "eval_loss_nats", "rule": "blocks", "size": 2, "plan": plan, "level": 0.05}
    families = (Family(control=None, look=None, **shared), Family(control="c", look=1, **shared))
    given = results(comparison("a beats b"), comparison("c beats d"), comparison("e", "c"), families=families)
    assert list(answer(given)) == [
        "a beats b",
        "c beats d",
        "There is no interval before 3 seeds are finished. Lower is better.",
        "e",
        "There is no interval at 3 seeds, since an interval needs 3 seeds shared by all arms compared. "
        "Lower is better.",
    ]


def test_what_has_no_pairs_yet_is_one_line():
    nothing = [replace(comparison("cannot be compared"), n_pairs=0) for _ in range(3)]
    runs = tuple(
        RunResult(arm=arm, control=None, group=None, seed=0, id="", status="waiting", metrics=None)
        for arm in (nothing[0].arm, nothing[0].baseline)
    )
    assert list(answer(results(comparison("a beats b"), *nothing, runs=runs))) == [
        "a beats b",
        "no shared seed has finished yet in 3 comparisons",
    ]
    assert list(answer(results(nothing[0], runs=runs))) == ["no shared seed has finished yet in 1 comparison"]
    assert list(answer(results(nothing[0], runs=runs[:1]))) == [], "nobody chose the other arm"


def test_many_verdicts_leave_those_under_controls_to_the_report():
    given = results(comparison("plain"), *(comparison(f"c{i}", "all-global") for i in range(MANY)))
    assert list(answer(given)) == ["plain", f"the report has {MANY} more verdicts, on arms with a control"]


def test_curves_and_learning_rates_follow():
    compared = [
        ComparedAtBest(
            metric="eval_loss_nats", control=None, baseline="b", group=None, verdict=verdict, changed=changed, **NO_TEST
        )
        for verdict, changed in (("kept", False), ("now a beats b", True))
    ]
    said = "a is best at 2 times its learning rate"
    rates = RatesOfArm(arm="a", rates=(), best=2.0, at_edge=False, comparisons=tuple(compared), sentence=said)
    lane = SizeComparison(
        arm="lane", n_parameters=1, n_pairs=1, relative=0.1, interval=None, p=None, sentence="the lane lies above"
    )
    fits = (fit("at 60 heads, ..."), fit("under a control", "all-global"), fit(""))
    assert list(answer(results(fits=fits, plain_curve=(lane,), learning_rates=(rates,)))) == [
        "at 60 heads, ... (fit exp(-b n) + c)",
        "the lane lies above",
        said,
        "now a beats b",
    ]
