"""Declare: from an experiment's file to the runs that answer it.

Resolved in this order: the file; the scale, merged deeply; the settings of the command line; each arm over
that; each control over its arm. What results is frozen, and every run of it is known before one starts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from headway.declare import plugin_files
from headway.declare.arm import Arm
from headway.declare.contrasts import Contrast, contrasts_of, scheme_contrasts
from headway.declare.document import PARTS, Document, Group, Logging
from headway.declare.kept_weights import check_kept, steps_of
from headway.declare.laboratories import parse_run
from headway.declare.limits import check_arms, count_values, exists_as_file
from headway.declare.mapping import CHOOSERS, leaves, merge, read_file, write_yaml
from headway.declare.plugins import Plugin
from headway.declare.selection import controls_of, names_of, seeds_of
from headway.declare.settings import check_effect, meant_for, unheard, with_settings
from headway.declare.shipped import shipped
from headway.declare.spec import Locate, parse
from headway.declare.starts import starts_of
from headway.errors import DeclarationError, near, shortened
from headway.words import listed

NOT_COMPARED = ("about", "question", "seeds", "logging", "contrasts", "verdicts", "margin", "statements")
"""Keys of a document that change no run and nothing that is compared."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A resolved experiment: every arm, crossed with every control, and the seeds that are asked for.

    `arms` are all that the document declares; `selected` are those to be run, and `crossed` the controls that were
    asked for; `settings` are merged in already. `only` are the runs that are asked for, by arm and seed, where
    these are not every selected arm with every seed.
    """

    document: Document
    arms: tuple[Arm, ...]
    selected: tuple[Arm, ...]
    seeds: tuple[int, ...]
    settings: tuple[str, ...] = ()
    crossed: tuple[str, ...] = ()
    plugins: tuple[Plugin, ...] = ()
    only: frozenset[tuple[str, int]] | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.document.name

    @property
    def question(self) -> str:
        """What it is to answer."""
        return self.document.question

    @property
    def scale(self) -> str | None:
        """The scale it was resolved for."""
        return self.document.scale

    @property
    def baseline(self) -> str | None:
        """The arm that the others are compared with."""
        return self.document.baseline

    @property
    def groups(self) -> Mapping[str, Group]:
        """Arms that are compared among themselves."""
        return self.document.groups

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """The questions that the document asks of its arms; if none, those that its groups ask by their schemes."""
        if self.document.contrasts:
            return contrasts_of(self.document.contrasts, self.document.arms)
        schemes = {arm.name: arm.template.scheme for arm in self.arms if arm.control is None}
        groups = [[(arm, schemes[arm]) for arm in group.arms] for group in self.groups.values()]
        return contrasts_of(scheme_contrasts(groups), self.document.arms)

    @property
    def verdicts(self) -> Literal["blocks", "paired"]:
        """By which rule its arms are compared."""
        return self.document.verdicts

    @property
    def margin(self) -> float:
        """In per cent: a difference that is certainly smaller counts as the same."""
        return self.document.margin

    @property
    def logging(self) -> Logging:
        """How often runs write a line, and whose weights they keep."""
        return self.document.logging

    @property
    def primary(self) -> str:
        """The metric by which its arms are compared."""
        return type(self.arms[0].template).compared_by([arm.template for arm in self.arms])

    @property
    def statements(self) -> bool:
        """Whether published statements on heads are judged.

        Documents of before have no such key: what is said of them is what the shipped experiment of their name asks.
        """
        if "statements" in self.document.model_fields_set or self.name not in shipped():
            return self.document.statements
        # A line of a file of ours; to parse it whole takes 30 ms.
        return "\nstatements: true\n" in shipped()[self.name].read_text(encoding="utf-8")

    @property
    def directory(self) -> Path:
        """The default place of its results: `results/NAME-SCALE`."""
        return Path("results") / (f"{self.name}-{self.scale}" if self.scale else self.name)

    @cached_property
    def runs(self) -> tuple[tuple[Arm, int], ...]:
        """The (arm, seed) pairs to be run, seed by seed, so that early results are pairs.

        Raises:
            DeclarationError: for a setting that would have no effect in a selected arm.
        """
        self.check_settings()
        pairs = ((arm, seed) for seed in self.seeds for arm in self.selected)
        return tuple((arm, seed) for arm, seed in pairs if self.only is None or (arm.full_name, seed) in self.only)

    @property
    def unheard(self) -> list[str]:
        """A sentence for each setting that does not reach a control that is to be run."""
        asked = dict.fromkeys(arm.control for arm in self.selected if arm.control is not None)
        parts = {part: getattr(self.document, part) for part in PARTS}
        return list(unheard(self.settings, parts, {name: self.document.controls[name] for name in asked}))

    def control_label(self, control: str | None) -> str:
        """What figures and sentences call a control, or arms without one."""
        return "no control" if control is None else self.document.control_label(control)

    @staticmethod
    def with_ancestors(runs: Iterable[tuple[Arm, int]]) -> tuple[tuple[Arm, int], ...]:
        """Runs of arms, with those of the same seeds that they start from before them."""
        found: dict[tuple[str, int], tuple[Arm, int]] = {}
        for arm, seed in runs:
            for each in (*arm.ancestors, arm):
                found.setdefault((each.full_name, seed), (each, seed))
        return tuple(found.values())

    def kept_weights(self, arm: Arm) -> tuple[int, ...]:
        """The steps at which runs of an arm keep their weights: those of other arms start there, or it was asked for.

        For other arms, first weights are kept only of runs that start from others themselves: of any other they can be
        drawn again.
        """
        needed = {step for other in self.arms if other.starts_from(arm) for step in other.template.stored_for}
        asked = steps_of(self.logging.weights, arm.template.declared_steps)
        return tuple(sorted({*asked, *(needed - ({0} if arm.parent is None else set()))}))

    def check_settings(self) -> None:
        """Look whether every setting has an effect in every arm that is to be run.

        Raises:
            DeclarationError: when one has not, because an arm overrides it, with what would set it there.
        """
        parts = {part: getattr(self.document, part) for part in PARTS}
        arms = {arm.name: self.document.arms[arm.name] for arm in self.selected}
        check_effect(self.settings, parts, arms)

    @property
    def idle(self) -> list[str]:
        """A sentence for each control that is asked for and changes nothing in some of the selected arms."""
        names = {arm.name for arm in self.selected}
        return [
            f"control {control} changes nothing in {', '.join(arms)}; {'they are' if arms[1:] else 'it is'} "
            "not run under it"
            for control in self.crossed
            if (arms := [a.name for a in self.arms if a.control == control and a.idle and a.name in names])
        ]

    @property
    def multiplied(self) -> str:
        """How many runs the controls make, in a sentence, where they more than double them; else empty."""
        plain = sum(arm.control is None for arm in self.selected) * len(self.seeds)
        if len(self.runs) <= 2 * plain:
            return ""
        under = f"{len(self.runs) - plain:,} under {listed(self.crossed)}"
        return f"{len(self.runs):,} runs are asked for: {plain:,} without a control and {under}"

    def arm(self, full_name: str) -> Arm:
        """The arm of a name, `ARM` or `ARM+CONTROL`.

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
        """The same experiment with other arms, controls and seeds to be run.

        Args:
            arms: names of arms, or a single one.
            controls: controls that cross the arms, beside the arms without a control, or a single one; one with a `*`
                stands for all that fit, and `learning-rates`, where there is none of the name, for
                `learning-rates-*`. Arms in which a control changes nothing are not run under it.
            seeds: how many (0 to N - 1), or which.

        What is None stays as it is; at first that is all arms, no control and the document's seeds.

        Raises:
            DeclarationError: for an unknown arm or control, with near names, no seed, or a setting that would have no
                effect in an arm that is named.
        """
        now = tuple(dict.fromkeys(arm.name for arm in self.selected))
        names = now if arms is None else names_of("arm", arms, self.document.arms)
        # An arm brings along those that it starts from.
        needed = {parent.name for arm in self.arms if arm.name in names for parent in arm.ancestors}
        names = (*names, *(name for name in needed if name not in names))
        if not names:
            raise DeclarationError(f"no arm was chosen, so there is nothing to run; {near('', self.document.arms)}")
        crossed = self.crossed if controls is None else controls_of(controls, tuple(self.document.controls))
        chosen = tuple(
            arm
            for arm in self.arms
            if arm.name in names and (arm.control is None or (arm.control in crossed and not arm.idle))
        )
        seeds_now = self.seeds if seeds is None else seeds_of(seeds)
        only = self.only if (arms, controls, seeds) == (None, None, None) else None
        selected = replace(self, selected=chosen, seeds=seeds_now, crossed=crossed, only=only)
        if arms is not None:
            selected.check_settings()
        return selected

    def dump(self, *, as_given: bool = False) -> str:
        """The resolved document as YAML; `read_resolved` reads it back, or `load` where plugins are named as given."""
        given = {"plugins": [plugin.given for plugin in self.plugins]} if as_given and self.plugins else {}
        return write_yaml({**self.plain(), **given})

    def plain(self) -> dict[str, Any]:
        """The resolved document as plain mappings."""
        return self.document.model_dump(mode="json", exclude_unset=True)

    def differences(self, other: "Experiment") -> list[str]:
        """The dotted keys in which two documents differ, as far as results depend on them."""
        mine, theirs = (leaves({k: v for k, v in e.plain().items() if k not in NOT_COMPARED}) for e in (self, other))
        return sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key))


