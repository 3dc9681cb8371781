"""Faults, on purpose: each holds while its `with` lasts, and is healed at its end.

They reach into a box from this machine, as root: what a cable does to a host that knows nothing of
it. For a box in a user namespace, this module runs in there as a program. It holds the fault until
its standard input ends.
"""

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from labkit.box import needs
from labkit.box.cgroup import Cgroup
from labkit.box.folder import up_again
from labkit.box.layout import Layout
from labkit.box.network.link import LinkPlan
from labkit.box.network.links import wires
from labkit.box.network.shaping import Shaping, shaped
from labkit.box.processes import network_of, run
from labkit.box.rootless.user_namespace import Rootless
from labkit.box.status import LinkStatus
from labkit.errors import BadInput, BoxError, LabkitError, Unknown

PROGRAMS = ("bridge",)

NETWORKS = ("data", "control")
# A port in this state takes and sends nothing, and neither end learns of it (bridge(8)).
SILENT, FORWARDING = "0", "3"


@dataclass(frozen=True)
class Faults:
    """The faults that can be made in one box that is up."""

    name: str

    def cut(self, role: str, network: str = "data") -> AbstractContextManager[None]:
        """No packet passes between `role` and that network, and no link goes down for it."""
        return _made("cut", self.name, role, network)

    def shape(
        self, role: str, *, rate: str = "", delay: str = "", jitter: str = "", loss: str = ""
    ) -> AbstractContextManager[LinkStatus]:
        """The link of `role` to the data network does this and nothing else; returns what it does.

        Each direction has it: a round trip takes twice the delay longer. Texts with units, as in a
        topology: "100 Mbit/s", "2 ms", "0.1 %"; what is not named is as it comes.
        """
        return _made("shape", self.name, role, rate, delay, jitter, loss)


# Here as root, or else in the user namespace of the box.
@contextmanager
def _made(fault: str, name: str, *words: str) -> Iterator[Any]:
    if needs.is_root():
        with FAULTS[fault](name, *words) as link:
            yield link
        return
    if not Rootless(name).alive:
        raise BoxError("the faults of a box need root", hint="use sudo")
    command = [sys.executable, "-m", "labkit.box.faults", fault, name, *words]
    with Rootless(name).started(command) as process:
        assert process.stdin and process.stdout and process.stderr
        if not (text := process.stdout.readline()):
            reason = process.stderr.read().strip()
            raise (BadInput if process.wait() == BadInput.exit_code else BoxError)(reason)
        facts = json.loads(text)
        yield LinkStatus(**facts) if facts else None
        process.stdin.close()
        if process.wait():
            raise BoxError(f"{fault} was not healed", said=process.stderr.read())


@contextmanager
def _cut(name: str, role: str, network: str) -> Iterator[None]:
    box = Shaping.of(name)
    ports, switch = _ports(box.layout, role, network), box.pids["switch"]
    if switch not in Cgroup.of(name).pids():
        raise BoxError(f"the switch of box {name} is gone", hint=up_again(name))
    try:
        for port in ports:
            _set(switch, port, SILENT)
        yield
    finally:
        for port in ports:
            _heal(switch, port)


FAULTS: Mapping[str, Callable[..., AbstractContextManager[LinkStatus | None]]] = {
    "cut": _cut, "shape": lambda name, *figures: shaped(name, LinkPlan(*figures)),
}  # fmt: skip


# A host's data network has two ports where it has guests: its own, and its virtual switch's.
def _ports(layout: Layout, role: str, network: str) -> list[str]:
    if role not in layout.roles:
        raise Unknown(f"role of box {layout.name}", role, layout.roles)
    if network not in NETWORKS:
        raise Unknown("network", network, NETWORKS)
    if role not in layout.hosts and network == "data":
        raise BadInput(
            f"{role} reaches the data network through {layout.on(role)}",
            hint=f"cut {layout.on(role)}, or the control network of {role}",
        )
    seat = layout.seat(role)
    stems = {f"h{seat}", f"v{seat}"} if role in layout.hosts else {f"g{seat}"}
    return [w.near for w in wires(layout)
            if w.bridge == network and w.near.split("-")[0] in stems]  # fmt: skip


def _set(switch: int, port: str, state: str) -> None:
    run(["bridge", "link", "set", "dev", port, "state", state], within=network_of(switch))


# A port whose other end was switched off meanwhile forwards by itself once that is on again.
def _heal(switch: int, port: str) -> None:
    try:
        _set(switch, port, FORWARDING)
    except BoxError as error:
        if os.strerror(errno.ENETDOWN) not in error.said:
            raise


def main(fault: str, *words: str) -> None:
    """Make one fault, say so in a line of JSON, and heal it when nothing more can be read."""
    try:
        with FAULTS[fault](*words) as link:
            print(json.dumps(asdict(link) if link else None), flush=True)
            sys.stdin.read()
    except LabkitError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main(*sys.argv[1:])
