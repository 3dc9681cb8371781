"""Settings in force on the hosts of a lab: made, proven, watched, and put back come what may."""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from labkit.changes.change_set import DEADMAN_SECONDS, SILENCE_SECONDS, ChangeSet, Drift
from labkit.changes.journal import Greeting, OpenSet, ScriptReply, hello, refusals
from labkit.changes.lease import Owner
from labkit.changes.plan import Op, Plan, Step, in_order, on_all, plan, replaced, stages
from labkit.changes.restore import outcome_words, went_back
from labkit.errors import Busy, HostError, Impossible, LabkitError, SettingRefused, Unreachable
from labkit.host import Host
from labkit.machine.stopping import undisturbed
from labkit.setting import Setting, refuse_conflicts
from labkit.ssh.trust import check_pin

PERIOD_SECONDS = 5.0
"""Seconds between two readings of the settings in force while something is measured."""
BEAT_SECONDS = 15.0
"""Seconds between our beats if nothing is to be read again: a guest has to work to hear, too."""


@dataclass
class InForce:
    """The changes made on some hosts so far; moves from one set of settings to the next."""

    hosts: Mapping[str, Host]
    owner: Owner
    period: float = PERIOD_SECONDS
    silence: int = SILENCE_SECONDS
    deadman: int = DEADMAN_SECONDS
    sets: dict[str, ChangeSet] = field(default_factory=dict)
    greetings: dict[str, Greeting] = field(default_factory=dict)
    steps: dict[Setting, Step] = field(default_factory=dict)
    texts: dict[Setting, str] = field(default_factory=dict)
    changed: dict[str, Setting] = field(default_factory=dict)
    drifts: list[Drift] = field(default_factory=list)
    stale: set[Setting] = field(default_factory=set)
    """Settings learnt of devices that other devices have replaced since."""
    outdated: set[str] = field(default_factory=set)
    """The roles whose change sets are about such devices."""
    alone: set[str] = field(default_factory=set)
    """The roles of guests on which nobody else had set anything when we first replaced devices."""
    _good: str = ""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def before(self) -> dict[str, str]:
        """The value of each changed thing before labkit came."""
        return {thing: self.steps[setting].current for thing, setting in self.changed.items()}

    def learn(self, settings: Iterable[Setting]) -> Plan:
        """Look at what the settings are about; what is there now is what will be put back."""
        wishes = dict.fromkeys(settings)
        fresh = [s for s in wishes if s not in self.steps or s in self.stale]
        fresh_plan = plan(fresh, self.hosts, self.greetings)
        self.stale -= {*fresh}
        steps_known = (step for one, step in self.steps.items() if one not in {*fresh, *self.stale})
        by_thing = {(s.setting.role, s.thing): s for s in steps_known}
        for step in fresh_plan.steps:
            first = by_thing.setdefault((step.setting.role, step.thing), step)
            self.steps[step.setting] = step.with_original_of(first)
        self.greetings |= fresh_plan.hosts
        return fresh_plan

    def possible_roles(self) -> list[str]:
        """The roles whose hosts have something to change."""
        return list(dict.fromkeys(s.setting.role for s in self.steps.values() if not s.why))

    def take(self, roles: Iterable[str]) -> None:
        """Take the lease of these hosts, and journal what was learnt of them."""
        on_all({role: partial(self._change, role, []) for role in roles})

    def move_to(self, settings: Sequence[Setting], left: Collection[str] = ()) -> None:
        """Bring these settings into force; all others that were changed go back first.

        What is in force already is only checked, so going from one condition to the next costs no
        more restarts than it must. The things that are `left` stay as they are until another move.
        """
        refuse_conflicts(settings)
        asleep = self._asleep()
        self.learn(s for s in settings if s not in self.stale or s.role not in asleep)
        if reasons := [self.steps[setting].why for setting in settings if self.steps[setting].why]:
            raise Impossible(reasons[0])
        with undisturbed("a change of settings", self._restores()), self._lock:
            roles = self._roles_to_replace(settings, left)
            self._refuse_others(roles, settings)
            for role in roles:
                self._outdate(role)
            first = [setting for setting in settings if setting.role not in roles]
            self._make(first, left)
            if later := [setting for setting in settings if setting.role in roles]:
                self.learn(later)  # of the devices that are there now
                self._make([*first, *later], left)
            self._good = _timestamp()

    def _make(self, settings: Sequence[Setting], left: Collection[str]) -> None:
        ops = self._ops(settings, left)
        for role in self.outdated & {op.role for op in ops if not op.back}:
            self._close(role)
        for stage in stages(ops):
            on_all({role: partial(self._change, role, ops) for role, ops in stage.items()})

    def _ops(self, settings: Sequence[Setting], left: Collection[str]) -> list[Op]:
        things = {*(setting.thing for setting in settings), *left}
        old = [setting for thing, setting in reversed(self.changed.items()) if thing not in things]
        backs = [Op(s.role, self.steps[s], True, not self.steps[s].changes) for s in old]
        steps = in_order([self.steps[setting] for setting in dict.fromkeys(settings)])
        return backs + [
            Op(s.setting.role, s, False, self.changed.get(s.thing) == s.setting) for s in steps
        ]

    # The guests whose devices others take the place of in this move.
    def _roles_to_replace(self, settings: Sequence[Setting], left: Collection[str]) -> list[str]:
        steps = [op.step for op in self._ops(settings, left) if self._moves(op)]
        roles = [replaced(step, self.hosts[step.setting.role]) for step in steps]
        return [role for role in dict.fromkeys(roles) if role in self.hosts]

    def _moves(self, op: Op) -> bool:
        setting = self.changed.get(op.step.thing)
        value = setting.wanted if setting else op.step.current
        return not op.there and value != (op.step.current if op.back else op.step.setting.wanted)

    # Whoever has set something on them, in this process or another, could not put it back. A guest
    # that does not run is asked nothing: what was set in it has gone, or waits.
    def _refuse_others(self, roles: Sequence[str], settings: Sequence[Setting]) -> None:
        starts = {role for s in settings if self.steps[s].changes for role in s.starts}
        for role in (role for role in roles if role not in self._asleep() | starts | self.alone):
            host, change_set = self.hosts[role], self.sets.get(role)
            open_sets: Sequence[OpenSet] = ()
            with suppress(Unreachable):  # another process, or a block around ours, has paused it
                open_sets = hello(host).open
            for open_set in open_sets:
                if change_set is None or change_set.number != open_set.number:
                    raise SettingRefused(
                        f"{host.name}: {open_set} may belong to a device that would be replaced; "
                        "nothing was changed",
                        hint=f"put that back first: end its block, or {host.verb('restore')}",
                    )
            self.alone.add(role)

    def _asleep(self) -> set[str]:
        return {role for setting in self.changed.values() for role in setting.resting}

    # What is in force on them goes back now, and is made again on those that come.
    def _outdate(self, role: str) -> None:
        if any(setting.role == role for setting in self.changed.values()):
            self._close(role)
        self.stale |= {step for step in self.steps if step.role == role}
        self.outdated |= {role} & set(self.sets)

    def _close(self, role: str) -> None:
        if failures := self._put_back(role):
            raise SettingRefused(f"{self.hosts[role].name}: {failures[0]}")
        for thing in [thing for thing, setting in self.changed.items() if setting.role == role]:
            self.texts.pop(self.changed.pop(thing), None)
        del self.sets[role]
        self.outdated.discard(role)

    def check(self, settings: Sequence[Setting]) -> None:
        """Refuse to go on when a setting is no longer what it was made to be."""
        if drifts := self.drifted(settings):
            raise drifts[0].refusal

    def check_live(self, settings: Sequence[Setting]) -> None:
        """The same of those settings that can be made although something else still runs.

        All others were read when they were made.
        """
        ways = {setting: self.steps[setting].way for setting in settings}
        if live := [setting for setting, way in ways.items() if way and way.live]:
            self.check(live)

    def waiting(self) -> list[Setting]:
        """Settings that only a host's next start will bring; refuses the rest as `check` does."""
        drifts = self.drifted(self.changed.values())
        if refused_drifts := [drift for drift in drifts if not drift.waits]:
            raise refused_drifts[0].refusal
        return [self.changed[drift.thing] for drift in drifts]

    def drifted(self, settings: Iterable[Setting], beat: float = 0.0) -> list[Drift]:
        """Read the settings again; those that are not as they were made.

        Where there are none, the host hears us if it has not for `beat` seconds.
        """
        with self._lock:
            roles: dict[str, list[Step]] = {role: [] for role in self.sets}
            for setting in settings:
                roles[setting.role].append(self.steps[setting])
            read = {
                role: partial(self.sets[role].drifts, steps, beat) for role, steps in roles.items()
            }
            drifts = on_all(read)
            after, self._good = self._good, _timestamp()
        every_drift = [drift for of_host in drifts.values() for drift in of_host]
        return [replace(drift, after=after, seen=self._good) for drift in every_drift]

    def put_back(self) -> None:
        """Put everything back, last change first, whatever fails on the way."""
        # The other way round a stop that comes while somebody reads would leave all as it is.
        with undisturbed("putting settings back", back := self._restores()), self._lock:
            count = len(self.changed)
            try:
                failures = self._put_back_all()
            finally:
                # Whoever has stopped us twice wants no more tries.
                self.sets.clear()
                self.changed.clear()
            if failures:
                raise SettingRefused(
                    f"{len(failures)} of {count} settings did not go back",
                    said="\n".join(failures),
                    hint=f"each host's journal lists the remaining changes: {back}",
                )

    def leave(self) -> None:
        """Let go of the hosts with everything in force; `labkit restore` puts it back later."""
        with self._lock:
            for changes in self.sets.values():
                changes.leave()
            self.sets.clear()

    # What puts back whatever is left on any of the hosts.
    def _restores(self) -> str:
        hosts = [*self.hosts.values()]
        return hosts[0].verb("restore", *(host.name for host in hosts[1:])) if hosts else "nothing"

    def _is_barred(self) -> bool:
        return any(self.steps[setting].barrier for setting in self.changed.values())

    def _put_back_all(self) -> list[str]:
        order = list(reversed(self.sets))
        if len(order) > 1 and self._is_barred():
            with suppress(LabkitError):
                self.move_to([])
        return self._put_back_on([role for role in order if role in self.sets])

    # What is done alone is left only where it failed: then hosts take turns, the last one first.
    # What is set on devices that others have taken the place of goes before these.
    def _put_back_on(self, order: Sequence[str]) -> list[str]:
        steps = [self.steps[setting] for setting in self.changed.values()]
        heirs = {replaced(step, self.hosts[step.setting.role]) for step in steps}
        first = [role for role in order if role in heirs & {step.setting.role for step in steps}]
        last = [role for role in order if role not in first]
        if self._is_barred():
            return [reason for role in (*first, *last) for reason in self._put_back(role)]
        reasons = [on_all({role: partial(self._put_back, role) for role in changes})
                   for changes in (first, last) if changes]  # fmt: skip
        return [reason for by_role in reasons for of_role in by_role.values() for reason in of_role]

    def _put_back(self, role: str) -> list[str]:
        host = self.hosts[role]
        try:
            answers = self.sets[role].restore()
            if any(answer.word == "gone" for answer in answers) and self._started_anew(role):
                return []
        except LabkitError as error:
            return [error.what]
        return [
            ": ".join(filter(None, [odd.what, odd.said])) for odd in refusals(host, answers)
        ] + [f"{host.name}: {outcome_words(answer)}" for answer in answers if not went_back(answer)]

    def _change(self, role: str, ops: Sequence[Op]) -> None:
        if role not in self.sets:
            check_pin(self.hosts[role])
        if role not in self.greetings:
            self.greetings[role] = hello(self.hosts[role])
        fresh = ChangeSet(self.hosts[role], self.owner, self.silence, self.deadman)
        changes = self.sets.setdefault(role, fresh)
        try:
            answers = self._ask(changes, role, ops)
        except Busy:
            if not self._started_anew(role):
                raise
            changes.anew()
            answers = self._ask(changes, role, ops)
        steps = {op.step.thing: op.step for op in ops if not op.back}
        for answer in answers:
            if answer.word == "made":
                self._note_change(steps.pop(answer.fields[0]), *answer.fields[1:])
            elif answer.word == "back":
                self.changed.pop(answer.fields[1], None)
                if not went_back(answer):
                    raise SettingRefused(f"{self.hosts[role].name}: {outcome_words(answer)}")
        if steps:
            raise HostError(f"{self.hosts[role].name}: no answer about {', '.join(steps)}")

    def _ask(self, changes: ChangeSet, role: str, ops: Sequence[Op]) -> list[ScriptReply]:
        holds = {
            step.thing: step
            for step in self.steps.values()
            if step.setting.role == role and not step.why and step.setting not in self.stale
        }
        backs = [op.step.thing for op in ops if op.back]
        makes = [(op.step, self.texts.get(op.step.setting, "")) for op in ops if not op.back]
        return changes.change(list(holds.values()), backs, makes)

    # A host without a disk forgets its journal with everything that the journal was about.
    def _started_anew(self, role: str) -> bool:
        before, greeting = self.greetings[role], hello(self.hosts[role])
        if greeting.boot == before.boot or greeting.open:
            return False
        self.greetings[role] = greeting
        return True

    def _note_change(self, step: Step, text: str, before: str, tenths: str, output: str) -> None:
        assert step.way
        value = step.way.value(text)
        self.changed.pop(step.thing, None)
        self.changed[step.thing] = step.setting
        if value == step.setting.wanted:
            self.texts[step.setting] = text
            return
        wait = f" after {int(tenths) / 10:g} s" if int(tenths) else ""
        outcome = "was ignored" if text == before else "became something else"
        raise SettingRefused(
            f"{step.host}: {step.thing} {outcome}{wait}: wanted {step.setting.wanted!r}, reads back"
            f" as {value!r}",
            said=output,
            hint=f"legal: {step.way.legal}" if step.way.legal else "",
        )

    def keep_watch(self, stop: threading.Event) -> None:
        """Until `stop`: let the hosts know that we are there, and note what somebody changes."""
        while not stop.wait(self.period):
            # A host that cannot be asked now is asked again; the check after a run insists.
            with suppress(HostError), self._lock:
                if self.sets and not stop.is_set():
                    self.drifts += self.drifted(list(self.changed.values()), BEAT_SECONDS)


