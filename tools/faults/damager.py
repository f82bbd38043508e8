"""Random damage to the files of results directories; none may change what a command says without a word about it.

    python benchmarks/faults.py damages --n 2000

A finished directory is damaged in one file, whichever it is, or loses a folder, or whole runs: a run, an arm, a seed
or all of them, removed or moved to `dropped`, with or without the cache of what was read. Damage to a file is a bit, a
digit, a cut, a line, a digest, a file that is gone, empty, as it was before, or that of another run or directory in
its place. Times of change are put back, as a failing disk leaves them. Then it is compared, its status is asked for,
and everything that a report shows of its finished runs is read. Damage is believed where any of it differs from what
the whole directory says, and nothing is said, or where a run that is said to be damaged still counts; it is overlooked
where `headway verify` does not name it, unless the file is free or made again. An interrupted run is damaged likewise
and gone on with: it must end with the same records and weights, or not at all, and say why.
"""

import contextlib
import fnmatch
import hashlib
import io
import json
import os
import random
import re
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.extend([str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "tests")])

from rich.console import Console
from support import planted_effects, quadratic

from headway.config import own_program
from headway.errors import UserError
from headway.execute import work as work_module
from headway.execute.work import work
from headway.report.progress import status_table
from headway.stats import results
from headway.store import document, integrity
from headway.store.directory import Store
from headway.store.document import timings_of_arms
from headway.store.records import OF_STEPS, READ
from headway.store.run import Run
from headway.store.verify import Looked, verify
from headway.train.loop import Measure, Measurements, Study

BEFORE = Path(__file__).parents[2] / "tests" / "before"


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """Files of a results directory that something reads, and what would tell that one of them is damaged.

    Attributes:
        pattern: the pattern of the files' paths in the directory.
        by: the protection that detects damage: the hash or digest of the file, in a file or a name.
    """

    pattern: str
    by: str


_OF_RUN = "runs/*/seed-*"
STORED_FILES = (
    StoredFile(pattern=document.FILE, by="its first line"),
    StoredFile(pattern="looks/*.json", by="the document"),
    StoredFile(pattern="plugins/*.py", by="its name"),
    StoredFile(pattern=f"{own_program.FOLDER}/*", by="its name"),
    *(StoredFile(pattern=pattern, by="itself") for pattern in document.SIGNED),
    StoredFile(pattern=integrity.CHECKED, by="nothing: where it is damaged, runs are read whole"),
    StoredFile(pattern=f"{_OF_RUN}/run.json", by="itself"),
    StoredFile(pattern=f"{_OF_RUN}/{integrity.SEAL}", by="run.json"),
    *(StoredFile(pattern=f"{_OF_RUN}/{name}", by="the seal") for name in READ),
    *(StoredFile(pattern=f"{_OF_RUN}/{name}/*.safetensors", by="the seal") for name in OF_STEPS),
    StoredFile(pattern=f"{_OF_RUN}/checkpoint/*", by="the seal; before a run is done, the newest commit"),
    *(
        StoredFile(pattern=f"{place}/*.json", by="its number")
        for place in (".lease", "timings/lease", f"{_OF_RUN}/lease")
    ),
)
"""Every file of a results directory that is read; what is not named here is free."""

RUN_FILES = {
    "run.json": "run.json",
    "metrics.jsonl": "metrics.jsonl",
    "samples.jsonl": "samples.jsonl",
    "tokenizer.json": "tokenizer.json",
    "heads": "heads/*.safetensors",
    "commit": "checkpoint/*.json",
    "arrays": "checkpoint/*.safetensors",
}
"""What an interrupted run goes on from."""
FOLDERS = "folders"
LOST = "lost runs"
FREE = "free"
"""Logs, pages, figures, what was put aside, and what users put beside: read by nobody."""
KINDS = (*(kind.pattern for kind in STORED_FILES), FREE, FOLDERS, LOST)
MADE_AGAIN = ("estimators/*.json", "results.json", ".checked.json")
"""Kinds that are computed anew."""
UNREAD = (FREE, ".lease/*.json", "timings/lease/*.json", "runs/*/seed-*/lease/*.json")
"""Kinds in which no number stands."""

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


def empty(_content: bytes, _chance: random.Random, _: bytes) -> bytes:
    """A file without content."""
    return b""


def doubled(content: bytes, chance: random.Random, _: bytes) -> bytes:
    """A line twice."""
    lines = content.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    return b"".join([*lines[: at + 1], *lines[at:]])


