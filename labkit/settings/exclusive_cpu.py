"""A CPU that the guest does not have to share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from labkit.errors import HostError
from labkit.host import Host
from labkit.setting import Setting
from labkit.settings.guest_nic import refusal_without_guest

EXCLUSIVE, SHARED = "last CPU, fifo", "all CPUs, other"
ALLOWED = "Cpus_allowed_list:"


@dataclass(frozen=True)
class ExclusiveCpu(Setting):
    """All threads of the guest on the host's last CPU, ahead of every ordinary process there.

    Not exclusive, they share all of the host's CPUs as ordinary processes do. What the guest starts
    later inherits it. Takes effect at once, without a restart.
    """

    role: ClassVar[str] = "server"

    exclusive: bool = True

    @property
    def wanted(self) -> str:
        """The same words on every host, whatever the numbers of its CPUs."""
        return EXCLUSIVE if self.exclusive else SHARED

    def read(self, host: Host) -> str:
        """CPUs and policy that all threads of the guest really have, or will start with."""
        lines = host.check("guest", "placement").splitlines()
        if len(lines) != 1:
            said = "\n".join(lines)
            raise HostError(f"{host.name}: the guest's threads differ in placement", said=said)
        cpus = _cpus(host)
        named = {f"{_last(cpus)} fifo": EXCLUSIVE, f"{cpus} other": SHARED}
        return named.get(lines[0], lines[0])

    def write(self, host: Host, value: str) -> None:
        """Move all threads of the guest."""
        all_cpus = _cpus(host)
        named = {EXCLUSIVE: (_last(all_cpus), "fifo"), SHARED: (all_cpus, "other")}
        cpus, policy = named.get(value) or value.split()
        host.check("guest", "set", f"cpus={cpus}", f"policy={policy}")

    def refusal(self, host: Host) -> str:
        """There must be a guest, and the right to real-time priority."""
        if why := refusal_without_guest(host):
            return why
        allowed = host.run("chrt", "-f", "1", "true").ok
        return "" if allowed else f"{host.name} does not let its root have real-time priority"


# What the host's first process may use is what the host has, however many the machine has.
def _cpus(host: Host) -> str:
    lines = host.check("cat", "/proc/1/status").splitlines()
    return next(line for line in lines if line.startswith(ALLOWED)).removeprefix(ALLOWED).strip()


def _last(cpus: str) -> str:
    return cpus.replace("-", ",").split(",")[-1]
