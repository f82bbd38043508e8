"""A Ray cluster that Headway joins, and the resources of its nodes.

Ray starts processes on nodes, and tells when nodes come and go; nothing else of it is used. It is an extra, imported
where it is used.

`check` finds out in seconds whether a Ray answers at an address and accepts this user. Ray itself would try for
minutes, print messages meanwhile, and end the process if it lacks a token.
"""

import contextlib
import hashlib
import importlib.util
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import UserError, shortened

_ANSWERS_WITHIN_S = 3.0
_LETS_IN_WITHIN_S = 10.0
_IMPORTED_WITHIN_S = 120.0
_START = "`ray start --head` starts one"
_ASK = """
import sys
try:
    from ray._raylet import GcsClient
except ImportError:  # a Ray that has no such thing says itself what is wrong
    sys.exit(0)
print("asking", flush=True)
GcsClient(address=sys.argv[1]).internal_kv_exists(b"headway", namespace=b"headway")
"""
"""A question that every Ray answers; it begins when Ray is imported, which takes as long as the disk does."""


def check(asked: str) -> bool:
    """Ask a Ray whether it lets us in, and find out whether it lets in everybody.

    Args:
        asked: `auto` for that of this machine, or its address.

    Returns:
        Whether it wants a token.

    Raises:
        UserError: when none does.
    """
    address = _of_this_machine() if asked == "auto" else asked
    _check_listens(asked, address)
    return _lets_in(asked, address)


def _lets_in(asked: str, address: str) -> bool:
    """Put a question without a token, and with ours where that is not answered."""
    code, output = _answer(asked, address, RAY_AUTH_MODE="disabled")
    is_open = code == 0
    wants_token = not is_open and bool(re.search("auth|token", output, re.IGNORECASE))
    # Ray takes the token that is here where neither a mode nor an address is given.
    unsaid = "token" if wants_token and asked == "auto" and "RAY_ADDRESS" not in os.environ else ""
    if os.environ.get("RAY_AUTH_MODE", unsaid).lower() == "token" and (is_open or wants_token):
        code, output = _answer(asked, address, RAY_AUTH_MODE="token")
    if code == 0:
        return wants_token
    if is_open:
        raise UserError(
            f"ray {asked}: RAY_AUTH_MODE=token is set here, but neither this machine nor the cluster has a token; "
            "unset RAY_AUTH_MODE, or type `ray get-auth-token --generate` before you start the cluster"
        )
    there = _there(asked, address)
    if wants_token:
        raise UserError(
            f"ray {asked}: the cluster {there} needs its token; copy it to ~/.ray/auth_token here, and set "
            "RAY_AUTH_MODE=token"
        )
    raise UserError(
        f"ray {asked}: the program {there} does not answer as Ray does; give HOST:PORT as `ray start` prints it"
    )


def _answer(asked: str, address: str, **environment: str) -> tuple[int, str]:
    """Return the exit code and the output of a question to Ray, asked in a process of its own, which Ray may end.

    Raises:
        UserError: when that process takes too long to import Ray.
    """
    command = [sys.executable, "-c", _ASK, address]
    pipe, environment = subprocess.PIPE, os.environ | environment
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], _IMPORTED_WITHIN_S)[0]:
            process.kill()
            raise UserError(
                f"ray {asked}: Python did not import Ray within {_IMPORTED_WITHIN_S:.0f} s, so the cluster was not "
                "asked; check the disk of this machine, and try again"
            )
        process.stdout.readline()
        try:
            output = process.communicate(timeout=_LETS_IN_WITHIN_S)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            output = ""
    return process.returncode, output


def _there(asked: str, address: str) -> str:
    return "there" if asked == address else f"at {address}, where RAY_ADDRESS or a former `ray start` has it,"


def _of_this_machine() -> str:
    """Return the address of this machine's cluster, as far as the cluster tells it."""
    from ray._private.services import canonicalize_bootstrap_address

    try:
        address = canonicalize_bootstrap_address("auto")
    except (ConnectionError, ValueError):
        address = None
    if not address:
        raise UserError(f"ray auto: this machine is in no Ray cluster; {_START}")
    return str(address)


def _check_listens(asked: str, address: str) -> None:
    """Raise UserError if no server listens at an address."""
    if address == "local":
        raise UserError("ray local: Headway starts no Ray of its own; type `ray start --head`, and then --ray auto")
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host or not 0 < int(port) < 65_536:
        raise UserError(f"ray {shortened(address)}: give auto, or HOST:PORT as `ray start` prints it")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWERS_WITHIN_S).close()
    except OSError as error:
        there, why = _there(asked, address), error.strerror or error
        raise UserError(f"ray {asked}: nothing answers {there} ({why}); {_START}") from None


_LOOKS_WITHIN_S = 60.0


