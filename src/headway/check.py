"""The check of a plugin: whether what it registers keeps the laws of Headway's own things.

`check` reads a user's file and returns a sentence for each law that a part of it breaks. `call_twice` calls the user's
code twice: it must not fail, must give equal results, and must change nothing that is not its own. A function for each
kind of thing then checks that kind:

* `head_metric` and `regularizer`, on a small transformer of ragged heads;
* `attention` and `family`; `run_metric` and `callback`; `task` and `corpus`.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.base import rng
from headway.config.head_metrics import HEAD_METRICS, HeadMetric
from headway.config.kinds import with_own_family
from headway.config.lm.model import OWN_ATTENTIONS, OWN_FAMILIES, Gpt2, GptNeo, Llama, TransformerModel
from headway.config.metrics import METRICS
from headway.config.plugins import Entry, Plugin, load, remove_plugin
from headway.config.spec import parse
from headway.data.batch import Batch
from headway.data.corpus import PluginDocuments
from headway.data.synthetic import OwnTask, examples_of
from headway.data.task_laws import broken, raised
from headway.errors import UserError, near
from headway.heads.attention import MaskedAttention, mask_attention
from headway.heads.measure import measure
from headway.heads.scores import HeadScores
from headway.models.trace import AttentionTrace, Trace
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights


@dataclass(frozen=True, kw_only=True)
class Held:
    """The checked file, and a sentence for each law that it breaks.

    Attributes:
        about: such as `task sort`.
        broken: what is wrong and what to do.
        not_tried: why it was not tried; empty where it was.
    """

    about: str
    broken: tuple[str, ...] = ()
    not_tried: str = ""

    @property
    def sentence(self) -> str:
        """In a line, or one for each law."""
        if self.broken:
            return "\n".join(f"{self.about}: {said}" for said in self.broken)
        return f"{self.about}: {self.not_tried or 'all laws hold'}"


def check(given: str | Path) -> tuple[Held, ...]:
    """Run a plugin, and hold what it registers to the laws; nothing of it is left.

    Args:
        given: the path of a file, or the name that a package offers.
    """
    try:
        plugin = load(str(given))
    except UserError as error:
        return (Held(about=str(given), broken=(str(error),)),)
    try:
        return tuple(_held(entry, plugin) for entry in plugin.entries)
    finally:
        remove_plugin(plugin)


def _held(entry: Entry, plugin: Plugin) -> Held:
    about = f"{entry.kind} {entry.name}"
    if entry.kind == "figure":
        return Held(about=about, not_tried="not tried; `headway report DIR --plugin FILE` draws it of results")
    return Held(about=about, broken=tuple(_broken(entry, plugin)))


def _broken(entry: Entry, plugin: Plugin) -> Iterator[str]:
    try:
        if entry.kind == "task":
            measured = tuple(other.name for other in plugin.entries if other.kind == "run metric")
            yield from task(entry.name, entry.value, measured)
        elif entry.kind == "head metric":
            yield from head_metric(entry.name, entry.value)
        elif entry.kind in (by_name := {"corpus": corpus, "attention": attention, "family": family}):
            yield from by_name[entry.kind](entry.name)
        else:
            by_value = {"regulariser": regularizer, "run metric": run_metric, "callback": callback}
            yield from by_value[entry.kind](entry.value)
    except Broken as error:
        yield str(error)


class Broken(Exception):
    """The error of code that breaks a law; the message is a sentence that tells which law, and what to do."""


def call_twice(function: Callable[[], Any], what: str, same: Callable[[Any, Any], bool]) -> Any:
    """Call a function twice and return its result.

    Args:
        function: that is tried, twice.
        what: it was asked to do, for the sentence.
        same: whether what it gave twice is the same.

    Raises:
        Broken: when it raises, gives something else the second time, or draws from a generator that others use.
    """
    before = rng.shared_states()
    try:
        one, other = function(), function()
    except UserError as error:  # which says itself what to do
        raise Broken(f"{what}: {error}") from error
    except Exception as error:
        raise Broken(f"{what} raised {type(error).__name__}: {error}; put that right") from error
    if before != rng.shared_states():
        raise Broken(
            f"{what} changed a global random generator (numpy.random or torch), which others draw from; do "
            "without random numbers, or take them from a generator of a fixed seed"
        )
    try:
        alike = same(one, other)
    except Exception as error:
        raise Broken(f"{what} gave {type(one).__name__}, which is no number; give one") from error
    if not alike:
        raise Broken(
            f"{what} gave something else the second time; make it a function of what it is given alone, without random "
            "numbers"
        )
    return one


MODEL = Gpt2(family="gpt-2", d_model=24, n_layers=2, n_positions=16, n_heads="3-2", windows=(None, 5), init_std=0.5)
VOCAB = 11
_ROUNDING = 1e-5


def small_model(model: TransformerModel = MODEL) -> Transformer:
    """A small model of ragged heads."""
    return Transformer(model, VOCAB, initial_weights(model, VOCAB, seed=0))


def traced() -> Trace:
    """Return a trace of the small model on random tokens."""
    tokens = torch.randint(0, VOCAB, (3, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return replace(small_model().trace(tokens), tokens=tokens)


def head_metric(name: str, function: Callable[[MaskedAttention], Tensor]) -> Iterator[str]:
    """Yield a sentence for each law that a metric of heads breaks."""
    declared, trace = HEAD_METRICS[name], traced()
    for attention in trace.attentions:
        _check_shape(declared, attention, function)
    scores = call_twice(
        lambda: measure(trace, [name])[name],
        "measuring it",
        lambda one, other: all(np.array_equal(one.values[name], other.values[name]) for name in one.values),
    )
    yield from out_of_range(declared, scores)
    yield from of_other_order(name, trace)


def out_of_range(declared: HeadMetric, scores: HeadScores) -> Iterator[str]:
    """Yield a sentence if values or null are not numbers, or lie outside the unit's range."""
    low, high = declared.limits
    for what, numbers in (("its values", scores.values), ("its null", scores.null)):
        for value in numbers.values():
            if not np.isfinite(value).all():
                yield f"{what} are not finite; see that nothing is divided by 0"
                return
            if value.min() < low - _ROUNDING or value.max() > high + _ROUNDING:
                yield (
                    f"{what} reach from {value.min():.3g} to {value.max():.3g}, and its unit says {declared.unit}; put "
                    "one of them right"
                )
                return


