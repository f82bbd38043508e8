"""The base of every declared value, errors that teach, limits on the size of declarations, and log-spaced steps.

A declared value is frozen, knows its keys and refuses others. `parse` turns pydantic's findings into one
`DeclarationError` with a line per finding: where, what was given, what is wrong, what to do.

An experiment is a page or two of text. Anything far larger is a typing error or an attack. Sizes are counted before
anything of that size is made: otherwise the memory fills up or a command never ends.

`FORMER` holds the keys that were renamed. A user types only the current name. The id of a run hashes the former name,
so a run keeps its id. `renamed` translates what a results directory of a former version stores.
"""

import json
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from math import expm1, inf, log1p
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from headway.base.files import NotOrdinary, ordinary
from headway.base.identity import digest
from headway.errors import MOST_LINES, DeclarationError, near, shortened

FORMER: Mapping[str, Mapping[str, str]] = {
    "run": {"init_from": "start"},
    "training": {"grad_accumulation": "accumulate", "lr_schedule": "decay"},
    "model": {"mask": "attends"},
    "arms": {},
    "controls": {},
}
"""The keys that were renamed after 0.2.0 and their former names, by part of a document; ids hash the former names."""
CURRENT = {part: {then: now for now, then in names.items()} for part, names in FORMER.items()}


def renamed(content: Any, names: Mapping[str, Mapping[str, str]] = CURRENT, part: str = "run") -> Any:
    """Return a stored run, or document, with the current names of its keys; or with the names of another table.

    Examples:
        >>> renamed({"arms": {"a": {"start": {"arm": "b"}, "training": {"decay": "cosine"}}}})
        {'arms': {'a': {'init_from': {'arm': 'b'}, 'training': {'lr_schedule': 'cosine'}}}}
    """
    if part not in names or not isinstance(content, Mapping):
        return content
    is_named = part in ("arms", "controls")
    return {
        names[part].get(key, key): renamed(value, names, "run" if is_named else key) for key, value in content.items()
    }


def no_such_key(key: str, allowed: Collection[str]) -> str:
    """Return what is wrong with an unknown key, and the key to give instead."""
    now = [names[key] for names in CURRENT.values() if names.get(key) in allowed]
    return f"there is no such key; {f'it is called {now[0]} now' if now else near(key, allowed)}"


LARGEST_FILE = 2_000_000
"""Bytes of an experiment's file."""
MOST_CHARACTERS = 500_000
"""The most characters of a file, ten of them added for each value, and aliases counted as often as they stand."""
DEEPEST = 32
"""Mappings and lists inside one another; an experiment has six."""
MOST_SETTINGS = 500
"""Settings of a command line."""
LONGEST_NAME = 120
"""The longest name of an arm, a control or an experiment; two names and a sign are a folder's name of 255 bytes."""
LONGEST_PATH = 4_096
"""The most bytes of a path, as file systems allow."""
LARGEST_WHOLE = 10**15
"""The largest whole number that is no seed."""
LARGEST_NUMBER = 1e30
"""The largest other number, which leaves room for squares in float32."""
MOST_LAYERS = 2_048
WIDEST = 10**9
"""The largest width or context."""
MOST_NUMBERS = 10**15
"""The most parameters of a model: a thousand times the largest that was ever trained."""
MOST_BATCH = 10**15
"""The most numbers of a batch: its examples, tokens and width multiplied."""
MOST_ARMS = 5_000
"""The most arms, each counted with every control."""
MOST_ARM_VALUES = 1_000_000
"""The most keys and values of all arms under all controls, shared ones counted in each."""
MOST_MODELS = 16
"""The most models on a page of heads."""

_SEEDS = ("seed", "seeds")

WHOLE_KEYS: set[str] = set()
"""The names of keys whose number is a whole number, of every declared type."""


