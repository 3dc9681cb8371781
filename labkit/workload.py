"""A workload: `run` touches hosts and returns what the tool printed, `parse` only reads it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from labkit.errors import BadInput, Unknown
from labkit.host import Host
from labkit.programs.packages import brings
from labkit.runs.capacity import Capacity
from labkit.setting import type_name
from labkit.statistics.percentiles import PERCENTILES, percentile


@dataclass(frozen=True)
class Sample:
    """All values of one metric from one run, in order, in `unit`; `lost` requests got no answer."""

    metric: str
    unit: str
    values: npt.NDArray[np.float64]
    lost: int = 0
    adds: bool = False
    """Whether what several pairs of hosts did at the same time adds up, value by value."""
    kind: str = ""
    """`count`, or `share` where each value is a trial, 0 or 1: their intervals are exact."""

    @classmethod
    def single(cls, metric: str, unit: str, value: float, kind: str = "") -> Self:
        """A sample of one value."""
        return cls(metric, unit, np.array([float(value)]), kind=kind)


KINDS: Mapping[str, tuple[str, type]] = {
    "int": ("a whole number", Integral), "float": ("a number", Real), "str": ("a text", str),
    "bool": ("true or false", bool),
}  # fmt: skip
"""Kinds of knobs by the types of their fields: words, and what they are an instance of."""
Series = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
"""Moments in seconds since 1970 by the client's clock, and the value at each."""


def knob(default: Any, low: float, high: float) -> Any:
    """A field of a load: a number from `low` to `high`."""
    return field(default=default, metadata={"ends": (low, high)})


def choice(default: str, known: Iterable[str]) -> Any:
    """A field of a load: one of the known words."""
    return field(default=default, metadata={"known": tuple(known)})


def steps_of(text: str, most: int) -> list[int]:
    """Numbers from 1 to `most`, such as `1 2 4`, in order; none where the text is anything else."""
    words = text.split() if re.fullmatch(r"\d{1,3}( \d{1,3})*", text, re.ASCII) else []
    numbers = sorted({int(word) for word in words})
    return numbers if numbers and numbers[0] >= 1 and numbers[-1] <= most else []


class Beside(Protocol):
    """An activity beside a load while it runs."""

    def begun(self) -> None:
        """The load is steady from now on."""

    @property
    def going(self) -> bool:
        """Whether the load has to go on."""


