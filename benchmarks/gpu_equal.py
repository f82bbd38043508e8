"""The pieces of the GPU kit that compare devices: `equal` and `models` (`benchmarks/gpu.py`).

`equal` holds the device's values and gradients beside the CPU's in float64. An error is a multiple of the precision,
relative to the largest value: `x eps`. The tests of the suite allow 2 sqrt(700) = 53 of them for a pass through a small
model (`tests/support/tolerance.py`), and each row says whether its error is within that. Models are those of the laws,
which differ in every declared choice (`tests/support/drawn_transformers.py`). If a comparison meets an error, as of an
operation that refuses to be deterministic, the row holds that error, and the next row is measured.

`models` times the verbs on a model of 68.5 M parameters, and compares their numbers with the CPU's.
"""

import copy
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu_pieces import VOCAB as GPT2_VOCAB
from gpu_pieces import Cell, Kit, Row, lines_of, published_model, scratch, text_run, told
from support.drawn_transformers import MODELS, VOCAB, built, text
from support.measuring import measure
from support.slow_attention import reference_attention
from support.tolerance import TERMS
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from headway import api
from headway.analysis.ablate import ablate as ablate_text
from headway.analysis.patch import patch
from headway.analysis.prune import prune
from headway.analysis.xray import xray
from headway.causal.ablation import ablate
from headway.causal.attribution import attribute
from headway.causal.checks import check_interventions, check_patching
from headway.causal.patch_result import PATCH_SITES
from headway.causal.patching import TwoRuns, patched_effects
from headway.causal.substitutes import OtherText
from headway.config.kinds import parse_run
from headway.config.lm.run import TASKS, TokensRun
from headway.config.load import load, resolve
from headway.config.yaml import shipped
from headway.data.batch import open_examples
from headway.execute.places import LocalWorker, local_places
from headway.heads.measure import repeated_tokens
from headway.heads.regularizers import TERMS as REGULARIZERS
from headway.models import attention
from headway.models.generate import generate
from headway.models.transformer import Transformer, mean_loss
from headway.models.weights import initial_weights
from headway.store.run import Run
from headway.train.device import Meter
from headway.train.lm.ensemble import ensemble_of
from headway.train.lm.loss import TokensLoss
from headway.train.lm.optimizer import tokens_optimizers
from headway.train.lm.study import initial_module, tokens_trainer

ROOT = Path(__file__).resolve().parents[1]
WITHIN = 2 * TERMS**0.5
NOTHING = 1e-9
"""The size of a tensor, beside the largest, below which it is rounding."""
BACKENDS = [getattr(SDPBackend, name) for name in ("MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION")]
EPS = {torch.float32: torch.finfo(torch.float32).eps, torch.bfloat16: torch.finfo(torch.bfloat16).eps}
Found = Mapping[str, Tensor]
"""Tensors by name."""
Measured = Callable[[Transformer, torch.device], Found]
Attends = Callable[..., Tensor]
CPU = torch.device("cpu")


def equal(kit: Kit) -> list[Cell]:
    """Return the comparisons, those that nothing else makes sense without first."""
    cells: dict[str, tuple[float, Callable[[Kit], Iterator[Row]]]] = {
        "models": (25, laws_models),
        "kernels": (30, kernels),
        "repeats": (90, repeats),
        "resume": (60, resume),
        "optimizers": (5, optimizers),
        "tasks": (15, tasks),
        "metrics": (10, metrics),
        "interventions": (20, interventions),
        "together": (20, members),
        "writing": (10, writing),
        "the suite's GPU tests": (90, suite),
    }
    return [Cell(name=name, estimate_s=s, measure=partial(measured, kit)) for name, (s, measured) in cells.items()]


# Comparing


