"""Verdicts on published statements on the diversity and the pruning of heads.

A statement on diversity is judged in each arm over its seeds, at least three. If the 95 % interval (t) of its number
lies on one side of the bound, the statement holds or does not hold; otherwise it is open. Two kinds differ:

* A statement on all layers is judged for the layers of all arms together (`every_layer`).
* A statement on R^2 needs an R^2 above that of swapped seeds (`association`), which takes four seeds.

The statements are general. So a statement does not hold if more arms contradict it than chance would let. Statements
are judged again under each control, and by the published metric where it was measured. This shows which conclusion
comes from which choice.

Paper: X-raying heads (article, May 2024), of one model each, which attended to the future only and did not learn.

The statement on pruning is judged by models that were pruned and not trained further. The article says: alike late
heads are the first that pruning can take, layer 0's the last. It did not try this. The statement has two halves:

* Alike heads can go. Models that lost a random one of the most alike two are compared with models that lost as many
  heads at random. The head is drawn, since choosing the cheaper one would select by size, not by likeness.
* Layer 0's heads are the last to go. The answer is where heads went that were chosen by their effect on the loss.

`pruned_at_once` compares such models, seed by seed, with the model that they come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headway.base.identity import grouped
from headway.base.text import capital, filled, span
from headway.base.words import STATEMENTS, UNTESTED, say
from headway.config.arms import Arm
from headway.config.experiment import Experiment
from headway.config.lm.init_from import Start, StartPruning
from headway.config.lm.run import TokensRun
from headway.stats.cells import titles_of
from headway.stats.evidence import Comparison, interval_of_mean
from headway.stats.lm.claims import (
    CLAIMS,
    Claim,
    Evidence,
    JudgedArm,
    JudgedStatement,
    Verdict,
    every_layer,
)
from headway.stats.lm.diversity import LayerAssociation, ProbedRun, heads_by_layer
from headway.stats.lm.verdicts import claim_sentence, with_arms
from headway.stats.sequential import FEWEST
from headway.stats.simultaneous import LEVEL
from headway.store.run import Run

if TYPE_CHECKING:
    from jaxtyping import Float


_LOSS, _HEADS = "eval_loss_nats", "total_heads"

HELPS = 0.01
"""A regulariser that lowers the loss by less than this share hardly helps."""


def claims(
    experiment: Experiment,
    probed: Mapping[str, Sequence[ProbedRun]],
    associations: Sequence[LayerAssociation],
    comparisons: Sequence[Comparison],
) -> Iterator[JudgedStatement]:
    """Judge every statement that the runs can answer, without a control and under each control.

    Args:
        experiment: the experiment as declared.
        probed: the probed runs of each arm, by its full name.
        associations: the association of each layer's diversity with the loss, from `diversity_loss.associations`.
        comparisons: the comparisons, with their verdicts.
    """
    with_probe_loss = (entry for entry in associations if entry.loss == "probe_loss_nats")
    of_arms, titles = grouped(with_probe_loss, lambda entry: entry.arm), titles_of(experiment)
    for control in dict.fromkeys(arm.control for arm in experiment.arms):
        arms = [arm.full_name for arm in experiment.arms if arm.control == control and probed.get(arm.full_name)]
        evidence = {
            name: [
                Evidence(progress=run.progress, seed=run.run.seed, associations=of_arms.get(name, ()))
                for run in probed[name]
            ]
            for name in arms
        }
        for claim in CLAIMS:
            for metric in claim.metrics:
                if any(metric in run.progress.mean for ones in evidence.values() for run in ones):
                    yield _claim_verdict(claim, metric, control, evidence, titles)
        yield from _regularisers(experiment, control, comparisons)


def _claim_verdict(
    claim: Claim,
    metric: str,
    control: str | None,
    evidence: Mapping[str, Sequence[Evidence]],
    titles: Mapping[str, str],
) -> JudgedStatement:
    asked = {name: [each for each in ones if metric in each.progress.mean] for name, ones in evidence.items()}
    arms = tuple(_of_several(claim, metric, asked) if claim.several else _of_one(claim, metric, asked))
    overall = overall_verdict([arm.verdict for arm in arms], together=claim.several)
    says, short, _ = STATEMENTS[claim.name]
    return JudgedStatement(
        name=claim.name,
        says=says,
        short=short,
        control=control,
        metric=metric,
        as_published=metric != claim.metrics[0],
        bound=claim.bound,
        verdict=overall,
        sentence=claim_sentence(claim.name, metric, overall, arms, titles),
        arms=arms,
    )


def _of_one(claim: Claim, metric: str, asked: Mapping[str, Sequence[Evidence]]) -> Iterator[JudgedArm]:
    """Judge a number in each arm by itself."""
    for arm, ones in asked.items():
        values = _known([claim.value(evidence, metric) for evidence in ones])[:, :1].ravel()
        also = _also(claim, metric, ones)
        if len(values):
            mean, interval = interval_of_mean(values)
            interval = interval if len(values) >= FEWEST else None
            verdict = verdict_of(interval, claim.bound, claim.below)
            if not _is_no_chance(claim, metric, ones[0], mean):
                verdict = "cannot be told"
            yield JudgedArm(arm=arm, seeds=len(values), value=mean, interval=interval, also=also, verdict=verdict)
        elif claim.name in UNTESTED and also is not None:
            yield JudgedArm(arm=arm, seeds=len(ones), value=None, interval=None, also=also, verdict="cannot be told")


def _of_several(claim: Claim, metric: str, asked: Mapping[str, Sequence[Evidence]]) -> Iterator[JudgedArm]:
    """Judge, in each arm, several numbers together that all have to lie above the bound."""
    rows = {name: _known([claim.value(evidence, metric) for evidence in ones]) for name, ones in asked.items()}
    rows = {name: numbers for name, numbers in rows.items() if numbers.size}
    enough = [name for name, numbers in rows.items() if len(numbers) >= FEWEST]
    judged = dict(zip(enough, every_layer([rows[name] for name in enough]), strict=True))
    for name, numbers in rows.items():
        layers, interval = judged.get(name), None
        verdict: Verdict = "cannot be told"
        if layers is not None and np.isfinite(layers.least).all():
            interval = layers.least
            verdict = "does not hold" if layers.deny(claim.bound) else verdict
            verdict = "holds" if layers.confirm(claim.bound) else verdict
        yield JudgedArm(
            arm=name,
            seeds=len(numbers),
            value=float(numbers.mean(0).min()),
            interval=interval,
            also=_also(claim, metric, asked[name]),
            verdict=verdict,
        )


def _is_no_chance(claim: Claim, metric: str, evidence: Evidence, mean: float) -> bool:
    """Return whether swapped seeds rule out chance for a number; True for numbers without swapped seeds."""
    ask = claim.chance_above if mean > claim.bound else claim.chance_below
    return ask is None or ((p := ask(evidence, metric)) is not None and p < LEVEL)


def _also(claim: Claim, metric: str, ones: Sequence[Evidence]) -> float | None:
    """The mean over seeds of the further number; of several, of that whose mean is the largest."""
    if claim.also is None:
        return None
    numbers = _known([claim.also(evidence, metric) for evidence in ones])
    return float(numbers.mean(0).max()) if numbers.size else None


def _known(values: Sequence[float | np.ndarray | None]) -> Float[np.ndarray, "seed number"]:
    """Return a row per seed that has any number, of the numbers that every such seed has."""
    rows = np.array([np.atleast_1d(value) for value in values if value is not None], dtype=float)
    if not rows.size:
        return np.empty((0, 0))
    rows = rows[np.isfinite(rows).any(1)]
    return rows[:, np.isfinite(rows).all(0)]


def verdict_of(interval: tuple[float, float] | None, bound: float, below: bool) -> Verdict:
    """Return whether an interval lies on one side of the bound; `below`: the side on which the statement holds."""
    if interval is None or interval[0] <= bound <= interval[1]:
        return "cannot be told"
    return "holds" if (interval[1] < bound) == below else "does not hold"


def overall_verdict(verdicts: Sequence[Verdict], *, together: bool = False) -> Verdict:
    """Return the verdict of all arms together: most must confirm a statement, a few are enough to contradict it.

    "A few" are as many as chance gives in fewer than 1 of 20 cases: 1 of 2 arms, 2 of 3 to 14 arms. Arms that were
    judged together need one.

    Examples:
        >>> overall_verdict(["holds", "holds", "cannot be told"])
        'holds'
        >>> overall_verdict(["holds", "does not hold"])
        'does not hold'
        >>> overall_verdict(["does not hold", *["cannot be told"] * 7])
        'cannot be told'
        >>> overall_verdict(["does not hold", *["cannot be told"] * 7], together=True)
        'does not hold'
        >>> overall_verdict(["does not hold", "does not hold", *["holds"] * 6])
        'does not hold'
    """
    from scipy.special import bdtrc

    against = verdicts.count("does not hold")
    if against and (together or bdtrc(against - 1, len(verdicts), LEVEL / 2) < LEVEL):
        return "does not hold"
    return "holds" if 2 * verdicts.count("holds") > len(verdicts) else "cannot be told"


def _regularisers(
    experiment: Experiment, control: str | None, comparisons: Sequence[Comparison]
) -> Iterator[JudgedStatement]:
    """Judge whether arms with a diversity regulariser beat arms without it by 1 % or more."""
    arms = {arm.full_name: arm for arm in experiment.arms}
    helped = [
        judged
        for c in comparisons
        if c.metric == _LOSS and c.control == control
        if regularised(arms[c.arm]) and not regularised(arms[c.baseline])
        for judged in _by_share(c, -HELPS, below=False)
    ]
    yield from _statement("regularisers-hardly-help", experiment, control, helped, metric=_LOSS, bound=-HELPS)


def _by_share(c: Comparison, bound: float, *, below: bool) -> Iterator[JudgedArm]:
    """Judge an arm by its loss relative to the baseline's, if that is known."""
    if c.share is not None:
        verdict = verdict_of(c.share_interval, bound, below)
        yield JudgedArm(
            arm=c.arm, seeds=c.n_pairs, value=c.share, interval=c.share_interval, also=None, verdict=verdict
        )


