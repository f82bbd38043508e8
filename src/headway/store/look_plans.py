"""The interim analyses of a directory, `DIR/looks`: when the seeds are analysed, and what was found.

    looks/plan.json        when the analyses happen, and their questions; written before the first verdict
    looks/after-N.json     the findings with N seeds
    looks/seen-N.json      verdicts were given on N seeds, without a plan

Each file is written once, whole. If several processes come at once, one writes it and the others read it. Only a plan
that is prolonged beyond its end replaces the previous one.

Verdicts rest on these files. So the directory's document holds the hash of each, and a damaged or missing plan is an
error. The document is written first, with what is going to be written; then the file; then the document again. A
process that is killed in between leaves the old file or the new one, and both are right.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from headway.base import files
from headway.base.files import Content, write_text
from headway.base.identity import DIGEST, is_as_signed, signed
from headway.errors import ResultsError
from headway.store import document
from headway.store.growth import turn

SCHEMA = 1

Asked = Mapping[str, Mapping[str, float]]
"""Questions by name: the weights of arms, which add up to 0."""


@dataclass(frozen=True, kw_only=True)
class LookMade:
    """The findings of an interim analysis.

    Attributes:
        n_seeds: the number of seeds of the analysis.
        outcomes: the outcome of each question: apart, small, same, open, few or none.
        intervals: the interval of each question, in per cent; None without an interval.
        made: the time of the analysis, in UTC.
    """

    n_seeds: int
    outcomes: Mapping[str, str]
    intervals: Mapping[str, tuple[float, float] | None]
    made: str


@dataclass(frozen=True, kw_only=True)
class StoredPlan:
    """A plan of looks as it stands in a directory.

    Attributes:
        looks: the numbers of seeds of the interim analyses, ascending.
        margin: the margin of equivalence, in per cent.
        level: the error probability of all interim analyses together.
        metric: the metric of the verdicts.
        asked: the questions; later questions were added after an answer was known.
        are_declared: True if the questions are contrasts of the document, False if they are comparisons of arms.
        first_seed: the first seed of the plan; the others follow it.
        n_before: the number of seeds that had been run before the plan was made.
        rules: the version of the rules under which the plan was made; a file without it has the first version.
        made: the time of the plan, in UTC.
        history: the interim analyses that were made.
    """

    looks: tuple[int, ...]
    margin: float
    level: float
    metric: str
    asked: Asked
    are_declared: bool
    first_seed: int = 0
    n_before: int = 0
    rules: int = 1
    made: str = ""
    history: tuple[LookMade, ...] = ()

    @property
    def at_most(self) -> int:
        """The seeds at which it ends."""
        return self.looks[-1]

    @property
    def seeds(self) -> range:
        """The seeds that are judged, in the order in which they are run."""
        return range(self.first_seed, self.first_seed + self.at_most)

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that questions are about."""
        return tuple(dict.fromkeys(arm for weights in self.asked.values() for arm in weights))


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The note that verdicts were given on a number of seeds without a plan.

    Attributes:
        n_seeds: the number of seeds.
        runs: the seeds of each arm that the verdicts rested on; empty in files of former versions.
        made: the time of the note, in UTC.
    """

    n_seeds: int
    runs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    made: str = ""


_Stored = TypeVar("_Stored", StoredPlan, LookMade, Seen)


def damages(directory: Path) -> Iterator[str]:
    """A sentence for each file of `DIR/looks` that is not as it was written."""
    names = {*document.looks_there(directory), *document.anchors(directory)}
    yield from filter(None, (why_not(directory, name) for name in sorted(names)))


def why_not(directory: Path, name: str) -> str:
    """Return why a file of `DIR/looks` cannot be believed, and what to do; empty if it can, or if it cannot exist."""
    file, known = document.look_file(directory, name), document.anchors(directory).get(name)
    state = document.state_of(file)
    if state in (known or [None]) or (known is None and not _is_strange(directory, file)):
        return ""
    if known != document.anchors(directory).get(name):  # it was being written just now
        return why_not(directory, name)
    if known is None:
        return f"{file} was not written here; move it out of the directory"
    what = "is missing" if state is None else "is not as it was written"
    if name == "plan":
        return f"{file} {what}; put it back from a copy, or train the experiment again in another directory"
    instead = "or compare again, which writes it" if state is None else "or remove it, and compare again"
    return f"{file} {what}; put it back from a copy, {instead}"


def _is_strange(directory: Path, file: Path) -> bool:
    """Return whether a file that the document does not know is damaged, or was put there by others."""
    if document.is_sound(directory):
        return True
    content = files.kept_json(file)  # its reader reports what cannot be read
    return isinstance(content, dict) and not is_as_signed(content)


def unaccounted(directory: Path) -> Iterator[str]:
    """Yield a sentence for each interim analysis whose runs neither exist nor stand in the document."""
    try:
        plan = stored_plan(directory)
    except ResultsError:  # which is told already
        return
    if plan is None or not document.named(directory):
        return
    runs = document.there(directory).union(*document.runs_of(directory))
    needed = set(plan.arms)
    for look in plan.history:
        seeds = plan.seeds[: look.n_seeds]
        if gone := {(arm, seed) for arm in needed for seed in seeds} - runs:
            file = document.look_file(directory, f"after-{look.n_seeds}")
            yield f"{file} depends on missing runs: {document.told(gone)}; `headway run` with its file trains them"
        left = [weights for name, weights in plan.asked.items() if look.outcomes.get(name) == "open"]
        needed = {arm for weights in left for arm, weight in weights.items() if weight}


def settle(directory: Path) -> None:
    """Make the document match the files that a killed process was writing.

    Raises:
        OSError: when it cannot be written.
    """
    if any(len(states) > 1 for states in document.anchors(directory).values()):
        with turn(directory):
            for name, states in document.anchors(directory).items():
                state = document.state_of(document.look_file(directory, name))
                if len(states) > 1 and state in states:
                    document.note(directory, name, (state,))


def stored_plan(directory: Path) -> StoredPlan | None:
    """The plan of a directory, with the looks that were made; None where there is none.

    Raises:
        ResultsError: when a file cannot be read.
    """
    plan = stored(directory, "plan", StoredPlan)
    if plan is None:
        return None
    sound = (f"after-{n}" for n in plan.looks if not why_not(directory, f"after-{n}"))
    looks = [made for name in sound if (made := stored(directory, name, LookMade))]
    return replace(plan, history=tuple(looks))


def seen(directory: Path) -> tuple[int, ...]:
    """The numbers of seeds that verdicts were given on without a plan, or by one that is lost, ascending.

    The name of a file says it, and the document has the names of those that are lost.
    """
    names = {*document.looks_there(directory), *document.anchors(directory)}
    kinds = ("seen",) if "plan" in names else ("seen", "after")
    names.update(document.looks_given_up(directory))
    parts = [name.partition("-") for name in names]
    return tuple(sorted({int(n) for kind, _, n in parts if kind in kinds and n.isdecimal()}))


def runs_seen(directory: Path) -> list[Mapping[str, tuple[int, ...]]]:
    """Return, for each verdict without a plan whose note has them, the seeds of each arm that it rested on."""
    names = (f"seen-{n}" for n in seen(directory))
    notes = [stored(directory, name, Seen) for name in names if not why_not(directory, name)]
    return [note.runs for note in notes if note is not None and note.runs]


def stored(directory: Path, name: str, kind: type[_Stored]) -> _Stored | None:
    """Return the content of a file of `DIR/looks`, or None if there is no such file.

    Raises:
        ResultsError: when it cannot be read, is not as it was written, or is gone.
    """
    if damage := why_not(directory, name):
        raise ResultsError(f"{damage}; until then there are no verdicts of this plan")
    file = document.look_file(directory, name)
    try:
        content = files.parsed(files.read_bytes(file))
        content.pop(DIGEST, None)
        if content.pop("schema") != SCHEMA:
            raise ResultsError(f"{file}: another version of Headway wrote it; use that one, or another directory")
        return TypeAdapter(kind).validate_python(content)
    except FileNotFoundError:
        return None
    except ResultsError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultsError(f"{file}: cannot be read ({error}); restore it, or choose another directory") from None


def keep(directory: Path, name: str, value: _Stored) -> _Stored:
    """Write a file of `DIR/looks` unless it is there; what then stands in it.

    What was found at a look, or that verdicts were given, is written anew where it is missing: runs say it again. A
    damaged file stays as it is until a person removes it, so that every comparison names it.

    Raises:
        ResultsError: when it can neither be written nor read.
    """
    with files.derived(document.look_file(directory, name)):
        settle(directory)
        if (kept := _there(directory, name, value)) is not None:
            return kept
        with turn(directory):
            if _there(directory, name, value) is None:  # another process may have had the turn before
                _write(directory, name, value)
    return stored(directory, name, type(value)) or value


def keep_plan(directory: Path, plan: StoredPlan) -> StoredPlan:
    """Store a plan, or the continuation of a stored plan; return the plan that is stored afterwards."""
    kept = keep(directory, "plan", plan)
    if plan.at_most > kept.at_most and plan.looks[: len(kept.looks)] == kept.looks:
        with files.derived(document.look_file(directory, "plan")), turn(directory):
            former = stored_plan(directory) or kept
            if former.at_most < plan.at_most:
                _write(directory, "plan", replace(plan, made=former.made))
    return stored_plan(directory) or plan


def _there(directory: Path, name: str, value: _Stored) -> _Stored | None:
    """Return the content of a file, or None if it has to be written.

    A damaged file of findings stays as it is, and the value takes its place; a damaged plan is an error.
    """
    if not isinstance(value, StoredPlan) and why_not(directory, name):
        return value if document.look_file(directory, name).exists() else None
    return stored(directory, name, type(value))


def _write(directory: Path, name: str, value: _Stored) -> None:
    """Write a file and its record in the document, as the process whose turn it is."""
    file = document.look_file(directory, name)
    content = {"schema": SCHEMA, **asdict(value)}
    content.pop("history", None)
    content["made"] = value.made or datetime.now(UTC).isoformat(timespec="seconds")
    text = files.json_text(signed(files.plain(content)))
    before, now = document.state_of(file), Content.of(text.encode()).sha256[:16]
    document.note(directory, name, (before, now))
    write_text(file, text)
    document.note(directory, name, (now,))
