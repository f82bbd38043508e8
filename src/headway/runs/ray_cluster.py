"""Runs: a Ray cluster that one has joined, or a private one of a single node; what its nodes are, and what they have.

Ray starts processes on nodes, and says when nodes come and go; nothing else of it is used. It is an extra, imported
where it is used.
"""

import contextlib
import os
import platform
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import UserError, shortened
from headway.runs import ray_probe
from headway.runs.execution import cores
from headway.runs.ray_address import PRIVATE, check
from headway.runs.scratch import Scratch

_LOOKS_WITHIN_S = 60.0
_OBJECTS_BYTES = 80 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class RayNode:
    """A node: its id, its host, and how much it has of what runs need."""

    id: str
    host: str
    cpus: int
    gpus: int


@contextlib.contextmanager
def ray_cluster(address: str, *, workers: int | None = None) -> Iterator["RayCluster"]:
    """In the block, have a Ray cluster.

    Args:
        address: `local` for a private one on this machine, `auto` for the one that this machine belongs to, or where
            one answers: `HOST:PORT`, or `ray://HOST:PORT` is refused.
        workers: runs at a time, for a private one.

    Raises:
        UserError: when Ray is not installed, or none answers there.
    """
    ray = _ray()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    with Scratch(PRIVATE) if address == "local" else contextlib.nullcontext() as folder:
        try:
            _connect(ray, address, folder, workers)
            for number, handler in before.items():  # Ray takes SIGTERM, and would end without storing anything
                with contextlib.suppress(ValueError):
                    signal.signal(number, handler)
            yield RayCluster(ray)
        finally:
            ray.shutdown()


def _ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise UserError("ray: Ray is not installed; `pip install 'headway[ray]'` installs it") from None
    return ray


def _connect(ray: Any, address: str, folder: Path | None, workers: int | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": "error", "configure_logging": True}
    if folder:
        ray.init(
            address="local",
            num_cpus=workers or cores(),
            include_dashboard=False,
            object_store_memory=_OBJECTS_BYTES,
            _temp_dir=str(folder),
            **quiet,
        )
        return
    check(address)
    try:
        ray.init(address=address, **quiet)
    except ConnectionError:
        raise UserError(
            f"ray {shortened(address)}: what answers there does not let us in; see that it is Ray, of the same version"
        ) from None
    except (RuntimeError, ValueError) as error:
        if "ersion" in str(error):
            raise UserError(f"ray {shortened(address)}: other versions are used there: {error}") from None
        raise UserError(
            f"ray {shortened(address)}: {error}; see that it is a Ray cluster of the same version"
        ) from None


class RayCluster:
    """What is asked of a cluster that one has joined."""

    def __init__(self, ray: Any):
        self.ray = ray

    def nodes(self) -> tuple[RayNode, ...]:
        """Those that are there now."""
        return tuple(
            RayNode(
                id=node["NodeID"],
                host=node["NodeManagerHostname"],
                cpus=int(node["Resources"].get("CPU", 0)),
                gpus=int(node["Resources"].get("GPU", 0)),
            )
            for node in self.ray.nodes()
            if node["Alive"]
        )

    def on(self, node: RayNode, kind: Any, **options: Any) -> Any:
        """A function or an actor's class, to be started on a node and nowhere else."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        strategy = NodeAffinitySchedulingStrategy(node.id, soft=False)
        return self.ray.remote(kind).options(scheduling_strategy=strategy, **options)

    def looked(
        self, nodes: tuple[RayNode, ...], probe: Path, token: str, files: Mapping[str, int]
    ) -> Mapping[RayNode, Mapping[str, str]]:
        """What nodes say of themselves; those that are gone before they could are left out."""
        self.ray.cloudpickle.register_pickle_by_value(ray_probe)
        try:
            asked = {
                node: self.on(node, ray_probe.look, num_cpus=0, max_retries=0).remote(
                    str(probe), token, os.getcwd(), dict(files)
                )
                for node in nodes
            }
            found = {}
            for node, reference in asked.items():
                with contextlib.suppress(self.ray.exceptions.RayError):
                    found[node] = self.ray.get(reference, timeout=_LOOKS_WITHIN_S)
            return found
        finally:
            self.ray.cloudpickle.unregister_pickle_by_value(ray_probe)


def why_not(node: RayNode, said: Mapping[str, str]) -> str:
    """Why no runs can be worked on at a node; empty where they can."""
    python, here = ".".join(platform.python_version_tuple()[:2]), ray_probe.package_hash(Path(__file__).parents[1])
    name = f"Ray node {node.host} ({node.id[:8]})"
    if not said["headway"]:
        return f"{name} has no Headway; install the same version there as here"
    if said["python"] != python:
        return f"{name} has Python {said['python']}, and here it is {python}; use the same on all nodes"
    if said["headway"] != here:
        return f"{name} has another Headway ({said['headway']} there, {here} here); install the same version there"
    if said["lacks"]:
        return (
            f"{name} does not have {said['lacks']} as it is here (relative paths begin at {os.getcwd()}); put it there "
            "under the same path, or take a corpus that Headway makes itself"
        )
    return ""