def load(
    name_or_path: str | Path | Mapping[str, Any],
    *,
    scale: str | None = None,
    settings: str | Iterable[str] = (),
    plugins: str | Path | Iterable[str | Path] = (),
) -> Experiment:
    """Read and resolve an experiment.

    Args:
        name_or_path: the name of one that comes with Headway, a YAML file, or what such a file holds, as a mapping.
        scale: which of its scales; `laptop` by default, if it has one.
        settings: `PATH=VALUE` texts (or a single one), merged after the scale and before the arms. Whether an arm
            overrides one is looked at when arms are selected, or run.
        plugins: code of one's own, beside what the experiment names in `plugins`: paths of files, from the working
            directory, or names that packages offer. It is run.

    Raises:
        DeclarationError: for anything that is wrong with it, a line for each finding.

    Examples:
        >>> load("icl-heads").baseline
        'h2'
    """
    added = [str(each) for each in ((plugins,) if isinstance(plugins, str | Path) else plugins)]
    if isinstance(name_or_path, Mapping):
        return resolve(name_or_path, scale=scale, settings=settings, plugins=added)
    if not isinstance(name_or_path, str | Path):
        raise DeclarationError(
            f"an experiment is given by its name or path, or as a mapping, and {name_or_path!r} is neither"
        )
    path = shipped().get(str(name_or_path), Path(name_or_path))
    # A folder, or what is no file, is told by who reads it.
    if not exists_as_file(path) or (path.is_dir() and len(path.parts) < 2):
        if path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
            raise DeclarationError(f"{shortened(str(path))}: there is no such file")
        raise DeclarationError(
            f"there is no experiment {shortened(repr(str(name_or_path)))}; {near(str(name_or_path), shipped())}; "
            "a file of your own is given by its path, such as ./mine.yaml"
        )
    content, folder = _content(path), path.parent
    return resolve(content, scale=scale, settings=settings, source=path.name, folder=folder, plugins=added)


