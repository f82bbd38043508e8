"""How OpenMP's threads should wait: steps per second of a language model with two threads, alone and beside other load.

    python benchmarks/waiting.py [--rounds 7] [--seconds 4] [--widths 32 128]

Each figure is a process of its own with a worker's set-up and a thread for each core; the load is a process for each
core that computes all the time. All ways of waiting take turns in each round. Printed is the median and the range. On a
machine that others use, root may measure at a priority that leaves them out: `--nice -15`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.train.loop import Trainer

WAYS: dict[str, dict[str, str]] = {
    "nothing set": {},
    "OMP_WAIT_POLICY=passive": {"OMP_WAIT_POLICY": "passive"},
    **{f"GOMP_SPINCOUNT={n}": {"GOMP_SPINCOUNT": str(n)} for n in (0, 1_000, 10_000, 100_000)},
}
_OF_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def measure(width: int, seconds: float, threads: int, nice: int) -> tuple[float, float]:
    """Steps per second of this process, alone and beside load."""
    from headway.execute.worker import set_up_process

    chosen = {name: os.environ[name] for name in _OF_WAITING if name in os.environ}
    set_up_process(threads)
    for name in _OF_WAITING:  # whatever a worker chooses by itself
        os.environ.pop(name, None)
    os.environ |= chosen
    import torch

    from headway.config.kinds import parse_run
    from headway.train.loop import training_part_of

    torch.set_num_threads(threads)
    run = parse_run(
        {
            "task": {"kind": "text", "corpus": "stories", "stories": 2000, "tokenizer": "bytes", "n_ctx": 128},
            "model": {"family": "gpt-neo", "d_model": width, "n_layers": 4, "n_heads": "8", "windows": [None]},
            "training": {"optimizer": "adamw", "learning_rate": 1e-3, "batch_size": 8, "steps": 1_000_000},
            "seed": 0,
        },
        str,
    )
    if nice:
        os.setsid()  # the system shares cores among sessions first, then among their processes
        Path("/proc/self/autogroup").write_text(str(nice))
    trainer = training_part_of(run).open_study(run, trainer="torch", compile=False, device="cpu").trainer
    trainer.advance(2)
    alone = _rate(trainer, seconds)
    # In a session of its own, as another user's.
    burn = f"open('/proc/self/autogroup', 'w').write('{nice}') if {nice} else 0\nwhile True: pass"
    command = [sys.executable, "-c", burn]
    load = [subprocess.Popen(command, start_new_session=True) for _ in range(os.cpu_count() or 1)]
    try:
        time.sleep(0.3)
        return alone, _rate(trainer, seconds)
    finally:
        for process in load:
            process.kill()
            process.wait()


def _rate(trainer: "Trainer", seconds: float) -> float:
    trainer.advance(1)
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        trainer.advance(1)
        done += 1
    return done / (time.perf_counter() - began)


def main() -> None:
    """Measure all, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--widths", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(measure(asked.measure, asked.seconds, asked.threads, asked.nice)))
        return
    found: dict[tuple[int, str, str], list[float]] = {}
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_WAITING}
    for _ in range(asked.rounds):
        for width in asked.widths:
            for way, variables in WAYS.items():
                command = [sys.executable, __file__, "--measure", str(width), "--seconds", str(asked.seconds)]
                command += ["--threads", str(asked.threads), f"--nice={asked.nice}"]
                done = subprocess.run(command, env=inherited | variables, capture_output=True, check=True)
                for state, rate in zip(("idle", "loaded"), json.loads(done.stdout), strict=True):
                    found.setdefault((width, state, way), []).append(rate)
        for (width, state, way), rates in sorted(found.items()):
            told = f"{statistics.median(rates):7.2f} ({min(rates):.2f} to {max(rates):.2f})"
            print(f"d_model {width:4} {state:6} {way:26} {told} steps/s", flush=True)
        print(flush=True)


if __name__ == "__main__":
    main()