def errors(found: Found, reference: Found, eps: float, single: Found | None = None) -> dict[str, Any]:
    """Return the largest error over all tensors, each relative to its own largest value, and the tensor that has it.

    A tensor that is nothing but rounding, such as the gradient of a bias of keys, is relative to the largest of all.

    Args:
        found: on the device.
        reference: in float64 on the CPU.
        eps: the precision.
        single: on the CPU in the device's precision; where that errs much, the device may err three times as much.
    """
    sizes = {name: float(expected.abs().max()) for name, expected in reference.items() if expected.numel()}
    largest = max(sizes.values())

    def relative(tensors: Found) -> dict[str, float]:
        by_name = {}
        for name, size in sizes.items():
            error = float((tensors[name].detach().cpu().double() - reference[name]).abs().max())
            by_name[name] = error / (size if size > NOTHING * largest else largest or 1.0) / eps
        return {name: math.inf if math.isnan(error) else error for name, error in by_name.items()}

    by_name = relative(found)
    where, on_cpu = max(by_name, key=by_name.__getitem__), 0.0 if single is None else max(relative(single).values())
    told = {"x eps": by_name[where], "in": where} | ({} if single is None else {"CPU x eps": on_cpu})
    return {**told, "within": by_name[where] <= max(WITHIN, 3 * on_cpu)}


def row(what: str, compare: Callable[[], Mapping[str, Any]]) -> Row:
    """Return what a comparison gives, or what it met."""
    try:
        return {"what": what, **compare()}
    except Exception as error:  # noqa: BLE001 - it is the finding
        return {"what": what, "within": False, "met": told(error)}


def with_gradients(module: nn.Module, value: Tensor) -> Found:
    """Return a value, and its gradients by the parameters that it has one by."""
    parameters = dict(module.named_parameters())
    gradients = torch.autograd.grad(value.sum(), list(parameters.values()), allow_unused=True)
    return {"value": value.detach()} | {
        name: gradient for name, gradient in zip(parameters, gradients, strict=True) if gradient is not None
    }


def beside(kit: Kit, module: Transformer, measured: Measured) -> tuple[Found, Found]:
    """Return what is measured of a model on the device, and of the model in float64 on the CPU."""
    reference = measured(copy.deepcopy(module).double(), CPU)
    found = measured(copy.deepcopy(module).to(kit.device), kit.device)
    return found, {name: tensor.detach().cpu().double() for name, tensor in reference.items()}


def compared(kit: Kit, module: Transformer, measured: Measured, eps: float) -> dict[str, Any]:
    """Return the errors of the device, and of the CPU in the device's precision."""
    found, reference = beside(kit, module, measured)
    return errors(found, reference, eps, measured(copy.deepcopy(module), CPU) if kit.on_gpu else found)


# Models, tasks and kernels


def _loss(module: Transformer, device: torch.device, inputs: Tensor, targets: Tensor, dtype: torch.dtype) -> Found:
    with torch.autocast(device.type, torch.bfloat16, enabled=dtype is torch.bfloat16 and _is_single(module)):
        logits = module(inputs.to(device))[0]
    wide = logits if logits.dtype is torch.float64 else logits.float()
    return with_gradients(module, nn.functional.cross_entropy(wide.flatten(0, 1), targets.to(device).flatten()))


def _is_single(module: nn.Module) -> bool:
    return next(module.parameters()).dtype is torch.float32


def laws_models(kit: Kit) -> Iterator[Row]:
    """Compare loss and gradients of every model of the laws, in single precision and in bf16."""
    tokens = text(LENGTH + 1)
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    for name, declared in list(MODELS.items())[:: 6 if kit.tiny else 1]:
        for dtype in EPS:

            def compare(declared: Any = declared, dtype: torch.dtype = dtype) -> Mapping[str, Any]:
                loss = partial(_loss, inputs=inputs, targets=targets, dtype=dtype)
                return compared(kit, built(declared), loss, EPS[dtype])

            yield row(f"{name}, {_named(dtype)}", compare)


LENGTH = 69
"""With the token after it, as long as the laws' texts: more than two blocks of queries."""


def _named(dtype: torch.dtype) -> str:
    return "bf16" if dtype is torch.bfloat16 else "fp32"


