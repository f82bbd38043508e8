"""Experiments: arms crossed with controls, the runs that a user asks for, and which arms are compared.

A declared baseline that is among the arms stays the baseline, of the experiment and of each group. In place of an
absent one, a group takes the experiment's baseline, or else the arm that was named first. Contrasts of two sides lose
the arms that are absent. If that compares nothing, all arms are compared with the first. So any two arms that a user
chooses are compared, and which with which is known before training.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

from headway.base.identity import without
from headway.base.text import listed
from headway.config.arms import Arm, steps_of
from headway.config.contrasts import Contrast, asks_the_same, contrasts_of, scheme_contrasts
from headway.config.document import (
    Document,
    Group,
    Logging,
    all_seeds,
    check_effect,
    controls_of,
    ignored_by_controls,
    names_of,
)
from headway.config.plugins import Plugin
from headway.config.run import PER_BYTE, RunSpec
from headway.config.yaml import differing, leaves, read_plain, shipped, write_yaml
from headway.errors import DeclarationError, near

NOT_COMPARED = (
    "about",
    "question",
    "published",
    "seeds",
    "logging",
    "contrasts",
    "statements",
)
"""Keys of a document that change neither runs nor verdicts on two arms."""

Pair = tuple[str, str, str | None]
"""An arm, the arm that it is compared with, and the group in which that is its baseline; None across groups."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The comparisons of some arms of a document.

    Attributes:
        arms: the names of the arms, in the order in which they were named.
        baseline: the arm that the others are compared with; None if only groups and contrasts compare arms.
        groups: the groups that have an arm here, with these arms alone.
        pairs: the comparisons of two arms.
        contrasts: the contrasts whose arms are here.
        absent: the contrasts of the document that lack an arm.
        notes: sentences on baselines that were chosen and on contrasts that are left out.
    """

    arms: tuple[str, ...]
    baseline: str | None
    groups: Mapping[str, Group]
    pairs: tuple[Pair, ...]
    contrasts: tuple[Contrast, ...]
    absent: tuple[Contrast, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A resolved experiment: every arm, crossed with every control, and the seeds that are asked for.

    `arms` are all arms of the document. `selected` are the arms to be run, and `crossed` the controls that were asked
    for. `settings` are merged in already. `only` lists the runs that are asked for, by arm and seed, if these are not
    every selected arm with every seed. `named` lists arms by full name in the order in which a user named them. Those
    that are not selected have runs in the results directory, and are compared with the selected ones. `removed_keys`
    are the keys of a stored document that only former versions read. `code` are the files of training commands, by the
    names under which a directory keeps them; None if the document is that of a results directory.
    """

    document: Document
    arms: tuple[Arm, ...]
    selected: tuple[Arm, ...]
    seeds: tuple[int, ...]
    settings: tuple[str, ...] = ()
    crossed: tuple[str, ...] = ()
    plugins: tuple[Plugin, ...] = ()
    code: Mapping[str, bytes] | None = field(default=None, repr=False)
    only: frozenset[tuple[str, int]] | None = None
    named: tuple[str, ...] = ()
    removed_keys: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the experiment."""
        return self.document.name

    @property
    def question(self) -> str:
        """The question that the experiment answers."""
        return self.document.question

    @property
    def scale(self) -> str | None:
        """The scale that the experiment was resolved for."""
        return self.document.scale

    @property
    def baseline(self) -> str | None:
        """The arm that the others are compared with: the declared one, or else the first arm that was named."""
        return self.compared().baseline

    @property
    def groups(self) -> Mapping[str, Group]:
        """Arms that are compared among themselves, as far as they are selected."""
        return self.compared().groups

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """The contrasts of the selected arms: the document's, or those that its groups imply by their schemes."""
        return self.compared().contrasts

    def compared(self, control: str | None = None) -> Compared:
        """Return what is compared among the selected arms, or among those under a control."""
        return self._compared(control)

    @cached_property
    def _compared(self) -> Callable[[str | None], Compared]:
        return cache(self._compared_under)

    def _compared_under(self, control: str | None) -> Compared:
        order = dict.fromkeys([*self.named, *(arm.full_name for arm in self.selected)])
        # An arm that a control does not change is itself under the control.
        under = {a.name if a.is_no_op else a.full_name: a.name for a in self.arms if a.control == control}
        specs = {arm.name: arm.resolved_spec for arm in self.arms if arm.control is None}
        named = [under[name] for name in order if name in under]
        return compared_among(named, self.document, specs, self.primary)

    def beside(self, names: Iterable[str]) -> "Experiment":
        """Return this experiment as it is compared in a directory that has arms already.

        Args:
            names: the full names of these arms, in the order in which they were named.
        """
        known = {arm.full_name for arm in self.arms}
        named = dict.fromkeys([*names, *self.named, *(arm.full_name for arm in self.selected)])
        return replace(self, named=tuple(name for name in named if name in known))

    def among(self, names: Sequence[str]) -> "Experiment":
        """Return this experiment with some arms selected; the experiment as it is, if none of them is one of its arms.

        Args:
            names: the full names of the arms, in the order in which they were named.
        """
        here = frozenset(names)
        selected = tuple(arm for arm in self.arms if arm.full_name in here)
        crossed = tuple(dict.fromkeys(arm.control for arm in selected if arm.control is not None))
        return replace(self, selected=selected, crossed=crossed, named=tuple(names)) if selected else self

    def check_compared(self) -> None:
        """Raise DeclarationError if a setting of what is compared needs an arm that is not selected.

        Raises:
            DeclarationError: if the setting needs a baseline or a contrast whose arm is not selected; the selected arms
                are named.
        """
        compared = self.compared()
        for path, _, text in (setting.partition("=") for setting in self.settings):
            needed = dict.fromkeys(_needed_by(path, text, compared, self.document))
            absent = [arm for arm in needed if arm not in compared.arms]
            if absent:
                raise DeclarationError(
                    f"setting {path} needs {listed(absent)}, and the chosen arms are {listed(compared.arms)}; choose "
                    "more arms, or leave the setting out"
                )

    @property
    def margin(self) -> float:
        """The equivalence margin in per cent: a difference that is certainly smaller counts as equality."""
        return self.document.margin

    @property
    def logging(self) -> Logging:
        """The logging settings of runs, and the steps at which they keep their weights."""
        return self.document.logging

    @cached_property
    def primary(self) -> str:
        """The metric by which arms are compared."""
        runs = [arm.resolved_spec for arm in self.arms]
        # Nats per token of different tokens or texts are different units.
        return PER_BYTE if len({run.comparability.units for run in runs}) > 1 else runs[0].task.primary

    @property
    def statements(self) -> bool:
        """True if published claims about heads are evaluated.

        Older documents have no such key: they are treated as the shipped experiment of their name is.
        """
        if "statements" in self.document.model_fields_set or self.name not in shipped():
            return self.document.statements
        # One line of a shipped file is read; parsing the whole file takes 30 ms.
        return "\nstatements: true\n" in shipped()[self.name].read_text(encoding="utf-8")

    @property
    def directory(self) -> Path:
        """The default results directory: `results/NAME-SCALE`."""
        return Path("results") / (f"{self.name}-{self.scale}" if self.scale else self.name)

    @cached_property
    def runs(self) -> tuple[tuple[Arm, int], ...]:
        """The (arm, seed) pairs to be run, seed by seed, so that early results are pairs.

        Raises:
            DeclarationError: if a setting would have no effect in a selected arm.
        """
        self.check_settings()
        pairs = ((arm, seed) for seed in self.seeds for arm in self.selected)
        return tuple((arm, seed) for arm, seed in pairs if self.only is None or (arm.full_name, seed) in self.only)

    @property
    def ignored_settings(self) -> list[str]:
        """A sentence for each setting that does not reach a control that is to be run."""
        asked = dict.fromkeys(arm.control for arm in self.selected if arm.control is not None)
        controls = {name: self.document.controls[name] for name in asked}
        return list(ignored_by_controls(self.settings, vars(self.document), controls))

    def control_label(self, control: str | None) -> str:
        """Return the label of a control in figures and sentences, or `no control`."""
        return "no control" if control is None else self.document.control_label(control)

    @staticmethod
    def with_ancestors(runs: Iterable[tuple[Arm, int]]) -> tuple[tuple[Arm, int], ...]:
        """Return runs of arms, each preceded by the runs of its seed that it starts from."""
        line: dict[tuple[str, int], tuple[Arm, int]] = {}
        for arm, seed in runs:
            for each in (*arm.ancestors, arm):
                line.setdefault((each.full_name, seed), (each, seed))
        return tuple(line.values())

    def kept_weights(self, arm: Arm) -> tuple[int, ...]:
        """Return the steps at which runs of an arm keep weights, because other arms start there or a user asked.

        First weights that other arms need are kept only by runs that start from others: all other first weights can be
        drawn again.
        """
        needed = self._needed_steps.get(arm.full_name, set())
        asked = steps_of(self.logging.weights, arm.resolved_spec.declared_steps)
        return tuple(sorted({*asked, *(needed - ({0} if arm.parent is None else set()))}))

    @cached_property
    def _needed_steps(self) -> dict[str, set[int]]:
        """The steps of each arm at which other arms start."""
        steps: dict[str, set[int]] = {}
        for arm in self.arms:
            start = arm.resolved_spec.initial_run
            if arm.parent is not None and start is not None:
                steps.setdefault(arm.parent.full_name, set()).update(start.required_checkpoints)
        return steps

    def check_settings(self) -> None:
        """Raise DeclarationError if a setting has no effect in an arm that is to be run.

        Raises:
            DeclarationError: when one has not, because an arm overrides it, with what would set it there.
        """
        arms = {arm.name: self.document.arms[arm.name] for arm in self.selected}
        check_effect(self.settings, vars(self.document), arms)

    @property
    def no_op_controls(self) -> list[str]:
        """A sentence for each requested control that changes nothing in some of the selected arms."""
        names = {arm.name for arm in self.selected}
        return [
            f"control {control} changes nothing in {', '.join(arms)}, so nothing is run under it there"
            for control in self.crossed
            if (arms := [a.name for a in self.arms if a.control == control and a.is_no_op and a.name in names])
        ]

    @property
    def control_runs_note(self) -> str:
        """A sentence with the number of runs, if controls more than double it; else empty."""
        plain = sum(arm.control is None for arm in self.selected) * len(self.seeds)
        if len(self.runs) <= 2 * plain:
            return ""
        under = f"{len(self.runs) - plain:,} under {listed(self.crossed)}"
        return f"{len(self.runs):,} runs are asked for: {plain:,} without a control and {under}"

    unheard = property(attrgetter("ignored_settings"), doc="The former name of `ignored_settings`.")
    idle = property(attrgetter("no_op_controls"), doc="The former name of `no_op_controls`.")
    multiplied = property(attrgetter("control_runs_note"), doc="The former name of `control_runs_note`.")

    def arm(self, full_name: str) -> Arm:
        """Return the arm of a name, `ARM` or `ARM+CONTROL`.

        Raises:
            DeclarationError: when there is none, with near names.
        """
        for arm in self.arms:
            if arm.full_name == full_name:
                return arm
        raise DeclarationError(f"there is no arm {full_name!r}; {near(full_name, [a.full_name for a in self.arms])}")

    def select(
        self,
        *,
        arms: str | Sequence[str] | None = None,
        controls: str | Sequence[str] | None = None,
        seeds: int | Sequence[int] | None = None,
    ) -> "Experiment":
        """Return this experiment with other arms, controls and seeds to be run.

        Args:
            arms: names of arms, or a single one.
            controls: controls that cross the arms, beside the arms without a control, or a single one; one with a `*`
                stands for all that fit, and `learning-rates`, where there is none of the name, for
                `learning-rates-*`. Arms in which a control changes nothing are not run under it.
            seeds: the number of seeds (0 to N - 1), or the seeds themselves.

        What is None stays as it is; at first that is all arms, no control and the document's seeds.

        Raises:
            DeclarationError: if an arm or a control is unknown (similar names are given); if no seed is named; if a
                setting would have no effect in a named arm.
        """
        named = self.named if arms is None else names_of("arm", arms, self.document.arms)
        names = {arm.name for arm in self.selected} if arms is None else set(named)
        # An arm brings along those that it starts from.
        names |= {parent.name for arm in self.arms if arm.name in names for parent in arm.ancestors}
        if not names:
            raise DeclarationError(f"no arm was chosen, so there is nothing to run; {near('', self.document.arms)}")
        crossed = self.crossed if controls is None else controls_of(controls, tuple(self.document.controls))
        chosen = tuple(
            arm
            for arm in self.arms
            if arm.name in names and (arm.control is None or (arm.control in crossed and not arm.is_no_op))
        )
        seeds_now = self.seeds if seeds is None else all_seeds(seeds)
        only = self.only if (arms, controls, seeds) == (None, None, None) else None
        selected = replace(self, selected=chosen, seeds=seeds_now, crossed=crossed, only=only, named=named)
        if arms is not None:
            selected.check_settings()
        return selected

    def dump(self, *, as_given: bool = False) -> str:
        """Return the resolved document as YAML.

        `read_resolved` reads the text back. `as_given` names plugins as they were given, for users, whose files `load`
        reads.
        """
        plugins = {"plugins": [plugin.given for plugin in self.plugins]} if as_given and self.plugins else {}
        return write_yaml({**self.plain(), **plugins})

    def plain(self) -> dict[str, Any]:
        """Return the resolved document as plain mappings."""
        return self.document.model_dump(mode="json", exclude_unset=True)

    def differences(self, other: "Experiment") -> list[str]:
        """Return the dotted keys in which two documents differ, as far as results depend on them."""
        mine, theirs = (leaves(without(each.plain(), *NOT_COMPARED)) for each in (self, other))
        return differing(mine, theirs)


