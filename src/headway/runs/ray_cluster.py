"""Runs: a Ray cluster that one has joined, or a private one of a single node; what its nodes are, and what they have.

Ray starts processes on nodes, and says when nodes come and go; nothing else of it is used. It is an extra, imported
where it is used.
"""

import contextlib
import os
import platform
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from headway.errors import UserError, shortened
from headway.runs import ray_probe
from headway.runs.execution import cores

_ANSWERS_WITHIN_S = 3.0
_LOOKS_WITHIN_S = 60.0
_PRIVATE = "hw-ray-"
_OBJECTS_BYTES = 80 * 1024 * 1024
_SETTINGS = b"\4"
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + b"\0\0\0\0\0"
"""How HTTP/2 begins, which Ray speaks: whoever does answers at once with a frame of settings, too."""
_START = "start one with the head option of `ray start`, or take local"


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
    folder = tempfile.mkdtemp(prefix=_PRIVATE) if address == "local" else None
    try:
        _connect(ray, address, folder, workers)
        for number, handler in before.items():  # Ray takes SIGTERM, and would end without storing anything
            with contextlib.suppress(ValueError):
                signal.signal(number, handler)
        yield RayCluster(ray)
    finally:
        ray.shutdown()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise UserError("ray: Ray is not installed; `pip install 'headway[ray]'` installs it") from None
    return ray


def _connect(ray: Any, address: str, folder: str | None, workers: int | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": "error", "configure_logging": True}
    if folder:
        ray.init(
            address="local",
            num_cpus=workers or cores(),
            include_dashboard=False,
            object_store_memory=_OBJECTS_BYTES,
            _temp_dir=folder,
            **quiet,
        )
        return
    _answers(address, _of_this_machine() if address == "auto" else address)
    try:
        ray.init(address=address, **quiet)
    except ConnectionError:
        raise UserError(
            f"ray {shortened(address)}: what answers there does not let us in; where its nodes have a token, have it "
            "in ~/.ray/auth_token here and set RAY_AUTH_MODE=token; otherwise see that it is Ray, of the same version"
        ) from None
    except (RuntimeError, ValueError) as error:
        if "ersion" in str(error):
            raise UserError(f"ray {shortened(address)}: other versions are used there: {error}") from None
        raise UserError(
            f"ray {shortened(address)}: {error}; see that it is a Ray cluster of the same version"
        ) from None


def _of_this_machine() -> str:
    """Where the cluster answers that this machine belongs to, as far as it says so."""
    from ray._private.services import canonicalize_bootstrap_address

    try:
        found = canonicalize_bootstrap_address("auto")
    except (ConnectionError, ValueError):
        found = None
    if not found:
        raise UserError(f"ray auto: this machine belongs to none; {_START}")
    if _is_private(str(found).rpartition(":")[2]):
        raise UserError(f"ray auto: the one that Ray finds here is private, of a run with ray local; {_START}")
    return str(found)


def _is_private(port: str) -> bool:
    """Whether the Ray that answers at a port of this machine is one that ends with the run that started it."""
    lines = (process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"]))
    return any(f"--gcs_server_port={port}" in line and any(_PRIVATE in word for word in line) for line in lines)


def _answers(asked: str, address: str) -> None:
    """Nothing, when what answers at an address speaks as Ray does: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host or not 0 < int(port) < 65_536:
        raise UserError(f"ray {shortened(address)}: give auto, local, or HOST:PORT as `ray start` prints it")
    there = "there" if asked == address else f"at {address}, where RAY_ADDRESS or a former `ray start` has it,"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _ANSWERS_WITHIN_S) as connection:
            connection.settimeout(_ANSWERS_WITHIN_S)
            connection.sendall(_HELLO)
            heard = b"" if _is_encrypted() else connection.recv(len(_HELLO))
    except OSError as error:
        raise UserError(f"ray {asked}: nothing answers {there} ({error.strerror or error}); {_START}") from None
    if not _is_encrypted() and heard[3:4] != _SETTINGS:
        raise UserError(f"ray {asked}: what answers {there} is no Ray; give HOST:PORT as `ray start` prints it")


def _is_encrypted() -> bool:
    return os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")


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
