"""First contact: which keys a host shows, and how they get into the lab's own known_hosts."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import paramiko

from labkit.errors import Unreachable
from labkit.ssh._known_lines import RSA_SIGNATURES
from labkit.ssh.address import Target
from labkit.ssh.certificates import fingerprint, kind_of
from labkit.ssh.connection import EXCHANGING, shaken_hands
from labkit.ssh.known_hosts import PLAIN, KeyStatus, KnownHosts, append, refusal

# One connection for each: a server shows one key at a time.
KINDS = (PLAIN[:1], PLAIN[1:4], RSA_SIGNATURES)


@dataclass(frozen=True)
class Shown:
    """A key that a host shows, and can sign with."""

    key: bytes

    @property
    def kind(self) -> str:
        """Such as `ssh-ed25519`."""
        return kind_of(self.key)

    @property
    def fingerprint(self) -> str:
        """The fingerprint, as ssh-keygen prints it."""
        return fingerprint(self.key)

    def line(self, name: str) -> str:
        """The line of known_hosts that makes it known."""
        return f"{name} {self.kind} {base64.b64encode(self.key).decode()}"


def shown(target: Target) -> tuple[Shown, ...]:
    """The keys of a host, one of each kind that it has; nobody logs in."""
    host_keys, hung_up = list[Shown](), list[Unreachable]()
    for kinds in KINDS:
        try:
            host_keys += _ask_keys(target, kinds)
        except Unreachable as error:
            if EXCHANGING not in error.what:
                raise
            hung_up.append(error)  # Dropbear has no word for a kind that it lacks
    if hung_up and not host_keys:
        raise hung_up[0]
    if not host_keys:
        raise Unreachable(
            f"{target.name}: {target.address} port {target.port} has no key of a known kind",
            hint=f"known kinds: {', '.join(PLAIN)}",
        )
    return tuple(host_keys)


def _ask_keys(target: Target, kinds: tuple[str, ...]) -> list[Shown]:
    try:
        client = shaken_hands(target, kinds)
    except Unreachable as error:
        if isinstance(error.__cause__, paramiko.ssh_exception.IncompatiblePeer):
            return []
        raise
    client.close()
    return [Shown(client.shown)]


def is_known(target: Target, keys: Sequence[Shown]) -> bool:
    """Whether the host has proved itself by a known key; a changed or revoked one is refused."""
    known_hosts = KnownHosts.read(target.known_hosts)
    judgements = {key: known_hosts.judge(target.known_as, key.key) for key in keys}
    if any(judgement.status is KeyStatus.KNOWN for judgement in judgements.values()):
        return True
    for bad in (KeyStatus.REVOKED, KeyStatus.CHANGED):
        for key, judgement in judgements.items():
            if judgement.status is bad:
                raise refusal(target.name, target.known_as, key.key, judgement, known_hosts)
    return False


def keep(file: Path, target: Target, keys: Sequence[Shown]) -> None:
    """Make keys known: lines are added to `file`, which is never written again."""
    append(file, *(key.line(target.known_as.first) for key in keys))