def compared_among(
    arms: Sequence[str],
    document: Document,
    specs: Mapping[str, RunSpec],
    primary: str,
) -> Compared:
    """Return what is compared among some arms of a document.

    Args:
        arms: the names of the arms, in the order in which they were named.
        document: the document, which may declare other arms too.
        specs: a run of each arm, by the arm's name.
        primary: the metric by which arms are compared.
    """
    here = frozenset(arms)
    groups = _groups_among(arms, document)
    is_declared_here = document.baseline is None or document.baseline in here
    baseline = document.baseline if is_declared_here or not arms else arms[0]
    pairs: list[Pair] = [(arm, group.baseline, name) for name, group in groups.items() for arm in group.arms]
    if baseline is not None:
        neighbours = {arm for group in groups.values() if baseline in group.arms for arm in group.arms}
        pairs += [(arm, baseline, None) for arm in document.arms if arm in here and arm not in neighbours]
    else:
        first, *others = dict.fromkeys(group.baseline for group in groups.values()) or [""]
        for arm in others:
            # Nobody asked for these: where they would say nothing of merit, they are not made.
            if not specs[arm].comparability.incomparable_reason(specs[first].comparability, primary):
                pairs.append((arm, first, None))
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    contrasts, absent = _contrasts_among(arms, document, groups, specs, pairs)
    if not pairs and not contrasts and len(arms) > 1:
        baseline = arms[0]
        pairs = [(arm, baseline, None) for arm in arms[1:]]
    return Compared(
        arms=tuple(arms),
        baseline=baseline,
        groups=groups,
        pairs=tuple(pairs),
        contrasts=tuple(contrasts),
        absent=tuple(absent),
        notes=tuple(_notes(document, pairs, absent)),
    )


