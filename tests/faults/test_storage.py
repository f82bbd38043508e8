"""A file system that fails in any way, at any operation: what was recorded stays, and going on gives the same bits."""

import errno
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
import traceback

import pytest
from support import faults, quadratic

from headway.cli import main
from headway.execute.work import DONE, ELSEWHERE, FAILED
from headway.store import integrity
from headway.store.directory import Store
from headway.store.run import Run
from headway.store.storage import DISK_FULL, UNREACHABLE

pytestmark = pytest.mark.filterwarnings("ignore:.*the last line was cut short")

ADVICE = "run again|run the same command again|try again|give another path|choose another directory"


def records(path):
    """The whole lines of a log, whatever else is wrong."""
    file = path / "metrics.jsonl"
    lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    return [json.loads(line)["step"] for line in lines]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    undisturbed = quadratic.fresh_run(tmp_path_factory.mktemp("undisturbed"), steps=12)
    quadratic.train_here(undisturbed)
    return quadratic.lasting(undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "number", "how"),
    [
        (1, errno.ENOSPC, {}),
        (2, errno.EDQUOT, {"once": True}),
        (3, errno.EROFS, {}),
        (4, errno.EIO, {"reading": True}),
        (2, errno.EIO, {"once": True, "reading": True}),
        (3, errno.ESTALE, {"once": True, "reading": True}),
    ],
)
def test_a_worker_whose_storage_fails_at_any_operation_loses_nothing(tmp_path, whole, first, number, how):
    """Each operation fails in one or two of six ways: all in all ways take minutes more."""
    codes = []
    for operation in itertools.count(first, 4):
        run = quadratic.fresh_run(tmp_path / str(operation), steps=12)
        code = faults.working(run, operation, faults.failing(number), **how)
        codes.append(code)
        before = records(run.path)
        now = Run.open(run.path)
        assert code in (DONE, FAILED, DISK_FULL, UNREACHABLE, 2), f"operation {operation}"
        assert now.status in ("waiting", "interrupted", "failed", "done")
        if number == errno.ENOSPC:
            assert code in (DONE, DISK_FULL), f"operation {operation}"
            assert now.status != "failed", "it cannot be written that it failed"
        if now.status == "failed":
            assert re.search("again", now.message), now.message
            assert "Traceback" not in now.message
        assert quadratic.train_here(run) == DONE
        assert quadratic.lasting(run) == whole, f"operation {operation}"
        assert records(run.path)[: len(before)] == before
        assert not list(run.path.rglob(".*.tmp"))
        shutil.rmtree(tmp_path / str(operation))
        if codes[-4:] == [DONE] * 4:  # some are of no consequence, such as a beat's
            break
    assert len(codes) > 15
    assert sum(code != DONE for code in codes) > 7


@pytest.mark.slow
def test_a_directory_that_vanishes_at_any_operation_ends_its_worker_and_is_not_made_again(tmp_path):
    codes = []
    for operation in itertools.count(1, 2):
        results = tmp_path / str(operation)
        run = quadratic.fresh_run(results, steps=12)
        code = faults.working(run, operation, lambda: shutil.rmtree(results, ignore_errors=True), once=True)  # noqa: B023
        if code == DONE and results.exists():
            break
        codes.append(code)
        assert not results.exists(), [str(path) for path in results.rglob("*")]
        assert code in (ELSEWHERE, UNREACHABLE, DONE), f"operation {operation}"
    assert len(codes) > 30


@pytest.mark.slow
def test_a_slow_file_system_makes_a_run_late_and_nothing_else(tmp_path, whole):
    run = quadratic.fresh_run(tmp_path, steps=12)
    assert faults.working(run, 1, lambda: time.sleep(0.02), reading=True) == DONE
    assert quadratic.lasting(run) == whole


def said(arguments, below, operation, number, output):
    """The exit code and what is said, of a command line whose files fail from an operation on."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            sys.stdout = sys.stderr = open(output, "w", encoding="utf-8")  # noqa: SIM115 - the process ends with it
            sys.argv = ["headway", *map(str, arguments)]
            faults.Operations(below, operation, faults.failing(number))
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:  # noqa: BLE001 - it must not go on in the copy
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), output.read_text()


def content(directory):
    """Of all files but the cache of what was checked, which depends on how old the files are and may be deleted."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != integrity.CHECKED)
    return {path.relative_to(directory): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A results directory of two runs that are done, and the file of its experiment."""
    folder = tmp_path_factory.mktemp("finished")
    of = quadratic.brief(seeds=1)
    (folder / "experiment.yaml").write_text(of.dump())
    store = Store.create(folder / "results", of)
    for arm in ("slow", "fast"):
        worker = [sys.executable, "-m", "headway.execute.worker", str(store.add(of.arm(arm), 0).path)]
        subprocess.run(worker, check=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "number", "first"),
    [("run", errno.ENOSPC, 1), ("run", errno.EIO, 2), ("compare", errno.ENOSPC, 1), ("compare", errno.EROFS, 2)],
)
def test_a_command_whose_storage_fails_says_so_and_leaves_what_there_is(tmp_path, finished, verb, number, first):
    if verb == "run":
        results = tmp_path / "results"
        arguments = ["run", finished / "experiment.yaml", "--out", results, "--no-figures", "--no-timing"]
        arguments += ["--workers", "1", "--device", "cpu"]
    else:
        results = tmp_path / "finished"
        shutil.copytree(finished / "results", results)
        arguments = ["compare", results]
    for operation in itertools.count(first, 2):
        before = content(results)
        code, output = said(arguments, results, operation, number, tmp_path / "output")
        if code == 0 or (verb == "run" and "comparing" in output):
            break
        assert code in (1, 2), output
        assert "Traceback" not in output
        assert re.search(ADVICE, output), output
        assert {path: data for path, data in content(results).items() if path in before} == before
        if verb == "run":
            shutil.rmtree(results, ignore_errors=True)
    assert operation > 3
