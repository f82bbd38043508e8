"""What a process uses of its machine, and what others do meanwhile."""

import subprocess
import sys
import time

import psutil
import pytest

from headway.store.environment import Usage, is_quiet

BURN = "while True: pass"


def test_others_are_what_the_machine_does_beyond_this_process():
    before = Usage(own=10.0, machine=100.0, at=0.0)
    assert Usage(own=13.0, machine=108.0, at=2.0).others_since(before) == pytest.approx(2.5)
    assert Usage(own=13.0, machine=103.0, at=2.0).others_since(before) == 0.0


def test_another_process_counts_and_this_one_does_not():
    child = subprocess.Popen([sys.executable, "-c", BURN])
    try:
        its, before = psutil.Process(child.pid), Usage.now()
        began_s = sum(its.cpu_times()[:2])
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        used_s, now = sum(its.cpu_times()[:2]) - began_s, Usage.now()
    finally:
        child.kill()
        child.wait()
    elapsed_s = now.at - before.at
    assert now.own - before.own >= 0.25
    most_s = (now.machine - before.machine) - (now.own - before.own)
    assert used_s - 0.1 <= now.others_since(before) * elapsed_s == pytest.approx(most_s)


def test_a_quarter_of_a_core_is_quiet_and_half_of_a_small_machine_is_not():
    assert is_quiet(0.0)
    assert is_quiet(0.2)
    assert not is_quiet(0.02 * psutil.cpu_count() + 0.3)