def read_text(path: Path) -> str:
    """Return the text of a file of an experiment's size.

    Raises:
        DeclarationError: when it is not a file, cannot be read, is too large, or is no UTF-8.
    """
    try:
        with ordinary(path, links=True) as file:
            content = file.read(LARGEST_FILE + 1)
    except NotOrdinary:
        raise DeclarationError(f"{shortened(str(path))}: this is no file; give the path of a text file") from None
    except (OSError, ValueError) as error:
        why = "it is a folder" if isinstance(error, IsADirectoryError) else getattr(error, "strerror", None) or error
        raise DeclarationError(f"{shortened(str(path))}: cannot be read as a text file: {why}") from None
    if len(content) > LARGEST_FILE:
        raise DeclarationError(
            f"{path}: the file is larger than {LARGEST_FILE / 1e6:g} MB, and an experiment is a page or two; is it the "
            "right file?"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DeclarationError(
            f"{path}: cannot be read as a text file: byte {error.start:,} is not UTF-8; save it in that encoding"
        ) from None


def odd_character(text: str) -> str | None:
    r"""Return the first character of a text that cannot be written or shown, by its number; None if there is none.

    Examples:
        >>> odd_character("one\ntwo"), odd_character("red \x1b[31m")
        (None, 'U+001B')
    """
    found = re.search(r"[^\t\n\r -~\xa0-\ud7ff\ue000-\U0010ffff]", text)
    return f"U+{ord(found[0]):04X}" if found else None


def check_path(path: str, key: str) -> None:
    """Raise an error for a path that no file system would take.

    Raises:
        ValueError: saying what is wrong with it.
    """
    if len(os.fsencode(path)) >= LONGEST_PATH or any(len(os.fsencode(part)) > 255 for part in path.split("/")):
        raise ValueError(
            f"{key} {shortened(repr(path))} is too long for a path: 255 bytes a name and {LONGEST_PATH:,} in all; "
            "give another"
        )


def too_large(value: Any, path: tuple[str, ...] = ()) -> Iterable[tuple[str, str]]:
    """Yield each number of a nested value that is beyond any use, by dotted path, with the reason; seeds aside.

    Examples:
        >>> list(too_large({"model": {"d_model": 10**18}}))
        [('model.d_model', '1000000000000000000 was given; no whole number is above 1e+15 here: give a smaller one')]
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in _SEEDS:
                yield from too_large(inner, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from too_large(inner, path)
    elif isinstance(value, int | float):
        what, most = ("whole number", LARGEST_WHOLE) if isinstance(value, int) else ("number", LARGEST_NUMBER)
        if most < abs(value) < inf:
            given = shortened(repr(value))
            yield ".".join(path), f"{given} was given; no {what} is above {most:.0e} here: give a smaller one"


def check_numbers(numbers: float, batch: float, lower: str) -> None:
    """Raise an error for a model, or a batch, that no machine holds.

    Whether this machine holds it is counted before a run.

    Args:
        numbers: the least size of the model, in numbers.
        batch: the size of a batch, in numbers.
        lower: the keys that set the model's size.

    Raises:
        ValueError: with what was asked for.
    """
    if numbers > MOST_NUMBERS:
        raise ValueError(
            f"a model of about {float(numbers):.0e} numbers was asked for, and no machine holds more than "
            f"{MOST_NUMBERS:.0e}; lower {lower}"
        )
    if batch > MOST_BATCH:
        raise ValueError(
            f"a batch of about {float(batch):.0e} numbers was asked for, and no machine holds more than "
            f"{MOST_BATCH:.0e}; lower training.batch_size"
        )


def check_arms(arms: int, controls: int, values: Iterable[int]) -> None:
    """Raise an error for more arms and controls than can be resolved, counted before the first is resolved.

    Args:
        arms: the number of arms.
        controls: the number of controls that cross them.
        values: the number of keys and values of each arm and its controls, with those that all arms share.

    Raises:
        DeclarationError: with both numbers.
    """
    count = arms * (controls + 1)
    if count > MOST_ARMS:
        raise DeclarationError(
            f"{arms:,} arms, alone and under each of {controls:,} controls, are {count:,} arms, and {MOST_ARMS:,} are "
            "allowed; use several files"
        )
    total = sum(values) * (controls + 1)
    if total > MOST_ARM_VALUES:
        raise DeclarationError(
            f"{count:,} arms, with their controls, have {total:,} keys and values in all, and "
            f"{MOST_ARM_VALUES:,} are allowed; move shared keys out of the arms, or use several files"
        )


def count_values(value: Any) -> int:
    """Return the number of keys and values of a nested value.

    Examples:
        >>> count_values({"a": [1, 2]})
        4
    """
    if isinstance(value, Mapping):
        return 1 + sum(map(count_values, value.values()))
    if isinstance(value, list | tuple):
        return 1 + sum(map(count_values, value))
    return 1


class Spec(BaseModel):
    """A frozen declared value: keyword-only, strict about types, unknown keys are errors.

    The text below a key of an experiment's file is its meaning in `docs/experiment-keys.md`, word for word.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Note which keys of the type are whole numbers."""
        WHOLE_KEYS.update(name for name, field in cls.model_fields.items() if _types_in(field.annotation) == {int})

    @model_validator(mode="before")
    @classmethod
    def _lists_are_tuples(cls, value: Any) -> Any:
        # YAML and JSON have lists only; frozen values hold tuples.
        return {k: _frozen(v) for k, v in value.items()} if isinstance(value, Mapping) else value

    def __eq__(self, other: object) -> bool:
        """Return whether the other value has this type and equal fields, cached properties left out."""
        if type(self) is not type(other):
            return False
        mine, theirs = self.__dict__, other.__dict__
        return all(mine[n] is theirs[n] or mine[n] == theirs[n] for n in type(self).__pydantic_fields__)

    def __hash__(self) -> int:
        fields = tuple(map(self.__dict__.__getitem__, type(self).__pydantic_fields__))
        try:
            return hash(fields)
        except TypeError:  # a task of the user's may have mappings among its fields
            return hash(digest(self.content()))

    def content(self) -> dict[str, Any]:
        """Return the value as plain JSON types, fields at their default left out."""
        return self.model_dump(mode="json", exclude_defaults=True)


def whole(check: Callable[[Any], None]) -> Any:
    """Return a validator of declared values; the check raises ValueError if their keys do not fit together."""

    def checked(value: Spec) -> Spec:
        check(value)
        return value

    return model_validator(mode="after")(checked)


def _types_in(annotation: Any) -> set[type]:
    """Return the types of numbers that an annotation mentions."""
    if annotation in (int, float):
        return {annotation}
    return {number for inner in get_args(annotation) for number in _types_in(inner)}


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _once(values: Any, named: Callable[[Any], Any] = lambda value: value) -> Any:
    items = list(map(named, values)) if isinstance(values, tuple) else []
    for item in items:
        if items.count(item) > 1:
            raise ValueError(f"{item} appears twice; keep one")
    return values


ONCE = AfterValidator(_once)
"""The requirement of a list that no item stands in it twice."""
METRICS_ONCE = AfterValidator(partial(_once, named=attrgetter("metric")))
"""The requirement of a list that no two items have one metric."""


def known_in(names: Iterable[str], what: str = "is not known", *others: str) -> AfterValidator:
    """Return a validator that accepts the known names, those that plugins add later, and the others."""

    def known(name: str) -> str:
        if name not in names and name not in others:
            raise ValueError(f"{name!r} {what}; {near(name, (*others, *names))}")
        return name

    return AfterValidator(known)


BelowOne = Annotated[float, Field(ge=0, lt=1)]
"""A probability, or a share that is kept."""


def _below_one(betas: tuple[float, float]) -> tuple[float, float]:
    if not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"betas {list(betas)} must lie in [0, 1); the usual ones are [0.9, 0.999]")
    return betas


