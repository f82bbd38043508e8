"""Published statements on heads, judged on courses of training that were planted for and against them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headway.base.text import counted, number
from headway.base.words import STATEMENTS
from headway.config.experiment import Experiment
from headway.config.head_metrics import HEAD_METRICS
from headway.config.load import load, resolve
from headway.stats.answer import in_short
from headway.stats.blocks import block_test
from headway.stats.blocks import reading as reading_of
from headway.stats.evidence import Comparison
from headway.stats.lm.claim_verdicts import _of_one, claims, overall_verdict
from headway.stats.lm.claims import CLAIMS, Evidence, late_rise_beyond_layer_0
from headway.stats.lm.diversity import EARLY, FEWEST_SEEDS, HeadProgress, LayerAssociation, ProbedRun, associations

STEPS = np.array([*range(50), *range(100, 1001, 50)])
N_LAYERS = 6

Course = Callable[[str, np.ndarray, int], np.ndarray]
"""A metric, the share of training that is done, and a layer: the mean over pairs or heads at each step."""


def experiment(n_arms: int = 2, controls: bool = False, **more: Any) -> Experiment:
    return resolve(
        {
            "name": "x-ray",
            **more,
            "task": {"kind": "text", "corpus": "stories", "tokenizer": "bytes", "n_ctx": 16},
            "model": {"family": "gpt-2", "d_model": 32, "n_layers": N_LAYERS, "n_heads": 4},
            "training": {"optimizer": "adamw", "learning_rate": 1e-3, "batch_size": 2, "steps": 1000},
            "samples": None,
            "arms": {
                f"arm-{k}": {"label": f"arm {k}", "training": {"learning_rate": 1e-3 * (k + 1)}} for k in range(n_arms)
            },
            "controls": {"after": {"model": {"norm_place": "after"}}} if controls else {},
            "baseline": "arm-0",
        }
    )


def said(metric: str, done: np.ndarray, layer: int) -> np.ndarray:
    """As the article says it."""
    if metric.startswith("query"):
        return (3.0 if layer == 0 else 1.0) * (0.1 + 0.05 * done)
    if metric.startswith("output"):
        return -0.5 + 0.5 * done * (1 - layer / N_LAYERS)
    return np.minimum(done, 0.3) if layer == 0 else 0.2 + 0.3 * done


def denied(metric: str, done: np.ndarray, layer: int) -> np.ndarray:
    """The opposite of each statement."""
    if metric.startswith("query"):
        return 0.2 - 0.1 * done
    if metric.startswith("output"):
        return -0.2 - 0.5 * done * (1 - layer / N_LAYERS)
    return 0.2 + 0.5 * done if layer == 0 else 0.2 + 0 * done


def run_of(
    course: Course,
    seed: int,
    *,
    n_heads: int = 4,
    informed: Sequence[float] = (),
    falling: float = 0.0,
    control: str | None = None,
) -> ProbedRun:
    """`informed`: of each layer, how much the loss shows of the wobble of its diversity; it falls by `falling`."""
    rng = np.random.default_rng(seed)
    done = STEPS / STEPS[-1]
    metrics = ("query_cka", "query_orthogonality_raw", "output_dissimilarity", "attention_diversity")
    wobble = 0.01 * rng.normal(size=(len(STEPS), N_LAYERS))
    mean, variance = {}, {}
    for metric in metrics:
        level = np.stack([course(metric, done, layer) for layer in range(N_LAYERS)], axis=1)
        mean[metric] = level + (wobble if metric == "output_dissimilarity" else 0.002 * rng.normal(size=level.shape))
        rising = course("output", done, 0) if metric.startswith("output") else done
        variance[metric] = 0.05 + 0.05 * rising[:, None] + 1e-4 * rng.normal(size=level.shape)
        if n_heads < 3:
            variance[metric] = np.zeros_like(level)
    progress = HeadProgress(
        steps=STEPS,
        layers=tuple(range(N_LAYERS)),
        n_heads=(n_heads,) * N_LAYERS,
        mean=mean,
        variance=variance,
        null={},
        n_rows=dict.fromkeys(metrics, 100),
    )
    share = np.array(informed or [0.0] * N_LAYERS)
    loss = 3 - falling * done + wobble @ share + 0.003 * rng.normal(size=len(STEPS))
    records = [{"step": int(s), "probe_loss_nats": float(v)} for s, v in zip(STEPS, loss, strict=True)]
    run = SimpleNamespace(seed=seed, control=control, records=lambda: records)
    return ProbedRun(run=run, progress=progress)  # type: ignore[arg-type]


def judged(
    probed: dict[str, list[ProbedRun]], document: Experiment | None = None, *, associated: bool = False
) -> dict[tuple[Any, ...], Any]:
    found = claims(document or experiment(), probed, list(associations(probed)) if associated else (), ())
    return {(entry.control, entry.name, entry.metric): entry for entry in found}


def arms(course: Course, n_seeds: int = 3, **more: Any) -> dict[str, list[ProbedRun]]:
    return {f"arm-{k}": [run_of(course, 10 * k + seed, **more) for seed in range(n_seeds)] for k in range(2)}


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("layer-0-less-orthogonal", "query_cka"),
        ("layer-0-less-orthogonal", "query_orthogonality_raw"),
        ("orthogonality-falls", "query_cka"),
        ("layer-0-settles", "attention_diversity"),
        ("disagreement-rises", "output_dissimilarity"),
        ("disagreement-variance-rises", "output_dissimilarity"),
        ("early-layers-differ", "output_dissimilarity"),
    ],
)
def test_what_is_planted_holds_and_its_opposite_does_not(name: str, metric: str) -> None:
    for course, verdict in ((said, "holds"), (denied, "does not hold")):
        entry = judged(arms(course))[None, name, metric]
        assert entry.verdict == verdict, (name, entry.sentence)
        assert [arm.verdict for arm in entry.arms] == [verdict] * 2
        assert entry.sentence.startswith(entry.says)
        assert f": {verdict} in " in entry.sentence
        assert "{" not in entry.sentence


def test_an_association_that_falls_with_depth_is_found_and_none_is_denied() -> None:
    steady = lambda metric, done, layer: 0.3 + 0 * done  # noqa: E731
    falling = judged(arms(steady, 5, informed=(2.0, 0.2, 0.1, 0.0, 0.0, 0.0)), associated=True)
    assert falling[None, "r2-high-early", "output_dissimilarity"].verdict == "holds"
    assert falling[None, "r2-falls-with-depth", "output_dissimilarity"].verdict == "holds"
    # What is not a common trend is in the series as they are, too.
    assert falling[None, "r2-high-early", "output_dissimilarity"].arms[0].also > 0.5
    none = judged(arms(steady, 5), associated=True)
    assert none[None, "r2-high-early", "output_dissimilarity"].verdict == "does not hold"
    assert none[None, "r2-falls-with-depth", "output_dissimilarity"].verdict == "cannot be told"
    assert none[None, "layer-0-predicts-badly", "attention_diversity"].verdict == "holds"


def test_two_curves_that_merely_move_with_time_explain_nothing() -> None:
    found = judged(arms(said, 5, falling=2.0), associated=True)
    high, badly = (
        found[None, "r2-high-early", "output_dissimilarity"],
        found[None, "layer-0-predicts-badly", "attention_diversity"],
    )
    assert (high.verdict, badly.verdict) == ("does not hold", "holds")
    assert all(arm.also > 0.5 > arm.value for arm in (*high.arms, *badly.arms))


def test_an_association_takes_four_seeds_and_says_so() -> None:
    steady = lambda metric, done, layer: 0.3 + 0 * done  # noqa: E731
    found = judged(arms(steady, informed=(2.0, 0, 0, 0, 0, 0)), associated=True)
    for name, metric in (
        ("layer-0-predicts-badly", "attention_diversity"),
        ("r2-high-early", "output_dissimilarity"),
        ("r2-falls-with-depth", "output_dissimilarity"),
    ):
        entry = found[None, name, metric]
        assert entry.verdict == "cannot be told"
        assert f"{entry.says}: cannot be tested with 3 seeds: the test needs 4. By arm, " in entry.sentence
        assert [(arm.value, arm.interval, arm.seeds) for arm in entry.arms] == [(None, None, 3)] * 2
        assert all(arm.also is not None for arm in entry.arms)
        assert "{" not in entry.sentence
    (short,) = (said for said in in_short(list(found.values())) if said.startswith("Published statements"))
    assert short.endswith("R² falls with depth. 3 of these cannot be tested with 3 seeds: the test needs 4")
    enough = judged(arms(steady, 4, informed=(2.0, 0, 0, 0, 0, 0)), associated=True)
    assert not any("cannot be tested" in said for said in in_short(list(enough.values())))


def test_the_shipped_x_ray_has_as_many_seeds_as_its_statements_take() -> None:
    assert len(load("x-ray").seeds) >= FEWEST_SEEDS


def test_a_high_number_that_swapped_seeds_allow_tells_nothing() -> None:
    claim = next(claim for claim in CLAIMS if claim.name == "r2-high-early")
    progress, seeds = run_of(said, 0).progress, (0, 1, 2, 3)
    for p, verdict in ((0.04, "holds"), (0.05, "cannot be told"), (None, "cannot be told")):
        entry = LayerAssociation(
            r2=0.95,
            p=p,
            n=EARLY,
            per_series=(0.95,) * 4,
            per_series_beyond=(0.9, 0.91, 0.92, 0.93),
            arm="arm-0",
            control=None,
            metric="output_dissimilarity",
            loss="probe_loss_nats",
            window="early",
            steps=(0, EARLY),
            layer=0,
            seeds=seeds,
        )
        elsewhere = replace(entry, metric="attention_diversity", seeds=(4,), per_series=(0.1,))  # probed in other runs
        ones = [Evidence(progress=progress, seed=seed, associations=[elsewhere, entry]) for seed in seeds]
        (arm,) = _of_one(claim, "output_dissimilarity", {"arm-0": ones})
        assert arm.verdict == verdict


def test_one_layer_that_falls_among_many_denies_and_the_interval_is_of_the_least() -> None:
    one_falls = lambda metric, done, layer: 0.3 + (-0.5 if layer == 3 else 0.1) * done  # noqa: E731
    entry = judged(arms(one_falls))[None, "disagreement-rises", "output_dissimilarity"]
    assert entry.verdict == "does not hold"
    for arm in entry.arms:
        assert arm.interval is not None
        assert arm.interval[0] < arm.value < arm.interval[1] < 0 < arm.also
        assert arm.value == pytest.approx(-0.5, abs=0.05)


@pytest.mark.parametrize("n_seeds", [1, 2])
def test_one_seed_or_two_give_no_verdict(n_seeds: int) -> None:
    for entry in judged(arms(said, n_seeds), associated=True).values():
        assert entry.verdict == "cannot be told"
        assert all(arm.interval is None for arm in entry.arms)
        assert f"with {counted(n_seeds, 'seed')}" in entry.sentence


def test_one_seed_cannot_tell_and_gives_its_number() -> None:
    entry = judged(arms(said, n_seeds=1))[None, "layer-0-less-orthogonal", "query_cka"]
    assert entry.verdict == "cannot be told"
    assert entry.arms[0].interval is None
    assert entry.arms[0].value == pytest.approx(3.0, rel=0.02)
    assert entry.arms[0].also == pytest.approx(3.0, rel=0.05)
    assert "cannot be told with 1 seed. By arm, layer 0's query CKA is " in entry.sentence


def test_one_arm_against_a_statement_is_enough() -> None:
    probed = {"arm-0": arms(said)["arm-0"], "arm-1": arms(denied)["arm-1"]}
    entry = judged(probed)[None, "orthogonality-falls", "query_cka"]
    assert entry.verdict == "does not hold"
    assert "does not hold (of 2 arms: holds in arm 0, does not hold in arm 1). By arm, query CKA" in entry.sentence
    assert overall_verdict([]) == "cannot be told"


def test_two_heads_have_no_variance_over_pairs() -> None:
    entry = judged(arms(said, n_heads=2))[None, "disagreement-variance-rises", "output_dissimilarity"]
    assert entry.verdict == "cannot be told"
    assert entry.arms == ()
    assert "no model here has the layers, heads or probes that the claim needs" in entry.sentence


def test_each_control_is_judged_by_itself() -> None:
    document = experiment(controls=True)
    probed = arms(said) | {
        f"arm-{k}+after": [run_of(denied, 50 + 10 * k + seed, control="after") for seed in range(3)] for k in range(2)
    }
    found = judged(probed, document)
    assert found[None, "orthogonality-falls", "query_cka"].verdict == "holds"
    assert found["after", "orthogonality-falls", "query_cka"].verdict == "does not hold"
    printed = list(in_short(list(found.values())))
    assert printed[0].startswith("Published statements on heads. Holds: layer 0 is far less orthogonal; orthogonality")
    assert printed[1].startswith(
        "Different verdicts under after: layer 0 is far less orthogonal (does not hold); layer 0 is far less "
        "orthogonal (does not hold by query orthogonality, raw)"
    )
    assert len(printed) == 2


def test_what_a_metric_does_is_not_laid_on_a_control() -> None:
    document = experiment(controls=True)

    def by_raw_alone(metric: str, done: np.ndarray, layer: int) -> np.ndarray:
        return (said if metric.endswith("raw") else denied)(metric, done, layer)

    probed = arms(by_raw_alone) | {
        f"arm-{k}+after": [run_of(by_raw_alone, 50 + 10 * k + seed, control="after") for seed in range(3)]
        for k in range(2)
    }
    first, *others = in_short(list(judged(probed, document).values()))
    assert "Does not hold: layer 0 is far less orthogonal; orthogonality falls" in first
    assert others == [
        "Different verdicts by the metric as published: layer 0 is far less orthogonal (holds by query orthogonality, "
        "raw); orthogonality falls in all layers (holds by query orthogonality, raw)"
    ]


def test_nothing_is_said_where_nothing_was_probed() -> None:
    assert judged({}) == {}
    assert list(in_short(())) == []


def test_a_statement_is_judged_with_the_published_metric_beside_the_normalised_one() -> None:
    found = judged(arms(said))
    assert found[None, "orthogonality-falls", "query_orthogonality_raw"].as_published
    assert not found[None, "orthogonality-falls", "query_cka"].as_published
    assert (None, "disagreement-rises", "output_dissimilarity_published") not in found  # it was not measured


def test_associations_are_early_and_over_the_whole_training() -> None:
    found = list(associations({"arm-0": [run_of(said, seed) for seed in range(2)]}))
    assert {entry.window for entry in found} == {"early", "whole"}
    assert {entry.metric for entry in found} == {"output_dissimilarity", "attention_diversity"}
    assert {entry.loss for entry in found} == {"probe_loss_nats"}  # no batch's loss was recorded
    early = next(entry for entry in found if entry.window == "early")
    assert early.n == EARLY
    assert early.steps == (0, EARLY - 1)
    assert early.seeds == (0, 1)
    assert len(early.per_series) == 2


@pytest.mark.parametrize(("changes", "verdict"), [(-0.10, "does not hold"), (0.02, "holds")])
def test_regularisers_are_judged_by_the_loss(changes: float, verdict: str) -> None:
    document = resolve(
        {
            **{key: getattr(experiment().document, key) for key in ("task", "model", "training")},
            "name": "regularized",
            "samples": None,
            "arms": {
                "none": {},
                "apart": {"label": "kept apart", "training": {"regularizers": [{"metric": "disagreement_output"}]}},
            },
            "baseline": "none",
        }
    )
    wobble = [0.001, -0.002, 0.001]
    losses = np.array([[(1 + changes) * 2.0 + w for w in wobble], [2.0] * 3])
    (judged,) = block_test(100 * np.log(losses), np.array([[1.0, -1.0]])).contrasts
    told = replace(judged, metric="eval_loss_nats", outcome=reading_of(judged, 0.0), relative=changes)
    comparison = Comparison(**vars(told), arm="apart", baseline="none", group=None, verdict="")
    (entry,) = claims(document, {}, (), (comparison,))
    assert entry.verdict == verdict
    assert f"The loss changes by {number(100 * changes, 3)} %" in entry.sentence


def test_statements_are_judged_only_where_an_experiment_asks_for_them() -> None:
    assert load("x-ray").statements
    assert load("regularized").statements
    assert not load("head-scaling").statements
    assert not experiment(name="mine").statements
    assert experiment(name="mine", statements=True).statements
    # A document of before has no key: the shipped experiment of its name speaks for it.
    assert experiment().statements
    assert not experiment(statements=False).statements
    assert experiment().differences(experiment(statements=False)) == []


def test_what_settles_changes_less_than_half_as_much() -> None:
    # Layer 0 rises by .01 in the second half and the others by .1: .1 less twice .01.
    values = np.zeros((3, 3))
    values[2] = [0.01, 0.1, 0.1]
    progress = HeadProgress(
        steps=np.array([0, 50, 100]),
        layers=(0, 1, 2),
        n_heads=(2, 2, 2),
        mean={"attention_diversity": values},
        variance={},
        null={},
        n_rows={},
    )
    assert late_rise_beyond_layer_0(Evidence(progress=progress, seed=0), "attention_diversity") == pytest.approx(
        [0.08, 0.12]
    )


def test_every_statement_names_metrics_that_exist_and_says_where_its_number_stands() -> None:
    for claim in CLAIMS:
        assert set(claim.metrics) <= set(HEAD_METRICS)
        assert "{value}" in STATEMENTS[claim.name][2]
        assert ("{also}" in STATEMENTS[claim.name][2]) == (claim.also is not None)
