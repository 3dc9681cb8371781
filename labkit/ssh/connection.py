"""A logged-in SSH connection to a host whose key we know."""

import logging
import random
import time
from dataclasses import replace

from labkit.errors import Unreachable
from labkit.ssh.address import Address as Address
from labkit.ssh.address import Target, resolved
from labkit.ssh.client import LOSSES
from labkit.ssh.client import Client as Client
from labkit.ssh.known_hosts import KnownHosts
from labkit.ssh.login import check_pause, log_in
from labkit.ssh.way import through

CONNECT_SECONDS = 15.0
# What sshd says before it hangs up on an address that comes too often, if it says anything.
BUSY = ("Exceeded MaxStartups", "Not allowed at this time")
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0

# What goes wrong is raised; paramiko would print it besides, with a traceback.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


def connect(at: Address, seconds: float = CONNECT_SECONDS) -> Client:
    """A logged-in connection to a host whose key we know, or a typed error.

    It must answer within `seconds`; then each step has the usual time.
    """
    return reached(_within(resolved(at), seconds))


def _within(target: Target, seconds: float) -> Target:
    jump = target.jump and _within(target.jump, seconds)
    return replace(target, seconds=min(target.seconds, seconds), jump=jump)


def reached(target: Target) -> Client:
    """The same, for a host that ssh's files have been asked about, through its jump hosts."""
    check_pause(target)
    known_hosts = KnownHosts.read(target.known_hosts)
    client = shaken_hands(target, known_hosts.algorithms(target.known_as))
    try:
        title = f"{target.name}{_way(target, client)}"
        known_hosts.verify(title, target.known_as, client.shown, target.trust)
        log_in(client, target)
    except BaseException as error:
        client.close()
        if isinstance(error, LOSSES):
            text = client.farewell or str(error) or "it hung up"
            raise _failure(target, client, "while logging in", text) from error
        raise
    return client


class HungUp(Unreachable):
    """The connection ended while keys were exchanged."""


class _TurnedAwayError(Exception):
    pass


# A server with too many logins under way turns some away at random (sshd_config(5), MaxStartups):
# these are tried again, ever more slowly.
def shaken_hands(target: Target, algorithms: tuple[str, ...]) -> Client:
    """A connection whose keys are exchanged; the host's key is not judged yet."""
    start, attempts = time.monotonic(), 0
    while True:
        try:
            return _shaken_hands(target, algorithms)
        except _TurnedAwayError as busy:
            pause = min(FIRST_PAUSE * 2**attempts, LONGEST_PAUSE) * random.uniform(0.5, 1.0)
            attempts += 1
            if time.monotonic() + pause - start > CONNECT_SECONDS:
                raise Unreachable(
                    f"{target.name}: {target.address} port {target.port} refuses new connections"
                    f" from this address: {attempts} in {CONNECT_SECONDS:g} s",
                    said=str(busy) or "it hangs up before it says anything",
                    hint="wait, and see MaxStartups and PerSourcePenalties in its sshd_config",
                ) from None
            time.sleep(pause)


def _shaken_hands(target: Target, algorithms: tuple[str, ...]) -> Client:
    client = Client(through(target, reached), algorithms)
    try:
        if client.exchange_keys(CONNECT_SECONDS):
            return client
        raise _no_session(target, client, None)
    except (Unreachable, _TurnedAwayError):
        client.close()
        raise
    except Exception as error:
        client.ended_by()  # until it knows what went with it
        client.close()
        raise _no_session(target, client, error) from error
    except BaseException:  # Ctrl-C
        client.close()
        raise


def _no_session(target: Target, client: Client, error: Exception | None) -> Exception:
    text = f"nothing within {CONNECT_SECONDS:g} s"
    if error:
        text = str(error) or "it hung up"
    if client.lost_on_the_way:
        return _failure(target, client, "on the way", client.lost_on_the_way)
    if client.remote_version:
        text = client.farewell or text
        return _failure(target, client, "while exchanging keys", text, HungUp)
    banner = client.heard
    if banner.startswith(BUSY) or (error and not banner):
        return _TurnedAwayError(banner)
    return Unreachable(
        f"{target.name}: no SSH session with {target}{_way(target, client)}:"
        f" no SSH banner in {CONNECT_SECONDS:g} s",
        said=banner or text,
        hint="check the port of its sshd" if banner else "does the host hang?",
    )


# Of the addresses of a name one may be wrong, and it is not always the same that answers.
def _way(target: Target, client: Client) -> str:
    is_same = client.reached_at.split(" ")[0] == target.address
    return "" if is_same else f" (at {client.reached_at})"


def _failure(
    target: Target, client: Client, stage: str, text: str, kind: type[Unreachable] = Unreachable
) -> Unreachable:
    return kind(
        f"{target.name}: no SSH session with {target}{_way(target, client)}: failed {stage}",
        said=text,
        hint=f"try `ssh -p {target.port} {target.user}@{target.address} true`",
    )
