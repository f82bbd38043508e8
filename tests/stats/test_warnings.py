"""Verdicts that are worth nothing are said to be: training that is not over, and rates that matter more than arms."""

import numpy as np
import pytest
from stats.test_results import (
    DOCUMENT,
    FakeRun,
    FakeStore,
    calls,  # noqa: F401 - a fixture
)

from headway.config.load import resolve
from headway.stats import results
from headway.stats.case import Case
from headway.stats.cells import runs_of_arms
from headway.stats.warnings import no_better_than_bigram, still_falling


def falling(by, steps=100):
    """A course that ends at 1 and falls by a share in the last tenth."""
    return [{"step": s, "eval_mse": 1 + by * (steps - s) / (0.1 * steps)} for s in range(0, steps + 1, 5)]


@pytest.fixture
def store(tmp_path, calls):  # noqa: F811
    return FakeStore(tmp_path, resolve(DOCUMENT))


@pytest.mark.parametrize(("by", "warned"), [(0.20, True), (0.05, False), (0.0, False)])
def test_a_loss_that_still_falls_by_more_than_the_arms_differ_is_told(store, by, warned):
    store.add("h1", [1.1] * 3, recorded=falling(by)).add("h2", [1.0] * 3, recorded=falling(0.0))
    said = [one for one in results.build(store).warnings if "still fell in" in one]
    assert bool(said) == warned
    if warned:
        assert said == [
            "In the last tenth of training, the evaluation MSE still fell in 1 of 2 arms. In 1 head it fell by 20 % or "
            "more. The verdict on 2 heads and 1 head rests on a difference or margin of 10 %, which is smaller. Train "
            "longer, or let the learning rate decay."
        ]


def test_a_tiny_fall_and_a_course_without_records_are_no_news(store):
    store.add("h1", [1.0, 1.0], recorded=falling(0.004)).add("h2", [1.0, 1.0], recorded=falling(0.004))
    store.add("h4", [1.0, 1.0], recorded=[{"step": 100, "eval_mse": 1.0}])
    assert results.build(store).warnings == ()


@pytest.mark.parametrize(("double", "warned"), [(0.8, True), (0.97, False), (1.2, False)])
def test_a_learning_rate_that_moves_an_arm_by_more_than_the_arms_differ_is_told(tmp_path, calls, double, warned):  # noqa: F811
    controls = {"rates-double": {"training": {"learning_rate": 2e-3}}}
    store = FakeStore(tmp_path, resolve({**DOCUMENT, "controls": controls}))
    store.add("h1", noisy(1.1, 0)).add("h2", noisy(1.0, 1)).add("h1+rates-double", noisy(1.1, 2))
    store.add("h2+rates-double", noisy(double, 0))
    said = [one for one in results.build(store).warnings if "learning rate" in one]
    assert bool(said) == warned
    if warned:
        assert said == [
            "Another learning rate changes the result of 1 of 2 arms. For 2 heads the gain is 24 % or more, "
            "at 2 times its learning rate. The verdict on 1 head and 2 heads rests on a difference or margin of "
            "10 %, which is smaller. Rely on the verdicts at the best learning rates."
        ]


def test_a_fall_at_the_start_is_none_at_the_end(store):
    course = [{"step": 0, "eval_mse": 3.5}, {"step": 1000, "eval_mse": 1.0}]
    store.add("h1", noisy(1.0, 0), recorded=course).add("h2", noisy(1.0, 1), recorded=course)
    assert not any("still fell in" in one for one in results.build(store).warnings)


class Told:
    """A finished run of a text, as far as it is asked."""

    status = "done"

    def __init__(self, name, loss, bigram=3.4):
        self.name, self.metrics = name, {"eval_loss_nats": loss, "bigram_loss_nats": bigram}