def _check_shape(
    declared: HeadMetric, attention: AttentionTrace, function: Callable[[MaskedAttention], Tensor]
) -> None:
    n = attention.q.shape[1]
    value = call_twice(lambda: function(mask_attention(attention)), "measuring an attention", _equal_heads)
    wanted = {"head": (n,), "pair": (n, n), "layer": ()}[declared.of]
    if not isinstance(value, Tensor) or tuple(value.shape) != wanted:
        given = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise Broken(f"of {n} heads it gave {given}, and a metric of={declared.of!r} gives a tensor of shape {wanted}")
    if not value.isfinite().all():
        raise Broken("its values are not finite; see that nothing is divided by 0")


def of_other_order(name: str, trace: Trace) -> Iterator[str]:
    """Heads in another order have their scores in that order."""
    other = replace(trace, attentions=tuple(map(_reversed, trace.attentions)))
    plain, turned = (measure(each, [name])[name].values for each in (trace, other))
    for at, value in plain.items():
        expected = value[::-1, ::-1] if value.ndim == 2 else value[::-1] if value.ndim == 1 else value
        if not np.allclose(turned[at], expected, rtol=1e-4, atol=1e-6):
            yield "heads in another order did not have their scores in that order; treat all heads alike"
            return


def _reversed(attention: AttentionTrace) -> AttentionTrace:
    kv = len(attention.k[0]) - 1
    flipped = {key: getattr(attention, key).flip(1) for key in ("q", "k", "v", "z")}
    return replace(
        attention, **flipped, W_O=attention.W_O.flip(0), kv_of=tuple(kv - each for each in reversed(attention.kv_of))
    )


