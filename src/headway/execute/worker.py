"""The worker process: `python -m headway.execute.worker RUN_DIR` works on one run.

The number of threads is set before anything that reads it is imported: numpy's and torch's libraries read it once.
Therefore this file imports inside its functions. It is the only file of this folder that knows torch.
"""

import os
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.base.files import kept_json, private_folder
from headway.base.torch_setup import share_cores
from headway.errors import UserError
from headway.execute.places import WORKER, WorkerOptions
from headway.train.process_memory import keep_freed_memory

if TYPE_CHECKING:
    from headway.config.run import RunSpec
    from headway.train.loop import Study

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def main(arguments: Sequence[str] | None = None) -> int:
    """Work on a run; return an exit code of `headway.execute.work`, or 2 if the run does not exist."""
    run_dir, options = WorkerOptions.from_args(arguments)
    threads = options.threads if options.time else _stored_threads(run_dir) or options.threads
    environment = dict(os.environ)
    process = _Process(options, threads)
    from headway.execute.stop import Stop
    from headway.execute.work import STOPPED, serve

    try:
        if options.answers is None:
            return process.work_on(run_dir)
        return serve(
            run_dir,
            process.work_on,
            answers=options.answers,
            needs_new_process=lambda path: (_stored_threads(path) or options.threads) != threads,
            command=[*WORKER, *options.to_args()],
            environment=environment,
        )
    except Stop:
        return STOPPED  # before there was anything to record


class _Process:
    """This process, set up for runs of a number of threads."""

    def __init__(self, options: WorkerOptions, threads: int):
        self._options, self._threads = options, threads
        self._message = set_up_process(threads)

    def work_on(self, path: Path) -> int:
        """Time the run in a folder, or work on it, as the options say."""
        from headway.execute.ensemble import work_together
        from headway.execute.work import work
        from headway.store.run import Run

        parent, open_study = self._options.parent, partial(self._open_study, path)
        _load_plugins(path)
        try:
            if self._options.time:
                from headway.execute.stop import StopRequest
                from headway.execute.timing import time_steps

                with StopRequest(parent).heard():
                    return time_steps(path, open_study, self._options.time)
            if Run.open(path).batch is None:
                return work(path, open_study, parent=parent)
            return work_together(path, self._open_together, parent=parent)
        except UserError as error:
            print(error, file=sys.stderr)
            return 2

    def _open_study(self, path: Path, spec: "RunSpec", stored: Mapping[str, Any]) -> "Study":
        study = _open_study(path, spec, stored, self._options, self._threads)
        if self._message and "torch" in sys.modules:
            print(self._message, flush=True)
        return study

    def _open_together(self, specs: Sequence["RunSpec"], joins: Collection[int]) -> list["Study"]:
        from headway.train.loop import training_part_of

        studies = training_part_of(specs[0]).open_together(specs, device=self._options.device, joins=joins)
        return [_set_up(study, self._threads) for study in studies]


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
    from headway.store.document import begin_paths

    begin_paths(directory_of(path))
    try:
        for plugin in allow(directory_of(path)):
            print(plugin.sentence, flush=True)
    except UserError as error:
        print(error, file=sys.stderr, flush=True)


def _stored_threads(path: Path) -> int | None:
    """Return the threads that a run was made for, or started with; None if its folder does not tell them."""
    record = kept_json(path / "run.json")  # the readers of `store` import numpy, which reads the threads that are set
    try:
        return record["execution"].get("threads")
    except (KeyError, TypeError, AttributeError):
        return None  # `work` says what is wrong with it


def _open_study(
    path: Path, spec: "RunSpec", stored: Mapping[str, Any], options: WorkerOptions, threads: int
) -> "Study":
    from headway.execute.parents import init_from_of
    from headway.store.records import read_init_record
    from headway.train.loop import training_part_of

    init_record = read_init_record(path) if stored else None
    study = training_part_of(spec).open_study(
        spec,
        trainer="torch" if options.trainer == "auto" and stored.get("trainer") == "torch" else options.trainer,
        compile=stored.get("compile"),
        device=options.device,
        init_from=init_from_of(path) if spec.initial_run is not None and init_record is None else None,
        init_record=init_record,
        folder=path,
    )
    return _set_up(study, threads)


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
