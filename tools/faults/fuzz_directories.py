"""Hostile results directories: no verb may touch what stands outside of one, end in a traceback, or not end.

    python benchmarks/faults.py directories --n 5000

A case is a small finished directory, of one laboratory or of a plugin, with an x-ray beside it. One to three things in
it become hostile: a link to a file, to a folder or to nothing, a second name of a file outside, a pipe, a socket, a
folder for a file, or a name inside a file that leads out, signed again so that Headway believes it. A verb then reads
or writes the directory, in a process that is forked from one that has loaded everything; runs are trained in others.

A tree of files outside must afterwards be as it was: names, contents, times, rights and links from elsewhere. What one
of its files says must not be told.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import stat
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.extend([str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "tests")])

from support import own_code

from faults import kills
from faults.fuzz_experiments import Finding
from headway.base.files import Content
from headway.base.identity import DIGEST, signed
from headway.config.yaml import write_yaml
from headway.execute.places import LocalPlace, LocalWorker, PersistentPlace
from headway.store.run import Run, document

SECONDS_OF_CPU = 30
SECONDS = 180.0
"""Of a case: a machine that others use, too, makes one wait."""
SECRET = "canary-5f0c2a"
"""What the files outside say."""

_SHARED = {"logging": {"every": 2}, "seeds": 2}
DOCUMENTS: dict[str, dict[str, Any]] = {
    "icl": {
        "name": "icl",
        "task": {"kind": "regression", "d_x": 2, "n_pairs": 4},
        "model": {"family": "icl", "n_heads": 1},
        "training": {"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 4, "steps": 20},
        "evaluation": {"every": 10, "prompts_during": 10, "prompts": 20, "curve": None},
        "probes": {"every": 10},
        "arms": {"one": {}, "two": {"model": {"n_heads": 2}}},
        "baseline": "one",
        **_SHARED,
    },
    "text": {
        "name": "text",
        "task": {"kind": "text", "corpus": "stories", "stories": 40, "tokenizer": "bytes", "n_ctx": 16},
        "model": {"family": "gpt-neo", "d_model": 8, "n_layers": 1, "n_heads": 2},
        "training": {"optimizer": "adamw", "learning_rate": 1e-2, "batch_size": 2, "steps": 4},
        "evaluation": {"every": 2, "sequences_during": 2, "sequences": 4},
        "probes": {"every": 2, "diversity": True},
        "samples": {"tokens": 4},
        "arms": {"two": {}, "one": {"model": {"n_heads": 1}}},
        "baseline": "two",
        **_SHARED,
    },
    "plugin": {**own_code.DOCUMENT, "seeds": 2},
}

# What is outside, and how it is seen to be untouched.


def make_outside(folder: Path) -> None:
    """A tree of files of every kind that a directory has."""
    for name in ("secret.txt", "folder/figure.png", "folder/sub/one.txt", "empty.json", "dropped/one/seed-0/run.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(SECRET)
    for name in ("mine.json", "000000002.json", "folder/plan.json", "folder/000001.json", "folder/000000002.json"):
        (folder / name).write_text(json.dumps({"schema": 1, "step": 0, "said": SECRET}) + "\n")
    (folder / "000000002.safetensors").write_bytes(b"\0" * 64)
    (folder / ".x.tmp").write_text(SECRET)
    (folder / "folder" / ".x.tmp").write_text(SECRET)


def snapshot(folders: Sequence[Path], inside: Sequence[Path]) -> dict[str, Any]:
    """What stands in folders; links that lead there from inside a case do not count, since those may be replaced."""
    links = Counter[int]()
    for above in inside:
        links.update(found.st_ino for path in _walk(above) if stat.S_ISREG((found := path.lstat()).st_mode))
    seen = {}
    for path in (path for folder in folders for path in [folder, *_walk(folder)]):
        found = path.lstat()
        what: Any = None
        if stat.S_ISREG(found.st_mode):
            what = hashlib.sha256(path.read_bytes()).hexdigest(), found.st_nlink - links[found.st_ino]
        elif stat.S_ISLNK(found.st_mode):
            what = os.readlink(path)
        seen[str(path)] = (found.st_mode, found.st_ino, found.st_mtime_ns, what)
    return seen


def _walk(folder: Path) -> list[Path]:
    return [Path(above) / name for above, folders, names in os.walk(folder) for name in (*folders, *names)]


# Mutations. Each takes the case's folder of what is hostile, the outside and a source of chance.


def _hostile_names(place: Path, outside: Path, draw: random.Random) -> str:
    """A name that leads out, from where a file stands, from its directory, or from anywhere."""
    target = draw.choice([path for path in _walk(outside) if path.is_file()] + [outside, outside / "folder"])
    away = os.path.relpath(target, draw.choice([place, *list(place.parents)[:5]]))
    return draw.choice((
        str(target), away, f"./{away}", f"x/../{away}", f"figures/{away}", "figures/..", "..", ".", "/", "", "~",
        "/dev/zero", "../" * 12 + "dev/zero", "a\0b", "x" * 300, "seed-0",
    ))  # fmt: skip


def _target(path: Path, outside: Path, draw: random.Random) -> str:
    """What a link leads to."""
    file = draw.choice([other for other in _walk(outside) if other.is_file()])
    return draw.choice((
        str(file), os.path.relpath(file, path.parent), str(outside), str(outside / "folder"),
        str(outside / "made-anew.txt"), str(outside / "no" / "such"), path.name, ".", "..", "/dev/zero", "/dev/full",
        "/proc/self/mem", "/etc/passwd", "/dev/stdin",
    ))  # fmt: skip


def _gone(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)


def linked(path: Path, outside: Path, draw: random.Random) -> None:
    """A link, of a folder or its content moved out, or of what is not there."""
    if path.is_dir() and draw.random() < 0.7:
        moved = outside / f"moved-{draw.randrange(10**6)}"
        shutil.move(path, moved)
        path.symlink_to(moved)
        return
    if path.is_file() and draw.random() < 0.4:
        moved = outside / f"moved-{draw.randrange(10**6)}-{path.name}"
        shutil.move(path, moved)
        path.symlink_to(moved)
        return
    _gone(path)
    path.symlink_to(_target(path, outside, draw))


def hard_linked(path: Path, outside: Path, draw: random.Random) -> None:
    """A second name of a file outside, which may say the same as before."""
    if path.is_file() and draw.random() < 0.6:
        other = outside / f"same-{draw.randrange(10**6)}"
        shutil.copy2(path, other)
    else:
        other = draw.choice([each for each in _walk(outside) if each.is_file() and not each.is_symlink()])
    _gone(path)
    os.link(other, path)


def odd(path: Path, _: Path, draw: random.Random) -> None:
    """A pipe, a socket, or a folder for a file and a file for a folder."""
    was_folder = path.is_dir()
    _gone(path)
    match draw.randrange(4):
        case 0 | 1:
            os.mkfifo(path)
        case 2:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as made:
                made.bind(str(path))
        case _ if was_folder:
            path.write_text("no folder")
        case _:
            (path / "inner").mkdir(parents=True)


def _leaves(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [leaf for key, inner in items for leaf in _leaves(inner, (*at, key))]
    return [*below, *((*at, key) for key, inner in items if isinstance(inner, str | list | dict))]


def named(path: Path, outside: Path, draw: random.Random) -> None:
    """A name or value inside a JSON or YAML file that leads out; the file is signed again."""
    if path.name == "experiment.yaml":
        _named_in_document(path, outside, draw)
        return
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return
    for _ in range(draw.choice((1, 1, 2, 4))):
        if not (leaves := _leaves(content)):
            break
        *above, last = draw.choice(leaves)
        holder = content
        for key in above:
            holder = holder[key]
        hostile: Any = _hostile_names(path.parent, outside, draw)
        if isinstance(holder, dict) and draw.random() < 0.5:
            holder[str(hostile)] = holder.pop(last)
        elif last in (DIGEST, "seal"):
            continue
        else:
            holder[last] = hostile
    _write_signed(path, content)


def _write_signed(path: Path, content: Any) -> None:
    if path.name == "run.json" and isinstance(content, dict):
        from headway.store.run import signed_text

        path.write_text(signed_text({key: value for key, value in content.items() if key not in (DIGEST, "schema")}))
        return
    if isinstance(content, dict) and DIGEST in content:
        content = signed({key: value for key, value in content.items() if key != DIGEST})
    path.write_text(json.dumps(content))
    if path.name == "seal.json" and isinstance(content, dict) and DIGEST in content:
        with contextlib.suppress(OSError, ValueError, TypeError):
            run = json.loads((path.parent / "run.json").read_bytes())
            _write_signed(path.parent / "run.json", {**run, "seal": content[DIGEST]})


def _named_in_document(path: Path, outside: Path, draw: random.Random) -> None:
    try:
        _, _, text = path.read_text().partition("\n")
    except (OSError, ValueError):
        return
    hostile = _hostile_names(path.parent, outside, draw).replace("\0", "")
    keys = [word for word in re.findall(r"[A-Za-z0-9_./-]+", text) if len(word) > 2]
    old = draw.choice(("one", "two", "h1", "h2", *re.findall(r"plugins/\S+\.py", text) * 4, *keys))
    text = text.replace(old, json.dumps(hostile), draw.choice((1, -1)))
    path.write_text(f"# SHA-256 of what follows: {Content.of(text.encode()).sha256}\n{text}")


def planted(directory: Path, outside: Path, draw: random.Random) -> None:
    """A file that names others, as a stranger would make one: what was checked, an x-ray's."""
    names = [_hostile_names(directory / "figures", outside, draw) for _ in range(4)]
    names += [os.path.relpath(path, directory / "figures") for path in _walk(outside) if path.is_file()]
    match draw.randrange(3):
        case 0:
            place, content = ".checked.json", {"schema": 1, "runs": {name: {} for name in names}, "done": names}
        case 1:
            place, content = "xray.json", {"figures": [f"figures/{name}" for name in names] + names}
        case _:
            place = "dropped/one/seed-0/run.json"
            content = {"schema": 1}
    path = directory / place
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))


