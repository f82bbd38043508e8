"""Declare: from an experiment's file to the runs that answer it.

Resolved in this order: the file; the scale, merged deeply; the settings of the command line; each arm over
that; each control over its arm. What results is frozen, and every run of it is known before one starts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from headway.declare.document import MOST_SEEDS, PARTS, Document, Group, Logging
from headway.declare.laboratories import parse_run
from headway.declare.mapping import leaves, merge, read_file, write_yaml
from headway.declare.run import RunSpec
from headway.declare.settings import unheard, with_settings
from headway.declare.shipped import shipped
from headway.declare.spec import Locate, parse
from headway.errors import DeclarationError, near

NOT_COMPARED = ("question", "seeds", "logging", "statements")
"""Keys of a document that may change between two calls on one results directory."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One thing that is compared: an arm of the document, or one under a control."""

    name: str
    control: str | None
    group: str | None
    label: str
    template: RunSpec

    @property
    def full_name(self) -> str:
        """`ARM` or `ARM+CONTROL`: the name of its folder."""
        return f"{self.name}+{self.control}" if self.control else self.name

    def spec(self, seed: int) -> RunSpec:
        """The run of this arm with a seed."""
        return self.template.model_copy(update={"seed": seed})


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A resolved experiment: every arm, crossed with every control, and the seeds that are asked for.

    `arms` are all that the document declares; `selected` are those to be run; `settings` are merged in already.
    """

    document: Document
    arms: tuple[Arm, ...]
    selected: tuple[Arm, ...]
    seeds: tuple[int, ...]
    settings: tuple[str, ...] = ()

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
    def logging(self) -> Logging:
        """How often runs write a line."""
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
        return bool(read_file(shipped()[self.name]).get("statements", False))

    @property
    def directory(self) -> Path:
        """The default place of its results: `results/NAME-SCALE`."""
        return Path("results") / (f"{self.name}-{self.scale}" if self.scale else self.name)

    @cached_property
    def runs(self) -> tuple[tuple[Arm, int], ...]:
        """The (arm, seed) pairs to be run, seed by seed, so that early results are pairs."""
        return tuple((arm, seed) for seed in self.seeds for arm in self.selected)

    @property
    def unheard(self) -> list[str]:
        """A sentence for each setting that does not reach a control that is to be run."""
        asked = dict.fromkeys(arm.control for arm in self.selected if arm.control is not None)
        parts = {part: getattr(self.document, part) for part in PARTS}
        return list(unheard(self.settings, parts, {name: self.document.controls[name] for name in asked}))

    def control_label(self, control: str | None) -> str:
        """What figures and sentences call a control, or arms without one."""
        return "no control" if control is None else self.document.control_label(control)

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
        arms: Sequence[str] | None = None,
        controls: Sequence[str] | None = None,
        seeds: int | Sequence[int] | None = None,
    ) -> "Experiment":
        """The same experiment with other arms, controls and seeds to be run.

        Args:
            arms: names of arms.
            controls: controls that cross the arms, beside the arms without a control; `learning-rates` stands for
                `learning-rates-half`, `learning-rates-double` and whatever else begins so.
            seeds: how many (0 to N - 1), or which.

        What is None stays as it is; at first that is all arms, no control and the document's seeds.

        Raises:
            DeclarationError: for an unknown arm or control, with near names, or no seed.
        """
        now = dict.fromkeys(arm.name for arm in self.selected), dict.fromkeys(arm.control for arm in self.selected)
        names = tuple(now[0]) if arms is None else _names("arm", arms, self.document.arms)
        if not names:
            raise DeclarationError(f"no arm was chosen, so there is nothing to run; {near('', self.document.arms)}")
        crossed = tuple(now[1]) if controls is None else _controls(controls, tuple(self.document.controls))
        chosen = tuple(a for a in self.arms if a.name in names and (a.control is None or a.control in crossed))
        return replace(self, selected=chosen, seeds=self.seeds if seeds is None else _seeds(seeds))

    def dump(self) -> str:
        """The resolved document as YAML; `read_resolved` reads it back."""
        return write_yaml(self.plain())

    def plain(self) -> dict[str, Any]:
        """The resolved document as plain mappings."""
        return self.document.model_dump(mode="json", exclude_unset=True)

    def differences(self, other: "Experiment") -> list[str]:
        """The dotted keys in which two documents differ, as far as results depend on them."""
        mine, theirs = (leaves({k: v for k, v in e.plain().items() if k not in NOT_COMPARED}) for e in (self, other))
        return sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key))


def load(name_or_path: str | Path, *, scale: str | None = None, settings: Iterable[str] = ()) -> Experiment:
    """Read and resolve an experiment.

    Args:
        name_or_path: the name of one that comes with Headway, or a YAML file.
        scale: which of its scales; `laptop` by default, if it has one.
        settings: `PATH=VALUE` texts, merged after the scale and before the arms.

    Raises:
        DeclarationError: for anything that is wrong with it, a line for each finding.

    Examples:
        >>> load("icl-heads").baseline
        'h2'
    """
    if not isinstance(name_or_path, str | Path):
        raise DeclarationError(f"an experiment is given by its name or path, and {name_or_path!r} is neither")
    path = shipped().get(str(name_or_path), Path(name_or_path))
    if not path.is_file():
        if path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
            raise DeclarationError(f"{path}: there is no such file")
        raise DeclarationError(
            f"there is no experiment {str(name_or_path)!r}; {near(str(name_or_path), shipped())}; "
            "a file of your own is given by its path, such as ./mine.yaml"
        )
    return resolve(read_file(path), scale=scale, settings=settings, source=path.name)


def read_resolved(path: Path) -> Experiment:
    """Read an `experiment.yaml` that Headway wrote into a results directory.

    Raises:
        DeclarationError: when it is not one.
    """
    content = read_file(path)
    content.pop("headway", None)
    return _assemble(parse(Document, content, _in_file(path.name)), path.name)


def resolve(
    content: Mapping[str, Any], *, scale: str | None = None, settings: Iterable[str] = (), source: str = ""
) -> Experiment:
    """Resolve the content of an experiment's file; see `load`.

    Raises:
        DeclarationError: for anything that is wrong with it.
    """
    document = parse(Document, content, _in_file(source))
    if scale is not None and scale not in document.scales:
        raise DeclarationError(f"--scale: {document.name} has no scale {scale!r}; {near(scale, document.scales)}")
    chosen = scale or ("laptop" if "laptop" in document.scales else None)
    plain = {key: value for key, value in content.items() if key != "scales"}
    if chosen:
        plain = merge(plain, {**document.scales[chosen], "scale": chosen})
    given = tuple(settings)
    plain = with_settings(plain, given)
    return replace(_assemble(parse(Document, plain, _in_file(source)), source), settings=given)


def _in_file(source: str) -> Locate:
    return lambda path: ": ".join(part for part in (source, path) if part)


def _assemble(document: Document, source: str) -> Experiment:
    # An empty mapping is a part that the file does not mention; null is an answer.
    shared = {part: getattr(document, part) for part in PARTS if getattr(document, part) != {}}
    arms = []
    for name, override in document.arms.items():
        override = dict(override or {})
        label = override.pop("label", name)
        group = next((g for g, members in document.groups.items() if name in members.arms), None)
        content = merge(shared, override)
        for control in (None, *document.controls):
            over = {k: v for k, v in document.controls[control].items() if k != "label"} if control else {}
            locate = _locator(source, name, (f"controls.{control}.", over), (f"arms.{name}.", override), ("", shared))
            template = parse_run({**merge(content, over), "seed": 0}, locate)
            full = f"{label}, {document.control_label(control)}" if control else label
            arms.append(Arm(name=name, control=control, group=group, label=full, template=template))
    plain = tuple(arm for arm in arms if arm.control is None)
    return Experiment(document=document, arms=tuple(arms), selected=plain, seeds=_seeds(document.seeds))


def _locator(source: str, arm: str, *places: tuple[str, Mapping[str, Any]]) -> Locate:
    """Name a path by the place in the document that set it: the control, the arm, or what all arms share."""

    def locate(path: str) -> str:
        for where, content in places:
            if path and any(leaf == path or leaf.startswith(f"{path}.") for leaf in leaves(content)):
                return _in_file(source)(f"{where}{path}")
        return _in_file(source)(f"arm {arm}: {path}" if path else f"arm {arm}")

    return locate


def _names(what: str, asked: str | Sequence[str], declared: Iterable[str]) -> tuple[str, ...]:
    names = (asked,) if isinstance(asked, str) else tuple(asked)
    for name in names:
        if name not in declared:
            raise DeclarationError(f"there is no {what} {name!r}; {near(name, declared)}")
    return names


def _controls(asked: str | Sequence[str], declared: Sequence[str]) -> tuple[str, ...]:
    """Names of controls; one that is not declared stands for all that begin with it and a dash."""
    names = (asked,) if isinstance(asked, str) else tuple(asked)
    families = {name: [other for other in declared if other.startswith(f"{name}-")] for name in names}
    wanted = [other for name in names for other in (families[name] if name not in declared else ()) or [name]]
    return _names("control", wanted, declared)


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    chosen = tuple(range(min(seeds, MOST_SEEDS + 1))) if isinstance(seeds, int) else _listed(seeds)
    whole = all(isinstance(seed, int) and 0 <= seed < 2**63 for seed in chosen)
    if not chosen or not whole or len(set(chosen)) < len(chosen) or len(chosen) > MOST_SEEDS:
        raise DeclarationError(
            f"seeds {seeds!r}: give how many (1 to {MOST_SEEDS:,}), or different whole numbers from 0 up"
        )
    return chosen
