"""The command line, as it is typed: what it prints, where it writes, how it ends."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from support.typed import typed

from headway.config.yaml import shipped

SMALL = [
    word
    for setting in ("training.steps=300", "evaluation.prompts=500", "evaluation.curve.prompts=50",
                    "evaluation.curve.longest=50", "evaluation.every=100", "logging.every=100")
    for word in ("--set", setting)
]  # fmt: skip


def headway(*words, cwd=None, **options):
    command = [sys.executable, "-m", "headway", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, **options)


def test_headway_alone_names_five_commands_that_exist():
    done = headway()
    assert done.returncode == 0
    verbs = re.findall(r"^  headway (\w+)", done.stdout, re.MULTILINE)
    assert verbs == ["list", "plan", "run", "status", "xray"]
    every = typed("--help").stdout
    assert all(re.search(rf"^  {verb} ", every, re.MULTILINE) for verb in verbs)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_verbs_and_options(shell):
    installed = str(Path(sys.executable).with_name("headway"))

    def completed(**asked):
        environment = {**os.environ, "_HEADWAY_COMPLETE": f"source_{shell}", **asked}
        return subprocess.run([installed], capture_output=True, text=True, check=False, env=environment)

    script = completed()
    assert script.returncode == 0, script.stderr
    assert "_HEADWAY_COMPLETE=complete_" in script.stdout
    asked = {"_HEADWAY_COMPLETE": f"complete_{shell}", "COMP_WORDS": "headway pl", "COMP_CWORD": "1"}
    asked |= {"_TYPER_COMPLETE_ARGS": "headway pl", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    assert re.findall(r"\b(plan|list)\b", completed(**asked).stdout)[:1] == ["plan"]


def test_list_groups_experiments_by_what_they_are_about():
    said = typed("list").stdout
    assert re.search(r"^icl-heads +4 arms  How many .*\?$", said, re.MULTILINE)
    groups = [group.splitlines() for group in said.split("\n\n")]
    headings = [group[0] for group in groups]
    assert headings == sorted(headings)
    assert "Tasks whose answer is known:" in headings
    assert "Other things:" not in headings  # each says what it is about
    found = {line.split()[0]: group[0] for group in groups for line in group[1:]}
    assert set(found) == set(shipped())
    assert {found[name] for name in found if name.startswith("icl-")} == {"Linear regression in context:"}


def test_show_prints_a_file_that_runs_as_it_is(tmp_path):
    (tmp_path / "mine.yaml").write_text(typed("show", "icl-heads", "--set", "training.steps=7").stdout)
    again = typed("show", "mine.yaml", cwd=tmp_path)
    assert again.returncode == 0
    assert "steps: 7\n" in again.stdout


@pytest.mark.slow
def test_plan_counts_parameters_and_names_matched_arms():
    done = headway("plan", "icl-init", env={**os.environ, "COLUMNS": "200"})
    assert done.returncode == 0, done.stderr
    assert re.search(r"random +72 +72 +72 +12 +228\n", done.stdout)
    assert "matched in parameters: all 4 arms" in done.stdout
    assert "shapes on this machine (--no-timing skips this) ..." in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "icl-heads", "--at-most", "4"], "--at-most is no longer an option of `headway run`: type --max-seeds"),
        (["look", "nowhere", "--draws=4"], "--draws is no longer an option of `headway look`: type --null-draws"),
        (["ablate", "nowhere", "--seed=3"], "headway.ablate(CHECKPOINT, seed=N)"),
        (["run", "icl-heads", "--arms", "h1", "h2"], "separate the names after --arms with commas"),
        (["run", "icl-heads", "--budget", "2h"], "no longer an option of `headway run`: type --until 1% --max-seeds N"),
        (["check", "mine.py"], "`headway check` is gone: Headway checks the parts of a plug-in when it"),
        (["submit", "nowhere", "--slurm"], "--slurm is no longer an option of `headway submit`: leave it out"),
    ],
)
def test_what_cannot_be_typed_says_what_to_type(words, said, tmp_path):
    done = typed(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    done = headway("run", "icl-heads", "--arms", "h1,h2", "--seeds", "2", *SMALL, "--out", "out", cwd=folder)
    return folder / "out", done


def test_run_trains_compares_and_reports(finished):
    out, done = finished
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((out / "results.json").read_text())
    assert results["schema"] == 2
    assert [(r["arm"], r["seed"], r["status"]) for r in results["runs"]] == [
        ("h1", 0, "done"), ("h1", 1, "done"), ("h2", 0, "done"), ("h2", 1, "done"),
    ]  # fmt: skip
    metrics = results["runs"][2]["metrics"]
    assert metrics["n_heads"] == len(metrics["w"]) == len(metrics["mu"]) == 2
    wanted = "eval_mse eval_mse_se mu_dot_w sum_mu steps_per_s wall_s peak_memory_bytes n_parameters"
    assert set(wanted.split()) <= set(metrics)
    for name in ("gd_eta1", "gd_best", "debiased_gd_best", "ridge", "least_squares"):
        assert set(results["baselines"][name]) == {"mse", "se"}
    assert any(c["metric"] == "eval_mse" and c["arm"] == "h1" and c["n_pairs"] == 2 for c in results["comparisons"])
    assert "* 1 head" in done.stdout
    assert (out / "report.html").stat().st_size > 100_000
    assert {p.suffix for p in (out / "figures").iterdir()} >= {".png", ".svg", ".pdf"}


@pytest.mark.slow
def test_run_again_draws_nothing_again_repeats_nothing_and_takes_more(finished, tmp_path):
    out = shutil.copytree(finished[0], tmp_path / "out")

    def run(arms):
        done = headway("run", "icl-heads", "--arms", arms, "--seeds", "2", *SMALL, "--out", out)
        assert done.returncode == 0, done.stderr

    run("h1,h2")
    drawn = {path: path.stat().st_mtime_ns for path in [out / "report.html", *(out / "figures").iterdir()]}
    began = os.times()
    run("h1,h2")
    ended = os.times()
    assert {path: path.stat().st_mtime_ns for path in drawn} == drawn
    assert ended.children_user + ended.children_system - began.children_user - began.children_system < 3
    before = {p: p.read_bytes() for p in out.glob("runs/*/*/metrics.jsonl")}
    assert len(before) == 4
    run("h1,h2,h4")
    assert {p: p.read_bytes() for p in before} == before
    assert len(list(out.glob("runs/h4/seed-*/curves.json"))) == 2


@pytest.mark.slow
def test_dropped_runs_are_gone_from_the_results_until_they_are_made_anew(finished, tmp_path):
    out = shutil.copytree(finished[0], tmp_path / "out")
    done = typed("drop", out, "h2", "--seeds", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        f"moved 1 run of h2 (seed 1) to {out}/dropped; `headway run {out}` trains it again, and `headway compare` and "
        "`headway report` leave it out until then\n"
    )
    missing = f"1 dropped run missing: h2 seed 1; `headway run {out}` trains it again"
    assert missing in " ".join(typed("status", out).stdout.split())  # a long path is wrapped
    assert typed("compare", out).returncode == 0
    names = [(run["arm"], run["seed"]) for run in json.loads((out / "results.json").read_text())["runs"]]
    assert ("h2", 0) in names
    assert ("h2", 1) not in names
    refused = typed("drop", out, "h22")
    assert refused.returncode == 2
    assert "has no runs of arm 'h22'; did you mean h2" in refused.stderr
    deleted = typed("drop", out, "h2", "--force").stdout
    assert deleted.startswith(f"deleted 1 run of h2 (seed 0); `headway run {out}` trains it again")
    assert [path.name for path in (out / "dropped/h2").iterdir()] == ["seed-1"]


def test_status_compare_and_report_read_the_folders(finished):
    out, _ = finished
    assert typed("status", out).stdout.endswith("\n4 runs: 4 done\n\n")
    (out / "results.json").unlink()
    (out / "report.html").unlink()
    assert typed("compare", out).returncode == 0
    assert (out / "results.json").exists()
    shutil.rmtree(out / "figures")
    assert typed("report", out, "--no-figures").returncode == 0
    assert (out / "report.html").stat().st_size > 100_000
    assert not (out / "figures").exists()
    assert typed("report", out).returncode == 0
    assert (out / "figures").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "icl-hed"), "no experiment 'icl-hed'; did you mean icl-heads"),
        (("run", "icl-heads", "--arms", "h3"), "no arm 'h3'"),
        (("run", "icl-heads", "--seeds", "two"), "--seeds two: give a number"),
        (("run", "icl-heads", "--set", "training.steps=0"), "training.steps: 0 was given"),
        (("run", "icl-heads", "--set", "training.stpes=3"), "training.stpes: there is no such key; did you mean steps"),
        (("run", "icl-heads", "--control", "noise"), "there is no control 'noise'"),
        (("run", "icl-heads", "--scale", "paper"), "has no scale 'paper'"),
        (("run", "icl-heads", "--trainer", "fast"), "'--trainer': 'fast' is not one of"),
        (("run", "icl-head"), "did you mean icl-heads or icl-second-head? (a file of your own"),
        (("status", "nowhere"), "nowhere is not a results directory"),
        (("reprot", "nowhere"), "No such command 'reprot'"),
    ],
)
def test_a_users_error_is_one_clear_line_and_exit_2(words, message, tmp_path):
    done = typed(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_diverging_run_is_recorded_and_ends_with_1(tmp_path):
    sets = (*SMALL, "--set", "training={optimizer: sgd, learning_rate: 1.0e+6, batch_size: 128, steps: 300}")
    done = headway("run", "icl-heads", "--arms", "h1,h2", "--seeds", "1", *sets, "--out", tmp_path / "out")
    assert done.returncode == 1
    run = json.loads((tmp_path / "out/runs/h2/seed-0/run.json").read_text())
    assert run["status"] == "failed"
    assert re.search(r"step \d+.*lower training.learning_rate", run["message"])
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.slow
def test_a_damaged_run_is_said_and_the_healthy_ones_are_compared_and_reported(finished, tmp_path):
    out = shutil.copytree(finished[0], tmp_path / "out")
    (out / "runs/h1/seed-0/run.json").write_text("{bad")
    with open(out / "runs/h2/seed-1/metrics.jsonl", "a") as file:
        file.write('{"step": 3')
    shown = typed("status", out, COLUMNS="400")
    assert shown.returncode == 0
    unread = r"h1 seed 0 damaged: .*h1/seed-0/run\.json: cannot be read .*; `headway drop .*out h1 --seeds 0` moves"
    assert re.search(unread, shown.stdout)
    assert re.search(r"h2 seed 1 damaged: .*/seed-1: metrics\.jsonl has [\d,]+ bytes instead of [\d,]+", shown.stdout)
    for verb in ("compare", "report"):
        done = typed(verb, out)
        assert done.returncode == 0, done.stderr
    results = json.loads((out / "results.json").read_text())
    assert "Headway leaves out a damaged run" in results["warnings"][0]
    done = headway("run", "icl-heads", "--arms", "h1,h2", "--seeds", "2", *SMALL, "--out", out)
    assert done.returncode == 1
    assert "tries them again; move damaged runs aside first (`headway drop`)" in done.stderr
    assert (out / "runs/h1/seed-0/run.json").read_text() == "{bad"


@pytest.mark.slow
def test_ctrl_c_is_safe_and_running_again_goes_on(tmp_path):
    words = ("run", "icl-heads", "--arms", "h8", "--seeds", "1", "--set", "training.steps=200000",
             "--set", "evaluation.prompts=500", "--set", "evaluation.curve=null", "--out", "out")  # fmt: skip
    process = subprocess.Popen([sys.executable, "-m", "headway", *words], cwd=tmp_path, stderr=subprocess.PIPE)
    metrics = tmp_path / "out/runs/h8/seed-0/metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.exists() and metrics.read_text().count("\n") > 3):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"headway run` again to resume from here" in said
    run = json.loads((metrics.parent / "run.json").read_text())
    assert run["status"] == "interrupted"
    assert headway(*words, cwd=tmp_path).returncode == 0
    assert json.loads((metrics.parent / "run.json").read_text())["status"] == "done"


@pytest.mark.slow
def test_seeds_are_added_until_arms_are_told_apart(tmp_path):
    words = ("run", "icl-heads", "--arms", "h1,h2", "--until", "5%", "--max-seeds", "4", *SMALL, "--no-figures")
    done = headway(*words, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "add seeds until each has an answer within 5 %; interim analyses at 3 and 4 seeds" in done.stderr
    assert re.search(r"^h1 vs h2: .*; [34] seeds\)", done.stderr, re.MULTILINE)
    assert (tmp_path / "out/report.html").exists()


def test_the_version_is_printed():
    done = typed("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"headway [0-9]+\.[0-9]+\.[0-9]+\n", done.stdout)


def test_help_names_every_verb_once_with_its_whole_summary():
    from headway.cli.options import VERBS, app

    said = typed("--help", COLUMNS="80").stdout
    grouped = [name for names in VERBS.values() for name in names]
    assert "..." not in typed("gate", "--help", COLUMNS="80").stdout.partition("Commands:")[2]
    registered = typer.main.get_command(app).commands
    assert sorted(grouped) == sorted(registered)
    assert "..." not in said.partition("Run:")[2]
    for name, command in registered.items():
        summary = command.help.partition("\n")[0]
        assert len([line for line in said.splitlines() if line.split() == [name, *summary.split()]]) == 1
