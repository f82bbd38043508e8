"""The pieces of the GPU kit that train: speed, widths, together and published (`benchmarks/gpu.py`).

A piece is a function of the kit that returns cells. A cell measures rows of a table, and says how long that takes on an
H200. The estimates are products and launches counted by hand; nothing here has run on a GPU yet. On a CPU a cell that
needs a GPU checks its inputs, and its row says what it would do.
"""

import os

from headway.execute.worker import set_up_process
from headway.store.environment import cores

THREADS = int(os.environ.get("OMP_NUM_THREADS") or min(cores(), 8))
set_up_process(THREADS)  # before torch reads it

import contextlib
import gc
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headway import api
from headway.config.experiment import Experiment
from headway.config.kinds import parse_run
from headway.config.lm.run import TokensRun
from headway.config.load import load, resolve
from headway.data.batch import Batch, open_examples
from headway.execute.places import local_places
from headway.models import attention
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights
from headway.store.batches import is_out_of_memory
from headway.store.run import Run
from headway.train.device import Meter, check_precision, find_device
from headway.train.lm.ensemble import ensemble_of
from headway.train.lm.loss import TokensLoss
from headway.train.lm.study import tokens_trainer
from headway.train.torch_trainer import TorchTrainer

VOCAB = 50_257
STEPS = 1_000_000
"""More than any measurement takes."""
H200_BYTES = 139 * 2**30
H200_FLOPS = {"fp32": 67e12, "bf16": 989e12}
H200_EXPONENTIALS, H200_BYTES_PER_S = 3.9e12, 4.8e12
"""Per second, by data sheet and by Shah et al. 2024, arXiv 2407.08608."""

Row = Mapping[str, Any]
Records = list[dict[str, Any]]


def roofline(run: TokensRun) -> dict[str, float]:
    """Return the seconds of a training step on an H200 by what bounds it: products, exponentials or memory.

    A step takes the longest of the three at least (docs/gpu.md has the formula).
    """
    training, budget, n_ctx, pairs = run.training, run.budget, run.task.n_ctx, 0
    for layer, heads in enumerate(run.model.layout.layers):
        seen = min(run.model.window(layer) or n_ctx, n_ctx)
        pairs += heads.n_heads * (n_ctx * seen - seen * (seen - 1) // 2)
    kept = max(0, budget.training_bytes - 16 * budget.n_parameters) * training.grad_accumulation
    return {
        "products": 3 * budget.flops_per_example * training.batch_size / H200_FLOPS[training.precision],
        "exponentials": 2 * pairs * training.batch_size / H200_EXPONENTIALS,
        "memory": (44 * budget.n_parameters + 2 * kept) / H200_BYTES_PER_S,
    }


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A measurement that is made once.

    Attributes:
        name: in the table of its piece.
        estimate_s: seconds on an H200.
        measure: gives the rows.
    """

    name: str
    estimate_s: float
    measure: Callable[[], Iterable[Row]]


@dataclass(frozen=True, kw_only=True)
class Kit:
    """The machine, and how much is measured on it."""

    device: torch.device
    tiny: bool
    data: Path

    @classmethod
    def made(cls, *, tiny: bool, data: Path, device: str | None) -> "Kit":
        """Set this process up as a worker is."""
        torch.set_num_threads(THREADS)
        be_deterministic()
        return cls(device=find_device(device or "auto"), tiny=tiny, data=data)

    @property
    def on_gpu(self) -> bool:  # noqa: D102
        return self.device.type == "cuda"

    def described(self) -> dict[str, Any]:
        """Return what the numbers depend on."""
        about = {"device": self.device.type, "torch": torch.__version__, "tiny": self.tiny, "threads": THREADS}
        if self.on_gpu:
            gpu = torch.cuda.get_device_properties(self.device)
            about |= {"gpu": gpu.name, "gpu_bytes": gpu.total_memory, "cuda": torch.version.cuda}
        return about

    def is_broken(self) -> bool:
        """Return whether the GPU no longer answers, as after an access to memory that is not there."""
        try:
            self.wait()
        except RuntimeError:
            return True
        return False

    def settle(self) -> None:
        """Wait for the GPU, and give freed memory back, that of former models too."""
        self.wait()
        gc.collect()
        if self.on_gpu:
            torch.cuda.empty_cache()

    def median_s(self, do: Callable[[], object], seconds: float, least: int = 3) -> float:
        """Return the median duration of a call, after two calls that do not count."""
        for _ in range(2):
            do()
        took: list[float] = []
        while len(took) < least or sum(took) < seconds:
            self.wait()
            began = time.perf_counter()
            do()
            self.wait()
            took.append(time.perf_counter() - began)
        return statistics.median(took)

    def wait(self) -> None:
        """Wait for the GPU."""
        if self.on_gpu:
            torch.cuda.synchronize(self.device)


def be_deterministic() -> None:
    """Have torch refuse what it cannot repeat, as workers do."""
    torch.set_deterministic_debug_mode("error")
    torch.utils.deterministic.fill_uninitialized_memory = False


def told(error: BaseException) -> str:
    """Return an error in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}"


