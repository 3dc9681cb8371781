"""The name of a measured thing: a metric, under a condition, at a point.

Its key is `metric: condition [point]`; the metric of the study itself, and a point, may be left
out. This module alone takes keys apart.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Measurand:
    """`ready_time: VM [vms=4]`; a metric has `_` where its own name has blanks."""

    condition: str
    metric: str = ""
    point: str = ""

    @classmethod
    @functools.cache
    def of(cls, key: str) -> Measurand:
        """The name behind a key."""
        metric, _, condition = key.rpartition(": ")
        plain, _, point = condition.partition(" [")
        return cls(plain, metric, point.removesuffix("]"))

    @classmethod
    def measured(cls, metric: str, condition: str, main: str) -> Measurand:
        """The name of a metric such as `bandwidth [op=Copy]`, whose point is the condition's.

        The `main` metric of a study has no name of its own. A point that the condition has by
        itself comes before that of the metric.
        """
        head, point = metric_and_point(metric)
        name = cls.of(condition)
        points = ", ".join(filter(None, (name.point, point)))
        return cls(name.condition, "" if head == main else plain(head), points)

    @property
    def at(self) -> str:
        """The condition at its point, as claims write it."""
        return f"{self.condition} [{self.point}]" if self.point else self.condition

    def has(self, key: str) -> bool:
        """Whether a study means it by this key: itself, or its condition, metric or point.

        Of a point, `vms=4` or `vms` will do.
        """
        parts = self.point.split(", ")
        heads = [part.partition("=")[0] for part in parts]
        names = (self.condition, self.metric, self.at, str(self), *parts, *heads)
        return key in names or self.is_of(key)

    def is_of(self, condition: str) -> bool:
        """Whether it is of that condition, whose own name may end with a point."""
        inner = f"{condition[:-1]}, " if condition.endswith("]") else f"{condition} ["
        return self.at == condition or self.at.startswith(inner)

    def before(self, point: str) -> str:
        """The condition without this point, which comes last; empty where it has none such."""
        points = self.point.split(", ")
        if points[-1] != point:
            return ""
        return str(replace(self, metric="", point=", ".join(points[:-1])))

    def __str__(self) -> str:
        return f"{self.metric}: {self.at}" if self.metric else self.at


def measurands(keys: Iterable[str]) -> list[Measurand]:
    """The names behind keys, each once."""
    return list(dict.fromkeys(map(Measurand.of, keys)))


def metric_and_point(metric: str) -> tuple[str, str]:
    """`bandwidth` and `op=Copy`, of `bandwidth [op=Copy]`."""
    head, _, point = metric.partition(" [")
    return head, point.removesuffix("]")


def plain(metric: str) -> str:
    """The metric as keys and claims write it, at any point."""
    return metric_and_point(metric)[0].replace(" ", "_")