ABSENT = (
    "figures", "estimators", "looks", "looks/plan.json", "looks/seen-2.json", "timings",
    "timings/lease", "timings/one.log", "dropped", "dropped/one", "dropped/one/seed-0", "slurm", "plugins", ".lease",
    ".lease/000001.json", ".lease/000001.tmp", "results.json", "report.html", "look.html", ".checked.json", "runs/new",
    "runs/one/seed-1", "runs/two/seed-2", ".probe-x",
)  # fmt: skip
ABSENT_OF_RUN = (
    "lease", "lease/000001.json", "lease/000002.json", "lease/000002.tmp", "lease/x.tmp", "log.txt", "weights", "heads",
    "checkpoint", "checkpoint/000000004.json", "checkpoint/000000004.safetensors", "checkpoint/x", "samples.jsonl",
    "metrics.jsonl", "curves.json", "seal.json", "start.json", "tokenizer.json", "vocab.json", "merges.txt",
    "weights/000000002.safetensors", "heads/000000002.safetensors", ".run.json.tmp", "tokenizer_config.json",
)  # fmt: skip


def mutate(directory: Path, outside: Path, draw: random.Random) -> list[str]:
    """One to three hostile things in a directory; which."""
    told = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        runs = sorted(directory.glob("runs/*/seed-*"))
        there = [path for path in _walk(directory) if not path.is_symlink()]
        places = [draw.choice(there), directory / draw.choice(ABSENT)]
        if runs:
            places += [draw.choice(runs) / draw.choice(ABSENT_OF_RUN)] * 2
        path = draw.choice(places)
        change = draw.choice((linked, linked, linked, hard_linked, odd, named, named, planted))
        if change is named:
            files = [each for each in there if each.suffix in (".json", ".yaml")]
            path = draw.choice(files) if files else directory / "results.json"
        # What was there before may be a pipe or a link by now.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            change(directory if change is planted else path, outside, draw)
            told.append(f"{change.__name__} {path.relative_to(directory)}")
    return told


