"""Skipped tests: where HEADWAY_NO_SKIPS is set, as in CI, one fails unless no package brings what it needs."""

import os
import re

import pytest

EXCUSES = (
    "there is no GPU",
    "which is not a part of the project",
    "only root can",
    "this processor has no",
    "this torch computes without MKL",
    "the allocator is not glibc's",
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Fail a test that is skipped without an excuse."""
    return _excused((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    """Fail a file that is skipped without an excuse."""
    return _excused((yield))


def _excused(report):
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("HEADWAY_NO_SKIPS"):
        path, line, reason = report.longrepr
        if not re.search("|".join(map(re.escape, EXCUSES)), reason):
            report.outcome = "failed"
            report.longrepr = f"{path}:{line}: {reason}; HEADWAY_NO_SKIPS is set, so install what the test needs"
    return report
