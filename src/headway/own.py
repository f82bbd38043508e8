"""Decorators with which a plugin registers its own tasks, metrics and other parts; see docs/your-own.md.

    from headway import own

    @own.task
    class Sort(own.Task): ...

A plugin is a file that an experiment names in `plugins`. A registered part has the name of its function, or the `kind`
of its type. It stands in the same table as Headway's own parts.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import numpy as np
from pydantic import create_model

from headway.config.head_metrics import HEAD_METRICS, HeadMetric, Null, OfSums
from headway.config.kinds import kinds_of, run_kinds
from headway.config.lm.model import OWN_ATTENTIONS, OWN_FAMILIES, Gpt2, GptNeo, Llama, TransformerModel
from headway.config.lm.run import TASKS, TokensRun
from headway.config.lm.text import OWN_CORPORA
from headway.config.lm.training import OWN_TERMS, REGULARIZED, Better
from headway.config.metrics import METRICS, Metric
from headway.config.plugins import call, form_of, line_of, register
from headway.config.spec import no_such_key
from headway.data.batch import MASKED as MASKED
from headway.data.batch import Batch as Batch
from headway.data.synthetic import OwnTask
from headway.data.synthetic import asked_last as asked_last
from headway.errors import DeclarationError, UserError, near

if TYPE_CHECKING:
    from torch import Tensor

    from headway.heads.attention import MaskedAttention
    from headway.report.experiment.data import ReportData
    from headway.store.run import Run

    OfHeads = Callable[[MaskedAttention], Tensor]

Task = OwnTask
T = TypeVar("T", bound=OwnTask)
F = TypeVar("F", bound=Callable[..., Any])

_RECORDED = ("step", "learning_rate", "probe_loss_nats", *REGULARIZED)
"""The keys of a logged line beside declared metrics."""

PART = "Of your own"
"""The part of a report that holds figures of one's own."""


def task(kind: type[T]) -> type[T]:
    """Register a type as a task: `kind: Literal["name"]` is what experiments call it.

    Raises:
        DeclarationError: when there is no such name, or it exists already.
    """
    named = kinds_of(kind) if hasattr(kind, "draw") else []
    if len(named) != 1:
        raise DeclarationError(
            f"task {kind.__name__}: it has no name; make it a subclass of own.Task with `kind: Literal['its-name']`"
        )
    for field, declared in kind.model_fields.items():
        if _is_no_key(declared.annotation):
            raise DeclarationError(
                f"task {named[0]}: a YAML file cannot hold its field {field}; make a list a tuple[int, ...], and an "
                "array or a set a cached_property"
            )
    register("task", named[0], kind, (TASKS, named[0], kind), (run_kinds(), named[0], _run_of(kind)))
    return kind


def _run_of(task: type[OwnTask]) -> type[TokensRun]:
    """Return the type of a run whose task a plugin registers."""
    made: type[TokensRun] = create_model("TokensRun", __base__=TokensRun, task=(task, ...))
    return made


def _is_no_key(annotation: Any) -> bool:
    """Return whether a field of this type has values that no key of a file can hold, or that could be changed."""
    kind = get_origin(annotation) or annotation
    if kind in (list, set, frozenset, bytes, np.ndarray) or (isinstance(kind, type) and issubclass(kind, np.generic)):
        return True
    return kind is not Literal and any(map(_is_no_key, get_args(annotation)))


def corpus(function: Callable[[], Iterable[np.ndarray]]) -> Callable[[], Iterable[np.ndarray]]:
    """Register a function that yields a corpus's documents, each an array of token ids, in a fixed order."""
    register("corpus", function.__name__, function, (OWN_CORPORA, function.__name__, function))
    return function


def attention(function: "Callable[[Tensor], Tensor]") -> "Callable[[Tensor], Tensor]":
    """Register an attention, which `model.attention` names: what becomes of the scores before their softmax.

    It is given logits (..., query, key), -inf where a query does not see a key, and keeps those.
    """
    register("attention", function.__name__, function, (OWN_ATTENTIONS, function.__name__, function))
    return function


def family(name: str, *, base: str, **choices: Any) -> None:
    """Register a choice of models, which `model.family` names: a set of defaults.

    Args:
        name: the name of the family.
        base: the family that it builds on: gpt-2, gpt-neo or llama.
        choices: the settings of the family, by the keys of `model`.

    Raises:
        DeclarationError: when there is no such base or choice, or the name exists already.
    """
    bases: dict[str, type[TransformerModel]] = {"gpt-neo": GptNeo, "gpt-2": Gpt2, "llama": Llama}
    if base not in bases:
        raise DeclarationError(f"family {name}: its base {base!r} is not known; {near(base, bases)}")
    for key in choices:
        if key not in bases[base].model_fields:
            raise DeclarationError(f"family {name}: model.{key}: {no_such_key(key, bases[base].model_fields)}")
    if name in bases or name == "icl":
        raise DeclarationError(f"family {name!r} exists already; give it another name")
    register("family", name, base, (OWN_FAMILIES, name, {"family": base, **choices}))


