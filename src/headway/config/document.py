"""The top level of an experiment's file, settings that change it, and the arms, controls and seeds a user names.

Settings, `PATH=VALUE`, are merged after the scale and before the arms. A setting without effect is an error, whether an
arm to be run overrides it or its name is misspelt: a user would take silence for a result.

The document says which arm each arm starts from. The laboratory of the arm decides what the start does to it.
"""

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt

from headway.base.text import listed
from headway.config.arms import Asked
from headway.config.contrasts import contrasts_of
from headway.config.spec import (
    DEEPEST,
    LONGEST_NAME,
    MOST_SETTINGS,
    ONCE,
    Spec,
    no_such_key,
    odd_character,
    whole,
)
from headway.config.yaml import at_path, is_factor, merge, read_plain
from headway.errors import DeclarationError, near, shortened

LONGEST_LINE = 100
"""The longest chain of arms that start from one another; each waits for the one before it."""


def starts_of(arms: Mapping[str, Mapping[str, Any] | None]) -> dict[str, str | None]:
    """Return the arm that each arm starts from, or None; an arm stands before the arms that start from it.

    Raises:
        ValueError: if an arm is missing, arms start from one another, or a chain of starts is too long.

    Examples:
        >>> starts_of({"small": {"init_from": {"arm": "dense"}}, "dense": None})
        {'dense': None, 'small': 'dense'}
    """
    parents = {name: _parent(name, (arm or {}).get("init_from"), arms) for name, arm in arms.items()}
    ordered: dict[str, str | None] = {}
    for name in parents:
        line = [name]
        while (parent := parents[line[-1]]) is not None:
            if parent in line:
                circle = [*line[line.index(parent) :], parent]
                raise ValueError(
                    f"arms.{name}.init_from.arm: {', which starts from '.join(circle)}: these arms start from one "
                    "another; give one of them initial weights of its own"
                )
            line.append(parent)
            if len(line) > LONGEST_LINE:
                raise ValueError(
                    f"arms.{name}.init_from.arm: a chain of more than {LONGEST_LINE} arms that start from one "
                    "another; let one of these arms start from random weights"
                )
        ordered |= {each: parents[each] for each in reversed(line)}
    return ordered


def _parent(name: str, start: Any, arms: Mapping[str, Any]) -> str | None:
    if start is None:
        return None
    at = f"arms.{name}.init_from"
    if not isinstance(start, Mapping):
        raise ValueError(
            f"{at}: {shortened(repr(start))} was given; it is a mapping, such as {{arm: {next(iter(arms))}}}"
        )
    for key in ("seed", "seeds"):
        if key in start:
            raise ValueError(
                f"{at}.{key}: a run always starts from the run with its own seed, so that arms stay paired; leave the "
                "key out"
            )
    if "run" in start:
        raise ValueError(f"{at}.run: name the arm, as {at}.arm; Headway takes its run of the same seed")
    if "arm" not in start:
        raise ValueError(f"{at}.arm: missing; name the arm whose runs it starts from: {listed(list(arms)[:5])}")
    parent = start["arm"]
    if not isinstance(parent, str) or parent not in arms:
        raise ValueError(f"{at}.arm: there is no arm {shortened(repr(parent))}; {near(str(parent), arms)}")
    return parent


RUN_SECTIONS = ("task", "values", "model", "training", "evaluation", "probes", "samples", "after")
"""The keys of a document that make up a run; arms and controls override them."""

OF_ARMS = ("label", "init_from")
"""The keys that an arm may have beside those of a run."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


MOST_SEEDS = 10_000


class Logging(Spec):
    """How often a run logs its training loss and stores its weights; no result depends on these settings."""

    every: PositiveInt = 1_000
    """steps between logged training losses"""
    weights: Annotated[Asked, ONCE] = ()
    """steps at which weights are stored: a list, or `{log_spaced: N}` for up to N steps on a log scale. `headway look`
    shows circuits and patterns at these steps"""


class Group(Spec):
    """Arms that are compared among themselves."""

    arms: tuple[str, ...]
    """names of the arms in the group"""
    baseline: str
    """the arm of the group that the others are compared with"""


class Published(Spec):
    """A published claim about the experiment's question."""

    claim: str
    """the published claim, with its numbers"""
    source: str = ""
    """authors, year and place"""
    setting: str = ""
    """the published models, data and training, where they differ from this experiment"""
    seeds: PositiveInt | None = None
    """number of seeds of the published runs; null: unknown"""
    compares: str | None = None
    """the comparison that tests the claim: the name of a contrast, two arms (`a - b`), or the name of a claim that
    `statements` tests; null: none"""
    says: Literal["better", "worse", "same", "not better"] | None = None
    """the claim's verdict on the first side of this comparison; null if `compares` names a claim of `statements`"""

    @whole
    def _check_whole(self) -> None:
        if self.compares is None and self.says is not None:
            raise ValueError("says needs compares; name the comparison, or leave says out")