def text():
    return resolve(
        {
            "name": "text",
            "task": {"kind": "text", "corpus": "stories", "n_ctx": 16},
            "model": {"family": "gpt-2", "d_model": 32, "n_layers": 2, "n_heads": 4},
            "training": {"optimizer": "adamw", "learning_rate": 1e-3, "batch_size": 2, "steps": 10},
            "arms": {"a": {}, "b": {"model": {"n_heads": 2}}},
            "baseline": "a",
        }
    )


def untrained(experiment, told):
    runs = {}
    for seed, run in enumerate(told):
        runs.setdefault(run.name, {})[seed] = run
    return [warning.sentence for warning in no_better_than_bigram(Case(experiment=experiment, runs=runs))]


def words_of(arms):
    return (
        f"These arms are no better than a bigram model, which only counts pairs of tokens: {arms}. Such models "
        "cannot show what heads do. Train longer before you draw conclusions about heads."
    )


def test_arms_that_are_no_better_than_the_bigram_model_are_named():
    assert untrained(text(), [Told("a", 3.0), Told("b", 3.3)]) == []
    assert list(untrained(text(), [Told("a", 3.0), Told("b", 3.5), Told("b", 3.4)])) == [words_of("b")]
    assert list(untrained(text(), [Told("a", 3.4), Told("b", 3.5)])) == [words_of("a and b")]
    assert untrained(text(), [Told("a", None), Told("b", 3.5, None)]) == []


def test_runs_that_diverged_are_a_share_and_no_mean_without_them(store):
    store.add("h1", [1.0, 1.1, 1.05]).add("h2", [1.0, 1.2, 1.1])
    store.content[2].status = "failed"
    store.content[2].failure = "diverged"
    said = results.build(store).warnings
    assert (
        "Diverged runs are left out (1 of 3 of 1 head). The comparison uses the other runs, which favours arms that "
        "diverge more often." in said
    )


def test_of_an_arm_of_which_every_run_diverged_nothing_is_left(store):
    store.add("h1", [1.0, 1.1]).add("h2", [1.0, 1.2]).add("h4", [1.0, 1.2])
    for run in store.content[:3]:
        run.status, run.failure = "failed", "diverged"
    assert results.build(store).warnings[-2:] == (
        "Diverged runs are left out (2 of 2 of 1 head and 1 of 2 of 2 heads). The comparison uses the other runs, "
        "which favours arms that diverge more often.",
        "Every run of 1 head diverged, so nothing is left to compare.",
    )


@pytest.mark.parametrize(("schedule", "doubted"), [("constant", True), ("linear", False), ("cosine", False)])
def test_a_fall_under_a_decaying_learning_rate_is_told_and_puts_no_answer_in_doubt(tmp_path, schedule, doubted):
    content = text().plain()
    arms = {"a": {}, "b": {"training": {"learning_rate": 0.5}}}
    content = {**content, "arms": arms, "baseline": "a", "training": {**content["training"], "lr_schedule": schedule}}
    store = FakeStore(tmp_path, resolve(content))
    for place, (arm, loss) in enumerate((("a", 2.0), ("b", 2.1))):
        course = [{"step": r["step"], "eval_loss_nats": 2 * r["eval_mse"]} for r in falling(0.2)]
        store.add(arm, noisy(loss, place), metric="eval_loss_nats", recorded=course)
    built = results.build(store)
    (said,) = [one for one in built.warnings if "last tenth of training" in one]
    assert ("Longer training may change the answer" in said) != doubted
    assert [one.doubts for one in built.judged] == [("falling",) if doubted else ()]
    assert built.doubts == ((said,) if doubted else ())


def test_a_loss_told_per_byte_still_falls_as_the_one_per_token_that_is_recorded(tmp_path):
    plain = text().plain()
    content = {**plain, "training": {**plain["training"], "lr_schedule": "constant"}}
    arms = {"a": {"task": {"tokenizer": "bytes"}}, "b": {"task": {"tokenizer": "bpe-1024"}}}
    store = FakeStore(tmp_path, resolve({**content, "arms": arms, "baseline": "a"}))
    for arm, bits, by in (("a", 1.0, 0.2), ("b", 1.1, 0.0)):
        course = [{"step": r["step"], "eval_loss_nats": 2 * r["eval_mse"]} for r in falling(by)]
        metrics = {"eval_bits_per_byte": bits, "eval_loss_nats": 2.0, "bigram_loss_nats": 3.0}
        store.add(arm, [bits] * 3, metrics=metrics, recorded=course)
    said = [one for one in results.build(store).warnings if "still fell in" in one]
    assert len(said) == 1
    assert "the evaluation bits per byte still fell in 1 of 2 arms. In a it fell by 20 % or more." in said[0]