@contextmanager
def in_force(
    hosts: Mapping[str, Host],
    study: str = "settings",
    *,
    period: float = PERIOD_SECONDS,
    silence: int = SILENCE_SECONDS,
    deadman: int = DEADMAN_SECONDS,
) -> Iterator[InForce]:
    """Settings that can be moved from one condition to the next; all put back at the end.

    They are read again every `period` seconds. A host that hears nothing for `silence` seconds puts
    everything back by itself, and `deadman` seconds after a change that has cut it off.
    """
    changes, stop = InForce(hosts, Owner.me(study), period, silence, deadman), threading.Event()
    watch = threading.Thread(target=changes.keep_watch, args=(stop,), daemon=True)
    watch.start()
    try:
        yield changes
        changes.put_back()
    except BaseException as first:
        try:
            changes.put_back()
        except LabkitError as second:
            if not isinstance(first, LabkitError):
                raise
            # Of two failures both are said.
            text = "\n".join([first.said, second.what, second.said])
            raise SettingRefused(first.what, said=text, hint=second.hint) from first
        raise
    finally:
        stop.set()


@contextmanager
def applied(settings: Sequence[Setting], hosts: Mapping[str, Host]) -> Iterator[dict[str, str]]:
    """Apply settings in order, check that each took, and put them back in reverse come what may.

    Yields what was in force before, by thing.
    """
    with in_force(hosts) as changes:
        changes.move_to(settings)
        yield changes.before


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
