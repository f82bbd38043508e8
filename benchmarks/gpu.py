"""The kit for a GPU that is there for half an hour: what it measures, how it resumes, and what travels to it.

    python benchmarks/gpu.py OUT                    # every piece that is not done, most telling first
    python benchmarks/gpu.py OUT --piece speed      # one piece; --minutes N: as many as fit
    python benchmarks/gpu.py OUT --tiny             # all of it in the small, on a CPU
    python benchmarks/gpu.py --pack PACK            # what a bare machine needs; --text, --tokenizer, --python
    python benchmarks/gpu.py FOLDER --install PACK  # unpack it there; the kit then takes --data FOLDER

A piece is a list of cells. Each cell is written to `OUT/PIECE.json` as soon as it is measured. A killed kit loses one
cell, and the next call resumes behind it. Cells that failed are tried again. A piece runs in a process of its own, for
eight minutes at most. If that process breaks down, because its GPU no longer answers, say, the cell has failed, and
another process measures the rest. docs/gpu.md describes the pieces.

This file starts, records and unpacks with nothing but Python, and imports Headway to measure and to pack. The pieces
that train stand in gpu_pieces.py, those that compare devices in gpu_equal.py.
"""

import argparse
import importlib
import importlib.util
import itertools
import json
import lzma
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PIECES = {
    "equal": ("gpu_equal", "the GPU's values and gradients beside the CPU's in float64; repeats; resuming"),
    "speed": ("gpu_pieces", "tokens per second and memory, beside Hugging Face"),
    "widths": ("gpu_pieces", "attention and steps against the width of a head"),
    "together": ("gpu_pieces", "small models trained as one program"),
    "models": ("gpu_equal", "x-ray, ablate, patch and prune of a large model"),
    "published": ("gpu_pieces", "one run of head-progression at its published size"),
}
"""By name: the module, and what is measured."""
PIECE_S = 8 * 60.0
SHORTEST_S = 30.0
"""No piece begins when less is left."""
MOST_DEATHS = 5
BROKEN = 3
"""Exit code of a process whose GPU no longer answers."""

Row = Mapping[str, Any]


# What was measured


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def read_record(out: Path, piece: str) -> dict[str, Any] | None:
    path = out / f"{piece}.json"
    return json.loads(path.read_text()) if path.is_file() else None


def write_record(out: Path, record: Mapping[str, Any]) -> None:
    path = out / f"{record['piece']}.json"
    before = path.with_suffix(".tmp")
    before.write_text(json.dumps(record, indent=1))
    before.replace(path)


def begun_record(out: Path, piece: str, device: Mapping[str, Any], cells: Mapping[str, float]) -> dict[str, Any]:
    """Return the record of a piece on this device, with a place for each cell; cells are given by their estimate."""
    record = read_record(out, piece) or {"piece": piece, "about": PIECES[piece][1], "device": dict(device), "cells": {}}
    if record["device"] != device:
        sys.exit(
            f"{out}/{piece}.json was measured on {record['device']}, and this is {dict(device)}; give another folder"
        )
    kept = record["cells"]
    record["cells"] = {
        name: {**kept.get(name, {"state": "left"}), "estimate_s": estimate} for name, estimate in cells.items()
    }
    return record


def measure(out: Path, piece: str, seconds: float, options: argparse.Namespace) -> int:
    """Measure the cells of a piece that are not done, as far as the time goes, in this process; an exit code."""
    sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]
    pieces = importlib.import_module("gpu_pieces")
    data = options.data or own_data(pieces.scratch(), tiny=options.tiny)
    kit = pieces.Kit.made(tiny=options.tiny, data=data, device=options.device)
    cells = {cell.name: cell for cell in getattr(importlib.import_module(PIECES[piece][0]), piece)(kit)}
    record = begun_record(out, piece, kit.described(), {name: cell.estimate_s for name, cell in cells.items()})
    began = time.monotonic()
    for name, cell in cells.items():
        kept, left = record["cells"][name], seconds - (time.monotonic() - began)
        met_before = kept["state"] == "failed" and kept["date"] >= options.since
        if kept["state"] == "done" or met_before or (not options.tiny and cell.estimate_s > left):
            continue
        started = time.monotonic()
        kept |= {"state": "running", "date": now()}
        write_record(out, record)
        try:
            found: dict[str, Any] = {"state": "done", "rows": [dict(row) for row in cell.measure()]}
        except Exception as error:  # noqa: BLE001 - whatever it is, the other cells are worth measuring
            found = {"state": "failed", "error": pieces.told(error)}
        for gone in ("error", "rows"):
            kept.pop(gone, None)
        kept |= {**found, "seconds": round(time.monotonic() - started, 2)}
        write_record(out, record)
        print_cell(name, kept)
        if kept["state"] == "failed" and kit.is_broken():
            return BROKEN
    return 0


