"""The file `experiment.yaml`: the resolved document of a results directory, under a line with the hash of the rest.

If somebody edits it, the directory tells so: the names of its arms and their baselines stand nowhere else. Its last
key, `headway`, is a note of Headway's own. It names what the directory has, so that a loss is noticed.

    runs: {ARM: 0-3,7, ...}       the seeds of each arm that were asked for; written before their folders are made
    named: [ARM, ...]             the arms in the order in which they were named; absent if that is the document's
    dropped: {ARM: '4', ...}      the seeds of each arm that somebody dropped
    looks: {plan: [HASH], ...}    the allowed contents of a file; two, or null for none, while it is being written
    given_up: [plan, ...]         files of `looks/` that were lost, and that a former version did without
    timed: [ARM, ...]             arms that have a timing
    begun_in: FOLDER              the working directory of the first `headway run`, where relative paths begin
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.base import files
from headway.base.files import Content
from headway.base.text import counted, listed
from headway.config import own_program
from headway.config.plugins import FOLDER, keep
from headway.config.yaml import read_yaml, write_yaml
from headway.errors import DeclarationError
from headway.store.environment import is_quiet, surroundings
from headway.store.records import run_folders, signed_json

if TYPE_CHECKING:
    from headway.config.experiment import Experiment

FILE = "experiment.yaml"
LOOKS = "looks"
_HEAD = "# SHA-256 of what follows: "
SIGNED = ("estimators/*.json", "timings/*.json", "results.json")
"""Files beside the runs that have a digest of themselves."""
_NOTE = "\nheadway:\n"
"""Where the note begins."""

State = str | None
"""What a file holds, by its hash; None where it is not there."""
Name = tuple[str, int]
"""A run of a directory: its arm, with its control, and its seed."""
_FOLDER = re.compile(r"seed-([0-9]{1,19})")
_RANGE = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")
_MOST_TOLD = 8
_MOST_RUNS = 1_000_000
"""A document that was received may name any number of runs."""


def write(directory: Path, experiment: "Experiment", asked: Iterable[Name] = ()) -> None:
    """Make an experiment the document of a directory, with versions and machine.

    Args:
        directory: the results directory.
        experiment: the document.
        asked: the requested runs, beside the runs of the former document whose arm is also in this one.

    Raises:
        OSError: when it cannot be written.
    """
    if experiment.plugins:
        files.folder_in(directory, FOLDER)  # by which readers know that there are some
    for name, content in keep(directory, experiment.plugins).items():
        files.write_bytes(files.inside(directory, *name.split("/")), content)
    own_program.keep(directory, experiment.code or {})
    kept = {**surroundings(), **_kept(directory, experiment, asked)}
    _write(directory, write_yaml({**experiment.plain(), "headway": kept}))


def record(
    directory: Path,
    *,
    asked: Iterable[Name] = (),
    dropped: Iterable[Name] = (),
    experiment: "Experiment | None" = None,
) -> None:
    """Note that runs are asked for, or were dropped, for whoever has the turn; a damaged document stays as it is.

    Args:
        directory: the results directory.
        asked: the runs that are asked for.
        dropped: the runs that were dropped.
        experiment: the experiment that asks for them, which tells the order in which its arms were named.

    Raises:
        OSError: when it cannot be written.
    """
    if not is_sound(directory):
        return
    before = named(directory), runs_of(directory)[1]
    runs, aside = _changed(directory, asked, dropped)
    if before != (runs, aside):
        order = {} if experiment is None else {"named": _order(directory, experiment, runs)}
        _change(directory, {"runs": compact(runs), "dropped": compact(aside) or None, "seals": None, **order})


def named(directory: Path) -> set[Name]:
    """The runs that the document names."""
    return _read_runs(_note_of(directory).get("runs"))


def runs_of(directory: Path) -> tuple[set[Name], set[Name]]:
    """The runs that were asked for, and dropped; by their folders, too, if the document is damaged or has no list."""
    noted = _note_of(directory)
    runs, aside = named(directory), _read_runs(noted.get("dropped"))
    if "runs" not in noted or doubt(directory):
        runs |= there(directory)
        aside |= _names(files.entries(directory, "dropped/*/seed-*"))
    return runs, aside - runs


def compared_arms(directory: Path, experiment: "Experiment") -> list[str]:
    """The full names of the arms with runs that were asked for and not dropped, in the order in which they were named.

    Args:
        directory: the results directory.
        experiment: the experiment, the directory's document.
    """
    arms = {arm for arm, _ in runs_of(directory)[0] | there(directory)}
    declared = [arm.full_name for arm in experiment.arms]
    return [name for name in dict.fromkeys([*_names_in(directory, "named"), *declared]) if name in arms]


def begin_paths(directory: Path) -> None:
    """Let relative paths begin where the results of a directory were begun, too."""
    files.BEGUN_IN[0] = Path(str(_note_of(directory).get("begun_in", "")))


def _order(directory: Path, experiment: "Experiment", runs: Collection[Name]) -> list[str] | None:
    """The arms of some runs in the order in which they were named; None if that is the document's order."""
    arms, declared = {arm for arm, _ in runs}, [arm.full_name for arm in experiment.arms]
    named = [*compared_arms(directory, experiment), *experiment.named, *declared]
    order = [name for name in dict.fromkeys(named) if name in arms]
    return order if order != [name for name in declared if name in arms] else None


