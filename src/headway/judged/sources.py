"""Tables of results from files, standard input, or folders in which each run has its files.

A file is CSV, TSV or other separated text, JSON, JSON lines or Parquet. A folder may hold event files of TensorBoard.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.config.yaml import read_yaml
from headway.errors import UserError
from headway.judged.table import Row, RunTable, decoded, flat, json_rows, separated_rows, table_of

SETTINGS = (
    "config.json",
    "config.yaml",
    ".hydra/config.yaml",
    "params.json",
    "args.json",
    "hparams.yaml",
    "wandb-metadata.json",
)
"""Files with the settings of a run, which become columns."""

SUMMARIES = (
    "trainer_state.json",
    "wandb-summary.json",
    "summary.json",
    "final.json",
    "results.json",
    "all_results.json",
    "eval_results.json",
)
"""Files with the final metrics of a run; histories, of any other name, win over them."""

RECORDS = (".jsonl", ".csv", ".tsv", ".ndjson")
"""Endings of files with a row for each step."""

MOST_RUNS = 20_000

MOST_BYTES = 2_000_000_000
"""Bytes of the largest file that is read."""

_SETTING = re.compile(r"([A-Za-z_][\w.]*)=([^,]+)")
_SEED = re.compile(r"(?:seed|s)[-_ ]?(\d+)", re.IGNORECASE)
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
"""Folders in which the trainer of transformers keeps the history up to a step."""


def read_table(source: str | Path) -> RunTable:
    """Read a table from a file, a folder, or `-`, the standard input.

    Raises:
        UserError: if it cannot be read, naming the line where that is known.
    """
    if str(source) == "-":
        return _of_text(sys.stdin.buffer.read(MOST_BYTES), "standard input")
    path = Path(source)
    if path.is_dir():
        return RunTable.of_rows(_rows_of_folder(path), path.name)
    if not path.exists():
        raise UserError(
            f"{source}: there is no such file or folder; give a table, a folder of runs, or - for the input"
        )
    if path.suffix.lower() in (".parquet", ".pq"):
        return table_of(_parquet(path), path.name)
    if ".tfevents." in path.name:
        raise UserError(f"{path}: give the folder of the event files, so that each run keeps its name")
    return _of_text(_content(path), path.name)


def _content(file: Path) -> bytes:
    if file.stat().st_size > MOST_BYTES:
        raise UserError(f"{file}: it has more than {MOST_BYTES / 1e9:g} GB; keep only the columns and rows you need")
    return file.read_bytes()


def _of_text(content: bytes, source: str) -> RunTable:
    text = decoded(content, source)
    if text.lstrip()[:1] in ("{", "["):
        return RunTable.of_rows(json_rows(text, source), source)
    rows, decimal_comma, notes = separated_rows(text, source)
    return RunTable.of_rows(rows, source, decimal_comma=decimal_comma, notes=notes)


def _parquet(path: Path) -> Any:
    try:
        import pandas
    except ImportError:
        raise UserError(f"{path}: pandas reads Parquet; `pip install '.[pandas]' pyarrow`") from None
    try:
        return pandas.read_parquet(path)
    except Exception as error:  # noqa: BLE001 - whatever the reader raises
        raise UserError(f"{path}: it cannot be read as Parquet ({error}); write it again, or give CSV") from None


def _rows_of_folder(path: Path) -> Iterator[Row]:
    """Yield the rows of all runs below a folder.

    A row has the metrics of a step, the settings of its run, and `run`, the path of the run below the folder. Names of
    folders such as `lr=0.1,seed=3` or `seed-3` become columns too, other names `folder_1`, `folder_2` by their depth.

    Raises:
        UserError: if there is no file with results, or one cannot be read.
    """
    every = sorted(path.rglob("*"))
    events = [file for file in every if ".tfevents." in file.name]
    runs: dict[Path, list[Path]] = {}
    for file in every:
        is_hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        has_results = file.name in SUMMARIES or file.name == "metrics.json" or file.suffix in RECORDS
        if has_results and not is_hidden and file.is_file():
            runs.setdefault(file.parent, []).append(file)
    if events and runs:
        raise UserError(
            f"{path}: it has event files and {next(iter(runs.values()))[0].name}; give a folder of one kind"
        )
    if events:
        yield from _of_events(path, events)
        return
    if not runs:
        known = ", ".join(["metrics.jsonl", "metrics.csv", *SUMMARIES[:2]])
        raise UserError(
            f"{path}: no run below it has a file of results, such as {known}; give a table or another folder"
        )
    if len(runs) > MOST_RUNS:
        raise UserError(
            f"{path}: it has {len(runs):,} folders with results; give a folder of at most {MOST_RUNS:,} runs"
        )
    former = _former_checkpoints(runs)
    for folder, files in runs.items():
        if folder not in former:
            yield from _of_run(path, folder, files)


def _former_checkpoints(folders: Iterable[Path]) -> set[Path]:
    """Return the folders of checkpoints that have a later one beside them, whose history holds theirs."""
    steps = {folder: int(found[1]) for folder in folders if (found := _CHECKPOINT.fullmatch(folder.name))}
    last = {folder.parent: folder for folder in sorted(steps, key=steps.__getitem__)}
    return steps.keys() - set(last.values())


def _of_run(path: Path, folder: Path, files: Sequence[Path]) -> Iterator[Row]:
    histories = [file for file in files if file.suffix in RECORDS]
    is_apart = len(histories) > 1 and folder == path  # each file is a run of its own
    if len(histories) > 1 and not is_apart:
        names = ", ".join(file.name for file in histories)
        raise UserError(f"{folder}: it has several files with steps ({names}); leave one of them there")
    for file in histories or files:
        about = _of_name(Path(file.stem)) if is_apart else _about(path, folder)
        for row in _records(file):
            yield {**about, **row}


def _about(path: Path, folder: Path) -> Row:
    """Return the columns that the names of a run's folders and its files of settings make."""
    about = _of_name(folder.relative_to(path))
    for name in SETTINGS:
        about |= _settings(folder / name)
    return about


