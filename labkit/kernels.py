"""Separates conditions on a machine's own kernel from those in an emulated guest."""

import re
from collections.abc import Iterable, Mapping

from labkit.lab import Lab
from labkit.statistics.measurand import Measurand
from labkit.verdict import REAL_KERNEL

EMULATION = "emulated guest"
HARDWARE = "guest by KVM"
NAMES = {"uml": "User-Mode Linux", "tcg": "QEMU without hardware support"}
LONGEST = 18
"""Letters of a note's brief form."""


class Note(str):
    """The label that every figure carries, which has a brief form besides."""

    brief: str
    emulated: tuple[str, ...]
    """The conditions that are emulated, where others are not."""

    def __new__(cls, text: str, brief: str, emulated: tuple[str, ...] = ()) -> "Note":
        """Make the label of all three."""
        note = super().__new__(cls, text)
        note.brief, note.emulated = brief, emulated
        return note

    def __reduce__(self) -> tuple[type["Note"], tuple[str, str, tuple[str, ...]]]:
        """What a copy is made of."""
        return Note, (str(self), self.brief, self.emulated)


def label(lab: Lab, in_guest: bool | None) -> str:
    """A label for what a condition runs on in this lab; empty on real hosts, and if nobody said."""
    if in_guest is None or not lab.emulated:
        return ""
    if not in_guest or not lab.accelerator:  # hosts of a box may stand in for guests
        return REAL_KERNEL
    kinds = _kinds(lab.accelerator)
    names = " or ".join(NAMES.get(kind, kind) for kind in kinds)
    return HARDWARE if kinds == ["kvm"] else f"{EMULATION} ({names})"


def emulates(accelerator: str) -> bool:
    """Whether some guests of a lab, by what runs them, have no hardware support."""
    return any(kind in NAMES for kind in _kinds(accelerator))


def _kinds(accelerator: str) -> list[str]:
    return [kind.strip() for kind in accelerator.split(",")]


def is_emulated(label: str) -> bool:
    """Whether a label is that of a guest that has no hardware support."""
    return label.startswith(EMULATION)


def labels(names: Iterable[str], kernels: Mapping[str, str]) -> dict[str, list[str]]:
    """The conditions behind the names of a claim, by what they ran on."""
    names_of: dict[str, list[str]] = {}
    for name in map(Measurand.of, names):
        at = kernels.get(max(filter(name.is_of, kernels), key=len, default=""), "")
        if at:
            members = names_of.setdefault(at, [])
            members += [name.at] if name.at not in members else []
    return names_of


def titles(kernels: Mapping[str, str]) -> dict[str, str]:
    """Titles for conditions that are named after KVM: they say what ran in its place, if anything.

    Results, claims and commands go on calling them by their names.
    """
    return {
        name: f"{name} ({on.removeprefix(EMULATION).strip(' ()')} here)"
        for name, on in kernels.items()
        if is_emulated(on) and re.search(r"\bKVM\b", name)
    }


def decided(groups: Iterable[Iterable[str]], kernels: Mapping[str, str]) -> str:
    """The reason why the emulation decides between compared conditions; empty if it does not."""
    for names in groups:
        on = labels(names, kernels)
        if len({*map(is_emulated, on)}) > 1:
            named = sorted({EMULATION if is_emulated(kernel) else kernel for kernel in on})
            return f"the emulation decides between an {' and a '.join(named)}"
    return ""


def told(kernels: Mapping[str, str]) -> str:
    """All conditions by what they ran on, for the label of a chart."""
    names_of = labels(kernels, kernels)
    if len(names_of) == 1 < len(kernels):
        return f"All conditions: {next(iter(names_of))}"
    return "; ".join(f"{', '.join(members)}: {kernel}" for kernel, members in names_of.items())


def beside_real(kernels: Mapping[str, str]) -> tuple[str, ...]:
    """The emulated conditions where others are not; where all are, they may be compared."""
    names = tuple(name for name, on in kernels.items() if is_emulated(on))
    return names if len(names) < len(kernels) else ()


def brief(kernels: Mapping[str, str]) -> str:
    """Name the emulated conditions in a few words."""
    conditions = beside_real(kernels)
    if not conditions:
        return "all emulated" if any(map(is_emulated, kernels.values())) else "real kernel"
    text = f"emulated: {', '.join(conditions)}"
    return text if len(text) <= LONGEST else f"emulated: {len(conditions)} of {len(kernels)}"
