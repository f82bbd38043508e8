"""Tables as trackers and people write them are read right, or refused in a sentence."""

import json
import math
import re
from dataclasses import dataclass

import numpy as np
import pytest
from support.tolerance import assert_same

from headway.errors import UserError
from headway.judged.judge import judge
from headway.judged.sources import read_table
from headway.judged.table import table_of

VALUES = {"a": (3.2, 3.3, 3.25, 3.28), "b": (3.0, 3.11, 3.04, 3.09)}


@dataclass(frozen=True)
class File:
    """A file's name and text, the columns that are named, and what its notes or warnings say."""

    name: str
    text: str | bytes
    asked: dict
    says: str = ""


def _rows(line, joined="\n"):
    return joined.join(line(arm, seed, value) for arm in VALUES for seed, value in enumerate(VALUES[arm])) + "\n"


def _comma(value):
    return f"{value}".replace(".", ",")


def _csv(head, line, asked=None, says="", *, name="t.csv", joined="\n"):
    return File(name, head + joined + _rows(line, joined), asked or {}, says)


def _columns(line, joined=","):
    return joined.join(line(arm, seed, VALUES[arm][seed]) for arm in VALUES for seed in range(4))


def _long(arm, seed, value):
    return f"{arm},{seed},{value}"


def _log_calls(arm, seed, value):
    calls = (
        {"_step": 1, "arm": arm, "seed": seed, "loss": 9, "loss__MIN": 8.9, "loss__MAX": 9.1},
        {"_step": 2, "arm": arm, "seed": seed, "train": 2},
        {"_step": 3, "arm": arm, "seed": seed, "loss": value, "loss__MIN": 1, "loss__MAX": 9},
    )
    return "\n".join(map(json.dumps, calls))


def _object(arm, seed, value):
    return json.dumps({"config": {"arm": {"value": arm}, "seed": seed}, "summary": {"loss": value}})


def _zoned(arm, seed, value):
    return f"{arm},{seed},2026-01-0{seed + 1}T10:00:00{'Z' if seed % 2 else '+09:00'},{value}"


NAMED, LOSS = {"arm": "arm", "metric": "loss"}, {"metric": "loss"}
HEAD, STEPS = "arm,seed,loss", "arm,seed,step,loss"
CHART = _columns(lambda a, s, v: f'"{a}-{s} - loss","{a}-{s} - loss__MIN","{a}-{s} - loss__MAX"')
FILES = {
    "long": _csv(HEAD, _long),
    "tabs": _csv("arm\tseed\tloss", lambda a, s, v: f"{a}\t{s}\t{v}", name="t.tsv"),
    "quoted commas": _csv("arm,seed,notes,loss", lambda a, s, v: f'{a},{s},"one, ""two"", three",{v}', NAMED),
    "byte-order mark": _csv(f"\ufeff{HEAD}", _long),
    "UTF-16": File("t.csv", f"{HEAD}\n{_rows(_long)}".encode("utf-16"), {}),
    "decimal commas": _csv("arm;seed;loss", lambda a, s, v: f"{a};{s};{_comma(v)}", says="decimal comma"),
    "lines of Windows": _csv(HEAD, _long, joined="\r\n"),
    "spaces about cells": _csv("arm, seed, loss", lambda a, s, v: f"{a} , {s}, {v} "),
    "comments first": _csv(f"# made by hand\n\n{HEAD}", _long),
    "seeds as text": _csv(HEAD, lambda a, s, v: f"{a},seed-{s},{v}"),
    "seeds as decimals": _csv(HEAD, lambda a, s, v: f"{a},{s}.0,{v}"),
    "duplicated rows": File("t.csv", f"{HEAD}\n" + 2 * _rows(_long), {}, says="8 runs"),
    "empty cells at the last step": _csv(
        STEPS, lambda a, s, v: f"{a},{s},1,9\n{a},{s},2,{v}\n{a},{s},3,", says="last by step"
    ),
    "steps that start again": _csv(
        STEPS, lambda a, s, v: f"{a},{s},1,9\n{a},{s},2,8\n{a},{s},1,7\n{a},{s},2,{v}", says="logged steps again"
    ),
    "steps out of order": _csv(STEPS, lambda a, s, v: f"{a},{s},20,{v}\n{a},{s},3,9"),
    "two time zones": _csv("arm,seed,timestamp,loss", _zoned),
    "json lines of log calls": File("t.jsonl", _rows(_log_calls), LOSS, says="last by _step"),
    "a list of objects": File("t.json", f"[{_columns(_object)}]", {"arm": "config.arm", "metric": "summary.loss"}),
    "a chart as W&B exports it": File(
        "t.csv",
        f'"Step",{CHART}\n1,{_columns(lambda *_: "9,9,9")}\n2,{_columns(lambda a, s, v: f"{v},1,9")}\n',
        LOSS,
        says="split into arm and seed",
    ),
    "a column for each arm": File(
        "t.csv",
        "seed,a,b\n" + "".join(f"{s},{VALUES['a'][s]},{VALUES['b'][s]}\n" for s in range(4)),
        LOSS,
        says="is read as an arm",
    ),
    "a column for each seed": File(
        "t.csv",
        "arm,seed 0,seed 1,seed 2,seed 3\n" + "".join(f"{a},{','.join(map(str, VALUES[a]))}\n" for a in VALUES),
        LOSS,
        says="is read as a seed",
    ),
    "a column for each run": File(
        "t.csv",
        f"step,{_columns(lambda a, s, v: f'{a}_{s}')}\n1{8 * ',9'}\n2,{_columns(lambda a, s, v: str(v))}\n",
        LOSS,
        says="is read as a run",
    ),
    "runs that crashed": File(
        "t.csv",
        f"Name,State,{HEAD}\n" + _rows(lambda a, s, v: f"r{a}{s},finished,{a},{s},{v}") + "rx,crashed,b,4,99\n",
        NAMED,
        says="1 run without a result: 1 crashed",
    ),
    "names of runs alone": _csv("run,loss", lambda a, s, v: f"{a}_seed{s},{v}", says="split into arm and seed"),
}


