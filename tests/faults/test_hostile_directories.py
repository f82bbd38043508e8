"""Hostile results directories: each was tried by hand once, and nothing that stands outside is touched by any."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from faults import damager
from support import quadratic, stored
from support.typed import typed

from headway.base import files
from headway.base.identity import DIGEST, signed
from headway.errors import DeclarationError, ResultsError
from headway.execute.slurm import _log_folder
from headway.execute.work import DONE, FAILED, work
from headway.report.experiment.page import write_report
from headway.stats import results
from headway.store import integrity
from headway.store.directory import Store
from headway.store.document import timings_of_arms
from headway.store.lease import is_held, last_holder, this_process
from headway.store.look_plans import Seen, keep
from headway.store.run import Run
from headway.store.verify import verify

FUZZER = Path(__file__).parents[2] / "tools/faults/fuzz_directories.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Finished runs of two arms, compared."""
    experiment = quadratic.experiment(**damager.MADE)
    store = Store.create(tmp_path_factory.mktemp("made") / "directory", experiment)
    for arm, seed in experiment.runs:
        work(store.add(arm, seed).path, damager.study)
    return store.path


@pytest.fixture
def directory(made, tmp_path):
    return shutil.copytree(made, tmp_path / "directory")


@pytest.fixture
def outside(tmp_path):
    (tmp_path / "outside").mkdir()
    return tmp_path / "outside"


def moved(path: Path, outside: Path) -> dict[str, bytes]:
    """Move a folder out and leave a link to it; what it holds."""
    path.mkdir(parents=True, exist_ok=True)
    shutil.move(path, outside / path.name)
    path.symlink_to(outside / path.name)
    return held(outside)


