"""The cost of an experiment as tables and sentences for a terminal."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from headway.base.text import counted, duration, size, together
from headway.config.experiment import Experiment
from headway.config.run import RunSpec
from headway.execute.costs import Cost
from headway.report.charts.parameters import Parts, compact
from headway.store.environment import cores

Value = TypeVar("Value", bound=Hashable)

_ROUNDED = 10_000
"""Counts of a part from here on are rounded to three digits in a table."""
_MOST_ROWS = 60
"""Rows of a table of arms; of more arms, those that are alike share a row."""
_MOST_NAMES = 12
"""Arms in a row, and groups of them, in a sentence."""


@dataclass(frozen=True, kw_only=True)
class PlannedCosts:
    """The costs of every arm."""

    experiment: Experiment
    costs: tuple[Cost, ...]

    @property
    def picture(self) -> Parts:
        """The parameters by part as bars; arms with equal counts share a bar."""
        alike = _alike((cost.arm.full_name, tuple(cost.budget.parameters.items())) for cost in self.costs)
        return Parts(counts={together(names, len(self.costs)): dict(counts) for counts, names in alike.items()})

    @property
    def _run(self) -> RunSpec:
        """A run that tells what all runs of a laboratory have in common."""
        return self.costs[0].run

    def tables(self) -> tuple[Table, ...]:
        """Parameters by part, and what a run costs; or the command of a run. A row per arm."""
        if self._run.command:
            commands = Table(box=None, pad_edge=False, header_style="bold")
            commands.add_column("arm", overflow="fold")
            commands.add_column("command, with the first seed", overflow="fold")
            for cost in self.costs:
                commands.add_row(escape(cost.arm.full_name), escape(cost.run.command))
            return (commands,)
        parts = self.picture.names
        in_tokens, heads = self._run.task.n_ctx is not None, bool(self._run.heads_summary)
        flops_of = f"FLOPs/{self._run.traits.example}"
        rate = "tokens/s" if in_tokens else "steps/s"
        counts = _table("arm", *parts, "total")
        of_heads = ["heads"] if heads else []
        costs = _table("arm", *of_heads, flops_of, "FLOPs", "memory", rate, "time")
        by_part: list[tuple[str, ...]] = []
        by_run: list[tuple[str, ...]] = []
        for cost in self.costs:
            numbers = [cost.budget.parameters.get(part, 0) for part in parts]
            by_part.append((*map(_count, numbers), f"{cost.budget.n_parameters:,}"))
            per_example = cost.budget.flops_per_token if in_tokens else cost.budget.flops_per_example
            flops = cost.training_flops
            speed = cost.tokens_per_s if in_tokens else cost.steps_per_s
            by_run.append(
                (
                    *([_heads(cost.run.heads_summary)] if heads else []),
                    f"{per_example:,.0f}",
                    "–" if flops is None else f"{flops:.2e}",
                    size(cost.budget.peak_bytes),
                    "–" if speed is None else f"{speed:,.0f}",
                    "–" if cost.seconds is None else duration(cost.seconds),
                )
            )
        for table, rows in ((counts, by_part), (costs, by_run)):
            for name, cells in self._rows(rows):
                table.add_row(name, *cells)
        return counts, costs

    def _rows(self, cells: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield a row for each arm; of many arms, those with equal cells share a row."""
        rows = [(cost.arm.full_name, row) for cost, row in zip(self.costs, cells, strict=True)]
        if len(rows) > _MOST_ROWS:
            rows = [(together(names, len(rows)), row) for row, names in _alike(rows).items()]
        yield from rows

    def starts(self) -> tuple[Tree, ...]:
        """Return the tree of arms that start from others, with what each does first; empty if none does."""
        arms = [cost.arm for cost in self.costs]
        if all(arm.parent is None for arm in arms):
            return ()
        tree = Tree("each run is initialised from the parent arm's run with the same seed", guide_style="dim")
        branches: dict[str, Tree] = {}
        for arm in sorted(arms, key=lambda arm: len(arm.ancestors)):
            above = tree if arm.parent is None else branches.get(arm.parent.full_name, tree)
            start = arm.resolved_spec.initial_run
            first = "" if start is None else start.sentence
            said = ", ".join(part for part in (first, _then(arm.resolved_spec)) if part)
            branches[arm.full_name] = above.add(f"{escape(arm.full_name)}: {escape(said)}")
        return (tree,)

    def sentences(self) -> Iterable[str]:
        """Yield sentences on the columns, on matched arms, and on the time of all runs."""
        if self._run.command:
            yield f"{counted(len(self.experiment.runs), 'run')}; the cost of a run is not known before it ends"
            return
        what = self._run.traits.example
        yield f"FLOPs/{what} counts a forward pass; training takes about three times as many FLOPs per {what}"
        if len(self.costs) > 1:
            yield from self._matches()
        if any(c.run.declared_steps is None and c.steps for c in self.costs):
            yield "the epoch length is estimated from what is known of the corpus"
        if any(c.steps is None for c in self.costs):
            yield "FLOPs and time are left out, since the epoch length is unknown until the corpus is read"
        if any(c.arm.parent is not None for c in self.costs):
            yield "layouts and costs of pruned arms are estimates until their runs begin"
        yield from dict.fromkeys(c.about_trial for c in self.costs if c.about_trial)
        for reason in dict.fromkeys(c.untimed for c in self.costs if c.untimed):
            names = [c.arm.full_name for c in self.costs if c.untimed == reason]
            shown = ", ".join(names) if len(names) <= _MOST_NAMES else together(names, len(self.costs))
            yield f"not timed: {'every arm' if len(names) == len(self.costs) else shown}; {reason}"
        yield from self._kept()
        yield from self._total()
        yield from self._shorter()

    def _matches(self) -> Iterable[str]:
        yield _matched("parameters", {c.arm.full_name: c.budget.n_parameters for c in self.costs})
        per_run = {c.arm.full_name: c.training_flops for c in self.costs}
        if None in per_run.values():
            per_run = {c.arm.full_name: c.budget.flops_per_token for c in self.costs}
        yield _matched("FLOPs", per_run)

    def _kept(self) -> Iterable[str]:
        """Yield a sentence on the disk space of kept weights."""
        n_steps = [len(self.experiment.kept_weights(cost.arm)) for cost in self.costs]
        if any(n_steps):
            numbers = sum(n * cost.budget.n_parameters for n, cost in zip(n_steps, self.costs, strict=True))
            taken = size(4 * numbers * len(self.experiment.seeds))
            yield f"each run stores its weights at {_range(n_steps)}: {taken} in all (float32)"

    def _total(self) -> Iterable[str]:
        times = [c.seconds for c in self.costs if c.seconds is not None]
        if len(times) < len(self.costs):
            return
        count, seeds = len(self.experiment.runs), len(self.experiment.seeds)
        in_turn = seeds / min(count, cores())
        fastest, slowest = (
            duration(sum(cost.seconds_at(share) for cost in self.costs) * in_turn) for share in (0.9, 0.1)
        )
        spread = f" ({fastest} to {slowest})" if fastest != slowest else ""
        starts = " and choosing heads" if any(cost.arm.parent is not None for cost in self.costs) else ""
        yield (
            f"{counted(count, 'run')} ({counted(seeds, 'seed')}) on {counted(cores(), 'core')}: "
            f"about {duration(sum(times) * in_turn)}{spread} if nothing else runs, evaluation{starts} not "
            "counted"
        )

    def _shorter(self) -> Iterator[str]:
        """Yield a sentence on the key that says how long a run is."""
        for key in ("steps", "tokens", "epochs"):
            length = getattr(self._run.training, key, None)
            if length:
                example = f"; for a shorter run, --set training.{key}={length // 10}" if length >= 100 else ""
                yield f"training.{key} ({length:,} here) sets the length of a run{example}"


