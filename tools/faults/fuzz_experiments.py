"""Mutated experiment files and command lines; none may give a traceback, a hang or all memory.

    python tools/faults/fuzz_experiments.py --files 100000 --commands 10000

A case is a file, mutated in its bytes, lines, values or structure, that is loaded, shown and planned without a trial;
or a command line. An error for users is fine. Any other exception, more than 2 s of processor time, 500 MB more memory,
an error of more than 20,000 characters, or a document that is not read back as it was shown, is a finding; its input
is written into the folder of findings.
"""

import argparse
import contextlib
import io
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from headway.config.load import load, resolve
from headway.config.yaml import read_yaml, shipped
from headway.errors import HeadwayError, UserError
from headway.execute.costs import costs
from headway.report.plan import PlannedCosts

_LOADER, _DUMPER = getattr(yaml, "CSafeLoader", yaml.SafeLoader), getattr(yaml, "CSafeDumper", yaml.SafeDumper)
MOST_SECONDS = 2.0
MOST_BYTES = 500_000_000
VERBS = (
    *(f"headway.analysis.{name}" for name in ("open", "xray", "look", "ablate", "prune")),
    *("headway.hf.write", "headway.report.models.look", "headway.report.models.ablation"),
)
"""What verbs on models load."""
LONGEST_MESSAGE = 20_000

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 7, 10**9, 10**18, 2**63, 10**40, 1e300, 1e-300, 1e18, -1e30, 0.5, float("nan"),
    float("inf"), "", " ", "x", "x2", "x0.5", "x1e9", "x" + "9" * 500, "1e400", "9" * 5000, "y" * 100_000, "{{7*7}}",
    "{[a]: b}", "</script><script>", "../../..", "/dev/zero", "/", "~nobody/x", "a/" * 3000, "./" + "n" * 300,
    "\u202eevil", "e\u0301", "\U0001f600", "[", "*a", "&a", "!x", "%", "@", "`", "- -", "? ", ": ", "#", "null", "~",
    "1-2-4-8", "0", "0-0-0-0", "8:3", "8:0", "7x0", "4+0", "99999999999", "1-" * 3000 + "1", "openelm(1e300, 1)",
    "openelm(0.5, 4.0, 1e300)", "openelm(1e308, 1e308)", "ascending(1e18)", "ascending(90)", "descending(1e308)",
    "constant(0.1)", "linear(4, 1e9)", "delight(1e300, 1e-300, 1e300)", "linear(nan, inf)", "bpe-0", "bpe-999999999",
    "1/d_x", "d_head", "d_model", "none", "packed", "muon", "adamw", "llama", "icl", "text", "regression",
    [], {}, [[]], [{}], [None], [None, 256], [1] * 1000, [0.1] * 300, ["a"] * 300, {"kind": "identity"}, {"": ""},
    {1: 2}, {None: None}, {"kind": "power", "rho": 1e30}, {"kind": "matrix", "rows": [[1e30, 0], [0, 1]]},
    {"kind": "matrix", "rows": [[1e-30]]}, list(range(3000)), {f"k{i}": i for i in range(1000)},
)  # fmt: skip

RAW = (
    "{[a]: b}", "{{7*7}}", "!!int abc", "!!timestamp x", "!!binary x", "!!float x", "!!bool x", "!!null x", "!!set {a}",
    "!!omap [a: 1]", "!!python/object:os.system x", "!<tag> x", "&a [*a]", "*missing", "<<", "<<: {a: 1}", "9" * 5000,
    "[" * 500, "{a: " * 300, "- " * 300, '"\\U0011FFFF"', '"\\uD800"', '"\\0"', '"\\e[31m"', "%YAML 9." + "9" * 50,
    "---", "...", "\t", "\x00", "\ufeff", "\x85", "'", '"', "|", ">", "|9999999999", "? a", "{<<: [{a: 1}, {b: 2}]}",
    "[&x [1, 2, 3], *x, *x]", "0x1F", "0o17", "1:30:00", "=", "2024-01-01", "1_000", "_1", ".5e5", "+.inf", "-.nan",
)  # fmt: skip

PATHS = (
    "model.d_model", "model.n_heads", "model.n_layers", "training.steps", "training.learning_rate", "training",
    "task.n_ctx", "task.corpus", "task.tokenizer", "seeds", "logging.every", "probes", "arms.h1.label", "model", "task",
    "samples", "name", "controls", "groups.low.baseline", "evaluation.curve", "a" + ".a" * 3000, "", ".", "model.",
    "x" * 5000,
)  # fmt: skip


class TooLong(BaseException):
    """A case that took more than its processor time."""


