"""Compare: the published statement on what pruning can take, judged by models that were pruned and not trained.

Paper: X-raying heads (article, May 2024): alike late heads are the first that pruning can take, layer 0's the last. It
was not tried there. It has two halves. Whether alike heads can go is told by the loss of models that lost one of the
most alike two, drawn, against those that lost as many at random: the one of the two that adds less would go for its
size, not for its likeness. Whether layer 0's are the last is told by where heads went
that were chosen by what they do to the loss.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from headway.compare.evidence import Comparison
from headway.compare.matches import title
from headway.compare.statistics import interval_of_mean
from headway.compare.tokens.judged_statements import JudgedArm, JudgedStatement, where
from headway.compare.tokens.statement_verdicts import overall_verdict, verdict_of
from headway.declare.experiment import Arm, Experiment
from headway.declare.tokens.run import TokensRun
from headway.declare.tokens.start import StartPruning
from headway.runs.folder import Run
from headway.words import span

_ALIKE = "Alike heads are the first that pruning can take"
_LATE = "Late heads are the first that pruning can take, layer 0's the last"
_BY_EFFECT = ("taylor", "ablation", "gates", "budget")
"""Methods that choose heads by what the loss does without them."""


def pruning_claims(
    experiment: Experiment, runs: Sequence[Run], comparisons: Sequence[Comparison]
) -> Iterator[JudgedStatement]:
    """Both halves of the statement, without a control and under each; nothing where no arm was pruned at once."""
    for control in dict.fromkeys(arm.control for arm in experiment.arms):
        pruned = {
            arm.full_name: (arm, found)
            for arm in experiment.arms
            if arm.control == control and (found := _pruning(arm)) is not None
        }
        titles = {name: title(arm, experiment) for name, (arm, _) in pruned.items()}
        prunings = {name: found for name, (_, found) in pruned.items()}
        if alike := list(_alike(prunings, comparisons)):
            said = f"against as many random heads the loss changes by {_percent(alike)} %"
            yield _judged("alike-heads-go-first", _ALIKE, "alike heads go first", control, alike, titles, said)
        if late := list(_late(prunings, runs)):
            said = (
                "of the heads that stay, chosen by what they do to the loss, the share of layer 0 less that of the "
                f"later half of the layers is {_percent(late)} points"
            )
            yield _judged("layer-0-goes-last", _LATE, "layer 0's heads go last", control, late, titles, said)


def _pruning(arm: Arm) -> StartPruning | None:
    run = arm.template
    if not isinstance(run, TokensRun) or run.start is None or run.declared_steps != 0:
        return None
    return run.start.prune


def _alike(prunings: dict[str, StartPruning], comparisons: Sequence[Comparison]) -> Iterator[JudgedArm]:
    for c in comparisons:
        one, other = prunings.get(c.arm), prunings.get(c.baseline)
        if one is None or other is None or c.metric != "eval_loss_nats" or (share := c.share) is None:
            continue
        if (one.by, other.by) == ("alike-either", "random") and one.keep == other.keep:
            verdict = verdict_of(c.share_interval, 0.0, below=True)
            yield JudgedArm(
                arm=c.arm, seeds=c.n_pairs, value=share, interval=c.share_interval, also=None, verdict=verdict
            )


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
    whole, left = run.spec, run.trained
    assert isinstance(whole, TokensRun)
    assert isinstance(left, TokensRun)
    shares = np.array(left.model.layout.n_heads) / np.maximum(1, whole.model.layout.n_heads)
    return float(shares[0] - shares[len(shares) // 2 :].mean())


def _judged(
    name: str,
    says: str,
    short: str,
    control: str | None,
    arms: Sequence[JudgedArm],
    titles: dict[str, str],
    said: str,
) -> JudgedStatement:
    overall = overall_verdict([arm.verdict for arm in arms])
    return JudgedStatement(
        name=name,
        says=says,
        short=short,
        control=control,
        metric="eval_loss_nats" if name.startswith("alike") else "total_heads",
        as_published=False,
        bound=0.0,
        verdict=overall,
        sentence=f"{says}: {overall}{where(arms, titles)}; by arm, {said}",
        arms=tuple(arms),
    )


def _percent(arms: Sequence[JudgedArm]) -> str:
    return span(100 * arm.value for arm in arms if arm.value is not None)