def tasks(kit: Kit) -> Iterator[Row]:
    """Compare the training loss of an arm of each kind of task, on its own first batch."""
    seen = set()
    for name in shipped():
        template = load(name).arms[0].resolved_spec
        kind = template.task.kind
        if kind in seen or kind not in TASKS or kind == "text":
            continue
        seen.add(kind)
        yield row(f"{kind}, of {name}", partial(_task, kit, template.at_seed(0)))


def _task(kit: Kit, run: TokensRun) -> Mapping[str, Any]:
    examples = open_examples(run.task)
    batch = examples.training_batch(0, 0, run.training.batch_size)
    inputs, targets = torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)

    def loss(module: Transformer, device: torch.device) -> Found:
        given = inputs.to(device)
        given = given.to(next(module.parameters()).dtype) if given.is_floating_point() else given
        return with_gradients(module, mean_loss(module(given)[0], targets.to(device)))

    return compared(kit, initial_module(run, examples), loss, EPS[torch.float32])


def kernels(kit: Kit) -> Iterator[Row]:
    """Compare attention and its gradients by width, window and queries; then each of torch's kernels by itself."""
    d_heads = (1, 2, 8, 10) if kit.tiny else (1, 2, 3, 8, 10, 16, 48, 64, 80, 128, 256)
    for d_head in d_heads:
        for what, options in {"": {}, ", window 20": {"window": 20}, ", future": {"attends": "future"}}.items():
            for dtype in EPS:
                ask = partial(attention.attend, scale=0.3, **options)
                expected = partial(reference_attention, scale=0.3, **options)
                yield row(
                    f"d_head {d_head}{what}, {_named(dtype)}", partial(_attention, kit, d_head, dtype, ask, expected)
                )
        some = partial(_attention, kit, d_head, torch.float32, queries=5)
        ask, expected = (partial(f, scale=0.3, window=20) for f in (attention.attend, reference_attention))
        yield row(f"d_head {d_head}, 5 queries of 70, fp32", partial(some, ask, expected))
    for backend in BACKENDS:
        for dtype in EPS:
            yield row(f"{backend.name.lower()}, {_named(dtype)}", partial(_backend, kit, backend, dtype))


def _attention(
    kit: Kit, d_head: int, dtype: torch.dtype, ask: Attends, expected: Attends, queries: int = 70
) -> Mapping[str, Any]:
    draw = torch.Generator().manual_seed(d_head)
    lengths = {"q": queries, "k": 70, "v": 70}
    given = {name: torch.randn(2, 3, n, d_head, generator=draw).to(dtype) for name, n in lengths.items()}
    found, reference = (
        _with_input_gradients(function, {name: x.to(device, kind) for name, x in given.items()})
        for function, device, kind in ((ask, kit.device, dtype), (expected, CPU, torch.float64))
    )
    return errors(found, reference, EPS[dtype])


def _with_input_gradients(function: Attends, given: Found) -> Found:
    leaves = {name: x.detach().requires_grad_() for name, x in given.items()}
    value = function(*leaves.values())
    weights = torch.linspace(-1, 1, value.numel(), device=value.device).to(value.dtype).view_as(value)
    gradients = torch.autograd.grad((value * weights).sum(), list(leaves.values()))
    return {"z": value.detach(), **dict(zip(leaves, gradients, strict=True))}


def _backend(kit: Kit, backend: SDPBackend, dtype: torch.dtype) -> Mapping[str, Any]:
    """Compare one of torch's kernels, and repeat its gradients."""

    def ask(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(backend):
            return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)

    expected = partial(reference_attention, scale=0.3)
    given = {name: torch.randn(2, 3, 70, 16, device=kit.device).to(dtype) for name in "qkv"}
    first, again = (_with_input_gradients(ask, given) for _ in range(2))
    same = all(torch.equal(first[name], again[name]) for name in first)
    return {**_attention(kit, 16, dtype, ask, expected), "repeats": same}


# Heads