def _statement(
    name: str,
    experiment: Experiment,
    control: str | None,
    arms: Sequence[JudgedArm],
    *,
    metric: str,
    bound: float,
) -> Iterator[JudgedStatement]:
    """Yield the verdict of arms on a statement; none without arms."""
    if not arms:
        return
    says, short, evidence = STATEMENTS[name]
    overall = overall_verdict([arm.verdict for arm in arms])
    verdict = with_arms(arms, overall, titles_of(experiment))
    shares = span(100 * arm.value for arm in arms if arm.value is not None)
    yield JudgedStatement(
        name=name,
        says=says,
        short=short,
        control=control,
        metric=metric,
        as_published=False,
        bound=bound,
        verdict=overall,
        sentence=say("claim", says=says, verdict=verdict, evidence=capital(filled(evidence, value=shares))),
        arms=tuple(arms),
    )


def regularised(arm: Arm) -> bool:
    """Return whether an arm is trained with a regulariser of its heads."""
    return bool(arm.resolved_spec.content()["training"].get("regularizers"))


_BY_EFFECT = ("taylor", "ablation", "gates", "budget")
"""Methods that choose heads by what the loss does without them."""


def pruning_claims(
    experiment: Experiment, runs: Sequence[Run], comparisons: Sequence[Comparison]
) -> Iterator[JudgedStatement]:
    """Yield both halves of the statement, without a control and under each; nothing where no arm was pruned at once."""
    for control in dict.fromkeys(arm.control for arm in experiment.arms):
        pruned = {arm.full_name: _pruning(arm) for arm in experiment.arms if arm.control == control}
        prunings = {name: pruning for name, pruning in pruned.items() if pruning is not None}
        alike, late = list(_alike(prunings, comparisons)), list(_late(prunings, runs))
        yield from _statement("alike-heads-go-first", experiment, control, alike, metric=_LOSS, bound=0.0)
        yield from _statement("layer-0-goes-last", experiment, control, late, metric=_HEADS, bound=0.0)


