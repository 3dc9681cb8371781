"""Needs of a study on hosts of one's own before it begins: logins, interfaces, and a way between.

A box makes its own, so nothing is asked there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from labkit.changes.plan import AT_ONCE
from labkit.errors import BadInput, FleetFailed, LabkitError, Unreachable
from labkit.fleet.fleet import Fleet
from labkit.host import Host
from labkit.lab import Lab
from labkit.machine.scripts import beside
from labkit.machine.stopping import together
from labkit.study import Study
from labkit.workload import Workload

PROGRAMS = ("ping",)

SHOW = beside(__file__, "ways_interface.sh")
DOWN = ("down", "lowerlayerdown", "notpresent")
UP_FLAG = 1
# A neighbour that has no such address is given up after three seconds.
PING = ("ping", "-n", "-c", "1", "-W", "4")
NOBODY = ("Unreachable", "unreachable")
ASKED_SECONDS = 10.0


def check(study: Study, lab: Lab) -> None:
    """Refuse a lab with a silent host, or whose file names an interface that is absent or down."""
    if lab.emulated:
        return
    players = (player for condition in study.conditions for load in study.loads
               for role in load.roles for player in condition.players(role))  # fmt: skip
    hosts = {role: lab.hosts[role] for role in dict.fromkeys(players) if role in lab.hosts}
    _answer(hosts)
    for role, interface in _interfaces(lab, hosts).items():
        _refuse(lab, role, hosts[role].interface, interface, between=len(hosts) > 1)


def elsewhere(lab: Lab) -> dict[str, str]:
    """By role the address of test traffic, where the interface that carries it has another."""
    if lab.emulated:
        return {}
    hosts = {role: host for role, host in lab.hosts.items() if host.address[:1].isdigit()}
    return {
        role: hosts[role].address
        for role, interface in _interfaces(lab, hosts).items()
        if interface[2:] and hosts[role].address not in interface[2:]
    }


def _interfaces(lab: Lab, hosts: Mapping[str, Host]) -> dict[str, list[str]]:
    def state(role: str) -> list[str]:
        words = ("sh", "-c", SHOW, "labkit", hosts[role].interface)
        return hosts[role].run(*words, seconds=ASKED_SECONDS).stdout.split()

    roles = [role for role, host in hosts.items() if host.interface and not _guest(lab, role)]
    return dict(zip(roles, together(state, roles, AT_ONCE), strict=True))


# What one host does by itself needs no link.
def _refuse(lab: Lab, role: str, interface: str, texts: list[str], between: bool) -> None:
    if texts[:1] == ["absent"]:
        problem = f"{role} has no interface {interface}, which {lab.path} names"
        hint = f'put the right interface = "..." into [hosts.{role}]'
        raise BadInput(problem, said=f"it has {', '.join(texts[1:])}", hint=hint)
    fault, mend = no_link(interface, *texts[:2]) if texts[1:] else ("", "")
    if fault and between:
        problem = f"no test traffic can get to {role} or from it: {fault}"
        state = f"{lab.path} names this interface; its state is {texts[0]}"
        hint = f"on {role}: {mend}; then `labkit doctor --lab {lab.path}`"
        raise BadInput(problem, said=state, hint=hint)


def no_link(interface: str, state: str, flags: str) -> tuple[str, str]:
    """Reason why nothing passes an interface in this state, and the cure; both empty if it may."""
    if state not in DOWN:
        return "", ""
    if not int(flags, 16) & UP_FLAG:
        return f"{interface} is down", f"ip link set {interface} up"
    return f"{interface} has no link", "connect its cable, or bring up its other end"


# All are asked at the same time, so several that are silent take no longer than one.
def _answer(hosts: Mapping[str, Host]) -> None:
    answers = Fleet(hosts).run("true")
    silent = [answer for answer in answers.values() if isinstance(answer, LabkitError)]
    if len(silent) == 1:
        raise silent[0]
    try:
        answers.check()
    except FleetFailed as error:
        if not all(isinstance(labkit_error, Unreachable) for labkit_error in silent):
            raise
        raise Unreachable(error.what, said=error.said, hint=silent[0].hint) from None


def _guest(lab: Lab, role: str) -> bool:
    return any(role in host.guests for host in lab.hosts.values())


@dataclass(frozen=True)
class Ways:
    """The ways of test traffic in a lab; each is tried once."""

    lab: Lab
    _tried: dict[tuple[str, str], str] = field(default_factory=dict)

    def refusal(self, load: Workload, pairs: Iterable[Mapping[str, Host]]) -> str:
        """Reason why the load cannot get from its client to the others; empty if it can."""
        asks, *roles = load.roles
        if self.lab.emulated or asks != "client":
            return ""
        ways = [(pair[asks], pair[role]) for pair in pairs for role in roles]
        losses = (self._explain(host, two, load) for host, two in ways if host.name != two.name)
        return next(filter(None, losses), "")

    # A guest may get its way only from a setting. Where echoes are filtered, others may pass.
    def _explain(self, client: Host, peer: Host, load: Workload) -> str:
        if _guest(self.lab, peer.name) or _guest(self.lab, client.name):
            return ""
        way = client.name, peer.address
        if way not in self._tried:
            ping = client.run(*PING, peer.address, seconds=ASKED_SECONDS)
            # Where there is no ping, that is said elsewhere.
            silent = not ping.ok and ping.code != 127
            self._tried[way] = (ping.stdout + ping.stderr or "nothing") if silent else ""
        text = self._tried[way]
        if not text or (load.name != "ping" and not any(word in text for word in NOBODY)):
            return ""
        return (
            f"{client.name} gets no answer from {peer.address}, the address of {peer.name};"
            f" `labkit doctor --lab {self.lab.path}` shows how far it comes"
        )
