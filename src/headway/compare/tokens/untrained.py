"""Compare: models of a text of which nothing can be said yet.

They are no better than counting pairs of tokens, or their losses are of different tokens and told in nats alone.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from headway.compare.matches import title
from headway.declare.experiment import Experiment
from headway.declare.tokens.run import PER_BYTE, TEXT_KEPT
from headway.runs.folder import Run
from headway.words import counted, listed, number

KEPT = "text_kept"


def untrained(experiment: Experiment, runs: Sequence[Run]) -> Iterator[str]:
    """A sentence that names the arms whose mean loss is that of the bigram model or above."""
    losses = _losses(experiment, runs)
    worse = [arm for arm, (loss, bigram) in losses.items() if loss >= bigram]
    if worse:
        titles = {arm.full_name: title(arm, experiment) for arm in experiment.arms}
        which = (
            listed(titles[arm] for arm in worse) if len(worse) < 4 else f"{len(worse)} of {counted(len(losses), 'arm')}"
        )
        told = {f"{number(losses[arm][1], 3)} nats per token" for arm in worse}
        yield (
            f"not trained enough to say: {which} {'is' if len(worse) == 1 else 'are'} no better than the bigram model "
            f"({next(iter(told)) if len(told) == 1 else 'of its own text'}); train longer"
        )


def above_bigram(experiment: Experiment, runs: Sequence[Run]) -> tuple[str, ...]:
    """The full names of those arms."""
    return tuple(arm for arm, (loss, bigram) in _losses(experiment, runs).items() if loss >= bigram)


def _losses(experiment: Experiment, runs: Sequence[Run]) -> dict[str, tuple[float, float]]:
    """The mean loss of every arm that has one, and that of the bigram model on its text."""
    found = {}
    for arm in experiment.arms:
        pairs = [
            (run.metrics.get("eval_loss_nats"), run.metrics.get("bigram_loss_nats"))
            for run in runs
            if run.name == arm.full_name and run.status == "done"
        ]
        known = [(loss, bigram) for loss, bigram in pairs if loss is not None and bigram is not None]
        if known:
            loss, bigram = np.mean(known, axis=0)
            found[arm.full_name] = float(loss), float(bigram)
    return found


def unmeasured(experiment: Experiment, runs: Sequence[Run]) -> Iterator[str]:
    """A sentence where arms differ in tokenizer or corpus and that cannot be accounted for in some runs."""
    if experiment.primary != PER_BYTE:
        return
    done = [run for run in runs if run.status == "done"]
    lost = {run.name: share for run in done if (share := run.metrics.get(KEPT)) is not None and share < TEXT_KEPT}
    for arm in experiment.arms:
        if (share := lost.get(arm.full_name)) is not None:
            gives = f"give back {100 * share:.0f} % of it" if share else "are ids of which no text is known"
            yield (
                f"{title(arm, experiment)} cannot be compared by bits per byte of the text: its tokens {gives}; give "
                f"a tokenizer that gives back {100 * TEXT_KEPT:.0f} % or more"
            )
    before = [run for run in done if run.metrics.get(PER_BYTE) is None and run.name not in lost]
    if before:
        yield (
            f"arms differ in tokenizer or corpus, so nats per token say nothing, and {len(before)} of "
            f"{counted(len(done), 'run')} were stored before {PER_BYTE} was measured; run them anew in another "
            "directory"
        )
