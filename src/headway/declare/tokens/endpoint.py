"""Declare: which end of an edge, for all edges of a graph: one head cannot wherever the graph has a cycle, two can.

Paper: "Two (narrow) heads are better than (an arbitrarily wide) one", ICLR 2026; read in notes about it, not in the
paper itself. One attention-only layer reads an edge (u, v), a selector and a query, and says u or v. With one head the
least share of errors is the number of edges to be removed until no cycle is left, over twice the number of edges.
"""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt, model_validator

from headway import streams
from headway.declare.tokens.known import KnownTask, is_one_attention
from headway.declare.tokens.transformer import TransformerModel

EXACT = 14
"""Vertices up to which the edges to be removed are counted exactly."""


class EndpointTask(KnownTask):
    """The first or the second end of a directed edge, as a selector asks."""

    asked_last: ClassVar[int] = 1
    examples: ClassVar[str] = "headway.data.tokens.endpoint.open_examples"

    kind: Literal["endpoint"]
    vertices: Annotated[int, Field(ge=2, le=200)] = Field(description="vertices of the graph")
    graph: Literal["complete", "tournament", "cycle", "random"] = Field(
        "complete",
        description="complete: every edge in both directions; tournament: from each vertex to every later one, without "
        "cycles; cycle: to the next; random: edges that graph_seed draws",
    )
    edges: Annotated[int, Field(gt=0)] | None = Field(None, description="edges of a random graph")
    graph_seed: NonNegativeInt = Field(0, description="draws a random graph")

    @model_validator(mode="after")
    def _drawable(self) -> "EndpointTask":
        most = self.vertices * (self.vertices - 1)
        if (self.graph == "random") != (self.edges is not None):
            said = "needs a number of edges" if self.graph == "random" else "has its own edges; leave edges out"
            raise ValueError(f"graph {self.graph} {said}")
        if self.edges is not None and self.edges > most:
            raise ValueError(f"edges {self.edges}: {self.vertices} vertices have at most {most}")
        return self

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
        chosen = streams.generator(self.graph_seed, "random graph", n, self.edges).permutation(len(every))
        return tuple(sorted(every[i] for i in chosen[: self.edges]))

    @property
    def n_inputs(self) -> int:
        """Every edge with either selector."""
        return 2 * len(self.pairs)

    @property
    def n_ctx(self) -> int:
        """Two ends, the selector and the query."""
        return 4

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
        """What sentences call it."""
        return f"endpoint selection on {self.vertices} vertices ({self.graph})"

    def best_possible(self, model: TransformerModel) -> Mapping[str, float]:
        """What one head cannot; of many vertices a bound that holds, but is not the least.

        Examples:
            >>> from headway.declare.tokens.transformer import Gpt2
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
    """The fewest edges without which a directed graph has no cycle; of large graphs no more than that.

    Over orders of the vertices: an edge is removed where it points back. `cost[S]` is the least number of those among
    the vertices S put first. For large graphs cycles are counted that share no edge: each has one to be removed.

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
    """Cycles without a common edge, the shortest taken first: edges in both directions, then those by search."""
    there, found = set(edges), 0
    for u, v in edges:
        if (u, v) in there and (v, u) in there:
            there -= {(u, v), (v, u)}
            found += 1
    after: dict[int, list[int]] = {}
    for u, v in sorted(there):
        after.setdefault(u, []).append(v)
    for u, v in edges:
        if v in after.get(u, ()) and (path := _shortest_path(after, v, u)):
            for a, b in zip((u, *path), path, strict=False):
                after[a].remove(b)
            found += 1
    return found


def _shortest_path(after: Mapping[int, list[int]], start: int, end: int) -> list[int]:
    """The vertices of a shortest path, both ends among them; empty where there is none."""
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
