"""What probes cost: training of the laptop head-progression with and without them, every 100 steps, in one run.

    python benchmarks/probes.py              # five rounds of about two minutes in all; --quick: one short round

A round trains each layout once without probes, once with those of the experiment (diversity) and once with all
families, on one thread as the laboratory's workers do, each in a process of its own; the three take turns, and another
begins each round, since machines vary while they are measured. Timed are 200 steps after the first 100, in which two
probes are taken; what is set up once (the first step, the first probe) is not counted, evaluations and samples are left
out. The probes are timed by themselves too: their share of the time is free of what varies between processes.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import replace

LAYOUTS = ("constant-medium", "descending-high")
PROBES = {
    "none": {},
    "diversity": {"every": 100, "diversity": True},
    "all": {"every": 100, "diversity": True, "patterns": True, "circuits": True, "published": True},
}
FIRST, LAST = 100, 300


def seconds_of(layout: str, probes: str, last: int) -> tuple[float, float]:
    """The time of the steps from FIRST to `last`, in a process of its own, and that of the probes among it."""
    command = [sys.executable, __file__, "--child", layout, probes, str(last)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    whole, probing = json.loads(done.stdout.splitlines()[-1])
    return float(whole), float(probing)


def child(layout: str, probes: str, last: int) -> None:
    """Train and print the seconds."""
    from headway.execute.worker import set_up_process

    set_up_process(threads=1)
    import torch

    from headway.config.kinds import parse_run
    from headway.config.load import load
    from headway.train.lm.study import open_study
    from headway.train.loop import Measurements, Milestone, train

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    shipped = load("head-progression").arm(layout).spec(0).content()
    run = parse_run({**shipped, "probes": PROBES[probes], "samples": None, "evaluation": {"every": 1_000_000}})
    study = open_study(run, device="cpu")  # type: ignore[arg-type]
    taken: list[float] = []
    if PROBES[probes]:
        *others, probe = study.measures

        def timed() -> Measurements:
            start = time.perf_counter()
            measured = probe.take()
            taken.append(time.perf_counter() - start)
            return measured

        study = replace(study, measures=(*others, replace(probe, take=timed)))
    began, before = 0.0, 0
    for event in train(study, steps=study.steps or last, log_every=20):
        if isinstance(event, Milestone) and event.step == FIRST:
            began, before = time.perf_counter(), len(taken)
        if isinstance(event, Milestone) and event.step == last:
            print(json.dumps((time.perf_counter() - began, sum(taken[before:]))))
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one short round, to see that it works")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], options.child[1], int(options.child[2]))
        return
    last = FIRST + 100 if options.quick else LAST
    print(
        f"{'layout':17} {'probes':10} {'s per 100 steps, median (range)':34} {'more than none':28} share of the probes"
    )
    for layout in LAYOUTS:
        names = list(PROBES)
        rounds = [
            {probes: seconds_of(layout, probes, last) for probes in names[at % len(names) :] + names[: at % len(names)]}
            for at in range(1 if options.quick else 5)
        ]
        for probes in names:
            times = [r[probes][0] * 100 / (last - FIRST) for r in rounds]
            extra = [100 * (r[probes][0] / r["none"][0] - 1) for r in rounds]
            share = [100 * r[probes][1] / (r[probes][0] - r[probes][1]) for r in rounds]
            said = f"{layout:17} {probes:10} {shown(times, '.2f'):34}"
            if probes != "none":
                said += f" {shown(extra, '+.1f', ' %'):28} {shown(share, '.1f', ' %')}"
            print(said, flush=True)


def shown(values: list[float], form: str, unit: str = "") -> str:
    """The median and the range."""
    return f"{statistics.median(values):{form}}{unit} ({min(values):{form}} to {max(values):{form}}{unit})"


if __name__ == "__main__":
    main()