def scratch() -> Path:
    """Return the folder of what need not be kept: data, runs, the cache."""
    folder = Path(tempfile.gettempdir()) / f"headway-gpu-kit-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    os.environ.setdefault("HEADWAY_CACHE", str(folder / "cache"))
    return folder


# Models that are trained on random tokens


def settings_of(data: Path) -> list[str]:
    """Return the settings with which `--scale paper` of a language experiment reads the data."""
    facts = json.loads((data / "data.json").read_text())
    task = {"corpus": data / "tokens.npy", "tokenizer": data / "tokenizer", "stories": facts["documents"]}
    return [f"task.{key}={value}" for key, value in task.items()]


def text_run(model: Mapping[str, Any], *, batch: int, context: int, vocab: int = VOCAB, **training: Any) -> TokensRun:
    task = {"kind": "text", "corpus": "stories", "tokenizer": f"bpe-{vocab}", "n_ctx": context}
    how = {"optimizer": "adamw", "learning_rate": 1e-4, "batch_size": batch, "steps": STEPS, **training}
    run = parse_run({"task": task, "model": model, "training": how, "seed": 0})
    assert isinstance(run, TokensRun)
    return run


def random_batch(run: TokensRun) -> Batch:
    size = (2, run.training.batch_size, run.task.n_ctx)
    tokens = np.random.default_rng(0).integers(run.task.vocab_size, size=size)
    return Batch(inputs=tokens[0], targets=tokens[1])


def trainer_of(run: TokensRun, device: torch.device, *, compile: bool = False) -> TorchTrainer:
    check_precision(run.training.precision, device)
    vocab = run.task.vocab_size
    module = Transformer(run.model, vocab, initial_weights(run.model, vocab, 0)).to(device)
    loss, batch = TokensLoss(run, module, compile=compile), random_batch(run)
    return tokens_trainer(loss, STEPS, lambda _step: loss.split(batch))


def published_model(n_heads: int | str, tiny: bool) -> dict[str, Any]:
    """Return head-progression's GPT-Neo of 68.5 M parameters."""
    d_model = 96 if tiny else 768
    return {"family": "gpt-neo", "d_model": d_model, "n_layers": 4, "n_heads": n_heads}


@cache
def product_flops(device: torch.device, precision: str, size: int) -> float:
    """Return the operations per second of torch's own product of square matrices."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    kit = Kit(device=device, tiny=False, data=Path())
    with tf32(precision == "tf32"):
        return 2 * size**3 / kit.median_s(lambda: a @ b, 0.5 if kit.on_gpu else 0.05)


@contextlib.contextmanager
def tf32(wanted: bool) -> Iterator[None]:
    """Allow products in TF32 within a block, which Headway never does."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if wanted else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


# speed


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A model that is timed, and its batch; `Headway` trains it, or one of transformers' models of its shape."""

    model: Mapping[str, Any]
    batch: int
    context: int

    @classmethod
    def of(cls, kit: Kit, name: str, n_heads: int = 12) -> "Shape":
        """Return the shape of 68.5 M or 124 M parameters."""
        model = published_model(n_heads, kit.tiny)
        if name == "124 M":
            model |= {"family": "gpt-2", "n_layers": 12, "n_positions": 1024}
        return cls(model=model, batch=1 if kit.tiny else 16, context=64 if kit.tiny else 512)


