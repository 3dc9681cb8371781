"""A setting: what a study changes on a host, told as commands that anybody can run later.

A setting says, for each kind of host, which command shows the thing and which commands bring a
value about. It runs nothing itself. So the whole change can be planned before it is made, be
written down on the host, and be put back by a process that has never heard of the setting.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from labkit.errors import CommandFailed, Impossible, LabkitError, SettingRefused
from labkit.host import Host

Words = tuple[str, ...]
KINDS = ("esxi", "box", "kvm", "docker", "linux")
"""Kinds of host, the most particular first; a host may be of several: box, docker and linux."""
ASKED_KINDS = """\
! command -v esxcli > /dev/null || echo esxi
! guest state > /dev/null 2>&1 || echo box
! command -v virsh > /dev/null || echo kvm
! command -v docker > /dev/null || echo docker
[ "$(uname -s)" != Linux ] || echo linux
"""
NEEDS = ("root", "guest restart", "reboot")
"""What a change may need, besides the host."""


def _anything(_: str) -> str:
    return ""


@dataclass(frozen=True)
class Way:
    """How one kind of host shows a setting and changes it.

    `reads` prints the state of that one thing and nothing else, the same text for the same state:
    byte by byte it is what the journal keeps and what putting back compares. It ends with another
    code than 0 where the host has no such thing, and its last words say why.
    """

    reads: Words
    writes: Callable[[str], tuple[Words, ...]]
    """The commands that bring about a value: `wanted`, or what `value` made of an earlier text."""
    value: Callable[[str], str] = str.strip
    """The value in a text that `reads` printed."""
    refuses: Callable[[str], str] = _anything
    """Why a host that shows this text cannot take the setting; empty when it can."""
    probe: Words = ()
    """A command that ends with 0 where the host can take the setting, and changes nothing."""
    live: Words = ()
    """Shows what really runs, where `reads` shows only what the next start will bring."""
    needs: frozenset[str] = frozenset()
    """Which of NEEDS the change needs."""
    persists: bool = False
    """Whether the change outlives a reboot of the host."""
    cuts_management: bool = False
    """Whether the change can cut the path that commands take; a dead-man is armed before it."""
    stands_for: str = ""
    """What this replaces, where the kind of host has not the thing itself: a named substitute."""
    settle_seconds: float = 0.0
    """How long the value may take to show after the last command."""
    seconds: float = 0.1
    """About how long one change takes."""
    after: tuple[str, ...] = ()
    """Classes of settings, or their things, that are made before this one on the same host."""
    legal: str = ""
    """The values that can be asked for, in words."""


@dataclass(frozen=True)
class Setting(ABC):
    """One thing that a study changes on the host that plays `role`."""

    role: ClassVar[str]

    @property
    def thing(self) -> str:
        """What is changed; two settings of one thing replace each other."""
        return f"{type(self).__name__} of {self.role}"

    @property
    @abstractmethod
    def wanted(self) -> str:
        """The value that the way's `value` gives once the setting is in force."""

    @abstractmethod
    def way(self, kind: str, host: Host) -> Way:
        """How a host of this kind does it, or `Impossible`; `host` is looked at, never asked."""

    def __str__(self) -> str:
        return f"{type(self).__name__} = {self.wanted}"


def way_among(setting: Setting, kinds: Iterable[str], host: Host) -> Way:
    """The setting's way on a host of these kinds: the first kind that has one."""
    whys: list[Impossible] = []
    for kind in kinds:
        try:
            return setting.way(kind, host)
        except Impossible as why:
            whys.append(why)
    raise whys[0] if whys else Impossible(f"{host.name} is of no kind that labkit knows")


@dataclass
class InForce:
    """What has been changed on some hosts so far, and what it was before."""

    hosts: Mapping[str, Host]
    changed: dict[str, tuple[Setting, str]] = field(default_factory=dict)

    def move_to(self, settings: Sequence[Setting]) -> None:
        """Bring these settings into force, in order; all others that were changed go back first.

        What is in force already is only checked, so going from one condition to the next costs no
        more restarts than it must.
        """
        kept = {setting.thing for setting in settings}
        self._put_back([thing for thing in self.changed if thing not in kept])
        for setting in settings:
            host = self.hosts[setting.role]
            if setting.thing not in self.changed:
                self.changed[setting.thing] = (setting, value_now(setting, host))
            _insist(setting, host, setting.wanted, "take")

    def put_back(self) -> None:
        """Put everything back, last change first, whatever fails on the way."""
        self._put_back(list(self.changed))

    def check(self, settings: Sequence[Setting]) -> None:
        """Refuse to go on when a setting is no longer what it was made to be."""
        for setting in settings:
            if (now := value_now(setting, self.hosts[setting.role])) != setting.wanted:
                raise SettingRefused(
                    f"{self.hosts[setting.role].name}: {setting} has changed meanwhile to {now!r}",
                    hint="is something else on that host managing the same setting?",
                )

    def _put_back(self, things: list[str]) -> None:
        failures: list[LabkitError] = []
        for thing in reversed(things):
            setting, original = self.changed.pop(thing)
            try:
                _insist(setting, self.hosts[setting.role], original, "go back")
            except LabkitError as failed:
                failures.append(failed)
        if failures:
            raise SettingRefused(
                f"{len(failures)} of {len(things)} settings did not go back",
                said="\n".join(failed.what for failed in failures),
                hint="see to these by hand",
            )


@contextmanager
def in_force(hosts: Mapping[str, Host]) -> Iterator[InForce]:
    """Settings that can be moved from one condition to the next; all put back at the end."""
    changes = InForce(hosts)
    try:
        yield changes
    finally:
        changes.put_back()


@contextmanager
def applied(settings: Sequence[Setting], hosts: Mapping[str, Host]) -> Iterator[dict[str, str]]:
    """Apply settings in order, check that each took, and put them back in reverse come what may.

    Yields what was in force before, by thing.
    """
    with in_force(hosts) as changes:
        changes.move_to(settings)
        yield {thing: original for thing, (_, original) in changes.changed.items()}


def _insist(setting: Setting, host: Host, value: str, verb: str) -> None:
    if value_now(setting, host) == value:
        return
    _write(setting, host, value)
    if (now := value_now(setting, host)) != value:
        raise SettingRefused(
            f"{host.name}: {setting.thing} did not {verb}: wanted {value!r}, reads back as {now!r}",
            hint="is something else on that host managing the same setting?",
        )


def kinds(host: Host) -> tuple[str, ...]:
    """Of which KINDS a host is, as it says itself."""
    return tuple(host.check("sh", "-c", ASKED_KINDS).split())


def value_now(setting: Setting, host: Host) -> str:
    """The value in force now."""
    way = way_among(setting, kinds(host), host)
    return way.value(host.check(*way.reads))


def refusal(setting: Setting, host: Host) -> str:
    """Why this host cannot take the setting; empty when it can."""
    try:
        way = way_among(setting, kinds(host), host)
        if way.probe:
            host.check(*way.probe)
        return way.refuses(host.check(*way.reads))
    except (Impossible, CommandFailed) as why:
        return why.what


def _write(setting: Setting, host: Host, value: str) -> None:
    for words in way_among(setting, kinds(host), host).writes(value):
        host.check(*words)