def _as_claims(published: Any) -> Any:
    """Return a claim in place of a text: directories that are older have one text."""
    return ({"claim": published},) if isinstance(published, str) and published else published or ()


class Document(Spec):
    """The top level of an experiment's file."""

    name: str
    """the name of the experiment and of its results directory"""
    about: str = ""
    """the heading under which `headway list` shows the experiment"""
    question: str = ""
    """the question that the experiment answers, as one sentence"""
    published: Annotated[tuple[Published, ...], BeforeValidator(_as_claims)] = ()
    """published claims about the question"""
    task: dict[str, Any]
    """the task and its data"""
    values: dict[str, Any] = Field({})
    """named values that Headway substitutes into your own training command"""
    model: dict[str, Any] = Field({})
    """the model settings that all arms share"""
    training: dict[str, Any] = Field({})
    """hyper-parameters of training"""
    evaluation: dict[str, Any] = Field({})
    """the held-out examples on which models are evaluated"""
    probes: dict[str, Any] = Field({})
    """head metrics to measure during training"""
    samples: dict[str, Any] | None = Field({})
    """texts that the model generates before and after training"""
    after: dict[str, Any] = Field({})
    """measurements of the trained model"""
    logging: Logging = Logging()
    """how often a run logs its training loss, and at which steps it stores weights"""
    plugins: tuple[str, ...] = ()
    """your own code: paths relative to this file, or names of plug-ins in installed packages; see docs/your-own.md"""
    arms: dict[str, dict[str, Any] | None]
    """the arms by name, each with the keys that it changes. An arm may also have `init_from`, which takes initial
    weights from another arm, and a `label`, its name in figures. In a label, Headway replaces `{parameters}`, `{heads}`
    and keys such as `{model.d_model}` by their values"""
    controls: dict[str, dict[str, Any]] = Field({})
    """variations of every arm, by name, each with the keys that it changes; `--control NAME` trains a variation"""
    groups: dict[str, Group] = Field({})
    """groups by name, each with the keys `arms` and `baseline`; the arms of a group are compared with its baseline"""
    contrasts: dict[str, Any] = Field({})
    """further comparisons, by name; the section `contrasts` of docs/experiment-keys.md shows the four forms of a
    comparison"""
    baseline: str | None = None
    """the arm that the others are compared with"""
    margin: float = Field(1.0, gt=0, le=100)
    """the smallest difference that matters; arms whose difference is clearly smaller count as equally good"""
    statements: bool = False
    """whether Headway tests its list of published claims about heads, with the metrics that `probes` measures"""
    seeds: Annotated[int, Field(gt=0, le=MOST_SEEDS)] | tuple[NonNegativeInt, ...] = 3
    """the number N of random seeds (0 to N - 1), or a list of seeds"""
    scale: str | None = None
    """the chosen scale, one of `scales`; Headway writes this key into the results directory"""
    scales: dict[str, dict[str, Any]] = Field({})
    """sizes of the experiment, by name, each with the keys above that it changes; `--scale NAME` chooses a size"""

    def control_label(self, control: str) -> str:
        """Return the label of a control in figures and sentences."""
        return str(label_of(self.controls[control], control))

    @whole
    def _check_whole(self) -> None:
        for name in [self.name, *self.arms, *self.controls, *self.scales]:
            if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
                raise ValueError(
                    f"name {shortened(repr(name))} becomes part of a path; use letters, digits, dashes and underscores"
                    + (f", at most {LONGEST_NAME}" if len(name) > LONGEST_NAME else "")
                )
        if not self.arms:
            raise ValueError("arms: an experiment needs at least one arm, such as `plain: {}`")
        self._check_scales()
        contrasts_of(self.contrasts, self.arms)
        self._check_groups()
        self._check_overrides()
        if isinstance(self.seeds, tuple) and (not self.seeds or len(set(self.seeds)) < len(self.seeds)):
            raise ValueError(f"seeds {list(self.seeds)} must be one or more different numbers")

    def _check_scales(self) -> None:
        for scale, content in self.scales.items():
            for key in content.keys() & {"task", "values", "model", "training", "evaluation", "arms"}:
                if not isinstance(content[key], Mapping):
                    raise ValueError(
                        f"scales.{scale}.{key}: {shortened(repr(content[key]))} was given; write a mapping, "
                        "or leave the key out"
                    )
            for name in content.get("arms", ()):
                if name not in self.arms:
                    raise ValueError(f"scales.{scale}.arms.{name}: there is no arm {name!r}; {near(name, self.arms)}")

    def _check_groups(self) -> None:
        for where, arm in [
            ("baseline", self.baseline),
            *((f"groups.{g}.baseline", group.baseline) for g, group in self.groups.items()),
            *((f"groups.{g}.arms", arm) for g, group in self.groups.items() for arm in group.arms),
        ]:
            if arm is not None and arm not in self.arms:
                raise ValueError(f"{where}: there is no arm {arm!r}; {near(arm, self.arms)}")
        for name, group in self.groups.items():
            if group.baseline not in group.arms:
                raise ValueError(f"groups.{name}.baseline: {group.baseline!r} is not an arm of the group; add it there")

    def _check_overrides(self) -> None:
        """Check the keys and labels of arms and controls."""
        for part, own in (("arms", OF_ARMS), ("controls", ("label",))):
            for name, value in getattr(self, part).items():
                label = label_of(value or {}, "")
                if not isinstance(label, str):
                    raise ValueError(f"{part}.{name}.label: {label!r} was given; a label is text, in quotes")
                for key in value or {}:
                    if key not in (*RUN_SECTIONS, *own):
                        raise ValueError(f"{part}.{name}.{key}: {no_such_key(key, (*RUN_SECTIONS, *own))}")
        starts_of(self.arms)


