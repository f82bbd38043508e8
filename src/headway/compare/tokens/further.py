"""Compare: what transformers say beside the comparison of arms: curves through them, and what heads did."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headway.compare.evidence import Comparison
from headway.compare.matches import title
from headway.compare.tokens.diversity_loss import LayerAssociation, ProbedRun, associations
from headway.compare.tokens.fits import Fit, Point, fits
from headway.compare.tokens.head_progress import head_progress
from headway.compare.tokens.judged_statements import JudgedStatement
from headway.compare.tokens.plain_curve import METRIC, SizeComparison, Sized, against_plain, is_plain
from headway.compare.tokens.schemes import layout_of, on_curves
from headway.declare.experiment import Arm, Experiment
from headway.declare.tokens.run import TokensRun
from headway.runs.folder import Run


def probed_heads(
    experiment: Experiment, runs: Sequence[Run], comparisons: Sequence[Comparison]
) -> tuple[tuple[LayerAssociation, ...], tuple[JudgedStatement, ...]]:
    """What the probes of finished runs say."""
    probed: dict[str, list[ProbedRun]] = {}
    for run in runs:
        progress = head_progress(run) if run.status == "done" else None
        if progress is not None:
            probed.setdefault(run.name, []).append(ProbedRun(run=run, progress=progress))
    found = tuple(associations(probed))
    if not experiment.statements:
        return found, ()
    from headway.compare.tokens.pruning_statements import pruning_claims
    from headway.compare.tokens.statement_verdicts import claims

    return found, (
        *claims(experiment, probed, found, comparisons),
        *pruning_claims(experiment, runs, comparisons),
    )


def head_fits(experiment: Experiment, runs: Sequence[Run]) -> Iterator[Fit]:
    """Loss against total heads, per scheme of layouts, and again under each control."""
    done: dict[str, list[Run]] = {}
    for run in runs:
        if run.status == "done":
            done.setdefault(run.name, []).append(run)
    for control in dict.fromkeys(arm.control for arm in experiment.arms):
        arms = on_curves(
            experiment, [arm for arm in experiment.arms if arm.control == control and arm.full_name in done]
        )
        yield from fits([_point(arm, done[arm.full_name]) for arm in arms], control)


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
    models = []
    for arm in (arm for arm in experiment.arms if arm.control == control):
        done = [run for run in runs if run.name == arm.full_name and run.status == "done"]
        sizes = {run.metrics["n_parameters"] for run in done if run.metrics.get("n_parameters") is not None}
        if isinstance(arm.template, TokensRun) and sizes:
            models.append(
                Sized(
                    name=arm.full_name,
                    title=title(arm, experiment),
                    plain=is_plain(arm.template.model),
                    n_parameters=max(sizes),
                    losses=_losses(done),
                )
            )
    return models


def _losses(runs: Sequence[Run]) -> dict[int, float]:
    losses = {run.seed: run.metrics.get("eval_loss_nats") for run in runs}
    return {seed: float(loss) for seed, loss in losses.items() if loss is not None}


def _point(arm: Arm, runs: Sequence[Run]) -> Point:
    layout = layout_of(arm)
    return Point(
        arm=arm.full_name,
        scheme=layout.scheme or "",
        total=layout.total,
        losses=_losses(runs),
    )