def contestant(asked: Mapping[str, Any]) -> None:
    """Train for as many seconds as each line of the input says; print tokens per second and memory."""
    device, how = find_device(asked["device"]), asked["how"]
    torch.set_num_threads(THREADS)
    shape = Shape(**asked["shape"])
    meter = Meter(device)
    advance = (headway_trainer if how["by"] == "Headway" else transformers_trainer)(shape, how, device)
    with tf32(how["precision"] == "tf32"):
        advance(3)
        meter.begin_training()
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            began, steps, portion = time.perf_counter(), 0, 1
            while (elapsed := time.perf_counter() - began) < float(line):
                advance(portion)
                steps += portion
                portion = max(1, int(0.2 * steps / max(time.perf_counter() - began, 1e-3)))
            tokens_per_s = steps * shape.batch * shape.context / elapsed
            print(json.dumps({"tokens_per_s": tokens_per_s, **meter.metrics()}), flush=True)


def headway_trainer(shape: Shape, how: Mapping[str, Any], device: torch.device) -> Callable[[int], object]:
    be_deterministic()
    precision = "bf16" if how["precision"] == "bf16" else "fp32"
    run = text_run(shape.model, batch=shape.batch, context=shape.context, precision=precision)
    return trainer_of(run, device, compile=how["compile"]).advance


def transformers_trainer(shape: Shape, how: Mapping[str, Any], device: torch.device) -> Callable[[int], object]:
    """Return the trainer of a model of transformers: AdamW, gradients clipped, and nothing else of ours."""
    import transformers

    d_model, layers, heads = (shape.model[key] for key in ("d_model", "n_layers", "n_heads"))
    if how["by"] == "GPT-Neo":
        kinds = [[["global", "local"], layers // 2]]
        config = transformers.GPTNeoConfig(
            vocab_size=VOCAB, hidden_size=d_model, num_layers=layers, num_heads=heads, attention_types=kinds
        )
    else:
        config = transformers.GPT2Config(vocab_size=VOCAB, n_embd=d_model, n_layer=layers, n_head=heads)
    torch.manual_seed(0)
    made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=how["attention"])
    model = made.to(device).train()
    model = torch.compile(model) if how["compile"] else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(VOCAB, (shape.batch, shape.context), device=device)

    def advance(n: int) -> None:
        for _ in range(n):
            optimizer.zero_grad()
            with torch.autocast(device.type, torch.bfloat16, enabled=how["precision"] == "bf16"):
                loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        float(loss)  # waits for the GPU, as fetching losses does

    return advance


class Contestant:
    """A process that trains when it is asked to."""

    def __init__(self, shape: Shape, how: Mapping[str, Any], device: str) -> None:
        asked = json.dumps({"shape": vars(shape), "how": how, "device": device})
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - a pipe that nobody reads would fill
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._said}
        self._process = subprocess.Popen([sys.executable, __file__, asked], text=True, **pipes)

    def hear(self) -> dict[str, Any]:
        """Return its next answer, or why there is none."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        self._process.wait()
        self._said.seek(0)
        said = self._said.read().strip()
        return {"error": said.splitlines()[-1][:200] if said else "it ended"}

    def train(self, seconds: float) -> dict[str, Any]:
        """Return tokens per second and memory of about so many seconds."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            print(seconds, file=self._process.stdin, flush=True)
        return self.hear()

    def end(self) -> None:
        """Let it go."""
        with contextlib.suppress(ValueError, BrokenPipeError):
            self._process.communicate(timeout=20)


def how_of(by: str, precision: str, *, compile: bool, attention: str = "eager") -> dict[str, Any]:
    return {"by": by, "precision": precision, "compile": compile, "attention": attention}


