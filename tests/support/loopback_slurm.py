"""A Slurm of one node on the loopback address, from the packages munge and slurm-wlm, in a folder of its own."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

CONFIGURATION = """
ClusterName=loopback
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName=localhost NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=short Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""


def answers() -> bool:
    """Whether there is a Slurm that takes jobs."""
    if shutil.which("sinfo") is None or shutil.which("sbatch") is None:
        return False
    try:
        return b"idle" in subprocess.run(["sinfo", "-h"], capture_output=True, timeout=10, check=False).stdout
    except subprocess.TimeoutExpired:
        return False


def why_not() -> str:
    """Why none can be started here; empty where one can."""
    if missing := [tool for tool in ("munged", "slurmctld", "slurmd", "sbatch") if _tool(tool) is None]:
        return f"no Slurm answers, and there is no {missing[0]} to start one (packages munge and slurm-wlm)"
    return "" if os.getuid() == 0 else "no Slurm answers, and slurmd is started by root alone"


@contextlib.contextmanager
def started(folder: Path) -> Iterator[None]:
    """In the block, have one, and the environment that finds it."""
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(parents=True)
    (folder / "munge" / "key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge" / "key").chmod(0o600)
    said = {"folder": folder, "user": "root", "controller": _free_port(), "daemon": _free_port()}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(**said))
    former, os.environ["SLURM_CONF"] = os.environ.get("SLURM_CONF"), str(folder / "slurm.conf")
    try:
        _run("munged", *(f"--{name}-file={folder}/munge/{name}" for name in ("key", "pid", "log", "seed")),
             f"--socket={folder}/munge/socket", "--force")  # fmt: skip
        _run("slurmctld", "-c")
        _run("slurmd", "-N", "localhost")
        until = time.monotonic() + 30
        while not answers() and time.monotonic() < until:
            time.sleep(0.5)
        assert answers(), (folder / "slurmctld.log").read_text()
        yield
    finally:
        for file in (folder / "slurmd.pid", folder / "slurmctld.pid", folder / "munge" / "pid"):
            with contextlib.suppress(OSError, ValueError):
                pid = int(file.read_text())
                os.kill(pid, signal.SIGTERM)
                _wait_for_the_end_of(pid)
        os.environ.pop("SLURM_CONF")
        if former is not None:
            os.environ["SLURM_CONF"] = former


def _tool(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _run(name: str, *arguments: str) -> None:
    subprocess.run([_tool(name) or name, *arguments], check=True, timeout=30, stdout=subprocess.DEVNULL)


def _wait_for_the_end_of(pid: int) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        os.kill(pid, 0)
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
