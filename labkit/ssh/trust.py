"""First contact: the keys that a host shows, and the machine behind them, kept beside a lab.

`labkit trust` adds the keys to the lab's own known_hosts. Cloned machines have the same keys, and
addresses move: so the identity of the machine is noted beside it, one line of JSON for each, and
compared before labkit changes a host. A host without such a pin is not compared.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import paramiko

from labkit.errors import HostError, LabkitError, Unreachable, WrongHost
from labkit.host import Host
from labkit.machine.records import sync
from labkit.machine.scripts import beside
from labkit.ssh.address import Address, Target, resolved
from labkit.ssh.certificates import fingerprint, kind_of
from labkit.ssh.connection import HungUp, shaken_hands
from labkit.ssh.known_hosts import PLAIN, RSA_SIGNATURES, KeyStatus, KnownHosts

PROGRAMS = ("esxcli",)

# One connection for each: a server shows one key at a time.
KINDS = (PLAIN[:1], PLAIN[1:4], RSA_SIGNATURES)
# machine-id(5); ESXi has a UUID of its own; else what the firmware says, which root may read.
ASK = beside(__file__, "trust_ask.sh")


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


def shown(target: Target) -> tuple[Shown, ...]:
    """The keys of a host, one of each kind that it has; nobody logs in."""
    host_keys, hung_up = list[Shown](), list[HungUp]()
    for kinds in KINDS:
        try:
            client = shaken_hands(target, kinds)
        except HungUp as error:  # Dropbear has no word for a kind that it lacks
            if not isinstance(error.__cause__, paramiko.ssh_exception.IncompatiblePeer):
                hung_up.append(error)
        else:
            client.close()
            host_keys.append(Shown(client.shown))
    if hung_up and not host_keys:
        raise hung_up[0]
    if not host_keys:
        raise Unreachable(
            f"{target.name}: {target.address} port {target.port} has no key of a known kind",
            hint=f"known kinds: {', '.join(PLAIN)}",
        )
    return tuple(host_keys)


def is_known(target: Target, keys: Sequence[Shown]) -> bool:
    """Whether the host has proved itself by a known key; a changed or revoked one is refused."""
    known_hosts = KnownHosts.read(target.known_hosts)
    judgements = {key: known_hosts.judge(target.known_as, key.key) for key in keys}
    if any(judgement.status is KeyStatus.KNOWN for judgement in judgements.values()):
        return True
    for bad in (KeyStatus.REVOKED, KeyStatus.CHANGED):
        for key, judgement in judgements.items():
            if judgement.status is bad:
                raise known_hosts.refusal(target.name, target.known_as, key.key, judgement)
    return False


def keep(file: Path, target: Target, keys: Sequence[Shown]) -> None:
    """Make keys known: lines are added to `file`, which is never written again."""
    name = target.known_as.first
    append(file, *(f"{name} {key.kind} {base64.b64encode(key.key).decode()}" for key in keys))


@dataclass(frozen=True)
class Pin:
    """A machine as it was when it was trusted: its own identity, and its host name."""

    name: str
    """Its name in known_hosts."""
    machine: str
    """The source of the identity, and the identity itself: `machine-id 0f3c...`."""
    hostname: str
    since: str


def check_pin(host: Host) -> None:
    """Raise `WrongHost` unless this is the machine that was trusted; one command, if any.

    To be called before a host is changed. Reading from it is harmless, and needs no check.
    """
    at = getattr(host.transport, "at", None)
    if not isinstance(at, Address) or not at.lab or not pin_file(at).exists():
        return
    name = resolved(at).known_as.first
    for place, pin in pins_of(at, name)[-1:]:
        compare(host.name, pin, place, identity(host, name))


def compare(name: str, pin: Pin, place: str, present: Pin) -> None:
    """Raise `WrongHost` when the machine, or its host name, is not the pinned one."""
    if (pin.machine, pin.hostname) != (present.machine, present.hostname):
        raise WrongHost(
            f"{name}: the key is right, but this is another machine; nothing is changed on it",
            said=f"trusted: {pin.machine}, host name {pin.hostname} ({place})\n"
            f"found: {present.machine}, host name {present.hostname}",
            hint=f"is it a clone, or another host at this address? if it is right, remove {place}"
            " and run labkit trust again",
        )


def identity(host: Host, name: str) -> Pin:
    """Ask a host which machine it is."""
    texts = host.check("sh", "-c", f"exec 2>/dev/null; {ASK}").split("\n")
    if len(texts) < 2 or texts[0].startswith("none"):
        raise HostError(
            f"{host.name}: the machine has no machine ID",
            hint="check /etc/machine-id; systemd-machine-id-setup creates it",
        )
    return Pin(name, texts[0].strip(), texts[1].strip(), time.strftime("%Y-%m-%d %H:%M:%S"))


def pin_file(at: Address) -> Path:
    """The file that may hold pins: beside the lab's own known_hosts."""
    path = Path(at.known_hosts[0]).expanduser()
    return path.with_name(f"{path.name}.machines")


def pins_of(at: Address, name: str) -> list[tuple[str, Pin]]:
    """The pins of a name, oldest first, and where each stands.

    A pin that cannot be read may be the one that would have stopped us.
    """
    lines, found = list[str](), list[tuple[str, Pin]]()
    with suppress(FileNotFoundError):
        lines = pin_file(at).read_text("utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        place = f"{pin_file(at)}:{number}"
        try:
            found += [(place, Pin(**json.loads(line)))] if line.strip() else []
        except (ValueError, TypeError) as error:
            raise WrongHost(
                f"{place}: cannot be read, so no machine can be compared with it",
                said=str(error),
                hint="remove the line, and run labkit trust again",
            ) from None
    return [(place, pin) for place, pin in found if pin.name == name]


def pin_down(at: Address, pin: Pin) -> None:
    """Add a pin, for good."""
    append(pin_file(at), json.dumps(asdict(pin)))


class NotKept(LabkitError):
    """A line could not be written down."""


def append(file: Path, *lines: str) -> None:
    """Add lines at the end of a file that only its owner may read, and wait for the disk."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "rb+") as stream:
            # Somebody's editor may have left the last line without its end.
            size = os.fstat(stream.fileno()).st_size
            end = b"\n" if size and os.pread(stream.fileno(), 1, size - 1) != b"\n" else b""
            # One write: whoever else adds a line at this moment does so before it or after it.
            stream.write(end + "".join(f"{line}\n" for line in lines).encode())
            stream.flush()
            os.fsync(stream.fileno())
        sync(file.parent)
    except OSError as error:
        raise NotKept(f"cannot write {file}", said=str(error)) from error
