"""Warnings about the comparisons of a directory: what to read before a result is believed.

`WARNINGS` lists them in the order in which they are told. Each is a function that yields the warnings of a `Case`; the
sentences stand in `base/words.py`. A new warning is a function, its line in the list and its template. Some cast doubt:
an answer may be worth nothing, since training was not over, the learning rate matters more than the answer, or no arm
learnt anything. Each answer is measured against its own difference, or against the margin if it says "the same". A
large difference elsewhere in the experiment excuses nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from headway.base.words import DOUBTFUL, IN_DOUBT, Warning, warning
from headway.config.lm.run import TEXT_KEPT
from headway.config.metrics import metric_name
from headway.config.run import PER_BYTE
from headway.stats.case import Answer, Beyond, Case
from headway.stats.cells import done, title, titles_of
from headway.stats.contrasts import JudgedContrast
from headway.stats.evidence import Comparison, Doubt
from headway.stats.sequential import RULES, error_of, error_of_growth
from headway.stats.simultaneous import LEVEL
from headway.store.document import FILE, looks_there
from headway.store.verify import directory_warnings

Warnings = Iterator[Warning]

KEPT = "text_kept"
"""The metric that tells which share of its text a tokenizer gives back."""


def of_directory(case: Case) -> Warnings:
    """Yield what is not as it was written, or is gone."""
    for sentence in directory_warnings(case.path):
        yield warning("directory", text=sentence)


def former_search(case: Case) -> Warnings:
    """Yield a warning if a search chose which arms got further seeds, and no plan judges fresh seeds."""
    if case.looks.plan is None and "search" in looks_there(case.path):
        yield warning("former_search")


def removed_keys(case: Case) -> Warnings:
    """Yield each key of the stored document that changed verdicts in a former version."""
    for key in case.experiment.removed_keys:
        yield warning("removed_key", key=key, file=FILE)


def failed_runs(case: Case) -> Warnings:
    """Yield each run that failed or is damaged, and how many are not finished."""
    titles = titles_of(case.experiment)
    for run in case.every_run:
        if run.status in ("failed", "damaged"):
            text = run.message or "no reason recorded"
            yield warning(run.status, arm=titles.get(run.name, run.name), seed=run.seed, text=text)
    if unfinished := sum(run.status not in ("done", "failed", "damaged") for run in case.every_run):
        yield warning("unfinished", n=unfinished, runs=len(case.every_run))


def absent_baselines(case: Case) -> Warnings:
    """Yield the baselines without a run, of arms that nothing else is compared with."""
    present = [m for m in case.matches if m.baseline.full_name in case.runs]
    compared = {arm.full_name for m in present for arm in (m.arm, m.baseline)}
    absent = {
        f"{m.baseline.label} ({m.baseline.full_name})": None
        for m in case.matches
        if m.baseline.full_name not in case.runs and m.arm.full_name not in compared
    }
    if absent:
        yield warning("absent_baselines", baselines=tuple(absent))


def unlike_executions(case: Case) -> Warnings:
    """Yield the pairs of arms whose runs were not executed alike."""
    # Two groups may hold the same two arms; they are warned about once.
    for match in {(m.arm.full_name, m.baseline.full_name): m for m in case.matches}.values():
        mine, theirs = ({run.seed: run.execution for run in done(a, case.runs)} for a in (match.arm, match.baseline))
        pairs = [(mine[seed], theirs[seed]) for seed in sorted(mine.keys() & theirs.keys())]
        yield from execution_warning(title(match.arm, case.experiment), title(match.baseline, case.experiment), pairs)


_EXECUTION_KEYS = (
    *("device", "trainer", "instruction_set", "instruction_sets", "threads"),
    *("compile", "versions", "processor", "system"),
)
"""The keys of a run's execution that can change its bits or its speed; the two runs of a pair should agree in them.