def check(results, says=""):
    (comparison,) = results.judged
    assert {comparison.arm, comparison.baseline} == {"a", "b"}
    assert (comparison.n_pairs, comparison.outcome) == (4, "apart")
    sign = 1 if comparison.arm == "b" else -1
    by_seed = [math.log(b / a) for a, b in zip(VALUES["a"], VALUES["b"], strict=True)]
    assert_same(comparison.estimate, sign * 100 * sum(by_seed) / 4, scale=100.0)
    assert says in "\n".join((*results.notes, *results.warnings))


@pytest.mark.parametrize("kind", FILES)
def test_a_file_gives_the_runs_that_it_says(kind, tmp_path):
    file = FILES[kind]
    path = tmp_path / file.name
    path.write_bytes(file.text if isinstance(file.text, bytes) else file.text.encode())
    check(judge(path, **file.asked), file.says)


def test_infinite_and_missing_numbers_leave_their_seed_out(tmp_path):
    lines = [f"a,{seed},{value}" for seed, value in enumerate((3.2, 3.3, 3.25, "NaN", 3.1))]
    lines += [f"b,{seed},{value}" for seed, value in enumerate((3.0, 3.1, 3.04, 3.2, "Infinity"))]
    (tmp_path / "t.csv").write_text("arm,seed,loss\n" + "\n".join(lines))
    (comparison,) = judge(tmp_path / "t.csv").judged
    assert comparison.n_pairs == 3
    assert "seeds 3 and 4 left out: a value is not finite" in comparison.verdict


def _summary(arm, seed, value):
    folder = f"{arm}/seed-{seed}"
    summary = json.dumps({"loss": value, "_runtime": 12.0})
    return {f"{folder}/wandb-summary.json": summary, f"{folder}/config.yaml": "lr: {value: 0.1}\nwandb_version: 1\n"}


def _history(arm, seed, value):
    lines = [{"step": 1, "loss": 9}, {"step": 2, "loss": value}]
    return {f"{arm}/seed-{seed}/metrics.jsonl": "\n".join(map(json.dumps, lines)) + '\n{"step": 3, "lo'}


def _trainer(arm, seed, value):
    log = [{"step": 1, "loss": 4.0}, {"step": 2, "eval_loss": value}, {"step": 2, "train_runtime": 33.0}]
    return {f"{arm}/seed-{seed}/trainer_state.json": json.dumps({"log_history": log, "global_step": 2})}


