"""The record of a gate: what it holds is what was written, and damage is named."""

import json

import pytest
from support.gates import command, gate

from headway.base.identity import canonical, signed
from headway.errors import ResultsError
from headway.gate.command import Candidate
from headway.gate.journal import CHALLENGER, CHAMPION, JOURNAL, SEAL, Journal, check_is_gate


def with_a_challenger(folder):
    journal = Journal.read(gate(folder))
    attempt = journal.begin(Candidate.typed("wider", command(0.1), folder), [100, 101], challenger_first=True)
    for seed in attempt.seeds:
        for role in (CHALLENGER, CHAMPION):
            journal.add({"event": "run", "number": 1, "role": role, "seed": seed, "value": seed / 3})
    return journal


def test_what_was_recorded_is_read_again(tmp_path):
    journal = with_a_challenger(tmp_path)
    again = Journal.read(journal.directory)
    assert again.settings == journal.settings
    assert again.attempts == journal.attempts
    assert again.unfinished.values_of(CHAMPION) == [100 / 3, 101 / 3]
    assert again.used_seeds == {100, 101}
    assert again.champion.name == "baseline"


def test_a_challenger_that_is_kept_is_the_next_champion(tmp_path):
    journal = with_a_challenger(tmp_path)
    journal.add({"event": "verdict", "number": 1, "verdict": {"verdict": "keep"}})
    again = Journal.read(journal.directory)
    assert again.champion.name == "wider"
    assert again.attempts[0].champion.name == "baseline"
    assert again.unfinished is None


@pytest.mark.parametrize("line", range(6))
def test_a_line_that_was_changed_is_named_and_one_that_was_taken_out_is_missed(tmp_path, line):
    directory = with_a_challenger(tmp_path).directory
    lines = (directory / JOURNAL).read_text().splitlines()
    changed = lines[line].replace("1", "2", 1)
    (directory / JOURNAL).write_text("\n".join([*lines[:line], changed, *lines[line + 1 :], ""]))
    with pytest.raises(ResultsError, match=rf"{JOURNAL}, line {line + 1} was changed after Headway wrote it"):
        Journal.read(directory)
    (directory / JOURNAL).write_text("\n".join([*lines[:line], *lines[line + 1 :], ""]))
    with pytest.raises(ResultsError, match=r"was changed after Headway wrote it|lines are missing or were added"):
        Journal.read(directory)


def test_a_journal_of_before_is_not_put_back_in_silence(tmp_path):
    journal = with_a_challenger(tmp_path)
    before = (journal.directory / JOURNAL).read_text()
    journal.add({"event": "verdict", "number": 1, "verdict": {"verdict": "discard"}})
    (journal.directory / JOURNAL).write_text(before)
    with pytest.raises(ResultsError, match="lines are missing or were added"):
        Journal.read(journal.directory)


def test_a_seal_that_is_behind_is_that_of_a_killed_process(tmp_path):
    journal = with_a_challenger(tmp_path)
    before = (journal.directory / SEAL).read_text()
    journal.add({"event": "verdict", "number": 1, "verdict": {"verdict": "discard"}})
    (journal.directory / SEAL).write_text(before)
    assert Journal.read(journal.directory).unfinished is None
    (journal.directory / SEAL).write_text(json.dumps({"lines": 1, "digest": "0"}))
    with pytest.raises(ResultsError, match="does not seal"):
        Journal.read(journal.directory)


@pytest.mark.parametrize("content", ["", "[]", '{"lines": true}', '{"lines": -1, "digest": 3}'])
def test_a_seal_of_anything_is_refused_in_words(tmp_path, content):
    directory = with_a_challenger(tmp_path).directory
    (directory / SEAL).write_text(content)
    with pytest.raises(ResultsError, match="does not seal"):
        Journal.read(directory)


@pytest.mark.parametrize(
    "content",
    [
        {"event": "run", "number": 1, "role": "champion", "seed": 3, "value": 1.0},
        {"event": "challenger"},
        {"event": "verdict", "verdict": {}},
        {"event": "challenger", "number": 1, "candidate": {"name": 3}, "seeds": [], "challenger_first": True},
        {},
    ],
)
def test_a_line_that_is_whole_and_says_something_else_is_refused(tmp_path, content):
    directory = gate(tmp_path)
    first = json.loads((directory / JOURNAL).read_text())
    line = signed({**content, "before": first["digest"]})
    (directory / JOURNAL).write_text(f"{canonical(first)}\n{canonical(line)}\n")
    (directory / SEAL).write_text(json.dumps({"lines": 2, "digest": line["digest"]}))
    with pytest.raises(ResultsError, match="Headway did not write one of its lines; begin a new gate"):
        Journal.read(directory)


def test_settings_that_nobody_can_type_are_refused(tmp_path):
    directory = gate(tmp_path)
    first = json.loads((directory / JOURNAL).read_text())
    line = signed({**first, "settings": {**first["settings"], "budget": 10**9}})
    (directory / JOURNAL).write_text(canonical(line) + "\n")
    with pytest.raises(ResultsError, match="Headway did not write one of its lines"):
        Journal.read(directory)


def test_a_gate_is_begun_once_and_in_an_empty_directory(tmp_path):
    journal = with_a_challenger(tmp_path)
    with pytest.raises(ResultsError, match="is a gate already; continue with `headway gate try"):
        Journal.create(journal.directory, journal.settings, journal.champion)
    with pytest.raises(ResultsError, match=r"holds other things \(gate, train.py\); name a new directory"):
        Journal.create(tmp_path, journal.settings, journal.champion)
    with pytest.raises(ResultsError, match="is not a gate; begin one with `headway gate init"):
        check_is_gate(tmp_path)


def test_no_link_is_followed_to_a_journal(tmp_path):
    directory = with_a_challenger(tmp_path).directory
    (directory / JOURNAL).rename(tmp_path / "elsewhere")
    (directory / JOURNAL).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ResultsError, match="is a symbolic link"):
        Journal.read(directory)