The runs should also agree in `together`, the size of their batches; the other members of a batch change nothing.
"""


def execution_warning(
    arm: str, baseline: str, executions: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> Warnings:
    """Yield a warning if the two halves of pairs were not executed alike.

    Args:
        arm: label of the arm.
        baseline: label of the baseline.
        executions: the `execution` entries of `run.json`, of the arm and of the baseline, for each pair.

    Examples:
        >>> (found,) = execution_warning("2 heads", "1 head", [({"threads": 1}, {"threads": 2}), ({}, {})])
        >>> found.names["differences"], found.numbers
        (('threads 1 against 2',), {'n': 1, 'pairs': 2})
    """
    differing = [_execution_differences(*pair) for pair in executions]
    if affected := sum(map(bool, differing)):
        differences = tuple(dict.fromkeys(text for of_pair in differing for text in of_pair))
        yield warning(
            "unlike_executions",
            arm=arm,
            baseline=baseline,
            differences=differences,
            n=affected,
            pairs=len(executions),
        )


def _execution_differences(arm: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[str]:
    mine, theirs = _flat(arm), _flat(baseline)
    # What only one of them records (torch's version, by a run that needs none) is no difference of its own.
    return [
        f"{key.replace('_', ' ')} {mine[key]} against {theirs[key]}"
        for key in sorted(mine.keys() & theirs.keys())
        if mine[key] != theirs[key]
    ]


def _flat(execution: Mapping[str, Any]) -> dict[str, Any]:
    # Who is trained alone does not record that.
    values: dict[str, Any] = {"runs trained together": execution.get("together", 1)}
    for key in _EXECUTION_KEYS:
        value = execution.get(key)
        if key == "instruction_sets" and isinstance(value, Mapping):
            value = {f"instruction set of {library}": name for library, name in value.items()}
        values |= value if isinstance(value, Mapping) else {} if value is None else {key: value}
    return values


def no_better_than_bigram(case: Case) -> Warnings:
    """Yield the arms whose mean loss is that of the bigram model or above."""
    if worse := case.untrained:
        yield warning("no_better_than_bigram", arms=tuple(map(case.title, worse)))


def lost_text(case: Case) -> Warnings:
    """Yield the arms whose tokens do not give their text back, so that bits per byte cannot compare them."""
    if case.experiment.primary != PER_BYTE:
        return
    for arm in case.experiment.arms:
        shares = [run.metrics.get(KEPT) for run in done(arm, case.runs)]
        if lost := [share for share in shares if share is not None and share < TEXT_KEPT]:
            yield warning("lost_text", arm=title(arm, case.experiment), kept=100 * lost[-1], least=100 * TEXT_KEPT)


def still_falling(case: Case) -> Warnings:
    """Yield the arms whose metric still falls by more than the arms differ.

    A learning rate that decays to 0 lowers the metric at the end of any run, however long. Such a fall puts no answer
    in doubt.
    """
    for kind, decaying in (("still_falling", False), ("fell_as_rates_decayed", True)):
        falls = case.falls(decaying=decaying)
        if (beyond := case.beyond(falls)).arms:
            yield _beyond(kind, case, beyond, all=len(case.means), least=100 * falls[beyond.most])


def rates_matter(case: Case) -> Warnings:
    """Yield the arms that the learning rate moves by more than the arms differ."""
    beyond = case.beyond(case.gains)
    if beyond.arms:
        of_most = next(entry.rates for entry in case.rates if entry.arm == beyond.most)
        best = max(of_most, key=lambda rate: rate.gain).factor
        yield _beyond(
            "rates_matter", case, beyond, all=len(case.rates), least=100 * case.gains[beyond.most], factor=f"{best:g}"
        )


def _beyond(kind: str, case: Case, beyond: Beyond, **values: str | int | float) -> Warning:
    """Return a warning about arms whose change exceeds the difference that an answer rests on."""
    return warning(
        kind,
        quantity=metric_name(case.experiment.primary),
        n=len(beyond.arms),
        most=case.title(beyond.most),
        sides=beyond.sides,
        apart=100 * beyond.apart,
        **values,
    )


def diverged(case: Case) -> Warnings:
    """Yield the share of each arm's runs that diverged: the mean of the others is not that of the arm."""
    shares, none_left = list[str](), list[str]()
    for arm in case.experiment.arms:
        runs, name = case.runs.get(arm.full_name, {}).values(), title(arm, case.experiment)
        n = sum(run.failure == "diverged" for run in runs)
        if n:
            shares.append(f"{n} of {len(runs)} of {name}")
            if not any(run.status == "done" for run in runs):
                none_left.append(name)
    if shares:
        yield warning("diverged", runs=tuple(shares))
    if none_left:
        yield warning("all_diverged", arms=tuple(none_left))


def wild_arms(case: Case) -> Warnings:
    """Yield the arms that spread far more than the rest."""
    primary = case.experiment.primary
    if named := dict.fromkeys(arm for family in case.families if family.metric == primary for arm in family.wild):
        yield warning("wild_arms", arms=tuple(map(case.title, named)))


def seeds_added(case: Case) -> Warnings:
    """Yield the cost of seeds that were added by hand after verdicts."""
    now = case.now or 0
    if earlier := [n for n in case.seen if n < now]:
        rate = error_of((*earlier, now))
        yield warning("seeds_added", seeds=tuple(map(str, earlier)), rate=100 * rate)


def arms_added(case: Case) -> Warnings:
    """Yield the arms that were added after verdicts, and the cost of that."""
    added = [arm for arm in case.runs_now if any(arm not in runs for runs in case.runs_seen)]
    if added and case.now is not None:
        n = len(case.runs_now)
        rate = error_of_growth(n - len(added), n)
        yield warning("arms_added", arms=tuple(map(case.title, added)), rate=100 * rate)


