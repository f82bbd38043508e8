"""The time that runs took, by what they ran on."""

from types import SimpleNamespace

import pytest

from headway.report.experiment.laboratory import time_taken


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ([{"processor_s": 100.0}, {"processor_s": 180.0}], "4 min 40 s of processor time"),
        ([{"processor_s": 100.0, "device_s": 60.0}], "1 min 00 s of GPU time"),
        (
            [{"processor_s": 9.0, "device_s": 60.0}, {"processor_s": 20.0}],
            "1 min 00 s of GPU time and 20 s of processor time",
        ),
        ([{"wall_s": 50.0}], ""),
    ],
)  # fmt: skip
def test_each_run_counts_where_it_ran(metrics, said):
    assert time_taken([SimpleNamespace(metrics=each, status="done") for each in metrics]) == said
