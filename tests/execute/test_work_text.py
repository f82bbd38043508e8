"""Language models in run folders: what a worker leaves there, killed or not, and what is said of what goes wrong."""

import io
import json
import signal
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from faults.kills import lasting
from rich.console import Console
from support import quadratic, small_text

from headway import api
from headway.base.identity import signed
from headway.base.text import size
from headway.config.metrics import METRICS
from headway.errors import UserError
from headway.execute import timing
from headway.execute.places import local_places
from headway.execute.work import DONE, FAILED, work
from headway.report.progress import status_table
from headway.stats.warnings import execution_warning
from headway.store import batches, document, verify
from headway.store.directory import Store
from headway.store.environment import cores, slots
from headway.store.run import Run

pytestmark = pytest.mark.filterwarnings("ignore:.*the last line was cut short")

WORKER = (sys.executable, "-m", "headway.execute.worker")


def fresh_run(directory, arm="falling", **document) -> Run:
    of = small_text.experiment(**document)
    return Store.create(directory, of).add(of.arm(arm), 0)


def train(run, *options) -> int:
    return subprocess.run([*WORKER, str(run.path), "--device", "cpu", *options], check=False).returncode


def everything(steps):
    """Muon, dropout, parts of batches, a step size that changes, heads that are dropped, regularised and measured."""
    training = {**small_text.MUON, "batch_size": 4, "grad_accumulation": 2, "warmup_steps": 5, "steps": steps}
    terms = [{"metric": "disagreement_output", "weight": 0.1, "schedule": "falling"}, {"metric": "query_cka"}]
    return {
        "model": {**small_text.CONTENT["model"], "dropout": 0.1},
        "training": {**training, "regularizers": terms, "drophead": {"start": 0.3, "end": 0.1}},
        "probes": {"every": 20, "dense_until": 3, "diversity": True, "patterns": True, "circuits": True},
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    run = fresh_run(tmp_path_factory.mktemp("finished") / "results")
    assert train(run) == DONE
    return Run.open(run.path)


@pytest.mark.slow
def test_a_finished_run_has_records_samples_its_tokenizer_and_declared_metrics(finished):
    assert finished.status == "done"
    assert set(finished.metrics) <= set(METRICS)
    assert {"eval_loss_nats", "train_loss_nats", "tokens_per_s", "memory_bytes"} <= set(finished.metrics)
    records = finished.records()
    assert [record["step"] for record in records] == list(range(0, 41, 5))
    assert {"tokens", "learning_rate", "train_loss_nats", "eval_loss_nats", "wall_s"} <= set(records[-1])
    assert finished.metrics["train_loss_nats"] == records[-1]["train_loss_nats"]
    assert [sample["step"] for sample in finished.samples()] == [0, 40]
    assert json.loads((finished.path / "tokenizer.json").read_text())["model"]["type"] == "BPE"
    execution = finished.execution
    assert (execution["trainer"], execution["device"], execution["compile"]) == ("torch", "cpu", False)
    assert finished.model().model.layout.total == 6


PLAIN = {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41"}


@pytest.mark.slow
def test_a_run_records_the_instruction_sets_that_torch_had_and_a_difference_is_told(tmp_path, finished, monkeypatch):
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)
    plain = fresh_run(tmp_path / "results")
    assert train(plain) == DONE
    mine, theirs = Run.open(plain.path), finished
    assert mine.execution["instruction_sets"]["ATen"] == "DEFAULT"
    names = [name for name in mine.execution["instruction_sets"] if name in theirs.execution["instruction_sets"]]
    before, now = (run.execution["instruction_sets"] for run in (theirs, mine))
    differing = [name for name in names if before[name] != now[name]]
    if not differing:
        pytest.skip("this processor has no more than these variables leave it")
    told = verify.said(theirs, mine.execution, ["eval_loss_nats"])
    assert "executed differently (instruction_sets." in told
    assert all(f"instruction_sets.{name} {before[name]} -> {now[name]}" in told for name in differing)
    assert "faulty" not in told
    (warning,) = execution_warning("a", "b", [(mine.execution, theirs.execution)])
    for name in differing:
        assert f"instruction set of {name} {now[name]} against {before[name]}" in warning.sentence


@pytest.mark.slow
def test_killed_and_started_again_it_ends_with_the_same_bits(tmp_path):
    undisturbed, run = (fresh_run(tmp_path / name, **everything(120)) for name in ("undisturbed", "run"))
    assert train(undisturbed) == DONE
    stops = 0
    for number in (signal.SIGTERM, signal.SIGKILL):
        process, before = subprocess.Popen([*WORKER, str(run.path), "--device", "cpu"]), len(run.records())
        quadratic.wait_until(lambda: len(run.records()) > before + 2 or process.poll() is not None, 60)  # noqa: B023
        process.send_signal(number)
        stops += process.wait(60) != DONE
    assert stops == 2
    assert train(run) == DONE
    assert lasting(run) == lasting(undisturbed)
    assert Run.open(run.path).head_steps() == [0, 1, 2, 3, *range(20, 121, 20)]
    assert set(Run.open(run.path).records()[-1]["regularizer"]) == {"disagreement_output", "query_cka"}


ADAMW = {"optimizer": "adamw", "learning_rate": 1e-2}


@pytest.mark.slow
def test_a_run_of_epochs_tells_its_steps_when_it_has_opened_its_corpus(tmp_path):
    run = fresh_run(tmp_path / "results", training={**ADAMW, "batch_size": 64, "epochs": 0.1})
    assert run.steps == 0
    assert fresh_run(tmp_path / "tokens", training={**ADAMW, "batch_size": 4, "tokens": 1_000}).steps == 10
    table = io.StringIO()
    Console(file=table, width=200).print(status_table(Store.open(tmp_path / "results")))
    assert "waiting" in table.getvalue()
    assert train(run) == DONE
    now = Run.open(run.path)
    assert now.steps == now.records()[-1]["step"] > 0
    assert now.metrics["tokens"] == now.steps * 64 * 24


@pytest.mark.slow
def test_a_corpus_that_was_changed_is_an_error_when_a_run_goes_on(tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n<|endoftext|>\n".join(f"A story about {n} cats and {n * n} dogs." for n in range(200)))
    task = {**small_text.CONTENT["task"], "corpus": str(corpus), "stories": None}
    training = {**small_text.CONTENT["training"], "steps": 4000}
    run = fresh_run(tmp_path / "results", task=task, training=training)
    process = subprocess.Popen([*WORKER, str(run.path), "--device", "cpu"])
    quadratic.wait_until(lambda: len(run.records()) > 2)
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    corpus.write_text(corpus.read_text().replace("cats", "cows"))
    assert train(run) == FAILED
    message = Run.open(run.path).message
    assert message.startswith("the text or its tokenizer was changed after the run began (tokens ")
    assert message.endswith("restore them, or delete the run's folder to run it again")


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"corpus": "./no/such/file.txt"}, "no/such/file.txt"),
        ({"stories": 3, "n_ctx": 2000}, "training.batch_size is 4"),
    ],
)
def test_what_is_wrong_with_a_corpus_is_said_before_anything_is_made(tmp_path, task, said):
    task, model = {**small_text.CONTENT["task"], **task}, {**small_text.CONTENT["model"], "n_positions": 2048}
    of = small_text.experiment(task=task, model=model)
    with pytest.raises(UserError, match=said):
        api.prepare(of, tmp_path / "results", slots("cpu", workers=2, runs=2))
    assert not (tmp_path / "results").exists()