def _groups_among(arms: Sequence[str], document: Document) -> dict[str, Group]:
    """Return the groups that have one of these arms, each with its declared baseline or another of its arms."""
    groups, place = {}, {arm: at for at, arm in enumerate(arms)}
    for name, group in document.groups.items():
        members = tuple(arm for arm in group.arms if arm in place)
        named = sorted(members, key=place.__getitem__)
        declared = [arm for arm in (group.baseline, document.baseline) if arm in members]
        if members:
            groups[name] = Group(arms=members, baseline=(declared or named)[0])
    return groups


def _contrasts_among(
    arms: Sequence[str],
    document: Document,
    groups: Mapping[str, Group],
    specs: Mapping[str, RunSpec],
    pairs: Sequence[Pair],
) -> tuple[list[Contrast], list[Contrast]]:
    """Return the contrasts of the arms that are here, and the declared contrasts that lack an arm.

    Without declared contrasts, they are those that the groups imply by their schemes.
    """
    declared = document.contrasts
    if not declared:
        declared = scheme_contrasts([[(arm, specs[arm].scheme) for arm in group.arms] for group in groups.values()])
    kept, absent = list[Contrast](), list[Contrast]()
    twice = {frozenset(pair[:2]) for pair in pairs}
    here = frozenset(arms)
    for contrast in contrasts_of(declared, document.arms):
        left = contrast.among(here)
        if left is None:
            absent.append(contrast)
        elif left is contrast:
            kept.append(contrast)
        # What is left of a contrast may be a comparison that is made anyway.
        elif frozenset(left.weights) not in twice and not any(asks_the_same(left, other) for other in kept):
            kept.append(left)
    return kept, absent