def held(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def arm_of(directory: Path) -> Path:
    return sorted(directory.glob("runs/*"))[0]


VERBS = {
    "status": lambda directory: Store.open(directory).runs(),
    "compare": lambda directory: results.write(Store.open(directory)),
    "verify": lambda directory: list(verify(directory)),
    "drop": lambda directory: Store.open(directory).drop(arm_of(directory).name),
    "run": lambda directory: write_report(Store.open(directory), results.read(directory), anew=False),
    "keep": lambda directory: keep(directory, "seen-3", Seen(n_seeds=3)),
    "timings": lambda directory: timings_of_arms(directory),
    "submit": lambda directory: _log_folder(directory),
    "report": lambda directory: write_report(Store.open(directory), results.read(directory)),
}


@pytest.mark.parametrize(
    ("place", "verbs"),
    [
        *((place, "status compare verify drop run") for place in ("runs", "runs/ARM", "runs/ARM/seed-0")),
        ("dropped", "drop"),
        ("dropped/ARM", "drop"),
        ("looks", "keep compare run"),
        ("timings", "timings run verify"),
        ("estimators", "verify"),
        ("slurm", "submit"),
        ("figures", "report run"),
        (".lease", "drop"),
    ],
)
def test_a_folder_that_is_a_link_is_refused_with_a_sentence(directory, outside, place, verbs):
    results.write(Store.open(directory))
    before = moved(directory / place.replace("ARM", arm_of(directory).name), outside)
    said = "is a symbolic link, and Headway follows no link inside a results directory"
    for verb in verbs.split():
        with pytest.raises(ResultsError, match=said):
            VERBS[verb](directory)
    assert held(outside) == before


@pytest.mark.parametrize("name", ["checkpoint", "heads", "lease"])
def test_a_link_for_a_folder_of_a_run_damages_it_and_stops_its_worker(tmp_path, outside, name):
    run = quadratic.fresh_run(tmp_path / "directory")
    before = moved(run.path / name, outside)
    try:
        code = work(run.path, damager.study)
    except ResultsError:
        code = None
    assert code != DONE
    assert held(outside) == before
    if name != "lease":
        assert "symbolic link" in Run.open(run.path).message


@pytest.mark.parametrize("name", ["metrics.jsonl", "log.txt", "curves.json", "run.json", "tokenizer.json"])
@pytest.mark.parametrize("how", ["link", "second name", "pipe"])
def test_a_run_that_is_trained_writes_to_its_own_files_alone(tmp_path, outside, name, how):
    run = quadratic.fresh_run(tmp_path / "directory")
    path, other = run.path / name, outside / name
    shutil.copy(path, other) if path.exists() else other.write_text("secret\n")
    path.unlink(missing_ok=True)
    if how == "link":
        path.symlink_to(other)
    elif how == "pipe":
        os.mkfifo(path)
    else:
        os.link(other, path)
    before = held(outside)
    if name == "run.json" and how != "second name":
        with pytest.raises(ResultsError, match=r"it is a symbolic link|it is not an ordinary file"):
            work(run.path, damager.study)
    else:
        assert work(run.path, damager.study) == DONE
        assert path.lstat().st_nlink == 1
        assert not path.is_symlink()
        assert not list(verify(tmp_path / "directory"))[1].damages
    assert held(outside) == before


@pytest.mark.parametrize("name", ["/etc/passwd", "checkpoint/../../x", "run.json", ""])
def test_a_seal_that_names_other_files_is_refused_whatever_signs_it(directory, outside, name):
    folder = arm_of(directory) / "seed-0"
    told = json.loads((folder / integrity.SEAL).read_text())
    told["files"][name] = next(iter(told["files"].values()))
    changed = signed({key: value for key, value in told.items() if key != DIGEST})
    files.write_json(folder / integrity.SEAL, changed)
    with pytest.raises(ResultsError, match=r"it names .*, and no run has such a file; "):
        integrity.read(folder, changed[DIGEST])


@pytest.mark.parametrize("written", ["/tmp/evil.py", "plugins/../../evil-0123456789abcdef.py", "plugins/evil.py"])
def test_a_document_lets_no_file_be_run_that_its_directory_does_not_keep(directory, outside, written):
    from headway.config.plugins import allow, load_kept

    (directory / "plugins").mkdir()
    document = directory / "experiment.yaml"
    document.write_text(f"{document.read_text()}\nplugins: ['{written}']\n")
    leads = "which leads outside of .*" if written != "plugins/evil.py" else ""
    said = rf"{leads}somebody changed the document.* and no other file is run; fetch the directory again"
    for reads in (allow, load_kept):
        with pytest.raises(DeclarationError, match=said):
            reads(directory)


@pytest.mark.slow
def test_a_short_fuzz_finds_nothing(tmp_path):
    """In a process of its own, which forks: this one may have used torch's threads."""
    code = "from faults import fuzz_directories as f; print(f.fuzz(directories=20, seed=7, kinds=('icl',)))"
    command, told = [sys.executable, "-c", code], {**os.environ, "PYTHONPATH": str(FUZZER.parents[1])}
    done = subprocess.run(command, env=told, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("(20, [])\n"), done.stdout


@pytest.mark.parametrize("name", ["seal.json", "metrics.jsonl", "checkpoint"])
def test_what_stands_in_the_way_of_a_run_is_named_with_what_to_do(tmp_path, name, capfd):
    run = quadratic.fresh_run(tmp_path / "directory")
    if name == "checkpoint":
        (run.path / name).write_text("no folder")
    else:
        (run.path / name / "inner").mkdir(parents=True)
    assert work(run.path, damager.study) == FAILED
    said = rf"{name}.* is not what Headway writes there \(.*\); move it away, and run again to resume"
    assert re.search(said, Run.open(run.path).message)
    assert "Traceback" not in capfd.readouterr().out + (run.path / "log.txt").read_text()


def test_a_folder_for_a_file_that_a_report_is_made_from_is_no_reason_to_end(directory):
    (directory / "timings" / "one.json" / "inner").mkdir(parents=True)
    os.mkfifo(directory / "timings" / "two.json")
    results.write(Store.open(directory))
    (directory / "figures").mkdir()
    (directory / "report.html").touch()
    assert VERBS["run"](directory) == directory / "report.html"


@pytest.mark.parametrize("logging", ["every", [], {"every": 2, "weights": ["x"]}, {"every": 2, "weights": 7}])
def test_a_signed_run_json_of_other_types_damages_its_run_alone(directory, logging):
    folder = arm_of(directory) / "seed-0"
    stored.rewrite(folder, logging=logging)
    assert [run.status for run in Store.open(directory).runs() if run.path == folder] == ["damaged"]


PWN = "\x1b]0;pwn\x07"


@pytest.mark.parametrize(("verb", "state"), [("compare", "failed"), ("verify", "failed"), ("status", "running")])
def test_nothing_that_a_directory_says_steers_a_terminal(tmp_path, verb, state):
    directory = tmp_path / "directory"
    run = quadratic.fresh_run(directory)
    stored.rewrite(run.path, status=state, message=f"{PWN}\u202eno\rx")
    (run.path / "lease").mkdir()
    host = {"host": f"{PWN}[/x]", "machine": "another machine"} if state == "running" else {"released": True}
    (run.path / "lease/000001.json").write_text(json.dumps({**asdict(this_process()), **host}))
    odd = directory / "runs" / "\x1b[31mred" / "seed-0"
    odd.mkdir(parents=True)
    (odd / "run.json").write_text("{}")
    done = typed(verb, directory, FORCE_COLOR="1", COLUMNS="2000")
    said = done.stdout + done.stderr
    plain = re.sub(r"\x1b\[[0-9;]*m(?!red)", "", said)  # colours are Headway's own
    assert not re.findall(r"[\x00-\x08\x0b-\x1f\u202e]", plain)
    assert "⟨U+001B⟩[31mred" in said
    assert verb == "verify" or "⟨U+001B⟩]0;pwn" in said


def test_a_note_of_what_was_read_that_names_no_file_is_none(directory):
    list(verify(directory))
    folder = arm_of(directory) / "seed-0"
    digest = json.loads((folder / "run.json").read_text())["seal"]
    noted = {f"{folder.parent.name}/seed-0": {"seal": digest, "stamps": {"a\0b": [0]}}}
    (directory / ".checked.json").write_text(json.dumps({"schema": 1, "runs": noted}))
    store = Store.open(directory)
    assert {run.status for run in store.runs()} == {"done"}
    assert store.gone() == []


def test_logs_of_jobs_are_written_to_no_file_that_has_another_name(directory, outside):
    (outside / "secret").touch()
    (directory / "slurm").mkdir()
    os.link(outside / "secret", directory / "slurm" / "1_0_log.out")
    with pytest.raises(ResultsError, match="is also a file elsewhere, and a job might write to it; remove it"):
        _log_folder(directory)
    shutil.rmtree(directory / "slurm")
    (directory / "slurm").touch()
    with pytest.raises(ResultsError, match="slurm is not a folder, and jobs write their logs there; move it away"):
        _log_folder(directory)


@pytest.mark.parametrize("how", ["folder", "pipe", "link", "other types"])
def test_a_lease_that_is_none_ends_no_verb(tmp_path, how):
    run = quadratic.fresh_run(tmp_path / "directory")
    (run.path / "lease").mkdir()
    lease = run.path / "lease" / "000001.json"
    if how == "folder":
        lease.mkdir()
    elif how == "pipe":
        os.mkfifo(lease)
    elif how == "link":
        lease.symlink_to(tmp_path / "secret")
    else:
        lease.write_text(json.dumps({**asdict(this_process()), "pid": "1", "step": [], "steps_per_s": None}))
    assert last_holder(run.path / "lease") is None
    assert is_held(run.path / "lease")
    assert [found.status for found in Store.open(tmp_path / "directory").runs()] == ["waiting"]