def there(directory: Path) -> set[Name]:
    """The runs that have a folder."""
    folders = run_folders(directory)
    names = {(folder.parent.name, folder.name) for folder in folders}
    return {(arm, seed) for arm, seed in _names(folders) if (arm, f"seed-{seed}") in names}


def missing(directory: Path) -> list[Name]:
    """The runs that the document names and that have no folder, by arm and seed."""
    return missing_and_strangers(directory)[0]


def missing_and_strangers(directory: Path) -> tuple[list[Name], list[Name]]:
    """Return the missing runs, and the runs that have a folder but that the document does not know."""
    if "runs" not in (noted := _note_of(directory)):
        return [], []
    runs, here = named(directory), there(directory)
    return sorted(runs - here), sorted(here - runs - _read_runs(noted.get("dropped")))


def compact(runs: Collection[Name]) -> dict[str, str]:
    """The seeds of each arm as text.

    Examples:
        >>> compact({("b", 2), ("a", 7), ("a", 0), ("a", 1), ("a", 2)})
        {'a': '0-2,7', 'b': '2'}
    """
    ranges_of: dict[str, list[list[int]]] = {}
    for arm, seed in sorted(runs):
        ranges = ranges_of.setdefault(arm, [])
        if ranges and ranges[-1][1] == seed - 1:
            ranges[-1][1] = seed
        else:
            ranges.append([seed, seed])
    return {
        arm: ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)
        for arm, ranges in ranges_of.items()
    }


def told(runs: Collection[Name]) -> str:
    """Runs in words.

    Examples:
        >>> told({("h1", 0), ("h1", 1), ("h2", 5)})
        'h1 seeds 0-1 and h2 seed 5'
    """
    parts = [f"{arm} seed{'' if text.isdecimal() else 's'} {text}" for arm, text in compact(runs).items()]
    more = [f"the runs of {counted(len(parts) - _MOST_TOLD, 'other arm')}"] if parts[_MOST_TOLD:] else []
    return listed([*parts[:_MOST_TOLD], *more])


def _changed(directory: Path, asked: Iterable[Name], dropped: Iterable[Name] = ()) -> tuple[set[Name], set[Name]]:
    """The runs that are asked for, and those that were dropped, after a change."""
    (runs, aside), new, gone = runs_of(directory), set(asked), set(dropped)
    return (runs | new) - gone, (aside | gone) - new


def _names(folders: Iterable[Path]) -> set[Name]:
    """Runs by their folders; those that were dropped more than once have another number at the end."""
    parts = ((folder.parent.name, _FOLDER.match(folder.name)) for folder in folders)
    return {(arm, int(seed[1])) for arm, seed in parts if seed}


