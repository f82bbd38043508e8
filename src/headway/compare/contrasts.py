"""Compare: what seeds say of contrasts: differences between arms, or means of arms, that are asked by name.

They are a family of their own, in the metric that arms are judged by, and again under each control.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from headway.compare.cells import Cells, RunsOfArm, Weights
from headway.compare.evidence import JudgedDifference, JudgedFamily, Kind
from headway.compare.families import Asked, judged
from headway.compare.looks import Looking
from headway.compare.matches import title
from headway.compare.notes import left_out, shortfall
from headway.compare.statistics import is_finite
from headway.compare.verdicts import verdict
from headway.declare.contrasts import Contrast
from headway.declare.experiment import Experiment
from headway.declare.metrics import METRICS
from headway.words import counted, listed


@dataclass(frozen=True, kw_only=True)
class JudgedContrast(JudgedDifference):
    """A contrast in one metric.

    Attributes:
        name: in the document.
        label: what it is called.
        values: by seed, as `estimate` has them.
        sentence: what they say.
        late: whether it was asked after an answer was seen, so that no plan has it.
    """

    of: ClassVar[Kind] = "contrasts"

    name: str
    label: str
    values: Mapping[int, float]
    sentence: str
    late: bool = False


def contrasts_judged(
    experiment: Experiment, runs: RunsOfArm, looks: Looking
) -> tuple[tuple[JudgedContrast, ...], tuple[JudgedFamily, ...]]:
    """Those of an experiment without a control, and under each control that has runs."""
    controls = dict.fromkeys(arm.control for arm in experiment.arms if arm.full_name in runs)
    found, families = list[JudgedContrast](), list[JudgedFamily]()
    for control in controls:
        contrasts = _asked(experiment, control, runs)
        late = [] if control is not None else [one for one in contrasts if _is_late(one, looks)]
        # What was asked after an answer was seen leaves the bounds of what was planned as they are.
        for together in ([one for one in contrasts if one not in late], late):
            if together:
                said, family = _under(experiment, control, together, runs, looks, is_late=together is late)
                found += said
                families += [family] if all(one.control != control for one in families) else []
    return tuple(found), tuple(families)


def _is_late(contrast: Contrast, looks: Looking) -> bool:
    """Whether a plan of looks was made without it."""
    return looks.asked is not None and dict(looks.asked.get(contrast.name, {})) != dict(contrast.weights)


def _asked(experiment: Experiment, control: str | None, runs: RunsOfArm) -> list[Contrast]:
    """Those that the document names, and of others those that all runs are asked for."""
    names = _names(experiment, control)
    named = bool(experiment.document.contrasts)
    return [one for one in experiment.contrasts if named or all(names[arm] in runs for arm in one.weights)]


def _names(experiment: Experiment, control: str | None) -> dict[str, str]:
    """The full names of arms under a control; an arm that it does not change is itself under it."""
    arms = [arm for arm in experiment.arms if arm.control == control]
    return {arm.name: arm.name if arm.idle else arm.full_name for arm in arms}


def _under(
    experiment: Experiment,
    control: str | None,
    contrasts: Sequence[Contrast],
    runs: RunsOfArm,
    looks: Looking,
    *,
    is_late: bool,
) -> tuple[list[JudgedContrast], JudgedFamily]:
    names = _names(experiment, control)
    weights = [{names[arm]: weight for arm, weight in one.weights.items()} for one in contrasts]
    cells = Cells.of((name for one in weights for name in one), experiment.primary, runs)
    asked = Asked(
        of="contrasts", metric=experiment.primary, control=control, differences=weights, cells=cells, runs=runs
    )
    family, evidence = judged(asked, experiment.verdicts, looks)
    return [
        JudgedContrast(
            **vars(found),
            name=one.name,
            label=one.label,
            values=_values(found, cells, weight),
            late=is_late,
            sentence=_sentence(found, family, one, _missing(one, weight, cells, runs, experiment), experiment, is_late),
        )
        for one, found, weight in zip(contrasts, evidence, weights, strict=True)
    ], family


def _values(found: JudgedDifference, cells: Cells, weights: Mapping[str, float]) -> dict[int, float]:
    """By seed, on the scale of the estimate."""
    if found.rule == "blocks":
        cells = cells.as_logarithms()
    first, second = cells.sides(weights)
    return {seed: first[seed] - second[seed] for seed in found.seeds}


def _sentence(
    found: JudgedDifference,
    family: JudgedFamily,
    contrast: Contrast,
    missing: Iterable[str],
    experiment: Experiment,
    is_late: bool,
) -> str:
    control, notes = found.control, [*(["asked after an answer was seen"] if is_late else []), *missing]
    metric, sides = METRICS[found.metric], sides_of(contrast, experiment)
    said = verdict(found, family, metric=metric, sides=sides, label=called(contrast, experiment), notes=notes)
    # A side that is a row of arms has no name of its own: the question has.
    if sides is not None and any(side.startswith("the mean of ") for side in sides):
        said = f"{contrast.name}: {said}"
    return said if control is None else f"under {experiment.control_label(control)}, {said}"


def _missing(
    contrast: Contrast, weights: Weights, cells: Cells, runs: RunsOfArm, experiment: Experiment
) -> Iterator[str]:
    """A clause for what a contrast lacks: arms without a finished run, values, and runs that gave no result."""
    if without := cells.without(weights):
        named = [title(experiment.arm(name), experiment) for name in without]
        which = listed(named) if len(named) < 4 else f"{len(named)} of its {counted(len(contrast.weights), 'arm')}"
        yield f"{which} {'has' if len(named) == 1 else 'have'} no finished run"
    of_arms = {arm: list(runs.get(arm, {}).values()) for arm in weights}
    done = [run for of_arm in of_arms.values() for run in of_arm if run.status == "done"]
    bad = {run.seed for run in done if not is_finite(run.metrics.get(experiment.primary, 0.0))}
    yield from left_out(sorted(bad))
    if len(weights) == 2:
        for arm, of_arm in of_arms.items():
            yield from shortfall(title(experiment.arm(arm), experiment), [run.status for run in of_arm])
    else:
        yield from shortfall("its arms", [run.status for of_arm in of_arms.values() for run in of_arm])


def sides_of(contrast: Contrast, experiment: Experiment) -> tuple[str, str] | None:
    """What a sentence calls the two sides: single arms as other sentences do, also where a side is a row of them."""
    if contrast.sides is None:
        return None
    arms = (list(contrast.first), list(contrast.second))
    first, second = (_side(side, of, experiment) for side, of in zip(contrast.sides, arms, strict=True))
    return first, second


def _side(side: str, arms: Sequence[str], experiment: Experiment) -> str:
    titles = [title(experiment.arm(arm), experiment) for arm in arms]
    if len(arms) == 1:
        return titles[0]
    return f"the mean of {listed(titles)}" if side == listed(arms) else side


def called(contrast: Contrast, experiment: Experiment) -> str:
    """A contrast that has no sides by its name and what it asks.

    Examples:
        >>> from headway.declare.loading import load
        >>> experiment = load("icl-heads", settings=["contrasts={curve: {h1: 1, h2: -1.5, h4: 0.5}}"])
        >>> called(experiment.contrasts[0], experiment)
        'curve (1 head − 1.5 x 2 heads + 0.5 x 4 heads)'
    """
    if len(contrast.weights) > _TOLD:
        return f"{contrast.label} (a weighted sum of {len(contrast.weights)} arms)"
    said = ""
    for arm, weight in contrast.weights.items():
        sign = (" − " if weight < 0 else " + ") if said else ("−" if weight < 0 else "")
        factor = "" if abs(weight) == 1 else f"{abs(weight):.3g} x "
        said += f"{sign}{factor}{title(experiment.arm(arm), experiment)}"
    return f"{contrast.label} ({said})"


_TOLD = 6
"""Arms of a weighted sum that are told one by one."""
