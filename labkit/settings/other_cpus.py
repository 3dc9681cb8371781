"""The CPUs of the guests beside one that owns the last CPU."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.host import Host
from labkit.setting import Way, Words
from labkit.settings._ways import OnHost, cpus_of, named, ranges, script

APART, SHARED = "all CPUs but the last", "all CPUs"
CPUS = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/1/status"
READS = f'guest "@$1" placement && {CPUS}'
WRITE = 'guest "@$1" set "cpus=$2" policy=other'
FIND = f"""\
cpus=$({CPUS} | tr , '\\n' | while IFS=- read -r a b; do seq "$a" "${{b:-$a}}"; done)
[ "$2" = all ] || cpus=$(echo "$cpus" | sed '$d')
set -- "$1" "$(echo "$cpus" | paste -s -d , -)"
{WRITE}"""


@dataclass(frozen=True)
class OtherCpus(OnHost):
    """All threads of `guest` on all of the host's CPUs, or `apart` from a guest that owns the last.

    It goes with ExclusiveCpu of the other guest: a CPU is owned when everybody else stays away.
    """

    guest: str = "guest2"
    apart: bool = True

    def __post_init__(self) -> None:
        named("guest", self.guest)

    @property
    def which(self) -> str:
        """The guest."""
        return self.guest

    @property
    def wanted(self) -> str:
        """The same words on every host, whatever the numbers of its CPUs."""
        return APART if self.apart else SHARED

    def on_box(self, host: Host) -> Way:
        """What all of its threads really have, or will start with."""
        return Way(
            script(READS, self.guest), self._writes, _value, self._refused,
            legal="apart or not",
        )  # fmt: skip

    # What its ends mean is asked of the host: the numbers of its CPUs are its own.
    def _writes(self, value: str) -> tuple[Words, ...]:
        if value in (APART, SHARED):
            return (script(FIND, self.guest, "rest" if value == APART else "all"),)
        return (script(WRITE, self.guest, value),)

    def _refused(self, text: str) -> str:
        *placements, allowed = text.splitlines()
        if len(placements) != 1:
            return f"the threads of {self.guest} differ in placement"
        alone = len(cpus_of(allowed)) == 1
        return "this host has one CPU only" if alone and self.apart else ""


def _value(text: str) -> str:
    *placements, allowed = text.splitlines()
    every = cpus_of(allowed)
    known = {every: SHARED, every[:-1]: APART}
    said = []
    for placement in placements:
        cpus, policy = placement.split()
        on = cpus_of(cpus)
        words = known.get(on) or ranges(on)
        said.append(words if policy == "other" else f"{words}, {policy}")
    return "; ".join(said)
