"""The worker process: `python -m headway.runs.worker RUN_DIR` works on one run.

The number of threads is set before anything that reads it is imported: numpy's and torch's libraries read it once.
Therefore this file imports inside its functions. It is the only file of this folder that knows torch.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.base.files import private_folder
from headway.errors import UserError
from headway.train.process_memory import keep_freed_memory

if TYPE_CHECKING:
    from headway.config.run import RunSpec
    from headway.train.loop import Study, TrainerChoice

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

_WAITING_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
_SPINS = "10000"
"""The checks for more work that an OpenMP thread makes before it sleeps, about half a millisecond.

With OpenMP's default of 300,000, waiting threads take the cores that other work needs. With none, half the speed of an
idle machine goes into waking the threads (LOG.md, benchmarks/waiting.py).
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Work on a run; return an exit code of `headway.execute.work`, or 2 if the run does not exist."""
    asked = _asked(arguments)
    threads = asked.threads if asked.time else _stored_threads(asked.run_dir) or asked.threads
    environment = dict(os.environ)
    said = set_up_process(threads)
    from headway.execute.stop import Stop, StopRequest
    from headway.execute.work import STOPPED

    def open_study(spec: "RunSpec", stored: Mapping[str, Any]) -> "Study":
        study = _open_study(asked.run_dir, spec, stored, trainer=asked.trainer, threads=threads, device=asked.device)
        if said and "torch" in sys.modules:
            print(said, flush=True)
        return study

    def work_on(path: Path) -> int:
        _load_plugins(path)
        from headway.execute.ensemble import work_together

        return work_together(
            path,
            open_study,
            lambda specs, joins: _open_together(specs, joins, threads=threads, device=asked.device),
            parent=asked.parent,
        )

    try:
        if asked.time:
            from headway.execute.timing import time_steps

            _load_plugins(asked.run_dir)
            with StopRequest(asked.parent).heard():
                return time_steps(asked.run_dir, open_study, asked.time)
        if asked.answers is not None:
            return _serve(asked, threads, work_on, environment)
        return work_on(asked.run_dir)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except Stop:
        return STOPPED  # before there was anything to record


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m headway.runs.worker", description="Work on one run.")
    parser.add_argument("run_dir", type=Path, help="the run folder")
    parser.add_argument("--trainer", choices=("auto", "fused", "torch"), default="auto", help="what trains the model")
    parser.add_argument("--threads", type=int, default=1, help="threads, for a run that does not say how many")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--time", type=Path, metavar="FILE", help="only time some steps, and write what came out")
    parser.add_argument("--parent", type=int, help="stop when this process, which started this one, has ended")
    parser.add_argument(
        "--answers", type=int, help="go on with the runs that the standard input names, and answer here"
    )
    return parser.parse_args(arguments)


def _serve(
    asked: argparse.Namespace, threads: int, work_on: Callable[[Path], int], environment: Mapping[str, str]
) -> int:
    """Work on one run after the other, as far as this process may."""
    from headway.execute.work import serve

    def answered(path: Path) -> int:
        try:
            return work_on(path)
        except UserError as error:
            print(error, file=sys.stderr)
            return 2

    options = ["--trainer", asked.trainer, "--threads", str(asked.threads), "--device", asked.device]
    options += ["--answers", str(asked.answers), *(["--parent", str(asked.parent)] if asked.parent else [])]
    return serve(
        asked.run_dir,
        answered,
        answers=asked.answers,
        begins_anew=lambda path: (_stored_threads(path) or asked.threads) != threads,
        command=[sys.executable, "-m", "headway.runs.worker", *options],
        environment=environment,
    )


def share_cores() -> None:
    """Let waiting threads of this process sleep soon, unless the user chose otherwise.

    To be done before torch is imported, which reads it once.
    """
    if not any(name in os.environ for name in _WAITING_VARIABLES):
        os.environ["GOMP_SPINCOUNT"] = _SPINS


def set_up_process(threads: int) -> str:
    """The threads of this process, how it gets memory and where torch keeps what it compiles.

    To be done before numpy and torch are imported, which read it once. A sentence comes back where torch's cache
    cannot be kept, nothing otherwise.
    """
    os.environ |= dict.fromkeys(_THREAD_VARIABLES, str(threads))
    share_cores()
    # Not a pool of compilers for each of many workers.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(threads))
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what deterministic CUDA needs
    os.environ["TORCHINDUCTOR_DETERMINISTIC"] = "1"
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch's large arrays in huge pages, where the system has them
    keep_freed_memory()
    return _own_compiler_cache()


def _own_compiler_cache() -> str:
    """Let torch load pickles and compiled code only from a place that others cannot write, or that the user chose.

    Its own choice is a folder of the common temporary one, which is whoever's makes it first.
    """
    folder, why_not = private_folder("torch")
    tempfile.tempdir = str(folder)  # where it precompiles headers, whatever is said of the cache
    if "TORCHINDUCTOR_CACHE_DIR" in os.environ:
        return ""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "compiled")
    return why_not


def _load_plugins(path: Path) -> None:
    """Run the plugins of a run's directory; a broken plugin is reported by the run that needs it."""
    from headway.config.plugins import allow, directory_of

    try:
        for plugin in allow(directory_of(path)):
            print(plugin.sentence, flush=True)
    except UserError as error:
        print(error, file=sys.stderr, flush=True)


def _stored_threads(path: Path) -> int | None:
    """Return the threads that a run was made for, or started with; None if its folder does not tell them."""
    record = path / "run.json"  # read here: what reads others imports numpy, which reads the threads that are set
    try:
        return json.loads(record.read_text())["execution"].get("threads") if record.is_file() else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # `work` says what is wrong with it


def _open_study(
    path: Path,
    spec: "RunSpec",
    stored: Mapping[str, Any],
    *,
    trainer: "TrainerChoice",
    threads: int,
    device: str = "auto",
) -> "Study":
    from headway.execute.parents import origin_of
    from headway.store.records import beginning_of
    from headway.train.loop import laboratory_of

    beginning = beginning_of(path) if stored else None
    origin = origin_of(path) if spec.parent is not None and beginning is None else None
    if trainer == "auto" and stored.get("trainer") == "torch":
        trainer = "torch"
    study = laboratory_of(spec).open_study(
        spec, trainer=trainer, compile=stored.get("compile"), device=device, origin=origin, beginning=beginning
    )
    return _set_up(study, threads)


def _open_together(specs: Sequence["RunSpec"], joins: Collection[int], *, threads: int, device: str) -> list["Study"]:
    from headway.train.loop import laboratory_of

    studies = laboratory_of(specs[0]).open_together(specs, device=device, joins=joins)
    return [_set_up(study, threads) for study in studies]


def _set_up(study: "Study", threads: int) -> "Study":
    """Set up torch, if it is used here, and a study that records its threads and instruction sets."""
    execution = {**study.execution, "threads": threads}
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode("error")  # unlike use_deterministic_algorithms it imports no compiler
        # It would also fill all memory before it is used, which finds bugs and costs time; no operator reads it.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        torch.set_float32_matmul_precision("highest")  # an environment variable may have chosen TF32 for GPUs
        if execution.get("trainer") == "torch":
            from headway.train.device import instruction_sets

            execution["instruction_sets"] = instruction_sets()
    return replace(study, execution=execution)


def _flush() -> None:
    """Let go of what could not be printed on a full disk: that must not change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    code = main()
    _flush()
    sys.exit(code)