# Tables


def shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "yes" if value is True else "no" if value is False else "–" if value is None else str(value)
    if isinstance(value, int) or (abs(value) >= 1000 and value == value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def print_cell(name: str, kept: Mapping[str, Any]) -> None:
    print(f"\n{name}: {kept.get('seconds', 0):.0f} s (on an H200 estimated {kept['estimate_s']:.0f} s)", flush=True)
    if kept["state"] != "done":
        print(f"  {kept['state']}: {kept.get('error', '')}", flush=True)
        return
    rows = [{key: shown(value) for key, value in row.items()} for row in kept["rows"]]
    headings: dict[str, int] = {}
    for row in rows:
        for key, text in row.items():
            headings[key] = max(headings.get(key, len(key)), len(text))
    lines = [{key: key for key in headings}, *rows] if rows else []
    for line in lines:
        print("  " + "  ".join(line.get(key, "").rjust(width) for key, width in headings.items()).rstrip())
    sys.stdout.flush()


def summary(out: Path) -> list[str]:
    """Return a line for each piece: what is done of it, what failed and what is left."""
    lines = []
    for piece in PIECES:
        record = read_record(out, piece)
        if record is None:
            lines.append(f"{piece:9}  left: all of it ({PIECES[piece][1]})")
            continue
        states: dict[str, list[str]] = {}
        for name, kept in record["cells"].items():
            states.setdefault(kept["state"], []).append(name)
        total = sum(kept["estimate_s"] for kept in record["cells"].values())
        told = [f"{len(states.pop('done', []))} of {len(record['cells'])} done (about {total:.0f} s on an H200)"]
        told += [f"{state}: {', '.join(names)}" for state, names in states.items()]
        lines.append(f"{piece:9}  {'; '.join(told)}")
    return lines


# Pieces one after the other


def options_of(asked: argparse.Namespace) -> list[str]:
    chosen = ["--tiny"] if asked.tiny else []
    chosen += ["--device", asked.device] if asked.device else []
    return chosen + (["--data", str(asked.data.resolve())] if asked.data else [])


def environment(data: Path | None, *, tiny: bool) -> dict[str, str]:
    """Return the environment of a piece: the checkout, what was installed beside the data, and no network."""
    site = [] if data is None else [str(data.resolve() / "site")]
    path = [str(ROOT / "src"), *site, *filter(None, [os.environ.get("PYTHONPATH")])]
    chosen = {"PYTHONPATH": os.pathsep.join(path), "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    # Other work on a small machine: two threads then wait for one another.
    return {**os.environ, **chosen, **({"OMP_NUM_THREADS": "1"} if tiny else {})}


def carry_out(out: Path, piece: str, seconds: float, asked: argparse.Namespace) -> bool:
    """Measure a piece in processes of its own: if one breaks down at a cell, the next goes on behind it.

    Return whether the piece could begin.
    """
    until, since = time.monotonic() + seconds, now()
    for _ in range(MOST_DEATHS):
        left = until - time.monotonic()
        how = ["--child", piece, "--seconds", str(left), "--since", since]
        command = [sys.executable, __file__, str(out), *how, *options_of(asked)]
        process = subprocess.Popen(command, env=environment(asked.data, tiny=asked.tiny))
        try:
            code = process.wait(left + SHORTEST_S)
            why = f"its process ended with exit code {code}"
        except subprocess.TimeoutExpired:
            code, why = BROKEN, f"it was still at work after {left + SHORTEST_S:.0f} s"
        finally:
            process.kill()
            process.wait()
        record = read_record(out, piece) or {"cells": {}}
        states = [kept["state"] for kept in record["cells"].values()]
        if code == 0:
            return True
        if "running" not in states and code != BROKEN:
            return False
        for kept in record["cells"].values():
            if kept["state"] == "running":
                kept |= {"state": "failed", "error": why}
        write_record(out, record)
        if until - time.monotonic() < SHORTEST_S or "left" not in states:
            break
    return True


def run_pieces(asked: argparse.Namespace) -> int:
    out: Path = asked.out
    out.mkdir(parents=True, exist_ok=True)
    until, begun = time.monotonic() + 60 * asked.minutes, True
    for piece in [asked.piece] if asked.piece else PIECES:
        left = until - time.monotonic()
        if left < SHORTEST_S:
            break
        print(f"\n== {piece}: {PIECES[piece][1]}", flush=True)
        begun = carry_out(out, piece, min(PIECE_S, left - SHORTEST_S / 2), asked) and begun
    print("\n" + "\n".join(summary(out)))
    records = filter(None, (read_record(out, piece) for piece in PIECES))
    failed = any(kept["state"] == "failed" for record in records for kept in record["cells"].values())
    return int(failed or not begun)


# Data: token ids in a file, and a tokenizer of GPT-2's size

VOCAB = 50_257


def make_data(folder: Path, *, text: str | None, tokenizer: str | None, stories: int) -> None:
    """Write `tokens.npy`, the folder `tokenizer` and `data.json`.

    Without a tokenizer one is trained on the text. It is filled up to the size of GPT-2's with tokens that no text has,
    so that models have their published sizes.
    """
    import numpy as np

    from headway.data.corpus import find_corpus
    from headway.data.tokenizer import Tokenizer, trained_bpe

    corpus = find_corpus(text or "stories", limit=stories if text is None else None, asked="--text")
    if tokenizer is None:
        encoder = filled_up(trained_bpe(itertools.islice(corpus.documents(), stories), 1024))
    else:
        encoder = Tokenizer.load(Path(tokenizer))
    if encoder.vocab_size > 1 << 16:
        sys.exit(f"--tokenizer {tokenizer}: it has {encoder.vocab_size:,} tokens, more than 16 bits hold")
    ids = [
        np.asarray([*encoder.encode(document), encoder.end_of_text], np.uint16)
        for document in itertools.islice(corpus.documents(), stories)
    ]
    (folder / "tokenizer").mkdir(parents=True, exist_ok=True)
    encoder.save(folder / "tokenizer")
    np.save(folder / "tokens.npy", np.concatenate(ids))
    facts = {"text": text or "own stories", "documents": len(ids), "tokens": sum(map(len, ids))}
    (folder / "data.json").write_text(json.dumps({**facts, "vocabulary": encoder.vocab_size}))


def filled_up(small: Any) -> Any:
    """Return a tokenizer with further tokens, which no text has."""
    import tokenizers

    content = json.loads(small.inner.to_str())
    content["model"]["vocab"] |= {f"<unused {number}>": number for number in range(small.vocab_size, VOCAB)}
    return type(small).of(tokenizers.Tokenizer.from_str(json.dumps(content)), "the pack's")


def own_data(folder: Path, *, tiny: bool) -> Path:
    """Return data of Headway's own stories, made once on this machine."""
    data = folder / f"data-{'tiny' if tiny else 'whole'}"
    if not (data / "data.json").is_file():
        make_data(data, text=None, tokenizer=None, stories=400 if tiny else 20_000)
    return data


# What travels

MOST_BYTES = 45_000_000
WHEELS = (
    *("annotated-types", "jaxtyping", "numpy", "psutil", "pydantic", "pydantic-core", "PyYAML", "safetensors"),
    *("tokenizers", "typing-extensions", "typing-inspection", "wadler-lindig"),
    *("pytest", "iniconfig", "packaging", "pluggy", "Pygments", "hypothesis", "sortedcontainers", "beartype"),
)
"""What the pieces import beside torch, and what torch brings; the second half is for the suite's GPU tests."""
TOGETHER = {"pydantic": ("pydantic_core", "annotated_types", "typing_inspection"), "jaxtyping": ("wadler_lindig",)}
"""Modules that are taken from the pack with another, whatever the machine has."""


def pinned() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {line.partition("==")[0].replace("_", "-").lower(): line for line in lines if "==" in line}
    return [pins.get(name.lower(), name) for name in WHEELS]


def fetch_wheels(folder: Path, python: str) -> None:
    """Download the wheels for a Linux machine with an x86-64 processor through pip."""
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in (28, 27, 26, 24, 17, 12, 5)] + ["manylinux2014_x86_64"]
    tags = [word for tag in platforms for word in ("--platform", tag)]
    target = ["--no-deps", "--only-binary=:all:", "--python-version", python, "--implementation", "cp"]
    abis = ["--abi", f"cp{python.replace('.', '')}", "--abi", "abi3", "--abi", "none"]
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*download, *target, *abis, *tags, "--dest", str(folder), *pinned()], check=True)


