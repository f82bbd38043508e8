"""Synthetic tasks with known answers: endpoint selection, parity, retrieval, hops, recall and induction.

Endpoint selection asks for one end of an edge of a graph. One head fails wherever the graph has a cycle; two heads
succeed. Paper: "Two (narrow) heads are better than (an arbitrarily wide) one", ICLR 2026; read in notes about it, not
in the paper itself. One attention-only layer reads an edge (u, v), a selector and a query, and says u or v. With one
head the least share of errors is the number of edges to be removed until no cycle is left, over twice the number of
edges.

Parity of n bits: one layer of attention computes it if and only if it has n heads. Paper: Rajaraman, Sundaram and
Tesfaye 2026, arXiv 2609.04046: one attention-only layer, the answer read at a query token after the bits as the larger
of two logits. It is possible exactly with n heads or more, at any width and precision; with joint embeddings of bit and
position, and so with additive ones too. With an MLP the bound is gone.

Retrieval asks for several maxima at once, a head for each. Paper: "The Effect of Attention Head Count on Transformer
Approximation", ICLR 2026, arXiv 2510.06662; read in notes about it, not in the paper itself. y is the sum over i of the
largest a_i . x_t. The model is one layer of attention without residual stream, an MLP for each input before it and one
after it; the answer is read at a class token. What is possible is not known exactly: the theorem bounds sizes. That
layers times heads have to reach the number of maxima is a conjecture.

Hops of induction separate depth, heads and width. Paper: Sanford, Hsu and Telgarsky 2024, arXiv 2402.09268. One hop
from a position goes to the latest earlier occurrence of its letter, and on to the position after it; the answer of k
hops is the letter there, or "none" where a hop finds nothing. No letter follows itself; the first token says k; every
position is asked. Depth log2 k + 2 suffices.

Recall is multi-query associative recall: the values of keys that were given once. Paper: Arora et al. 2023 (Zoology,
arXiv 2312.04927): two attention layers of one head recall all pairs, one layer stays at chance. The paper never varies
heads. It asks keys at places drawn from a power law; here all places are equally likely, in the order of their draw.

Induction asks what followed the latest occurrence of a letter: two layers do it, one layer only with smeared keys.
Paper: Olsson et al. 2022, arXiv 2209.11895. The paper repeats random tokens; here every position whose letter stood
earlier is asked for the letter after its latest occurrence, so that no fixed distance helps.
"""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from headway.base import rng
from headway.config.lm.model import TransformerModel
from headway.config.lm.task import SyntheticTask, is_one_attention
from headway.config.spec import whole

EXACT = 14
"""The most vertices for which the edges to be removed are counted exactly."""


