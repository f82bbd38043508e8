"""Show: the rows of a table of runs: one each, and where there are hundreds, one for those of an arm that are alike."""

from collections.abc import Iterable, Sequence

from headway.runs.progress import Progress

MOST_ROWS = 500
"""Nobody reads more, and drawing them would take longer than looking at the runs."""


def rows_of(runs: Sequence[Progress]) -> list[tuple[str, Progress]]:
    """For each row its seeds in words, and the run that it shows, or the first of those that are done or wait.

    Examples:
        >>> shared = dict(message="", steps=9, steps_per_s=None, work_per_step=1.0, name="h2")
        >>> runs = [Progress(seed=seed, status="done", step=9, **shared) for seed in range(998)]
        >>> [seeds for seeds, _ in rows_of([*runs, Progress(seed=999, status="failed", step=4, **shared)])]
        ['0-997', '999']
    """
    if len(runs) <= MOST_ROWS:
        return [(str(run.seed), run) for run in runs]
    alike: dict[object, list[Progress]] = {}
    for run in runs:
        folded = run.status in ("done", "waiting")
        key = (run.name, run.status, run.step, run.steps) if folded else (run.name, run.seed)
        alike.setdefault(key, []).append(run)
    return [(spans(run.seed for run in found), found[0]) for found in alike.values()]


def spans(numbers: Iterable[int]) -> str:
    """Whole numbers, those that follow one another by the first and the last of them.

    Examples:
        >>> spans([0, 1, 2, 3, 7, 9, 8, 12])
        '0-3, 7-9, 12'
    """
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][-1] + 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return ", ".join("-".join(map(str, span)) for span in found)