def _notes(document: Document, pairs: Sequence[Pair], absent: Sequence[Contrast]) -> Iterator[str]:
    """Yield sentences on the baselines that stand in for declared ones, and on the contrasts that are left out."""
    chosen: dict[str, str | None] = {}
    for _, baseline, name in pairs:
        declared = document.baseline if name is None else document.groups[name].baseline
        if baseline != declared and (name is not None or document.baseline is not None or not document.groups):
            chosen.setdefault(baseline, declared)
    for baseline, declared in chosen.items():
        why = "the experiment declares none" if declared is None else f"{declared} is not among the arms"
        what = "the experiment's baseline" if baseline == document.baseline else "the first arm that was named"
        yield f"baseline: {baseline}, {what}, because {why}"
    if absent:
        yield (
            f"Headway leaves out contrast{'s' * (len(absent) > 1)} {listed(contrast.name for contrast in absent)}, "
            "because some of the arms are missing, and compares the other arms"
        )


def _needed_by(path: str, text: str, compared: Compared, document: Document) -> list[str]:
    """Return the arms without which a setting would change nothing."""
    part, *rest = path.split(".")
    if path == "baseline":
        return [] if document.baseline is None else [document.baseline]
    if part == "groups" and rest[1:] == ["baseline"]:
        return [document.groups[rest[0]].baseline]
    if part == "contrasts":
        content = read_plain(text)
        names = rest[:1] or list(content if isinstance(content, Mapping) else ())
        return [arm for contrast in compared.absent if contrast.name in names for arm in contrast.weights]
    return []