def _records(file: Path) -> Iterator[Row]:
    text = decoded(_content(file), str(file))
    if file.suffix in (".csv", ".tsv"):
        rows, decimal_comma, _ = separated_rows(text, str(file))
        if decimal_comma:
            raise UserError(f"{file}: its numbers have decimal commas; put all runs into one table, or use points")
        return iter(rows)
    return json_rows(text, str(file)) if text.strip() else iter(())


def _settings(file: Path) -> Row:
    if not file.is_file():
        return {}
    text = decoded(file.read_bytes(), str(file))
    try:
        content = json.loads(text) if file.suffix == ".json" else read_yaml(text)
        if not isinstance(content, Mapping):
            raise ValueError("it holds no settings by name")
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file}: it cannot be read ({error}); repair it or move it away") from None
    return {key: value for key, value in flat(content).items() if not key.startswith("_wandb")}


def _of_name(name: Path) -> Row:
    """Return the columns that the names of a run's folders make.

    Examples:
        >>> _of_name(Path("adamw/lr=0.1,seed=3"))
        {'run': 'adamw/lr=0.1,seed=3', 'folder_1': 'adamw', 'lr': '0.1', 'seed': '3'}
        >>> _of_name(Path("lion/seed-0"))
        {'run': 'lion/seed-0', 'folder_1': 'lion', 'seed': '0'}
    """
    parts = [part for part in name.parts if not _CHECKPOINT.fullmatch(part)]
    row: Row = {"run": "/".join(parts)}
    depth = 0
    for part in parts:
        if settings := _SETTING.findall(part):
            row |= dict(settings)
        elif seed := _SEED.fullmatch(part):
            row["seed"] = seed[1]
        else:
            depth += 1
            row[f"folder_{depth}"] = part
    return row


def _of_events(path: Path, files: Sequence[Path]) -> Iterator[Row]:
    """Yield a row for each step of each folder of event files, with the tags as columns."""
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.util.tensor_util import make_ndarray
    except ImportError:
        raise UserError(f"{path}: tensorboard reads event files; `pip install '.[tensorboard]'`") from None
    for folder in dict.fromkeys(file.parent for file in files):
        events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
        events.Reload()
        about, steps = _about(path, folder), dict[int, Row]()
        for tag in events.Tags()["scalars"]:
            for event in events.Scalars(tag):
                steps.setdefault(event.step, {})[tag] = event.value
        for tag in events.Tags()["tensors"]:
            for event in events.Tensors(tag):
                if (value := make_ndarray(event.tensor_proto)).ndim == 0 and value.dtype.kind == "f":
                    steps.setdefault(event.step, {})[tag] = float(value)
        yield from ({**about, "step": step, **row} for step, row in sorted(steps.items()))