def race(kit: Kit, shape: Shape, contestants: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """Time contestants by turns: each is a process, all are there at once, and one of them trains at a time."""
    rounds, seconds = (2, 0.1) if kit.tiny else (5, 1.5)
    processes = {name: Contestant(shape, how, str(kit.device)) for name, how in contestants.items()}
    told_first = {name: process.hear() for name, process in processes.items()}
    going = {name: process for name, process in processes.items() if "error" not in told_first[name]}
    heard: dict[str, list[dict[str, Any]]] = {name: [] for name in going}
    for _ in range(rounds):
        for name, process in going.items():
            heard[name].append(process.train(seconds))
    for process in processes.values():
        process.end()
    flops = 3 * text_run(shape.model, batch=shape.batch, context=shape.context).budget.flops_per_token
    return [
        _timed(kit, name, how, heard.get(name, []) or [told_first[name]], flops) for name, how in contestants.items()
    ]


def _timed(kit: Kit, name: str, how: Mapping[str, Any], rounds: list[dict[str, Any]], flops: float) -> Row:
    if errors := [each["error"] for each in rounds if "error" in each]:
        return {"trained by": name, "tokens/s": None, "why not": errors[0]}
    rates = [each["tokens_per_s"] for each in rounds]
    peak = product_flops(kit.device, how["precision"], 512 if kit.tiny or not kit.on_gpu else 8192)
    return {
        "trained by": name,
        "tokens/s": statistics.median(rates),
        "range": f"{min(rates):,.0f} to {max(rates):,.0f}",
        "GB": max(each["memory_bytes"] for each in rounds) / 1e9,
        "% of torch's product": 100 * statistics.median(rates) * flops / peak,
    }


def planned(shape: Shape, what: str) -> list[Row]:
    """Check the inputs of what needs a GPU, and say what it would do."""
    run = text_run(shape.model, batch=shape.batch, context=shape.context)
    fits = run.budget.peak_bytes < H200_BYTES
    assert fits, f"{run.budget.peak_bytes} bytes do not fit"
    return [{"would": what, "parameters": run.budget.n_parameters, "GB by the estimate": run.budget.peak_bytes / 1e9}]


def speed(kit: Kit) -> list[Cell]:
    """Return the races: first of all ways at 68.5 M parameters, then at 124 M, then against the number of heads."""
    ours = {
        f"Headway {mode} {precision}": how_of("Headway", precision, compile=mode == "compiled")
        for mode in ("eager", "compiled")
        for precision in ("fp32", "tf32", "bf16")
    }
    neo = {f"GPT-Neo eager {precision}": how_of("GPT-Neo", precision, compile=False) for precision in ("fp32", "bf16")}
    neo["GPT-Neo SDPA compiled bf16"] = how_of("GPT-Neo", "bf16", compile=True, attention="sdpa")
    gpt2 = {"GPT-2 SDPA compiled bf16": how_of("GPT-2", "bf16", compile=True, attention="sdpa")}
    fast = {name: ours[name] for name in ("Headway compiled fp32", "Headway compiled bf16", "Headway eager bf16")}
    races = {"68.5 M": (150.0, 12, ours | neo | gpt2), "124 M": (90.0, 12, fast | gpt2)}
    races |= {f"{n} heads a layer": (55.0, n, fast) for n in (48, 3, 24, 6)}
    cells = []
    for name, (estimate, n_heads, ways) in races.items():
        if kit.on_gpu:
            measured = partial(race, kit, Shape.of(kit, name, n_heads), ways)
        elif name == "68.5 M":
            few = {way: how for way, how in ways.items() if way.endswith("eager fp32")}
            measured = partial(race, kit, Shape.of(kit, name, n_heads), few)
        else:
            measured = partial(planned, Shape.of(replace(kit, tiny=False), name, n_heads), f"race {len(ways)} ways")
        cells.append(Cell(name=name, estimate_s=estimate, measure=measured))
    return cells


# widths


def widths(kit: Kit) -> list[Cell]:
    """Return attention alone and whole steps against d_head at equal width, and ragged layouts."""
    d_model = 128 if kit.tiny else 768
    d_heads = (2, 16) if kit.tiny else (2, 4, 8, 16, 32, 64)
    precisions = ("fp32", "bf16") if kit.on_gpu else ("fp32",)
    layouts = {"ragged 24-12-6-3": "24-12-6-3", "uniform 12": 12, "ragged 96-48-24-12": "96-48-24-12", "uniform 48": 48}
    layouts = {"ragged 8-4-2-1": "8-4-2-1", "uniform 4": 4} if kit.tiny else layouts
    heads = {f"d_head {d}": d_model // d for d in d_heads} | layouts
    cells = []
    for p in precisions:
        measured = partial(attention_widths, kit, d_model, d_heads, p), partial(step_widths, kit, d_model, heads, p)
        cells.append(Cell(name=f"attention {p}", estimate_s=30, measure=measured[0]))
        cells.append(Cell(name=f"steps {p}", estimate_s=60, measure=measured[1]))
    return cells


def attention_widths(kit: Kit, d_model: int, d_heads: Iterable[int], precision: str) -> Iterator[Row]:
    """Yield the time and memory of attention, forward and backward, without and with a window."""
    batch, length = (1, 64) if kit.tiny else (16, 512)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    for d_head in d_heads:
        shape = batch, d_model // d_head, length, d_head
        q, k, v = (torch.randn(shape, device=kit.device).to(dtype).requires_grad_() for _ in range(3))
        row: dict[str, Any] = {"d_head": d_head, "heads": shape[1]}
        for name, window in (("", None), (", window 256", length // 2)):

            def step(q: Any = q, k: Any = k, v: Any = v, window: Any = window) -> None:
                attention.attend(q, k, v, scale=1.0, window=window).sum().backward()

            meter = Meter(kit.device)
            step()
            meter.begin_training()
            row[f"ms{name}"] = 1e3 * kit.median_s(step, 0.05 if kit.tiny else 0.5)
            row[f"MB{name}"] = meter.metrics()["memory_bytes"] / 1e6
        yield row


def step_widths(kit: Kit, d_model: int, heads: Mapping[str, int | str], precision: str) -> Iterator[Row]:
    """Yield the time and memory of a training step, eager, with the parameters of the published model."""
    batch, context, vocab = (1, 64, 512) if kit.tiny else (16, 512, VOCAB)
    for name, n_heads in heads.items():
        model = {"family": "gpt-neo", "d_model": d_model, "n_layers": 4, "n_heads": n_heads}
        kit.settle()
        meter = Meter(kit.device)
        run = text_run(model, batch=batch, context=context, vocab=vocab, precision=precision)
        trainer = trainer_of(run, kit.device)
        trainer.advance(1)
        meter.begin_training()
        seconds = kit.median_s(lambda trainer=trainer: trainer.advance(1), 0.1 if kit.tiny else 2.0)
        yield {"layout": name, "ms": 1e3 * seconds, "GB": meter.metrics()["memory_bytes"] / 1e9}


# together


def together(kit: Kit) -> list[Cell]:
    """Return ensembles of three tasks, larger and larger until memory ends."""
    sizes = (2,) if kit.tiny else (8, 64, 512, 4096, 10_000)
    return [
        Cell(name=f"{n} × {task}", estimate_s=8 + 0.006 * n, measure=partial(ensemble_rate, kit, task, n))
        for n in sizes
        for task in ENSEMBLES
    ]


def _small_text() -> Experiment:
    import together as side_by_side

    return resolve(side_by_side.LANGUAGE)


ENSEMBLES: dict[str, tuple[Callable[[], Experiment], str]] = {
    "parity": (lambda: load("heads-for-parity"), "n3-h3"),
    "recall": (lambda: load("heads-for-recall"), "h2"),
    "text": (_small_text, "plain"),
}
"""By task: the experiment, and its arm."""


def ensemble_rate(kit: Kit, task: str, n: int) -> Iterator[Row]:
    """Yield the steps per second of all members, and the share of a step that goes into drawing their batches."""
    kit.settle()
    scratch()
    declared, arm = ENSEMBLES[task]
    template = declared().arm(arm)
    runs = [template.spec(seed) for seed in range(n)]
    meter, began = Meter(kit.device), time.perf_counter()
    try:
        ensemble, _ = ensemble_of(runs, open_examples(runs[0].task), STEPS, kit.device)  # type: ignore[arg-type]
        ensemble.advance(1)
        opened_s = time.perf_counter() - began
        step_s = kit.median_s(lambda: ensemble.advance(1), 0.1 if kit.tiny else 2.0)
        drawing_s = kit.median_s(lambda: ensemble._tensors(ensemble.step + 1), 0.05 if kit.tiny else 0.5)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        yield {"members": n, "model-steps/s": None, "why not": "out of memory"}
        return
    speeds = {"model-steps/s": n / step_s, "ms a step": 1e3 * step_s, "% drawing": 100 * drawing_s / step_s}
    yield {"members": n, **speeds, "GB": meter.metrics()["memory_bytes"] / 1e9, "s to open": opened_s}


# published


def published(kit: Kit) -> list[Cell]:
    """Return a run of head-progression's paper scale, and runs of it side by side on one GPU."""
    seconds = {1: 2.0, 2: 2.0} if kit.tiny else {1: 180.0, 4: 40.0, 8: 40.0}
    return [
        Cell(name=f"{n} at once" if n > 1 else "one run", estimate_s=s + COMPILING_S, measure=partial(rates, kit, n, s))
        for n, s in seconds.items()
    ]


PUBLISHED_STEPS = 247_500 * 206 // 512
"""Steps of a published run: 99 % of 250,000 stories of about 206 tokens, 512 tokens a step."""


def paper_experiment(kit: Kit, name: str = "head-progression") -> Experiment:
    """Return the paper scale of an experiment on the data of the kit; small and short for --tiny."""
    small = ["model.d_model=96", "task.n_ctx=64", "evaluation.sequences_during=4"]
    settings = [*settings_of(kit.data), "logging.every=100", *([*small, "logging.every=5"] if kit.tiny else [])]
    return load(name, scale="paper", settings=[*settings, "samples.tokens=20"])


def rates(kit: Kit, n: int, seconds: float) -> Iterator[Row]:
    """Train some seeds of an arm at once for a time, and yield the loss against tokens and what follows from it."""
    experiment = paper_experiment(kit).select(arms=["constant-low"], seeds=n)
    folder = scratch() / f"published-{n}-{'tiny' if kit.tiny else 'whole'}-{kit.device.type}"
    records = trained_for(experiment, folder, kit.device.type, n, seconds)
    per_s = [_rate(of_run) for of_run in records]
    for record in _some_of(records[0], 8):
        yield {
            "tokens": record["tokens"],
            "loss": record.get("train_loss_nats"),
            "held out": record.get("eval_loss_nats"),
        }
    steps_per_s = sum(per_s) / (records[0][-1]["tokens"] / records[0][-1]["step"])
    run = experiment.arm("constant-low").spec(0)
    yield {
        "runs": n,
        "tokens/s of all": sum(per_s),
        "steps/s of all": steps_per_s,
        "% of the roofline": 100 * steps_per_s * max(roofline(run).values()),
        "h for 9 arms × 5 seeds": 9 * 5 * PUBLISHED_STEPS / steps_per_s / 3600,
    }


def _rate(records: Records) -> float:
    """Return tokens per second of training from the last half of the records."""
    first, last = records[(len(records) - 1) // 2], records[-1]
    return (last["tokens"] - first["tokens"]) / (last["wall_s"] - first["wall_s"])


def _some_of(records: Records, n: int) -> Records:
    there = [record for record in records if record["step"]]
    return [there[i] for i in sorted({round(at) for at in np.linspace(0, len(there) - 1, min(n, len(there)))})]


def trained_for(experiment: Experiment, folder: Path, device: str, n: int, seconds: float) -> list[Records]:
    """Train the runs of an experiment by workers, ask them to stop after a time, and return their records."""
    places = local_places(device, workers=n, runs=n, runs_per_gpu=n if device == "cuda" else 1)
    _, runs = api.prepare(experiment, folder, [place.slot for place in places], together=1)
    workers = [place.start(run.path, log=run.path / "worker.log") for place, run in zip(places, runs, strict=True)]
    began, end = None, time.monotonic() + seconds + LATE_S
    while any(worker.ended is None for worker in workers) and time.monotonic() < end:
        recorded = [lines_of(run.path / "metrics.jsonl") for run in runs]
        began = time.monotonic() if began is None and min(recorded) > 1 else began  # all of them train
        if began is not None and time.monotonic() > began + seconds and min(recorded) >= FEWEST_RECORDS:
            break
        time.sleep(0.1)
    for worker in workers:
        worker.ask_to_stop()
    end = time.monotonic() + 30
    while any(worker.ended is None for worker in workers) and time.monotonic() < end:
        time.sleep(0.1)
    for worker in workers:
        worker.kill()
    done = [Run.open(run.path) for run in runs]
    if failed := [f"{run.name} seed {run.seed}: {run.message}" for run in done if run.status == "failed"]:
        raise RuntimeError(failed[0])
    return [run.records() for run in done]


COMPILING_S = 70.0
"""What workers take on an H200 until they train."""
LATE_S = 90.0
"""Workers that train later than this, on a busy machine, are stopped all the same."""
FEWEST_RECORDS = 4


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the kit ends it
    contestant(json.loads(sys.argv[1]))