@dataclass(frozen=True)
class Workload(ABC):
    """A documented load; the fields are its knobs and their defaults are the document's."""

    roles: ClassVar[tuple[str, ...]]
    loop: ClassVar[str]
    """`open` (sends on schedule) or `closed` (waits for the answer: hides stalls); empty where
    nothing is asked, as by a program that computes."""
    ours: ClassVar[tuple[str, ...]] = ()
    """Processes of it that run before it begins, such as a server: no foreign load."""
    programs: ClassVar[tuple[str, ...]] = ()
    """The programs that make the load; each run keeps their versions."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Programs that its hosts need and few have."""
    beside: ClassVar[tuple[str, ...]] = ()
    """Roles of hosts that it only looks at, and that need none of its tools."""
    optional: ClassVar[tuple[str, ...]] = ()
    """Roles that it uses where the lab has them."""
    here: ClassVar[tuple[str, ...]] = ()
    """Programs that the machine labkit runs on needs for it."""

    brings: ClassVar[str] = ""
    """Software that `install` brings, beside packages: its name, and its size."""

    measures: ClassVar[tuple[str, ...]] = ()
    """The metrics of its samples, without points; empty where only a run can tell."""

    rate_and_loss: ClassVar[tuple[str, str]] = ("", "")
    """The metric of what arrived, if it is sent at a chosen rate, and that of the share lost."""

    of_kernel: ClassVar[tuple[str, ...]] = ()
    """Of these, those that counters of a Linux kernel show on the role `host`; ESXi has none."""

    # Before a knob of a wrong kind is compared with anything.
    def __new__(cls, *values: Any, **knobs: Any) -> Self:
        """A load; a knob that is not known, of a wrong kind or out of its range is refused."""
        slots, load = {slot.name: slot for slot in fields(cls)}, super().__new__(cls)
        for name, value in {**dict(zip(slots, values, strict=False)), **knobs}.items():
            if name not in slots:
                raise Unknown(f"knob of {cls.__name__}", name, slots)
            words, kind = KINDS.get(type_name(slots[name]), ("", object))
            if not isinstance(value, kind):
                raise BadInput(f"{cls.__name__.lower()}: {name} must be {words}, not {value!r}")
            load._insist_legal(name, value, slots[name].metadata)
        return load

    def _insist_legal(self, name: str, value: Any, rule: Mapping[str, Any]) -> None:
        if value not in rule.get("known", (value,)):
            raise Unknown(f"{name} of {self._tool}", value, rule["known"])
        if ends := rule.get("ends"):
            self.insist_between(name, value, *ends)

    def insist_between(self, name: str, value: float, low: float, high: float) -> None:
        """Refuse what is no plain number, or lies outside these ends."""
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        if not plain or not low <= value <= high:
            raise BadInput(f"{self._tool}: {name} must be {low} to {high}, not {value!r}")

    @property
    def _tool(self) -> str:
        return self.name.replace("_", " ")

    @property
    def tools(self) -> Mapping[str, str]:
        """The same, and how one gets them."""
        return {word: brings(word) for word in self.needs}

    @property
    def only(self) -> Mapping[str, str]:
        """Of its tools, those that one role alone needs: program, role."""
        return {}

    @property
    def name(self) -> str:
        """The name of the tool, under which its raw text is kept."""
        return type(self).__name__.lower()

    @property
    @abstractmethod
    def seconds(self) -> float:
        """About how long one run takes."""

    @property
    def longest(self) -> float:
        """Seconds of the longest command that is found again after a break; 0: there is none."""
        return self.seconds

    @abstractmethod
    def run(self, hosts: Mapping[str, Host]) -> str:
        """Run once between the hosts that play `roles`; return everything the tool printed."""

    def during(self, hosts: Mapping[str, Host], beside: Beside) -> str:
        """Run as `run` does, while something else happens that waits until the load is steady."""
        beside.begun()
        return self.run(hosts)

    @staticmethod
    def over_time(text: str) -> Mapping[str, Series]:
        """The results over time by metric, if the load prints them; read from its text."""
        return {}

    def asking(self, hosts: Mapping[str, Host]) -> AbstractContextManager[tuple[str, ...]]:
        """The client's command while its server serves, so that several can start together."""
        raise BadInput(f"{self.name} cannot run between several pairs of hosts at once")

    def fitted(self, places: Sequence[Capacity]) -> Self:
        """With the sizes that were left open, so that all of these places have room for it."""
        return self

    @property
    def scaled(self) -> str:
        """The sizes that are not the document's, in words; empty where there are none."""
        return ""

    @property
    def memory(self) -> int:
        """KiB that a run takes of each server's memory; 0 where that is little."""
        return 0

    @property
    def disk(self) -> int:
        """KiB of files that a run writes on each server; 0 where that is little."""
        return 0

    def freed(self) -> Workload:
        """The same load by free tools; itself where no tool of it has one that stands in."""
        return self

    @property
    def substitutes(self) -> str:
        """The tools in place of the document's, in words; empty where there are none."""
        return ""

    def lacking(self, hosts: Mapping[str, Host]) -> str:
        """Reason why these hosts cannot run it as it is; empty if they can."""
        return ""

    def there(self, host: Host) -> bool:
        """Whether the host has what the load `brings`."""
        return True

    def install(self, host: Host) -> None:
        """Bring it there."""
        raise BadInput(f"{self.name} brings nothing to {host.name}")

    def behind(self, text: str) -> float | None:
        """The share of its schedule that an open loop missed, by times of its own in the text.

        None where the text does not say when it asked.
        """
        return None

    @staticmethod
    def remark(text: str) -> str:
        """Remarks on how this run was made, by its text; empty if there are none."""
        return ""

    @staticmethod
    @abstractmethod
    def parse(text: str) -> list[Sample]:
        """Read what `run` returned; pure, so that old runs can be read again."""


def row(sample: Sample) -> dict[str, Any]:
    """Return the row that a run keeps of a sample beside its raw text."""
    values = {f"p{q:g}": round(percentile(sample.values, q), 3) for q in PERCENTILES}
    return {
        "metric": sample.metric, "unit": sample.unit, "n": len(sample.values), "lost": sample.lost,
        **values, "max": round(float(sample.values.max()), 3),
    }  # fmt: skip
