"""Which arms are compared: what a document declares, as far as its arms are there.

A declared baseline that is among the arms stays the baseline, of the experiment and of each group. In place of an
absent one, a group takes the experiment's baseline, or else the arm that was named first. Contrasts of two sides lose
the arms that are absent. If that compares nothing, all arms are compared with the first. So any two arms that a user
chooses are compared, and which with which is known before training.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headway.base.text import listed
from headway.config.contrasts import Contrast, asks_the_same, contrasts_of, scheme_contrasts
from headway.config.document import Document, Group
from headway.config.run import RunSpec
from headway.config.yaml import read_plain
from headway.errors import DeclarationError

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
        one = len(absent) == 1
        yield (
            f"left out, because arms are absent: {'contrast' if one else 'contrasts'} "
            f"{listed(contrast.name for contrast in absent)}; the chosen arms are compared all the same"
        )


def check_settings_compared(settings: Iterable[str], compared: Compared, document: Document) -> None:
    """Raise DeclarationError if a setting of what is compared needs an arm that is absent.

    Args:
        settings: the settings as given, `PATH=VALUE`.
        compared: the comparisons.
        document: the document, with the settings merged in.

    Raises:
        DeclarationError: if the setting needs a baseline or a contrast whose arm is absent; the present arms are named.
    """
    for path, _, text in (setting.partition("=") for setting in settings):
        needed = dict.fromkeys(_needed_by(path, text, compared, document))
        absent = [arm for arm in needed if arm not in compared.arms]
        if absent:
            one = len(absent) == 1
            raise DeclarationError(
                f"setting {path}: {listed(absent)} {'is' if one else 'are'} not among the chosen arms "
                f"({listed(compared.arms)}); choose {'that arm' if one else 'those arms'} too, or leave the setting out"
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