# Verbs.


def line_of(directory: Path, draw: random.Random, kind: str) -> list[str]:
    """A verb that reads or writes the directory, or the x-ray beside it."""
    runs = sorted(directory.glob("runs/*/seed-*")) or [directory / "runs/one/seed-0"]
    whole, run = str(directory), str(draw.choice(runs))
    asked, file = str(directory.parent / "xray"), str(directory.parent / "document.yaml")
    arm = Path(run).parent.name
    few = ["--sequences", "2", "--length", "8", "--text", str(directory.parent / "text.txt")]
    lines = {
        "status": ["status", whole],
        "compare": ["compare", whole],
        "report": ["report", whole, draw.choice(("--figures", "--no-figures"))],
        "verify": ["verify", whole],
        "drop": ["drop", whole, arm, *draw.choice(([], ["--seeds", "0"])), *draw.choice(([], ["--force"]))],
        "run": ["run", draw.choice((file, whole)), "--seeds", draw.choice(("2", "3")), "--workers", "1", "--no-look"],
        "worker": ["worker", whole],
        "plan": ["plan", whole, "--no-timing"],
        "show": ["show", str(directory / "experiment.yaml")],
        "submit": ["submit", whole, "--array", "1", "--time", "10"],
    }
    lines["run"] += ["--out", whole] if lines["run"][1] == file else []
    weights = [3, 4, 5, 3, 3, 5, 4, 1, 1, 1]
    if kind == "text":
        lines |= {
            "look": ["look", whole],
            "look run": ["look", run, *few, "--null-draws", "2", "--out", str(directory.parent / "look.html")],
            "xray": ["xray", run, *few, "--null-draws", "2", "--out", asked],
            "ablate": ["ablate", run, *few, "--out", asked],
            "prune": [
                "prune",
                run,
                "--by",
                "magnitude",
                "--keep",
                "1",
                *few,
                "--out",
                str(directory.parent / "pruned"),
            ],
            "generate": ["generate", run, "--tokens", "2"],
            "export": ["export", run, str(directory.parent / "exported")],
        }
        weights += [2, 1, 4, 1, 1, 2, 2]
    return draw.choices(list(lines.values()), weights)[0]


