"""Compare: which arm is compared with which, read off what an experiment declares."""

import re
from dataclasses import dataclass

from headway.declare.experiment import Arm, Experiment

_LAYOUT = re.compile(r"[0-9:x+]+(-[0-9:x+]+)+")
"""The text of a head layout, such as 24-12-6-3."""


@dataclass(frozen=True, kw_only=True)
class Match:
    """An arm and what it is compared with."""

    arm: Arm
    baseline: Arm
    control: str | None
    group: str | None

    @property
    def other_texts(self) -> bool:
        """Whether the two predict tokens of different tokenizers or corpora."""
        return not self.arm.template.has_units_of(self.baseline.template)

    def no_merit(self, metric: str) -> str:
        """Why a difference between the two is no merit of either, in a sentence; empty where it is one."""
        return self.arm.template.no_merit(self.baseline.template, metric)


def matches_of(experiment: Experiment) -> tuple[Match, ...]:
    """What is compared with what, of everything that an experiment declares.

    Each arm with its group's baseline; across groups each with the experiment's baseline, unless a group holds them
    both, or, where the experiment has none, the baselines of the groups with that of the first, if they do the same
    task; the same again within each control; and each arm under a control with itself without it.
    """
    names = tuple(dict.fromkeys(arm.name for arm in experiment.arms))
    pairs: list[tuple[str, str, str | None]] = [
        (name, group.baseline, key) for key, group in experiment.groups.items() for name in group.arms
    ]
    if experiment.baseline is not None:
        together = {name for g in experiment.groups.values() if experiment.baseline in g.arms for name in g.arms}
        pairs += [(name, experiment.baseline, None) for name in names if name not in together]
    else:
        first, *others = dict.fromkeys(group.baseline for group in experiment.groups.values()) or [""]
        # Nobody asked for these: where they would say nothing of merit, they are not made.
        asked = {arm.name: arm.template for arm in experiment.arms if arm.control is None}
        primary = experiment.primary
        pairs += [(name, first, None) for name in others if not asked[name].no_merit(asked[first], primary)]
    arms = {(arm.name, arm.control): arm for arm in experiment.arms}
    # An arm that a control does not change is itself under that control.
    arms |= {place: arms[place[0], None] for place, arm in arms.items() if arm.idle}
    matches = []
    for control in dict.fromkeys(arm.control for arm in experiment.arms):
        changed = {name for name in names if arms[name, control].control == control}
        if control is not None:
            matches += [
                Match(arm=arms[name, control], baseline=arms[name, None], control=control, group=None)
                for name in names
                if name in changed
            ]
        matches += [
            Match(arm=arms[name, control], baseline=arms[baseline, control], control=control, group=group)
            for name, baseline, group in pairs
            if name != baseline and {name, baseline} & changed
        ]
    return tuple(matches)


def title(arm: Arm, experiment: Experiment) -> str:
    """What a sentence calls an arm: its label, with its name where the label is a mere layout.

    Examples:
        >>> from headway.declare.loading import load
        >>> experiment = load("icl-heads", settings=["arms.h2.label=8-4"])
        >>> [title(arm, experiment) for arm in experiment.arms[:2]]
        ['1 head', 'h2 (8-4)']
    """
    label = experiment.arm(arm.name).label
    if not _LAYOUT.fullmatch(label):
        return arm.label
    return f"{arm.name} ({label}){arm.label.removeprefix(label)}"