def read_resolved(path: Path) -> Experiment:
    """Read an `experiment.yaml` that Headway wrote into a results directory.

    Raises:
        DeclarationError: when it is not one, or is of code that nobody asked to run here.
    """
    document = parse(Document, _content(path), _in_file(path.name))
    return _assemble(document, path.name, plugin_files.load_kept(path.parent) if document.plugins else ())


def _content(path: Path) -> dict[str, Any]:
    """A document as its file has it, without what Headway notes in that of a results directory."""
    return {key: value for key, value in read_file(path).items() if key != "headway"}


def resolve(
    content: Mapping[str, Any],
    *,
    scale: str | None = None,
    settings: str | Iterable[str] = (),
    source: str = "",
    folder: Path = Path(),
    plugins: Iterable[str] = (),
) -> Experiment:
    """Resolve the content of an experiment's file; see `load`. Paths of plugins that it names begin in a folder.

    Raises:
        DeclarationError: for anything that is wrong with it.
    """
    document = parse(Document, content, _in_file(source))
    if scale is not None and scale not in document.scales:
        raise DeclarationError(f"{document.name} has no scale {scale!r}; {near(scale, document.scales)}")
    chosen = scale or ("laptop" if "laptop" in document.scales else None)
    plain = {key: value for key, value in content.items() if key != "scales"}
    if chosen:
        plain = merge(plain, {**document.scales[chosen], "scale": chosen})
    given = (settings,) if isinstance(settings, str) else tuple(settings)
    plain = with_settings(plain, given)
    resolved = parse(Document, plain, _in_file(source))
    named = [plugin_files.load(each, folder) for each in resolved.plugins]
    loaded = tuple(dict.fromkeys([*named, *map(plugin_files.load, plugins)]))
    if loaded:
        resolved = resolved.model_copy(update={"plugins": tuple(plugin.written for plugin in loaded)})
    try:
        experiment = replace(_assemble(resolved, source, loaded), settings=given)
        _check_starts(experiment.arms, source)
        return experiment
    except DeclarationError as error:  # which a setting may have led to that was meant for what an arm has of its own
        also = meant_for(given, resolved.arms, str(error))
        raise DeclarationError("\n".join([str(error), *also])) from None


def _in_file(source: str) -> Locate:
    return lambda path: ": ".join(part for part in (source, path) if part)