def _read_runs(found: object) -> set[Name]:
    """The runs that a note names; a document that was received may say anything."""
    runs: set[Name] = set()
    for arm, text in found.items() if isinstance(found, dict) else ():
        for first, last in _RANGE.findall(str(text)) if isinstance(arm, str) and files.is_bare(arm) else ():
            seeds = range(int(first), int(last or first) + 1)
            if len(runs) + seeds.stop - seeds.start <= _MOST_RUNS:
                runs.update((arm, seed) for seed in seeds)
    return runs


def note(directory: Path, name: str, states: Sequence[State]) -> None:
    """Note what a file of `looks/` may hold, for whoever has the turn; a damaged document stays as it is.

    A file that can only be absent is forgotten.

    Raises:
        OSError: when it cannot be written.
    """
    if is_sound(directory):
        known_states = {**anchors(directory), name: list(dict.fromkeys(states))}
        _change(directory, {LOOKS: {name: states for name, states in known_states.items() if states != [None]}})


def anchors(directory: Path) -> Mapping[str, Sequence[State]]:
    """The allowed contents of each file of `looks/`, by its name, as the document says."""
    noted = _note_of(directory).get(LOOKS)
    states = noted.items() if isinstance(noted, dict) else ()
    return {name: each for name, each in states if isinstance(each, list) and is_look(name)}


def looks_given_up(directory: Path) -> Sequence[str]:
    """The files of `looks/` that somebody did without."""
    return list(filter(is_look, _names_in(directory, "given_up")))


def timed_arms(directory: Path) -> Sequence[str]:
    """The arms whose timings were there, as the document says."""
    return list(filter(files.is_bare, _names_in(directory, "timed")))


def _names_in(directory: Path, key: str) -> list[str]:
    """A list of names that the document notes; a document that was received may say anything."""
    noted = _note_of(directory).get(key)
    return [name for name in noted if isinstance(name, str)] if isinstance(noted, list) else []


def timing_file(directory: Path, name: str) -> Path:
    """The file of an arm's timing."""
    return files.inside(directory, "timings", f"{name}.json")


def read_timing(file: Path) -> dict[str, Any] | None:
    """Return a timing, or None if it cannot be read or has changed since it was written."""
    timing = signed_json(file)
    return timing if timing is not None and timing.get("arm", file.stem) == file.stem else None


def measured(timing: Mapping[str, Any]) -> Mapping[str, Any]:
    """A timing whose seconds are None where the machine was busy meanwhile, or nobody looked whether it was."""
    quiet = is_quiet(timing.get("others", math.inf))
    return timing if quiet else {**timing, **dict.fromkeys(("step_s", "step_s_range", "tokens_per_s"))}


def timings_of_arms(directory: Path) -> dict[str, dict[str, Any] | None]:
    """Return every timing of a directory, by the full name of its arm; None for a damaged or missing timing."""
    there = {name: read_timing(timing_file(directory, name)) for name in _timings(directory)}
    return {**dict.fromkeys(timed_arms(directory)), **there}


def lacks_timings(directory: Path) -> bool:
    """Return whether there are timings that the document could name and does not."""
    return not set(_timings(directory)) <= set(timed_arms(directory)) and not doubt(directory)


def note_timings(directory: Path) -> None:
    """Note the timings that are there, for whoever has the turn.

    Raises:
        OSError: when it cannot be written.
    """
    _change(directory, {"timed": sorted({*timed_arms(directory), *_timings(directory)})})


def _timings(directory: Path) -> list[str]:
    return [file.stem for file in files.entries(directory, "timings/*.json")]


def is_look(name: object) -> bool:
    """Return whether a value is the name of a file of `looks/`; a document that was received may say anything."""
    return isinstance(name, str) and re.fullmatch(r"plan|search|picked|(after|seen|round)-[0-9]{1,9}", name) is not None


def look_file(directory: Path, name: str) -> Path:
    """A file of `looks/`.

    Raises:
        ResultsError: where a symbolic link stands.
    """
    return files.inside(directory, LOOKS, f"{name}.json")


