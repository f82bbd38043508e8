"""What the spread of a run comes from, and what makes it smaller: `python benchmarks/spread.py FILE`.

Two arms of two experiments at the laptop's scale, cut down (`CUT`), on a real text (`--corpus`, `--validation`), over
some seeds. Every run is a line of FILE, so that a study may be stopped and gone on with; `--report` prints the tables
of what is there. Variants:

* `base`: as declared. On the way the weights are averaged (by an exponential mean of .98, and over the last tenth), and
  what comes out is judged on 250, on 1,000 and on all sequences;
* `touched`: all runs have seed 0, and each initial weight is changed by one part in a million: what is left of the
  spread when initial function and data are shared, which no way of pairing can take away;
* `first-weights`, `order`: only the initial weights, or only the order of the data, differ between seeds;
* `nested`: matrices with fewer columns begin with the first ones of those with more;
* `twice`: twice the steps; `half-rate`: half the rates; `cosine`: decay by a cosine;
* `end-batch`: the second half of the sequences in batches four times as large, so at the same cost and with fewer
  steps; `shorter`: as few steps, of the usual batches.
"""

import argparse
import itertools
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.execute.worker import set_up_process

set_up_process(threads=1)

import numpy as np
import torch
from scipy.special import chdtri

from headway.base import rng
from headway.config.lm.budget import parameters_of
from headway.config.lm.run import TokensRun
from headway.config.load import load
from headway.data.batch import Batch, open_examples
from headway.models.transformer import Transformer
from headway.models.weights import Weights, initial_weights
from headway.train.lm.loss import TokensLoss
from headway.train.lm.study import tokens_trainer

CUT = {
    "gqa": ["model.d_model=32"],
    "head-scaling": ["model.d_model=32", "model.n_heads=3", "model.d_mlp=96"],
}
BOTH = ["model.n_layers=2", "model.n_positions=64", "task.n_ctx=64", "task.tokenizer=bpe-512"]
ARMS = {"gqa": ("kv-8", "kv-2"), "head-scaling": ("uniform", "ascending")}
NESTED = ("head-scaling", "uniform")
"""An arm that begins otherwise if draws are nested: fewer rows are drawn as the first of more rows anyway, and only
columns are not; here those of the output projections."""
BATCH, STEPS = 8, 600
SHORTER = STEPS // 2 + STEPS // 8
"""Steps of as many sequences as `STEPS`, if the second half is in batches four times as large."""
VARIANTS = (
    "base", "touched", "end-batch", "nested", "twice", "half-rate", "first-weights", "order", "cosine", "shorter",
)  # fmt: skip
JUDGED = (250, 1_000, None)


@dataclass(frozen=True)
class Course:
    """What one run of a variant is trained with."""

    weights_of: int
    data_of: int
    steps: int
    changes: dict[str, Any]
    touched: int | None = None
    nested: bool = False
    end_batch: bool = False


def course(variant: str, seed: int) -> Course:
    weights_of = 0 if variant in ("touched", "order") else seed
    data_of = 0 if variant in ("touched", "first-weights") else seed
    changes: dict[str, Any] = {"lr_schedule": "cosine"} if variant == "cosine" else {}
    steps = {"twice": 2 * STEPS, "end-batch": SHORTER, "shorter": SHORTER}.get(variant, STEPS)
    return Course(
        weights_of,
        data_of,
        steps,
        changes,
        touched=seed if variant == "touched" else None,
        nested=variant == "nested",
        end_batch=variant == "end-batch",
    )


