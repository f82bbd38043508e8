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


NAMED = {"arm": "arm", "metric": "loss"}
FILES = {
    "long": File("t.csv", "arm,seed,loss\n" + _rows(lambda a, s, v: f"{a},{s},{v}"), {}),
    "tabs": File("t.tsv", "arm\tseed\tloss\n" + _rows(lambda a, s, v: f"{a}\t{s}\t{v}"), {}),
    "quoted commas": File(
        "t.csv", 'arm,seed,notes,loss\n' + _rows(lambda a, s, v: f'{a},{s},"one, ""two"", three",{v}'), NAMED
    ),
    "byte-order mark": File("t.csv", "\ufeffarm,seed,loss\n" + _rows(lambda a, s, v: f"{a},{s},{v}"), {}),
    "UTF-16": File("t.csv", ("arm,seed,loss\n" + _rows(lambda a, s, v: f"{a},{s},{v}")).encode("utf-16"), {}),
    "semicolons and decimal commas": File(
        "t.csv", "arm;seed;loss\n" + _rows(lambda a, s, v: f"{a};{s};{_comma(v)}"), {}, says="decimal comma"
    ),
    "lines of Windows": File("t.csv", "arm,seed,loss\r\n" + _rows(lambda a, s, v: f"{a},{s},{v}", "\r\n"), {}),
    "spaces about cells": File("t.csv", "arm, seed, loss\n" + _rows(lambda a, s, v: f"{a} , {s}, {v} "), {}),
    "comments first": File("t.csv", "# made by hand\n\narm,seed,loss\n" + _rows(lambda a, s, v: f"{a},{s},{v}"), {}),
    "seeds as text": File("t.csv", "arm,seed,loss\n" + _rows(lambda a, s, v: f"{a},seed-{s},{v}"), {}),
    "seeds as decimals": File("t.csv", "arm,seed,loss\n" + _rows(lambda a, s, v: f"{a},{s}.0,{v}"), {}),
    "duplicated rows": File("t.csv", "arm,seed,loss\n" + 2 * _rows(lambda a, s, v: f"{a},{s},{v}"), {}, says="8 runs"),
    "empty cells at the last step": File(
        "t.csv",
        "arm,seed,step,loss\n" + _rows(lambda a, s, v: f"{a},{s},1,9\n{a},{s},2,{v}\n{a},{s},3,"),
        {},
        says="last by step",
    ),
    "steps that start again": File(
        "t.csv",
        "arm,seed,step,loss\n" + _rows(lambda a, s, v: f"{a},{s},1,9\n{a},{s},2,8\n{a},{s},1,7\n{a},{s},2,{v}"),
        {},
        says="logged steps again",
    ),
    "steps out of order": File(
        "t.csv", "arm,seed,step,loss\n" + _rows(lambda a, s, v: f"{a},{s},20,{v}\n{a},{s},3,9"), {}
    ),
    "two time zones": File(
        "t.csv",
        "arm,seed,timestamp,loss\n"
        + _rows(lambda a, s, v: f"{a},{s},2026-01-0{s + 1}T10:00:00{'Z' if s % 2 else '+09:00'},{v}"),
        {},
    ),
    "json lines of log calls": File(
        "t.jsonl",
        _rows(
            lambda a, s, v: "\n".join(
                json.dumps(row)
                for row in (
                    {"_step": 1, "arm": a, "seed": s, "loss": 9, "loss__MIN": 8.9, "loss__MAX": 9.1},
                    {"_step": 2, "arm": a, "seed": s, "train": 2},
                    {"_step": 3, "arm": a, "seed": s, "loss": v, "loss__MIN": 1, "loss__MAX": 9},
                )
            )
        ),
        {"metric": "loss"},
        says="last by _step",
    ),
    "a list of objects": File(
        "t.json",
        json.dumps(
            [
                {"config": {"arm": {"value": arm}, "seed": seed}, "summary": {"loss": value}}
                for arm in VALUES
                for seed, value in enumerate(VALUES[arm])
            ]
        ),
        {"arm": "config.arm", "metric": "summary.loss"},
    ),
    "a chart as W&B exports it": File(
        "t.csv",
        '"Step",'
        + ",".join(f'"{a}-{s} - loss","{a}-{s} - loss__MIN","{a}-{s} - loss__MAX"' for a in VALUES for s in range(4))
        + "\n1,"
        + ",".join("9,9,9" for _ in range(8))
        + "\n2,"
        + ",".join(f"{v},1,9" for a in VALUES for v in VALUES[a])
        + "\n",
        {"metric": "loss"},
        says="split into arm and seed",
    ),
    "a column for each arm": File(
        "t.csv",
        "seed,a,b\n" + "".join(f"{s},{VALUES['a'][s]},{VALUES['b'][s]}\n" for s in range(4)),
        {"metric": "loss"},
        says="is read as an arm",
    ),
    "a column for each seed": File(
        "t.csv",
        "arm,seed 0,seed 1,seed 2,seed 3\n" + "".join(f"{a},{','.join(map(str, VALUES[a]))}\n" for a in VALUES),
        {"metric": "loss"},
        says="is read as a seed",
    ),
    "a column for each run": File(
        "t.csv",
        "step,"
        + ",".join(f"{a}_{s}" for a in VALUES for s in range(4))
        + "\n1,9,9,9,9,9,9,9,9\n2,"
        + ",".join(str(v) for a in VALUES for v in VALUES[a])
        + "\n",
        {"metric": "loss"},
        says="is read as a run",
    ),
    "runs that crashed": File(
        "t.csv",
        "Name,State,arm,seed,loss\n" + _rows(lambda a, s, v: f"r{a}{s},finished,{a},{s},{v}") + "rx,crashed,b,4,99\n",
        {"metric": "loss", "arm": "arm"},
        says="1 run without a result: 1 crashed",
    ),
    "names of runs alone": File(
        "t.csv", "run,loss\n" + _rows(lambda a, s, v: f"{a}_seed{s},{v}"), {}, says="split into arm and seed"
    ),
}  # fmt: skip


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
    assert "seeds 3, 4 are left out, where a value is not finite" in comparison.verdict


