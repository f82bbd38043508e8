"""Show: what a run of language models was asked to do, and what its probes measured."""

from headway.compare.tokens.head_progress import HeadProgress, head_progress
from headway.declare.tokens.run import TokensRun
from headway.show.report.report_data import Finished


def declared(run: Finished) -> TokensRun:
    """What was run, with the heads that it was trained with."""
    assert isinstance(run.run.trained, TokensRun)
    return run.run.trained


def is_probed(run: Finished) -> bool:
    """Whether its heads were measured while it trained."""
    return run.once(head_progress) is not None


def measures(run: Finished, metric: str) -> bool:
    """Whether a metric of its heads was measured while it trained."""
    return is_probed(run) and metric in heads_of(run).mean


def heads_of(run: Finished) -> HeadProgress:
    """What was measured of the heads of a run that was probed."""
    found = run.once(head_progress)
    assert found is not None
    return found