class Lab:
    """An arm whose loss is compiled once, for all its runs."""

    def __init__(self, experiment: str, arm: str, texts: list[str]):
        loaded = load(
            experiment, settings=[*texts, *CUT[experiment], *BOTH, f"training.steps={STEPS}", "training.tokens=null"]
        )
        run, self.others = (loaded.arm(name).spec(0) for name in (arm, *set(ARMS[experiment]) - {arm}))
        assert isinstance(run, TokensRun)
        self.run = run
        self.examples = open_examples(run.task)
        self.module = Transformer(run.model, self.examples.vocab_size, self.drawn(0, nested=False))
        self.loss = TokensLoss(run, self.module, compile=True)
        self.judged = {n: list(self.examples.evaluation_batches(n, BATCH)) for n in JUDGED}

    def drawn(self, seed: int, *, nested: bool) -> Weights:
        """Initial weights; nested: what two arms have in other shapes begins alike as far as both reach."""
        weights = initial_weights(self.run.model, self.examples.vocab_size, seed)
        if nested:
            assert isinstance(self.others, TokensRun)
            theirs = {p.name: p.shape for p in parameters_of(self.others.model, self.examples.vocab_size)}
            for name, array in weights.items():
                shape = tuple(map(max, array.shape, theirs[name]))
                draw = rng.generator(seed, "initial weights", name).standard_normal(shape, np.float32)
                if array.ndim == 2:
                    part = draw[tuple(map(slice, array.shape))] * np.float32(self.run.model.init_std)
                    weights[name] = np.ascontiguousarray(part)
        return weights

    def train(self, variant: str, seed: int) -> dict[str, float]:
        """The losses of a run, by how it is judged, and what it cost in seconds of the processor."""
        now = course(variant, seed)
        weights = self.drawn(now.weights_of, nested=now.nested)
        if now.touched is not None:
            draw = np.random.default_rng(now.touched)
            weights = {
                k: (a * (1 + 1e-6 * draw.standard_normal(a.shape))).astype(np.float32) for k, a in weights.items()
            }
        self.module.put(weights)
        training = self.run.training
        changes = dict(now.changes)
        if variant == "half-rate":
            changes |= {"learning_rate": training.learning_rate / 2}
            changes |= {"adamw_learning_rate": training.adamw_learning_rate / 2}  # type: ignore[union-attr]
        self.loss.run = self.run.model_copy(update={"training": training.model_copy(update=changes)})
        trainer = tokens_trainer(self.loss, now.steps, lambda step: self.loss.split(self._batch(now, step)))
        for optimizer in trainer._optimizers:
            if isinstance(optimizer, torch.optim.Muon):
                optimizer.step = stacked_muon(optimizer)  # type: ignore[method-assign]
        began, parameters = time.process_time(), list(self.module.parameters())
        if variant != "base":
            trainer.advance(now.steps)
            return {"1000": self._judged(1_000), "cpu_s": time.process_time() - began}
        trainer.advance(now.steps - now.steps // 5)
        mean, last, n = [p.detach().clone() for p in parameters], [torch.zeros_like(p) for p in parameters], 0
        for step in range(now.steps - now.steps // 5, now.steps):
            trainer.advance(1)
            with torch.no_grad():
                torch._foreach_lerp_(mean, parameters, 0.02)
                if step >= now.steps - now.steps // 10:
                    torch._foreach_add_(last, parameters)
                    n += 1
        cost = time.process_time() - began
        found = {"all" if size is None else str(size): self._judged(size) for size in JUDGED} | {"cpu_s": cost}
        for name, values in (("mean .98", mean), ("mean of last", [value / n for value in last])):
            with torch.no_grad():
                torch._foreach_copy_(parameters, values)
            found[name] = self._judged(1_000)
        return found

    def _batch(self, now: Course, step: int) -> Batch:
        if now.end_batch and step > STEPS // 2:
            whole = STEPS // 2 // 4 + step - 1 - STEPS // 2
            return self.examples.training_batch(now.data_of, whole, 4 * BATCH)
        return self.examples.training_batch(now.data_of, step - 1, BATCH)

    def _judged(self, size: int | None) -> float:
        return self.loss.mean_over(self.judged[size])


def stacked_muon(muon: torch.optim.Muon) -> Callable[[], None]:
    """Muon's step with matrices of one shape side by side: the same terms, five times as fast for such small ones."""
    group = muon.param_groups[0]
    shapes: dict[torch.Size, list[torch.Tensor]] = {}
    for parameter in group["params"]:
        shapes.setdefault(parameter.shape, []).append(parameter)
    momenta = {shape: torch.zeros(len(some), *shape) for shape, some in shapes.items()}
    a, b, c = group["ns_coefficients"]

    @torch.no_grad()
    def step() -> None:
        for shape, some in shapes.items():
            grads = torch.stack([parameter.grad for parameter in some if parameter.grad is not None])
            momentum = momenta[shape].lerp_(grads, 1 - group["momentum"])
            x = grads.lerp(momentum, group["momentum"]).bfloat16()
            x = x.mT if shape[0] > shape[1] else x
            x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=group["eps"])
            for _ in range(group["ns_steps"]):
                gram = x @ x.mT
                x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
            x = x.mT if shape[0] > shape[1] else x
            rate = group["lr"] * math.sqrt(max(1, shape[0] / shape[1]))
            torch._foreach_add_(some, list(x.float().unbind()), alpha=-rate)

    return step


def study(file: Path, seeds: int, texts: list[str], variants: list[str], names: list[str], until: float) -> None:
    done, labs = {key(line) for line in lines(file)}, dict[tuple[str, str], Lab]()
    for variant, name in itertools.product(variants, names):
        if variant == "nested" and name != NESTED[0]:
            continue
        arms = NESTED[1:] if variant == "nested" else ARMS[name]
        for seed, arm in itertools.product(range(seeds), arms):
            told = {"experiment": name, "arm": arm, "variant": variant, "seed": seed}
            if key(told) in done:
                continue
            if time.monotonic() > until:
                return
            if (name, arm) not in labs:
                labs[name, arm] = Lab(name, arm, texts)
            told |= labs[name, arm].train(variant, seed)
            with file.open("a") as out:
                out.write(json.dumps(told) + "\n")
            print(told, flush=True)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def key(told: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(told[part] for part in ("experiment", "arm", "variant", "seed"))


def report(file: Path) -> None:
    """The tables: spreads in per cent of the loss (100 ln), of a run and of the difference of two arms of one seed."""
    found = lines(file)
    variants = list(dict.fromkeys(line["variant"] for line in found))
    base_of = {name: _Spreads.of(found, name, "base", "1000") for name in ARMS}
    print("| experiment | variant | runs | loss | a run | paired difference | seeds explain | over base | processor |")
    print("|---|---|---|---|---|---|---|---|---|")
    for variant, judged in [*((v, "1000") for v in variants), *(("base", other) for other in OTHERWISE)]:
        ratios = []
        for name in ARMS:
            one = _Spreads.of(found, name, variant, judged)
            if one is None or (base := base_of[name]) is None:
                continue
            ratios.append((math.log(one.run / base.run), 1 / (2 * one.freedom) + 1 / (2 * base.freedom)))
            label = variant if judged == "1000" else f"{variant}, {judged}"
            print(
                f"| {name} | {label} | {one.n} | {one.loss:.3f} | {one.shown(one.run, one.freedom)} | "
                f"{one.shown(one.paired, one.paired_freedom)} | {one.shared:.2f} | {one.run / base.run:.2f} | "
                f"{one.cost / base.cost:.2f} |"
            )
        if ratios and (variant, judged) != ("base", "1000"):
            mean = sum(ratio for ratio, _ in ratios) / len(ratios)
            far = 1.96 * math.sqrt(sum(variance for _, variance in ratios)) / len(ratios)
            ends = ", ".join(f"{math.exp(end):.2f}" for end in (mean, mean - far, mean + far))
            print(f"| both | {variant}, {judged}: ratio and 95 % interval, runs taken as apart | {ends} |")


OTHERWISE = ("250", "all", "mean .98", "mean of last")
"""How else the runs of `base` are judged."""


@dataclass(frozen=True)
class _Spreads:
    n: int
    loss: float
    run: float
    freedom: int
    paired: float
    paired_freedom: int
    shared: float
    cost: float

    @classmethod
    def of(cls, found: list[dict[str, Any]], name: str, variant: str, judged: str) -> "_Spreads | None":
        arms: list[dict[int, float]] = []
        some = [one for one in found if (one["experiment"], one["variant"]) == (name, variant) and judged in one]
        for arm in ARMS[name]:
            arms.append({one["seed"]: 100 * math.log(one[judged]) for one in some if one["arm"] == arm})
        if variant == "nested":  # the other arm is as ever
            arms[1] = {
                one["seed"]: 100 * math.log(one["1000"])
                for one in found
                if (one["experiment"], one["variant"], one["arm"]) == (name, "base", ARMS[name][1])
            }
        both = sorted(set(arms[0]) & set(arms[1]))
        if len(both) < 3:
            return None
        y = np.array([[arm[seed] for seed in both] for arm in arms])
        own = float(y.var(axis=1, ddof=1).mean())
        between = float((y[0] - y[1]).var(ddof=1))
        loss, cost = (float(np.mean([one[part] for one in some])) for part in (judged, "cpu_s"))
        freedom = len(both) - 1
        return cls(2 * len(both), loss, own**0.5, 2 * freedom, between**0.5, freedom, 1 - between / 2 / own, cost)

    @staticmethod
    def shown(spread: float, freedom: int) -> str:
        low, high = (spread * math.sqrt(freedom / chdtri(freedom, tail)) for tail in (0.025, 0.975))
        return f"{spread:.3f} ({low:.3f} to {high:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--corpus")
    parser.add_argument("--validation")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--experiments", default=",".join(ARMS))
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no run after so many")
    parser.add_argument("--report", action="store_true", help="only print what FILE holds")
    asked = parser.parse_args()
    if asked.report:
        report(asked.file)
        return
    texts = [f"task.corpus={asked.corpus}", f"task.validation={asked.validation}"]
    until = time.monotonic() + asked.seconds
    study(asked.file, asked.seeds, texts, asked.variants.split(","), asked.experiments.split(","), until)


if __name__ == "__main__":
    main()