def prepare() -> None:
    """Load what verbs load, so that a process which is forked has it; workers are forked, and pictures not drawn."""
    for module in (
        *kills._LOADED, "headway.cli", "headway.api", "headway.analysis.xray", "headway.analysis.ablate",
        "headway.analysis.prune", "headway.analysis.look", "headway.api", "headway.report.experiment.page",
        "headway.report.models.xray", "headway.report.models.look", "headway.hf.write", "headway.adaptive.until",
        "headway.report.lm.report", "headway.report.regression.report", "headway.execute.sweep",
        "headway.models.generate",
    ):  # fmt: skip
        with contextlib.suppress(ModuleNotFoundError):
            import_module(module)
    import torch

    import headway.report.charts.page
    import headway.report.charts.parameters
    import headway.report.experiment.page

    torch.set_num_threads(1)
    whole = headway.report.experiment.page.figures
    headway.report.experiment.page.figures = lambda material: islice(whole(material), 2)  # the others are written alike
    headway.report.charts.page.svg_of = lambda spec: "<svg/>"
    headway.report.charts.page.convert = lambda svg, kind: svg.encode()
    headway.report.charts.parameters.svg_of = lambda spec: "<svg/>"
    headway.report.charts.parameters.convert = lambda svg, kind: svg.encode()
    LocalPlace.start = _start  # type: ignore[method-assign,assignment]
    PersistentPlace.start = lambda self, run, *, log, options=(): _start(self.place, run, log=log, options=options)  # type: ignore[method-assign]


def _start(place: LocalPlace, run: Path, *, log: Path, options: Sequence[str] = ()) -> LocalWorker:
    """As `LocalPlace.start`, by a fork."""
    from headway.base.files import appending
    from headway.execute import worker

    command = kills.arguments(place, run, options)
    with open(appending(log), "ab") as output:
        process = kills.Process(lambda: worker.main(command), output.fileno(), told=False)
    return LocalWorker(process=process)  # type: ignore[arg-type]


def _obey(line: list[str]) -> int:
    import headway.cli

    sys.argv = ["headway", *line]
    try:
        headway.cli.main()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(bool(left.code))
    except BaseException:  # noqa: BLE001 - whatever it is, it is a finding
        traceback.print_exc()
        return 99
    return 0


