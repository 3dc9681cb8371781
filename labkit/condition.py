"""A condition of a study: one way to run its workload."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from labkit.changes.plan import Plan, Step
from labkit.errors import Unknown, insist_each, no_host
from labkit.event import Event
from labkit.gates import gate
from labkit.gates import watch as gated
from labkit.host import Host
from labkit.lab import Lab
from labkit.setting import Setting
from labkit.workload import Workload
from labkit.workloads import _pairs as pairs


@dataclass(frozen=True)
class Condition:
    """One way to run the workload: `means` is the document's, `here` what this lab does for it.

    `settings` are required; `optional` ones are made where the host can take them. `roles` says
    which role of the lab plays a role of the workload, where the names differ. With several names,
    each makes a pair with the others. All pairs are under the load at once. `expects` are gates
    that it trips by design, such as `throttling` where a CPU limit is what is studied.
    """

    name: str
    means: str
    here: str
    settings: tuple[Setting, ...] = ()
    optional: tuple[Setting, ...] = ()
    roles: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    expects: tuple[str, ...] = ()
    indifferent: tuple[Setting, ...] = ()
    """Settings whose things may be left as another condition made them, such as those of a guest
    that does not run."""
    knobs: Mapping[str, Any] = field(default_factory=dict)
    """Knobs of its workloads that are other than the study's."""
    in_guest: bool | None = None
    """Whether what is measured runs in a guest; None where the whole lab counts, its links too."""
    events: tuple[Event, ...] = ()
    """Events in the lab while the workload runs."""

    def __post_init__(self) -> None:
        for field_name in ("settings", "optional", "indifferent"):
            insist_each(getattr(self, field_name), Setting,
                        f"{field_name} of condition {self.name}", "Mtu(9000)")  # fmt: skip
        insist_each(self.events, Event, f"events of condition {self.name}", "Migration()")
        if odd := [name for name in self.expects if name not in gate.NAMES]:
            raise Unknown("gate", odd[0], gate.NAMES)

    @property
    def design(self) -> dict[str, Any]:
        """All that decides what is measured under it, as text; the events are kept beside it."""
        texts = {
            "settings": [*map(repr, self.settings)], "optional": [*map(repr, self.optional)],
            "indifferent": [*map(repr, self.indifferent)],
            "roles": {role: list(self.players(role)) for role in self.roles},
            "knobs": {name: repr(value) for name, value in self.knobs.items()},
        }  # fmt: skip
        return {name: value for name, value in texts.items() if value}

    @property
    def left(self) -> frozenset[str]:
        """The things that it leaves as they are."""
        return frozenset(setting.thing for setting in self.indifferent)

    def resting(self, lab: Lab) -> list[str]:
        """The guests that do not run under it, and so answer nothing."""
        roles = (role for setting in self.asked(lab) for role in setting.resting)
        return [role for role in roles if role in lab.hosts]

    def load(self, workload: Workload) -> Workload:
        """The workload as this condition runs it, with those of its `knobs` that it has."""
        knobs = vars(workload)
        return replace(workload, **{n: v for n, v in self.knobs.items() if n in knobs})

    def pairs(self, lab: Lab, workload: Workload) -> dict[str, dict[str, Host]]:
        """The hosts that the workload runs between, by what plays its last role."""
        players_of = {role: self.players(role) for role in workload.roles}
        beside = {role: lab.host(role) for role in workload.optional if role in lab.hosts}
        pairs_of = {}
        for n in range(max(map(len, players_of.values()))):
            pair = {role: players[n % len(players)] for role, players in players_of.items()}
            hosts = {role: lab.host(player) for role, player in pair.items()}
            pairs_of[pair[workload.roles[-1]]] = hosts | beside
        return pairs_of

    def players(self, role: str) -> tuple[str, ...]:
        """The lab's roles that play this role of the workload."""
        players = self.roles.get(role, role)
        return (players,) if isinstance(players, str) else players

    def watch(self, lab: Lab, loads: Sequence[Workload]) -> gated.Watch:
        """The gates of one run: on the hosts of its workloads, and on those of its settings."""
        players = [player for load in loads for role in load.roles for player in self.players(role)]
        roles = [*players, *(setting.role for setting in self.asked(lab))]
        # Two roles may be one host.
        off = self._without_power(lab)
        hosts = {id(lab.hosts[role]): role for role in reversed(roles) if role not in off}
        hosts_of = {role: lab.hosts[role] for role in reversed(hosts.values())}
        # The hosts of a box share CPUs, so that those of one say nothing of its programs.
        waits = any("client" in load.roles and load.loop == "closed" for load in loads)
        own_client = waits and not lab.emulated and len(hosts_of) > 1
        makes = self.players("client") if own_client else ()
        processes = [name for load in loads for name in load.ours]
        processes += [name for setting in self.asked(lab) for name in setting.ours]
        seconds = [*(load.seconds for load in loads), *(event.seconds for event in self.events)]
        # Nobody knows for how long the firmware of a host of one's own starts.
        limit = float("inf") if off else gated.LATE * sum(seconds) + gated.LATE_SECONDS
        return gated.Watch(hosts_of, players, makes, processes, limit)

    def asked(self, lab: Lab) -> list[Setting]:
        """The settings that concern this lab, in order."""
        optional = (setting for setting in self.optional if setting.role in lab.hosts)
        return [*optional, *self.settings, *self._event_settings(lab)]

    def _without_power(self, lab: Lab) -> list[str]:
        return [role for event in self.events for role in event.cuts_power(lab)]

    def _event_settings(self, lab: Lab) -> list[Setting]:
        settings = (setting for event in self.events for setting in event.settings(lab))
        return [setting for setting in settings if setting.role in lab.hosts]

    def shown(self, lab: Lab, plan: Plan) -> str:
        """Its meaning on this lab: `here` in a box; on hosts of one's own, their settings.

        What a kind of host does in place of a setting stands beside it.
        """
        if lab.emulated:
            return self.here
        steps_of = {step.setting: step for step in plan.steps}
        steps = [steps_of[setting] for setting in self.asked(lab) if setting in steps_of]
        settings = [
            f"{step.setting} ({name})" if (name := step.way.stands_for) else f"{step.setting}"
            for step in steps if step.way and not step.why
        ]  # fmt: skip
        knobs = [f"{name}: {value}" for name, value in self.knobs.items()]
        return "; ".join([*dict.fromkeys(settings), *knobs]) or "these hosts as they are"

    def lacks_host(self, lab: Lab, workload: Workload) -> str:
        """The host that the condition needs and the lab lacks; empty if it has all."""
        try:
            self.pairs(lab, workload)
            for setting in self.settings:
                lab.host(setting.role)
        except Unknown as error:
            return no_host(error.name)
        return ""

    def refusal(
        self, lab: Lab, workload: Workload, plan: Plan, absent: Mapping[str, Sequence[str]],
        prepare: str = "",
    ) -> str:  # fmt: skip
        """The reason why this lab, whose hosts lack these programs, cannot do it; empty if it can.

        `prepare` is the command that brings the programs.
        """
        if reason := next(iter(self.obstacles(lab, workload, plan)), ""):
            return reason
        together, load = self.pairs(lab, workload), self.load(workload)
        lacking = (load.lacking(hosts) for hosts in together.values())
        reason = pairs.missing_tool(load, together, absent, prepare)
        return reason or next(filter(None, lacking), "")

    def obstacles(self, lab: Lab, workload: Workload, plan: Plan) -> list[str]:
        """The obstacles that the plan shows: hosts, settings and events, but no programs."""
        if reason := self.lacks_host(lab, workload):
            return [reason]
        if not self.in_guest and (reason := _no_linux(self.pairs(lab, workload), plan)):
            return [reason]
        off = self._without_power(lab)
        reasons = {step.setting: step.why or _forgets(step, off) for step in plan.steps}
        stand_ins = {setting.instead_of for setting in self.asked(lab) if not reasons[setting]}
        settings = (*self.settings, *self._event_settings(lab))
        unmade: dict[type[Setting], str] = {}
        for setting in settings:
            if reasons[setting] and setting not in stand_ins:
                # Of several guests one is enough to say it.
                unmade.setdefault(type(setting), reasons[setting])
        return [*filter(None, (*unmade.values(), *(event.refusal(lab) for event in self.events)))]


# What lasts until a host starts again would not last through the run.
def _forgets(step: Step, off: Collection[str]) -> str:
    if step.setting.role not in off or not step.way or step.way.persists:
        return ""
    return f"{step.host} loses its power meanwhile, and with it its {step.thing}"


# A server whose address VMkernel answers at is no bare Linux, whatever runs below its tools. Beside
# a guest of its own it does not answer itself: there it is only looked at.
def _no_linux(together: Mapping[str, Mapping[str, Host]], plan: Plan) -> str:
    for pair in together.values():
        names = {host.name for host in pair.values()}
        for host in (host for host in pair.values() if not names & set(host.guests)):
            if host.name in plan.hosts and "esxi" in plan.hosts[host.name].kinds:
                return (
                    f"{host.name} is of kind esxi, not linux: VMkernel would answer, no machine; "
                    "name a bare one beside it as [hosts.native]"
                )
    return ""
