"""Pruning of a finished model: the same model without some of its heads, as an ordinary model.

`prune` is `headway.prune` and its verb. `pass_costs` measures the seconds and memory of a pass, of two models by turns.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from headway.analysis.evaluation import evaluating
from headway.analysis.inputs import TextInput, own_text, text_input, two_inputs, with_targets
from headway.analysis.model import Opened
from headway.analysis.open import open_model
from headway.base.files import write_json
from headway.base.words import statement
from headway.causal.ablation import BATCH
from headway.causal.checks import check_sound
from headway.causal.effects import Head, floats, interval, mean_over_tokens, named
from headway.causal.importance import METHODS, PruningText
from headway.causal.pruning import prune_to_number
from headway.causal.substitutes import counted as tokens_of
from headway.causal.substitutes import sequence_losses
from headway.config.lm.head_units import heads_to_keep, units_of
from headway.errors import UserError, near
from headway.heads.scores import five_digits
from headway.hf.write import check_new, export
from headway.models.transformer import Transformer
from headway.train.device import Meter

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from headway.analysis.model import TokenIds


_ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class PassCost:
    """The cost of one model's pass: medians of five rounds, by turns with another model on the same tokens.

    Attributes:
        parameters: the number of parameters.
        tokens: the number of tokens of the pass.
        forward_s: seconds of a forward pass.
        step_s: seconds of a forward and a backward pass.
        step_memory_bytes: the most that a forward and a backward pass hold, beside the weights.
    """

    parameters: int
    tokens: int
    forward_s: float
    step_s: float
    step_memory_bytes: int


def pass_costs(
    models: tuple[Transformer, Transformer], inputs: torch.Tensor, targets: torch.Tensor
) -> tuple[PassCost, PassCost]:
    """Measure the cost of a pass of each of two models."""
    passes = [partial(one, model, inputs, targets) for model in models for one in (_forward, _step)]
    rounds = [[_seconds(one, inputs) for one in passes] for _ in range(_ROUNDS)]
    medians = iter(np.median(rounds, axis=0).tolist())
    first, second = (
        PassCost(
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            tokens=inputs.numel(),
            forward_s=next(medians),
            step_s=next(medians),
            step_memory_bytes=_memory(model, inputs, targets),
        )
        for model in models
    )
    return first, second


def _forward(model: Transformer, inputs: torch.Tensor, _: torch.Tensor) -> None:
    with torch.no_grad():
        model(inputs)


def _step(model: Transformer, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    with torch.enable_grad():
        loss = model.loss(inputs, targets)
        torch.autograd.grad(loss, [parameter for parameter in model.parameters() if parameter.requires_grad])


def _seconds(do: Callable[[], None], inputs: torch.Tensor) -> float:
    began = time.perf_counter()
    do()
    if inputs.is_cuda:
        torch.cuda.synchronize(inputs.device)
    return time.perf_counter() - began


def _memory(model: Transformer, inputs: torch.Tensor, targets: torch.Tensor) -> int:
    meter = Meter(inputs.device)
    meter.begin_training()
    _step(model, inputs, targets)
    return int(meter.metrics()["memory_bytes"])


@dataclass(frozen=True, kw_only=True)
class LossChange:
    """The loss of a text before and after, nats per token, and its change with a 95 % interval over sequences.

    In a task's own examples only answers count.
    """

    text: str
    before: float
    after: float
    interval: tuple[float, float]
    counted: Literal["token", "answer"] = "token"

    @property
    def sentence(self) -> str:
        """In words."""
        numbers = {"before": self.before, "after": self.after, "change": self.after - self.before}
        kind = "loss_change"
        return statement(kind, text=self.text, unit=self.counted, interval=self.interval, **numbers).sentence


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """A pruned model and what it has cost and saved.

    Attributes:
        model: the pruned model, an ordinary one with another layout.
        by: the method.
        steps: the number of measurements of importance.
        layouts: the layouts of the whole model, and of this one.
        kept: the heads of the whole model that it has.
        losses: the change of the loss, by text: the text that heads were chosen on, and the held-out text if there is
            one.
        before: the cost of a pass of the whole model; a mask would save nothing.
        after: the cost of a pass of this model.
        folder: the folder of the model, and its type; None if it was not written.
    """

    model: Transformer
    by: str
    steps: int
    layouts: tuple[str, str]
    kept: tuple[Head, ...]
    losses: Mapping[str, LossChange]
    before: PassCost
    after: PassCost
    folder: tuple[Path, str] | None

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences on the pruning, its cost and its savings."""
        before, after = self.before, self.after
        was, now = map(heads_by_layer, self.layouts)
        larger, smaller = (f"{cost.step_memory_bytes / 1e6:.3g} MB" for cost in (before, after))
        return (
            statement("kept", by=self.by, n=len(self.kept), steps=self.steps, before=was, after=now).sentence,
            *(change.sentence for change in self.losses.values()),
            statement("parameters", before=before.parameters, after=after.parameters).sentence,
            statement("memory", tokens=before.tokens, before=larger, after=smaller).sentence,
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything but the weights, as plain values."""
        return {
            "schema": 1,
            "by": self.by,
            "steps": self.steps,
            "layout": {"before": self.layouts[0], "after": self.layouts[1]},
            "kept": [named(head) for head in self.kept],
            "losses_nats": {
                what: {**asdict(change), "interval": five_digits(change.interval)}
                for what, change in self.losses.items()
            },
            "cost": {"before": asdict(self.before), "after": asdict(self.after)},
        }


def prune(
    model: "str | Path | torch.nn.Module | Opened",
    *,
    by: str,
    keep: int | float | str,
    text: "str | Path | TokenIds | TextInput | None" = None,
    out: str | Path | None = None,
    held_out: "str | Path | TokenIds | TextInput | None" = None,
    targets: "str | Path | TokenIds | None" = None,
    steps: int = 1,
    tokenizer: "str | PreTrainedTokenizerBase | None" = None,
    sequences: int | None = None,
    length: int | None = None,
    device: str = "auto",
    seed: int = 0,
    tell: Callable[[str], object] = lambda _: None,
) -> Pruned:
    """Prune the heads of a finished model; heads that share their keys and values go together.

    Args:
        model: a path of a run, its checkpoint or a folder of Hugging Face; or a model in memory:
            Headway's own, or a GPT-Neo, GPT-2, Llama or Mistral of transformers.
        by: `taylor` (Michel's importance), `ablation` (the exact effect of each), `gates` and `budget` (learned),
            `alike` (the less effective of the two most similar heads), `alike-either` (a random one of them), `output`
            (the head that adds least), `magnitude` (the norm of the output that a head can write), or `random`.
        keep: the number or share of heads to keep: `24`, `50%`, `0.5`.
        text: the text on which importance is measured: a file or another corpus, or (sequence, pos) tokens; None: the
            examples of a run's task, if the task is not a text.
        out: a new folder for the model; None: the model is not written.
        held_out: another text, on which the loss is measured before and after.
        targets: the target at each of the text's tokens, -1 for none; None: every next token.
        steps: the number of pruning steps; importance is measured again after each.
        tokenizer: another than the folder's: a folder, `bytes`, `gpt2`, or a tokenizer of transformers.
        sequences: the largest number of sequences of each text; None: 8,192 tokens, and at least 32.
        length: the tokens of a sequence; None: the model's context, at most 256.
        device: `auto` (a GPU where torch sees one), `cpu`, `cuda` or `cuda:N`.
        seed: the random seed of all random choices.
        tell: the function that is given the steps of the work.

    Raises:
        UserError: if the model or text cannot be opened; if the method, number or folder is invalid; if the model fails
            a check of its interventions, which is named.
    """
    if by not in METHODS:
        raise UserError(f"by {by}: there is no such method; {near(by, METHODS)}")
    folder = None if out is None else Path(out)
    if folder is not None:
        check_new(folder)
    source = _examples(model) if text is None else text_input(text)
    opened = open_model(model, tokenizer, for_="prune", device=device)
    whole = opened.own
    number = heads_to_keep(keep, units_of(whole.model.layout))
    read = {"sequences": sequences, "length": length}
    texts = {
        "text": _read(opened, source, **read) if targets is None else with_targets(opened, source, targets, source)[0]
    }
    if held_out is not None:
        texts["held_out"] = _read(opened, text_input(held_out, "held_out"), **read)
    batched = {what: _batched(opened, each, seed) for what, each in texts.items()}
    with evaluating(opened.module):
        check_sound(whole, batched["text"].inputs)
        small, kept = prune_to_number(whole, number, METHODS[by], batched["text"], steps=steps, tell=tell)
        tell("measuring the losses, and passes of both models by turns ...")
        before, after = pass_costs((whole, small), *batched.get("held_out", batched["text"]).batches()[0])
        result = Pruned(
            model=small,
            by=by,
            steps=steps,
            layouts=(str(whole.model.layout), str(small.model.layout)),
            kept=kept,
            losses={what: _change(whole, small, batched[what], each) for what, each in texts.items()},
            before=before,
            after=after,
            folder=None,
        )
    if folder is None:
        return result
    kind = export(small.model, small.vocab_size, small.weights(), folder, opened.tokenizer)
    write_json(folder / "pruning.json", {**result.to_json(), "of": opened.name})
    return replace(result, folder=(folder, kind))


def _examples(model: object) -> TextInput:
    """Return the examples of a run's task.

    Raises:
        UserError: where a text has to be given; and for a task of numbers.
    """
    source = own_text(model) if isinstance(model, str | Path) else None
    if not isinstance(source, TextInput):
        raise UserError("give --text: importance is measured on a text other than the evaluation text")
    source.check_tokens(model, "importance is that for a loss of")
    return source


def _read(opened: Opened, source: TextInput, *, sequences: int | None, length: int | None) -> TextInput:
    if source.examples:
        return two_inputs(opened, source, None, sequences=sequences, length=length)[0]
    return source.predicted(opened, sequences, length)


def _batched(opened: Opened, text: TextInput, seed: int) -> PruningText:
    inputs, targets = text.tensors(opened)
    assert targets is not None, "a loss has targets"
    return PruningText(inputs=inputs, targets=targets, at_once=max(1, BATCH // text.length), seed=seed)


def _change(whole: Transformer, small: Transformer, text: PruningText, source: TextInput) -> LossChange:
    tokens, was, now = tokens_of(text.targets).cpu().numpy(), _losses(whole, text), _losses(small, text)
    return LossChange(
        text=source.name,
        before=float(mean_over_tokens(was, tokens)),
        after=float(mean_over_tokens(now, tokens)),
        interval=floats(interval(now - was, tokens)),
        counted="answer" if source.examples else "token",
    )


def _losses(model: Transformer, text: PruningText) -> np.ndarray:
    with torch.no_grad():
        losses = [sequence_losses(model, model.hidden(inputs)[0], targets) for inputs, targets in text.batches()]
    return torch.cat(losses).cpu().numpy()


def heads_by_layer(layout: str) -> str:
    """Return a layout in words: the heads of each layer, and their width where it is not d_model over their number.

    Examples:
        >>> heads_by_layer("4-0-2x16"), heads_by_layer("4-4-4"), heads_by_layer("3x8-2x8"), heads_by_layer("4:2-0")
        ('4, 0, 2 (width 16)', '4, 4, 4', '3, 2 (width 8)', '4 on 2 KV heads, 0')
    """
    said = re.sub(r":(\d+)", r" on \1 KV heads", layout).replace("-", ", ")
    widths = set(re.findall(r"x(\d+)", said))
    if len(widths) > 1:
        return re.sub(r"x(\d+)", r" (width \1)", said)
    return re.sub(r"x\d+", "", said) + "".join(f" (width {width})" for width in widths)
