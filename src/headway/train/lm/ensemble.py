"""Training of many runs of one shape as one batched program.

The models stand side by side, each with its own data, learning rates and state. A stack holds the parameters of all
members. Each member's own module has views of its row, so a member is evaluated, probed and stored like a model that
is trained alone. Rows never mix: a member that diverges is NaN in its own row only.

`RecordedStep` records the losses and gradients once as a list of operations and replays the list. Small models spend
most of a step on finding these operations through modules, vmap and autograd.

`open_together` opens the studies of such runs. `trial_steps_per_s` measures in a short trial how fast a transformer
trains on this machine.
"""

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.func import functional_call, vmap
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from headway.base import rng
from headway.config.lm.run import TokensRun
from headway.config.lm.training import TokensTraining
from headway.data.batch import Batch, Examples, open_examples
from headway.errors import Diverged
from headway.models.attention import Attention, attend_of_many
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights
from headway.store.checkpoint import Arrays
from headway.train.device import Meter, find_device
from headway.train.lm.evaluate import judge_class
from headway.train.lm.loss import TokensLoss
from headway.train.lm.optimizer import rate_share, steps_of
from headway.train.lm.study import execution_of, initial_module, study_of, tokens_trainer
from headway.train.loop import Study

Step = Callable[[list[Tensor], Tensor, Tensor], list[Tensor]]
"""The loss of each model and its gradients, from what the models are, read and are asked."""

_ATEN = torch.ops.aten
_VIEWS = {
    _ATEN.view.default,
    _ATEN._unsafe_view.default,
    _ATEN.expand.default,
    _ATEN.slice.Tensor,
    _ATEN.alias.default,
    _ATEN.detach.default,
}


