"""Runs: when the seeds of a directory are looked at, and what was found: `DIR/looks`.

    looks/plan.json        when one looks, at which questions; written before the first verdict
    looks/after-N.json     what was found with N seeds
    looks/seen-N.json      that verdicts were given on N seeds, without a plan
    looks/search.json      how the best of many arms is searched
    looks/round-J.json     which arms a round of the search kept
    looks/picked.json      what the search picked

Each file is written once, whole; of several processes that come at once, one writes it and the others read it. Only a
plan that goes on beyond its end takes the place of the one before.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from headway.errors import ResultsError
from headway.files import FULL, create_text, entries, folder_in, inside, parsed, plain, read_bytes, write_json
from headway.identity import digest
from headway.runs.growth import turn
from headway.runs.storage import failure

SCHEMA = 1

Asked = Mapping[str, Mapping[str, float]]
"""Questions by name: the weights of arms, which add up to 0."""


@dataclass(frozen=True, kw_only=True)
class LookMade:
    """What was found at a look.

    Attributes:
        n_seeds: at which one looked.
        outcomes: of each question: apart, small, same, open, few or none.
        intervals: of each question, in per cent; None without one.
        made: when, in UTC.
    """

    n_seeds: int
    outcomes: Mapping[str, str]
    intervals: Mapping[str, tuple[float, float] | None]
    made: str


@dataclass(frozen=True, kw_only=True)
class StoredPlan:
    """A plan of looks as it stands in a directory.

    Attributes:
        looks: numbers of seeds at which one looks, ascending.
        margin: in per cent: what is certainly smaller is the same.
        level: of all looks together.
        metric: that is judged.
        asked: the questions; what is asked later was asked after an answer was seen.
        are_declared: whether they are contrasts of the document, or else comparisons of arms.
        first_seed: the seeds of the plan are this one and those that follow.
        n_before: seeds that had been run before the plan was made.
        made: when, in UTC.
        history: the looks that were made.
    """

    looks: tuple[int, ...]
    margin: float
    level: float
    metric: str
    asked: Asked
    are_declared: bool
    first_seed: int = 0
    n_before: int = 0
    made: str = ""
    history: tuple[LookMade, ...] = ()

    @property
    def at_most(self) -> int:
        """The seeds at which it ends."""
        return self.looks[-1]

    @property
    def seeds(self) -> range:
        """Those that are judged, in the order in which they are run."""
        return range(self.first_seed, self.first_seed + self.at_most)

    @property
    def arms(self) -> tuple[str, ...]:
        """Those that a question is about."""
        return tuple(dict.fromkeys(arm for weights in self.asked.values() for arm in weights))

    @property
    def asked_digest(self) -> str:
        """Names the questions: other ones were not planned."""
        return digest(plain(self.asked))


@dataclass(frozen=True, kw_only=True)
class StoredSearch:
    """A search for the best of many arms, as it was planned.

    Attributes:
        arms: among which it searches.
        new_seeds: that every arm which is left gets, by round.
        metric: by which they are judged.
        margin: of the verdicts on finalists, in per cent.
        at_most: fresh seeds of a finalist.
        made: when, in UTC.
    """

    arms: tuple[str, ...]
    new_seeds: tuple[int, ...]
    metric: str
    margin: float
    at_most: int
    made: str = ""


@dataclass(frozen=True, kw_only=True)
class RoundMade:
    """The arms that a round kept, the best first."""

    kept: tuple[str, ...]
    made: str = ""


@dataclass(frozen=True, kw_only=True)
class Picked:
    """What a search ended with.

    Attributes:
        arm: that had the best mean.
        chances: of each arm to be the best.
        finalists: that get fresh seeds, `arm` first.
        made: when, in UTC.
    """

    arm: str
    chances: Mapping[str, float]
    finalists: tuple[str, ...]
    made: str = ""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """That verdicts were given on so many seeds, and no plan said so before."""

    n_seeds: int
    made: str = ""


_Stored = TypeVar("_Stored", StoredPlan, LookMade, StoredSearch, RoundMade, Picked, Seen)


def folder_of(directory: Path) -> Path:
    """Where all of it is kept."""
    return inside(directory, "looks")


def stored_plan(directory: Path) -> StoredPlan | None:
    """The plan of a directory, with the looks that were made; None where there is none.

    Raises:
        ResultsError: when a file cannot be read.
    """
    plan = stored(directory, "plan", StoredPlan)
    if plan is None:
        return None
    looks = [made for n in plan.looks if (made := stored(directory, f"after-{n}", LookMade))]
    return replace(plan, history=tuple(looks))


def seen(directory: Path) -> tuple[int, ...]:
    """The numbers of seeds that verdicts were given on without a plan, ascending; a file's name says it."""
    names = (file.stem.removeprefix("seen-") for file in entries(folder_of(directory), "seen-*.json"))
    return tuple(sorted(int(name) for name in names if name.isascii() and name.isdecimal()))


def stored(directory: Path, name: str, kind: type[_Stored]) -> _Stored | None:
    """What stands in a file of `DIR/looks`; None where there is no such file.

    Raises:
        ResultsError: when it cannot be read.
    """
    file = folder_of(directory) / f"{name}.json"
    try:
        content = parsed(read_bytes(file))
        if content.pop("schema") != SCHEMA:
            raise ResultsError(f"{file}: another version of Headway wrote it; use that one, or another directory")
        return TypeAdapter(kind).validate_python(content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ResultsError):
            raise
        raise ResultsError(f"{file}: cannot be read ({error}); restore it, or choose another directory") from None


def keep(directory: Path, name: str, value: _Stored) -> _Stored:
    """Write a file of `DIR/looks` unless it is there; what then stands in it.

    Raises:
        ResultsError: when it can neither be written nor read.
    """
    file = folder_of(directory) / f"{name}.json"
    try:
        folder_in(directory, file.parent.name)
        create_text(file, json.dumps(_content(value), indent=1, allow_nan=False) + "\n")
    except OSError as error:
        if error.errno in FULL:
            raise failure(directory, error) from None
        raise ResultsError(f"{file} cannot be written: {error.strerror}; free space or check permissions") from None
    return stored(directory, name, type(value)) or value


def keep_plan(directory: Path, plan: StoredPlan) -> StoredPlan:
    """Store a plan, or the one that goes on where a stored one ends; the plan that stands there afterwards."""
    found = keep(directory, "plan", plan)
    if plan.at_most > found.at_most and plan.looks[: len(found.looks)] == found.looks:
        with turn(directory):
            former = stored_plan(directory) or found
            if former.at_most < plan.at_most:
                write_json(folder_of(directory) / "plan.json", _content(replace(plan, made=former.made)))
    return stored_plan(directory) or plan


def _content(value: Any) -> Any:
    content = {"schema": SCHEMA, **asdict(value)}
    content.pop("history", None)
    content["made"] = content["made"] or datetime.now(UTC).isoformat(timespec="seconds")
    return plain(content)
