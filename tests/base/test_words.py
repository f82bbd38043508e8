"""Verdicts as sentences: every kind has its words, which stay short and need no grammar."""

import re
from dataclasses import replace
from string import Formatter
from typing import get_args

import pytest

from headway.base.words import DOUBTFUL, PHRASES, WARNINGS, Kind, Verdict, phrase, verdict_sentence, warning

VERDICT = Verdict(
    kind="better",
    sides=("8 heads (8-4-2-1)", "2 heads"),
    quantity="evaluation loss",
    change=-0.011,
    interval=(-0.017, -0.005),
    interval_name="simultaneous 95 % CI",
    seeds=3,
    awaited=6,
    margin=1.0,
    more_seeds=5,
    chance=0.8,
)

MOST_WORDS = 35


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_kind_names_sides_quantity_change_and_seeds(kind):
    said = verdict_sentence(replace(VERDICT, kind=kind))
    assert said.startswith(
        f"8 heads (8-4-2-1) vs 2 heads: {phrase(replace(VERDICT, kind=kind))}, evaluation loss −1.1 %"
    )
    assert "3 seeds" in said
    words = [word for word in verdict_sentence(replace(VERDICT, kind=kind, more_seeds=None)).split() if word != "%"]
    assert len(words) <= MOST_WORDS
    assert "{" not in said


def test_every_kind_has_a_phrase():
    assert set(PHRASES) == set(get_args(Kind))


def test_a_change_in_a_unit():
    own = replace(VERDICT, unit="nats", change=0.02, interval=(0.01, 0.03), margin=0.1)
    assert verdict_sentence(own).endswith(
        "better, evaluation loss +0.02 nats (simultaneous 95 % CI 0.01 to 0.03; 3 seeds)"
    )
    assert "evaluation loss +0.02 (" in verdict_sentence(replace(own, unit=""))


def test_a_factor_has_no_sign():
    vast = replace(VERDICT, kind="worse", change=250.0, interval=(217.8, 286.9))
    assert "evaluation loss larger by a factor of 251.0 (simultaneous 95 % CI 218.8 to 287.9;" in verdict_sentence(vast)


def test_only_an_open_verdict_says_what_would_settle_it():
    assert "would settle" not in verdict_sentence(VERDICT)
    assert verdict_sentence(replace(VERDICT, kind="open")).endswith(
        "; about 5 more seeds would settle it with a chance of about 80 %"
    )


STORED = {"directory", "failed", "damaged"}
"""Warnings that quote what was recorded."""


@pytest.mark.parametrize("kind", sorted(WARNINGS.keys() - STORED))
def test_every_warning_is_plain_sentences(kind):
    fields = {field for _, field, _, _ in Formatter().parse(WARNINGS[kind]) if field}
    said = warning(kind, **dict.fromkeys(fields, "4 heads")).sentence
    for sentence in re.split(r"(?<=\.) ", said):
        assert sentence[0].isupper() or sentence[0] in "4`", sentence
        assert sentence.endswith(".")
        assert len([word for word in sentence.split() if word != "%"]) <= 25, sentence


def test_a_warning_keeps_its_names_and_numbers():
    found = warning("diverged", runs=("1 of 3 of 1 head", "2 of 3 of 2 heads"))
    assert found.sentence.startswith("Diverged runs are left out (1 of 3 of 1 head and 2 of 3 of 2 heads).")
    numbers = warning("unfinished", n=1, runs=2_000)
    assert (numbers.names, numbers.numbers) == ({}, {"n": 1, "runs": 2_000})
    assert numbers.sentence.startswith("1 of 2,000 runs are not finished.")


def test_every_doubtful_kind_has_a_template():
    assert DOUBTFUL.keys() <= WARNINGS.keys()