def metrics(kit: Kit) -> Iterator[Row]:
    """Compare every metric of traces on repeated tokens, and every regularizer with its gradients."""
    module = built(MODELS["GQA"])
    tokens = torch.from_numpy(repeated_tokens(VOCAB, 15, 4, 0))

    def scores(module: Transformer, device: torch.device) -> Found:
        with torch.no_grad():
            found = measure(module.trace(tokens.to(device)), period=15)
        return {
            f"{name}/{where}": torch.from_numpy(np.nan_to_num(np.atleast_1d(value).astype(np.float64)))
            for name, score in found.items()
            for where, value in score.values.items()
        }

    found, reference = beside(kit, module, scores)
    for name in dict.fromkeys(key.partition("/")[0] for key in reference):
        one = {key: tensor for key, tensor in reference.items() if key.startswith(f"{name}/")}
        yield row(name, partial(errors, found, one, EPS[torch.float32]))
    for name, term in REGULARIZERS.items():

        def value(module: Transformer, device: torch.device, term: Any = term) -> Found:
            traced = module.trace(tokens.to(device))
            return with_gradients(module, torch.stack([term.measure(each) for each in traced.attentions]))

        yield row(f"regularizer {name}", partial(compared, kit, module, value, EPS[torch.float32]))


def interventions(kit: Kit) -> Iterator[Row]:
    """Check the laws of interventions on the device; compare effects of ablation, its estimates and patching."""
    kinds: dict[str, Measured] = {"ablate": _ablated, "attribute": _attributed}
    kinds |= {f"patch {site}": partial(_patched, site=site) for site in PATCH_SITES}
    for name in ("ragged", "GQA") if kit.tiny else ("ragged", "GQA", "rotary", "RMSNorm after"):
        module = built(MODELS[name])
        yield row(f"laws, {name}", partial(_laws, kit, module))
        for what, measured in kinds.items():
            yield row(f"{what}, {name}", partial(_effects, kit, module, measured))


def _laws(kit: Kit, module: Transformer) -> Mapping[str, Any]:
    placed, tokens = copy.deepcopy(module).to(kit.device), text(32, 1).to(kit.device)
    check_interventions(placed, tokens)
    check_patching(placed, tokens, PATCH_SITES, paths=True)
    return {"within": True}


def _effects(kit: Kit, module: Transformer, measured: Measured) -> Mapping[str, Any]:
    """Compare effects, whose roundings are those of the losses or logits that they are differences of."""
    found, reference = map(dict, beside(kit, module, measured))
    size = max(1.0, float(reference.pop("size").abs().max()))
    scaled = {name: tensor / size for name, tensor in reference.items()}
    most = max(float((found[name].cpu().double() / size - scaled[name]).abs().max()) for name in scaled)
    return {"x eps": most / EPS[torch.float32], "within": most <= WITHIN * EPS[torch.float32]}