def verb(line: list[str], folder: Path, *, seconds: float = SECONDS) -> tuple[int | None, str]:
    """Do a verb in a process of its own, in a folder; its code, None where it did not end, and what was told."""
    output = folder / "told.txt"
    with open(output, "wb") as told:

        def work() -> int:
            os.chdir(folder)
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_OF_CPU, SECONDS_OF_CPU))
            return _obey(line)

        pid = kills._forked(work, told.fileno(), session=True)
    until, code = time.monotonic() + seconds, None
    while code is None and time.monotonic() < until:
        found, status = os.waitpid(pid, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if found else None
        time.sleep(0.002 if code is None else 0)
    with contextlib.suppress(ProcessLookupError):  # the session, with workers that were left
        os.killpg(pid, signal.SIGKILL)
    if code is None:
        os.waitpid(pid, 0)
    return code, output.read_text(errors="replace")


# Cases.


class Seeds:
    """Whole directories of some kinds, each with what stands beside it."""

    def __init__(self, folder: Path, kinds: Sequence[str]):
        self.folders = []
        for kind, content in ((kind, DOCUMENTS[kind]) for kind in kinds):
            case = folder / kind
            case.mkdir(parents=True)
            (case / "text.txt").write_text("Once upon a time there was a little dog. " * 5)
            if kind == "plugin":
                (case / "mine.py").write_text(own_code.ECHO)
            (case / "document.yaml").write_text(write_yaml(content))
            self._do(case, "run", "document.yaml", "--out", "directory", "--workers", "1", "--no-look")
            if kind == "text":
                run = "directory/runs/two/seed-0"
                few = ("--sequences", "2", "--length", "8", "--text", "text.txt")
                self._do(case, "xray", run, *few, "--null-draws", "2", "--out", "xray")
                self._do(case, "look", "directory")
            if kind == "icl":
                plan = ("--until", "50%", "--max-seeds", "3")
                self._do(case, "run", "document.yaml", "--out", "directory", "--workers", "1", "--no-look", *plan)
            _interrupt(case / "directory")
            self.folders.append(case)
            if kind != "plugin":  # what is loaded at the first report is not loaded in each process again
                with contextlib.chdir(case), _silence():
                    for name in ("status", "verify", "compare", "report"):
                        _obey([name, "directory"])

    @staticmethod
    def _do(case: Path, *line: str) -> None:
        code, told = verb(list(line), case)
        assert code == 0, f"{line} ended with {code}: {told}"


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    arguments = sys.argv
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield
    sys.argv = arguments


def _interrupt(directory: Path) -> None:
    """Let the last run be one that has yet to be judged: it is gone on with from its checkpoint."""
    run = Run.open(sorted(directory.glob("runs/*/seed-*"))[-1])
    (run.path / "seal.json").unlink()
    content = json.loads(document(run))
    _write_signed(run.path / "run.json", {**content, "status": "interrupted", "metrics": {}, "seal": None})


def tried(seeds: Seeds, case: Path, outside: Path, draw: random.Random) -> tuple[list[str], str | None]:
    """A random case: what was done, and what it did that none may do."""
    seed = draw.choice(seeds.folders)
    shutil.copytree(seed, case, symlinks=True)
    make_outside(outside)
    told = mutate(case / "directory", outside, draw)
    if (case / "xray").is_dir() and draw.random() < 0.5:
        told += [f"xray: {one}" for one in mutate(case / "xray", outside, draw)]
    line = line_of(case / "directory", draw, seed.name)
    (case / "directory").touch()
    before = snapshot([outside], [case])
    code, said = verb(line, case)
    after = snapshot([outside], [case])
    return [*told, *line], _problem(before, after, code, said, case)


def _problem(before: dict[str, Any], after: dict[str, Any], code: int | None, said: str, case: Path) -> str | None:
    if before != after:
        changed = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
        return (
            f"outside was touched: {[(path, before.get(path), after.get(path)) for path in changed[:3]]}\n{said[-999:]}"
        )
    if code is None:
        return f"it did not end: {said[-1500:]}"
    logs = [log for log in case.glob("directory/runs/*/seed-*/log.txt") if _is_ours(log)]
    for text in (said, *(log.read_text(errors="replace") for log in logs)):
        if "Traceback (most recent call last)" in text:
            return f"a traceback: {text[-2500:]}"
    if code not in (0, 1, 2, 3, 130):
        return f"it ended with {code}: {said[-1500:]}"
    if SECRET in said:
        return f"it told what a file outside says: {said[-1500:]}"
    return None


def _is_ours(log: Path) -> bool:
    return not log.is_symlink() and log.is_file() and log.stat().st_nlink == 1


def fuzz(
    *,
    directories: int,
    seed: int = 0,
    seconds: float = float("inf"),
    told: Callable[[str], None] | None = None,
    kinds: Sequence[str] = tuple(DOCUMENTS),
) -> tuple[int, list[Finding]]:
    """Try so many directories, or as many as there is time for; how many, and what was found."""
    draw, until, n, found = random.Random(seed), time.monotonic() + seconds, 0, []
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["HEADWAY_CACHE"] = str(Path(temporary) / "cache")
        prepare()
        seeds = Seeds(Path(temporary) / "seeds", kinds)
        while n < directories and time.monotonic() < until:
            case, outside = Path(temporary) / "case", Path(temporary) / "outside"
            what, problem = tried(seeds, case, outside, draw)
            n += 1
            if problem:
                found.append(Finding(problem=problem, case=what))
                if told:
                    told(f"finding {len(found)} (case {n}) {what}: {problem}")
                    (here / "findings").mkdir(exist_ok=True)
                    (here / "findings" / f"directory-{seed}-{len(found)}.txt").write_text(f"{what}\n{problem}\n")
            if told and n % 100 == 0:
                told(f"{n:,} tried, {len(found)} findings")
            for folder in (case, outside):
                shutil.rmtree(folder)
    return n, found


def main() -> int:
    """Fuzz by hand."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directories", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    asked = parser.parse_args()
    n, found = fuzz(**vars(asked), told=lambda text: print(text, flush=True))
    print(f"{n:,} tried, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
