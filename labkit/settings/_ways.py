"""Shared parts of settings: about whom they are, what may be asked, and the ways that many go."""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from labkit.errors import BadInput, Impossible, Unknown
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import KINDS, Details, Setting, Way, Words

PROGRAMS = ("find",)

ROOT = frozenset({"root"})
REBOOT = frozenset({"root", "reboot"})
RESTART = frozenset({"root", "guest restart"})

# `tee` names the error of a write, which `echo` of some shells calls an I/O error whatever it was.
WRITE = 'printf %s "$1" | tee "$2" >/dev/null'
# `sed` would end with 0 although the command before it did not.
PICK = 'p=$1; shift; said=$("$@") || exit; printf "%s\\n" "$said" | sed -n "$p"'
# What the host's first process may use is what the host has, however many the machine has. The
# shell itself reads it: to start programs takes longer, most of all beside a neighbour.
CPUS = beside(__file__, "_ways_cpus.sh")
# The hosts of a lab in a box are one machine; a guest of it has a kernel of its own.
# A file of the kernel that nobody may write opens all the same for a root that only asks `test`.
OWN_KERNEL = beside(__file__, "_ways_own_kernel.sh")


@dataclass(frozen=True)
class OnHost(Setting, ABC):
    """A setting with one method for each kind of host that has it: `on_linux`, `on_esxi`, ..."""

    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Extra reason why a kind of host lacks this setting."""

    role: str = field(default="server", kw_only=True)  # type: ignore[misc]

    @property
    def which(self) -> str:
        """Its name among things of that sort on the host; empty if there is only one."""
        return ""

    @property
    def thing(self) -> str:
        """The thing to change: the setting's name, the role, and `which` of several things."""
        return f"{super().thing}: {self.which}" if self.which else super().thing

    def way(self, kind: str, host: Host) -> Way:
        """The way from the method for this kind of host."""
        made: Callable[[Host], Way] | None = getattr(self, f"on_{kind}", None)
        if made is not None:
            return made(host)
        able = [one for one in KINDS if hasattr(self, f"on_{one}")]
        why = self.elsewhere.get(kind, "")
        raise Impossible(
            f"{host.name}: {type(self).__name__} is for hosts of kind {' or '.join(able)}, "
            f"not {kind}{why and ': '}{why}"
        )


# --- what may be asked ------------------------------------------------------------------------


def number(what: str, value: object, low: float, high: float, unit: str = "") -> None:
    """Refuse what is no number from `low` to `high`; a text with a unit in it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadInput(f"{what} is a number{' of ' * bool(unit)}{unit} from {low} to {high}, "
                       f"not {value!r}")  # fmt: skip


def whole(what: str, value: object, low: int, high: int, unit: str = "") -> None:
    """Refuse what is no whole number from `low` to `high`."""
    number(what, value, low, high, unit)
    if not isinstance(value, int):
        raise BadInput(f"{what} is a whole number{' of ' * bool(unit)}{unit}, not {value!r}")


def one_of(what: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse a word that is not among the known ones."""
    if value not in known:
        raise Unknown(what, str(value), known)


def matching(what: str, value: object, pattern: str, like: str) -> None:
    """Refuse a text that is not wholly of a pattern; none of ours has room for a shell's signs."""
    if not isinstance(value, str) or not re.fullmatch(pattern, value, re.ASCII):
        raise BadInput(f"{value!r} is not a {what}", hint=f"one looks like {like}")


def named(what: str, value: object) -> None:
    """Refuse what is no plain name: letters, digits, and - _ . @ after the first."""
    matching(what, value, r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}", "lab-1")


def cpu_list(text: object) -> str:
    """A list of CPUs as the kernel writes it: `3,0,1` becomes `0-1,3`."""
    matching("list of CPUs", text, r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*", "0-3,6")
    return ranges(cpus_of(str(text)))


def cpus_of(text: str) -> tuple[int, ...]:
    """The numbers in a list of CPUs."""
    pairs = [part.partition("-")[::2] for part in text.split(",")]
    found = {n for a, b in pairs for n in range(int(a), int(b or a) + 1)}
    if not found:
        raise BadInput(f"{text!r} is not a list of CPUs", hint="one looks like 0-3,6")
    return tuple(sorted(found))


def ranges(numbers: tuple[int, ...]) -> str:
    """Numbers in order, neighbours drawn together."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


# --- ways that many settings go ---------------------------------------------------------------


def on_or_off(on: bool) -> str:
    """The word for it."""
    return "on" if on else "off"


def picked(program: str, *words: str) -> Words:
    """A command whose shown lines a `sed -n` program picks."""
    return ("sh", "-c", PICK, "pick", program, *words)


def script(text: str, *words: str) -> Words:
    """A few lines of POSIX shell, and the words that it finds in $1 and on."""
    return ("sh", "-c", text, "labkit", *words)


def written(path: str, text: str) -> Words:
    """Write a text to a file of the kernel; its errors keep their names."""
    return script(WRITE, text, path)


def of_file(path: str) -> Way:
    """A value that is the whole content of a file of the kernel."""
    return Way(("cat", path), lambda value: (written(path, value),), needs=ROOT)


def of_machine(path: str) -> Way:
    """Such a file that the whole machine has only once."""
    return of_file(path).plus(Details(probe=script(OWN_KERNEL, path)))


def of_sysctl(key: str) -> Way:
    """A sysctl; only those of `net` are a namespace's own. Numbers are one blank apart."""
    path = "/proc/sys/" + key.replace(".", "/")
    way = of_file(path) if key.startswith("net.") else of_machine(path)
    return replace(way, value=lambda text: " ".join(text.split()))


def of_choice(path: str) -> Way:
    """A file that shows all choices, the one in force in brackets."""
    found = re.compile(r"\[([^\]]+)\]")
    return replace(of_machine(path), value=lambda text: "".join(found.findall(text)))
