"""Faults, on purpose: each holds while its `with` lasts, and is healed at its end.

They reach into a box from this machine, as root: what a cable, a power switch or a scheduler does
to a host that knows nothing of it. For a box in a user namespace, this module runs in there as a
program. It holds the fault until its standard input ends.
"""

import errno
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from labkit.box import needs
from labkit.box.cgroup import Cgroup
from labkit.box.folder import Folder, not_up, up_again
from labkit.box.lab_file import LinkStatus
from labkit.box.layout import Layout
from labkit.box.network.link import LinkPlan
from labkit.box.network.links import wires
from labkit.box.network.shaping import shaped
from labkit.box.processes import network_of, run
from labkit.box.rootless.user_namespace import Rootless
from labkit.errors import BadInput, BoxError, LabkitError, Unknown
from labkit.host import Host
from labkit.lab import opened

PROGRAMS = ("bridge", "fallocate")

NETWORKS = ("data", "control")
# A port in this state takes and sends nothing, and neither end learns of it (bridge(8)).
SILENT, FORWARDING = "0", "3"
BAD_INPUT = 2
P = ParamSpec("P")
T = TypeVar("T")


def _fault(method: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
    """Make it here as root, or else in the user namespace of the box."""
    as_context = contextmanager(method)

    @wraps(method)
    def make(*words: P.args, **named: P.kwargs) -> AbstractContextManager[Any]:
        faults, *others = words
        assert isinstance(faults, Faults)
        if needs.is_root():
            return as_context(*words, **named)
        if Rootless(faults.name).alive:
            return faults._made_in_there(method.__name__, others, named)
        raise BoxError("the faults of a box need root", hint="use sudo")

    return make


@dataclass(frozen=True)
class Faults:
    """The faults that can be made in one box that is up."""

    name: str

    @_fault
    def cut(self, role: str, network: str = "data") -> Iterator[None]:
        """No packet passes between `role` and that network, and no link goes down for it."""
        ports = self._ports(role, network)
        try:
            for port in ports:
                self._bridge(port, SILENT)
            yield
        finally:
            for port in ports:
                self._heal(port)

    @_fault
    def shape(
        self, role: str, *, rate: str = "", delay: str = "", jitter: str = "", loss: str = ""
    ) -> Iterator[LinkStatus]:
        """The link of `role` to the data network does this and nothing else; returns what it does.

        Each direction has it: a round trip takes twice the delay longer. Texts with units, as in a
        topology: "100 Mbit/s", "2 ms", "0.1 %"; what is not named is as it comes.
        """
        mtu = self._layout.topology.link(role).mtu
        with shaped(self.name, LinkPlan(role, rate, delay, jitter, loss, mtu)) as link:
            yield link

    @_fault
    def freeze(self, role: str) -> Iterator[None]:
        """Nothing runs on `role`, as when its hypervisor pauses it; its guests stand still too."""
        # A guest's kernel traces its processes: they stop with it, and our signal would reach them.
        pids = [pid for pid in self._processes(role) if "\nTracerPid:\t0\n" in _text(pid, "status")]
        try:
            _tell(pids, signal.SIGSTOP)
            yield
        finally:
            _tell(pids, signal.SIGCONT)

    def lose(self, role: str) -> None:
        """`role` is gone at once, with all that it had not written; `labkit box up` brings it back.

        A host takes its guests along, and the box is then broken until it is made again.
        """
        with self._lost(role):
            pass

    @_fault
    def _lost(self, role: str) -> Iterator[None]:
        _tell(self._processes(role), signal.SIGKILL)
        yield

    @_fault
    def fill(self, role: str, folder: str = "/tmp") -> Iterator[None]:
        """No space is left in the file system of `folder` on `role`."""
        with opened(Folder(self.name).lab) as lab:
            host, filler = lab.host(role), f"{folder.rstrip('/')}/.labkit-filler"
            free, size = host.check("stat", "-f", "-c", "%a %S", "--", folder).split()
            try:
                host.check("fallocate", "-l", str(max(int(free) * int(size), 1)), "--", filler)
                yield
            finally:
                host.check("rm", "-f", "--", filler)

    @_fault
    def skew(self, guest: str, seconds: float) -> Iterator[None]:
        """The clock of `guest` shows the time of day `seconds` later, or earlier when negative.

        Only a guest has a clock of its own: the hosts of a box share this machine's.
        """
        if guest not in self._layout.guests:
            raise BadInput(
                f"{guest} shares the clock of this machine",
                hint=f"guests have their own: {', '.join(self._layout.guests) or 'none here'}",
            )
        with opened(Folder(self.name).lab) as lab:
            host = lab.host(guest)
            try:
                _step(host, seconds)
                yield
            finally:
                _step(host, -seconds)

    @contextmanager
    def _made_in_there(self, fault: str, words: list[Any], named: dict[str, Any]) -> Iterator[Any]:
        words_in_json = json.dumps([fault, words, named])
        command = [sys.executable, "-m", "labkit.box.faults", self.name, words_in_json]
        with Rootless(self.name).started(command) as process:
            assert process.stdin and process.stdout and process.stderr
            if not (text := process.stdout.readline()):
                reason = process.stderr.read().strip()
                raise (BadInput if process.wait() == BAD_INPUT else BoxError)(reason)
            facts = json.loads(text)
            yield LinkStatus(**facts) if facts else None
            process.stdin.close()
            if process.wait():
                raise BoxError(f"{fault} was not healed", said=process.stderr.read())

    @property
    def _layout(self) -> Layout:
        try:
            return Layout.from_json(Folder(self.name).layout.read_text())
        except OSError:
            raise not_up(self.name) from None

    # A host's data network has two ports where it has guests: its own, and its virtual switch's.
    def _ports(self, role: str, network: str) -> list[str]:
        layout = self._layout
        if role not in layout.roles:
            raise Unknown(f"role of box {self.name}", role, layout.roles)
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

    def _bridge(self, port: str, state: str) -> None:
        words = ["bridge", "link", "set", "dev", port, "state", state]
        run(words, within=network_of(self._pid("switch")))

    # A port whose other end was switched off meanwhile forwards by itself once that is on again.
    def _heal(self, port: str) -> None:
        try:
            self._bridge(port, FORWARDING)
        except BoxError as error:
            if os.strerror(errno.ENETDOWN) not in error.said:
                raise

    # All processes that are in the namespace of a host or container, or that are those of a guest.
    def _processes(self, role: str) -> list[int]:
        layout = self._layout
        if role not in layout.roles:
            raise Unknown(f"role of box {self.name}", role, layout.roles)
        if role in layout.containers and layout.on(role) in layout.guests:
            raise BadInput(
                f"the processes of {role} are those of another kernel",
                hint=f"strike {layout.on(role)}, which runs it",
            )
        holder = self._pid(role if role in layout.hosts else layout.on(role))
        space = _space(holder, "pid_for_children")
        members = Cgroup.of(self.name).pids()
        if role in layout.containers:
            group = f"/at-{layout.on(role)}/containers/{role}"
            return [pid for pid in members if _is_within(pid, group)]
        pids = [pid for pid in members if _space(pid) == space]
        if role in layout.guests:
            pids = [pid for pid in pids if _user(pid) == layout.uid(role)]
        return pids

    def _pid(self, role: str) -> int:
        try:
            pid = int(json.loads(Folder(self.name).pids.read_text())[role])
        except (OSError, ValueError, KeyError):
            raise not_up(self.name) from None
        if pid not in Cgroup.of(self.name).pids():
            raise BoxError(f"the {role} of box {self.name} is gone", hint=up_again(self.name))
        return pid


def _space(pid: int, kind: str = "pid") -> str:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    return ""


def _text(pid: int, name: str) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_text()
    return ""


def _is_within(pid: int, group: str) -> bool:
    return any(f"{line}/".find(f"{group}/") > 0 for line in _text(pid, "cgroup").splitlines())


def _user(pid: int) -> int:
    with suppress(OSError):
        return Path(f"/proc/{pid}").stat().st_uid
    return -1


def _tell(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _step(host: Host, seconds: float) -> None:
    moment = float(host.check("date", "+%s.%N"))
    host.check("date", "-s", f"@{moment + seconds:.6f}")


def main(name: str, text: str) -> None:
    """Make one fault, say so in a line of JSON, and heal it when nothing more can be read."""
    fault, words, named = json.loads(text)
    try:
        with getattr(Faults(name), fault)(*words, **named) as link:
            print(json.dumps(asdict(link) if link else None), flush=True)
            sys.stdin.read()
    except LabkitError as error:
        print(error, file=sys.stderr)
        sys.exit(BAD_INPUT if isinstance(error, BadInput) else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