def number(content: bytes, chance: random.Random, _: bytes) -> bytes:
    """Another number in JSON that stays JSON; a digit where there is none."""
    try:
        json.loads(content)
    except ValueError:
        return digit(content, chance, b"")
    places = list(re.finditer(rb"(?<![\w.\"-])[0-9]+(?![\w.\"])", content))
    if not places:
        return digit(content, chance, b"")
    at = chance.choice(places)
    return content[: at.start()] + str(int(at[0]) + 1).encode() + content[at.end() :]


def gone(_content: bytes, _chance: random.Random, _: bytes) -> None:
    """Nothing."""


DAMAGES: dict[str, Callable[[bytes, random.Random, bytes], bytes | None]] = {
    "bit": flip,
    "digit": digit,
    "cut": cut,
    "empty": empty,
    "swapped": swap,
    "older": swap,
    "line": line,
    "doubled": doubled,
    "number": number,
    "unsigned": unsigned,
    "gone": gone,
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A damage to a file."""

    kind: str
    damage: str
    file: Path
    other: bytes | None

    def apply(self, chance: random.Random) -> bool:
        """Damage the file, or take a folder away; whether it is another one afterwards."""
        if self.kind == LOST:
            return self._lose(chance)
        if self.file.is_dir():
            if self.damage == "gone":
                shutil.rmtree(self.file)
            return self.damage == "gone"
        found, content = self.file.stat(), self.file.read_bytes()
        other = content if self.other is None else self.other
        damaged = DAMAGES[self.damage](content, chance, other) if content else None
        if damaged == content:
            return False
        if damaged is None:
            self.file.unlink()
            return True
        with open(self.file, "r+b") as file:  # in place: the inode stays
            file.write(damaged)
            file.truncate()
        os.utime(self.file, ns=(found.st_atime_ns, found.st_mtime_ns))
        return True

    def _lose(self, chance: random.Random) -> bool:
        """Take whole runs away: that of the folder, all of its arm, all of its seed, or all that there are."""
        if self.damage not in ("gone", "cut"):
            return False
        runs = self.file.parents[1]
        pattern = chance.choice((f"*/{self.file.name}", f"{self.file.parent.name}/*", "*/*", None))
        for folder in sorted(runs.glob(pattern)) if pattern else [self.file]:
            if self.damage == "cut":  # moved by hand to where a drop puts it
                place = runs.parent / "dropped" / folder.relative_to(runs)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.rmtree(place, ignore_errors=True)
                folder.rename(place)
            else:
                shutil.rmtree(folder)
        if chance.random() < 0.8:
            (runs.parent / ".checked.json").unlink(missing_ok=True)
        return True


MADE = {"evaluation": {"every": 7, "prompts": 50, "curve": None}, "logging": {"every": 5, "weights": [10, 40]}}
"""What a directory of quadratics is asked for beside what it has."""


def kind_of(name: str) -> str:
    """The kind of a file, given its path in a directory."""
    parts = name.split("/")
    for kind in STORED_FILES:
        pattern = kind.pattern.split("/")
        if len(pattern) == len(parts) and all(map(fnmatch.fnmatchcase, parts, pattern)):
            return kind.pattern
    return FREE


@dataclass(kw_only=True)
class Directory:
    """A finished directory as it is, what it says, and what some of its files held before."""

    path: Path
    older: dict[str, bytes]

    def __post_init__(self) -> None:
        look(self.path)
        assert not [damage for looked in verify(self.path) for damage in looked.damages]
        self.whole = look(self.path)
        assert self.whole.content == look(self.path).content, "a directory says the same twice"
        self._files = {file: (file.read_bytes(), file.stat()) for file in self._there()}
        self.kinds: dict[str, list[Path]] = {}
        finished = {file.parent for file in self._files if file.name == "seal.json"}
        files = [f for f in self._files if "runs" not in f.relative_to(self.path).parts or finished & {*f.parents}]
        for file in files:
            self.kinds.setdefault(kind_of(file.relative_to(self.path).as_posix()), []).append(file)
        above = {self.path, *self.path.parents}
        self.kinds[LOST] = sorted(finished)
        self.kinds[FOLDERS] = sorted({folder for file in files for folder in file.parents} - above)

    def _there(self) -> list[Path]:
        return sorted(file for file in self.path.rglob("*") if file.is_file())

    def restore(self) -> None:
        """Make it whole again."""
        for file in set(self._there()) - set(self._files):
            file.unlink()
        for file, (content, found) in self._files.items():
            if not file.is_file() or file.read_bytes() != content:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
                os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))

    def is_made_again(self, case: Case) -> bool:
        """Whether what is damaged is of no importance, or computed anew."""
        if case.kind == FOLDERS:
            inside = {kind_of(f.relative_to(self.path).as_posix()) for f in self._files if case.file in f.parents}
            return inside <= {*MADE_AGAIN, *UNREAD}
        return case.kind in UNREAD or case.kind in MADE_AGAIN


def contents(path: Path) -> dict[str, bytes]:
    """What the files of a directory hold."""
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def finished_directories(into: Path) -> list[Directory]:
    """Directories with finished runs: two of a former version, one that was just made, and a plan."""
    paths = (Path(shutil.copytree(BEFORE / name, into / name)) for name in ("icl", "text"))
    found = [Directory(path=path, older=contents(path)) for path in paths]
    of = quadratic.experiment(**MADE)
    store = Store.create(into / "made", of)
    runs = [store.add(arm, seed) for arm, seed in of.runs]
    begun = contents(store.path)
    for run in runs:
        work(run.path, study)
    (store.path / "notes.txt").write_text("of the user")
    return [*found, Directory(path=store.path, older=begun), *planned_directories(into)]


def planned_directories(into: Path) -> Iterator[Directory]:
    """A plan that was prolonged after its looks."""
    asked = {"evaluation": {"every": 1, "prompts": 50, "curve": None}}
    planned = planted_effects.experiment({"plain": 0, "near": 0.45}, seeds=2, **asked)
    settle = planted_effects.settle
    settle(into / "planned", planned, planted_effects.wished(until="0.1%", at_most=3))
    before = contents(into / "planned")
    settle(into / "planned", planned, planted_effects.wished(until="0.1%", at_most=4))
    yield Directory(path=into / "planned", older=before)


def laboratories(into: Path) -> Iterator[Directory]:
    """Real small directories of each laboratory, with their reports: trained together, and started from others."""
    from support import own_code, small_text

    import headway
    from faults import kills

    pruned = {"init_from": {"arm": "falling", "step": 20, "prune": {"by": "taylor", "keep": 0.5, "sequences": 8}}}
    arms = {"falling": {}, "small": {**pruned, "training": {"steps": 0}}}
    model = {"family": "gpt-2", "d_model": 8, "n_layers": 1, "n_heads": 2, "norm": "none", "mlp": "none", "tied": False}
    model |= {"positions": "joint", "n_positions": 5, "residual": False, "readout": 2}
    asked = {"task": {"kind": "parity", "n_bits": 4}, "model": model, "evaluation": {"every": 20}, "samples": None}
    known = {**asked, "arms": {"two": {}, "one": {"model": {"n_heads": 1}}}, "baseline": "two", "seeds": 3}
    code = into / "mine.py"
    code.write_text(own_code.ECHO)
    for name, of, how in (
        ("native", kills.icl(2000, 500), {"trainer": "fused"}),
        ("torch", kills.icl(60, 20), {"trainer": "torch"}),
        ("stories", small_text.experiment(arms=arms, seeds=3), {"together": 3, "look": True, "timing": True}),
        ("known", small_text.experiment(**known, plugins=[str(code)]), {"together": 3}),
    ):
        store = headway.run(of, into / name, workers=1, figures=name == "native", progress=False, **how)
        assert {run.status for run in store.runs()} == {"done"}, [run.message for run in store.runs()]
        yield Directory(path=into / name, older={})


def study(spec: Any, stored: Any) -> Study:
    """The quadratic one, with texts and a tokenizer."""
    plain = quadratic.study(spec, stored)
    writes = Measure(
        due=lambda step: step % 20 == 0,
        take=lambda: Measurements(samples=({"text": f"{spec.seed} at {plain.trainer.step}"}, {"text": "again"})),
    )
    return replace(plain, measures=(*plain.measures, writes), files={"tokenizer.json": '{"a": 0, "b": 1}\n'})


def case_of(directories: Sequence[Directory], kind: str, damage: str, chance: random.Random) -> Case | None:
    """A random file of a kind, with a damage; None where there is none."""
    places = [directory for directory in directories if directory.kinds.get(kind)]
    if not places:
        return None
    directory = chance.choice(places)
    file = chance.choice(directory.kinds[kind])
    if damage == "older":
        return Case(
            kind=kind, damage=damage, file=file, other=directory.older.get(str(file.relative_to(directory.path)))
        )
    others = [other for place in places for other in place.kinds[kind] if other != file and other.is_file()]
    return Case(kind=kind, damage=damage, file=file, other=chance.choice(others).read_bytes() if others else None)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a directory says, and what is said about it."""

    content: str
    words: tuple[str, ...]


NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?")


def without_rounding(found: re.Match[str]) -> str:
    """Return a number with 12 digits: sums that are computed anew may differ in the last bits, by where arrays lie."""
    value = float(found[0])
    return f"{value:.12g}" if abs(value) > 1e-12 else "0"


def look(directory: Path) -> Seen:
    """Compare a directory, ask for its status, and read what a report shows of its finished runs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            store = Store.open(directory)
            said = io.StringIO()
            Console(file=said, width=1000).print(status_table(store))
            found = results.write(store).to_json()
            words = found.pop("warnings")
            written = json.loads((directory / "results.json").read_text())
            assert {**found, "warnings": words} == {key: value for key, value in written.items() if key != "digest"}
            timings = {arm: timing for arm, timing in timings_of_arms(directory).items() if timing is not None}
            seen = [found, timings, *(everything(run) for run in store.runs() if run.status == "done")]
        except UserError as error:
            return Seen(content="", words=(str(error),))
    warned = tuple(line for line in said.getvalue().splitlines() if line.startswith("warning"))
    return Seen(
        content=NUMBER.sub(without_rounding, repr(seen)), words=(*words, *warned, *(str(one.message) for one in caught))
    )


def everything(run: Run) -> dict[str, Any]:
    """All that can be read of a finished run."""
    steps = [*((step, run.head_arrays(step)) for step in run.head_steps()), (-1, run.weights())]
    steps += [(-1 - step, run.weights(step)) for step in run.weight_steps()]
    tokenizer = run.path / "tokenizer.json"
    return {
        "run": (run.name, run.seed, run.id, run.message, run.config, run.execution, run.metrics, run.log_every),
        "records": run.records(),
        "samples": run.samples(),
        "curves": run.curves(),
        "trained": run.trained,
        "tokenizer": tokenizer.read_bytes() if tokenizer.exists() else None,
        "arrays": {
            (step, name): hashlib.sha256(array.tobytes()).hexdigest()
            for step, found in steps
            for name, array in sorted(found.items())
        },
    }


class Finished:
    """Finished directories to be damaged, one file at a time, and made whole again."""

    def __init__(self, into: Path, more: Sequence[Directory] = ()):
        self.directories = [*finished_directories(into), *more]
        self.cases: list[tuple[Case, Outcome]] = []

    def outcome(self, kind: str, damage: str, chance: random.Random) -> Outcome | None:
        """What becomes of a random damage; None where no file of the kind can be damaged so."""
        case = case_of(self.directories, kind, damage, chance)
        if case is None:
            return None
        directory = next(each for each in self.directories if case.file.is_relative_to(each.path))
        try:
            if not case.apply(chance):
                return None
            found = self._judged(case, directory)
        finally:
            directory.restore()
        self.cases.append((case, found))
        return found

    def _judged(self, case: Case, directory: Directory) -> Outcome:
        named = [damage for looked in _looked_at(directory.path) for damage in looked.damages]
        seen, whole = look(directory.path), directory.whole
        said = bool(set(seen.words) - set(whole.words))
        if (seen.content != whole.content and not said) or _counts(case, directory.path):
            return "believed"
        if not named and not directory.is_made_again(case):
            return "overlooked"
        return "noticed" if named or said else "harmless"


def _looked_at(path: Path) -> list[Any]:
    try:
        return list(verify(path))
    except UserError as error:
        return [Looked(damages=(str(error),))]


def _counts(case: Case, directory: Path) -> bool:
    """Whether a run that was damaged is used all the same."""
    parts = case.file.relative_to(directory).parts
    if parts[0] != "runs" or len(parts) < 3 or case.kind in UNREAD or (case.kind == FOLDERS and "lease" in parts):
        return False
    arm, seed = parts[1], int(parts[2].removeprefix("seed-"))
    try:
        runs = Store.open(directory).runs()
    except UserError:
        return False
    return any((run.name, run.seed, run.status) == (arm, seed, "done") for run in runs)


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
        held = place.read_bytes() if place.exists() else None
        if not Case(kind=kind, damage=damage, file=file, other=held).apply(chance):
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
    work_module.CHECKPOINT_EVERY_S, os.fsync = 0.0, lambda fd: None
    try:
        yield
    finally:
        work_module.CHECKPOINT_EVERY_S, os.fsync = every, fsync


Counts = dict[tuple[str, str], Counter[Outcome]]


def damages(n: int, seed: int, into: Path, resumes: int) -> tuple[Counts, Counts]:
    """The outcomes of random damages by kind of file and of damage: of finished directories, and before a resume."""
    chance = random.Random(seed)
    with hurried():
        found = Finished(into / "finished", list(laboratories(into)))
        finished = _counted(found.outcome, KINDS, n, chance)
        for case, outcome in found.cases:
            if outcome in ("believed", "overlooked"):
                print(f"{outcome}: {case.damage} of {case.file}")
        return finished, _counted(Interrupted(into / "interrupted").outcome, RUN_FILES, resumes, chance)


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
