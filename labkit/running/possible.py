"""Conditions of a study that a lab can do, and what they would change there.

Hosts of one's own also need logins, interfaces and a way between them before a study begins. A box
makes its own, so nothing is asked there.
"""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from labkit.changes.plan import AT_ONCE, Plan
from labkit.changes.plan import plan as make_plan
from labkit.condition import Condition
from labkit.errors import BadInput, FleetFailed, LabkitError, Unreachable
from labkit.fleet.fleet import Fleet
from labkit.host import Host
from labkit.lab import Lab
from labkit.machine.scripts import beside
from labkit.machine.stopping import together
from labkit.programs.packages import installable, package_of
from labkit.setting import Setting
from labkit.study import Study
from labkit.workload import Workload
from labkit.workloads import _pairs as pairs

PROGRAMS = ("ping",)

SHOW = beside(__file__, "possible_interface.sh")
DOWN = ("down", "lowerlayerdown", "notpresent")
UP_FLAG = 1
# A neighbour that has no such address is given up after three seconds.
PING = ("ping", "-n", "-c", "1", "-W", "4")
NOBODY = ("Unreachable", "unreachable")
ASKED_SECONDS = 10.0


def settings(study: Study, lab: Lab, condition: str | None = None) -> list[Setting]:
    """List the settings of all conditions, or of one, for which this lab has the hosts."""
    conditions = [study.condition(condition)] if condition else study.conditions
    settings_of = [setting for condition in conditions for setting in condition.asked(lab)]
    return [setting for setting in dict.fromkeys(settings_of) if setting.role in lab.hosts]


def plan(study: Study, lab: Lab, condition: str | None = None) -> Plan:
    """Plan the changes of all conditions, or of one, on this lab; nothing is touched."""
    return make_plan(settings(study, lab, condition), lab.hosts)


def refusals(study: Study, lab: Lab, plan_made: Plan | None = None) -> dict[str, str]:
    """Name the conditions that this lab cannot do, each with the reason."""
    plan_made = plan_made or plan(study, lab)
    loads = [(c, load) for c in study.conditions for load in study.loads]
    with_hosts = [(c, load) for c, load in loads if not c.lacks_host(lab, load)]
    absent = pairs.absent((c.load(load), c.pairs(lab, load)) for c, load in with_hosts)
    prepare, traffic = prepare_command(study, lab), Ways(lab)
    # An event whose driver does not tell the metric of the study would be of no use to it.
    reasons = {name: f"{study.metric} is not seen here: {whys[study.metric]}"
               for name, whys in _unseen(study, lab).items() if study.metric in whys}  # fmt: skip
    for c, load in loads:
        reason = reasons.get(c.name, "") or c.refusal(lab, load, plan_made, absent, prepare)
        reasons[c.name] = reason or traffic.refusal(c.load(load), c.pairs(lab, load).values())
    return {name: reason for name, reason in reasons.items() if reason}


def with_free_tools(study: Study, lab: Lab) -> Study:
    """The study with free tools alone, if one of its hosts lacks a tool that is not free.

    All conditions get the same ones. A load beside the study's own goes if it would only ask the
    same tool once more.
    """
    loads = [load for load in study.loads if load.freed() != load]
    work = [(c, load) for c in study.conditions for load in loads if not c.lacks_host(lab, load)]
    absent = pairs.absent((c.load(load), c.pairs(lab, load)) for c, load in work)
    words = {word for host in absent.values() for word in host if installable(word)}
    if not any(package_of(word).source for word in words):
        return study
    first, others = study.workload.freed(), [load.freed() for load in study.also]
    also = [load for load in others if not load.tools or load.tools.keys() - first.tools.keys()]
    return replace(study, workload=first, also=tuple(also))


# The metrics that events of each condition do not give on this lab; each says why.
def _unseen(study: Study, lab: Lab) -> dict[str, dict[str, str]]:
    kind = "box" if lab.emulated else "ESXi" if "vcenter" in lab.hosts else "KVM"
    return {
        c.name: {metric: why for event in c.events for metric, why in event.unseen(kind).items()}
        for c in study.conditions
    }


def unseen(study: Study, lab: Lab) -> dict[str, str]:
    """The metrics of events that this lab does not give, as claims call them; each says why."""
    return {metric.replace(" ", "_"): why
            for whys in _unseen(study, lab).values() for metric, why in whys.items()}  # fmt: skip


def prepare_command(study: Study, lab: Lab) -> str:
    """The command that brings what the study calls to the hosts of this lab."""
    flags = () if lab.emulated or not lab.path.name else ("--lab", str(lab.path))
    return shlex.join(["labkit", "prepare", study.name, *flags])


def able(study: Study, lab: Lab, refusals_of: Mapping[str, str]) -> list[Condition]:
    """List the other conditions; fail with all reasons if there are none."""
    conditions = [condition for condition in study.conditions if condition.name not in refusals_of]
    if not conditions:
        reasons = "".join(f"\n  {name}: {reason}" for name, reason in refusals_of.items())
        hint = 'a run of another lab: --where recorded; in a notebook where = "recorded"'
        raise BadInput(f"{lab.name} can do no condition of {study.name}{reasons}", hint=hint)
    return conditions


def check_links(study: Study, lab: Lab) -> None:
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