def _start(arm: Arm) -> Start | None:
    """Return where an arm starts, if it is a model that is not trained further."""
    run = arm.resolved_spec
    return run.init_from if isinstance(run, TokensRun) and run.declared_steps == 0 else None


def _pruning(arm: Arm) -> StartPruning | None:
    start = _start(arm)
    return None if start is None else start.prune


def _alike(prunings: dict[str, StartPruning], comparisons: Sequence[Comparison]) -> Iterator[JudgedArm]:
    for c in comparisons:
        pruning, of_baseline = prunings.get(c.arm), prunings.get(c.baseline)
        if pruning is None or of_baseline is None or c.metric != _LOSS:
            continue
        if (pruning.by, of_baseline.by) == ("alike-either", "random") and pruning.keep == of_baseline.keep:
            yield from _by_share(c, 0.0, below=True)


def _late(prunings: dict[str, StartPruning], runs: Sequence[Run]) -> Iterator[JudgedArm]:
    for name, pruning in prunings.items():
        done = [run for run in runs if run.name == name and run.status == "done"]
        if pruning.by not in _BY_EFFECT or not done:
            continue
        values = [_first_less_late(run) for run in done]
        mean, interval = interval_of_mean(values)
        verdict = verdict_of(interval, 0.0, below=False)
        yield JudgedArm(arm=name, seeds=len(values), value=mean, interval=interval, also=None, verdict=verdict)


