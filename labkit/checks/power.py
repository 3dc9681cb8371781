"""Do the CPUs sleep or change their clock while labkit measures?"""

from collections.abc import Iterator

from labkit.check import OK, WARNING, Check, Finding, Subject

GOVERNORS = (
    "for f in /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor; do "
    '[ ! -r "$f" ] || cat "$f"; done | sort -u'
)
IDLE = (
    "cd /sys/devices/system/cpu/cpu0/cpuidle 2>/dev/null && for s in state*; do "
    '[ "$(cat $s/disable)" = 1 ] || echo "$(cat $s/name) $(cat $s/latency)"; done; true'
)
LONG = 10
"""Microseconds to wake up: more than a round trip on a good link takes."""


def _look(place: Subject) -> Iterator[Finding]:
    governors = place.shown(GOVERNORS).split()
    if not governors:
        yield Finding(OK, "no frequency governor (a guest, or the firmware decides)")
    elif governors == ["performance"]:
        yield Finding(OK, "governor performance")
    else:
        yield Finding(
            WARNING, f"governor {', '.join(governors)}: CPUs change their clock",
            fix="cpupower frequency-set -g performance",
        )  # fmt: skip
    rows = [line.rsplit(" ", 1) for line in place.shown(IDLE).splitlines()]
    deep = [name for name, latency in rows if latency.isdigit() and int(latency) > LONG]
    if deep:
        yield Finding(
            WARNING, f"idle CPUs sleep deeply ({', '.join(deep)}): waking up takes more than "
            f"{LONG} µs", fix=f"cpupower idle-set -D {LONG}",
        )  # fmt: skip


check = Check("CPUs stay awake", _look, "kind", kinds=("linux",))
