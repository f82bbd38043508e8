"""What the command line says at the end: the primary metric, then curves and learning rates."""

from headway.compare.answer import MANY, answer


def comparison(verdict, control=None, metric="eval_loss_nats"):
    return {"metric": metric, "control": control, "verdict": verdict}


def results(comparisons, **more):
    return {"primary": "eval_loss_nats", "comparisons": comparisons, "fits": [], **more}


def test_only_the_primary_metric_is_the_answer():
    given = results([comparison("a beats b"), comparison("a is smaller than b", metric="memory_bytes")])
    assert list(answer(given)) == ["a beats b"]


def test_many_verdicts_leave_those_under_controls_to_the_report():
    given = results([comparison("plain"), *(comparison(f"c{i}", "all-global") for i in range(MANY))])
    assert list(answer(given)) == ["plain", f"{MANY} more verdicts, under controls, stand in the report"]


def test_curves_and_learning_rates_follow():
    fits = [
        {"sentence": "at 60 heads, ...", "form": "exp(-b n) + c", "control": None},
        {"sentence": "under a control", "form": "exp(-b n) + c", "control": "all-global"},
        {"sentence": "", "form": "exp(-b n) + c", "control": None},
    ]
    rates = [
        {
            "sentence": "a is best at x2 of its learning rate",
            "comparisons": [{"verdict": "kept", "changed": False}, {"verdict": "now a beats b", "changed": True}],
        }
    ]
    lanes = [{"sentence": "the lane lies above the curve", "control": None}]
    given = results([], fits=fits, plain_curve=lanes, learning_rates=rates)
    assert list(answer(given)) == [
        "at 60 heads, ... (fit exp(-b n) + c)",
        "the lane lies above the curve",
        "a is best at x2 of its learning rate",
        "now a beats b",
    ]
