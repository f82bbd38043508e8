"""Random damage to the files of results directories; none may change what a command says without a word about it.

    python benchmarks/faults.py damages --n 2000

A finished directory is damaged in one file: a bit, a digit, a cut, a line, a digest, a file that is gone, or that of
another run in its place; or a run's folder is gone. Times of change are put back, as a failing disk leaves them. Then
it is compared, and everything that a report shows of its finished runs is read. Damage is believed where any of it
differs from what the whole directory says, and nothing is said, or where a run that is said to be damaged still counts;
it is overlooked where `headway verify` does not name it. An interrupted run is damaged likewise and gone on with: it
must end with the same records and weights, or not at all, and say why.
"""

import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import quadratic

from headway.compare import results
from headway.errors import UserError
from headway.runs import work as work_module
from headway.runs.folder import Run
from headway.runs.store import Store
from headway.runs.verify import verify
from headway.runs.work import work
from headway.train.loop import Measure, Measured, Study

BEFORE = Path(__file__).parents[1] / "before"

FOLDER = "the whole folder"
RUN_FILES = {
    "run.json": "run.json",
    "metrics.jsonl": "metrics.jsonl",
    "samples.jsonl": "samples.jsonl",
    "tokenizer.json": "tokenizer.json",
    "curves.json": "curves.json",
    "seal.json": "seal.json",
    "heads": "heads/*.safetensors",
    "commit": "checkpoint/*.json",
    "arrays": "checkpoint/*.safetensors",
    FOLDER: "",
}
BESIDE = {
    "experiment.yaml": "experiment.yaml",
    "estimators": "estimators/*.json",
    "results.json": "results.json",
    ".checked.json": ".checked.json",
}
DERIVED = ("estimators", "results.json", ".checked.json")
"""Made again without a word, as if they had not been there."""

Outcome = str
"""`noticed`, `harmless` (all is as it was), `believed`, or `overlooked` by `headway verify`."""


def flip(content: bytes, chance: random.Random, _: bytes) -> bytes:
    """Another bit."""
    changed = bytearray(content)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def digit(content: bytes, chance: random.Random, _: bytes) -> bytes:
    """Another digit; a bit where there is none."""
    places = [found.start() for found in re.finditer(rb"[0-9]", content)]
    if not places:
        return flip(content, chance, b"")
    changed, at = bytearray(content), chance.choice(places)
    changed[at] = chance.choice([d for d in b"0123456789" if d != content[at]])
    return bytes(changed)


def cut(content: bytes, chance: random.Random, _: bytes) -> bytes:
    """The beginning only."""
    return content[: chance.randrange(len(content))]


def swap(_content: bytes, _chance: random.Random, other: bytes) -> bytes:
    """What another run has there."""
    return other


def line(content: bytes, chance: random.Random, _: bytes) -> bytes:
    """All but a line, the first as often as any other; a bit where there are no lines."""
    lines = content.splitlines(keepends=True)
    if len(lines) < 2:
        return flip(content, chance, b"")
    del lines[chance.choice((0, chance.randrange(len(lines))))]
    return b"".join(lines)


def unsigned(content: bytes, chance: random.Random, _: bytes) -> bytes:
    """Another number in a mapping that says no more what it was; a digit where there is none."""
    try:
        told = json.loads(content)
        del told["digest"]
    except (ValueError, KeyError, TypeError):
        return digit(content, chance, b"")
    told.pop("seal", None)
    return digit(json.dumps(told, indent=1).encode(), chance, b"")


def gone(_content: bytes, _chance: random.Random, _: bytes) -> None:
    """Nothing."""