class EndpointTask(SyntheticTask):
    """Endpoint selection: predict the first or the second vertex of a directed edge; a selector token says which."""

    asked_last: ClassVar[int] = 1
    n_ctx: ClassVar[int] = 4
    """Two ends, the selector and the query."""
    examples: ClassVar[str] = "headway.data.synthetic.endpoint_examples"

    kind: Literal["endpoint"]
    vertices: int = Field(ge=2, le=200)
    """number of vertices of the graph"""
    graph: Literal["complete", "tournament", "cycle", "random"] = "complete"
    """complete: all edges in both directions; tournament: edges from each vertex to every later vertex; cycle: edges
    from each vertex to the next; random: edges drawn with `graph_seed`"""
    edges: PositiveInt | None = None
    """number of edges of a random graph"""
    graph_seed: NonNegativeInt = 0
    """random seed that draws a random graph"""

    @whole
    def _check_whole(self) -> None:
        most = self.vertices * (self.vertices - 1)
        if (self.graph == "random") != (self.edges is not None):
            problem = "needs a number of edges" if self.graph == "random" else "has its own edges; leave edges out"
            raise ValueError(f"graph {self.graph} {problem}")
        if self.edges is not None and self.edges > most:
            raise ValueError(f"edges {self.edges}: {self.vertices} vertices have at most {most}")

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The edges, each from its first end to its second."""
        n = self.vertices
        if self.graph == "cycle":
            return tuple((u, (u + 1) % n) for u in range(n))
        forward = list(combinations(range(n), 2))
        if self.graph == "tournament":
            return tuple(forward)
        every = [*forward, *((v, u) for u, v in forward)]
        if self.edges is None:
            return tuple(every)
        chosen = rng.generator(self.graph_seed, "random graph", n, self.edges).permutation(len(every))
        return tuple(sorted(every[i] for i in chosen[: self.edges]))

    @property
    def n_inputs(self) -> int:
        """Every edge with either selector."""
        return 2 * len(self.pairs)

    @property
    def vocab_size(self) -> int:
        """The vertices, two selectors and the query."""
        return self.vertices + 3

    @property
    def n_answers(self) -> int:
        """The vertices."""
        return self.vertices

    @property
    def title(self) -> str:
        """The name of the task in sentences."""
        return f"endpoint selection on {self.vertices} vertices ({self.graph})"

    def best_possible(self, model: TransformerModel) -> Mapping[str, float]:
        """Return the least error of one head; for many vertices a valid bound that need not be the least.

        Examples:
            >>> from headway.config.lm.model import Gpt2
            >>> one = Gpt2(family="gpt-2", d_model=32, n_layers=1, n_heads=1, mlp="none", norm="none")
            >>> dict(EndpointTask(kind="endpoint", vertices=6).best_possible(one))
            {'accuracy': 0.75, 'solved': 0.0}
        """
        if not is_one_attention(model):
            return super().best_possible(model)
        removed = 0 if model.layout.total > 1 else edges_to_remove(self.vertices, self.pairs)
        accuracy = 1 - removed / (2 * len(self.pairs))
        return {"accuracy": accuracy, "solved": float(self.is_solved(accuracy))}


@lru_cache(maxsize=64)
def edges_to_remove(n: int, edges: tuple[tuple[int, int], ...]) -> int:
    """Return the fewest edges whose removal leaves a directed graph without cycles; for large graphs a lower bound.

    Small graphs are searched over orders of the vertices: an edge is removed if it points back. `cost[S]` is the least
    number of removed edges among the vertices S put first. In large graphs cycles that share no edge are counted: each
    needs one removal.

    Examples:
        >>> edges_to_remove(3, ((0, 1), (1, 2), (2, 0)))
        1
        >>> edges_to_remove(40, tuple((u, (u + 1) % 40) for u in range(40)))
        1
    """
    if n > EXACT:
        return _cycles_apart(edges)
    into = [0] * n
    for u, v in edges:
        into[u] |= 1 << v  # u put after v: the edge points back
    cost = [0] * (1 << n)
    for chosen in range(1, 1 << n):
        cost[chosen] = min(
            cost[chosen & ~(1 << last)] + (into[last] & chosen).bit_count() for last in range(n) if chosen >> last & 1
        )
    return cost[-1]


def _cycles_apart(edges: tuple[tuple[int, int], ...]) -> int:
    """Return cycles without a common edge, the shortest first: edges in both directions, then cycles by search."""
    there, cycles = set(edges), 0
    for u, v in edges:
        if (u, v) in there and (v, u) in there:
            there -= {(u, v), (v, u)}
            cycles += 1
    after: dict[int, list[int]] = {}
    for u, v in sorted(there):
        after.setdefault(u, []).append(v)
    for u, v in edges:
        if v in after.get(u, ()) and (path := _shortest_path(after, v, u)):
            for a, b in zip((u, *path), path, strict=False):
                after[a].remove(b)
            cycles += 1
    return cycles


def _shortest_path(after: Mapping[int, list[int]], start: int, end: int) -> list[int]:
    """Return the vertices of a shortest path, both ends among them; empty if there is none."""
    before, reached = {start: start}, [start]
    for at in reached:
        if at == end:
            path = [end]
            while path[-1] != start:
                path.append(before[path[-1]])
            return path[::-1]
        for to in after.get(at, ()):
            if to not in before:
                before[to] = at
                reached.append(to)
    return []


class ParityTask(SyntheticTask):
    """Parity: predict whether the number of ones among n bits is odd or even."""

    asked_last: ClassVar[int] = 1
    vocab_size: ClassVar[int] = 3
    """0, 1 and the query."""
    n_answers: ClassVar[int] = 2
    """Even and odd."""
    examples: ClassVar[str] = "headway.data.synthetic.parity_examples"

    kind: Literal["parity"]
    n_bits: int = Field(ge=1, le=16)
    """number of bits in an input; a query token follows the bits"""

    @property
    def n_inputs(self) -> int:
        """Every row of bits."""
        return 2**self.n_bits

    @property
    def n_ctx(self) -> int:
        """The bits and the query."""
        return self.n_bits + 1

    @property
    def title(self) -> str:
        """The name of the task in sentences."""
        return f"{self.n_bits}-bit parity"

    def best_possible(self, model: TransformerModel) -> Mapping[str, float]:
        """Return the least error of one layer with fewer heads than bits: it misses at least one input.

        Examples:
            >>> from headway.config.lm.model import Gpt2
            >>> task = ParityTask(kind="parity", n_bits=3)
            >>> one = dict(family="gpt-2", d_model=16, n_layers=1, mlp="none", norm="none")
            >>> [dict(task.best_possible(Gpt2(n_heads=heads, **one))) for heads in (2, 4)]
            [{'accuracy': 0.875, 'solved': 0.0}, {'accuracy': 1.0, 'solved': 1.0}]
        """
        if not is_one_attention(model):
            return super().best_possible(model)
        accuracy = 1.0 if model.layout.total >= self.n_bits else 1 - 1 / self.n_inputs
        return {"accuracy": accuracy, "solved": float(self.is_solved(accuracy))}


class RetrievalTask(SyntheticTask):
    """Retrieval: find the largest projection of the inputs onto each direction, and predict the sum of these maxima."""

    primary: ClassVar[str] = "nmse"
    loss: ClassVar[str] = "mse"
    asked_last: ClassVar[int] = 1
    n_answers: ClassVar[int] = 1
    examples: ClassVar[str] = "headway.data.synthetic.retrieval_examples"

    kind: Literal["retrieval"]
    targets: int = Field(gt=0, le=1_000)
    """number of directions, each of which adds one maximum to the sum"""
    length: int = Field(16, gt=0, le=10_000)
    """number of inputs; the class token follows the inputs"""
    d_x: int = Field(4, gt=0, le=1_000)
    """dimension of an input, whose entries are drawn from N(0, 1)"""

    @property
    def n_ctx(self) -> int:
        """The inputs and the class token."""
        return self.length + 1

    @property
    def vocab_size(self) -> int:
        """Numbers of an input."""
        return self.d_x

    @property
    def title(self) -> str:
        """The name of the task in sentences."""
        return f"retrieval of {self.targets} maxima"

    def check_model(self, model: TransformerModel) -> None:
        """Raise an error unless the model reads numbers, and answers with one at a class token.

        Raises:
            ValueError: naming what is missing.
        """
        wanted = {"encoder": model.encoder is not None, "class_token": model.class_token, "readout": model.readout == 1}
        if missing := [name for name, is_there in wanted.items() if not is_there]:
            raise ValueError(
                "task.kind retrieval reads numbers and predicts one number, so the model needs "
                f"{' and '.join(missing)}; set encoder to a width, class_token to true and readout to 1"
            )


class HopsTask(SyntheticTask):
    """k-hop induction: at every position, predict the letter that k induction steps lead to."""

    primary: ClassVar[str] = "accuracy"
    examples: ClassVar[str] = "headway.data.synthetic.hops_examples"

    kind: Literal["hops"]
    letters: int = Field(4, ge=2, le=10_000)
    """number of different letters"""
    length: int = Field(99, gt=1, le=100_000)
    """number of letters in a sequence; the token for k precedes the letters"""
    hops: int = Field(16, ge=0, le=10_000)
    """the largest k; each sequence has a k from 0 to `hops`"""

    @property
    def n_ctx(self) -> int:
        """K and the letters."""
        return self.length + 1

    @property
    def vocab_size(self) -> int:
        """The letters, and a token for each k."""
        return self.letters + self.hops + 1

    @property
    def n_answers(self) -> int:
        """A letter, or none."""
        return self.letters + 1

    @property
    def title(self) -> str:
        """The name of the task in sentences."""
        return f"up to {self.hops} hops"


_DRAWS = 10_000
"""The number of draws in which the most frequent value is counted."""


class RecallTask(SyntheticTask):
    """Associative recall: predict the value that was paired with a key."""

    examples: ClassVar[str] = "headway.data.synthetic.recall_examples"

    kind: Literal["recall"]
    pairs: int = Field(4, gt=0, le=10_000)
    """number of key-value pairs at the beginning of a sequence"""
    length: int = Field(64, gt=2, le=100_000)
    """number of tokens in a sequence: first the pairs, then keys and filler tokens"""
    vocabulary: int = Field(8192, ge=4, le=1_000_000)
    """size of the vocabulary. Token 0 is the filler; the first half of the other tokens are keys, and the second half
    are values"""

    @whole
    def _check_whole(self) -> None:
        if self.length < 3 * self.pairs:
            raise ValueError(
                f"length {self.length} has no room for {self.pairs} pairs and the repeated keys; give "
                f"{3 * self.pairs} or more"
            )
        if self.pairs > self.vocabulary // 2 - 1:
            raise ValueError(
                f"pairs {self.pairs}: {self.vocabulary} tokens have {self.vocabulary // 2 - 1} keys; give a larger "
                "vocabulary"
            )

    @property
    def n_ctx(self) -> int:
        """All tokens."""
        return self.length

    @property
    def vocab_size(self) -> int:
        """Fillers, keys and values."""
        return self.vocabulary

    @property
    def title(self) -> str:
        """The name of the task in sentences."""
        return f"recall of {self.pairs} pairs"

    def by_chance(self) -> float:
        """Return the accuracy of always naming the most frequent value, a little above one over the number of pairs.

        Examples:
            >>> round(RecallTask(kind="recall", pairs=4, length=24, vocabulary=64).by_chance(), 2)
            0.29
        """
        values = self.vocabulary - self.vocabulary // 2
        drawn = rng.generator(0, "recall by chance").integers(values, size=(_DRAWS, self.pairs))
        _, first, times = np.unique(np.arange(_DRAWS)[:, None] * values + drawn, return_index=True, return_counts=True)
        most = np.zeros(_DRAWS, np.int64)
        np.maximum.at(most, first // self.pairs, times)
        return float(most.mean() / self.pairs)


class InductionTask(SyntheticTask):
    """Induction: predict the letter that followed the previous occurrence of the current letter."""

    examples: ClassVar[str] = "headway.data.synthetic.induction_examples"

    kind: Literal["induction"]
    letters: int = Field(16, ge=2, le=100_000)
    """number of different letters; no letter follows itself"""
    length: int = Field(64, gt=1, le=100_000)
    """number of letters in a sequence"""

    @property
    def n_ctx(self) -> int:
        """The letters."""
        return self.length

    @property
    def vocab_size(self) -> int:
        """The letters."""
        return self.letters

    @property
    def title(self) -> str:
        """The name of the task in sentences."""
        return f"induction over {self.letters} letters"