def _assemble(document: Document, source: str, plugins: tuple[Plugin, ...] = ()) -> Experiment:
    # An empty mapping is a part that the file does not mention; null is an answer.
    shared = {part: getattr(document, part) for part in PARTS if getattr(document, part) != {}}
    if digests := sorted(plugin.digest for plugin in plugins if plugin.changes_results):
        shared["plugins"] = digests
    group_of = {arm: group for group, members in reversed(document.groups.items()) for arm in members.arms}
    common = count_values(shared) + count_values(document.controls) // max(1, len(document.controls))
    check_arms(len(document.arms), len(document.controls), (common + count_values(a) for a in document.arms.values()))
    made: dict[tuple[str, str | None], Arm] = {}
    for name, parent in starts_of(document.arms).items():
        for control in (None, *document.controls):
            made[name, control] = replace(
                _arm(document, shared, source, name, control, made, parent), group=group_of.get(name)
            )
    arms = tuple(made[name, control] for name in document.arms for control in (None, *document.controls))
    _check_measured(arms, plugins)
    plain = tuple(arm for arm in arms if arm.control is None)
    check_kept(document.logging.weights, plain)
    seeds = seeds_of(document.seeds)
    return Experiment(document=document, arms=arms, selected=plain, seeds=seeds, plugins=plugins)


def _check_starts(arms: Sequence[Arm], source: str) -> None:
    for arm in arms:
        if arm.parent is not None:
            ancestors = [other.template for other in arm.ancestors]
            if why_not := arm.template.why_not_anew(ancestors, arm.parent.full_name):
                raise DeclarationError(f"{_in_file(source)(f'arms.{arm.name}.start')}: {why_not}")


def _check_measured(arms: Sequence[Arm], plugins: Sequence[Plugin]) -> None:
    named = [entry.name for plugin in plugins for entry in plugin.entries if entry.kind == "run metric"]
    if named and (deaf := [arm.name for arm in arms if not arm.template.measures_own]):
        raise DeclarationError(
            f"plugins: run metric {named[0]} is measured of transformers on tokens alone, and arm {deaf[0]} is none; "
            "leave its plugin out"
        )


def _arm(
    document: Document,
    shared: Mapping[str, Any],
    source: str,
    name: str,
    control: str | None,
    made: Mapping[tuple[str, str | None], Arm],
    starts_from: str | None,
) -> Arm:
    """An arm without a control or under one; those that it starts from and is crossed from are made already."""
    override = dict(document.arms[name] or {})
    label = override.pop("label", name)
    over = {k: v for k, v in document.controls[control].items() if k != "label"} if control else {}
    locate = _locator(source, name, (f"controls.{control}.", over), (f"arms.{name}.", override), ("", shared))
    content, parent = {**merge(merge(shared, override), over), "seed": 0}, None
    if starts_from is not None:
        # Under the same control, unless that changes nothing there and is not run.
        parent = made[starts_from, control]
        parent = made[starts_from, None] if parent.idle else parent
        if not parent.template.starts_others:
            raise DeclarationError(
                f"{locate('start')}: only a transformer on tokens can start from another; leave it out"
            )
        content["start"] = {k: v for k, v in content["start"].items() if k != "arm"} | {"run": parent.template.id}
    template = parse_run(content, locate)
    if parent is not None and (why_not := template.why_not_from(parent.template, parent.full_name)):
        raise DeclarationError(f"{locate('start')}: {why_not}")
    alone = template if control is None else made[name, None].template
    return Arm(
        name=name,
        control=control,
        group=None,
        label=f"{label}, {document.control_label(control)}" if control else label,
        template=template,
        idle=control is not None and template.effective() == alone.effective(),
        parent=parent,
    )


def _locator(source: str, arm: str, *places: tuple[str, Mapping[str, Any]]) -> Locate:
    """Name a path by the place in the document that set it: the control, the arm, or what all arms share."""

    def locate(path: str) -> str:
        for place, (where, content) in enumerate(places):
            if path and any(leaf == path or leaf.startswith(f"{path}.") for leaf in leaves(content)):
                return _in_file(source)(f"{where}{path}")
            if chooser := _replaced(path, content, [below for _, below in places[place + 1 :]]):
                part, _, key = chooser.rpartition(".")
                return _in_file(source)(f"{where}{path} (with another {key}, nothing of {part} is taken over)")
        return _in_file(source)(f"arm {arm}: {path}" if path else f"arm {arm}")

    return locate


def _replaced(path: str, content: Mapping[str, Any], below: Sequence[Mapping[str, Any]]) -> str:
    """The key by which a place replaces the whole that holds a path, where that stands below it; else empty."""
    part = path.partition(".")[0]
    own, others = content.get(part), [each[part] for each in below if isinstance(each.get(part), Mapping)]
    if path == part or not isinstance(own, Mapping):
        return ""
    return next(
        (f"{part}.{key}" for key in CHOOSERS if key in own and any(own[key] != o.get(key, own[key]) for o in others)),
        "",
    )
