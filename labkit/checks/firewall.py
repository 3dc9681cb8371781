"""Does a firewall look at each packet? The paper has them off (p. 8); `ports` tries what passes."""

from collections.abc import Iterator

from labkit.check import OK, WARNING, Check, Finding, Subject
from labkit.machine.scripts import beside

PROGRAMS = ("iptables", "nft", "systemctl")

ACTIVE = beside(__file__, "firewall_active.sh")


def _look(place: Subject) -> Iterator[Finding]:
    lines = place.shown(ACTIVE).splitlines()
    if not lines:
        yield Finding(OK, "none is seen")
        return
    service = next((line for line in lines if not line.startswith("rules")), "")
    fix = f"systemctl stop {service}   # in a lab that nobody else can reach" if service else (
        "nft list ruleset   # and take out what test traffic passes"
    )  # fmt: skip
    yield Finding(WARNING, f"it filters packets: {', '.join(dict.fromkeys(lines))}", fix=fix)


check = Check("no firewall is in the way of test traffic", _look, "kind", kinds=("linux",))