class RecordedStep:
    """Losses and gradients of models side by side.

    Law: a replay has the bits of what is recorded.
    """

    def __init__(self, loss: nn.Module, leaves: Mapping[str, Tensor], last: int | None):
        """Say of what.

        Args:
            loss: a module that returns the loss of inputs and targets; its own parameters are replaced.
            leaves: the parameters of all models by name, a row for each model.
            last: the number of last positions that have a target; None: any position may have one.
        """
        self._loss, self._leaves, self._last = loss, dict(leaves), last
        self._steps: dict[object, Step] = {}

    def step(self, inputs: Tensor, targets: Tensor, dim: int | None) -> tuple[Tensor, list[Tensor]]:
        """The losses, one for each model, and the gradients of the leaves.

        Args:
            inputs: the inputs of the models.
            targets: the targets of the models.
            dim: the axis of the models in both; None: the same inputs for all models.
        """
        key, leaves = (inputs.shape, inputs.dtype, targets.shape, dim), list(self._leaves.values())
        if key not in self._steps:
            self._steps[key] = self._recorded(leaves, inputs, targets, dim)
        with torch.no_grad():
            losses, *grads = self._steps[key](leaves, inputs, targets)
        return losses, grads

    def _recorded(self, leaves: list[Tensor], inputs: Tensor, targets: Tensor, dim: int | None) -> Step:
        def loss(parameters: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
            return functional_call(self._loss, parameters, (inputs, targets, self._last))

        def step(leaves: list[Tensor], inputs: Tensor, targets: Tensor) -> list[Tensor]:
            losses = vmap(loss, in_dims=(0, dim, dim))(dict(zip(self._leaves, leaves, strict=True)), inputs, targets)
            return [losses.detach(), *torch.autograd.grad(losses.sum(), leaves)]

        return tidied(make_fx(step)(leaves, inputs, targets))


def tidied(program: GraphModule) -> GraphModule:
    """Remove operations that do nothing, are repeated, or give the same result every step: a third of the list."""
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    if any(isinstance(node.target, OpOverload) and node.target._schema.is_mutable for node in calls):
        return program  # what looks the same may then be something else
    constant = {node for node in program.graph.nodes if node.op == "get_attr"}
    first: dict[str, Node] = {}
    for node in calls:
        if _does_nothing(node):
            node.replace_all_uses_with(node.all_input_nodes[0])
            continue
        same = first.setdefault(f"{node.target} {node.args} {node.kwargs}", node)
        if same is not node:
            node.replace_all_uses_with(same)
        elif constant.issuperset(node.all_input_nodes):
            constant.add(node)
    for node in calls:
        if node in constant and not constant.issuperset(node.users):
            _keep(program, node)
    program.graph.eliminate_dead_code()
    program.recompile()
    return program


def _does_nothing(node: Node) -> bool:
    """Return whether the output of an operation has the memory layout of its input."""
    if node.target not in _VIEWS:
        return False
    before, after = (of.meta.get("tensor_meta") for of in (node.all_input_nodes[0], node))
    return before is not None and all(
        getattr(before, part) == getattr(after, part) for part in ("shape", "stride", "dtype")
    )


def _keep(program: GraphModule, node: Node) -> None:
    """Work a constant out now."""

    def value(of: Node) -> Any:
        if of.op == "get_attr":
            return getattr(program, str(of.target))
        assert callable(of.target)
        return of.target(*map_arg(of.args, value), **map_arg(of.kwargs, value))

    name = f"kept_{node.name}"
    program.register_buffer(name, value(node))
    with program.graph.inserting_before(node):
        node.replace_all_uses_with(program.graph.get_attr(name))


Batches = Callable[[int, int], Batch]
"""The batch of a member (from 0) at a step (from 1)."""


class StackedParameters:
    """The parameters of modules of one shape in the rows of one matrix, of which the modules then are views.

    Attributes:
        rows: the parameters, (member, number).
        grads: the gradients, (member, number).
        leaves: the tensors that gradients are computed for, by name, (member, *shape).
    """

    def __init__(self, modules: Sequence[nn.Module]):
        first = dict(modules[0].named_parameters())
        ends = np.cumsum([0, *[parameter.numel() for parameter in first.values()]]).tolist()
        self.places = {name: slice(a, b) for name, a, b in zip(first, ends[:-1], ends[1:], strict=True)}
        self.shapes = {name: parameter.shape for name, parameter in first.items()}
        self.rows = torch.empty(len(modules), ends[-1], device=next(iter(first.values())).device)
        self.grads = torch.zeros_like(self.rows)
        for row, module in zip(self.rows, modules, strict=True):
            for name, parameter in module.named_parameters():
                view = row[self.places[name]].view(parameter.shape)
                view.copy_(parameter.detach())
                parameter.data = view
        self.leaves = {name: self.of(self.rows, name).requires_grad_() for name in first}

    def of(self, matrix: Tensor, name: str) -> Tensor:
        """The part of a matrix of rows that is of one parameter, (member, *shape), a view."""
        return matrix[:, self.places[name]].view(len(matrix), *self.shapes[name]).detach()

    def split(self, row: Tensor) -> Arrays:
        """A row as arrays by name, copied."""
        flat = row.detach().cpu().numpy()
        return {name: flat[place].reshape(self.shapes[name]).copy() for name, place in self.places.items()}

    def join(self, arrays: Arrays) -> Tensor:
        """The row of arrays by name."""
        flat = np.concatenate([np.asarray(arrays[name], np.float32).reshape(-1) for name in self.places])
        return torch.from_numpy(flat).to(self.rows.device)


class _AdamW:
    """AdamW of all members at once, each with the numbers of its own declaration; only matrices decay.

    Torch's own fused step, as a run alone takes it, row by row: of a whole matrix it would compute the last few numbers
    otherwise than the rest, so that bits would depend on who else has the same numbers. Operation by operation it takes
    five times as long, most of it for the roots of what was never reached and is still 0.
    """

    def __init__(self, stack: StackedParameters, trainings: Sequence[TokensTraining], steps: int):
        self._stack, self._trainings, self._steps = stack, trainings, steps
        self.mean, self.square = torch.zeros_like(stack.rows), torch.zeros_like(stack.rows)
        self.parts = {"weights": stack.rows, "optimizer/exp_avg": self.mean, "optimizer/exp_avg_sq": self.square}
        """The state of all members, by the beginning of the names that `TorchTrainer.state` gives its arrays."""
        self._groups = {
            training: [member for member, each in enumerate(trainings) if each == training] for training in trainings
        }
        matrices = torch.zeros(1, stack.rows.shape[1], device=stack.rows.device)
        for name, place in stack.places.items():
            matrices[:, place] = float(len(stack.shapes[name]) == 2)
        decays = torch.tensor([training.weight_decay for training in trainings], device=stack.rows.device)
        self._decays = decays[:, None] * matrices if decays.any() else None
        clips = torch.tensor([math.inf if training.clip is None else training.clip for training in trainings])
        self._clips = None if clips.isinf().all() else clips[:, None].to(stack.rows.device)

    def update(self, step: int) -> None:
        """Update the parameters by one step (the first is 1) with the gradients of the stack."""
        stack = self._stack
        if self._clips is not None:
            stack.grads.mul_((self._clips / (stack.grads.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1.0))
        rates = {each: each.learning_rate * rate_share(each, step, self._steps) for each in self._groups}
        if self._decays is not None:
            each_rate = torch.tensor([rates[training] for training in self._trainings], device=stack.rows.device)
            stack.rows.mul_(1 - each_rate[:, None] * self._decays)
        done = torch.tensor(float(step), device=stack.rows.device)
        for training, members in self._groups.items():
            matrices = (stack.rows, stack.grads, self.mean, self.square)
            rows, grads, means, squares = ([matrix[member] for member in members] for matrix in matrices)
            beta1, beta2 = training.betas
            torch._fused_adamw_(
                rows,
                grads,
                means,
                squares,
                [],
                [done] * len(rows),
                lr=rates[training],
                beta1=beta1,
                beta2=beta2,
                eps=training.eps,
                weight_decay=0.0,
                amsgrad=False,
                maximize=False,
            )


class Ensemble:
    """Models of one shape that take their steps together.

    Law: each member is the run that it would be alone: equal data and initial weights, and losses that differ by
    rounding only. Its bits depend on the number of the other members, and on nothing else of them. A member that failed
    or is done stays as an unread row. `joins` are steps at which rows that were stored there are put in; training stops
    at each of them until that has happened.
    """

    def __init__(
        self,
        modules: Sequence[Transformer],
        trainings: Sequence[TokensTraining],
        steps: int,
        batches: Batches,
        last: int | None,
        joins: Collection[int] = (),
    ):
        self.stack, self._batches, self._joins = StackedParameters(modules), batches, joins
        self.adamw = _AdamW(self.stack, trainings, steps)
        self._grads = [self.stack.of(self.stack.grads, name) for name in self.stack.leaves]
        self._recorded = RecordedStep(_template(modules[0]), self.stack.leaves, last)
        self.step, self.seconds = 0, 0.0
        self._interrupted: BaseException | None = None

    def advance(self, n: int) -> Float64[np.ndarray, "n member"]:
        """Do n steps, or those until a row is put in; the loss of each member before each, finite or not.

        Raises:
            BaseException: if a step was interrupted by this error, which is raised again: rows may then be between two
                steps.
        """
        self.check()
        began = time.perf_counter()
        try:
            n = min([n, *(join - self.step for join in self._joins if join > self.step)])
            losses = torch.stack([self._advance_one() for _ in range(n)]).double().cpu().numpy()
        except BaseException as error:
            self._interrupted = error
            raise
        self.seconds += time.perf_counter() - began
        return losses

    def check(self) -> None:
        """Raise the error that interrupted a step, if there was one.

        Raises:
            BaseException: if a step was interrupted by this error.
        """
        if self._interrupted is not None:
            raise self._interrupted

    def _advance_one(self) -> Tensor:
        step = self.step + 1
        losses, grads = self._recorded.step(*self._tensors(step))
        with torch.no_grad():
            for mine, grad in zip(self._grads, grads, strict=True):
                mine.copy_(grad)
            self.adamw.update(step)
        self.step = step
        return losses

    def _tensors(self, step: int) -> tuple[Tensor, Tensor, int | None]:
        """Return the members' inputs and targets, and the axis along which they differ (None if all read the same)."""
        drawn = [self._batches(member, step) for member in range(len(self.stack.rows))]
        device, dim = self.stack.rows.device, None
        inputs, targets = drawn[0].inputs, drawn[0].targets
        # The same batch for every seed is that of all inputs once.
        if any(batch is not drawn[0] for batch in drawn):
            inputs, targets, dim = np.stack([b.inputs for b in drawn]), np.stack([b.targets for b in drawn]), 0
        return torch.from_numpy(inputs).to(device), torch.from_numpy(targets).to(device), dim


class Member:
    """A member of an ensemble (a `train.loop.Trainer`).

    Members are advanced in turn. Whoever asks at the front takes the others along; those behind get what was done
    meanwhile, so that after a round all stand at one step.
    """

    def __init__(self, ensemble: Ensemble, number: int, done: list[np.ndarray]):
        self._ensemble, self._number, self._done = ensemble, number, done
        self.step, self._seconds = 0, 0.0
        self._taken = 0

    def clock(self) -> float:
        """Seconds that all members together took for the steps that this one has done."""
        return self._seconds

    def advance(self, n: int) -> Float64[np.ndarray, " n"]:
        """The losses of the steps that the others did since, or of n more.

        Raises:
            Diverged: when one is not finite, naming its step.
        """
        self._ensemble.check()
        if self.step == self._ensemble.step:
            self._done.append(self._ensemble.advance(n))
        losses = np.concatenate(self._done[self._taken :])[:, self._number]
        self._taken = len(self._done)
        self._seconds = self._ensemble.seconds
        finite = np.isfinite(losses)
        if not finite.all():
            bad = int(np.argmin(finite))
            raise Diverged(f"the loss of step {self.step + bad + 1} is {losses[bad]}: training diverged")
        self.step = self._ensemble.step
        return losses

    def weights(self) -> Arrays:
        """A copy of its parameters."""
        return self._ensemble.stack.split(self._ensemble.stack.rows[self._number])

    def state(self) -> Arrays:
        """Return the state that `TorchTrainer.state` would return, so that a run resumes alone or in an ensemble."""
        stack, arrays = self._ensemble.stack, Arrays()
        for part, matrix in self._ensemble.adamw.parts.items():
            if self.step or part == "weights":
                arrays |= {f"{part}/{name}": array for name, array in stack.split(matrix[self._number]).items()}
        if self.step:
            arrays |= {f"optimizer/step/{name}": np.array(self.step, np.float32) for name in stack.places}
        return arrays

    def restore(self, step: int, state: Arrays) -> None:
        """Restore the state of this member from a step; members that have already started stand at the same step."""
        ensemble = self._ensemble
        with torch.no_grad():
            for part, matrix in ensemble.adamw.parts.items():
                arrays = {key.removeprefix(f"{part}/"): a for key, a in state.items() if key.startswith(f"{part}/")}
                if arrays:
                    matrix[self._number] = ensemble.stack.join(arrays)
        self.step = ensemble.step = step
        self._taken, self._seconds = len(self._done), ensemble.seconds


def _template(module: Transformer) -> Transformer:
    """Return a model of equal shape that gives its loss, and whose attention torch can compute for many at once."""
    template = Transformer(module.model, module.vocab_size, module.weights()).to(next(module.parameters()).device)
    for part in template.modules():
        if isinstance(part, Attention):
            part.attend = attend_of_many
    template.forward = template.loss  # type: ignore[assignment, method-assign]  # which is what `functional_call` calls
    return template


def open_together(runs: Sequence[TokensRun], *, device: str = "auto", joins: Collection[int] = ()) -> tuple[Study, ...]:
    """Open a study of each run; studies that are advanced in turn take their steps together.

    Args:
        runs: the runs, of one shape (`RunSpec.batching`).
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        joins: the steps at which stored runs are added.

    Raises:
        UserError: if `open_study` would raise it.
    """
    assert len({run.batching.key for run in runs}) == 1
    assert runs[0].batching.key is not None
    on = find_device(device)
    examples = open_examples(runs[0].task)
    steps = steps_of(runs[0], examples)
    judge_class(runs[0]).check(runs[0], examples)
    meter = Meter(on)
    ensemble, losses = ensemble_of(runs, examples, steps, on, joins)
    execution = {**execution_of(examples, on, compiled=False), "together": len(runs)}

    def memory() -> Mapping[str, int]:
        """Return the memory of the process, and one member's share of the models' memory."""
        metrics = meter.metrics()
        return {**metrics, "memory_bytes": metrics["memory_bytes"] // len(runs)}

    done: list[np.ndarray] = []
    members = [Member(ensemble, number, done) for number in range(len(runs))]
    return tuple(
        replace(study_of(loss, examples, steps, trainer=member, execution=execution, memory=memory), clock=member.clock)
        for loss, member in zip(losses, members, strict=True)
    )


def ensemble_of(
    runs: Sequence[TokensRun], examples: Examples, steps: int, device: torch.device, joins: Collection[int] = ()
) -> tuple[Ensemble, list[TokensLoss]]:
    """Runs of one shape at their beginnings, as one batched program, and what judges each."""
    losses = [TokensLoss(run, initial_module(run, examples).to(device), compile=False) for run in runs]

    def batch(member: int, step: int) -> Batch:
        # The first step of a trainer is 1, the first batch 0.
        return examples.training_batch(runs[member].seed, step - 1, runs[member].training.batch_size)

    ensemble = Ensemble(
        [loss.module for loss in losses], [run.training for run in runs], steps, batch, losses[0].asked_last, joins
    )
    return ensemble, losses


_STEPS = 1_000_000
"""More than any trial takes."""


def trial_steps_per_s(runs: Sequence[TokensRun], seconds: float) -> tuple[float, ...]:
    """Optimizer steps per second of each step of a trial, eager; several runs are one program, on drawn examples.

    Examples that are drawn are the task's own; of a corpus, which may not be here yet, they are random tokens.
    """
    if runs[1:]:
        ensemble, _ = ensemble_of(runs, open_examples(runs[0].task), _STEPS, torch.device("cpu"))
        _timed(ensemble.advance)
        took = _timed(ensemble.advance)
        return tuple(len(runs) / each for each in _durations(ensemble.advance, seconds, took))
    (run,) = runs
    vocab_size = run.task.vocab_size
    module = Transformer(run.model, vocab_size, initial_weights(run.model, vocab_size, run.seed))
    loss = TokensLoss(run, module, compile=False)
    batch = _batch(run, loss.part_size)
    # As many sequences at once are tried as the time allows: the time of a step grows with them.
    at_once = 1
    trainer = tokens_trainer(loss, steps=_STEPS, parts=lambda _step: loss.split(batch.rows(slice(at_once))))
    _timed(trainer.advance)  # pays for what is set up once
    took = _timed(trainer.advance)
    while at_once < loss.part_size and 2 * took < seconds:
        at_once = min(2 * at_once, loss.part_size)
        took = _timed(trainer.advance)
    share = at_once / run.training.batch_size
    return tuple(share / each for each in _durations(trainer.advance, seconds, took))


def _batch(run: TokensRun, size: int) -> Batch:
    if not run.task.corpora:
        return open_examples(run.task).training_batch(0, 0, size)
    tokens = rng.generator(0, "trial").integers(run.task.vocab_size, size=(2, size, run.task.n_ctx))
    return Batch(inputs=tokens[0], targets=tokens[1])


def _durations(advance: Callable[[int], object], seconds: float, first: float) -> list[float]:
    """Return the duration of each step, given that of the first."""
    times = [first]
    while sum(times) < seconds:
        times.append(_timed(advance))
    return times


def _timed(advance: Callable[[int], object]) -> float:
    began = time.process_time()
    advance(1)
    return max(time.process_time() - began, 1e-9)
