"""The machine behind a key: cloned machines have the same keys, and addresses move.

`labkit trust` notes the identity of a machine beside the lab's known_hosts, one line of JSON for
each; before labkit changes a host, `check_pin` compares it. A host without a pin is not compared.
"""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from labkit.errors import HostError, WrongHost
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.ssh.address import Address
from labkit.ssh.known_hosts import append
from labkit.ssh.openssh import resolved

PROGRAMS = ("esxcli",)

# machine-id(5); ESXi has a UUID of its own; else what the firmware says, which root may read.
ASK = beside(__file__, "pins_ask.sh")


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
    if not isinstance(at, Address) or not at.lab:
        return
    if pins := list(read(pin_file(at))):
        name = resolved(at).known_as.first
        for place, pin in [entry for entry in pins if entry[1].name == name][-1:]:
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


def read(file: Path) -> Iterator[tuple[str, Pin]]:
    """The pins of a file, oldest first, and where each stands."""
    with suppress(FileNotFoundError):
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            if line.strip():
                yield f"{file}:{number}", _pin(line, f"{file}:{number}")


def remember(file: Path, pin: Pin) -> None:
    """Add a pin, for good."""
    append(file, json.dumps(asdict(pin)))


# A pin that cannot be read may be the one that would have stopped us.
def _pin(line: str, place: str) -> Pin:
    try:
        return Pin(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise WrongHost(
            f"{place}: cannot be read, so no machine can be compared with it",
            said=str(error),
            hint="remove the line, and run labkit trust again",
        ) from None
