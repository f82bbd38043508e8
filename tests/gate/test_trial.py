"""Challengers beside the champion: decisions, resumption, and what may not pass: luck, reused seeds, old runs."""

import json
import shutil
from itertools import pairwise

import numpy as np
import pytest
from support.gates import attempt_of, command, gate, settings_of

from headway.errors import LeaseLost, RunFailed, UserError
from headway.gate import trial
from headway.gate.command import Candidate
from headway.gate.journal import CHALLENGER, CHAMPION, JOURNAL, Journal
from headway.gate.trial import Decision, decide, held, pairs_to_keep, try_command


def runs(worth, n=24, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(10, 1, n), rng.normal(10, 1, n) - worth


def test_a_better_change_is_kept_and_a_worse_one_discarded():
    assert decide(settings_of(), attempt_of(*runs(5.0))).outcome == "keep"
    assert decide(settings_of(), attempt_of(*runs(-5.0))).outcome == "discard"
    assert decide(settings_of(), attempt_of(*runs(0.0))) == Decision(outcome="undecided", pairs=10), "of 24"
    assert decide(settings_of(), attempt_of(*runs(1.0, n=9))) is None
    assert decide(settings_of(lower_is_better=False), attempt_of(*runs(-5.0))).outcome == "keep"
    assert decide(settings_of(lower_is_better=False), attempt_of(*runs(5.0))).outcome == "discard"


def test_a_margin_discards_what_is_certainly_not_better_by_it():
    for margin, is_percent in ((6.0, False), (60.0, True)):
        settings = settings_of(margin=margin, is_percent=is_percent)
        assert decide(settings, attempt_of(*runs(0.0))).outcome == "discard"
        assert decide(settings, attempt_of(*runs(8.0))).outcome == "keep"


def test_later_challengers_are_tested_at_a_lower_level():
    pairs = [decide(settings_of(), attempt_of(*runs(3.0), number=number)).pairs for number in (1, 51, 101)]
    assert pairs[0] < pairs[1] < pairs[2]
    assert [pairs_to_keep(settings_of(), number) for number in (1, 51)] == [7, 8]


def test_what_was_looked_at_is_not_looked_at_again():
    attempt = attempt_of(*runs(5.0))
    pairs = decide(settings_of(), attempt).pairs
    assert decide(settings_of(), attempt, looked=pairs).pairs > pairs


def test_runs_that_do_not_depend_on_their_seed_are_an_error():
    with pytest.raises(UserError, match=r"3 seeds gave the same loss \(2 and 1\): the command does not use its seed"):
        decide(settings_of(), attempt_of([2.0] * 3, [1.0] * 3))


def try_(directory, worth, monkeypatch, **options):
    monkeypatch.chdir(directory.parent)
    run = command(worth) if isinstance(worth, float) else worth
    return try_command(directory, run, **{"name": None, "timeout": None, "trust_code": False, "tell": print, **options})


def test_a_gate_keeps_and_discards_and_the_kept_challenger_is_the_next_champion(tmp_path, monkeypatch):
    directory = gate(tmp_path)
    first = try_(directory, 0.1, monkeypatch, name="better")
    assert (first["verdict"], first["champion"], first["challenger"], first["pairs"]) == ("keep", "baseline", 1, 7)
    assert first["interval"][0] < first["change"] < first["interval"][1] < 0
    assert first["reason"].startswith("better vs baseline: better, loss −0.")
    second = try_(directory, 0.0, monkeypatch, name="worse")
    assert (second["verdict"], second["champion"], second["challenger"]) == ("discard", "better", 2)
    lines = [json.loads(line) for line in (directory / JOURNAL).read_text().splitlines()]
    seeds = [[line["seed"] for line in lines if line["event"] == "run" and line["number"] == n] for n in (1, 2)]
    assert not set(seeds[0]) & set(seeds[1])
    assert min(seeds[0]) == 100
    roles = [line["role"] for line in lines if line["event"] == "run" and line["number"] == 1]
    pairs = [*zip(roles[::2], roles[1::2], strict=True)]
    assert {*pairs} == {(CHAMPION, CHALLENGER), (CHALLENGER, CHAMPION)}
    assert all(former != following for former, following in pairwise(pairs)), "the runs of a pair change places"


@pytest.mark.parametrize("runs_before", [0, 1, 2, 5])
def test_what_was_interrupted_goes_on_and_no_run_is_repeated(tmp_path, monkeypatch, runs_before):
    directory = gate(tmp_path)
    begun = []
    run_once = trial.run_once

    def stopping(candidate, seed, log, metric, timeout):
        if len(begun) == runs_before:
            raise KeyboardInterrupt
        begun.append((candidate.name, seed))
        return run_once(candidate, seed, log, metric, timeout)

    monkeypatch.setattr(trial, "run_once", stopping)
    with pytest.raises(KeyboardInterrupt):
        try_(directory, 0.1, monkeypatch, name="better")
    runs_before = -1
    verdict = try_(directory, 0.1, monkeypatch, name="better")
    assert (verdict["verdict"], verdict["challenger"]) == ("keep", 1)
    assert len(begun) == len({*begun}) == 2 * verdict["pairs"]


def test_another_challenger_gives_up_what_was_interrupted(tmp_path, monkeypatch):
    directory = gate(tmp_path)
    with held(directory) as journal:
        journal.begin(Candidate.typed("first", command(0.5), tmp_path), [100, 101], challenger_first=True)
    verdict = try_(directory, 0.1, monkeypatch, name="second")
    assert verdict["challenger"] == 2
    given_up = Journal.read(directory).attempts[0].verdict
    assert given_up["verdict"] == "undecided"
    assert given_up["reason"] == "first: stopped after 0 pairs, because second was tried next"


def test_a_challenger_whose_file_was_edited_is_another_challenger(tmp_path, monkeypatch):
    directory = gate(tmp_path)
    (tmp_path / "wider.py").write_text((tmp_path / "train.py").read_text())
    run = command(0.1, file="wider.py")
    with held(directory) as journal:
        journal.begin(Candidate.typed("wider", run, tmp_path), [100, 101], challenger_first=True)
    (tmp_path / "wider.py").write_text((tmp_path / "train.py").read_text() + "\n")
    assert try_(directory, run, monkeypatch, name="wider")["challenger"] == 2


def test_a_challenger_that_fails_is_discarded(tmp_path, monkeypatch):
    verdict = try_(gate(tmp_path), command(0.1).replace("{seed}", "{seed}x"), monkeypatch, name="broken")
    assert (verdict["verdict"], verdict["pairs"], verdict["interval"]) == ("discard", 0, None)
    assert verdict["reason"].startswith("broken, seed 100: the run ended with exit code 1; its output: ")


def test_a_champion_that_fails_decides_nothing(tmp_path, monkeypatch):
    directory = gate(tmp_path)
    run_once = trial.run_once
    failed = []

    def failing(candidate, *rest):
        if candidate.name == "baseline" and not failed:
            failed.append(candidate)
            raise RunFailed("the run printed no loss")
        return run_once(candidate, *rest)

    monkeypatch.setattr(trial, "run_once", failing)
    said = r"the champion failed, so nothing is decided \(baseline, seed 100: the run printed"
    with pytest.raises(RunFailed, match=said):
        try_(directory, 0.1, monkeypatch, name="better")
    assert try_(directory, 0.1, monkeypatch, name="better")["verdict"] == "keep"


def test_one_process_at_a_time(tmp_path, monkeypatch):
    directory, said = gate(tmp_path), r"process .* works on it; wait until its challenger is decided"
    with held(directory), pytest.raises(UserError, match=said):
        try_(directory, 0.1, monkeypatch)


def test_a_gate_that_is_removed_meanwhile_is_not_made_again(tmp_path):
    directory = gate(tmp_path)
    with held(directory) as journal:
        shutil.rmtree(directory)
        with pytest.raises(LeaseLost, match="was removed while this process worked on it"):
            journal.begin(Candidate(name="wider"), [100], challenger_first=True)
    assert not (directory / JOURNAL).exists()


def test_a_champion_cannot_be_tried_against_itself(tmp_path, monkeypatch):
    said = r"this is the champion's own command \(baseline\), so there is nothing to compare"
    with pytest.raises(UserError, match=said):
        try_(gate(tmp_path), 0.0, monkeypatch)


def test_a_champion_whose_file_was_edited_is_no_champion(tmp_path, monkeypatch):
    directory = gate(tmp_path)
    (tmp_path / "wider.py").write_text((tmp_path / "train.py").read_text())
    (tmp_path / "train.py").write_text("print('loss: 5')")
    with pytest.raises(UserError, match=r"train\.py has changed since the gate was given baseline"):
        try_(directory, command(0.1, file="wider.py"), monkeypatch)


def test_a_command_that_stands_in_a_directory_of_somebody_else_is_not_run(tmp_path, monkeypatch):
    directory = gate(tmp_path)
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache of another user"))
    with pytest.raises(UserError, match=r"would run '.*' in .*, which you have not typed here; .* --trust-code"):
        try_(directory, 0.1, monkeypatch, name="better")
    assert not (directory / "logs").exists()
    assert try_(directory, 0.1, monkeypatch, name="better", trust_code=True)["verdict"] == "keep"


def test_a_challenger_that_cannot_be_kept_is_not_begun(tmp_path, monkeypatch):
    directory = gate(tmp_path, budget=6, challengers=1, rate=0.005)
    with held(directory) as journal:
        journal.begin(Candidate.typed("x", command(0.5), tmp_path), [100], challenger_first=True)
    said = "challenger 2 needs at least 7 pairs to be kept, and --budget is 6; begin a gate"
    with pytest.raises(UserError, match=said):
        try_(directory, 0.1, monkeypatch, name="y")
    assert len(Journal.read(directory).attempts) == 1