DAMAGES: dict[str, Callable[[bytes, random.Random, bytes], bytes | None]] = {
    "bit": flip,
    "digit": digit,
    "cut": cut,
    "swapped": swap,
    "line": line,
    "unsigned": unsigned,
    "gone": gone,
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A damage to a file."""

    kind: str
    damage: str
    file: Path
    other: Path | None

    def apply(self, chance: random.Random) -> bytes | None:
        """Damage the file; what it held, None when it is the same afterwards."""
        if self.file.is_dir():
            return self._aside()
        found, content = self.file.stat(), self.file.read_bytes()
        other = self.other.read_bytes() if self.other and self.other.exists() else content
        damaged = DAMAGES[self.damage](content, chance, other) if content else None
        if damaged == content:
            return None
        if damaged is None:
            self.file.unlink()
            return content
        with open(self.file, "r+b") as file:  # in place: the inode stays
            file.write(damaged)
            file.truncate()
        os.utime(self.file, ns=(found.st_atime_ns, found.st_mtime_ns))
        return content

    def _aside(self) -> bytes | None:
        """Take a folder away; it has no content of its own."""
        if self.damage != "gone":
            return None
        self.file.rename(_aside_of(self.file))
        return b""

    def undo(self, content: bytes, times: tuple[int, int]) -> None:
        """Make it whole again."""
        if _aside_of(self.file).exists():
            _aside_of(self.file).rename(self.file)
            return
        self.file.write_bytes(content)
        os.utime(self.file, ns=times)


def _aside_of(folder: Path) -> Path:
    return folder.with_name(f"aside-{folder.name}")


def finished_directories(into: Path) -> list[Path]:
    """Directories with finished runs of each laboratory, sealed: two of before, and one that was just made."""
    found = []
    for name in ("icl", "text"):
        path = Path(shutil.copytree(BEFORE / name, into / name))
        list(verify(path, adopt=True))
        found.append(path)
    of = quadratic.experiment(evaluation={"every": 7, "prompts": 50, "curve": None})
    store = Store.create(into / "made", of)
    for arm, seed in of.runs:
        work(store.add(arm, seed).path, study)
    return [*found, store.path]


def study(spec: Any, stored: Any) -> Study:
    """The quadratic one, with texts and a tokenizer."""
    plain = quadratic.study(spec, stored)
    writes = Measure(
        due=lambda step: step % 20 == 0,
        take=lambda: Measured(samples=({"text": f"{spec.seed} at {plain.trainer.step}"}, {"text": "again"})),
    )
    return replace(plain, measures=(*plain.measures, writes), files={"tokenizer.json": '{"a": 0, "b": 1}\n'})


def files_of(directory: Path, kind: str) -> list[Path]:
    """The files of a kind in a directory, of finished runs only."""
    if kind in BESIDE:
        return sorted(directory.glob(BESIDE[kind]))
    done = [folder for folder in directory.glob("runs/*/seed-*") if (folder / "seal.json").is_file()]
    return done if kind == FOLDER else sorted(file for folder in done for file in folder.glob(RUN_FILES[kind]))


def case_of(directories: list[Path], kind: str, damage: str, chance: random.Random) -> Case | None:
    """A random file of a kind, with a damage; None where there is none."""
    places = [files for directory in directories if (files := files_of(directory, kind))]
    if not places:
        return None
    files = chance.choice(places)
    file = chance.choice(files)
    others = [other for other in files if other != file]
    return Case(kind=kind, damage=damage, file=file, other=chance.choice(others) if others else None)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a directory says, and what is said about it."""

    content: str
    words: tuple[str, ...]


def look(directory: Path) -> Seen:
    """Compare a directory, and read what a report shows of its finished runs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            store = Store.open(directory)
            found = results.write(store).to_json()
            words = found.pop("warnings")
            written = json.loads((directory / "results.json").read_text())
            assert {**found, "warnings": words} == written
            seen = [found, *(everything(run) for run in store.runs() if run.status == "done")]
        except UserError as error:
            return Seen(content="", words=(str(error),))
    return Seen(content=repr(seen), words=(*words, *(str(one.message) for one in caught)))


def everything(run: Run) -> dict[str, Any]:
    """All that can be read of a finished run."""
    arrays = {step: run.head_arrays(step) for step in run.head_steps()} | {-1: run.weights()}
    tokenizer = run.path / "tokenizer.json"
    return {
        "run": (run.name, run.seed, run.id, run.message, run.config, run.execution, run.metrics, run.log_every),
        "records": run.records(),
        "samples": run.samples(),
        "curves": run.curves(),
        "tokenizer": tokenizer.read_bytes() if tokenizer.exists() else None,
        "arrays": {
            (step, name): hashlib.sha256(array.tobytes()).hexdigest()
            for step, found in arrays.items()
            for name, array in sorted(found.items())
        },
    }


class Finished:
    """Finished directories to be damaged, one file at a time, and made whole again."""

    def __init__(self, into: Path):
        self.directories = finished_directories(into)
        self._whole = {path: look(path) for path in self.directories}
        again = {path: look(path) for path in self.directories}
        assert again == self._whole, "a directory says the same twice"
        assert all(not looked.damages for path in self.directories for looked in verify(path))

    def outcome(self, kind: str, damage: str, chance: random.Random) -> Outcome | None:
        """What becomes of a random damage; None where no file of the kind can be damaged so."""
        case = case_of(self.directories, kind, damage, chance)
        if case is None:
            return None
        found = case.file.stat()
        content = case.apply(chance)
        if content is None:
            return None
        try:
            return self._judged(case)
        finally:
            case.undo(content, (found.st_atime_ns, found.st_mtime_ns))

    def _judged(self, case: Case) -> Outcome:
        directory = next(path for path in self.directories if case.file.is_relative_to(path))
        if case.kind not in DERIVED and not any(looked.damages for looked in verify(directory)):
            return "overlooked"
        seen, whole = look(directory), self._whole[directory]
        if seen == whole:
            return "harmless"
        said = bool(set(seen.words) - set(whole.words))
        return "noticed" if said and not _counts(case, directory) else "believed"


def _counts(case: Case, directory: Path) -> bool:
    """Whether a run that was damaged is used all the same."""
    place = case.file.relative_to(directory).parts
    if place[0] != "runs":
        return False
    arm, seed = place[1], int(place[2].removeprefix("seed-"))
    return any((run.name, run.seed, run.status) == (arm, seed, "done") for run in Store.open(directory).runs())


class Interrupted:
    """An interrupted run to be damaged and gone on with."""

    def __init__(self, into: Path):
        self._into, self._number = into, 0
        whole = quadratic.fresh_run(into / "undisturbed")
        assert work(whole.path, study) == 0
        self._ends = everything_lasting(whole.path)
        self._stopped = into / "stopped"
        for seed in (0, 1):
            run = quadratic.fresh_run(self._stopped, seed)
            work(run.path, _until(42))
            assert Run.open(run.path).status == "failed"

    def outcome(self, kind: str, damage: str, chance: random.Random) -> Outcome | None:
        """What becomes of a damage before the run goes on; None where it cannot be damaged so."""
        self._number += 1
        directory = Path(shutil.copytree(self._stopped, self._into / str(self._number)))
        folder, other = (directory / f"runs/slow/seed-{seed}" for seed in (0, 1))
        files = sorted(folder.glob(RUN_FILES[kind]))
        file = chance.choice(files) if files else None
        if file is None:
            return None
        place = other / file.relative_to(folder)
        if Case(kind=kind, damage=damage, file=file, other=place).apply(chance) is None:
            return None
        try:
            work(folder, study)
            run = Store.open(directory).run("slow", 0)
        except UserError:
            return "noticed"
        finally:
            with contextlib.suppress(OSError):
                ended = everything_lasting(folder) if Run.examine(folder).status == "done" else None
                shutil.rmtree(directory)
        if ended == self._ends:
            return "noticed" if run.message else "harmless"
        return "noticed" if run.status != "done" else "believed"


def everything_lasting(folder: Path) -> dict[str, Any]:
    """What must not depend on how often a run was interrupted."""
    run = Run.open(folder)
    return {**quadratic.lasting(run), "samples": run.samples(), "tokenizer": (folder / "tokenizer.json").read_text()}


def _until(step: int) -> Callable[..., Study]:
    def opened(spec: Any, stored: Any) -> Study:
        found = study(spec, stored)
        advance = found.trainer.advance

        def advance_until(n: int) -> Any:
            if found.trainer.step >= step - 2:
                raise RuntimeError("enough")
            return advance(n)

        found.trainer.advance = advance_until  # type: ignore[method-assign]
        return found

    return opened


@contextlib.contextmanager
def hurried() -> Iterator[None]:
    """Checkpoints at every milestone, and a disk that is not waited for."""
    every, fsync = work_module.CHECKPOINT_EVERY_S, os.fsync
    work_module.CHECKPOINT_EVERY_S, os.fsync = 0.0, lambda _: None
    try:
        yield
    finally:
        work_module.CHECKPOINT_EVERY_S, os.fsync = every, fsync


Counts = dict[tuple[str, str], Counter[Outcome]]


def damages(n: int, seed: int, into: Path, resumes: int) -> tuple[Counts, Counts]:
    """The outcomes of random damages by kind of file and of damage: of finished directories, and before a resume."""
    chance = random.Random(seed)
    with hurried():
        finished = _counted(Finished(into / "finished").outcome, (*RUN_FILES, *BESIDE), n, chance)
        kinds = [kind for kind in RUN_FILES if kind not in ("seal.json", "curves.json", FOLDER)]
        return finished, _counted(Interrupted(into / "interrupted").outcome, kinds, resumes, chance)


def _counted(
    outcome: Callable[[str, str, random.Random], Outcome | None], kinds: Any, n: int, chance: random.Random
) -> Counts:
    pairs = [(kind, damage) for kind in kinds for damage in DAMAGES]
    counts: Counts = {pair: Counter() for pair in pairs}
    done = tries = 0
    while done < n:
        pair = pairs[tries % len(pairs)]
        tries += 1
        if found := outcome(*pair, chance):
            counts[pair][found] += 1
            done += 1
    return counts