def _folders(path, write):
    for arm, values in VALUES.items():
        for seed, value in enumerate(values):
            folder = path / arm / f"seed-{seed}"
            folder.mkdir(parents=True)
            write(folder, value)


def test_folders_of_runs_with_a_summary(tmp_path):
    def write(folder, value):
        (folder / "wandb-summary.json").write_text(json.dumps({"loss": value, "_runtime": 12.0}))
        (folder / "config.yaml").write_text("lr: {value: 0.1}\nwandb_version: 1\n")

    _folders(tmp_path, write)
    results = judge(tmp_path, metric="loss")
    check(results, "lr 0.1")


def test_folders_of_runs_with_a_history(tmp_path):
    def write(folder, value):
        lines = [{"step": 1, "loss": 9}, {"step": 2, "loss": value}]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 3, "lo')

    _folders(tmp_path, write)
    check(judge(tmp_path, metric="loss"))


def test_states_of_the_trainer_of_transformers(tmp_path):
    def write(folder, value):
        log = [{"step": 1, "loss": 4.0}, {"step": 2, "eval_loss": value}, {"step": 2, "train_runtime": 33.0}]
        (folder / "trainer_state.json").write_text(json.dumps({"log_history": log, "global_step": 2}))

    _folders(tmp_path, write)
    check(judge(tmp_path, metric="eval_loss"))


def test_of_several_checkpoints_the_last_one_has_the_history(tmp_path):
    def write(folder, value):
        for last in (200, 1000, 400):
            history = [{"step": step, "eval_loss": value + 1000 - step} for step in range(200, last + 1, 200)]
            (folder / f"checkpoint-{last}").mkdir()
            state = json.dumps({"log_history": history})
            (folder / f"checkpoint-{last}" / "trainer_state.json").write_text(state)

    _folders(tmp_path, write)
    check(judge(tmp_path, metric="eval_loss"))


def test_settings_of_hydra_name_the_arm_and_the_seed(tmp_path):
    for arm, values in VALUES.items():
        for seed, value in enumerate(values):
            folder = tmp_path / "2026-01-01" / f"{arm}_{seed}"
            (folder / ".hydra").mkdir(parents=True)
            (folder / ".hydra" / "config.yaml").write_text(f"model: {{kind: {arm}}}\nseed: {seed}\n")
            (folder / "metrics.jsonl").write_text(json.dumps({"val_loss": value}) + "\n")
    check(judge(tmp_path), "arm: model.kind (guessed)")


def test_a_folder_with_a_file_for_each_run(tmp_path):
    for arm, values in VALUES.items():
        for seed, value in enumerate(values):
            (tmp_path / f"{arm}-{seed}.csv").write_text(f"epoch,loss\n0,9\n1,{value}\n")
    check(judge(tmp_path), "split into arm and seed")


def test_names_of_folders_that_say_settings(tmp_path):
    for arm, values in VALUES.items():
        for seed, value in enumerate(values):
            folder = tmp_path / f"lr=0.1,layout={arm},seed={seed}"
            folder.mkdir()
            (folder / "results.json").write_text(json.dumps({"eval": {"loss": value}}))
    check(judge(tmp_path, arm="layout"), "lr 0.1")


def test_event_files_of_tensorboard(tmp_path):
    writer = pytest.importorskip("tensorboard.summary.writer.event_file_writer")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    def write(folder, value):
        events = writer.EventFileWriter(str(folder))
        for step, number in ((1, 9.0), (2, value)):
            summary = Summary(value=[Summary.Value(tag="val/loss", simple_value=number)])
            events.add_event(Event(step=step, summary=summary))
        events.close()

    _folders(tmp_path, write)
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
