"""Settings of hosts as rows of a table, and the ways that many of them go."""

import re
from abc import ABC
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, ClassVar, dataclass_transform

from labkit.errors import Impossible
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import KINDS, Setting, Way, Words, type_name
from labkit.settings._fields import amount, aside, cpu_set, name, pattern, rule, share, switch, word

PROGRAMS = ("find",)

ROOT = frozenset({"root"})
REBOOT = frozenset({"root", "reboot"})
RESTART = frozenset({"root", "guest restart"})

# `tee` names the error of a write, which `echo` of some shells calls an I/O error whatever it was.
WRITE = 'printf %s "$1" | tee "$2" >/dev/null'
WRITE_EACH = """\
for pair; do printf %s "${pair#*=}" | tee "${pair%%=*}" >/dev/null || exit; done"""
# `sed` would end with 0 although the command before it did not.
PICK = 'p=$1; shift; said=$("$@") || exit; printf "%s\\n" "$said" | sed -n "$p"'
# What the host's first process may use is what the host has, however many the machine has. The
# shell itself reads it: to start programs takes longer, most of all beside a neighbour.
CPUS = beside(__file__, "_ways_cpus.sh")
# The hosts of a lab in a box are one machine; a guest of it has a kernel of its own.
# A file of the kernel that nobody may write opens all the same for a root that only asks `test`.
OWN_KERNEL = beside(__file__, "_ways_own_kernel.sh")


@dataclass_transform(
    frozen_default=True,
    field_specifiers=(field, rule, amount, share, word, switch, pattern, name, aside, cpu_set),
)
@dataclass(frozen=True)
class OnHost(Setting, ABC):
    """A row of the table of settings: its fields, and a way for each kind of host that has it.

    Each class below it is a frozen dataclass by that alone. What is wanted, legal and refused comes
    from its fields. `on_linux`, `on_esxi`, ... are the ways: a line with `by`, or a method where
    the host must be looked at.
    """

    gaps: ClassVar[Mapping[str, str]] = {}
    """Extra reason why a kind of host lacks this setting."""

    role: str = field(default="server", kw_only=True)  # type: ignore[misc]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        """Refuse what the fields do not take."""
        super().__post_init__()
        for slot in fields(self):
            content = getattr(self, slot.name)
            absent = content is None and "None" in type_name(slot)
            if "value" in slot.metadata and not absent:
                slot.metadata["value"].check(content)

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        """The kinds of host that have it; a class without any is only a base of settings."""
        return tuple(kind for kind in KINDS if hasattr(cls, f"on_{kind}"))

    @property
    def which(self) -> str:
        """Its name among things of that sort on the host; empty if there is only one."""
        return " ".join(self._texts(naming=True))

    @property
    def wanted(self) -> str:
        """The fields that say no `which`, as they are written."""
        return " ".join(self._texts(naming=False))

    def _slots(self, naming: bool) -> list[Field[Any]]:
        slots = [slot for slot in fields(self) if slot.name != "role"]
        return [slot for slot in slots if slot.metadata.get("which", False) == naming]

    def _texts(self, naming: bool) -> Iterator[str]:
        for slot in self._slots(naming):
            content = getattr(self, slot.name)
            if "value" in slot.metadata and content is not None:
                yield slot.metadata["value"].text(content)
            elif content is not None:
                yield on_or_off(content) if isinstance(content, bool) else str(content)

    def _legal(self) -> str:
        slots = self._slots(naming=False)
        if [type_name(slot) for slot in slots] == ["bool"]:
            return "on or off"
        rule = slots[0].metadata.get("value") if len(slots) == 1 else None
        return rule.legal if rule else ""

    @property
    def thing(self) -> str:
        """The thing to change: the setting's name, the role, and `which` of several things."""
        return f"{super().thing}: {self.which}" if self.which else super().thing

    def way(self, kind: str, host: Host) -> Way:
        """The way of `on_<kind>`; where that does not say what is legal, a lone field does."""
        if kind in self.kinds():
            way: Way = getattr(self, f"on_{kind}")(host)
            return way if way.legal else replace(way, legal=self._legal())
        reason = self.gaps.get(kind, "")
        raise Impossible(
            f"{host.name}: {type(self).__name__} is for hosts of kind "
            f"{' or '.join(self.kinds())}, not {kind}{reason and ': '}{reason}"
        )


def by(make: Way | Callable[[Any], Way]) -> Callable[[Any, Host], Way]:
    """A way for one kind of host that is always the same, or is made from the setting alone."""
    return lambda setting, host: make if isinstance(make, Way) else make(setting)


# --- ways that many settings go ---------------------------------------------------------------


def on_or_off(on: bool) -> str:
    """The word for it."""
    return "on" if on else "off"


def alike(text: str) -> str:
    """Lines THING=VALUE whose values are all alike, as that value; else as they are."""
    values = {pair.partition("=")[2] for pair in text.split()}
    return values.pop() if len(values) == 1 else " ".join(text.split())


def picked(program: str, *words: str) -> Words:
    """A command whose shown lines a `sed -n` program picks."""
    return ("sh", "-c", PICK, "pick", program, *words)


def script(text: str, *words: str) -> Words:
    """A few lines of POSIX shell, and the words that it finds in $1 and on."""
    return ("sh", "-c", text, "labkit", *words)


def of_file(path: str) -> Way:
    """A value that is the whole content of a file of the kernel; its errors keep their names."""
    return Way(("cat", path), lambda value: (script(WRITE, value, path),), needs=ROOT)


def of_machine(path: str) -> Way:
    """Such a file that the whole machine has only once."""
    return replace(of_file(path), probe=script(OWN_KERNEL, path))


def of_sysctl(key: str) -> Way:
    """A sysctl; only those of `net` are a namespace's own. Numbers are one blank apart."""
    path = "/proc/sys/" + key.replace(".", "/")
    way = of_file(path) if key.startswith("net.") else of_machine(path)
    return replace(way, value=lambda text: " ".join(text.split()))


def of_choice(path: str) -> Way:
    """A file that shows all choices, the one in force in brackets."""
    choice = re.compile(r"\[([^\]]+)\]")
    return replace(of_machine(path), value=lambda text: "".join(choice.findall(text)))


def in_words(way: Way, words: Mapping[str, str]) -> Way:
    """The same way where what the host shows is said in our words; all else is left alone."""
    values = {ours: theirs for theirs, ours in words.items()}
    return replace(
        way,
        value=lambda text: words.get(shown := way.value(text), shown),
        writes=lambda value: way.writes(values.get(value, value)),
    )


def switched(way: Way, on: str = "1", off: str = "0") -> Way:
    """The same way for a switch."""
    return in_words(way, {on: "on", off: "off"})