@dataclass(frozen=True, kw_only=True)
class RayNode:
    """A node: its id, its host, and how much it has of what runs need."""

    id: str
    host: str
    cpus: int
    gpus: int


@contextlib.contextmanager
def ray_cluster(address: str) -> Iterator["RayCluster"]:
    """In the block, have joined a Ray cluster that somebody started.

    Args:
        address: `auto` for the cluster of this machine, or `HOST:PORT`; `ray://HOST:PORT` is refused.

    Raises:
        UserError: when Ray is not installed, or no cluster answers there.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise UserError("ray: Ray is not installed; `pip install '.[ray]'` installs it") from None
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        has_token = check(address)
        try:
            ray.init(address=address, log_to_driver=False, logging_level="error", configure_logging=True)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UserError(
                f"ray {shortened(address)}: {error}; check that it is a Ray cluster of the same version"
            ) from None
        for number, handler in before.items():  # Ray takes SIGTERM, and would end without storing anything
            with contextlib.suppress(ValueError):
                signal.signal(number, handler)
        yield RayCluster(ray, has_token=has_token)
    finally:
        ray.shutdown()


def package_hash(folder: Path) -> str:
    """Return a short hash of the files of a package, whatever its version."""
    hashed = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".cpp", ".hpp", ".json", ".yaml", ".j2"):
            hashed.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return hashed.hexdigest()[:16]


def bytes_of(path: str, folder: str) -> int:
    """Return the bytes of a file or of all files of a folder; -1 if missing. Relative paths begin at `folder`."""
    whole = Path(folder) / Path(path).expanduser()
    try:
        if whole.is_dir():
            return sum(inner.stat().st_size for inner in whole.rglob("*") if inner.is_file())
        return whole.stat().st_size
    except OSError:
        return -1


def look(probe: str, token: str, folder: str = "", files: Mapping[str, int] | None = None) -> dict[str, str]:
    """Return the node's Headway, whether it can see and write a directory, and which files differ from elsewhere.

    The function is sent to the node as it stands, and with it those that it calls: none uses anything of Headway, which
    the node may have in another version.

    Args:
        probe: the path of a probe file in the directory; the name of the new file begins with it.
        token: the content of the probe file.
        folder: the folder that relative paths of files start in.
        files: the size in bytes of each file that runs read, by path.
    """
    lacks = [path for path, n_bytes in (files or {}).items() if bytes_of(path, folder) != n_bytes]
    spec = importlib.util.find_spec("headway")
    package = Path(spec.origin).parent if spec and spec.origin else None
    sees, writes, why_not = "", "", ""
    try:
        sees = "yes" if Path(probe).read_text() == token else ""
        Path(f"{probe}-{socket.gethostname()}-{os.getpid()}").write_text(token)
        writes = "yes"
    except OSError as error:
        why_not = error.strerror or str(error)
    return {
        "host": socket.gethostname(),
        "headway": package_hash(package) if package else "",
        "sees": sees,
        "writes": writes,
        "why_not": why_not,
        "lacks": ", ".join(lacks),
        "pid": str(os.getpid()),
    }


class RayCluster:
    """A cluster that Headway has joined, and the requests to it.

    Args:
        ray: the module `ray`.
        has_token: True if the cluster admits only clients with its token.
    """

    def __init__(self, ray: Any, *, has_token: bool):
        self.ray, self.has_token = ray, has_token

    def nodes(self) -> tuple[RayNode, ...]:
        """Return the nodes that are in the cluster now."""
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
        """Return what nodes report of themselves; nodes that leave before they report are missing."""
        this_module = sys.modules[__name__]
        self.ray.cloudpickle.register_pickle_by_value(this_module)
        try:
            asked = {
                node: self.on(node, look, num_cpus=0, max_retries=0).remote(str(probe), token, os.getcwd(), dict(files))
                for node in nodes
            }
            reports = {}
            for node, reference in asked.items():
                with contextlib.suppress(self.ray.exceptions.RayError):
                    reports[node] = self.ray.get(reference, timeout=_LOOKS_WITHIN_S)
            return reports
        finally:
            self.ray.cloudpickle.unregister_pickle_by_value(this_module)


def why_not(node: RayNode, said: Mapping[str, str]) -> str:
    """Return why no runs can be worked on at a node; empty if they can."""
    here = package_hash(Path(__file__).parents[1])
    name = f"Ray node {node.host} ({node.id[:8]})"
    if not said["headway"]:
        return f"{name} has no Headway; install the same version there as here"
    if said["headway"] != here:
        return f"{name} has another Headway ({said['headway']} there, {here} here); install the same version there"
    if said["lacks"]:
        return (
            f"{name} does not have {said['lacks']} as it is here (relative paths begin at {os.getcwd()}); put it there "
            "under the same path, or use a corpus that Headway generates"
        )
    return ""