def label_of(content: Mapping[str, Any], name: str) -> Any:
    """Return the label of an arm or a control; `{heads}` without quotes, a mapping in YAML, is the text."""
    label = content.get("label", name)
    if isinstance(label, dict) and list(label.values()) == [None]:
        return f"{{{next(iter(label))}}}"
    return label


_FEW = 3
_ABSENT = object()
"""A marker of an absent value, since null is a value."""


def with_settings(document: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """Return a plain document with settings merged in, one after the other.

    Raises:
        DeclarationError: if a setting is no `PATH=VALUE`, names nothing, or is replaced by a later one.
    """
    given = tuple(settings)
    if len(given) > MOST_SETTINGS:
        raise DeclarationError(
            f"{len(given):,} settings were given, and {MOST_SETTINGS} are allowed; write them into a file"
        )
    parsed = [_parsed(setting, document) for setting in given]
    changed = dict(document)
    for path, value in parsed:
        changed = merge(changed, at_path(path, value))
    if "baseline" in dict(parsed):
        changed = _as_baseline_of_groups(changed, [path for path, _ in parsed])
    for path, value in parsed:
        # An absent part is null.
        if path.partition(".")[0] in RUN_SECTIONS and value is not None and _at(path, changed) is _ABSENT:
            raise DeclarationError(
                f"setting {path}: a later setting replaces it, or its whole section; give it after that setting, or "
                "leave it out"
            )
    return changed


def _as_baseline_of_groups(document: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """Make the arm that a setting names as the baseline that of its groups too, unless they are set as well."""
    groups = dict(document["groups"]) if isinstance(document.get("groups"), Mapping) else {}
    for name, group in groups.items():
        arms = group.get("arms") if isinstance(group, Mapping) else None
        if not isinstance(arms, list | tuple) or document["baseline"] not in arms:
            continue
        if not _is_set(f"groups.{name}.baseline", [path for path in paths if path != "baseline"]):
            groups[name] = {**group, "baseline": document["baseline"]}
    return {**document, "groups": groups} if groups else dict(document)


def check_effect(settings: Iterable[str], parts: Mapping[str, Any], arms: Mapping[str, Any]) -> None:
    """Raise DeclarationError if a setting has no effect in an arm.

    Args:
        settings: the settings as given, `PATH=VALUE`.
        parts: the parts of the document, with the settings merged in.
        arms: the checked arms and their overrides, by name.

    Raises:
        DeclarationError: if an arm overrides a setting; the setting for that arm is named.
    """
    given = [(path, read_plain(text)) for path, _, text in (setting.partition("=") for setting in settings)]
    paths = [path for path, _ in given]
    for path, value in given:
        stands = _at(path, parts)
        if path.partition(".")[0] not in RUN_SECTIONS or stands is _ABSENT:
            continue
        # A factor such as x0.5 has become a number.
        meant = stands if isinstance(value, str) else value
        deaf = [
            arm
            for arm, override in arms.items()
            if not _holds(merge(parts, override or {}), path, meant) and not _is_set(f"arms.{arm}.{path}", paths)
            if not _follows(override or {}, path, meant)
        ]
        if deaf:
            instead = _of_arms({arm: _settable(path, arms[arm]) for arm in deaf})
            who = f"arm {deaf[0]} sets it itself" if len(deaf) == 1 else f"arms {', '.join(deaf)} set it themselves"
            raise DeclarationError(
                f"setting {path}: {who}, or its section, so this would change nothing there; set {instead} too"
            )


def _of_arms(places: Mapping[str, str]) -> str:
    """Return settings for arms by name; settings of many arms with one key are merged into one."""
    if len(places) > _FEW and len(set(places.values())) == 1:
        return f"arms.ARM.{next(iter(places.values()))}=... for each of these arms"
    return listed(f"arms.{arm}.{place}=..." for arm, place in places.items())


def _follows(override: Mapping[str, Any], path: str, value: Any) -> bool:
    """Return whether an arm scales the value of a setting, or starts from another arm and declares no training."""
    untrained = path == "training.steps" and "init_from" in override and _at(path, override) == 0
    return untrained or is_factor(value, _at(path, override))


def meant_for(settings: Iterable[str], arms: Mapping[str, Any], message: str) -> list[str]:
    """Return a sentence for each setting that an error speaks of and that arms set for themselves.

    Args:
        settings: the settings as given, `PATH=VALUE`.
        arms: the arms and their overrides, by name.
        message: the message of the error.
    """
    sentences = []
    for path in (setting.partition("=")[0] for setting in settings):
        parts = list(accumulate(path.split("."), "{}.{}".format))[1:]
        own = {arm: part for arm in arms for part in parts if _of_its_own(part, path, arms[arm])}
        if own and any(f"{part}: " in message for part in parts):
            places = listed(f"arms.{arm}.{place}=..." for arm, place in own.items())
            sentences.append(f"to change {listed(own)}, set {places}")
    return sentences


def _of_its_own(part: str, path: str, override: Any) -> bool:
    held = _at(part, override)
    return isinstance(held, list) or (part == path and held is not _ABSENT)


def ignored_by_controls(
    settings: Iterable[str], parts: Mapping[str, Any], controls: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Return a sentence for each setting that a control overrides with its own value.

    Args:
        settings: the settings as given, `PATH=VALUE`.
        parts: the parts of the document, with the settings merged in.
        controls: the requested controls, by name.

    Examples:
        >>> parts = {"training": {"optimizer": "muon", "steps": 10}}
        >>> controls = {"adam": {"training": {"optimizer": "adamw", "steps": 600}}}
        >>> list(ignored_by_controls(["training.steps=10"], parts, controls))
        ['setting training.steps does not reach control adam, which has 600; set controls.adam.training.steps=... too']
    """
    given = [setting.partition("=")[0] for setting in settings]
    for name, control in controls.items():
        merged = merge(parts, control)
        for path in given:
            asked = _at(path, parts)
            if asked is _ABSENT or asked is None or is_factor(asked, _at(path, control)):
                continue
            if not _holds(merged, path, asked) and not _is_set(f"controls.{name}.{path}", given):
                own = _at(path, merged)
                has = "sets the section that it is a part of" if own is _ABSENT else f"has {own}"
                yield f"setting {path} does not reach control {name}, which {has}; set controls.{name}.{path}=... too"


def _at(path: str, content: Any) -> Any:
    for key in path.split("."):
        if not isinstance(content, Mapping) or key not in content:
            return _ABSENT
        content = content[key]
    return content


def _parsed(setting: str, document: Mapping[str, Any]) -> tuple[str, Any]:
    path, equals, text = setting.partition("=")
    keys = path.split(".")
    if not equals or not all(keys):
        raise DeclarationError(f"setting {shortened(setting)}: write it as PATH=VALUE, such as training.steps=2000")
    if keys[0] in ("name", "scale", "scales"):
        raise DeclarationError(f"setting {path}: cannot be set; copy the file with `headway show` and change it there")
    named = document.get(keys[0])
    if keys[0] in ("arms", "controls", "groups") and isinstance(named, Mapping) and keys[1:] and keys[1] not in named:
        raise DeclarationError(f"setting {path}: there is no {keys[0][:-1]} {keys[1]!r}; {near(keys[1], named)}")
    if len(keys) > DEEPEST:
        raise DeclarationError(
            f"setting {shortened(path)}: a path of {len(keys):,} keys leads nowhere; give a shorter one"
        )
    value = read_plain(text)
    if odd := odd_character(value) if isinstance(value, str) else None:
        raise DeclarationError(
            f"setting {path}: the text holds the character {odd}, which cannot be shown; leave it out"
        )
    if value == {}:
        raise DeclarationError(
            f"setting {setting}: an empty mapping changes nothing; set a key in it: {path}.KEY=VALUE"
        )
    return path, value


def _settable(path: str, content: Any) -> str:
    """Return the path of a setting; a list is set as a whole, so a path into a list ends at the list."""
    parts = accumulate(path.split("."), "{}.{}".format)
    return next((part for part in parts if isinstance(_at(part, content), list)), path)


def _holds(content: Any, path: str, value: Any) -> bool:
    held = _at(path, content)
    return held is not _ABSENT and repr(merge(held, value)) == repr(held)  # unlike ==, nan is itself


def _is_set(path: str, paths: list[str]) -> bool:
    return any(f"{path}.".startswith(f"{other}.") or other.startswith(f"{path}.") for other in paths)


def names_of(what: str, asked: str | Sequence[str], declared: Iterable[str]) -> tuple[str, ...]:
    """Return names of arms or controls, after checking that all of them are declared.

    Raises:
        DeclarationError: when one is not, with near names.
    """
    names = (asked,) if isinstance(asked, str) else tuple(asked)
    for name in names:
        if name not in declared:
            raise DeclarationError(f"there is no {what} {name!r}; {near(name, declared)}")
    return names


RATES = "learning-rates"
"""The prefix of all controls of a learning rate."""


def controls_of(asked: str | Sequence[str], declared: Sequence[str]) -> tuple[str, ...]:
    """Return names of controls, in the document's order.

    A name with a `*` stands for all controls that fit. `learning-rates` stands for `learning-rates-*` if no control has
    that name; no other name stands for those that begin with it.

    Raises:
        DeclarationError: when nothing fits, with near names.
    """
    names = (asked,) if isinstance(asked, str) else tuple(asked)
    wanted: list[str] = []
    for name in names:
        pattern = f"{RATES}-*" if name == RATES and name not in declared else name
        if not (fitting := [each for each in declared if fnmatch.fnmatchcase(each, pattern.replace("[", "[[]"))]):
            several = [f"{name}-*"] if any(each.startswith(f"{name}-") for each in declared) else []
            names_of("control", name, [*declared, *several])
        wanted += fitting
    return tuple(name for name in declared if name in wanted)


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds that a text names.

    Raises:
        DeclarationError: when it names none.

    Examples:
        >>> parse_seeds("2"), parse_seeds("0,4-6")
        ((2,), (0, 4, 5, 6))
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = map(str.strip, part.partition("-"))
        if not part.strip():
            continue
        ends = [first, last] if dash else [first]
        if not all(end.isdecimal() and len(end) < 20 for end in ends) or int(ends[-1]) - int(first) >= MOST_SEEDS:
            seeds.clear()
            break
        seeds += range(int(first), int(ends[-1]) + 1)
    if not seeds:
        raise DeclarationError(f"seeds {shortened(text)}: give the seeds by their numbers, such as 2, 0,2 or 0-2")
    return tuple(dict.fromkeys(seeds))


def all_seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """Return the seeds for a number of seeds (from 0) or for a list of seeds.

    Raises:
        DeclarationError: when it is none, or what is given cannot be a seed.
    """
    which = range(min(seeds, MOST_SEEDS + 1)) if isinstance(seeds, int) else seeds
    chosen = tuple(which) if isinstance(which, Sequence) and not isinstance(which, str) else ()
    whole = all(isinstance(seed, int) and 0 <= seed < 2**63 for seed in chosen)
    if not chosen or not whole or len(set(chosen)) < len(chosen) or len(chosen) > MOST_SEEDS:
        raise DeclarationError(
            f"seeds {shortened(repr(seeds))}: give how many (1 to {MOST_SEEDS:,}), or different whole numbers from 0 up"
        )
    return chosen
