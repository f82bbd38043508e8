"""Declare: the base of every declared value, and errors that teach.

A declared value is frozen, knows its keys and refuses others. `parse` turns pydantic's findings into one
`DeclarationError` with a line per finding: where, what was given, what is wrong, what to do.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from headway.declare.limits import too_large
from headway.errors import MOST_LINES, DeclarationError, near, shortened
from headway.identity import digest


class Spec(BaseModel):
    """A frozen declared value: keyword-only, strict about types, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _lists_are_tuples(cls, value: Any) -> Any:
        # YAML and JSON have lists only; frozen values hold tuples.
        return {k: _frozen(v) for k, v in value.items()} if isinstance(value, Mapping) else value

    def __eq__(self, other: object) -> bool:
        """Whether the other is of this type and has equal fields: what a `cached_property` made is no part of it."""
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
        """The value as plain JSON types, fields at their default left out."""
        return self.model_dump(mode="json", exclude_defaults=True)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


S = TypeVar("S", bound=Spec)
Locate = Callable[[str], str]
"""From a dotted path inside a value to the path that the user knows it by."""


def parse(kind: type[S], value: Any, locate: Locate = str) -> S:
    """Validate a mapping as a declared value of type `kind`.

    Raises:
        DeclarationError: with one line per wrong key or value.

    Examples:
        >>> from headway.declare.icl.training import Sgd
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
        # Of ten thousand wrong items of a list the first few tell what is wrong.
        findings = error.errors(include_url=False)
        said = list(_lines(kind, findings[:MOST_LINES], locate))
        more = [f"... and {len(findings) - MOST_LINES:,} more"] if len(findings) > MOST_LINES else []
        raise DeclarationError("\n".join(said[: MOST_LINES - 1] + more)) from None


def _lines(kind: type[Spec], findings: Iterable[Any], locate: Locate) -> Iterable[str]:
    """A line per place: a value that may be of several types has a finding for each of them."""
    places: dict[str, list[str]] = {}
    for finding in findings:
        path, problem = _explain(kind, finding)
        places.setdefault(".".join(path), []).append(problem)
    for place, (problem, *others) in places.items():
        # Kinds of a union may say the same.
        also = list(dict.fromkeys(other.partition("; ")[2] or other for other in others if other != problem))
        yield ": ".join(part for part in (locate(place), ", or ".join([problem, *also])) if part)


def _explain(kind: type[Spec], finding: Any) -> tuple[list[str], str]:
    """Where a finding is, and in words what is wrong and what to do."""
    path, owners = _walk(kind, [str(part) for part in finding["loc"]])
    context, given = finding.get("ctx", {}), finding["input"]
    chooser = context.get("discriminator", "").strip("'")
    match finding["type"]:
        case "extra_forbidden":
            known = {name for k in owners for name in k.model_fields}
            return [*path[:-1], shortened(path[-1])], f"there is no such key; {near(path[-1], known)}"
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
    # What is left to pydantic's words, such as the length of a list, names what it asks for.
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
"""What to do, by pydantic's name of what is wrong."""


def _written(value: Any) -> str:
    """A value as a user would have written it; of a long one the middle is left out."""
    plain = isinstance(value, bool | tuple | list | dict | None)
    return shortened(json.dumps(value, default=str, skipkeys=True) if plain else repr(value))


def _words(expected: str) -> list[str]:
    return [word.strip(" '") for word in expected.replace(" or ", ", ").split(",")]


def _walk(kind: type[Spec], location: Iterable[str]) -> tuple[list[str], list[type[Spec]]]:
    """The path of a finding without union tags, and the types that its last key may belong to."""
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
    """The declared types that an annotation mentions."""
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return [annotation]
    return [spec for inner in getattr(annotation, "__args__", ()) for spec in specs_in(inner)]


def _tags(kind: type[Spec]) -> set[str]:
    """The values by which a union chooses this type: those of its required one-word literals."""
    required = (field.annotation for field in kind.model_fields.values() if field.is_required())
    return {arg for annotation in required for arg in getattr(annotation, "__args__", ()) if isinstance(arg, str)}
