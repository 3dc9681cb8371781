"""A setting: what a study changes on a host, as commands that anybody can run later.

A setting says, for each kind of host, which command shows the thing and which commands bring a
value about. It runs nothing itself. So the whole change can be planned before it is made, and
written down on the host. A process that has never heard of the setting can put it back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import Field, dataclass, fields
from itertools import permutations
from typing import Any, ClassVar

from labkit.errors import BadInput, Impossible
from labkit.host import Host

Words = tuple[str, ...]
KINDS = ("esxi", "box", "kvm", "docker", "linux")
"""Kinds of host, the most particular first; a host may be of several: box, docker and linux."""


def _allow(_: str) -> str:
    return ""


@dataclass(frozen=True)
class Way:
    """One kind of host's way to show a setting and change it.

    `reads` prints the state of that one thing and nothing else, the same text for the same state:
    byte by byte it is what the journal keeps and what putting back compares. It ends with another
    code than 0 where the host has no such thing, and its last words say why.
    """

    reads: Words
    writes: Callable[[str], tuple[Words, ...]]
    """The commands that bring about a value: `wanted`, or what `value` made of an earlier text."""
    value: Callable[[str], str] = str.strip
    """The value in a text that `reads` printed."""
    refuses: Callable[[str], str] = _allow
    """Reason why a host that shows this text cannot take the setting; empty if it can."""
    needs: frozenset[str] = frozenset()
    """The needs of the change: root, a guest restart, a reboot."""
    legal: str = ""
    """The values that can be asked for, in words."""

    # What few settings have to say.
    probe: Words = ()
    """A command that ends with 0 where the host can take the setting, and changes nothing."""
    live: Words = ()
    """Shows what really runs, where `reads` shows only what the next start will bring."""
    persists: bool = False
    """Whether the change outlives a reboot of the host."""
    cuts_management: bool = False
    """Whether the change can cut the path that commands take; a dead-man is armed before it."""
    stands_for: str = ""
    """Named substitute: what this replaces, if the kind of host lacks the thing itself."""
    settle_seconds: float = 0.0
    """Seconds that the value may take to show after the last command."""
    seconds: float = 0.1
    """About how long one change takes."""
    after: tuple[str, ...] = ()
    """Changes made before this one on the same host: classes of settings, their things, or
    settings in full, as `str` has them."""
    held: Callable[[str], tuple[Way, str]] | None = None
    """For a device that can get another name, or be replaced by one of its name: from what `reads`
    printed, the way to that very device, and what the `reads` of that way prints."""
    foretold: Callable[[str], str] = _allow
    """Output of `reads` once it is in force, by what it printed before; empty if only a
    try shows it. What shows that at once need not be seen to stand still."""
    several: Words = ()
    """A command that does several such `reads` at once, where to start it is most of the work: of
    lines `THING READS` it makes `THING TEXT`, all encoded as the journal's fields are. What it
    leaves out is read by itself."""
    replaces: str = ""
    """The role of a guest whose devices it replaces: what was set on them goes first, and then
    again. What somebody else has set there keeps it from being made."""
    apart: str = ""
    """Such as the name of a guest: changes whose words here differ do not meet on the host, and so
    are made at the same time."""
    crowds: bool = False
    """Whether it takes time from guests, which therefore put back first what they have to."""


def type_name(slot: Field[Any]) -> str:
    """The type of a field as it is written, whether or not its module postpones annotations."""
    return slot.type.__name__ if isinstance(slot.type, type) else str(slot.type)


@dataclass(frozen=True)
class Setting(ABC):
    """One thing that a study changes on the host that plays `role`."""

    role: ClassVar[str]

    def __post_init__(self) -> None:
        """Refuse a switch that is neither True nor False: `"off"` would count as True."""
        for slot in fields(self):
            value, kinds = getattr(self, slot.name), type_name(slot).split(" | ")
            if "bool" in kinds and not (isinstance(value, bool) or f"{value}" in kinds):
                title = f"{type(self).__name__}: {slot.name}"
                raise BadInput(f"{title} is True or False, not {value!r}")

    @property
    def ours(self) -> tuple[str, ...]:
        """Names of processes that it keeps busy while it is in force: no foreign load."""
        return ()

    @property
    def resting(self) -> tuple[str, ...]:
        """Roles of guests that do not run while it is in force."""
        return ()

    @property
    def starts(self) -> tuple[str, ...]:
        """Roles of guests that it starts, should they be off."""
        return ()

    @property
    def instead_of(self) -> Setting | None:
        """The setting that it replaces on hosts which cannot have that one; None: it is its own."""
        return None

    @property
    def thing(self) -> str:
        """The thing to change; two settings of one thing replace each other."""
        return f"{type(self).__name__} of {self.role}"

    @property
    @abstractmethod
    def wanted(self) -> str:
        """The value that the way's `value` gives once the setting is in force."""

    def clash(self, setting: Setting) -> str:
        """Reason why the two cannot be in force on one host together; empty if they can."""
        return ""

    @abstractmethod
    def way(self, kind: str, host: Host) -> Way:
        """The way of this kind of host, or `Impossible`; `host` is looked at, never asked."""

    def __str__(self) -> str:
        return f"{type(self).__name__} = {self.wanted}"


def held(way: Way, text: str) -> tuple[Way, str]:
    """The way to the very device that has been looked at, and what it showed."""
    return way.held(text) if way.held else (way, text)


def way_among(setting: Setting, kinds: Iterable[str], host: Host) -> tuple[str, Way]:
    """The first of the host's kinds that has a way for the setting, and that way."""
    reasons: list[Impossible] = []
    for kind in kinds:
        try:
            return kind, setting.way(kind, host)
        except Impossible as reason:
            reasons.append(reason)
    raise reasons[0] if reasons else Impossible(f"{host.name} is of no kind that labkit knows")


def refuse_conflicts(settings: Sequence[Setting]) -> None:
    """Raise when two of them cannot be in force on one host at the same time."""
    if not isinstance(settings, Sequence) or not all(isinstance(s, Setting) for s in settings):
        hint = "such as: [Mtu(1400, role='client')]"
        raise BadInput(f"a list of settings is needed, not {settings!r}", hint=hint)
    owners: dict[str, str] = {}
    of_role: dict[str, list[Setting]] = {}
    for setting in settings:
        if (value := owners.setdefault(setting.thing, setting.wanted)) != setting.wanted:
            raise BadInput(f"{setting.thing} cannot be both {value!r} and {setting.wanted!r}")
        of_role.setdefault(setting.role, []).append(setting)
    for settings_of in of_role.values():
        for setting, two in permutations(settings_of, 2):
            if reason := setting.clash(two):
                raise BadInput(f"{setting.thing} and {two.thing} rule each other out: {reason}")