SPREAD = np.array([-0.001, 0.0, 0.001])


def noisy(level, place):
    """Three seeds about a level, each arm in another order."""
    return (level * (1 + np.roll(SPREAD, place))).tolist()


def far_apart(store, by):
    """1 head 6 % off, 4 heads .6 % off and told apart; 4 and 2 heads still fall by a share."""
    store.add("h1", noisy(1.06, 0), recorded=falling(0.0)).add("h2", noisy(1.0, 1), recorded=falling(by))
    return store.add("h4", noisy(1.006, 1), recorded=falling(by))


def test_a_difference_of_two_orders_of_magnitude_stands_while_what_is_left_still_falls(store):
    """A fall to a hundredth is one by 99 % of the baseline, and more than one by 150 % of what is left."""
    store.add("h1", noisy(0.01, 0), recorded=falling(1.5)).add("h2", noisy(1.0, 1), recorded=falling(0.0))
    built = results.build(store)
    assert [c.doubts for c in built.judged] == [()]
    assert built.doubts == ()


def test_between_two_records_a_metric_falls_as_an_exponential_does(store):
    """From 1 to 1/4 in the last fifth: by 2 in the last tenth of all; not by 2.5 on a line."""
    course = [{"step": step, "eval_mse": value} for step, value in ((0, 1.0), (800, 1.0), (1000, 1 / 4))]
    store.add("h1", noisy(1.0, 0), recorded=falling(0.0)).add("h2", noisy(1.5, 1), recorded=course)
    (said,) = [one for one in results.build(store).warnings if "still fell in" in one]
    assert "In 2 heads it fell by 100 % or more." in said


def test_an_answer_is_held_against_its_own_difference_and_not_against_the_farthest_arms(store):
    built = results.build(far_apart(store, 0.03))
    (said,) = [one for one in built.warnings if "still fell in" in one]
    assert said == (
        "In the last tenth of training, the evaluation MSE still fell in 2 of 3 arms. In 2 heads it fell by 3.0 % or "
        "more. The verdict on 4 heads and 2 heads rests on a difference or margin of 0.60 %, which is smaller. Train "
        "longer, or let the learning rate decay."
    )
    assert built.doubts == (said,)
    h1, h4 = (next(c for c in built.judged if c.arm == arm) for arm in ("h1", "h4"))
    assert (h1.doubts, h4.doubts) == ((), ("falling",))
    assert h4.verdict.endswith(
        "3 seeds); in doubt: in the last tenth of training, the evaluation MSE fell by more than this difference "
        "or the margin"
    )
    assert h1.verdict.endswith("3 seeds)")
    assert results.Results.from_json(built.to_json()) == built
    assert results.build(far_apart(FakeStore(store.path, store.experiment), 0.005)).doubts == ()


@pytest.mark.parametrize(("by", "kinds"), [(0.012, ("falling",)), (0.008, ())])
def test_that_two_are_the_same_is_held_against_the_margin(store, by, kinds):
    store.add("h2", noisy(1.0, 1), recorded=falling(by)).add("h4", noisy(1.0, 2), recorded=falling(by))
    built = results.build(store)
    (one,) = built.judged
    assert (one.outcome, one.doubts) == ("same", kinds)
    assert all(
        "The verdict on 4 heads and 2 heads rests on a difference or margin of 1.0 %, which is smaller." in said
        for said in built.doubts
    )
    assert bool(built.doubts) == bool(kinds)


