"""A CPU that the guest does not have to share."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.host import Host
from labkit.setting import Way, Words
from labkit.settings._guest import FIRST, OfGuest, only_with_guest

EXCLUSIVE, SHARED = "last CPU, fifo", "all CPUs, other"
# What the host's first process may use is what the host has, however many the machine has.
CPUS = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/1/status"
READS = f"GUEST placement && {CPUS}"
ON_LAST = f'cpus=$({CPUS}) && GUEST set "cpus=${{cpus##*[,-]}}" policy=fifo'
ON_ALL = f'cpus=$({CPUS}) && GUEST set "cpus=$cpus" policy=other'


@dataclass(frozen=True)
class ExclusiveCpu(OfGuest):
    """All threads of the guest on the host's last CPU, ahead of every ordinary process there.

    Not exclusive, they share all of the host's CPUs as ordinary processes do. What the guest starts
    later inherits it. Takes effect at once, without a restart.
    """

    exclusive: bool = True
    guest: str = FIRST

    @property
    def wanted(self) -> str:
        """The same words on every host, whatever the numbers of its CPUs."""
        return EXCLUSIVE if self.exclusive else SHARED

    def way(self, kind: str, host: Host) -> Way:
        """CPUs and policy that all threads of the guest really have, or will start with."""
        only_with_guest(kind, host)
        return Way(
            ("sh", "-c", self._told(READS)), self._writes, _value, _differing,
            probe=("chrt", "-f", "1", "true"), legal="exclusive or not",
        )  # fmt: skip

    def _told(self, script: str) -> str:
        return script.replace("GUEST", self.shell)

    def _writes(self, value: str) -> tuple[Words, ...]:
        if value in (EXCLUSIVE, SHARED):
            return (("sh", "-c", self._told(ON_LAST if value == EXCLUSIVE else ON_ALL)),)
        cpus, policy = value.split()
        return ((*self.command, "set", f"cpus={cpus}", f"policy={policy}"),)


# One line for each placement that threads of the guest have, then the host's CPUs.
def _value(text: str) -> str:
    *placements, cpus = text.splitlines()
    named = {f"{_last(cpus)} fifo": EXCLUSIVE, f"{cpus} other": SHARED}
    return "; ".join(named.get(placement, placement) for placement in placements)


def _differing(text: str) -> str:
    return "the guest's threads differ in placement" if len(text.splitlines()) != 2 else ""


def _last(cpus: str) -> str:
    return cpus.replace("-", ",").split(",")[-1]
