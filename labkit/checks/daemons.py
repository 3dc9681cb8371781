"""Does something on the host change settings by itself?"""

from collections.abc import Iterator

from labkit.check import OK, WARNING, Check, Finding, Subject

REASONS = {
    "irqbalance": "moves interrupts between CPUs",
    "tuned": "sets governors, sysctls and disks",
    "power-profiles-": "sets governors",
    "numad": "moves processes and memory between nodes",
    "ksmtuned": "merges memory pages of guests",
}
# Names of processes, as the kernel cuts them; BusyBox's ps knows no options.
RUNNING = "cat /proc/[0-9]*/comm 2>/dev/null | sort -u"


def _look(place: Subject) -> Iterator[Finding]:
    running = set(place.shown(RUNNING).splitlines())
    for name in REASONS.keys() & running:
        service = f"{name}daemon" if name.endswith("-") else name
        yield Finding(
            WARNING, f"{service} runs: it {REASONS[name]}", fix=f"systemctl stop {service}"
        )  # fmt: skip
    if not REASONS.keys() & running:
        yield Finding(OK, "no irqbalance, TuneD or similar service runs")


check = Check("nothing changes settings by itself", _look, "kind", kinds=("linux",))
