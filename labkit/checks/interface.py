"""Is the interface of test traffic there and up, with the address that the lab names?"""

from collections.abc import Iterator

from labkit.check import FAILURE, OK, WARNING, Check, Finding, Subject
from labkit.machine.scripts import beside
from labkit.running.ways import no_link

PROGRAMS = ("ip",)

SHOW = beside(__file__, "interface_shown.sh")


def _look(place: Subject) -> Iterator[Finding]:
    host, table = place.host, f"[hosts.{place.role}] of {place.lab.path}"
    if not host.interface and any(
        place.role in other_host.guests for other_host in place.lab.hosts.values()
    ):
        yield Finding(OK, "not named, because a guest has another name for it on each network")
        return
    if not host.interface:
        yield Finding(
            WARNING, "the interface of test traffic is not named, so its settings are left "
            "out", fix=f'interface = "..." in {table}',
        )  # fmt: skip
        return
    first, *addresses = place.shown(SHOW, host.interface).splitlines()
    if first == "absent":
        text = ", ".join(" ".join(addresses).split())
        yield Finding(FAILURE, f"no interface {host.interface}", f"there are {text}",
                      f'put the right interface = "..." into {table}')  # fmt: skip
        return
    state, flags, mtu, *words = first.split()
    fault, mend = no_link(host.interface, state, flags)
    if fault:
        yield Finding(FAILURE, fault, fix=mend)
        return
    if host.address[:1].isdigit() and host.address not in addresses:
        yield Finding(FAILURE, f"{host.interface} does not have the address {host.address}",
                      f"it has {', '.join(addresses) or 'none'}",
                      f"ip addr add {host.address}/24 dev {host.interface}")  # fmt: skip
        return
    driver = next((word for word in words if not word.lstrip("-").isdigit()), "")
    speed = next((word for word in words if word.isdigit()), "")
    facts = [f"MTU {mtu}", driver, speed and f"{speed} Mbit/s"]
    yield Finding(OK, f"{host.interface}: {', '.join(fact for fact in facts if fact)}")


check = Check("the interface of test traffic is up", _look, "kind", kinds=("linux",))
