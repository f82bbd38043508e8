"""Show: what each arm is called and looks like, in every figure, whatever has finished.

Where an experiment compares schemes of head layouts in groups, a colour is a scheme and a dash and shape a group, so
that what belongs together is seen together; otherwise every arm has a colour of its own.
"""

from dataclasses import dataclass

from headway.compare.matches import title
from headway.declare.experiment import Arm, Experiment
from headway.declare.laboratories import part_of
from headway.show.shared.theme import GROUP_DASHES, GROUP_SHAPES, NO_GROUP_DASH, SCHEME_COLOURS, SOLID, arm_colour


@dataclass(frozen=True, kw_only=True)
class ArmStyle:
    """How an arm is named and drawn. `point` is its short name beside a point; `scheme` is None where none counts."""

    label: str
    point: str
    colour: str
    dash: tuple[float, ...] = SOLID
    shape: str = "circle"
    scheme: str | None = None


def looks(experiment: Experiment) -> dict[str, ArmStyle]:
    """How every arm that an experiment declares looks, by its full name, in the order of figures."""
    # Arms without a control come first, so that a control never changes their colours.
    arms = sorted(experiment.arms, key=lambda arm: arm.control is not None)
    titles = [title(arm, experiment) for arm in arms]
    labels = [name if titles.count(name) == 1 else arm.full_name for arm, name in zip(arms, titles, strict=True)]
    by_scheme = _by_scheme(experiment)
    # Where each control has figures of its own, an arm keeps its colour under it.
    own_figures = part_of(experiment.arms[0].template, "show").controls_apart
    declared = list(experiment.document.arms)
    places = [declared.index(arm.name) if own_figures else at for at, arm in enumerate(arms)]
    return {
        arm.full_name: ArmStyle(
            label=label,
            point=arm.label,
            **(_scheme_look(arm, experiment) if by_scheme else {"colour": arm_colour(place)}),
        )
        for arm, label, place in zip(arms, labels, places, strict=True)
    }


def _by_scheme(experiment: Experiment) -> bool:
    # Heads that an arm has left of another's are no scheme that somebody chose.
    started = any(arm.parent is not None for arm in experiment.arms)
    schemes = {arm.template.scheme for arm in experiment.arms if arm.group is not None}
    return len(schemes) > 1 and not started


def _scheme_look(arm: Arm, experiment: Experiment) -> dict[str, object]:
    scheme = arm.template.scheme
    if arm.group is None:
        return {"colour": SCHEME_COLOURS[scheme], "scheme": scheme, "dash": NO_GROUP_DASH, "shape": "diamond"}
    at = list(experiment.groups).index(arm.group)
    return {
        "colour": SCHEME_COLOURS[scheme],
        "scheme": scheme,
        "dash": GROUP_DASHES[at % len(GROUP_DASHES)],
        "shape": GROUP_SHAPES[at % len(GROUP_SHAPES)],
    }