def looks_there(directory: Path) -> list[str]:
    """The names of the files of `looks/` that are there."""
    return [file.stem for file in files.entries(directory, f"{LOOKS}/*.json") if is_look(file.stem)]


def state_of(file: Path) -> State:
    """Return the hash of a file; None where it is not there, else why it cannot be read."""
    try:
        return Content.of(files.read_bytes(file)).sha256[:16]
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _kept(directory: Path, experiment: "Experiment", asked: Iterable[Name]) -> dict[str, Any]:
    """The note of a document that is written now; what the former note said stays, unless it is damaged."""
    looks, present = dict(anchors(directory)), [look_file(directory, name) for name in looks_there(directory)]
    looks |= {file.stem: [state_of(file)] for file in present if not is_sound(directory) and signed_json(file)}
    arms = {arm.full_name for arm in experiment.arms}
    runs, aside = ({run for run in found if run[0] in arms} for found in _changed(directory, asked))
    noted = {
        "named": _order(directory, experiment, runs),
        "dropped": compact(aside),
        LOOKS: looks,
        "given_up": looks_given_up(directory),
        "timed": timed_arms(directory),
        "begun_in": _note_of(directory).get("begun_in") or str(Path.cwd()),
    }
    return {"runs": compact(runs), **{key: value for key, value in noted.items() if value}}


def _change(directory: Path, changed: Mapping[str, Any]) -> None:
    """Change the note of a document that is as it was written, and nothing else of it."""
    _, _, text = files.read_bytes(directory / FILE).decode().partition("\n")
    before, _, _ = text.rpartition(_NOTE)
    content = {key: value for key, value in {**_note_of(directory), **changed}.items() if value is not None}
    _write(directory, before + "\n" + write_yaml({"headway": content}))


def _write(directory: Path, text: str) -> None:
    files.write_text(directory / FILE, f"{_HEAD}{Content.of(text.encode()).sha256}\n{text}")


def _note_of(directory: Path) -> Mapping[str, Any]:
    """The note of a document, under `headway`; empty if there is none, or it cannot be read."""
    try:
        text = files.read_bytes(directory / FILE).decode()
    except (OSError, UnicodeDecodeError):
        return {}
    _, there, note = text.rpartition(_NOTE)
    return _read_note(note) if there else {}


@lru_cache(maxsize=8)
def _read_note(text: str) -> Mapping[str, Any]:
    try:
        content = read_yaml(_NOTE + text, FILE)["headway"]
    except (DeclarationError, TypeError, KeyError):
        return {}
    return content if isinstance(content, dict) else {}


def is_sound(directory: Path) -> bool:
    """Return whether there is a document, and it is as it was written."""
    return (directory / FILE).exists() and not doubt(directory)


def doubt(directory: Path) -> str:
    """Return the error of a document that is not as it was written; empty if it is, or if there is none."""
    try:
        head, _, rest = files.read_bytes(directory / FILE).partition(b"\n")
    except OSError:
        return ""  # whoever opens it tells that
    if head == f"{_HEAD}{Content.of(rest).sha256}".encode():
        return ""
    if is_unsealed(directory):
        return (
            f"{directory / FILE} has no seal: a development version of Headway made it, or its seal was removed; train "
            "the experiment again with this version, in another directory"
        )
    return f"{directory / FILE} is not as Headway wrote it: it is damaged, or it was edited; {todo(directory)}"


def is_unsealed(directory: Path) -> bool:
    """Return whether the document never had a seal, or lost every trace of one, such as a word or a part of a hash."""
    head, _, _ = files.read_bytes(directory / FILE).partition(b"\n")
    return not re.search(rb"SHA-256| follows: |[0-9a-f]{24}", head) and "runs" not in _note_of(directory)


def todo(directory: Path) -> str:
    """Return the advice about a document that is damaged, or gone."""
    return f"`headway run FILE --out {directory}` with the file that it was run from writes it again"
