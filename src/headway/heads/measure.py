"""Metrics of every head of a model, accumulated over the traces of any number of batches.

Most metrics show on any text. Duplicate-token and induction heads show on random tokens that are repeated, and where a
token of the text occurs again. Circuits are read off the weights of Headway's own models. This module alone knows which
metric needs which input.

For each attention three things are added up: sums over rows (`heads.attention`), values per query (`heads.patterns`)
and the ingredients of nulls. A metric is a function of them; no trace is kept. Most of their memory are two float64
matrices a layer, of the heads' joint width squared: as many bytes as the attention's own weights.

On repeated random tokens only repetition helps to predict. The tokens that a head attends to on the second occurrence
therefore show its own rule. Paper: Olsson et al. 2022, arXiv 2209.11895.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Int, Int64
from torch import Tensor

from headway.base.rng import generator
from headway.config.head_metrics import HEAD_METRICS, REPEATED, HeadMetric, OfSums, PerQuery
from headway.errors import UserError, near
from headway.heads.attention import MaskedAttention, PerText, mask_attention
from headway.heads.circuits import CIRCUITS, circuit_scores
from headway.heads.expected_values import gaussian_attention, logit_variance, reach
from headway.heads.patterns import QueryAttention, blocks
from headway.heads.scores import Arrays, HeadScores, Scores, text_intervals
from headway.heads.sums import SUMS
from headway.models.trace import Trace
from headway.models.transformer import Transformer

K = TypeVar("K")
V = TypeVar("V", Tensor, float)


class HeadStream:
    """Metrics of heads over batches that come one by one.

    Law: over several batches they are what they are over one batch of all the texts, if batches keep pairs of texts
    together: texts 2i and 2i + 1 of a batch are compared.

    Args:
        metrics: the names of the metrics; None: all that the traces allow.
        repeats: True for traces of repeated random tokens, False for a text.
        nulls: True to measure nulls, and raw and published metrics; False for re-initialised heads.
        intervals: True to measure intervals over texts.

    Raises:
        UserError: if a metric is unknown or read off the weights, or needs repeated tokens.
    """

    def __init__(
        self,
        metrics: Sequence[str] | None = None,
        *,
        repeats: bool = False,
        nulls: bool = True,
        intervals: bool = False,
    ) -> None:
        self._asked, self._nulls, self._intervals = metrics, nulls, intervals
        names = _of_traces(repeats, whole=nulls) if metrics is None else tuple(metrics)
        for name in names:
            _check(name, repeats)
        self._metrics = tuple(metric for name, metric in HEAD_METRICS.items() if name in names)
        self._tallies: dict[str, _Tally] = {}

    def add(
        self,
        trace: Trace,
        periods: PerText | None = None,
        begins: PerText | None = None,
    ) -> None:
        """Measure one more batch.

        Args:
            trace: the trace of the batch.
            periods: the period of each text's repeated tokens; None for a text.
            begins: the first position of each text that is repeated; None for a text.

        Raises:
            UserError: if the values of an attention are not finite; if the trace is of another model than those before,
                or lacks the streams that a metric needs.
        """
        self._check_model(trace)
        with torch.no_grad():
            for attention in trace.attentions:
                masked = mask_attention(attention, trace.streams, periods, begins, trace.tokens)
                tally = _tally(masked, self._metrics, self._nulls) if masked.is_finite() else None
                if tally is None or not tally.is_finite():
                    raise UserError(
                        f"{attention.name} (layer {attention.layer}): its heads compute NaN or infinite values, so its "
                        "weights or those of a layer before it are broken; use another checkpoint"
                    )
                before = self._tallies.get(attention.name)
                self._tallies[attention.name] = tally if before is None else before + tally

    def scores(self) -> Scores:
        """Return each metric of the traces so far.

        Raises:
            UserError: when nothing was traced, or no position counts for a metric that was asked for by name.
        """
        if not self._tallies:
            raise UserError(
                "no attention was traced, so there is nothing to measure; give a trace of a model with heads"
            )
        n_rows = max(int(tally.sums["rows"]) for tally in self._tallies.values())
        scores = {}
        for metric in self._metrics:
            score = self._score(metric, n_rows)
            if any(np.isfinite(value).any() for value in score.values.values()):
                scores[metric.name] = score
            # A window may hide repeated tokens from all heads.
            elif self._asked is not None and not metric.repeated and not metric.optional:
                raise UserError(
                    f"{metric.name} was asked for ({metric.sentence}), but no traced token counts for it; "
                    "give a longer text, or leave it out"
                )
        return scores

    def _score(self, metric: HeadMetric, n_rows: int) -> HeadScores:
        values, nulls = {}, {}
        for attention, tally in self._tallies.items():
            values[attention] = _value(metric, tally, self._nulls).cpu().numpy()
            null = _null(metric, tally) if self._nulls else None
            if null is not None and bool(null.isfinite().all()):
                nulls[attention] = null.cpu().numpy()
        return HeadScores(
            metric=metric.name,
            values=values,
            null=nulls,
            n_rows=n_rows,
            interval=self._interval(metric) if self._intervals else {},
            by_place={
                attention: (tally.sums[part] / tally.sums[f"{part}/queries"]).cpu().numpy()
                for attention, tally in self._tallies.items()
                if (part := f"{metric.name}/moved") in tally.sums
            },
        )

    def _interval(self, metric: HeadMetric) -> Arrays:
        """Return intervals over texts for all heads of the model together, by name of the attention."""
        there = {name: tally for name, tally in self._tallies.items() if metric.name in tally.by_text}
        if not there:
            return {}
        of_all = np.concatenate([tally.by_text[metric.name] for tally in there.values()], -1)
        found = text_intervals(of_all[:-1], of_all[-1])
        ends = np.cumsum([tally.n_heads for tally in there.values()])[:-1]
        if found is None:
            return {}
        return dict(zip(there, np.split(found.clip(*metric.limits), ends, axis=-1), strict=True))

    def _check_model(self, trace: Trace) -> None:
        for metric in self._metrics:
            if not trace.streams and "stream_cosines" in getattr(metric.value, "sums", ()):
                lacking = "residual stream, which only Headway's own models give; leave it out"
            elif trace.tokens is None and metric.family == "text":
                lacking = "tokens; give replace(trace, tokens=tokens)"
            else:
                continue
            if self._asked is not None:
                raise UserError(f"{metric.name} was asked for, but the trace holds no {lacking}")
            self._metrics = tuple(each for each in self._metrics if each is not metric)
        names = [attention.name for attention in trace.attentions]
        if self._tallies and names != list(self._tallies):
            raise UserError(
                f"a trace of the attentions {', '.join(names)} was added to one of {', '.join(self._tallies)}; "
                "measure each model on its own"
            )


@dataclass(frozen=True, kw_only=True)
class _Tally:
    """The sums of one attention."""

    sums: dict[Any, Tensor]
    """Sums in float64, by name or by the function that gives them."""
    n_heads: int
    d_head: int
    reach: dict[tuple[int, int], float]
    """Counts of queries by the keys they see, as `expected_values.reach` returns them."""
    by_text: Arrays
    """By metric of heads (.., text, head): sums over queries of each variant, and last the numbers of queries."""

    def __add__(self, other: "_Tally") -> "_Tally":
        sums, counts = _added(self.sums, other.sums), _added(self.reach, other.reach)
        by_text = self.by_text | {
            name: np.concatenate((self.by_text[name], of), 1) if name in self.by_text else of
            for name, of in other.by_text.items()
        }
        return _Tally(sums=sums, reach=counts, n_heads=self.n_heads, d_head=self.d_head, by_text=by_text)

    def is_finite(self) -> bool:
        return all(bool(value.isfinite().all()) for value in self.sums.values())


def _added(sums: dict[K, V], others: dict[K, V]) -> dict[K, V]:
    return sums | {name: sums[name] + value if name in sums else value for name, value in others.items()}


def _tally(masked: MaskedAttention, metrics: Sequence[HeadMetric], nulls: bool) -> _Tally:
    """Return all that some metrics and their nulls need of one batch."""
    rules = [rule for metric in metrics for rule in (_rule(metric, nulls), metric.null.value if nulls else None)]
    needed = dict.fromkeys(
        ["rows", "texts", *(each for rule in rules if isinstance(rule, OfSums) for each in rule.sums)]
    )
    sums = {each: SUMS.get(each, each)(masked) for each in needed}
    over_queries, by_text = _sums_over_queries(masked, metrics, nulls)
    sums |= over_queries
    gaussian = nulls and any(metric.null.value == "gaussian" for metric in metrics)
    if gaussian:
        sums["logit_variance"], sums["logit_queries"] = logit_variance(masked)
    counts = reach(masked) if gaussian else {}
    kept = {name: of.cpu().numpy() for name, of in by_text.items()}
    return _Tally(sums=sums, reach=counts, n_heads=masked.n_heads, d_head=masked.attention.q.shape[3], by_text=kept)


def _sums_over_queries(
    masked: MaskedAttention, metrics: Sequence[HeadMetric], nulls: bool
) -> tuple[dict[Any, Tensor], dict[str, Tensor]]:
    """Return sums of per-query metrics of attention, of its nulls, and numbers of queries; and both by text."""
    sums: dict[Any, Tensor] = {}
    shape = len(masked.counted), masked.n_heads
    rules = [(metric, metric.value) for metric in metrics if isinstance(metric.value, PerQuery)]
    by_text: dict[str, Tensor] = {}
    for block in blocks(masked) if rules else ():
        for metric, rule in rules:
            totals, numbers = _of_texts(rule, block.measured)
            parts = {metric.name: totals.sum(-2), f"{metric.name}/queries": numbers.sum(0)}
            if nulls and metric.null.value == "even":
                parts[f"{metric.name}/even"] = _of_texts(rule, block.even)[0].sum(-2)
            if nulls and metric.family == "text" and block.moved is not None:
                moved, n_moved = _of_texts(rule, block.moved)
                parts |= {f"{metric.name}/moved": moved.sum(-2), f"{metric.name}/moved/queries": n_moved.sum(0)}
            sums = _added(sums, parts)
            if nulls and metric.of == "head":
                variants = totals if totals.ndim == 3 else totals[None]
                both = torch.cat((variants, numbers.expand_as(variants[:1])))
                by_text.setdefault(metric.name, both.new_zeros(len(both), *shape))[:, block.examples] += both
    return sums, by_text


def _of_texts(rule: PerQuery, queries: QueryAttention) -> tuple[Tensor, Tensor]:
    """Return for each text the sums of values over queries, and the numbers of queries."""
    chosen = rule.over(queries) & queries.counted
    totals = torch.where(chosen, rule.function(queries), 0).sum(-1, dtype=torch.float64)
    return totals, chosen.sum(2, dtype=torch.float64)


def _rule(metric: HeadMetric, whole: bool) -> Any:
    """Return how a metric is computed; re-initialised heads may be measured at some positions and give estimates."""
    return metric.value if whole or metric.estimate is None else metric.estimate


def _value(metric: HeadMetric, tally: _Tally, whole: bool) -> Tensor:
    rule = _rule(metric, whole)
    if isinstance(rule, PerQuery):
        return _mean(metric, rule, tally, metric.name)
    value = rule(tally.sums)
    return value if tally.sums["rows"] > 0 else torch.full_like(value, torch.nan)


def _null(metric: HeadMetric, tally: _Tally) -> Tensor | None:
    null, value = metric.null.value, metric.value
    if isinstance(null, OfSums):
        return null(tally.sums)
    if not isinstance(value, PerQuery) or null is None:
        return None
    if null == "even":
        return _mean(metric, value, tally, f"{metric.name}/even")
    if not tally.sums["logit_queries"] > 0:
        return None
    spread = (tally.sums["logit_variance"] / tally.sums["logit_queries"]).sqrt()
    return gaussian_attention(value, tally.reach, spread, tally.d_head)


def _mean(metric: HeadMetric, rule: PerQuery, tally: _Tally, part: str) -> Tensor:
    """Return the mean of values summed over queries: the largest of several; NaN without queries."""
    if part not in tally.sums:
        return torch.full((tally.n_heads,) if metric.of == "head" else (), torch.nan)
    mean = tally.sums[part] / tally.sums["texts" if rule.per == "text" else f"{metric.name}/queries"]
    mean = mean if mean.ndim == 1 else mean.amax(0)
    return mean if metric.of == "head" else mean[0]


def _of_traces(repeated: bool, *, whole: bool) -> tuple[str, ...]:
    """Return all metrics that a trace can have, or only Headway's that can be compared with other models'."""
    return tuple(
        name
        for name, metric in HEAD_METRICS.items()
        if metric.family != "circuits"
        and (repeated or not metric.repeated)
        and (whole or not (metric.family == "own" or name.endswith(("_raw", "_published"))))
    )


def _check(name: str, repeated: bool) -> None:
    if name not in HEAD_METRICS:
        raise UserError(f"{name!r} is not a metric of heads; {near(name, HEAD_METRICS)}")
    if HEAD_METRICS[name].family == "circuits":
        raise UserError(
            f"{name} was asked of a trace, but it needs the weights; use headway.heads.circuits.circuit_scores"
        )
    if name in REPEATED and not repeated:
        raise UserError(
            f"{name} was asked for, but it needs random tokens that are repeated; trace those of "
            "headway.heads.measure.repeated_tokens and give their period"
        )


def repeated_tokens(vocab_size: int, period: int, batch: int, seed: int) -> Int64[np.ndarray, "batch length"]:
    """Return texts of `period` random tokens that are then repeated.

    If the vocabulary is large enough, no token stands twice in a period, so that each has one earlier occurrence.

    Raises:
        UserError: if the period is below 2, or the vocabulary or the batch is empty.

    Examples:
        >>> tokens = repeated_tokens(vocab_size=50, period=4, batch=2, seed=0)
        >>> tokens.shape, bool((tokens[:, :4] == tokens[:, 4:]).all())
        ((2, 8), True)
    """
    _check_sizes(vocab_size=vocab_size, period=period, batch=batch)
    random = generator(seed, "repeated tokens", vocab_size, period)
    once = vocab_size >= period
    half = np.stack([random.choice(vocab_size, period, replace=not once) for _ in range(batch)]).astype(np.int64)
    return np.concatenate((half, half), axis=1)


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        least = 2 if name in ("period", "longest") else 1
        if size < least:
            raise UserError(f"repeated tokens with {name} {size} were asked for; {name} must be at least {least}")


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """Sequences that begin with random tokens and end with others, which stand there twice."""

    tokens: Int[Tensor, "batch pos"]
    periods: PerText
    """The number of tokens after which those of a sequence are repeated."""
    begins: PerText
    """The position of the first repeated token."""


def drawn_repeats(vocab_size: int, longest: int, batch: int, seed: int) -> Repeated:
    """Draw sequences of twice `longest`, each with its own period and beginning, so that no fixed distance pays.

    Periods are distinct where possible, between a quarter of the longest and the longest (from 2 on if that is short);
    one of them is the longest. The repeated tokens stand at the end, and there twice only: a head that finds more
    occurrences shares its attention among them.

    Raises:
        UserError: if the longest period is below 2, or the vocabulary or the batch is empty.

    Examples:
        >>> found = drawn_repeats(vocab_size=50, longest=8, batch=3, seed=0)
        >>> [bool((row[at : at + p] == row[at + p : at + 2 * p]).all()) for row, at, p in
        ...  zip(found.tokens, found.begins, found.periods)]
        [True, True, True]
    """
    _check_sizes(vocab_size=vocab_size, longest=longest, batch=batch)
    random = generator(seed, "drawn repeats", vocab_size, longest)
    shortest = max(2, longest // 4) if longest >= 16 else 2
    possible = np.linspace(longest, shortest, min(batch, longest - shortest + 1)).round().astype(np.int64)
    periods = np.resize(possible, batch)
    begins = 2 * (longest - periods)
    tokens = [_at_the_end(vocab_size, int(period), int(at), random) for period, at in zip(periods, begins, strict=True)]
    return Repeated(
        tokens=torch.from_numpy(np.stack(tokens)), periods=torch.from_numpy(periods), begins=torch.from_numpy(begins)
    )


def _at_the_end(vocab_size: int, period: int, begins: int, random: np.random.Generator) -> Int64[np.ndarray, " length"]:
    """Return a text that ends in a repetition; if the vocabulary is large enough, earlier tokens are others."""
    block = random.choice(vocab_size, period, replace=vocab_size < period)
    others = np.setdiff1d(np.arange(vocab_size), block)
    before = random.choice(others if len(others) else vocab_size, begins)
    return np.concatenate((before, block, block)).astype(np.int64)


def repeats_of_text(tokens: Int[np.ndarray, "text pos"], longest: int, batch: int, seed: int) -> Repeated:
    """Draw such sequences of a text's own tokens; each begins with the first token of one of its sequences.

    A first token may say what is asked for, or take attention that has no other place. It is not repeated.

    Raises:
        UserError: if `drawn_repeats` would raise it.

    Examples:
        >>> found = repeats_of_text(np.array([[7, 3, 4, 3, 5]]), longest=3, batch=2, seed=0)
        >>> found.tokens[:, 0].tolist(), sorted(set(found.tokens[:, 1:].flatten().tolist()))
        ([7, 7], [3, 4, 5])
    """
    own = torch.from_numpy(tokens_to_repeat(tokens))
    drawn = drawn_repeats(len(own), longest, batch, seed)
    found = own[drawn.tokens]
    found[:, 0] = torch.from_numpy(np.resize(tokens[:, 0], batch))
    return replace(drawn, tokens=found, begins=drawn.begins.clip(1))


def tokens_to_repeat(tokens: Int[np.ndarray, "text pos"]) -> Int64[np.ndarray, " token"]:
    """Return the tokens of a text that stand after the first of a sequence, ascending."""
    return np.unique(tokens[:, 1:]).astype(np.int64)


def in_batches(drawn: Repeated, at_once: int, device: torch.device) -> tuple[Repeated, ...]:
    """Return so many sequences at once, on a device."""
    parts = (x.to(device).split(at_once) for x in (drawn.tokens, drawn.periods, drawn.begins))
    return tuple(
        Repeated(tokens=tokens, periods=periods, begins=begins) for tokens, periods, begins in zip(*parts, strict=True)
    )


def examine(
    text: Iterable[Trace],
    metrics: Sequence[str],
    *,
    trace: Callable[[Tensor], Trace],
    repetition: Callable[[], Sequence[Repeated]],
    weights: Transformer | None,
) -> Scores:
    """Return some metrics of every head of a model, in their declared order.

    Args:
        text: traces of a text, batch by batch. All are taken even where no metric needs one: whoever makes them may
            measure something else on the way.
        metrics: the names of the metrics.
        trace: the function that traces every head on (batch, pos) tokens.
        repetition: the function that returns the repeated tokens, if a metric needs them.
        weights: the model for metrics of weights, one of Headway's; None: there is none.

    Raises:
        UserError: if `HeadStream` or `circuit_scores` would raise it.
    """
    of_weights = [name for name in metrics if name in CIRCUITS and weights is not None]
    of_repetition = [name for name in metrics if name in REPEATED]
    of_text = [name for name in metrics if name not in (*of_weights, *of_repetition)]
    scores: Scores = {}
    stream = HeadStream(of_text)
    for traced in text:
        if of_text:
            stream.add(traced)
    if of_text:
        scores |= stream.scores()
    if of_repetition:
        stream = HeadStream(of_repetition, repeats=True)
        for batch in repetition():
            stream.add(trace(batch.tokens), batch.periods, batch.begins)
        scores |= stream.scores()
    if weights is not None and of_weights:
        scores |= circuit_scores(weights, of_weights)
    return {metric: scores[metric] for metric in HEAD_METRICS if metric in scores}