def pack(asked: argparse.Namespace) -> int:
    """Write tokens, tokenizer and wheels into a folder."""
    folder: Path = asked.pack
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder} is not empty; give another folder")
    with tempfile.TemporaryDirectory() as made:
        make_data(Path(made), text=asked.text, tokenizer=asked.tokenizer, stories=asked.stories)
        folder.mkdir(parents=True, exist_ok=True)
        with lzma.open(folder / "tokens.npy.xz", "wb", preset=6) as packed:
            packed.write((Path(made) / "tokens.npy").read_bytes())
        shutil.copytree(Path(made) / "tokenizer", folder / "tokenizer")
        shutil.copy(Path(made) / "data.json", folder)
    if asked.wheels:
        fetch_wheels(folder / "wheels", asked.python)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > MOST_BYTES:
        sys.exit(f"{folder} has {size / 1e6:.0f} MB, and at most {MOST_BYTES / 1e6:.0f} travel; lower --stories")
    print(f"{folder}: {size / 1e6:.1f} MB. On the machine, in a checkout of this repository:")
    print(f"  python3 benchmarks/gpu.py /tmp/kit --install {folder}")
    print("  python3 benchmarks/gpu.py OUT --data /tmp/kit")
    return 0


def modules_of(wheel: zipfile.ZipFile) -> set[str]:
    """Return the modules that a wheel brings."""
    tops = {name.split("/")[0] for name in wheel.namelist() if not name.split("/")[0].endswith((".dist-info", ".data"))}
    return {top.partition(".")[0] for top in tops}


