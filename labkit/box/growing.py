"""Guests and containers of a topology in as many copies as the machine has room for.

`many = "2-8"` of a guest is at least 2 and at most 8 of it: guest, guest2, ... So are `vcpus` and
`memory`. `many = "2 for each guest"` of a container follows the guests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from labkit.box.machine import Machine
from labkit.errors import BadInput

MANY = "many"
BETWEEN = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?", re.ASCII)
MEMORY = re.compile(r"(\d{1,6})M(?:-(\d{1,6})M)?", re.ASCII)
FOLLOWS = re.compile(r"(\d{1,2}) for each ([a-z][a-z0-9]*)", re.ASCII)
USUAL_MEMORY = "128M"
ROOM = 0.5
"""The share of the free memory up to which guests grow: what runs beside them needs some too."""
Tables = Mapping[str, Any]


@dataclass(frozen=True)
class _Family:
    """The first of several guests: how many there may be, and what each may have."""

    many: tuple[int, int]
    vcpus: tuple[int, int]
    memory: tuple[int, int]

    @classmethod
    def of(cls, name: str, role: str, table: Tables) -> _Family:
        """Read it from its table."""
        usual = ((MANY, "1", BETWEEN), ("vcpus", "1", BETWEEN), ("memory", USUAL_MEMORY, MEMORY))
        return cls(*(_range(name, role, key, table.get(key, text), form)
                     for key, text, form in usual))  # fmt: skip

    def number(self, cpus: int) -> int:
        """The number of copies on a number of CPUs."""
        return min(max(cpus // max(1, self.vcpus[0]), self.many[0]), self.many[1])

    def sized(self, cpus: int, share: int) -> dict[str, str]:
        """Sizes of each copy on a number of CPUs; each may have a `share` of the memory, in MiB."""
        number = self.number(cpus)
        vcpus = min(max(cpus // max(1, number), self.vcpus[0]), self.vcpus[1])
        low, high = self.memory
        memory = min(max(share, low), high) if number == self.many[1] else low
        return {"vcpus": str(vcpus), "memory": f"{memory}M"}


def grows(document: Tables) -> bool:
    """Whether these tables of a topology depend on the machine."""
    kinds = [document.get(kind, {}) for kind in ("guests", "containers")]
    tables = [table for kind in kinds if isinstance(kind, dict) for table in kind.values()]
    # What is none is refused by who reads it.
    odd = [value for value in (*kinds, *tables) if not isinstance(value, dict)]
    return not odd and any(MANY in table for table in tables)


def grown(
    name: str, document: Tables, machine: Machine, cpus_of: Mapping[str, int]
) -> dict[str, Any]:
    """The tables with each copy in place; `cpus_of` are the numbers of CPUs of the hosts."""
    guests: Tables = document.get("guests", {})
    families = {role: _Family.of(name, role, table) for role, table in guests.items()}
    on = {role: cpus_of.get(str(guests[role].get("on")), 1) for role in guests}
    cpus = _fitting(families, on, machine.free)
    numbers = {role: family.number(cpus[role]) for role, family in families.items()}
    share = int(ROOM * machine.free) // max(1, sum(numbers.values()))
    copies = {
        copy: _plain(guests[role]) | _sizes(guests[role], family.sized(cpus[role], share))
        for role, family in families.items() for copy in numbered(role, numbers[role])
    }  # fmt: skip
    if len(copies) < sum(numbers.values()):
        raise BadInput(f"{name}: a guest that is there {MANY} times has the name of another")
    containers = dict(_copies_of(name, document.get("containers", {}), numbers))
    parts = {"guests": copies, "containers": containers}
    return {**document, **{kind: tables for kind, tables in parts.items() if kind in document}}


def numbered(role: str, count: int) -> tuple[str, ...]:
    """Roles of a lab: the first has no number, those beside it are counted from 2."""
    return tuple(role + (str(n) if n > 1 else "") for n in range(1, count + 1))


# All sizes of guests fill a power of two, so that few large ones have as many CPUs as many small.
# Where they would not fit the memory, there are fewer.
def _fitting(families: Mapping[str, _Family], on: Mapping[str, int], free: int) -> dict[str, int]:
    cpus = {role: 1 << max(1, count.bit_length() - 1) for role, count in on.items()}
    while max(cpus.values(), default=0) > 2:
        if sum(f.number(cpus[role]) * f.memory[0] for role, f in families.items()) <= ROOM * free:
            break
        cpus = {role: max(2, count // 2) for role, count in cpus.items()}
    return cpus


def _plain(table: Tables) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key != MANY}


def _sizes(table: Tables, sizes: Mapping[str, str]) -> dict[str, str]:
    return {key: size for key, size in sizes.items() if "-" in str(table.get(key, ""))}


# Those on a guest are dealt out in turn, each guest its own first.
def _copies_of(
    name: str, tables: Tables, numbers: Mapping[str, int]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for role, table in tables.items():
        count, guest = _follows(name, role, table, numbers)
        for n, copy in enumerate(numbered(role, count * numbers.get(guest, 1))):
            on = table.get("on")
            inside = {"on": numbered(guest, numbers[guest])[n // count]} if on == guest else {}
            yield copy, {**_plain(table), **inside}


def _follows(name: str, role: str, table: Tables, numbers: Mapping[str, int]) -> tuple[int, str]:
    if MANY not in table:
        return 1, ""
    match = FOLLOWS.fullmatch(str(table[MANY]))
    if not match or match[2] not in numbers:
        hint = f'such as many = "2 for each {next(iter(numbers), "guest")}"'
        raise BadInput(f"{name}: {role} cannot be there {table[MANY]!r} times", hint=hint)
    return int(match[1]), match[2]


def _range(name: str, role: str, key: str, text: object, form: re.Pattern[str]) -> tuple[int, int]:
    match = form.fullmatch(str(text))
    if not match or int(match[2] or match[1]) < int(match[1]):
        hint = 'a number, or two as in "2-8"; memory as "256M" or "256M-1024M"'
        raise BadInput(f"{name}: {role} has no {key} {text!r}", hint=hint)
    return int(match[1]), int(match[2] or match[1])
