"""Settle: what a call asks for: seeds until questions are settled, the best of many arms, or neither."""

from headway.errors import UserError
from headway.settle.asking import AT_MOST, Allowance, allowance_of, at_most_of, margin_of
from headway.settle.best import Best
from headway.settle.until import Until

Goal = Until | Best


def goal_of(
    *, until: str | None, at_most: int | None, budget: str | int | None, best: bool, seeds: object
) -> Goal | None:
    """What is asked for, with what may be spent on it.

    Args:
        until: the difference that matters, such as `0.5%`.
        at_most: seeds at which it ends.
        budget: a time such as `2h`, or for the best of many arms also a number of runs.
        best: whether the best of many arms is wanted.
        seeds: those that were asked for; None for none.

    Raises:
        UserError: when it cannot be understood, or one contradicts another.
    """
    if until is None and not best:
        for name, given in (("at most", at_most), ("budget", budget)):
            if given is not None:
                raise UserError(f"{name} {given}: of what? say until which difference, or ask for the best")
        return None
    if seeds is not None:
        what = "best" if until is None else f"until {until}"
        raise UserError(f"{what}, and {seeds} seeds: it finds itself how many seeds it takes; leave one of them out")
    margin = None if until is None else margin_of(until)
    most = None if at_most is None else at_most_of(at_most)
    allowance = Allowance() if budget is None else allowance_of(budget)
    if margin is None or best:
        if budget is None:
            raise UserError("best: say what may be spent on the search: a budget such as 160 (runs) or 2h")
        return Best(allowance=allowance, margin=margin, at_most=most or AT_MOST)
    if allowance.runs is not None:
        raise UserError(f"budget {budget}: until {until} is not limited by runs; give a time such as 90min or 2h")
    return Until(margin=margin, at_most=most, seconds=allowance.seconds)