def _texts(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    tokens = text(25, 8).to(device)
    return tokens[:4, :-1], tokens[:4, 1:], tokens[4:, :-1]


def _ablated(module: Transformer, device: torch.device) -> Found:
    inputs, targets, other = _texts(device)
    exact = ablate(module, inputs, targets, OtherText.read(module, inputs, other).stand_ins(module, slice(None)))
    effects = {kind: torch.from_numpy(np.asarray(each.flat())) for kind, each in exact.single.items()}
    return {**effects, "size": torch.from_numpy(exact.loss)}


def _attributed(module: Transformer, device: torch.device) -> Found:
    inputs, targets, other = _texts(device)
    found = attribute(module, inputs, targets, OtherText.read(module, inputs, other).stand_ins(module, slice(None)))
    return {"gates": torch.from_numpy(np.concatenate(found.gate_gradients)), "size": torch.ones(1)}


def _patched(module: Transformer, device: torch.device, site: Any) -> Found:
    inputs, _, other = _texts(device)
    runs = TwoRuns(module, inputs, other, lambda logits: logits[:, -1, 7] - logits[:, -1, 8])
    return {"effects": patched_effects(runs, site), "size": runs.values(inputs)}


# Training


def optimizers(kit: Kit) -> Iterator[Row]:
    """Compare three updates by the same gradients."""
    for name in ("adamw", "muon"):
        run = training_run(optimizer=name, weight_decay=0.1, adamw_learning_rate=0.01 if name == "muon" else None)
        yield row(name, partial(_updates, kit, run))


def _updates(kit: Kit, run: TokensRun) -> Mapping[str, Any]:
    examples = open_examples(run.task)
    first = initial_module(run, examples)

    def updated(module: Transformer, device: torch.device) -> Found:
        parameters = dict(module.named_parameters())
        made, draw = tokens_optimizers(run.training, parameters), torch.Generator().manual_seed(0)
        before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
        for _ in range(3):
            for parameter in parameters.values():
                parameter.grad = torch.randn(parameter.shape, generator=draw).to(device, parameter.dtype)
            for optimizer in made:
                optimizer.step()
        return {name: parameter.detach() - before[name] for name, parameter in parameters.items()}

    # A difference of weights has their roundings; Muon multiplies in bf16, whatever the weights.
    in_bf16 = run.training.optimizer == "muon"
    return compared(kit, first, updated, EPS[torch.bfloat16 if in_bf16 else torch.float32])


def training_run(**training: Any) -> TokensRun:
    """Return a small run on text of Headway's own, which draws its batches from the cache."""
    how = {"optimizer": "adamw", "learning_rate": 0.01, "batch_size": 4, "steps": 40, **training}
    content = {**SMALL, "training": {key: value for key, value in how.items() if value is not None}, "seed": 0}
    run = parse_run(content)
    assert isinstance(run, TokensRun)
    return run


SMALL: dict[str, Any] = {
    "task": {"kind": "text", "corpus": "stories", "stories": 200, "tokenizer": "bytes", "n_ctx": 24},
    "model": {"family": "gpt-neo", "d_model": 16, "n_layers": 2, "n_heads": "4-2", "windows": [None, 8]},
    "evaluation": {"every": 1000, "sequences_during": 8, "sequences": 16},
    "samples": None,
}


def _steps(kit: Kit, run: TokensRun, steps: int, *, compile: bool = False, parted_at: int | None = None) -> Found:
    """Return the weights after some steps; parted, the state is put into another trainer on the way."""
    examples = open_examples(run.task)

    def trainer() -> Any:
        if compile:
            torch.compiler.reset()  # or former models would count against the number of compilations
        loss = TokensLoss(run, initial_module(run, examples).to(kit.device), compile=compile)
        size = run.training.batch_size
        return tokens_trainer(loss, 40, lambda step: loss.split(examples.training_batch(run.seed, step - 1, size)))

    trained = trainer()
    if parted_at is not None:
        trained.advance(parted_at)
        state, trained = trained.state(), trainer()
        trained.restore(parted_at, state)
    trained.advance(steps - trained.step)
    return {name: torch.from_numpy(array) for name, array in trained.weights().items()}


def repeats(kit: Kit) -> Iterator[Row]:
    """Train twice, and once with the state put into another trainer: equal bits?"""
    scratch()
    kinds: dict[str, dict[str, Any]] = {
        "adamw": {},
        "muon": {"optimizer": "muon", "adamw_learning_rate": 0.01},
        "accumulated": {"grad_accumulation": 2},
        "bf16": {"precision": "bf16"},
        "drophead": {"drophead": {"start": 0.3, "end": 0.3}},
        "regularized": {"regularizers": [{"metric": name} for name in REGULARIZERS]},
    }
    for name, training in kinds.items():
        for compile in (False, True) if kit.on_gpu and name in ("adamw", "bf16", "regularized") else (False,):

            def compare(training: Any = training, compile: bool = compile) -> Mapping[str, Any]:
                run = training_run(**training)
                first, again, parted = (_steps(kit, run, 8, compile=compile, parted_at=at) for at in (None, None, 4))
                same, resumed = (all(torch.equal(first[n], other[n]) for n in first) for other in (again, parted))
                return {"repeats": same, "resumes": resumed, "within": same and resumed}

            yield row(f"{name}{', compiled' if compile else ''}", compare)


def resume(kit: Kit) -> Iterator[Row]:
    """Stop a worker on the device, kill the next, and let a third finish: the bits of a run undisturbed?"""
    yield row("stopped and killed", partial(_disturbed, kit))


def _disturbed(kit: Kit) -> Mapping[str, Any]:
    steps = 250 if kit.tiny else 3_000
    training = {"optimizer": "adamw", "learning_rate": 0.01, "batch_size": 4, "steps": steps}
    arms = {"logging": {"every": 10}, "arms": {"one": {}}, "baseline": "one", "seeds": 1}
    experiment = resolve({"name": "kit", **SMALL, "training": training, **arms})
    (place,) = local_places(kit.device.type, workers=1, runs=1)
    kept, recorded = [], [0]
    for ends in ((), (LocalWorker.ask_to_stop, LocalWorker.kill)):
        folder = scratch() / f"resume-{os.getpid()}-{len(ends)}"
        _, (run,) = api.prepare(experiment, folder, [place.slot], together=1)
        for end in (*ends, None):
            worker, disturbed = place.start(run.path, log=run.path / "worker.log"), end is None
            while worker.ended is None:
                time.sleep(0.02)
                if not disturbed and lines_of(run.path / "metrics.jsonl") > recorded[-1] + 3:
                    recorded.append(lines_of(run.path / "metrics.jsonl"))
                    end(worker)
                    disturbed = True
        done = Run.open(run.path)
        assert done.status == "done", done.message
        kept.append({name: array.tobytes() for name, array in done.weights().items()})
    same, last = kept[0] == kept[1], 10 * recorded[-1]
    return {"disturbed at step": last, "of": steps, "resumes": same, "within": same and len(recorded) == 3}


def members(kit: Kit) -> Iterator[Row]:
    """Compare members of an ensemble with runs alone on the same device, and repeat the ensemble."""
    scratch()
    runs = [training_run().at_seed(seed) for seed in range(3)]
    examples = open_examples(runs[0].task)

    def trained() -> list[Found]:
        ensemble, losses = ensemble_of(runs, examples, 40, kit.device)
        ensemble.advance(3)
        return [{name: p.detach().cpu().double() for name, p in loss.module.named_parameters()} for loss in losses]

    def compare() -> Mapping[str, Any]:
        first, again = trained(), trained()
        alone = [{name: x.double() for name, x in _steps(kit, run, 3).items()} for run in runs]
        same = all(torch.equal(one[name], other[name]) for one, other in zip(first, again, strict=True) for name in one)
        compared = [errors(one, other, EPS[torch.float32]) for one, other in zip(first, alone, strict=True)]
        worst = max(compared, key=lambda found: found["x eps"])
        # Adam divides a gradient by its own size, so rounding is amplified; members are no copies of runs alone.
        return {**worst, "within": same, "repeats": same}

    yield row("3 runs of text", compare)


def writing(kit: Kit) -> Iterator[Row]:
    """Write with a cache of keys on the device and on the CPU: equal tokens?"""
    for name in ("published", "GQA", "rotary", "smeared keys"):

        def compare(name: str = name) -> Mapping[str, Any]:
            prompt = text(5, 1)[0].tolist()
            here, there = (
                generate(built(MODELS[name]).to(device), prompt, n_tokens=40, seed=0) for device in (kit.device, CPU)
            )
            return {"within": here == there}

        yield row(name, compare)


def suite(kit: Kit) -> Iterator[Row]:
    """Run the GPU tests of the suite; without a GPU they say so."""
    files = sorted(path for path in (ROOT / "tests").rglob("test_*.py") if "mark.gpu" in path.read_text())
    assert files, "no test of the suite is marked gpu"
    files = files[:1] if kit.tiny else files
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    said = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or [""]
    passed = done.returncode == 0 and (not kit.on_gpu or " skipped" not in said[-1])
    yield {"what": f"{len(files)} files", "within": passed, "met": said[-1].strip("= ")}


# models: the verbs on a large model


def models(kit: Kit) -> list[Cell]:
    """Return the verbs on a model of 68.5 M parameters: on the GPU, and beside the CPU on fewer tokens."""
    whole, few = ((2, 64), (2, 32)) if kit.tiny else ((16, 512), (2, 256))
    cells = [
        Cell(name=verb, estimate_s=estimate, measure=partial(verb_row, kit, verb, *whole))
        for verb, estimate in (("x-ray", 30), ("ablate", 60), ("patch", 30), ("prune", 20))
    ]
    return cells + [
        Cell(name=f"{verb} beside the CPU", estimate_s=estimate, measure=partial(verb_beside, kit, verb, *few))
        for verb, estimate in (("x-ray", 30), ("ablate", 60), ("patch", 45), ("prune", 30))
    ]


def _model(kit: Kit, device: torch.device) -> Transformer:
    n_heads, vocab = (2, 128) if kit.tiny else (12, GPT2_VOCAB)
    declared = text_run(published_model(n_heads, kit.tiny), batch=1, context=64, vocab=512).model
    return Transformer(declared, vocab, initial_weights(declared, vocab, 0)).to(device).eval()


def done_verb(verb: str, model: Transformer, sequences: int, length: int) -> dict[str, np.ndarray]:
    """Do what a verb does on random tokens; its numbers by name."""
    draw = np.random.default_rng(0)
    tokens = draw.integers(128, size=(2 * sequences, length + 1))
    text, other = tokens[:sequences], tokens[sequences:]
    if verb == "x-ray":
        # Without re-initialised heads, which would take most of the time.
        found = xray(model, tokens=text, draws=0).scores
        return {name: np.concatenate([v.ravel() for v in score.values.values()]) for name, score in found.items()}
    if verb == "ablate":
        exact = ablate_text(model, text=text, reference=other, sequences=sequences, length=length).exact
        return {kind: effects.flat() for kind, effects in exact.single.items()}
    if verb == "patch":
        metric = lambda logits: logits[:, -1, 7] - logits[:, -1, 8]  # noqa: E731
        found = patch(model, text[:2, :-1], other[:2, :-1], metric=metric)
        return {site: effects.ravel() for site, effects in found.effects.items()}
    change = prune(model, by="taylor", keep=0.5, text=text, sequences=sequences, length=length).losses["text"]
    return {"losses": np.array([change.before, change.after])}


def verb_row(kit: Kit, verb: str, sequences: int, length: int) -> list[Row]:
    model = _model(kit, kit.device)
    meter, began = Meter(kit.device), time.perf_counter()
    done_verb(verb, model, sequences, length)
    kit.wait()
    seconds = time.perf_counter() - began
    what = f"{sequences} × {length} tokens on {kit.device.type}"
    return [{"verb": verb, "on": what, "s": seconds, "GB": meter.metrics()["memory_bytes"] / 1e9}]


def verb_beside(kit: Kit, verb: str, sequences: int, length: int) -> Iterator[Row]:
    """Yield the largest difference of a verb's numbers on both devices, as a share of the largest of them."""
    found, took = [], []
    for device in (kit.device, CPU):
        model, began = _model(kit, device), time.perf_counter()
        found.append(done_verb(verb, model, sequences, length))
        took.append(time.perf_counter() - began)
    for name, here in found[0].items():
        there = found[1][name]
        both = np.isfinite(here) & np.isfinite(there)
        size = np.abs(there[both]).max(initial=0.0)
        differs = np.abs(here[both] - there[both]).max(initial=0.0)
        yield {"number": name, f"{kit.device.type} s": took[0], "CPU s": took[1], "difference": differs / (size or 1.0),
               "finite alike": bool((np.isfinite(here) == np.isfinite(there)).all())}  # fmt: skip