def regularizer(function: Callable[[MaskedAttention], Tensor]) -> Iterator[str]:
    """Yield a sentence for each law that a regularizer breaks."""
    first = traced().attentions[0]
    value = call_twice(lambda: function(mask_attention(first)), "measuring an attention", _equal_heads)
    if not isinstance(value, Tensor) or value.shape != () or not value.is_floating_point():
        given = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        yield f"of an attention it gave {given}; give one number, such as a mean, as a tensor"
        return
    if not value.isfinite():
        yield "it is not finite; see that nothing is divided by 0"
        return
    names = ("q", "k", "v", "z", "W_O")
    leaves = {key: getattr(first, key).clone().requires_grad_() for key in names}
    measured = function(mask_attention(replace(first, **leaves)))
    if not measured.requires_grad:
        yield (
            "no gradient comes back from it to queries, keys, values or contexts, so that it would change nothing; use "
            "torch operations alone, without detach, item or no_grad"
        )
        return
    gradients = torch.autograd.grad(measured, list(leaves.values()), allow_unused=True)
    if not all(gradient.isfinite().all() for gradient in gradients if gradient is not None):
        yield "its gradient is not finite; see that no root or norm of 0 is taken"


def _equal_heads(one: Tensor, other: Tensor) -> bool:
    return bool(torch.equal(torch.as_tensor(one), torch.as_tensor(other)))


_TOLERANCE = 1e-5
_FAMILIES: dict[str, type[TransformerModel]] = {"gpt-neo": GptNeo, "gpt-2": Gpt2, "llama": Llama}


def attention(name: str) -> Iterator[str]:
    """Yield a sentence for each law that an attention breaks."""
    logits = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    seen = torch.ones(6, 6, dtype=torch.bool).tril()
    hidden_logits = logits.masked_fill(~seen, -torch.inf)
    scores = call_twice(lambda: OWN_ATTENTIONS[name](hidden_logits.clone()), "changing scores", _equal_choices)
    if scores.shape != hidden_logits.shape:
        yield f"of scores {tuple(hidden_logits.shape)} it gave {tuple(scores.shape)}; give one for each query and key"
        return
    if not (scores[..., ~seen] == -torch.inf).all() or not (scores > -torch.inf).any(3).all() or scores.isnan().any():
        yield (
            "keys that a query does not see must keep -inf, and one that it sees a number, or its weights would not be "
            "what it sees; use torch.where on what is finite"
        )
        return
    yield from _of_models(MODEL.model_copy(update={"attention": name}))


def _of_models(model: TransformerModel) -> Iterator[str]:
    module = small_model(model)
    tokens = torch.randint(0, VOCAB, (2, 12), generator=torch.Generator().manual_seed(1))
    other = tokens.clone()
    other[:, 8:] = (other[:, 8:] + 1) % VOCAB
    with torch.no_grad():
        if not torch.allclose(module(tokens)[0][:, :8], module(other)[0][:, :8], atol=_TOLERANCE):
            yield "later tokens change what is said before them; let the scores of a query depend on what it sees alone"
        for attention in module.trace(tokens).attentions:
            contexts = attention.patterns() @ attention.v[:, list(attention.kv_of)]
            # Rounding of what has one size: sharp weights round more than 1e-5 of what is near 0.
            if (contexts - attention.z).abs().max() > _TOLERANCE * attention.z.abs().max().clamp(min=1):
                yield "its weights in a trace are not those that made the contexts; make it a function of scores alone"
                break
    module.loss(tokens[:, :-1], tokens[:, 1:], None).backward()
    for key, parameter in module.named_parameters():
        if parameter.grad is not None and not parameter.grad.isfinite().all():
            yield f"the gradient of {key} is not finite; see that nothing is divided by 0, and no -inf is multiplied"
            return
        if key.endswith("attention.q.weight") and (parameter.grad is None or not parameter.grad.any()):
            yield f"no gradient comes back to {key}, so that queries would not learn; use torch operations alone"
            return