def runs_dropped(case: Case) -> Warnings:
    """Yield the runs that a verdict rested on and that are gone."""
    gone = {
        f"{arm} seed {seed}"
        for runs in case.runs_seen
        for arm, seeds in runs.items()
        for seed in set(seeds).difference(case.runs_now.get(arm, ()))
    }
    if gone:
        yield warning("runs_dropped", runs=tuple(sorted(gone)))


def prolonged_plan(case: Case) -> Warnings:
    """Yield the cost of a plan that was prolonged beyond its end, which its level tells."""
    plan = case.looks.plan
    if plan is not None and plan.level > LEVEL:
        end = plan.looks[-1]
        yield warning("prolonged_plan", planned=round(end * LEVEL / plan.level), end=end, rate=100 * plan.level)


def late_plan(case: Case) -> Warnings:
    """Yield the cost of a plan that was made when seeds had been run."""
    if case.looks.plan is not None:
        yield from recounted(case.looks.plan.looks, case.looks.n_before)


def recounted(looks: Sequence[int], n_before: int) -> Warnings:
    """Yield a warning if seeds had been run before a plan was made, with the cost of that."""
    if passed := [look for look in looks if look <= n_before]:
        yield warning("late_plan", seeds=tuple(map(str, passed)), n=n_before)
        if n_before < looks[-1]:
            yield warning("late_plan_again", n=n_before, rate=100 * error_of((n_before, looks[-1])))


def former_rules(case: Case) -> Warnings:
    """Yield a warning if a plan was made under another version of the rules."""
    yield from judged_anew(case.looks.rules)


def judged_anew(rules: int) -> Warnings:
    """Yield a warning if a plan was made under rules that Headway no longer has."""
    if rules != RULES:
        yield warning("former_rules", former=rules, now=RULES)


def seeds_beyond_plan(case: Case) -> Warnings:
    """Yield how many seeds count for no verdict, since they lie beyond the plan."""
    looks = case.looks
    if looks.asked is None or not looks.seeds:
        return
    planned = {arm for weights in looks.asked.values() for arm in weights}
    finished = (run for run in case.every_run if run.name in planned and run.status == "done")
    if more := {run.seed for run in finished if run.seed > looks.seeds[-1]}:
        last = len(looks.seeds)
        yield warning("seeds_beyond_plan", n=len(more), last=last, margin=f"{looks.margin:g}", most=last + len(more))


WARNINGS: list[Callable[[Case], Warnings]] = [
    of_directory,
    former_search,
    removed_keys,
    failed_runs,
    absent_baselines,
    unlike_executions,
    no_better_than_bigram,
    lost_text,
    still_falling,
    rates_matter,
    diverged,
    wild_arms,
    seeds_added,
    arms_added,
    runs_dropped,
    prolonged_plan,
    late_plan,
    former_rules,
    seeds_beyond_plan,
]
"""The function behind each warning, in the order in which warnings are told."""


def doubted(case: Case) -> dict[Doubt, Iterable[Answer]]:
    """Return the answers that each kind of doubt concerns."""
    untrained = set(case.untrained)
    return {
        "untrained": [answer for answer in case.answers if answer.weights.keys() <= untrained],
        "falling": case.beyond(case.falls()).answers,
        "rates": case.beyond(case.gains).answers,
    }


def warned(case: Case) -> tuple[Warning, ...]:
    """Return every warning about the runs of a directory and their verdicts."""
    return tuple(warning for warnings_of in WARNINGS for warning in warnings_of(case))


def warnings_in_words(warnings: Sequence[Warning]) -> dict[str, Any]:
    """Return the fields of `Results` that hold warnings and their sentences."""
    return {
        "cautions": tuple(warnings),
        "warnings": tuple(warning.sentence for warning in warnings),
        "doubts": tuple(warning.sentence for warning in warnings if warning.kind in DOUBTFUL),
    }


Judged = TypeVar("Judged", Comparison, JudgedContrast)


def with_doubts(differences: Sequence[Judged], case: Case) -> tuple[Judged, ...]:
    """Return differences with what speaks against them, in their sentences too."""
    in_doubt = {doubt: {id(answer.difference) for answer in answers} for doubt, answers in doubted(case).items()}
    return tuple(
        _with_doubts(each, tuple(doubt for doubt, ids in in_doubt.items() if id(each) in ids)) for each in differences
    )


def _with_doubts(judged: Judged, doubts: tuple[Doubt, ...]) -> Judged:
    if not doubts:
        return judged
    # For what is no better than counting pairs it goes without saying that it still learns.
    told = [doubt for doubt in doubts if doubt != "falling" or "untrained" not in doubts]
    key = "verdict" if isinstance(judged, Comparison) else "sentence"
    clauses = "; ".join(IN_DOUBT[doubt] for doubt in told).format(metric=metric_name(judged.metric))
    changed: dict[str, Any] = {key: f"{judged.sentence}; {clauses}"}
    return replace(judged, doubts=doubts, **changed)