def _alike(values: Iterable[tuple[str, Value]]) -> dict[Value, list[str]]:
    """Return the names of equal values."""
    names: dict[Value, list[str]] = {}
    for name, value in values:
        names.setdefault(value, []).append(name)
    return names


def _range(n_steps: list[int]) -> str:
    low, high = min(n_steps), max(n_steps)
    return counted(high, "step") if low == high else f"{low} to {counted(high, 'step')}"


def _then(run: RunSpec) -> str:
    """Return what a run does after its start."""
    steps = run.declared_steps
    if steps is None:
        return "then trained"
    trained = f"trained for {counted(steps, 'step')}" if steps else "not trained"
    return trained if run.initial_run is None else f"then {trained}"


def _table(first: str, *headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(first, overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _heads(layout: str) -> str:
    """Heads layer by layer, in few words where all layers are alike."""
    layers = layout.split("-")
    alike = len(set(layers)) == 1 and len(layers) > 4
    return f"{layers[0]} × {len(layers)} layers" if alike else layout


def _count(number: int) -> str:
    return f"{number:,}" if number < _ROUNDED else compact(number)


def _matched(what: str, values: Mapping[str, Hashable]) -> str:
    alike = _alike(values.items())
    if len(alike) == 1 and len(values) > 2:
        return f"matched in {what}: all {len(values)} arms"
    groups = [
        " = ".join(names) if len(names) <= _MOST_NAMES else f"{names[0]} = {names[1]} = ... ({len(names):,} arms)"
        for names in alike.values()
        if len(names) > 1
    ]
    more = f"; and {len(groups) - _MOST_NAMES:,} more groups" if len(groups) > _MOST_NAMES else ""
    return f"matched in {what}: {'; '.join(groups[:_MOST_NAMES]) or 'no two arms'}{more}"