def too_long(*_: Any) -> None:
    """What the alarms of a case call."""
    raise TooLong


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a case did that none may do."""

    problem: str
    case: Any


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _places(inner, (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _values(content: Any, draw: random.Random) -> Any:
    """One value replaced: by a hostile one, by one from elsewhere in the file, or by itself times something."""
    path = draw.choice(list(_places(content))[1:] or [()])
    if not path:
        return deepcopy(draw.choice(VALUES))
    holder, old = _at(content, path[:-1]), _at(content, path)
    replaced = draw.choice(VALUES)
    if draw.random() < 0.3:
        replaced = _at(content, draw.choice(list(_places(content))))
    elif isinstance(old, int | float) and draw.random() < 0.5:
        replaced = old * draw.choice((-1, 0, 3, 1000, 10**6, 10**12, 0.3))
    holder[path[-1]] = deepcopy(replaced)  # or it would be a part of itself
    return content


def _structure(content: Any, draw: random.Random) -> Any:
    """A key taken out, renamed, put elsewhere or wrapped."""
    path = draw.choice(list(_places(content))[1:] or [()])
    if not path:
        return content
    holder = _at(content, path[:-1])
    match draw.randrange(5):
        case 0:
            del holder[path[-1]]
        case 1 if isinstance(holder, dict):
            holder[draw.choice(("label", "model", "n_heads", "kind", "", "x" * 300, 7, str(path[-1])[:2]))] = (
                holder.pop(path[-1])
            )
        case 2:
            other = _at(content, draw.choice(list(_places(content))))
            if isinstance(other, dict):
                other[path[-1]] = deepcopy(holder[path[-1]])
        case 3:
            holder[path[-1]] = draw.choice(([holder[path[-1]]], {"model": holder[path[-1]]}))
        case _:
            size = sum(1 for _ in _places(holder[path[-1]]))
            many = {f"a{i}": holder[path[-1]] for i in range(draw.choice((3, 100, 3000) if size < 50 else (3,)))}
            content[draw.choice(("arms", "controls", "groups", "scales"))] = deepcopy(many)
    return content


def _lines(text: str, draw: random.Random) -> str:
    lines = text.split("\n")
    at = draw.randrange(len(lines))
    match draw.randrange(6):
        case 0:
            del lines[at]
        case 1:
            lines.insert(draw.randrange(len(lines) + 1), lines[at])
        case 2:
            lines[at] = " " * draw.choice((1, 2, 4, 40)) + lines[at]
        case 3:
            lines[at] = lines[at].lstrip()
        case 4:
            key, colon, _ = lines[at].partition(":")
            lines[at] = f"{key}{colon or ':'} {draw.choice(RAW)}"
        case _:
            lines.insert(at, draw.choice(RAW))
    return "\n".join(lines)


def _bytes(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8, 64))):
        at = draw.randrange(len(changed) + 1)
        match draw.randrange(4):
            case 0:
                changed[at:at] = bytes([draw.randrange(256)])
            case 1:
                del changed[at : at + draw.choice((1, 1, 5, 200))]
            case 2:
                changed[at:at] = changed[at : at + draw.choice((1, 10, 300))] * draw.choice((1, 3, 50))
            case _:
                changed[at : at + 1] = draw.choice(b"0123456789-:{}[]!&*'\"#|>%@`,. \n\t\xff").to_bytes(1, "big")
    return bytes(changed)


def mutated(draw: random.Random) -> bytes:
    """A shipped experiment with one to four mutations."""
    text = draw.choice(list(shipped().values())).read_text(encoding="utf-8")
    if draw.random() < 0.6:
        content = yaml.load(text, Loader=_LOADER)
        for _ in range(draw.choice((1, 1, 2, 3))):
            content = draw.choice((_values, _values, _structure))(content, draw)
            if not isinstance(content, dict):
                break
        text = yaml.dump(content, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
    while draw.random() < 0.3:
        text = _lines(text, draw)
    content = text.encode("utf-8", "surrogatepass")
    return _bytes(content, draw) if draw.random() < 0.25 else content


def command_line(draw: random.Random, file: str) -> list[str]:
    """A verb with arguments that hardly fit."""
    verb = draw.choice(
        ("list", "show", "plan", "run", "status", "compare", "report", "drop", "verify", "generate", "export", "xray",
         "look", "ablate", "prune", "x")
    )  # fmt: skip
    words = [str(value) for value in (*VALUES, *RAW) if "\0" not in str(value) and len(str(value)) < 120_000]
    name = draw.choice((*shipped(), file, file, draw.choice(words)))
    line = [verb] if verb == "list" else [verb, name]
    flags = ("--set", "--set", "--set", "--arms", "--control", "--seeds", "--scale", "--out", "--text", "--tokenizer",
             "--tokens", "--top-k", "--top-p", "--temperature", "--seed", "--workers", "--device", "--trainer",
             "--length", "--sequences", "--json", "--no-timing", "--until", "--max-seeds",
             "--by", "--keep", "--steps", "--heads", "--null-draws", "--force", "--", "--help")  # fmt: skip
    for _ in range(draw.choice((0, 1, 1, 2, 3))):
        flag, word = draw.choice(flags), draw.choice(words)
        line += [flag, f"{draw.choice(PATHS)}={word}" if flag == "--set" and draw.random() < 0.9 else word]
    if draw.random() < 0.1:
        line = [draw.choice(words) if draw.random() < 0.3 else word for word in line]
    return line


@cache
def slowness() -> float:
    """How many times slower this processor is than the one that limits of time were written on; at least 1."""

    def seconds() -> float:
        began = time.process_time()
        sum(i * i for i in range(500_000))
        return time.process_time() - began

    return max(1.0, min(seconds() for _ in range(5)) / 0.025)


def guarded(work: Callable[[], None], *, seconds: float = MOST_SECONDS, more_bytes: int = MOST_BYTES) -> str | None:
    """What a case did that it may not do; None for nothing."""
    seconds *= slowness()
    before = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    began = time.process_time()
    problem = None
    signal.signal(signal.SIGPROF, too_long)
    signal.signal(signal.SIGALRM, too_long)
    resource.setrlimit(resource.RLIMIT_AS, (before + more_bytes, hard))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 30 * seconds)  # for what waits, and takes no time of the processor
    try:
        work()
    except UserError as error:
        problem = wrong_with(str(error))
    except TooLong:
        problem = f"more than {seconds:g} s of processor time at\n" + traceback.format_exc()
    except MemoryError:
        problem = f"more than {more_bytes / 1e6:,.0f} MB at\n" + traceback.format_exc()
    except Exception:  # noqa: BLE001 - whatever it is, it is a finding
        problem = traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    if problem is None and time.process_time() - began > seconds:
        problem = f"{time.process_time() - began:.1f} s of processor time"
    return problem


def wrong_with(message: str) -> str | None:
    """What an error may not be: long, unprintable, with a value repeated whole, or a memory that was filled."""
    if len(message) > LONGEST_MESSAGE:
        return f"an error of {len(message):,} characters"
    if found := re.search(r"(..?)\1{150}", message):
        return f"an error that repeats a long value: {message[max(0, found.start() - 200) : found.start() + 100]}"
    if re.search("alloc.* memory|bad_alloc|MemoryError", message):
        return f"memory: {message[:500]}"
    message.encode()
    return None


def look_at(path: Path) -> None:
    """Load, show and plan a file, and read back what was shown."""
    experiment = load(path)
    shown = experiment.dump()
    again = resolve(read_yaml(shown), scale=None)
    ids, ids_again = ([arm.resolved_spec.id for arm in each.arms] for each in (experiment, again))
    if experiment.scale is None and ids_again != ids:
        raise AssertionError("what is shown is another experiment")
    planned = PlannedCosts(experiment=experiment, costs=costs(experiment, trial=False))
    planned.tables()
    list(planned.sentences())
    _ = planned.picture


def obey(line: list[str]) -> None:
    """Run a command line in this process; a run is resolved, and not trained, and a picture is not drawn."""
    import headway.api
    import headway.cli
    import headway.execute.costs
    import headway.report.charts.page
    import headway.report.charts.parameters

    def not_trained(*_: Any, **__: Any) -> Any:
        raise HeadwayError("a fuzzer trains nothing")

    headway.api.carry_out = not_trained
    headway.execute.costs._reason_not_to_try = lambda *_: "a fuzzer times nothing"
    # What draws pictures reserves gigabytes of addresses, and ends the process where it does not get them.
    headway.report.charts.parameters.svg_of = lambda spec: "<svg/>"
    headway.report.charts.parameters.convert = lambda *_: b""
    headway.report.charts.page.render = lambda *_, **__: "<html></html>"
    headway.report.charts.parameters.render = lambda *_, **__: "<html></html>"
    sys.argv = ["headway", *line]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            headway.cli.main()
    except SystemExit as left:
        if left.code not in (None, 0, 1, 2):
            raise AssertionError(f"it ended with {left.code}") from None
        if left.code and (problem := wrong_with(said.getvalue())):
            raise AssertionError(problem) from None


def fuzz(
    *,
    files: int,
    commands: int,
    seed: int = 0,
    seconds: float = float("inf"),
    told: Callable[[str], None] | None = None,
) -> tuple[int, list[Finding]]:
    """Try so many files and command lines, or as many as there is time for; how many, and what was found."""
    draw, until, tried, found = random.Random(seed), time.monotonic() + seconds, 0, []
    here = Path.cwd()
    for module in VERBS if commands else ():
        import_module(module)  # which loads torch: not a case's own time and memory
    kinds = ["file"] * files + ["command"] * commands
    draw.shuffle(kinds)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        file = Path(folder) / "mutated.yaml"
        for kind in kinds:
            if time.monotonic() > until:
                break
            content = mutated(draw)
            file.write_bytes(content)
            line = command_line(draw, str(file)) if kind == "command" else None
            problem = guarded(partial(obey, line) if line else partial(look_at, file))
            tried += 1
            if problem:
                found.append(Finding(problem=problem, case=(line, content)))
                if told:
                    (here / "findings").mkdir(exist_ok=True)
                    (here / "findings" / f"{seed}-{len(found)}.yaml").write_bytes(content)
                    told(f"finding {len(found)} {line and [w[:80] for w in line]}: {problem[-1500:]}")
            if told and tried % 1000 == 0:
                told(f"{tried:,} tried, {len(found)} findings")
    return tried, found


def main() -> int:
    """Fuzz by hand."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--commands", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    asked = parser.parse_args()
    told = lambda text: print(text, flush=True)  # noqa: E731
    tried, found = fuzz(**vars(asked), told=told)
    print(f"{tried:,} tried, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
