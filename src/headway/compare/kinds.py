"""Compare: what of `results.json` depends on the laboratory, in one table."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.compare import references
from headway.compare.diversity_loss import ProbedRun, associations
from headway.compare.fits import Point, fits
from headway.compare.head_progress import head_progress
from headway.compare.matches import title
from headway.compare.plain_curve import Sized, against_plain, is_plain
from headway.compare.schemes import layout_of, on_curves, scheme_of
from headway.compare.statistics import Comparison
from headway.compare.xray_claims import claims
from headway.declare.experiment import Arm, Experiment
from headway.declare.metrics import PRIMARY
from headway.declare.run import RUN_KINDS, RunSpec, TextRun
from headway.lab.run import Run


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A laboratory, as far as its results are derived otherwise than another's."""

    references: Callable[[Path, str, Sequence[Run]], Any]
    """What needs no training on the task of some runs: the directory, the task's digest, its finished runs."""
    fits: Callable[[Experiment, Sequence[Run]], Iterable[dict[str, Any]]]
    """The curves through the arms."""
    plain_curve: Callable[[Experiment, Sequence[Run]], list[dict[str, Any]]]
    """Where models that save parameters lie against plain ones of their size."""
    heads: Callable[[Experiment, Sequence[Run], Sequence[Comparison]], dict[str, list[dict[str, Any]]]]
    """`associations` of the loss with the diversity of heads, and the `claims` that are judged by the probes."""


def kind_of(spec: RunSpec) -> Kind:
    """The laboratory that a run belongs to."""
    return _KINDS[type(spec)]


def _no_heads(
    experiment: Experiment,  # noqa: ARG001
    runs: Sequence[Run],  # noqa: ARG001
    comparisons: Sequence[Comparison],  # noqa: ARG001
) -> dict[str, list[dict[str, Any]]]:
    return {"associations": [], "claims": []}


def probed_heads(
    experiment: Experiment, runs: Sequence[Run], comparisons: Sequence[Comparison]
) -> dict[str, list[dict[str, Any]]]:
    """What the probes of finished runs say."""
    probed: dict[str, list[ProbedRun]] = {}
    for run in runs:
        progress = head_progress(run) if run.status == "done" else None
        if progress is not None:
            probed.setdefault(run.name, []).append(ProbedRun(run=run, progress=progress))
    found = list(associations(probed))
    return {"associations": found, "claims": list(claims(experiment, probed, found, comparisons))}


def _none(experiment: Experiment, runs: Sequence[Run]) -> list[dict[str, Any]]:  # noqa: ARG001
    return []


def head_fits(experiment: Experiment, runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
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


def size_curve(experiment: Experiment, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Models with a lane or low ranks against the curve through the plain models, those under a control among them."""
    controls = dict.fromkeys(arm.control for arm in experiment.arms)
    return [
        {**entry, "control": control}
        for control in controls
        for entry in against_plain(_sized(experiment, runs, control))
    ]


def _sized(experiment: Experiment, runs: Sequence[Run], control: str | None) -> list[Sized]:
    models = []
    for arm in (arm for arm in experiment.arms if arm.control == control):
        done = [run for run in runs if run.name == arm.full_name and run.status == "done"]
        sizes = {run.metrics["n_parameters"] for run in done if run.metrics.get("n_parameters") is not None}
        if isinstance(arm.template, TextRun) and sizes:
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
    losses = {run.seed: run.metrics.get(PRIMARY["text"]) for run in runs}
    return {seed: float(loss) for seed, loss in losses.items() if loss is not None}


def _point(arm: Arm, runs: Sequence[Run]) -> Point:
    layout = layout_of(arm)
    return Point(
        arm=arm.full_name,
        scheme=scheme_of(layout) or "",
        total=layout.total,
        losses=_losses(runs),
    )


_KINDS: Mapping[type[RunSpec], Kind] = {
    RUN_KINDS["regression"]: Kind(references=references.of_regression, fits=_none, plain_curve=_none, heads=_no_heads),
    RUN_KINDS["text"]: Kind(references=references.of_text, fits=head_fits, plain_curve=size_curve, heads=probed_heads),
}
