"""Findings on transformers beside the comparison of arms: head probes, curves, and metrics without training.

* `probed_heads`: associations and published claims from probes; `head_fits` and `size_curve`: curves through arms;
* `text_baselines`: n-gram models, and the entropy of stories with a known grammar; `known_baselines`: the best possible
  metrics of a task with known answers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from headway.config.experiment import Experiment
from headway.config.lm.run import TokensRun
from headway.config.lm.task import SyntheticTask
from headway.config.metrics import METRICS
from headway.config.run import imported
from headway.stats.cells import done, runs_of_arms, title
from headway.stats.evidence import Comparison
from headway.stats.laboratory import ExtraResults, FindingsPart, References
from headway.stats.lm.claims import JudgedStatement
from headway.stats.lm.diversity import LayerAssociation, ProbedRun, associations, head_progress
from headway.stats.lm.plain_curve import METRIC, SizeComparison, Sized, against_plain, is_plain
from headway.stats.lm.scaling import Fit, Point, arms_on_curves, fits, layout_of
from headway.store.run import Run


def probed_heads(
    experiment: Experiment, runs: Sequence[Run], comparisons: Sequence[Comparison]
) -> tuple[tuple[LayerAssociation, ...], tuple[JudgedStatement, ...]]:
    """Return the associations and the judged claims from the probes of finished runs."""
    probed: dict[str, list[ProbedRun]] = {}
    for run in runs:
        progress = head_progress(run) if run.status == "done" else None
        if progress is not None:
            probed.setdefault(run.name, []).append(ProbedRun(run=run, progress=progress))
    related = tuple(associations(probed))
    if not experiment.statements:
        return related, ()
    from headway.stats.lm.claim_verdicts import claims, pruning_claims

    return related, (
        *claims(experiment, probed, related, comparisons),
        *pruning_claims(experiment, runs, comparisons),
    )


def head_fits(experiment: Experiment, runs: Sequence[Run]) -> Iterator[Fit]:
    """Loss against total heads, per scheme of layouts, and again under each control."""
    of_arms = runs_of_arms(runs)
    for control in dict.fromkeys(arm.control for arm in experiment.arms):
        trained = [arm for arm in experiment.arms if arm.control == control and done(arm, of_arms)]
        points = []
        for arm in arms_on_curves(experiment, trained):
            layout, losses = layout_of(arm), _losses(done(arm, of_arms))
            points.append(Point(arm=arm.full_name, scheme=layout.scheme or "", total=layout.total, losses=losses))
        yield from fits(points, control)


def size_curve(experiment: Experiment, runs: Sequence[Run]) -> tuple[SizeComparison, ...]:
    """Models with a lane or low ranks against the curve through the plain models, those under a control among them."""
    if experiment.primary != METRIC:
        return ()  # the losses are of different tokens
    controls = dict.fromkeys(arm.control for arm in experiment.arms)
    return tuple(
        replace(entry, control=control)
        for control in controls
        for entry in against_plain(_sized(experiment, runs, control))
    )


def _sized(experiment: Experiment, runs: Sequence[Run], control: str | None) -> list[Sized]:
    models, of_arms = [], runs_of_arms(runs)
    for arm in experiment.arms:
        if arm.control != control:
            continue
        trained = done(arm, of_arms)
        sizes = {run.metrics["n_parameters"] for run in trained if run.metrics.get("n_parameters") is not None}
        if isinstance(arm.resolved_spec, TokensRun) and sizes:
            models.append(
                Sized(
                    name=arm.full_name,
                    title=title(arm, experiment),
                    plain=is_plain(arm.resolved_spec.model),
                    n_parameters=max(sizes),
                    losses=_losses(trained),
                )
            )
    return models


def _losses(runs: Sequence[Run]) -> dict[int, float]:
    losses = {}
    for run in runs:
        loss = run.metrics.get("eval_loss_nats")
        if loss is not None:
            losses[run.seed] = float(loss)
    return losses


MEASURED = {"unigram": "unigram_loss_nats", "bigram": "bigram_loss_nats", "entropy": "entropy_nats"}
"""The references of models, and the metric of a run that holds each: all runs of a task measure equal values."""


def text_baselines(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """The unigram and bigram model and the entropy, as far as finished runs of a task report them."""
    values_of = {
        name: [run.metrics[metric] for run in runs if run.metrics.get(metric) is not None]
        for name, metric in MEASURED.items()
    }
    return {name: {"loss_nats": values[0]} for name, values in values_of.items() if values}


def known_baselines(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Return the best possible metrics among the arms' models, as far as theory tells, and chance."""
    best: dict[str, float] = {}
    for run in runs:
        for metric, value in run.spec.task.best_possible(run.spec.model).items():
            better = max if METRICS[metric].better == "higher" else min
            best[metric] = better(best.get(metric, value), value)
    tasks = (run.spec.task for run in runs)
    chance = next((task.by_chance() for task in tasks if isinstance(task, SyntheticTask)), None)
    return {
        **({"possible": best} if best else {}),
        **({"chance": {"accuracy": chance}} if chance is not None else {}),
    }


class TokensFindingsPart(FindingsPart):
    """Transformers on tokens."""

    def references(self, directory: Path, key: str, runs: Sequence[Run]) -> References:  # noqa: ARG002
        """Return the metrics without training, computed by the function that the task names."""
        spec = runs[0].spec
        assert isinstance(spec, TokensRun)
        return References(baselines=imported(spec.task.baselines)(runs))

    def extra(self, experiment: Experiment, runs: Sequence[Run], comparisons: Sequence[Comparison]) -> ExtraResults:
        """Return the curves, and the findings from the probes of finished runs."""
        associations, claims = probed_heads(experiment, runs, comparisons)
        return ExtraResults(
            fits=tuple(head_fits(experiment, runs)),
            plain_curve=size_curve(experiment, runs),
            associations=associations,
            claims=claims,
        )


LABORATORY = TokensFindingsPart()
