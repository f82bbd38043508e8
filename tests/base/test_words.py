"""Verdicts as sentences: every kind has its words, which stay short and need no grammar."""

import re
from dataclasses import replace
from string import Formatter
from typing import get_args

import pytest
from support import sentences

from headway.base.words import (
    DOUBTFUL,
    FINDINGS,
    PHRASES,
    SPECIAL,
    WARNINGS,
    Kind,
    Verdict,
    phrase,
    several_sentence,
    statement,
    verdict_sentence,
    warning,
)

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


def test_an_interval_that_says_nothing_is_too_wide_to_say_in_every_sentence():
    wide = replace(VERDICT, kind="open", change=0.6, interval=(-0.9999, 395.0))
    assert "(simultaneous 95 % CI too wide to interpret; 3 seeds)" in verdict_sentence(wide)
    assert several_sentence([wide, wide], 2, None) == (
        "No comparison shows a clear difference in evaluation loss yet: the intervals are too wide (3 seeds)."
    )
    factors = several_sentence([replace(wide, interval=(-0.5, 29.0))] * 2, 2, None)
    assert "all 2 differences lie between a factor of 0.5 and 30.0 (" in factors


def test_a_change_in_a_unit():
    own = replace(VERDICT, unit="nats", change=0.02, interval=(0.01, 0.03), margin=0.1)
    assert verdict_sentence(own).endswith(
        "better, evaluation loss +0.02 nats (simultaneous 95 % CI 0.01 to 0.03; 3 seeds)"
    )
    assert "evaluation loss +0.02 (" in verdict_sentence(replace(own, unit=""))


STORED = {"directory", "failed", "damaged"}
"""Warnings that quote what was recorded."""


@pytest.mark.parametrize("kind", sorted(WARNINGS.keys() - STORED))
def test_every_warning_is_plain_sentences(kind):
    fields = {field for _, field, _, _ in Formatter().parse(WARNINGS[kind]) if field}
    said = warning(kind, **dict.fromkeys(fields, "4 heads")).sentence
    are_plain(said)


def are_plain(said):
    for sentence in re.split(r"(?<=\.) ", said):
        assert sentence[0].isupper() or sentence[0] in "4`", sentence
        assert sentence.endswith(".")
        assert len([word for word in sentence.split() if word.strip("().,;") not in ("%", "→")]) <= 25, sentence


HEADS = ("L10H11", "L11H10", "L12H13", "L13H12", "L14H15", "L15H14", "L16H17")
LISTED = {
    "changes": "change",
    "composition": "path",
    "composition_on_text": "path",
    "constant": "score",
    "idle": "share_of_layer",
    "output_correlation": "pair",
    "pairs": "change",
    "query_cka_centred": "pair",
    "restored": "share_within",
    "special": "head",
    "chancy": "score",
    "unclear": "score",
}
"""The entries of the list in a finding."""
ENTRIES = set(LISTED.values()) | {"share"}
WORDS = {
    "role": max((role for role, _ in SPECIAL.values()), key=str.split),
    "whole": "attention on tokens after earlier copies of the current token",
    "what": "Heads",
    "kind": "resample",
    "layers": "encoder L3, encoder L4",
    "name": "K-composition",
    "into": "into queries",
    "of": "output",
    "metric": "attention entropy",
    "input": "queries",
    "part": "a head's output (z)",
    "quantity": "log-probability difference",
    "circuits": "all 50 other circuits of 2 heads",
    "by": "alike-either",
    "before": "4 on 2 KV heads, 4",
    "after": "4, 2",
    "text": "shakespeare.txt",
    "unit": "answer",
}


def sample(kind, n_heads=1):
    """A statement with the longest fillings."""
    values = {}
    for _, field, form, _ in Formatter().parse(FINDINGS[kind]):
        if field in ("pairs", "heads") and kind in LISTED:
            values[field] = (sample(LISTED[kind], 1 + (field == "pairs")),) * (1 + int(form or 2))
        elif field in ("writer", "reader"):
            values[field] = HEADS[:1]
        elif field == "heads":
            values[field] = HEADS[:n_heads] if kind in ENTRIES else HEADS
        elif field in WORDS and not form:
            values[field] = WORDS[field]
        elif field:
            values[field] = (-0.1234, 0.2345) if field in ("interval", "range") else -0.1234 if form else 48
    return statement(kind, **values)


@pytest.mark.parametrize("kind", sorted(FINDINGS.keys() - ENTRIES))
def test_every_finding_is_plain_sentences(kind):
    assert "{" not in sample(kind).sentence
    are_plain(sample(kind).sentence)


def test_a_score_is_never_rounded_up_to_its_threshold_and_may_lie_below_0():
    for value, written in ((0.8997, "89.9 %"), (0.0797, "8.0 %"), (-0.0123, "−1.2 %"), (0.0, "0.0 %")):
        said = statement("no_special", role="Fixed-pattern heads", heads=("L0H0",), value=value, least=0.5).sentence
        assert f" {written} (L0H0)" in said


def test_a_statement_says_which_of_its_pieces_are_heads():
    entries = tuple(statement("score", heads=(f"encoder L0H{head}",), value=head / 4) for head in range(4))
    said = statement("output_correlation", pairs=entries)
    assert said.sentence == (
        "Similar outputs (centred cosine): encoder L0H0 0 %, encoder L0H1 25 %, encoder L0H2 50 % and encoder L0H3 "
        "75 %."
    )
    assert [text for text, head in said.parts if head == text] == [f"encoder L0H{head}" for head in range(4)]
    assert {head for text, head in said.parts if head != text} == {None}


def test_a_warning_keeps_its_names_and_numbers():
    found = warning("diverged", runs=("1 of 3 of 1 head", "2 of 3 of 2 heads"))
    assert found.sentence.startswith("Diverged runs are left out (1 of 3 of 1 head and 2 of 3 of 2 heads).")
    numbers = warning("unfinished", n=1, runs=2_000)
    assert (numbers.names, numbers.numbers) == ({}, {"n": 1, "runs": 2_000})
    assert numbers.sentence.startswith("1 of 2,000 runs are not finished.")


LONG = {
    "solved",
    "best_rate",
    "claim",
    "claim_by_arm",
    "in_doubt",
    "fitted",
    "at_best_rates",
    "gate_given_up",
    "under_control",
    "published",
}
"""Sentences with a verdict and its evidence in them."""


def test_every_sentence_is_as_it_was_read_over():
    assert sentences.written() == sentences.FILE.read_text(encoding="utf-8"), (
        "read it over; python tests/support/sentences.py writes it"
    )


@pytest.mark.parametrize(("kind", "said"), sentences.examples())
def test_every_sentence_is_short(kind, said):
    most = MOST_WORDS if kind in LONG or kind.startswith("statement") else 25
    for sentence in re.split(r"(?<=[.:]) ", said):
        assert len([word for word in sentence.split() if word != "%"]) <= most, sentence


def test_every_doubtful_kind_has_a_template():
    assert DOUBTFUL.keys() <= WARNINGS.keys()
