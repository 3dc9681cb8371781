"""A neighbour on the host: a program that keeps CPUs busy, or goes through memory all the time."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.host import Host
from labkit.setting import Way, Words
from labkit.settings._ways import OnHost, cpus_of, one_of, ranges, script

KINDS = ("none", "busy", "memory")
PLACES = ("all CPUs", "all CPUs but the last")
NONE = "none"
NAME = "labkit-neighb"
# What the host's first process may use is what the host has, however many the machine has.
CPUS = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/1/status"
# No command that looks for them, or starts them, has their name on its own command line.
FIND = "pgrep -f '[l]abkit-neighbour-'"
READS = f"""\
for pid in $({FIND}); do
    kind=$(tr '\\0' ' ' < "/proc/$pid/cmdline" |
        sed -n 's/.*labkit-neighbou[r]-\\([a-z]*\\).*/\\1/p')
    cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$pid/status")
    [ -z "$kind" ] || echo "$kind $cpus"
done 2>/dev/null | sort
{CPUS}"""
# `memory` fills 64 MiB again and again: more than the last-level cache of most CPUs holds. A shell
# that computes says its name itself, so that whoever looks for foreign load knows it.
START = f"""\
for pid in $({FIND}); do kill -s KILL -- "-$pid"; done 2>/dev/null
[ "$1" != none ] || exit 0
cpus=$({CPUS} | tr , '\\n' | while IFS=- read -r a b; do seq "$a" "${{b:-$a}}"; done)
case $2 in
    all) ;;
    rest) cpus=$(echo "$cpus" | sed '$d') ;;
    *) cpus=$2 ;;
esac
mark=labkit-neighb mark=${{mark}}our work='printf {NAME} > /proc/self/comm; while :; do :; done'
[ "$1" != memory ] || work='dd if=/dev/zero of=/dev/null bs=64M; :'
for cpu in $cpus; do
    setsid -f taskset -c "$cpu" sh -c "$work" "$mark-$1" </dev/null >/dev/null 2>&1
done"""


@dataclass(frozen=True)
class Neighbour(OnHost):
    """One such program on each of the host's CPUs, or of all but the last, which a guest may own.

    `busy` computes in registers, `memory` fills 64 MiB again and again and so empties the cache
    that CPUs share. A host of one CPU has no "all but the last".
    """

    kind: str = NONE
    place: str = PLACES[0]

    def __post_init__(self) -> None:
        one_of("kind of neighbour", self.kind, KINDS)
        one_of("place of a neighbour", self.place, PLACES)

    @property
    def ours(self) -> tuple[str, ...]:
        """The loops, and what goes through memory."""
        return (NAME, "dd")

    @property
    def wanted(self) -> str:
        """The kind, and where."""
        return NONE if self.kind == NONE else f"{self.kind} on {self.place}"

    def on_linux(self, host: Host) -> Way:
        """Processes in sessions of their own, found again by their name."""
        return Way(
            script(READS), _writes, _value, self._refused, settle_seconds=2, seconds=0.3,
            probe=("sh", "-c", "for p in setsid taskset pgrep dd; do command -v $p || exit; done"),
            legal="none, or busy or memory on all CPUs or all but the last",
        )  # fmt: skip

    def _refused(self, text: str) -> str:
        alone = len(cpus_of(text.splitlines()[-1])) == 1
        return "this host has one CPU only" if alone and self.wanted.endswith("last") else ""


def _writes(value: str) -> tuple[Words, ...]:
    kind, _, place = value.partition(" on ")
    known = {PLACES[0]: "all", PLACES[1]: "rest"}
    where = known.get(place) or " ".join(map(str, cpus_of(place) if place else ()))
    return (script(START, kind, where),)


# One line for each of them, then the host's CPUs.
def _value(text: str) -> str:
    *found, allowed = text.splitlines()
    if not found:
        return NONE
    pairs = [line.split() for line in found]
    kinds = " and ".join(sorted({kind for kind, _ in pairs}))
    on = tuple(sorted(n for _, cpus in pairs for n in cpus_of(cpus)))
    every = cpus_of(allowed)
    places = {every[:-1]: PLACES[1], every: PLACES[0]}
    return f"{kinds} on {places.get(on) or ranges(on)}"