def family(name: str) -> Iterator[str]:
    """Yield a sentence if a family with given sizes is no valid model."""
    sizes = {"d_model": 24, "n_layers": 2, "n_heads": 2}
    content = with_own_family({"model": {**sizes, "family": name, **OWN_FAMILIES[name]} | {"family": name}})["model"]
    try:
        parse(_FAMILIES[content["family"]], content)
    except UserError as error:
        yield f"with two layers of two heads it is no model: {error}"


def _equal_choices(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(torch.equal(one.nan_to_num(7.0), other.nan_to_num(7.0)))


def run_metric(function: Callable[..., Any]) -> Iterator[str]:
    """Yield a sentence for each law that a run metric breaks on a small model and random tokens."""
    model = small_model().eval()
    random = np.random.default_rng(0)
    batches = [
        Batch(inputs=random.integers(VOCAB, size=(4, 12)), targets=random.integers(VOCAB, size=(4, 12)))
        for _ in range(2)
    ]
    before = {name: value.clone() for name, value in model.state_dict().items()}

    def measured() -> float:
        with torch.no_grad():
            return float(function(model, batches))

    value = call_twice(measured, "measuring a model of 11 tokens", lambda one, other: one == other or one != one)
    if not np.isfinite(value):
        yield f"it gave {value}; give a finite number"
    if any(not torch.equal(before[name], now) for name, now in model.state_dict().items()):
        yield "it changed the model's weights; leave the model as it is"


def callback(function: Callable[..., Any]) -> Iterator[str]:
    """Yield a sentence if a callback cannot be called with a run and a line."""
    try:
        inspect.signature(function).bind(None, {})
    except TypeError as error:
        yield f"it cannot be called with a run and a line ({error}); write it as def {function.__name__}(run, line)"


_ALL_IDS = 2**31
_REPORTED = {"loss_nats": ("eval_loss_nats", "accuracy", "solved"), "mse": ("eval_mse", "nmse")}
"""The metrics of a task, by its loss."""


def task(name: str, kind: type[OwnTask], measured: tuple[str, ...]) -> Iterator[str]:
    """Yield a sentence for each law that a task breaks; `measured` are run metrics of the same plugin."""
    try:
        made = parse(kind, {"kind": name})
    except UserError as error:
        yield f"it could not be made from `kind: {name}` alone ({error}); give each of its fields a default"
        return
    try:
        sizes = {key: getattr(made, key) for key in ("n_ctx", "vocab_size", "n_answers")}
    except UserError as error:  # which says itself what to do
        yield f"its sizes: {error}"
        return
    except Exception as error:  # noqa: BLE001 - whatever a type of the user's raises is told
        yield f"its sizes raised {raised(error)}; give n_ctx and vocab_size as properties"
        return
    if wrong := [key for key, value in sizes.items() if not isinstance(value, int) or value < 1]:
        yield f"{wrong[0]} is {sizes[wrong[0]]!r}; make it a whole number of 1 or more"
        return
    reported = (*_REPORTED.get(made.loss, ()), *measured)
    if made.loss not in _REPORTED:
        yield f"loss is {made.loss!r}; {near(made.loss, _REPORTED)}"
    elif made.primary not in reported:
        yield f"primary is {made.primary!r}, which is not measured of it; {near(made.primary, reported)}"
    elif METRICS[made.primary].better is None:
        yield f"primary is {made.primary!r}, of which nobody knows where it is better; give its metric a better"
    try:
        examples = examples_of(made)
    except UserError as error:  # which says itself what to do
        yield str(error).removeprefix(f"task.kind {name}: ")
        return
    yield from broken(made, examples)


def corpus(name: str) -> Iterator[str]:
    """Yield a sentence for each law that a corpus breaks."""
    documents = PluginDocuments(name=name, vocab_size=_ALL_IDS, asked=f"corpus {name}")

    def first() -> list[Any]:
        return [document.tolist() for document in islice(documents, 1_000)]

    if not call_twice(first, "giving its documents", lambda one, other: bool(one == other)):
        yield "it gave no document; give an array of token ids for each"