Betas = Annotated[tuple[float, float], AfterValidator(_below_one)]
"""The decays of the two moments of Adam."""

S = TypeVar("S", bound=Spec)
Locate = Callable[[str], str]
"""A function from a dotted path inside a value to the path that the user knows."""


def parse(kind: type[S], value: Any, locate: Locate = str) -> S:
    """Validate a mapping as a declared value of type `kind`.

    Raises:
        DeclarationError: with one line per wrong key or value.

    Examples:
        >>> from headway.config.regression import Sgd
        >>> parse(Sgd, {"optimizer": "sgd", "steps": 0, "batch_size": 8, "learning_rat": 0.1})
        Traceback (most recent call last):
        headway.errors.DeclarationError: learning_rate: missing; give it a value
        steps: 0 was given; give a number greater than 0
        learning_rat: there is no such key; did you mean learning_rate?
    """
    if not isinstance(value, Mapping):
        raise DeclarationError(
            f"{locate(kind.__name__)}: {_written(value)} was given; it must be a mapping, keys with values"
        )
    if beyond := dict(islice(too_large(value), MOST_LINES)):
        raise DeclarationError("\n".join(f"{locate(path)}: {problem}" for path, problem in beyond.items()))
    try:
        return kind.model_validate(dict(value))
    except ValidationError as error:
        # The first few of ten thousand wrong items show the mistake.
        findings = error.errors(include_url=False)
        lines = list(_lines(kind, findings[:MOST_LINES], locate))
        more = [f"... and {len(findings) - MOST_LINES:,} more"] if len(findings) > MOST_LINES else []
        raise DeclarationError("\n".join(lines[: MOST_LINES - 1] + more)) from None


def _lines(kind: type[Spec], findings: Iterable[Any], locate: Locate) -> Iterable[str]:
    """Return a line per place: a value that may be of several types has a finding for each of them."""
    places: dict[str, list[str]] = {}
    for finding in findings:
        path, problem = _explain(kind, finding)
        places.setdefault(".".join(path), []).append(problem)
    for place, (problem, *others) in places.items():
        # Types of a union may give equal messages.
        also = list(dict.fromkeys(other.partition("; ")[2] or other for other in others if other != problem))
        yield ": ".join(filter(None, (locate(place), ", or ".join([problem, *also]))))


