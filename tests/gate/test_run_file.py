"""Runs that were made elsewhere: files that are read, and files that are refused with what to do."""

import json

import numpy as np
import pytest
from support.gates import gate

from headway.errors import UserError
from headway.gate.command import Candidate
from headway.gate.journal import Journal
from headway.gate.run_file import read_pairs, try_results


def file_of(folder, worth, seeds, *, noise=0, name="runs.csv"):
    """A file of runs; each seed has the same numbers in every file of one noise."""
    lines = ["arm,seed,loss"]
    for seed in seeds:
        champion, challenger = np.random.default_rng([noise, seed]).normal(2, 0.01, 2)
        lines += [f"champion,{seed},{champion}", f"challenger,{seed},{challenger - worth}"]
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def test_csv_and_jsonl_say_the_same(tmp_path):
    file = file_of(tmp_path, 0.1, [3, 1, 2])
    rows = [line.split(",") for line in file.read_text().split()[1:]]
    lines = [json.dumps({"arm": arm, "seed": int(seed), "loss": float(loss), "more": 1}) for arm, seed, loss in rows]
    (tmp_path / "runs.jsonl").write_text("\n".join(lines))
    (tmp_path / "mark.csv").write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    pairs = read_pairs(file, "loss")
    assert [*pairs] == [3, 1, 2]
    assert read_pairs(tmp_path / "runs.jsonl", "loss") == read_pairs(tmp_path / "mark.csv", "loss") == pairs


def test_runs_of_a_file_are_judged_pair_by_pair(tmp_path):
    directory = gate(tmp_path)
    verdict = try_results(directory, file_of(tmp_path, 0.1, range(12)), name="better")
    assert (verdict["verdict"], verdict["name"], verdict["pairs"]) == ("keep", "better", 7)
    assert Journal.read(directory).champion == Candidate(name="better")
    verdict = try_results(directory, file_of(tmp_path, -0.1, range(20, 32)), name=None)
    assert (verdict["verdict"], verdict["name"], verdict["champion"]) == ("discard", "challenger-2", "better")


def test_a_file_may_grow_until_the_decision(tmp_path):
    directory = gate(tmp_path)
    for n in (1, 3, 3, 6):
        so_far = try_results(directory, file_of(tmp_path, 0.1, range(n)), name="better")
        assert (so_far["verdict"], so_far["pairs"], so_far["challenger"]) == ("undecided", n, 1)
        file = tmp_path / "runs.csv"
        assert so_far["reason"] == f"better: no verdict after {n} of at most 12 pairs; add runs to {file}"
    assert try_results(directory, file_of(tmp_path, 0.1, range(9)), name="better")["pairs"] == 7


def test_runs_that_were_judged_cannot_be_exchanged(tmp_path):
    directory = gate(tmp_path)
    try_results(directory, file_of(tmp_path, 0.1, range(3)), name="better")
    for changed in (file_of(tmp_path, 0.1, range(1, 5)), file_of(tmp_path, 0.1, range(5), noise=1)):
        with pytest.raises(UserError, match="it no longer has the runs of better that were read before; put them back"):
            try_results(directory, changed, name="better")


def test_seeds_that_were_used_do_not_pass(tmp_path):
    directory = gate(tmp_path)
    try_results(directory, file_of(tmp_path, 0.1, range(12)), name="better")
    with pytest.raises(UserError, match="seed 11 was used before; a change may have been chosen on it"):
        try_results(directory, file_of(tmp_path, 0.3, range(11, 20), noise=1), name="lucky")


def test_runs_of_the_champion_that_are_copied_do_not_pass(tmp_path):
    directory = gate(tmp_path)
    try_results(directory, file_of(tmp_path, 0.1, range(12)), name="better")
    copied = file_of(tmp_path, 0.3, range(8)).read_text()
    for seed in range(8):
        copied = copied.replace(f",{seed},", f",{seed + 50},")
    (tmp_path / "runs.csv").write_text(copied)
    with pytest.raises(UserError, match="the loss of every run of the champion is recorded already"):
        try_results(directory, tmp_path / "runs.csv", name="lucky")


PAIR = "arm,seed,loss\nchampion,0,1.5\nchallenger,0,1.25\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it has no rows"),
        ("arm,seed,loss\nchallenger,0,1\n", "it has no runs of the champion; the gate never reuses earlier runs"),
        (PAIR + "champion,1,1\n", "the challenger has no run with seed 1"),
        (PAIR + "champion,0,1\n", "the champion has two runs with seed 0; give each run a seed of its own"),
        (PAIR + "other,1,1\n", "run 3: its arm is 'other'; write champion or challenger"),
        (PAIR + "champion,1.5,1\n", "run 3: its seed is '1.5'; write a whole number of 0 or more"),
        (PAIR + "champion,99999999999,1\n", "run 3: its seed is '99999999999'"),
        (PAIR + "champion,1,nan\n", "run 3: its loss is 'nan' and not a finite number"),
        (PAIR + "champion,1,\n", "run 3: it has no loss; write arm, seed and loss for each run"),
        (
            PAIR.replace("loss", "Loss"),
            "it has no loss; write arm, seed and loss for each run (did you mean Loss?)",
        ),
        ('{"arm": "champion", "seed": 0, "loss": 1}\n[1]\n', "line 2: a list; give one object per line"),
        ('{"arm": "champion", "seed": [0], "loss": 1}\n', "run 1: its seed is '[0]'"),
    ],
)
def test_what_is_refused_says_what_to_write(tmp_path, content, message):
    (tmp_path / "runs").write_text(content)
    with pytest.raises(UserError) as refused:
        read_pairs(tmp_path / "runs", "loss")
    assert message in str(refused.value)


def test_a_gate_without_a_command_takes_files_alone(tmp_path, monkeypatch):
    from headway.gate.trial import try_command

    directory = gate(tmp_path)
    try_results(directory, file_of(tmp_path, 0.1, range(12)), name="better")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="has no command of its champion, better; give the runs of both with"):
        try_command(directory, "sh train.sh {seed}", name=None, timeout=None, trust_code=False, tell=print)