def test_a_rate_that_moves_each_arm_by_more_than_an_answer_is_told(tmp_path, calls):  # noqa: F811
    controls = {"rates-double": {"training": {"learning_rate": 2e-3}}}
    store = far_apart(FakeStore(tmp_path, resolve({**DOCUMENT, "controls": controls})), 0.0)
    for arm, level in (("h1", 1.06), ("h2", 1.0), ("h4", 1.006)):
        store.add(f"{arm}+rates-double", noisy(0.97 * level, 0))
    built = results.build(store)
    (said,) = built.doubts
    assert said == (
        "Another learning rate changes the result of 2 of 3 arms. For 4 heads the gain is 2.3 % or more, at 2 times "
        "its learning rate. The verdict on 4 heads and 2 heads rests on a difference or margin of 0.60 %, which is "
        "smaller. Rely on the verdicts at the best learning rates."
    )
    assert {c.arm: c.doubts for c in built.judged if c.control is None} == {"h1": (), "h4": ("rates",)}


def test_a_contrast_is_held_against_the_mean_fall_of_its_sides(tmp_path, calls):  # noqa: F811
    document = {**DOCUMENT, "contrasts": {"few": {"better": ["h1", "h2"], "than": ["h4"]}}}
    store = FakeStore(tmp_path, resolve(document))
    store.add("h1", noisy(1.0, 0), recorded=falling(0.05)).add("h2", noisy(1.0, 1), recorded=falling(0.0))
    store.add("h4", noisy(1.03, 2), recorded=falling(0.0))
    built = results.build(store)
    # 2.5 % in the mean of the first side, of 3 % that are told.
    assert [(one.outcome, one.doubts) for one in built.contrasts] == [("apart", ())]
    store = FakeStore(tmp_path, resolve(document))
    store.add("h1", noisy(1.0, 0), recorded=falling(0.05)).add("h2", noisy(1.0, 1), recorded=falling(0.05))
    (one,) = results.build(store.add("h4", noisy(1.03, 2), recorded=falling(0.0))).contrasts
    assert one.doubts == ("falling",)
    assert one.sentence.endswith(
        "; in doubt: in the last tenth of training, the evaluation MSE fell by more than this difference or the margin"
    )


def test_what_is_no_better_than_the_bigram_model_carries_that_in_its_sentence_and_outcome(tmp_path):
    store = FakeStore(tmp_path, text())
    for place, (arm, level) in enumerate((("a", 3.6), ("b", 3.5))):
        for seed, value in enumerate(noisy(level, place)):
            metrics = {"eval_loss_nats": value, "bigram_loss_nats": 3.4}
            spec = store.experiment.arm(arm).spec(seed)
            store.content.append(FakeRun(arm=arm, seed=seed, spec=spec, metrics=metrics))
    built = results.build(store)
    (one,) = built.judged
    assert (one.outcome, one.doubts) == ("apart", ("untrained",))
    assert one.verdict.endswith(
        "; in doubt: none of these arms beats a bigram model, and such models cannot show what heads do"
    )
    assert built.doubts == (words_of("a and b"),)
    assert built.warnings[: len(built.doubts)] == built.doubts


def test_training_that_is_over_is_said_to_fall_in_few_experiments(tmp_path, calls):  # noqa: F811
    """Single evaluations vary by as much as the arms differ; with three seeds a mean alone said so in half of all."""
    random, experiment, said = np.random.default_rng(0), resolve(DOCUMENT), 0
    for _ in range(200):
        store = FakeStore(tmp_path, experiment)
        for arm, level in (("h1", 1.0), ("h2", 1.003), ("h4", 1.0)):
            store.add(arm, [level] * 3)
        for run in store.content:
            noise = np.exp(0.003 * random.standard_normal(11))
            run.recorded = [{"step": 10 * i, "eval_mse": float(value)} for i, value in enumerate(noise)]
        case = Case(experiment=experiment, runs=runs_of_arms(store.content))
        said += bool([*still_falling(case)])
    assert said <= 0.05 * 200
