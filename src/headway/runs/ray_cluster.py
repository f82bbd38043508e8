"""Runs: a Ray cluster that one has joined, or a private one of a single node; what its nodes are, and what they have.

Ray starts processes on nodes, and says when nodes come and go; nothing else of it is used. It is an extra, imported
where it is used.
"""

import contextlib
import os
import platform
import secrets
import signal
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import UserError, shortened
from headway.runs import ray_probe
from headway.runs.execution import cores
from headway.runs.ray_address import PRIVATE, check
from headway.runs.scratch import Scratch
from headway.runs.storage import failure, why_no_room

_LOOKS_WITHIN_S = 60.0
_OBJECTS_BYTES = 80 * 1024 * 1024
_LONGEST_PARENT = 24
"""Bytes of a path in which a private Ray's folder is made: a socket's path takes 103, and the rest is Ray's."""


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
    with _private(ray) if address == "local" else contextlib.nullcontext() as folder:
        try:
            has_token = _connect(ray, address, folder, workers)
            for number, handler in before.items():  # Ray takes SIGTERM, and would end without storing anything
                with contextlib.suppress(ValueError):
                    signal.signal(number, handler)
            yield RayCluster(ray, has_token=has_token)
        finally:
            ray.shutdown()


def _ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise UserError("ray: Ray is not installed; `pip install 'headway[ray]'` installs it") from None
    return ray


@contextlib.contextmanager
def _private(ray: Any) -> Iterator[Path]:
    """In the block, have a folder for a Ray that is started, a token of its own, and ports that no other host reaches.

    Ray opens its folder to everybody, so it stands in one of ours, which is closed to others and is guarded.

    Raises:
        UserError: when the folder cannot be made.
        StorageFailed: when its disk is full or fails.
    """
    short = len(os.fsencode(tempfile.gettempdir())) <= _LONGEST_PARENT
    try:
        scratch = Scratch(PRIVATE, guarded=True, within=None if short else "/tmp")
    except OSError as error:
        raise UserError(
            f"ray local: a temporary folder cannot be made ({error.strerror}); set TMPDIR to a folder that you can "
            f"write and whose path has at most {_LONGEST_PARENT} characters"
        ) from None
    with scratch as folder:
        if no_room := why_no_room(folder):
            raise failure(folder, no_room)  # Ray would wait for itself, and then say nothing of a disk
        token, temporary = folder / "token", folder / "tmp"
        with open(token, "x", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, 0o600)) as file:
            file.write(secrets.token_hex(32))
        temporary.mkdir()
        # TMPDIR is for what Ray starts, copies of runs among it: this process has its temporary folder already.
        changed = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_AUTH_TOKEN": ""}
        with _on_loopback(ray, {**changed, "TMPDIR": str(temporary)}):
            yield folder / "ray"


@contextlib.contextmanager
def _on_loopback(ray: Any, environment: Mapping[str, str]) -> Iterator[None]:
    """In the block, a Ray that is started takes the loopback address, and this environment.

    Ray takes an address of the network for all its ports, unless it is told that it never gets a second node.
    """
    constants = ray._private.ray_constants
    former = {name: os.environ.get(name) for name in environment}, constants.ENABLE_RAY_CLUSTER

    def become(variables: Mapping[str, str | None], is_cluster: bool) -> None:
        for name, value in variables.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})
        constants.ENABLE_RAY_CLUSTER = is_cluster
        ray._raylet.Config.initialize("")  # Ray reads once a process whether there is a token, and which
        ray._raylet.AuthenticationTokenLoader.instance().reset_cache()

    become(environment, False)
    try:
        yield
    finally:
        become(*former)


def _connect(ray: Any, address: str, folder: Path | None, workers: int | None) -> bool:
    """Start a Ray in a folder, or join the one at an address; whether it lets in only who has its token."""
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
        if (ip := ray.util.get_node_ip_address()) not in ("127.0.0.1", "::1"):
            raise UserError(
                f"ray local: Ray {ray.__version__} listens on {ip}, where other hosts reach it, and not on the "
                "loopback address alone; install another version of Ray"
            )
        return True
    has_token = check(address)
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
    return has_token


class RayCluster:
    """What is asked of a cluster that one has joined.

    Args:
        ray: the module.
        has_token: whether the cluster lets in only who has its token.
    """

    def __init__(self, ray: Any, *, has_token: bool):
        self.ray, self.has_token = ray, has_token

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