def _first_less_late(run: Run) -> float:
    """The share of layer 0's heads that stay, less that of the later half of the layers."""
    shares = np.array(heads_by_layer(run.trained)) / np.maximum(1, heads_by_layer(run.spec))
    return float(shares[0] - shares[len(shares) // 2 :].mean())


@dataclass(frozen=True, kw_only=True)
class PrunedAtOnce:
    """The heads that one arm lost, and its loss, against the same model with all of its heads.

    Attributes:
        arm: the full name of the arm.
        method: the method by which its heads were chosen.
        step: the step in the training of the whole model at which it was pruned.
        kept: the share of the heads that stay.
        rises: the rise of the loss, in nats per token, by seed.
        loss: the loss of the whole model, the mean over these seeds.
    """

    arm: str
    method: str
    step: int
    kept: float
    rises: Mapping[int, float]
    loss: float


Metrics = Mapping[int, Mapping[str, float]]
"""Final metrics of an arm, by seed."""


def pruned_at_once(
    arms: Sequence[Arm], finals: Mapping[str, Metrics], steps: Mapping[str, int]
) -> Iterator[PrunedAtOnce]:
    """Return each arm that was pruned and not trained, and that has a whole model to compare with.

    Args:
        arms: the arms of an experiment.
        finals: the final metrics of each arm, by full name; arms that did not finish are left out.
        steps: the number of training steps of each arm, by full name.
    """
    for arm in arms:
        start = _start(arm)
        if start is None or start.prune is None or arm.full_name not in finals:
            continue
        whole = _whole(arm, start, arms)
        if whole is None or whole.full_name not in finals or arm.parent is None:
            continue
        shared = finals[arm.full_name].keys() & finals[whole.full_name].keys()
        pairs = {seed: (finals[arm.full_name][seed], finals[whole.full_name][seed]) for seed in sorted(shared)}
        if pairs:
            small, large = next(iter(pairs.values()))
            yield PrunedAtOnce(
                arm=arm.full_name,
                method=start.prune.by,
                step=steps[arm.parent.full_name] if start.step == "last" else start.step,
                kept=small[_HEADS] / large[_HEADS],
                rises={seed: metrics[_LOSS] - of_whole[_LOSS] for seed, (metrics, of_whole) in pairs.items()},
                loss=sum(of_whole[_LOSS] for _, of_whole in pairs.values()) / len(pairs),
            )


def _whole(arm: Arm, start: Start, arms: Sequence[Arm]) -> Arm | None:
    """Return the arm of this step with all heads: the parent, or an arm that starts there and changes nothing."""
    if start.step == "last":
        return arm.parent
    for other in arms:
        plain = _start(other)
        if plain is None or (plain.run, plain.step) != (start.run, start.step):
            continue
        if plain.prune is None and not plain.regrow and plain.weights == "kept":
            return other
    return None
