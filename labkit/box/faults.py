"""Faults, on purpose: each holds while its `with` lasts, and is healed at its end.

They reach into a box from this machine, as root: what a cable, a power switch or a scheduler does
to a host that knows nothing of it. For a box in a user namespace, this module runs in there as a
program. It holds the fault until its standard input ends.
"""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labkit.box import needs
from labkit.box.cgroup import ENVIRONMENT, Cgroup
from labkit.box.folder import Folder, not_up, up_again
from labkit.box.lab_file import LinkStatus
from labkit.box.layout import Layout
from labkit.box.network.link import LinkPlan
from labkit.box.network.links import wires
from labkit.box.network.shaping import shaped
from labkit.box.rootless.user_namespace import Rootless
from labkit.errors import BadInput, BoxError, LabkitError, Unknown
from labkit.host import Host
from labkit.lab import opened

PROGRAMS = ("fallocate", "nsenter")

NETWORKS = ("data", "control")
# A port in this state takes and sends nothing, and neither end learns of it (bridge(8)).
SILENT, FORWARDING = "0", "3"
BAD_INPUT = 2


@dataclass(frozen=True)
class Faults:
    """The faults that can be made in one box that is up."""

    name: str

    @contextmanager
    def cut(self, role: str, network: str = "data") -> Iterator[None]:
        """No packet passes between `role` and that network, and no link goes down for it."""
        with self._make("cut", role, network):
            yield

    @contextmanager
    def _cut(self, role: str, network: str) -> Iterator[None]:
        ports = self._ports(role, network)
        try:
            for port in ports:
                self._bridge(port, SILENT)
            yield
        finally:
            for port in ports:
                self._heal(port)

    @contextmanager
    def shape(
        self, role: str, *, rate: str = "", delay: str = "", jitter: str = "", loss: str = ""
    ) -> Iterator[LinkStatus]:
        """The link of `role` to the data network does this and nothing else; returns what it does.

        Each direction has it: a round trip takes twice the delay longer. Texts with units, as in a
        topology: "100 Mbit/s", "2 ms", "0.1 %"; what is not named is as it comes.
        """
        with self._make("shape", role, rate, delay, jitter, loss) as link:
            yield link

    @contextmanager
    def _shape(
        self, role: str, rate: str, delay: str, jitter: str, loss: str
    ) -> Iterator[LinkStatus]:
        mtu = self._layout.topology.link(role).mtu
        with shaped(self.name, LinkPlan(role, rate, delay, jitter, loss, mtu)) as link:
            yield link

    @contextmanager
    def freeze(self, role: str) -> Iterator[None]:
        """Nothing runs on `role`, as when its hypervisor pauses it; its guests stand still too."""
        with self._make("freeze", role):
            yield

    @contextmanager
    def _freeze(self, role: str) -> Iterator[None]:
        # A guest's kernel traces its processes: they stop with it, and our signal would reach them.
        pids = [pid for pid in self._processes(role) if not _is_traced(pid)]
        try:
            _tell(pids, signal.SIGSTOP)
            yield
        finally:
            _tell(pids, signal.SIGCONT)

    def lose(self, role: str) -> None:
        """`role` is gone at once, with all that it had not written; `labkit box up` brings it back.

        A host takes its guests along, and the box is then broken until it is made again.
        """
        with self._make("lose", role):
            pass

    @contextmanager
    def _lose(self, role: str) -> Iterator[None]:
        _tell(self._processes(role), signal.SIGKILL)
        yield

    @contextmanager
    def fill(self, role: str, folder: str = "/tmp") -> Iterator[None]:
        """No space is left in the file system of `folder` on `role`."""
        with self._make("fill", role, folder):
            yield

    @contextmanager
    def _fill(self, role: str, folder: str) -> Iterator[None]:
        with opened(Folder(self.name).lab) as lab:
            host = lab.host(role)
            filler = f"{folder.rstrip('/')}/.labkit-filler"
            try:
                _fill(host, folder, filler)
                yield
            finally:
                host.check("rm", "-f", "--", filler)

    @contextmanager
    def skew(self, guest: str, seconds: float) -> Iterator[None]:
        """The clock of `guest` shows the time of day `seconds` later, or earlier when negative.

        Only a guest has a clock of its own: the hosts of a box share this machine's.
        """
        with self._make("skew", guest, seconds):
            yield

    @contextmanager
    def _skew(self, guest: str, seconds: float) -> Iterator[None]:
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

    def _make(self, fault: str, *words: Any) -> AbstractContextManager[Any]:
        if needs.is_root():
            fault_made: AbstractContextManager[Any] = getattr(self, f"_{fault}")(*words)
            return fault_made
        if Rootless(self.name).alive:
            return self._made_in_there([fault, *words])
        raise BoxError("the faults of a box need root", hint="use sudo")

    @contextmanager
    def _made_in_there(self, words: list[Any]) -> Iterator[Any]:
        command = [sys.executable, "-m", "labkit.box.faults", self.name, json.dumps(words)]
        with Rootless(self.name).started(command) as process:
            assert process.stdin and process.stdout and process.stderr
            if not (text := process.stdout.readline()):
                reason = process.stderr.read().strip()
                raise (BadInput if process.wait() == BAD_INPUT else BoxError)(reason)
            facts = json.loads(text)
            yield LinkStatus(**facts) if facts else None
            process.stdin.close()
            if process.wait():
                raise BoxError(f"{words[0]} was not healed", said=process.stderr.read())

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
        _run(["nsenter", "-t", str(self._pid("switch")), "-n",
              "bridge", "link", "set", "dev", port, "state", state])  # fmt: skip

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


def _is_within(pid: int, group: str) -> bool:
    with suppress(OSError):
        groups = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        return any(f"{line}/".find(f"{group}/") > 0 for line in groups)
    return False


def _user(pid: int) -> int:
    with suppress(OSError):
        return Path(f"/proc/{pid}").stat().st_uid
    return -1


def _is_traced(pid: int) -> bool:
    with suppress(OSError):
        return "\nTracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text()
    return True


def _tell(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _fill(host: Host, folder: str, filler: str) -> None:
    free = int(host.check("stat", "-f", "-c", "%a", "--", folder))
    size = int(host.check("stat", "-f", "-c", "%S", "--", folder))
    host.check("fallocate", "-l", str(max(free * size, 1)), "--", filler)


def _step(host: Host, seconds: float) -> None:
    moment = float(host.check("date", "+%s.%N"))
    host.check("date", "-s", f"@{moment + seconds:.6f}")


def _run(words: list[str]) -> None:
    result = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT)
    if result.returncode:
        raise BoxError(
            f"`{' '.join(words)}` ended with code {result.returncode}", said=result.stderr
        )


def main(name: str, text: str) -> None:
    """Make one fault, say so in a line of JSON, and heal it when nothing more can be read."""
    fault, *arguments = json.loads(text)
    try:
        with getattr(Faults(name), f"_{fault}")(*arguments) as link:
            print(json.dumps(asdict(link) if link else None), flush=True)
            sys.stdin.read()
    except LabkitError as error:
        print(error, file=sys.stderr)
        sys.exit(BAD_INPUT if isinstance(error, BadInput) else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