def head_metric(
    *,
    sentence: str,
    high: str,
    unit: str = "1",
    of: Literal["head", "pair", "layer"] = "head",
    null: "float | OfHeads | None" = None,
) -> "Callable[[OfHeads], OfHeads]":
    """Register a metric of heads: from an attention to a number per head, per pair of heads, or one.

    Over several batches it is their mean, weighted by the positions that count.

    Args:
        sentence: the meaning of the metric, for figures.
        high: the meaning of a high value.
        unit: the unit, such as `0 to 1`.
        of: the object that has a number, and so its shape: (head,), (head, head) or ().
        null: the value under the null model: a number, or a function like the metric's; None: unknown.
    """

    def registered(function: "OfHeads") -> "OfHeads":
        name = function.__name__
        checked = _checked(f"head metric {name}", function, of)
        of_null = null if callable(null) or null is None else lambda masked: 0 * checked(masked) + null
        declared = HeadMetric(
            name=name,
            sentence=sentence,
            unit=unit,
            of=of,
            family="own",
            high=high,
            null=Null("not known") if of_null is None else Null("as its plugin gives it", _mean(of_null)),
            value=_mean(checked),
        )
        register("head metric", name, function, (HEAD_METRICS, name, declared))
        return function

    return registered


def _checked(about: str, function: "OfHeads", of: str) -> "OfHeads":
    """Return a function of heads whose values have the shape that it declares, and are finite."""
    import torch

    @wraps(function)
    def checked(masked: "MaskedAttention") -> "Tensor":
        n = masked.n_heads
        shape = {"head": (n,), "pair": (n, n), "layer": ()}[of]

        def why_not(value: Any) -> str:
            if form_of(value) != shape:
                return f"gave {form_of(value)} of {n} heads; give a tensor of shape {shape}, since it is of={of!r}"
            return "" if torch.isfinite(value).all() else "gave values that are not finite; avoid division by 0"

        value: Tensor = call(about, function, masked, why_not=why_not, equal=torch.equal)
        return value

    return checked


def _mean(function: "OfHeads") -> OfSums:
    """Return the mean of a function of attentions over batches, weighted by the positions that count."""
    return OfSums(
        lambda total, rows: total / rows, (lambda masked: function(masked).double() * masked.counted.sum(), "rows")
    )


def run_metric(
    *, sentence: str, unit: str = "1", better: Literal["lower", "higher"] | None = None, null: float | None = None
) -> "Callable[[F], F]":
    """Register a metric of runs: a function of a model and its evaluation batches that returns a number.

    It is measured at every evaluation, and arms are compared by it.

    Args:
        sentence: the meaning of the metric.
        unit: the unit, such as `fraction`.
        better: the better direction; None: neither.
        null: the value under the null model.
    """

    def registered(function: F) -> F:
        declared = Metric(name=function.__name__, sentence=sentence, unit=unit, better=better, null=null)
        register("run metric", function.__name__, function, (METRICS, declared.name, declared), taken=_RECORDED)
        return function

    return registered


def regularizer(*, better: Better) -> "Callable[[OfHeads], OfHeads]":
    """Register a term of the loss: a differentiable number of an attention of two heads or more.

    Args:
        better: the wanted direction, high or low.
    """

    def registered(function: "OfHeads") -> "OfHeads":
        name = function.__name__

        @wraps(function)
        def checked(masked: "MaskedAttention") -> "Tensor":
            value = function(masked)
            if getattr(value, "shape", None) != () or not value.is_floating_point():
                raise UserError(
                    f"{line_of(function)}: regularizer {name} gave {form_of(value)}; give one number as a tensor"
                )
            if masked.attention.z.requires_grad and not value.requires_grad:
                raise UserError(
                    f"{line_of(function)}: no gradient comes back from regularizer {name}, so it would change nothing; "
                    "use only torch operations, without detach, item or no_grad"
                )
            return value

        register("regulariser", name, function, (REGULARIZED, name, better), (OWN_TERMS, name, checked), taken=METRICS)
        return function

    return registered


def figure(*, title: str, caption: str = "") -> "Callable[[Callable[[ReportData], Any]], Callable[[ReportData], Any]]":
    """Register a figure of reports: from what a report is made of to an Altair chart, or None where there is none.

    Args:
        title: the title above the figure.
        caption: the description of the figure, in plain words.
    """

    def registered(function: "Callable[[ReportData], Any]") -> "Callable[[ReportData], Any]":
        name = function.__name__.replace("_", "-")

        def draw(material: "ReportData") -> Any:
            from headway.report.charts.figure import Figure

            chart = function(material)
            return None if chart is None else Figure(name=name, part=PART, title=title, caption=caption, chart=chart)

        register("figure", name, draw)
        return function

    return registered


def callback(function: "Callable[[Run, Mapping[str, Any]], None]") -> "Callable[[Run, Mapping[str, Any]], None]":
    """Register what is called with a run and each line that it logs, in the process that trains it.

    Raises:
        DeclarationError: when it takes other arguments.
    """
    try:
        inspect.signature(function).bind(None, {})
    except TypeError as error:
        raise DeclarationError(
            f"callback {function.__name__} cannot be called with a run and a line ({error}); write it as "
            f"def {function.__name__}(run, line)"
        ) from error
    register("callback", function.__name__, function)
    return function
