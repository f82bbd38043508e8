"""Runs: whether a Ray answers at an address and lets us in, found out in seconds.

Ray itself would try for minutes, print what it thinks meanwhile, and end the process where it lacks a token.
"""

import os
import re
import select
import socket
import subprocess
import sys

from headway.errors import UserError, shortened
from headway.runs.processes import command_lines

PRIVATE = "hw-ray-"
"""How the folder of a private Ray begins."""
_ANSWERS_WITHIN_S = 3.0
_LETS_IN_WITHIN_S = 10.0
_IMPORTED_WITHIN_S = 120.0
_SETTINGS = b"\4"
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + b"\0\0\0\0\0"
"""How HTTP/2 begins, which Ray speaks: whoever does answers at once with a frame of settings, too."""
_START = "start one with the head option of `ray start`, or take local"
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
    _speaks(asked, address)
    return _lets_in(asked, address)


def _lets_in(asked: str, address: str) -> bool:
    """Put a question without a token, and with ours where that is not answered."""
    code, said = _answer(asked, address, RAY_AUTH_MODE="disabled")
    is_open = code == 0
    wants_token = not is_open and bool(re.search("auth|token", said, re.IGNORECASE))
    # Ray takes the token that is here where neither a mode nor an address is given.
    unsaid = "token" if wants_token and asked == "auto" and "RAY_ADDRESS" not in os.environ else ""
    if os.environ.get("RAY_AUTH_MODE", unsaid).lower() == "token" and (is_open or wants_token):
        code, said = _answer(asked, address, RAY_AUTH_MODE="token")
    if code == 0:
        return wants_token
    if is_open:
        raise UserError(
            f"ray {asked}: the cluster has no token, and RAY_AUTH_MODE=token is set here, where no token is; unset "
            "RAY_AUTH_MODE, or give the cluster a token (`ray get-auth-token` makes one before the cluster starts)"
        )
    there = _there(asked, address)
    if wants_token:
        raise UserError(
            f"ray {asked}: what answers {there} lets nobody in without its token, or not with ours; have it in "
            "~/.ray/auth_token here, and set RAY_AUTH_MODE=token"
        )
    raise UserError(
        f"ray {asked}: what answers {there} does not answer as Ray does; give HOST:PORT as `ray start` prints it"
    )


def _answer(asked: str, address: str, **environment: str) -> tuple[int, str]:
    """What came of a question, and what Ray printed; it is put by another process, whose end is its own.

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
                f"ray {asked}: Python did not import Ray within {_IMPORTED_WITHIN_S:.0f} s, so nobody asked the "
                "cluster; see that the disk of this machine answers, and try again"
            )
        process.stdout.readline()
        try:
            said = process.communicate(timeout=_LETS_IN_WITHIN_S)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            said = ""
    return process.returncode, said


def _there(asked: str, address: str) -> str:
    return "there" if asked == address else f"at {address}, where RAY_ADDRESS or a former `ray start` has it,"


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
    return any(
        f"--gcs_server_port={port}" in line and any(PRIVATE in word for word in line) for line in command_lines()
    )


def _speaks(asked: str, address: str) -> None:
    """Nothing, when what answers at an address begins to speak as Ray does."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host or not 0 < int(port) < 65_536:
        raise UserError(f"ray {shortened(address)}: give auto, local, or HOST:PORT as `ray start` prints it")
    there = _there(asked, address)
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