def _explain(kind: type[Spec], finding: Any) -> tuple[list[str], str]:
    """Return where a finding is, and in words what is wrong and what to do."""
    path, owners = _walk(kind, map(str, finding["loc"]))
    context, given = finding.get("ctx", {}), finding["input"]
    chooser = context.get("discriminator", "").strip("'")
    match finding["type"]:
        case "extra_forbidden":
            allowed = {name for k in owners for name in k.model_fields}
            return [*path[:-1], shortened(path[-1])], no_such_key(path[-1], allowed)
        case "missing":
            return path, "missing; give it a value"
        case "value_error":
            return path, str(context["error"])
        case "union_tag_invalid":
            tag = context["tag"]
            problem = f"{shortened(repr(tag))} is not known; {near(tag, _words(context['expected_tags']))}"
            return [*path, chooser], problem
        case "union_tag_not_found":
            return [*path, chooser], "missing; it says which kind this is"
        case "literal_error":
            return path, f"{_written(given)} is not known; {near(str(given), _words(context['expected']))}"
    advice = _ADVICE.get(finding["type"])
    # Pydantic's own messages, such as on a list's length, name the requirement.
    message = advice.format(**context) if advice else finding["msg"][0].lower() + finding["msg"][1:]
    return path, f"{_written(given)} was given; {message.replace('tuple', 'list')}"


_ADVICE = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "give a whole number, such as 8"),
    **dict.fromkeys(("float_type", "float_parsing"), "give a number, such as 0.5"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "give true or false"),
    **dict.fromkeys(("tuple_type", "list_type"), "give a list, such as [1, 2]"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "give a mapping, keys with values"),
    "string_type": "give text, in quotes where it looks like something else",
    "finite_number": "give a finite number",
    "greater_than": "give a number greater than {gt}",
    "greater_than_equal": "give a number of at least {ge}",
    "less_than": "give a number less than {lt}",
    "less_than_equal": "give a number of at most {le}",
}
"""Advice to the user, by pydantic's name of the error."""


def _written(value: Any) -> str:
    """Return a value as a user would have written it; of a long one the middle is left out."""
    plain = isinstance(value, bool | tuple | list | dict | None)
    return shortened(json.dumps(value, default=str, skipkeys=True) if plain else repr(value))


def _words(expected: str) -> list[str]:
    return [word.strip(" '") for word in expected.replace(" or ", ", ").split(",")]


def _walk(kind: type[Spec], location: Iterable[str]) -> tuple[list[str], list[type[Spec]]]:
    """Return the path of a finding without union tags, and the types that its last key may belong to."""
    path: list[str] = []
    owners: list[type[Spec]] = [kind]
    inside: list[type[Spec]] = [kind]
    for part in location:
        if inside and part.isdigit():  # an item of a list of declared values
            path.append(part)
            continue
        tagged = [k for k in inside if part in _tags(k)]
        if tagged and not any(part in k.model_fields for k in inside):
            inside = tagged
            continue
        if not inside and not part.isdigit():
            continue  # pydantic's name for a member of a union of plain types
        owners = inside
        inside = [m for k in owners if part in k.model_fields for m in specs_in(k.model_fields[part].annotation)]
        path.append(part)
    return path, owners


def specs_in(annotation: Any) -> list[type[Spec]]:
    """Return the declared types that an annotation mentions."""
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return [annotation]
    return [spec for inner in getattr(annotation, "__args__", ()) for spec in specs_in(inner)]


def _tags(kind: type[Spec]) -> set[str]:
    """Return the values by which a union chooses this type: those of its required one-word literals."""
    required = (field.annotation for field in kind.model_fields.values() if field.is_required())
    return {arg for annotation in required for arg in getattr(annotation, "__args__", ()) if isinstance(arg, str)}


def log_spaced(n: int, end: int) -> tuple[int, ...]:
    """Return at most `n` log-spaced steps from 0, of which the next would be `end`; fewer if steps coincide.

    Examples:
        >>> log_spaced(6, end=600)
        (0, 2, 7, 24, 70, 206)
        >>> log_spaced(4, end=2)
        (0, 1)
    """
    steps = (round(expm1(log1p(end) * at / n)) for at in range(n))
    return tuple(sorted({step for step in steps if step < end}))


def thinned(steps: Sequence[float], limit: int) -> list[int]:
    """Return at most `limit` of the steps, evenly on a log scale, the first and the last among them.

    Examples:
        >>> thinned([0, 10, 20], limit=5)
        [0, 1, 2]
        >>> thinned(range(1000), limit=4)
        [0, 9, 99, 999]
    """
    if len(steps) <= limit:
        return list(range(len(steps)))
    at = [log1p(max(step, 0)) for step in steps]
    wanted = (at[0] + (at[-1] - at[0]) * place / (limit - 1) for place in range(limit))
    return sorted({_nearest(at, value) for value in wanted})


def _nearest(ascending: Sequence[float], value: float) -> int:
    after = min(bisect_left(ascending, value), len(ascending) - 1)
    before = max(after - 1, 0)
    return before if abs(ascending[before] - value) <= abs(ascending[after] - value) else after