def _checkpoints(arm, seed, value):
    """Of several checkpoints, the last has the whole history."""
    history = [{"step": step, "eval_loss": value + 1000 - step} for step in range(200, 1001, 200)]
    folder = f"{arm}/seed-{seed}"
    return {
        f"{folder}/checkpoint-{last}/trainer_state.json": json.dumps({"log_history": history[: last // 200]})
        for last in (200, 1000, 400)
    }


def _hydra(arm, seed, value):
    folder = f"2026-01-01/{arm}_{seed}"
    settings = f"model: {{kind: {arm}}}\nseed: {seed}\n"
    return {f"{folder}/.hydra/config.yaml": settings, f"{folder}/metrics.jsonl": json.dumps({"val_loss": value})}


def _file_each(arm, seed, value):
    return {f"{arm}-{seed}.csv": f"epoch,loss\n0,9\n1,{value}\n"}


def _settings_in_names(arm, seed, value):
    return {f"lr=0.1,layout={arm},seed={seed}/results.json": json.dumps({"eval": {"loss": value}})}


@pytest.mark.parametrize(
    ("files_of", "asked", "says"),
    [
        (_summary, LOSS, "lr 0.1"),
        (_history, LOSS, ""),
        (_trainer, {"metric": "eval_loss"}, ""),
        (_checkpoints, {"metric": "eval_loss"}, ""),
        (_hydra, {}, "arm: model.kind (guessed)"),
        (_file_each, {}, "split into arm and seed"),
        (_settings_in_names, {"arm": "layout"}, "lr 0.1"),
    ],
)
def test_a_folder_gives_the_runs_that_it_says(files_of, asked, says, tmp_path):
    for arm, values in VALUES.items():
        for seed, value in enumerate(values):
            for name, text in files_of(arm, seed, value).items():
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name).write_text(text)
    check(judge(tmp_path, **asked), says)


def test_event_files_of_tensorboard(tmp_path):
    writer = pytest.importorskip("tensorboard.summary.writer.event_file_writer")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    for arm, values in VALUES.items():
        for seed, value in enumerate(values):
            events = writer.EventFileWriter(str(tmp_path / arm / f"seed-{seed}"))
            for step, number in ((1, 9.0), (2, value)):
                summary = Summary(value=[Summary.Value(tag="val/loss", simple_value=number)])
                events.add_event(Event(step=step, summary=summary))
            events.close()
    (comparison,) = judge(tmp_path).judged
    assert (comparison.n_pairs, comparison.outcome) == (4, "apart")
    assert_same(comparison.means, (3.06, 3.2575), dtype=np.float32)


def test_parquet_and_data_frames(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame([{"arm": a, "seed": s, "loss": v} for a in VALUES for s, v in enumerate(VALUES[a])])
    frame.to_parquet(tmp_path / "t.parquet")
    check(judge(tmp_path / "t.parquet"))
    check(judge(frame))
    check(judge(frame.set_index(["arm", "seed"])))
    check(judge({column: list(frame[column]) for column in frame}))


REFUSED = {
    "": "it has no rows",
    "arm,seed,loss\n": "it has no rows",
    "1,2,3\n4,5,6\n": "its first line names no columns",
    "arm,seed,loss\na,0,1,2\n": "line 2: 4 cells under 3 columns",
    "arm,arm,loss\na,0,1\n": "two columns are named arm",
    '{"arm": "a", "loss": 1}\n{"arm": "a", "lo\n{"arm": "b"}\n': "line 2: not JSON",
    '{"arm": "a"}\n[1]\n': "line 2: a list; give one object per line",
    "[1, 2]": "give a list of objects",
    "arm,seed,loss\na,0,1\na,1,2\n": "which columns name an arm",
    "arm,seed,loss\na,0,x\nb,1,y\n": "holds no number",
    "arm,seed,acc\na,0,90 %\nb,0,91 %\n": "'90 %' in it is not a number",
    "arm,seed,step,loss\na,0,500,1\na,0,1k,2\nb,0,500,2\nb,0,1k,3\n": "'1k' in column step is not a step",
    "arm,seed,x,y\na,0,1,2\nb,0,2,3\n": "which column is the metric",
    "u,v,loss\na,b,1\nb,a,2\na,b,2\nb,c,2\n": "which columns name an arm",
    b"\xff\xfa\x00": "is not UTF-8",
    b"arm\x00,seed\n": "holds zero bytes",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_read_is_refused_with_what_to_do(text, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    asked = {"metric": "loss"} if text in ("arm,seed,loss\na,0,x\nb,1,y\n",) else {}
    with pytest.raises(UserError, match=r"t\.csv") as refused:
        judge(path, **asked)
    assert REFUSED[text] in str(refused.value)
    assert any(
        word in str(refused.value) for word in ("give", "type", "Type", "write", "put", "rename", "save", "its columns")
    )


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"arm": "layot"}, "there is no column 'layot'; its columns are arm, seed and loss"),
        ({"baseline": "c"}, "baseline 'c': there is no such arm; choose from: a, b"),
        ({"metric": "seed", "seed": "seed"}, "column seed has two roles"),
        ({"at": "7"}, "has no column of steps"),
        ({"at": "first"}, "give last, best, or the number of a step"),
        ({"margin": 0}, "margin 0"),
    ],
)
def test_what_is_asked_wrongly_is_refused(asked, says):
    rows = [{"arm": arm, "seed": seed, "loss": value} for arm in VALUES for seed, value in enumerate(VALUES[arm])]
    with pytest.raises(UserError, match=re.escape(says)):
        judge(rows, **asked)


def test_paths_and_values_that_are_no_table(tmp_path):
    with pytest.raises(UserError, match="no such file or folder"):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(UserError, match="no run below it has a file of results"):
        read_table(tmp_path)
    for value in (3, "text", [1, 2], {"a": 1}):
        with pytest.raises(UserError, match="give a path, a DataFrame"):
            table_of(value)
    with pytest.raises(UserError, match="2, 3 values"):
        table_of({"a": [1, 2], "b": [1, 2, 3]})