def chosen_wheels(wheels: Iterable[Path]) -> list[Path]:
    """Return the wheels whose modules this Python does not have, and those that come with them."""
    brings = {}
    for path in wheels:
        with zipfile.ZipFile(path) as wheel:
            brings[path] = {name for name in modules_of(wheel) if not name.startswith("_")}
    lacking = {name for names in brings.values() for name in names if importlib.util.find_spec(name) is None}
    lacking |= {name for first in lacking & TOGETHER.keys() for name in TOGETHER[first]}
    return [path for path, names in brings.items() if names & lacking]


def install(asked: argparse.Namespace) -> int:
    """Unpack what this machine lacks; nothing but Python is needed."""
    folder, source = asked.out, asked.install
    (folder / "site").mkdir(parents=True, exist_ok=True)
    taken = chosen_wheels(sorted((source / "wheels").glob("*.whl")))
    for path in taken:
        with zipfile.ZipFile(path) as wheel:
            wheel.extractall(folder / "site")
    (folder / "tokens.npy").write_bytes(lzma.decompress((source / "tokens.npy.xz").read_bytes()))
    shutil.copytree(source / "tokenizer", folder / "tokenizer", dirs_exist_ok=True)
    shutil.copy(source / "data.json", folder)
    print(f"{folder}: tokens, tokenizer, and of the wheels {', '.join(p.name.split('-')[0] for p in taken) or 'none'}")
    print(f"  export PYTHONPATH={folder / 'site'}:{ROOT / 'src'} HF_HUB_OFFLINE=1  # for headway itself")
    return 0


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", nargs="?", type=Path, help="the folder of the results, or with --install of the data")
    parser.add_argument("--piece", choices=tuple(PIECES), help="only this piece")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin nothing that ends later")
    parser.add_argument("--tiny", action="store_true", help="small, on a CPU: to see that it works")
    parser.add_argument("--device", help="cuda where there is a GPU, otherwise cpu")
    parser.add_argument("--data", type=Path, help="a folder that --install made; otherwise own stories are made")
    parser.add_argument("--summary", action="store_true", help="only what is done and left")
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="write what a bare machine needs")
    parser.add_argument("--text", help="the text of the pack; otherwise own stories")
    parser.add_argument("--tokenizer", help="the folder of its tokenizer; otherwise one is trained")
    parser.add_argument("--stories", type=int, default=20_000, help="documents that are packed")
    parser.add_argument("--python", default="3.12", help="the version on that machine")
    parser.add_argument("--no-wheels", dest="wheels", action="store_false", help="pack the data alone")
    parser.add_argument("--install", type=Path, metavar="PACK", help="unpack into the folder OUT")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--since", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args(given)
    if asked.out is None and asked.pack is None:
        parser.error("give a folder for the results")
    return asked


def main() -> int:
    asked = arguments()
    if asked.pack:
        return pack(asked)
    if asked.install:
        return install(asked)
    if asked.child:
        return measure(asked.out, asked.child, asked.seconds, asked)
    if asked.summary:
        print("\n".join(summary(asked.out)))
        return 0
    print(f"Python {platform.python_version()}, {platform.node()}")
    return run_pieces(asked)


if __name__ == "__main__":
    sys.exit(main())