def has_memory(monkeypatch, n_bytes):
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=n_bytes))


OUT_OF_MEMORY = (
    RuntimeError("[enforce fail at alloc_cpu.cpp:125] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"),
    MemoryError(),
    type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory. Tried to allocate 2.00 GiB"),
)


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=["processor", "Python", "GPU"])
def test_out_of_memory_names_the_arm_its_estimate_and_what_would_fit(tmp_path, monkeypatch, error):
    run = fresh_run(tmp_path / "results", training={**ADAMW, "batch_size": 4096, "steps": 5})
    needed = batches.estimated_bytes(run.spec)
    has_memory(monkeypatch, needed // 2)
    assert work(run.path, Mock(side_effect=error)) == FAILED
    message = Run.open(run.path).message
    assert message.startswith(f"out of memory: falling needs about {size(needed)} with a batch of 4096; a batch of ")
    assert message.endswith(": lower training.batch_size, or keep it and raise training.grad_accumulation")
    fits = int(message.partition("; a batch of ")[2].split()[0])
    assert 1_900 < fits < 2_100
    has_memory(monkeypatch, 1_000)
    assert "do not even hold a batch of one" in batches.explain_out_of_memory(run)
    has_memory(monkeypatch, 3 * needed)
    assert "if nothing else uses memory; run fewer at a time" in batches.explain_out_of_memory(run)
    for other in (RuntimeError("shapes do not match"), ValueError("out of memory")):
        assert not batches.is_out_of_memory(other)


def test_runs_that_do_not_fit_are_refused_before_they_start(tmp_path, monkeypatch):
    made = [fresh_run(tmp_path / "made", arm) for arm in ("falling", "rising")]
    runs = [(run.name, run.spec) for run in made]
    batches.check_memory(runs, 2)
    needed = batches.estimated_bytes(made[0].spec)
    has_memory(monkeypatch, int(1.5 * needed))
    with pytest.raises(UserError, match=r"2 runs at a time need about .*; take 1 worker$"):
        batches.check_memory(runs, 2)
    batches.check_memory(runs, 1)
    has_memory(monkeypatch, int(0.9 * needed))
    with pytest.raises(UserError, match=r"falling needs about .* with a batch of 4; a batch of [23] would fit into"):
        batches.check_memory(runs, 1)
    with pytest.raises(UserError, match=r"(2 runs at a time|falling) needs? about"):
        api.run(small_text.experiment(), tmp_path / "results", workers=2, timing=False)
    assert not (tmp_path / "results").exists()


def timed(directory, runs, command=WORKER, **options):
    (place,) = local_places("cpu", workers=1, runs=1, command=command)
    return list(timing.time_arms(directory, runs, place, n_places=2, **options))


@pytest.mark.slow
def test_each_arm_is_timed_by_itself_once(tmp_path, monkeypatch):
    monkeypatch.setattr(document, "is_quiet", lambda others: others < 1e3)
    runs = both_arms(tmp_path)
    assert timed(tmp_path / "results", runs, asked=True) == ["timing falling alone", "timing rising alone"]
    found = json.loads(timing.timing_file(tmp_path / "results", "rising").read_text())
    assert (found["schema"], found["arm"], found["batch_size"]) == (1, "rising", 4)
    lo, hi = found["step_s_range"]
    assert lo <= found["step_s"] <= hi
    assert found["tokens_per_s"] == pytest.approx(4 * 24 / found["step_s"])
    assert found["memory_bytes"] > 0
    assert found["execution"]["threads"] == cores()
    assert [Run.open(run.path).status for run in runs] == ["waiting", "waiting"]
    assert timed(tmp_path / "results", runs, asked=True) == []
    assert timed(tmp_path / "results", runs[:1], asked=True) == []
    assert found["others"] >= 0
    monkeypatch.setattr(document, "is_quiet", lambda others: False)
    said = timed(tmp_path / "results", runs, asked=True)
    assert said[::2] == ["timing falling alone", "timing rising alone"], "a busy machine is no measurement"
    assert all("not measured: the machine was busy (other processes used" in line for line in said[1::2])
    timed_busy = document.read_timing(timing.timing_file(tmp_path / "results", "rising"))
    assert timed_busy["step_s"] > 0
    assert document.measured(timed_busy)["step_s"] is None


def trained_for(run, wall_s, steps_per_s) -> Run:
    return replace(run, status="done", metrics={"wall_s": wall_s, "steps_per_s": steps_per_s})


def both_arms(tmp_path) -> list[Run]:
    return [fresh_run(tmp_path / "results", arm) for arm in ("falling", "rising")]


def test_arms_are_timed_unasked_only_where_that_takes_little(tmp_path):
    fresh = both_arms(tmp_path)
    fail = (sys.executable, "-c", "raise SystemExit(1)")
    short = [trained_for(run, 200.0, 10.0) for run in fresh]
    assert timed(tmp_path / "results", short, fail) == [
        "2 arms not timed: that would take about 22 s, and training took 3 min 20 s"
    ]
    assert timed(tmp_path / "results", short, fail, trained=False) == []
    long = [trained_for(run, 240.0, 10.0) for run in fresh]
    assert timed(tmp_path / "results", long, fail)[0] == "timing falling alone"
    assert timed(tmp_path / "results", short, fail, asked=True)[0] == "timing falling alone"


def test_arms_that_were_timed_on_another_machine_are_timed_again_only_when_asked(tmp_path):
    runs = [trained_for(run, 1e4, 10.0) for run in both_arms(tmp_path)]
    (tmp_path / "results/timings").mkdir()
    for run in runs:
        execution = {"host": "elsewhere", "processor": "another", "versions": {"headway": "0"}, "threads": 4}
        content = signed({"id": run.spec.at_seed(0).id, "execution": execution, "others": 0.0, "step_s": 0.1})
        timing.timing_file(tmp_path / "results", run.name).write_text(json.dumps(content))
    fail = (sys.executable, "-c", "raise SystemExit(1)")
    assert timed(tmp_path / "results", runs, fail) == []
    assert len(timed(tmp_path / "results", runs, fail, asked=True)) == 4


def test_nothing_is_timed_while_others_work_on_the_directory(tmp_path):
    runs = both_arms(tmp_path)
    with quadratic.taken(runs[0]):
        said = timed(tmp_path / "results", runs, asked=True)
    assert said == ["other processes work on this directory, so nothing more is timed"]


def test_an_arm_that_cannot_be_timed_is_told(tmp_path):
    runs = both_arms(tmp_path)
    broken = (sys.executable, "-c", "raise SystemExit('broken')")
    said = timed(tmp_path / "results", runs, broken, asked=True)
    assert said[1] == f"falling could not be timed; {tmp_path / 'results/timings/falling.log'} says why"
    assert (tmp_path / "results/timings/falling.log").read_text().strip() == "broken"
